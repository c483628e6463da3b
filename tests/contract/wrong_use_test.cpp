// The mistakes that engines make when they embed the library, as a table. Each use has the result
// and the words of the answer, in the diagnostic or the log. Where the library cannot know of a
// mistake (the facts lie with Vulkan or with the host), the row says what the library does instead;
// the validation layer finds most of those.
#include "support/vulkan/fake_vulkan.hpp"
#include "vkattn/vkattn.hpp"

#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <string>

using namespace vkattn;
using namespace vkattn::test;

namespace {

constexpr vkattn_result ok = VKATTN_OK, invalid = VKATTN_ERROR_INVALID_ARGUMENT, notReady = VKATTN_NOT_READY;
const auto buffer = reinterpret_cast<VkBuffer>(uintptr_t{0x1000});

// An engine that does everything right until a row of the table changes something.
struct Engine {
    FakeVulkan vulkan;
    vkattn_host host{};
    Context attention;
    vkattn_problem problem{};
    std::vector<vkattn_binding> bindings;
    FakeCommands commands;
    vkattn_record record{};
    vkattn_diagnostic why{};
    std::string log;

    Engine() {
        declare();
        const vkattn_layout t = packed(VKATTN_F32, 1, 2, 8, 16); // 1024 bytes
        problem = vkattn::problem(t, t, t, t);
        problem.kernel = VKATTN_KERNEL_STAGED; // 512 bytes of workspace
        for (uint32_t role = VKATTN_Q; role <= VKATTN_OUT; ++role)
            bindings.push_back({static_cast<vkattn_role>(role), buffer, 4096u * role, 1024});
        bindings.push_back({VKATTN_WORKSPACE, buffer, 32768, 512});
        record.structSize = sizeof record;
        record.commandBuffer = commands.handle();
    }
    void declare() { // again after a change of what the device can do
        host = vulkan.host();
        host.userData = this;
        host.log = [](void *self, vkattn_log_level, const char *message) {
            static_cast<Engine *>(self)->log += std::string(message) + "\n";
        };
    }
    vkattn_binding &of(vkattn_role role) {
        for (vkattn_binding &binding : bindings)
            if (binding.role == role) return binding;
        return bindings[0];
    }
    vkattn_result create() { return attention.create(host, &why); }
    vkattn_result createAndRecord(bool prewarm = true) {
        if (const auto r = create()) return r;
        if (prewarm)
            if (const auto r = attention.prewarm({&problem, 1}, &why)) return r;
        return recordOnly();
    }
    vkattn_result recordOnly() {
        why = {};
        if (record.bindingCount == 0) record.bindings = bindings.data(), record.bindingCount = static_cast<uint32_t>(bindings.size());
        return vkattnRecord(attention.handle(), &problem, &record, &why);
    }
    vkattn_result ask() { return vkattnValidateProblem(&problem, &why); }
};

struct Use {
    const char *name;
    vkattn_result result;
    std::vector<const char *> words; // empty: nothing is said
    std::function<vkattn_result(Engine &)> act;
};

const std::vector<Use> uses = {
    // The host.
    {"host without getInstanceProcAddr",
     invalid,
     {"host.getInstanceProcAddr is NULL"},
     [](Engine &e) { return e.host.getInstanceProcAddr = nullptr, e.create(); }},
    {"host without instance", invalid, {"host.instance is NULL"}, [](Engine &e) { return e.host.instance = nullptr, e.create(); }},
    {"host without physical device",
     invalid,
     {"host.physicalDevice is NULL"},
     [](Engine &e) { return e.host.physicalDevice = nullptr, e.create(); }},
    {"host without device", invalid, {"host.device is NULL"}, [](Engine &e) { return e.host.device = nullptr, e.create(); }},
    {"structSize left 0",
     invalid,
     {"structSize is 0", "sizeof(vkattn_host)", "set it before the call"},
     [](Engine &e) { return e.host.structSize = 0, e.create(); }},
    {"headers newer than the library",
     invalid,
     {"structSize is 4096", "newer"},
     [](Engine &e) { return e.host.structSize = 4096, e.create(); }},
    {"vkGetDeviceProcAddr in place of vkGetInstanceProcAddr",
     invalid,
     {"does not know vkGetPhysicalDeviceProperties"},
     [](Engine &e) {
         e.host.getInstanceProcAddr = [](VkInstance, const char *) -> PFN_vkVoidFunction { return nullptr; };
         return e.create();
     }},
    {"apiVersion left out",
     ok,
     {"vkattn_host::apiVersion is 0, which is 1.0", "offer Vulkan 1.3", "subgroup shuffles"},
     [](Engine &e) { return e.host.apiVersion = 0, e.create(); }},
    {"apiVersion above the instance's",
     ok,
     {"says 1.3", "created with a lower VkApplicationInfo::apiVersion"},
     [](Engine &e) { return e.vulkan.oldInstance = true, e.create(); }},
    {"extension declared, not enabled",
     ok,
     {"VK_KHR_push_descriptor is declared as enabled", "descriptor pools are used instead"},
     // host was filled in before
     [](Engine &e) { return e.vulkan.pushDescriptors = false, e.create(); }},
    {"extension enabled, not declared: the log",
     ok,
     {"Lost: push descriptors", "Not declared: VK_KHR_push_descriptor"},
     [](Engine &e) { return e.host.enabledExtensions += 1, e.host.enabledExtensionCount -= 1, e.create(); }},
    {"extension enabled, not declared: recording without a pool",
     invalid,
     {"record.descriptorPool is VK_NULL_HANDLE", "VK_KHR_push_descriptor is not listed in vkattn_host::enabledExtensions"},
     [](Engine &e) { return e.host.enabledExtensions += 1, e.host.enabledExtensionCount -= 1, e.createAndRecord(); }},
    {"features declared, not enabled: believed, Vulkan cannot be asked",
     ok,
     {},
     [](Engine &e) {
         const vkattn_result result = e.create();
         vkattn_caps caps{};
         EXPECT_EQ(e.attention.caps(caps), VKATTN_OK);
         EXPECT_EQ(caps.fullSubgroups, 1u);
         return result;
     }},
    {"extension list without its count's names",
     invalid,
     {"host.enabledExtensions is NULL with enabledExtensionCount"},
     [](Engine &e) { return e.host.enabledExtensions = nullptr, e.create(); }},
    {"feature chain that is none",
     invalid,
     {"host.enabledFeatures->sType is 0", "VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2"},
     [](Engine &e) {
         static const VkPhysicalDeviceFeatures2 none{};
         return e.host.enabledFeatures = &none, e.create();
     }},
    {"debug labels without the extension",
     ok,
     {"debugLabels is 1, but the instance does not know", "did the instance enable it"},
     [](Engine &e) { return e.host.debugLabels = 1, e.create(); }},
    // The workspace.
    {"no workspace",
     invalid,
     {"workspace is not bound; it needs 512 bytes"},
     [](Engine &e) { return e.bindings.pop_back(), e.createAndRecord(); }},
    {"workspace too small",
     invalid,
     {"workspace is bound with 511 bytes, expected at least 512"},
     [](Engine &e) { return e.of(VKATTN_WORKSPACE).size = 511, e.createAndRecord(); }},
    {"workspace not aligned",
     invalid,
     {"workspace is bound at offset 32770, expected a multiple of"},
     [](Engine &e) { return e.of(VKATTN_WORKSPACE).offset += 2, e.createAndRecord(); }},
    {"workspace that is not needed", ok, {}, [](Engine &e) { return e.problem.kernel = VKATTN_KERNEL_FLASH, e.createAndRecord(); }},
    {"workspace that is not needed, VK_NULL_HANDLE",
     ok,
     {},
     [](Engine &e) { return e.problem.kernel = VKATTN_KERNEL_FLASH, e.of(VKATTN_WORKSPACE).buffer = VK_NULL_HANDLE, e.createAndRecord(); }},
    {"output onto the workspace",
     invalid,
     {"out takes bytes 32768 to 33791", "workspace bytes 32768 to 33279"},
     [](Engine &e) { return e.of(VKATTN_OUT).offset = 32768, e.createAndRecord(); }},
    // Bindings.
    {"binding too small",
     invalid,
     {"v is bound with 1023 bytes, expected at least 1024"},
     [](Engine &e) { return e.of(VKATTN_V).size = 1023, e.createAndRecord(); }},
    {"binding of size 0",
     invalid,
     {"v is bound with 0 bytes, expected at least 1024"},
     [](Engine &e) { return e.of(VKATTN_V).size = 0, e.createAndRecord(); }},
    {"VK_WHOLE_SIZE", ok, {}, [](Engine &e) { return e.of(VKATTN_V).size = VK_WHOLE_SIZE, e.createAndRecord(); }},
    {"range past the end of its buffer: bound as it is, the buffer's size is Vulkan's to know",
     ok,
     {},
     [](Engine &e) { return e.of(VKATTN_V).offset = uint64_t{1} << 40, e.createAndRecord(); }},
    {"buffer without storage usage: bound as it is, its usage is Vulkan's to know",
     ok,
     {},
     [](Engine &e) { return e.of(VKATTN_V).buffer = reinterpret_cast<VkBuffer>(uintptr_t{0x9000}), e.createAndRecord(); }},
    {"offset 2 for f32",
     invalid,
     {"v is bound at offset 8194, expected a multiple of 4"},
     [](Engine &e) { return e.of(VKATTN_V).offset += 2, e.createAndRecord(); }},
    {"offset 12 for f32, below the device's alignment", ok, {}, [](Engine &e) { return e.of(VKATTN_V).offset += 12, e.createAndRecord(); }},
    {"output onto V",
     invalid,
     {"out takes bytes 8192 to 9215", "v bytes 8192 to 9215", "bind them elsewhere"},
     [](Engine &e) { return e.of(VKATTN_OUT).offset = e.of(VKATTN_V).offset, e.createAndRecord(); }},
    {"role missing",
     invalid,
     {"q is not bound; it needs 1024 bytes"},
     [](Engine &e) { return e.bindings.erase(e.bindings.begin()), e.createAndRecord(); }},
    {"role twice", invalid, {"k is bound twice"}, [](Engine &e) { return e.bindings.push_back(e.of(VKATTN_K)), e.createAndRecord(); }},
    {"role that the problem does not use",
     invalid,
     {"role lse", "which the problem does not use"},
     [](Engine &e) {
         return e.bindings.push_back({VKATTN_LSE, buffer, 0, 64}), e.createAndRecord();
     }},
    {"VK_NULL_HANDLE as buffer",
     invalid,
     {"k is bound to VK_NULL_HANDLE"},
     [](Engine &e) { return e.of(VKATTN_K).buffer = VK_NULL_HANDLE, e.createAndRecord(); }},
    {"no bindings",
     invalid,
     {"record.bindings is NULL with bindingCount 5"},
     [](Engine &e) { return e.record.bindingCount = 5, e.createAndRecord(); }},
    // Recording.
    {"no command buffer",
     invalid,
     {"record.commandBuffer is VK_NULL_HANDLE"},
     [](Engine &e) { return e.record.commandBuffer = VK_NULL_HANDLE, e.createAndRecord(); }},
    {"no context", invalid, {"context is NULL"}, [](Engine &e) { return e.recordOnly(); }},
    {"no record",
     invalid,
     {"record is NULL"},
     [](Engine &e) {
         EXPECT_EQ(e.create(), VKATTN_OK);
         return vkattnRecord(e.attention.handle(), &e.problem, nullptr, &e.why);
     }},
    {"no descriptor pool",
     invalid,
     {"record.descriptorPool is VK_NULL_HANDLE", "enabledExtensions"},
     [](Engine &e) {
         e.vulkan.pushDescriptors = false;
         e.declare();
         return e.createAndRecord();
     }},
    {"not prewarmed",
     notReady,
     {"nothing was recorded: 3 of the 3 pipelines of the staged kernel", "vkattnPrewarm", "allowCompile", "said once"},
     [](Engine &e) {
         const vkattn_result result = e.createAndRecord(false);
         EXPECT_TRUE(e.commands.dispatches.empty());
         return result;
     }},
    {"not prewarmed as a whole",
     notReady,
     {"1 of the 3 pipelines", "is not compiled (scores)"},
     [](Engine &e) {
         EXPECT_EQ(e.create(), VKATTN_OK);
         EXPECT_EQ(e.attention.prewarm({&e.problem, 1}), VKATTN_OK);
         e.problem.softcap = 2; // scores of another kind
         return e.recordOnly();
     }},
    {"slice that there is none of",
     invalid,
     {"record.sliceIndex is 1, expected less than the problem's sliceCount, 1"},
     [](Engine &e) { return e.record.sliceIndex = 1, e.createAndRecord(); }},
    {"command buffer that is not recording, or inside a render pass: recorded into, its state is Vulkan's to know",
     ok,
     {},
     [](Engine &e) {
         const vkattn_result result = e.createAndRecord();
         EXPECT_EQ(e.commands.dispatches.size(), 3u);
         return result;
     }},
    {"secondary command buffer: as good as a primary one", ok, {}, [](Engine &e) { return e.createAndRecord(); }},
    {"two records to one output without a barrier: none is placed before the first dispatch, that barrier is the host's",
     ok,
     {},
     [](Engine &e) {
         EXPECT_EQ(e.createAndRecord(), VKATTN_OK);
         const vkattn_result result = e.recordOnly();
         EXPECT_EQ(e.commands.dispatches.size(), 6u);
         if (e.commands.dispatches.size() == 6) {
             EXPECT_EQ(e.commands.dispatches[3].barriers, 0u);
             EXPECT_EQ(e.commands.dispatches[4].barriers, 1u);
         }
         return result;
     }},
    {"context destroyed before the submit: it does not wait, and its pipelines are gone",
     ok,
     {},
     [](Engine &e) {
         const vkattn_result result = e.createAndRecord();
         e.attention.reset();
         EXPECT_EQ(e.vulkan.pipelines, 0);
         EXPECT_FALSE(e.commands.dispatches.empty());
         return result;
     }},
    {"device destroyed before the context: reset() calls the device, so that it goes first",
     ok,
     {},
     [](Engine &e) {
         const vkattn_result result = e.create();
         EXPECT_FALSE(e.vulkan.nothingLives());
         e.attention.reset();
         EXPECT_TRUE(e.vulkan.nothingLives()) << "nothing is left to call the device for";
         e.attention.reset();
         return result;
     }},
    {"two contexts on one device",
     ok,
     {},
     [](Engine &e) {
         Context second;
         EXPECT_EQ(second.create(e.host), VKATTN_OK);
         EXPECT_EQ(e.createAndRecord(), VKATTN_OK);
         EXPECT_EQ(second.prewarm({&e.problem, 1}), VKATTN_OK);
         return vkattnRecord(second.handle(), &e.problem, &e.record, &e.why);
     }},
    // The problem.
    {"problem that was not filled in",
     invalid,
     {"structSize is 0, expected sizeof(vkattn_problem)"},
     [](Engine &e) { return e.problem = {}, e.ask(); }},
    {"scale without its flag", invalid, {"scale is 0.5 without VKATTN_SCALE"}, [](Engine &e) { return e.problem.scale = 0.5f, e.ask(); }},
    {"scale that is no number",
     invalid,
     {"scale is", "expected a finite number"},
     [](Engine &e) { return e.problem.flags = VKATTN_SCALE, e.problem.scale = std::numeric_limits<float>::infinity(), e.ask(); }},
    {"key heads that do not divide the query heads",
     invalid,
     {"3 key heads do not divide 2 query heads"},
     [](Engine &e) { return e.problem.k = e.problem.v = packed(VKATTN_F32, 1, 3, 8, 16), e.ask(); }},
    {"head dims that differ",
     invalid,
     {"batch and head dim must agree"},
     [](Engine &e) { return e.problem.k = packed(VKATTN_F32, 1, 2, 8, 32), e.ask(); }},
    {"head dim too large",
     invalid,
     {"head dim 4096", "at most 2048"},
     [](Engine &e) { return e.problem.q = e.problem.k = packed(VKATTN_F32, 1, 2, 8, 4096), e.ask(); }},
    {"strides in bytes",
     invalid,
     {"v is bound with 1024 bytes, expected at least"},
     [](Engine &e) {
         for (int64_t &stride : e.problem.v.strideElems) stride *= 4;
         return e.createAndRecord();
     }},
    {"output strides of 0",
     invalid,
     {"out overlaps itself: stride 0"},
     [](Engine &e) { return e.problem.out.strideElems[1] = 0, e.ask(); }},
    {"negative strides without an offset",
     invalid,
     {"q: negative strides reach", "raise offsetElems"},
     [](Engine &e) { return e.problem.q.strideElems[2] = -16, e.ask(); }},
    {"window without its flag",
     invalid,
     {"windowLeft 4", "without VKATTN_WINDOW"},
     [](Engine &e) { return e.problem.windowLeft = 4, e.ask(); }},
    {"output of another shape",
     invalid,
     {"out is [1, 2, 9, 16], expected [1, 2, 8, 16]"},
     [](Engine &e) { return e.problem.out = packed(VKATTN_F32, 1, 2, 9, 16), e.ask(); }},
    {"mask of another type",
     invalid,
     {"mask has dtype 0, expected VKATTN_BOOL8"},
     [](Engine &e) { return e.problem.mask = packed(VKATTN_F32, 1, 2, 8, 8), e.ask(); }},
    {"one half of a pair of arrays",
     invalid,
     {"cu_seqlens of queries are in presentRoles without those of the other side"},
     [](Engine &e) { return e.problem.presentRoles = VKATTN_PRESENT(VKATTN_CU_SEQ_Q), e.ask(); }},
    {"unknown flag", invalid, {"problem.flags has unknown bits 0x8000"}, [](Engine &e) { return e.problem.flags = 0x8000, e.ask(); }},
};

} // namespace

TEST(WrongUse, isAnsweredAsItShouldBe) {
    for (const Use &use : uses) {
        Engine engine;
        const vkattn_result result = use.act(engine);
        EXPECT_EQ(result, use.result) << use.name << ": " << engine.why.message << engine.log;
        const std::string said = std::string(engine.why.message) + "\n" + engine.log;
        for (const char *words : use.words)
            EXPECT_NE(said.find(words), std::string::npos) << use.name << ", expected \"" << words << "\": " << said;
        if (use.words.empty()) {
            EXPECT_EQ(engine.log.find("could do more"), std::string::npos) << use.name << ": " << engine.log;
            EXPECT_EQ(engine.why.message[0], '\0') << use.name << ": " << engine.why.message;
        }
        if (result < 0) {
            EXPECT_TRUE(engine.commands.dispatches.empty()) << use.name << ": nothing is recorded";
        }
        EXPECT_EQ(engine.commands.error, nullptr) << use.name << ": " << engine.commands.error;
    }
    std::printf("%zu uses\n", uses.size());
}
