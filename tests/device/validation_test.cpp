// Under the Khronos validation layer with synchronization validation: silent on the real thing, and first, as a positive control, not
// silent when the barriers between dispatches are left out (a layer that reports nothing would prove nothing).
#include "forms.hpp"
#include "support/faulty_vulkan.hpp"

#include <algorithm>
#include <cstring>

using namespace vkattn;
using namespace vkattn::test;

namespace {

struct Log {
    std::vector<std::string> messages;
    RuntimeOptions options(Limits limits) {
        RuntimeOptions o = optionsFor(limits);
        o.validation = true;
        o.getInstanceProcAddr = faultyGetInstanceProcAddr;
        o.log = [this](const char *message) {
            // Only newer layers report this, and for dispatches that write other columns of one binding too: they take all of it for
            // written. Plan.everyCaseFitsEveryLimit looks for the real ones.
            if (std::strstr(message, "SYNC-HAZARD-WRITE-AFTER-WRITE") == nullptr) messages.emplace_back(message);
        };
        return o;
    }
    [[nodiscard]] size_t count(const char *part) const {
        return static_cast<size_t>(
            std::count_if(messages.begin(), messages.end(), [&](const std::string &m) { return m.find(part) != std::string::npos; }));
    }
};

} // namespace

TEST(Validation, reportsMissingBarriers) {
    Log log;
    std::string message;
    fault = {};
    const auto runtime = Runtime::open(log.options(Limits::full), nullptr, &message);
    ASSERT_TRUE(runtime) << message;
    Case c;
    c.name = "control";
    c.biasBroadcast = 0;
    Random random = randomFor(c.name);
    const auto in = makeInstance(c, random);
    (void)runtime->run(in->problem, in->operands);
    EXPECT_EQ(log.messages.size(), 0u);
    fault.dropBarriers = true;
    (void)runtime->run(in->problem, in->operands);
    fault = {};
    EXPECT_GE(log.count("SYNC-HAZARD"), 1u) << "the layer does not see a deliberate hazard: this run would prove nothing";
}

TEST(Validation, isSilent) {
    for (const Limits limits : {Limits::full, Limits::weak, Limits::tiny}) {
        Log log;
        std::string message;
        fault = {};
        const auto runtime = Runtime::open(log.options(limits), nullptr, &message);
        ASSERT_TRUE(runtime) << message;
        Random random = randomFor("validation");
        std::vector<Case> cases = caseMatrix(random, false);
        std::shuffle(cases.begin(), cases.end(), random);
        cases.resize(120);
        size_t ran = 0;
        for (Case &c : cases) {
            c.kernel = VKATTN_KERNEL_STAGED;
            if (limits == Limits::tiny && std::max(c.headDim, c.valueDim) * std::max({c.queryTokens, c.keyTokens, 1u}) * 4 > 60000)
                continue;
            Random own = randomFor(c.name);
            const auto in = makeInstance(c, own);
            EXPECT_EQ(runAndCheck(*runtime, *in), "") << c.name;
            EXPECT_EQ(log.messages.size(), 0u) << c.name << ": " << log.messages.front();
            log.messages.clear();
            ++ran;
        }
        std::printf("%zu cases under validation\n", ran);
    }
}

// The fused kernels, whole and cut into chunks, with few pipelines: the layer looks at dispatches, not at what shaders compute.
TEST(Validation, isSilentForFusedKernels) {
    for (const Form &form : forms())
        for (const bool tight : {false, true}) {
            if (form.kernel == VKATTN_KERNEL_STAGED || std::string(form.name).find("Portable") != std::string::npos) continue;
            std::string skipped;
            const Runtime *plain = runtimeFor(form, Room::all, skipped); // compiles nothing before it runs
            if (!skipped.empty()) {
                std::printf("skipped: %s: %s\n", form.name, skipped.c_str());
                continue;
            }
            ASSERT_TRUE(plain);
            Log log;
            std::string message;
            fault = {};
            RuntimeOptions options = log.options(Limits::full);
            options.tuning = tuningOf(form, plain->device()->caps.subgroupSize);
            if (tight) {
                options.capsLimit = plain->device()->caps;
                options.capsLimit->maxStorageBufferRange = 1u << 16;
                options.maxWorkspaceBytes = 16384;
            }
            const auto runtime = Runtime::open(options, nullptr, &message);
            ASSERT_TRUE(runtime) << message;
            Random random = randomFor(std::string("validation of ") + form.name);
            std::vector<Case> cases = formMatrix(random, 0);
            std::shuffle(cases.begin(), cases.end(), random);
            size_t ran = 0;
            for (const Case &c : cases) {
                if (ran == 25) break;
                const bool overlays = c.softcap > 0 || c.alibi || c.maskBroadcast || c.bitMaskBroadcast || c.documents != Documents::none;
                if (overlays || c.headDim != 8 || c.valueDim != 8 || c.q != VKATTN_F32 || c.k != VKATTN_F32 || c.kStyle == Style::dimMajor)
                    continue;
                Random own = randomFor(c.name);
                const auto in = makeInstance(takenBy(form, c), own);
                if (!refusalOf(form, *in).empty()) continue;
                EXPECT_EQ(runAndCheck(*runtime, *in), "") << form.name << " " << c.name;
                EXPECT_EQ(log.messages.size(), 0u) << form.name << " " << c.name << ": " << log.messages.front();
                log.messages.clear();
                ++ran;
            }
            EXPECT_EQ(ran, 25u);
        }
}
