// The host's view of the library at work: log, zones and debug labels; and how pipelines with
// subgroup operations are created.
#include "device/environment.hpp"
#include "device/host.hpp"
#include "support/vulkan/spy_vulkan.hpp"

using namespace vkattn;
using namespace vkattn::test;

namespace {

struct Logged {
    std::vector<std::pair<vkattn_log_level, std::string>> lines;
    static void write(void *user, vkattn_log_level level, const char *message) {
        static_cast<Logged *>(user)->lines.emplace_back(level, message);
    }
    static void zone(void *, VkCommandBuffer, const char *name) { spy.events.push_back(name ? std::string("zone ") + name : "zone end"); }
    [[nodiscard]] size_t count(vkattn_log_level level) const {
        size_t n = 0;
        for (const auto &line : lines) n += line.first == level;
        return n;
    }
};

HostOptions spied(bool debugUtils) {
    spy = {};
    HostOptions options;
    options.apiVersion = VK_API_VERSION_1_2;
    options.debugUtils = debugUtils;
    options.askVkattn = true;
    options.getInstanceProcAddr = spyGetInstanceProcAddr;
    return options;
}

// Three stages that depend on each other.
vkattn_problem stagedProblem() {
    const vkattn_layout t = packed(VKATTN_F32, 1, 2, 8, 16);
    vkattn_problem p = problem(t, t, t, t);
    p.kernel = VKATTN_KERNEL_STAGED;
    return p;
}

std::vector<vkattn_binding> bindingsIn(const Host &host) {
    const uint64_t bytes = 2 * 8 * 16 * 4, step = 4096;
    return {{VKATTN_Q, host.buffer, 0, bytes},
            {VKATTN_K, host.buffer, step, bytes},
            {VKATTN_V, host.buffer, 2 * step, bytes},
            {VKATTN_OUT, host.buffer, 3 * step, bytes},
            {VKATTN_WORKSPACE, host.buffer, 4 * step, 1 << 16}};
}

const std::vector<std::string> nested = {"scores", "dispatch", "end",     "softmax",  "barrier", "dispatch",
                                         "end",    "values",   "barrier", "dispatch", "end"};

// The events of one call with its zones written out as `kinds` say, outermost first.
std::vector<std::string> expectedEvents(const std::vector<std::string> &kinds) {
    std::vector<std::string> list;
    const auto begin = [&](const std::string &name) {
        for (const std::string &kind : kinds) list.push_back(kind + " " + name);
    };
    const auto end = [&] {
        for (auto kind = kinds.rbegin(); kind != kinds.rend(); ++kind) list.push_back(*kind + " end");
    };
    begin("vkattn staged");
    for (const std::string &event : nested)
        if (event == "end")
            end();
        else if (event == "barrier" || event == "dispatch")
            list.push_back(event);
        else
            begin(event);
    end();
    return list;
}

} // namespace

TEST(Callbacks, zonesAndLabelsBracketTheCallAndEachDispatch) {
    for (const bool labels : {false, true})
        for (const bool zones : {false, true}) {
            Host host(spied(labels));
            ASSERT_TRUE(host.ready) << host.why;
            Logged log;
            host.host.userData = &log;
            if (zones) host.host.zone = Logged::zone;
            Context context;
            vkattn_diagnostic why{};
            ASSERT_EQ(context.create(host.host, &why), VKATTN_OK) << why.message;
            const vkattn_problem p = stagedProblem();
            // Nothing is recorded where no pipeline is ready, or an argument is wrong.
            EXPECT_EQ(context.record(p, host.commands, bindingsIn(host), host.descriptors), VKATTN_NOT_READY);
            EXPECT_EQ(context.record(p, host.commands, {}, host.descriptors), VKATTN_ERROR_INVALID_ARGUMENT);
            EXPECT_EQ(spy.events, std::vector<std::string>{});
            ASSERT_EQ(context.prewarm({&p, 1}, &why), VKATTN_OK) << why.message;
            ASSERT_EQ(context.record(p, host.commands, bindingsIn(host), host.descriptors, &why), VKATTN_OK) << why.message;
            std::vector<std::string> kinds;
            if (labels) kinds.emplace_back("label");
            if (zones) kinds.emplace_back("zone");
            EXPECT_EQ(spy.events, expectedEvents(kinds));
            EXPECT_EQ(spy.labelLookups > 0, labels) << "no function of an extension is looked up that the host did not declare";
            const std::vector<std::string> names =
                labels ? std::vector<std::string>{"vkattn scores", "vkattn softmax", "vkattn values"} : std::vector<std::string>{};
            std::vector<std::string> ofPipelines = spy.names;
            std::erase(ofPipelines, "vkattn storage buffers");
            EXPECT_EQ(ofPipelines, names);
            EXPECT_EQ(spy.names.size() - ofPipelines.size() > 0, labels); // layouts
            ASSERT_TRUE(host.submitAndWait());
        }
}

// A call that fails in the middle of recording ends every zone that it began.
TEST(Callbacks, zonesEndWhereRecordingFails) {
    HostOptions options;
    options.debugUtils = true;
    Host host(options); // no push descriptors
    ASSERT_TRUE(host.ready) << host.why;
    spy = {};
    Logged log;
    host.host.userData = &log;
    host.host.zone = Logged::zone;
    host.host.log = Logged::write;
    Context context;
    ASSERT_EQ(context.create(host.host), VKATTN_OK);
    const vkattn_problem p = stagedProblem();
    ASSERT_EQ(context.prewarm({&p, 1}), VKATTN_OK);
    fault = {"vkAllocateDescriptorSets", VK_ERROR_OUT_OF_POOL_MEMORY, 1, 1, false};
    EXPECT_EQ(context.record(p, host.commands, bindingsIn(host), host.descriptors), VKATTN_ERROR_OUT_OF_DEVICE_MEMORY);
    fault = {};
    EXPECT_EQ(spy.events,
              (std::vector<std::string>{"zone vkattn staged", "zone scores", "zone end", "zone softmax", "zone end", "zone end"}));
    ASSERT_EQ(log.count(VKATTN_LOG_ERROR), 1u);
    EXPECT_NE(log.lines.back().second.find("vkAllocateDescriptorSets"), std::string::npos) << log.lines.back().second;
}

TEST(Callbacks, theLogHasTheMessageOfEveryFailure) {
    Host host(spied(false));
    ASSERT_TRUE(host.ready) << host.why;
    Logged log;
    host.host.userData = &log;
    host.host.log = Logged::write;
    const auto expectLogged = [&](vkattn_result result, const std::string &part) {
        EXPECT_LT(result, 0);
        ASSERT_EQ(log.count(VKATTN_LOG_ERROR), 1u) << part;
        EXPECT_EQ(log.lines.back().first, VKATTN_LOG_ERROR);
        EXPECT_NE(log.lines.back().second.find(part), std::string::npos) << log.lines.back().second;
        log.lines.clear();
    };
    Context context;
    vkattn_host bad = host.host;
    bad.device = VK_NULL_HANDLE;
    expectLogged(context.create(bad), "host.device is NULL");
    bad = host.host;
    VkPhysicalDeviceFeatures2 noChain{};
    bad.enabledFeatures = &noChain;
    expectLogged(context.create(bad), "host.enabledFeatures->sType is 0");

    ASSERT_EQ(context.create(host.host), VKATTN_OK);
    EXPECT_EQ(log.lines.size(), 0u) << log.lines[0].second;
    vkattn_problem p = stagedProblem();
    ASSERT_EQ(context.prewarm({&p, 1}), VKATTN_OK);
    ASSERT_EQ(log.lines.size(), 3u) << "one line for each pipeline";
    for (size_t n = 0; n < 3; ++n) {
        EXPECT_EQ(log.lines[n].first, VKATTN_LOG_INFO);
        EXPECT_EQ(log.lines[n].second.find("compiled "), 0u) << log.lines[n].second;
        EXPECT_NE(log.lines[n].second.find(" ms"), std::string::npos) << log.lines[n].second;
    }
    log.lines.clear();
    expectLogged(context.record(p, host.commands, {}, host.descriptors), "q is not bound");
    p.structSize = 3;
    vkattn_requirements requirements{};
    expectLogged(context.query(p, requirements), "structSize");
    expectLogged(context.prewarm({&p, 1}), "structSize");
    vkattn_diagnostic why{}; // the same message in both places
    EXPECT_EQ(context.query(p, requirements, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(log.lines.back().second, why.message);
    log.lines.clear();
    vkattn_caps caps{};
    expectLogged(vkattnContextCaps(context.handle(), &caps), "structSize");
    p = stagedProblem();
    EXPECT_EQ(context.query(p, requirements), VKATTN_OK);
    EXPECT_EQ(log.lines.size(), 0u) << "calls that succeed are silent";
}

TEST(Callbacks, functionsThatAreMissingAreAWarning) {
    Host host(spied(true));
    ASSERT_TRUE(host.ready) << host.why;
    const vkattn_problem p = stagedProblem();
    const auto recorded = [&](const std::string &part) {
        Logged log;
        host.host.userData = &log;
        host.host.log = Logged::write;
        Context context;
        ASSERT_EQ(context.create(host.host), VKATTN_OK);
        ASSERT_EQ(log.count(VKATTN_LOG_WARNING), 1u);
        EXPECT_NE(log.lines.back().second.find(part), std::string::npos) << log.lines.back().second;
        ASSERT_EQ(context.prewarm({&p, 1}), VKATTN_OK);
        EXPECT_EQ(context.record(p, host.commands, bindingsIn(host), host.descriptors), VKATTN_OK);
    };
    spy.hideLabels = true;
    recorded(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
    EXPECT_EQ(spy.names.size(), 0u);
    spy.hideLabels = false;
    spy.hidePushDescriptors = true;
    // Everything that helps is declared, so that nothing else is worth a warning.
    std::vector<const char *> declared = host.extensions;
    declared.push_back(VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME);
    host.host.enabledExtensions = declared.data();
    host.host.enabledExtensionCount = static_cast<uint32_t>(declared.size());
    recorded(VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME);
}

// Pipelines follow the device: they require whole subgroups where the feature is on and shaders
// shuffle, and nothing where the feature is off.
TEST(Subgroups, pipelinesAskForWholeSubgroups) {
    for (const bool enabled : {true, false}) {
        Host host(spied(false));
        ASSERT_TRUE(host.ready) << host.why;
        vkattn_caps before{};
        ASSERT_EQ(physicalDeviceCaps(physicalDevice(spyGetInstanceProcAddr, host.instance, host.physicalDevice, VK_API_VERSION_1_2),
                                     host.extensions, &host.features, before),
                  VKATTN_OK);
        if (!before.fullSubgroups || before.subgroupSize < 4 || !before.subgroupShuffle)
            GTEST_SKIP() << "the device has no whole subgroups to ask for, or no shuffles";
        if (!enabled) host.host.enabledFeatures = nullptr;
        const std::string lanes = std::to_string(before.subgroupSize);
        // The tile shares loads among whole subgroups.
        const std::string tuning =
            "vkattn-tuning 1\nflash maxDim=512 rowLanes=" + lanes + " rowsPerLane=1 keysPerLane=1 source=2 subgroups=1\n";
        host.host.tuning = tuning.data();
        host.host.tuningBytes = tuning.size();
        Context context;
        vkattn_diagnostic why{};
        ASSERT_EQ(context.create(host.host, &why), VKATTN_OK) << why.message;
        vkattn_caps caps{};
        ASSERT_EQ(context.caps(caps), VKATTN_OK);
        EXPECT_EQ(caps.fullSubgroups, enabled ? 1u : 0u);
        EXPECT_EQ(caps.subgroupSize, before.subgroupSize);
        const vkattn_layout t = packed(VKATTN_F32, 1, 2, 64, 16);
        vkattn_problem p = problem(t, t, t, t);
        p.kernel = VKATTN_KERNEL_FLASH;
        ASSERT_EQ(context.prewarm({&p, 1}, &why), VKATTN_OK) << why.message;
        const vkattn_problem staged = stagedProblem();
        ASSERT_EQ(context.prewarm({&staged, 1}, &why), VKATTN_OK) << why.message;
        size_t asked = 0;
        for (const Spy::Stage &stage : spy.stages) {
            asked += stage.flags == VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
            EXPECT_TRUE(stage.flags == 0 || stage.invocations % before.subgroupSize == 0);
            EXPECT_TRUE(stage.requiredSubgroupSize == 0 || stage.requiredSubgroupSize == before.subgroupSize);
        }
        EXPECT_GT(spy.stages.size(), 3u);
        EXPECT_EQ(asked, enabled ? 1u : 0u) << "of " << spy.stages.size() << " pipelines one shuffles";
    }
}

// vkattn's requests are right for any version that an engine may be written against, whatever its
// own chain has. First comes a positive control: the layer speaks up where a chain has what vkattn
// avoids.
TEST(Validation, isSilentAboutWhatVkattnAsksFor) {
    HostOptions options;
    options.askVkattn = options.validation = options.aggregate = options.duplicate = true;
    options.apiVersion = VK_API_VERSION_1_3;
    {
        Host control(options);
        ASSERT_TRUE(control.ready) << control.why;
        VkPhysicalDeviceProperties properties;
        vkGetPhysicalDeviceProperties(control.physicalDevice, &properties);
        if (properties.apiVersion < VK_API_VERSION_1_3) GTEST_SKIP() << "the device has no aggregate that could be duplicated";
        EXPECT_GE(control.messages.size(), 1u) << "the layer does not see a duplicate: this run would prove nothing";
    }
    options.duplicate = false;
    for (const uint32_t version : {VK_API_VERSION_1_0, VK_API_VERSION_1_1, VK_API_VERSION_1_2, VK_API_VERSION_1_3})
        for (const bool aggregate : {false, true}) {
            options.apiVersion = version;
            options.aggregate = aggregate;
            if (aggregate && version < VK_API_VERSION_1_3) continue;
            Host host(options);
            ASSERT_TRUE(host.ready) << host.why;
            Context context;
            vkattn_diagnostic why{};
            ASSERT_EQ(context.create(host.host, &why), VKATTN_OK) << why.message;
            EXPECT_EQ(host.messages.size(), 0u) << VK_API_VERSION_MINOR(version) << ": " << host.messages.front();
            vkattn_caps caps{};
            ASSERT_EQ(context.caps(caps), VKATTN_OK);
            std::printf("Vulkan 1.%u%s: %zu extensions, whole subgroups %u\n", VK_API_VERSION_MINOR(version),
                        aggregate ? ", aggregate" : "", host.extensions.size(), caps.fullSubgroups);
            EXPECT_EQ(host.aggregate.computeFullSubgroups, aggregate ? caps.fullSubgroups : 0u);
            if (version == VK_API_VERSION_1_0) {
                EXPECT_EQ(host.extensions.size(), 0u) << "the instance has not enabled what they need";
            }
        }
}

// With labels and names the layer is silent. Then, as a positive control, the layer says of a
// deliberate hazard which pipeline it belongs to, by name.
TEST(Validation, isSilentWithDebugLabels) {
    HostOptions options;
    options.apiVersion = VK_API_VERSION_1_2;
    options.askVkattn = options.debugUtils = options.validation = true;
    Host host(options);
    ASSERT_TRUE(host.ready) << host.why;
    Context context;
    vkattn_diagnostic why{};
    ASSERT_EQ(context.create(host.host, &why), VKATTN_OK) << why.message;
    std::vector<vkattn_problem> problems = {stagedProblem(), stagedProblem()};
    problems[1].kernel = VKATTN_KERNEL_FLASH;
    ASSERT_EQ(context.prewarm(problems, &why), VKATTN_OK) << why.message;
    const auto record = [&](const vkattn_problem &p) {
        VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_SHADER_WRITE_BIT,
                                VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};
        vkCmdPipelineBarrier(host.commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0,
                             nullptr, 0, nullptr);
        return context.record(p, host.commands, bindingsIn(host), host.descriptors, &why);
    };
    for (const vkattn_problem &p : problems) ASSERT_EQ(record(p), VKATTN_OK) << why.message;
    EXPECT_EQ(host.messages.size(), 0u) << host.messages.front();
    host.messages.clear();
    fault = {};
    fault.dropBarriers = true;
    ASSERT_EQ(record(problems[0]), VKATTN_OK) << why.message;
    fault = {};
    ASSERT_GE(host.messages.size(), 1u) << "the layer does not see a deliberate hazard: this run would prove nothing";
    EXPECT_NE(host.messages.front().find("SYNC-HAZARD"), std::string::npos) << host.messages.front();
    EXPECT_NE(host.messages.front().find("[vkattn softmax]"), std::string::npos) << host.messages.front();
    ASSERT_EQ(vkEndCommandBuffer(host.commands), VK_SUCCESS); // and never submit it
}
