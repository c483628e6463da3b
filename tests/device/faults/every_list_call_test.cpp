// Every Vulkan call fails in turn while tensors and a list live: allocation, copies, recording,
// replays, verification, recording again. Each step answers with the documented code and the call's
// name or goes on as if nothing had happened; nothing leaks; a failed step works when it is tried
// again, unless the device is lost, and then every step says so.
#include "device/environment.hpp"
#include "device/host_shader.hpp"
#include "every_call.hpp"
#include "vkattn/list.hpp"

using namespace vkattn;
using namespace vkattn::test;

namespace {

class ListLife {
  public:
    ListLife(const Trial &trial, RuntimeOptions options) : trial_(trial), options_(std::move(options)) {
        options_.getInstanceProcAddr = faultyGetInstanceProcAddr;
        options_.allowFallback = false;
        options_.selfTest = 0;
    }

    void live() {
        ledger.phase = "open";
        std::string why;
        const std::unique_ptr<Runtime> runtime = Runtime::open(options_, nullptr, &why);
        if (!runtime) return expectReason(why);
        DeviceTensor x, w, y, z;
        const auto allocate = [&](const char *phase, DeviceTensor &tensor) {
            return attempt(phase, [&](std::string &reason) {
                tensor = runtime->allocate(matrix(VKATTN_F32, 8, 8), &reason);
                return tensor ? VKATTN_OK : codeOf(trial_.error);
            });
        };
        if (!allocate("allocate", x) || !allocate("allocate another", w) || !allocate("allocate y", y) || !allocate("allocate z", z))
            return;
        LayerOf layer{x, w, w, w, w, y};
        if (!attempt("allocate what a layer keeps", [&](std::string &reason) {
                layer.kept = runtime->allocateKept(layer, &reason);
                return layer.kept ? VKATTN_OK : codeOf(trial_.error);
            }))
            return;
        std::vector<float> values(64);
        for (size_t n = 0; n < values.size(); ++n) values[n] = static_cast<float>(n % 9 == 0); // the identity
        const uint64_t bytes = 4 * values.size();
        if (!attempt("upload", [&](std::string &reason) { return w.upload(values.data(), bytes, &reason); })) return;
        for (size_t n = 0; n < values.size(); ++n) values[n] = static_cast<float>(n);
        if (!attempt("upload x", [&](std::string &reason) { return x.upload(values.data(), bytes, &reason); })) return;
        OperationList list = runtime->list();
        EXPECT_EQ(list.add(ProjectionOf{x, w, y}), VKATTN_OK);
        EXPECT_EQ(list.add(ScaleAdd(x, z, 2).step), VKATTN_OK);
        if (!attempt("record", [&](std::string &reason) { return list.record(&reason); })) return;
        if (!attempt("submit", [&](std::string &reason) { return list.submit(&reason); })) return;
        if (!attempt("submit again", [&](std::string &reason) { return list.submit(&reason); })) return;
        if (!attempt("wait", [&](std::string &reason) { return list.wait(&reason); })) return;
        EXPECT_EQ(list.add(NormOf{VKATTN_LAYER_NORM, y, z}), VKATTN_OK);
        if (!attempt("run", [&](std::string &reason) {
                const RunResult result = list.run();
                reason = result.message;
                return result.status;
            }))
            return;
        std::vector<StepCheck> checks;
        if (!attempt("verify", [&](std::string &reason) { return list.verify(checks, nullptr, &reason); })) return;
        EXPECT_EQ(checks.size(), 3u);
        for (const StepCheck &check : checks) EXPECT_TRUE(check.report.passed || fault.emptyShaders) << check.operation;
        std::vector<float> got(64);
        if (!attempt("download", [&](std::string &reason) { return y.download(got.data(), bytes, &reason); })) return;
        EXPECT_TRUE(got == values || fault.emptyShaders) << "x through the identity";
        ledger.phase = "close";
    }

  private:
    void expectReason(const std::string &reason) const {
        if (trial_.error == VK_ERROR_INCOMPATIBLE_DRIVER && reason.find("no Vulkan driver was found") != std::string::npos) return;
        EXPECT_NE(reason.find(trial_.function), std::string::npos) << "'" << reason << "' does not name " << trial_.function;
    }
    // Returns whether life goes on.
    bool attempt(const char *phase, const std::function<vkattn_result(std::string &)> &act) {
        ledger.phase = phase;
        std::string why;
        const vkattn_result result = act(why);
        const bool struck = ledger.struck && trial_.phase == phase;
        if (!struck || (isTolerated(trial_.function) && trial_.error != VK_ERROR_DEVICE_LOST && result == VKATTN_OK)) {
            EXPECT_EQ(result, VKATTN_OK) << phase << ": " << why;
            return result == VKATTN_OK;
        }
        EXPECT_EQ(result, codeOf(trial_.error)) << phase << ": " << why;
        expectReason(why);
        std::string next;
        const vkattn_result again = act(next);
        if (!ledger.lost) {
            EXPECT_EQ(again, VKATTN_OK) << phase << ", again: " << next;
            return again == VKATTN_OK;
        }
        EXPECT_EQ(again, codeOf(VK_ERROR_DEVICE_LOST)) << phase << ", again: " << next;
        EXPECT_NE(next.find("the device was lost"), std::string::npos) << next;
        return false;
    }

    const Trial &trial_;
    RuntimeOptions options_;
};

class EveryListCall : public testing::Test {
  protected:
    void SetUp() override { fault = {}; }
    void TearDown() override { fault = {}; }
};

} // namespace

TEST_F(EveryListCall, fails) {
    failEveryCall("list", [](const Trial &trial) { ListLife(trial, {}).live(); });
}
TEST_F(EveryListCall, failsWithDescriptorPools) {
    fault.hidePushDescriptors = fault.emptyShaders = true;
    failEveryCall("list with descriptor pools", [](const Trial &trial) { ListLife(trial, {}).live(); });
}
TEST_F(EveryListCall, failsWithAStagingBuffer) {
    fault.pretendDiscrete = fault.emptyShaders = true;
    failEveryCall("list through a staging buffer", [](const Trial &trial) { ListLife(trial, {}).live(); });
}
