// Under the Khronos validation layer with synchronization validation: silent on the real thing, and first, as a positive control, not
// silent when the barriers between dispatches are left out (a layer that reports nothing would prove nothing).
#include "environment.hpp"
#include "support/faulty_vulkan.hpp"

#include <algorithm>

using namespace vkattn;
using namespace vkattn::test;

namespace {

struct Log {
    std::vector<std::string> messages;
    RuntimeOptions options(Limits limits) {
        RuntimeOptions o = optionsFor(limits);
        o.validation = true;
        o.getInstanceProcAddr = faultyGetInstanceProcAddr;
        o.log = [this](const char *message) { messages.emplace_back(message); };
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
        for (const Case &c : cases) {
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
