// Projections, norms, rotary embedding and append on the device: drawn cases against the oracle,
// with gaps that are canaries in outputs and NaN in inputs.
#include "conform/cases/operation_case.hpp"
#include "environment.hpp"
#include "support/extent.hpp"

#include <cmath>
#include <limits>

using namespace vkattn;
using namespace vkattn::test;

namespace {

constexpr vkattn_operation_kind kinds[] = {VKATTN_PROJECTION, VKATTN_NORM, VKATTN_ROTARY, VKATTN_APPEND};

// Returns what is wrong; empty: nothing.
std::string runAndVerify(Runtime &runtime, OperationCase &after, OperationCase &before) {
    const vkattn_operation operation = after.operation();
    const RunResult result = runtime.run(operation, after.operands());
    if (result.status != VKATTN_OK) return "status " + std::to_string(result.status) + ": " + result.message;
    if (!result.fallbackReason.empty()) return "the CPU computed: " + result.fallbackReason;
    return judge(after, before).wrong;
}

void expectDrawnCasesPass(Limits limits, int count) {
    Runtime *runtime = runtimeFor(limits);
    ASSERT_TRUE(runtime);
    Random random = randomFor("operations");
    int refused = 0;
    for (int n = 0; n < count; ++n) {
        OperationCase before = drawOperation(random, kinds[n % 4]);
        OperationCase after = before;
        const std::string wrong = runAndVerify(*runtime, after, before);
        // Rows that are over a tight limit by themselves, as transposed tensors have them.
        if (limits == Limits::tight && wrong.find("where nothing more can be cut") != std::string::npos)
            ++refused;
        else
            ASSERT_EQ(wrong, "") << "case " << n << ": " << before.text();
    }
    EXPECT_LT(refused, count / 4);
    std::printf("%d drawn operations, %d over the limits\n", count, refused);
}

} // namespace

TEST(OperationsOnDevice, areWithinTheBoundsOfTheOracle) {
    expectDrawnCasesPass(Limits::full, fullExtent() ? 2000 : 60);
}

TEST(OperationsOnDevice, areCutToMeetTightLimits) {
    expectDrawnCasesPass(Limits::tight, fullExtent() ? 1000 : 24);
}

TEST(OperationsOnDevice, needNoMoreThanVulkan10Guarantees) {
    expectDrawnCasesPass(Limits::weak, fullExtent() ? 1000 : 24);
}

TEST(OperationsOnDevice, keepNaNInItsRow) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    constexpr float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
    Random random = randomFor("operations NaN");
    for (const float bad : {nan, infinity, -infinity})
        for (int n = 0; n < 12; ++n) {
            OperationCase before =
                n % 2 ? plainNorm(n % 4 == 1 ? VKATTN_LAYER_NORM : VKATTN_RMS_NORM, 37, 70) : plainProjection(37, 45, 70);
            before.fill(random);
            const uint32_t row = between(random, 0, 36), dim = between(random, 0, 44);
            before.tensor(VKATTN_X).set(0, 0, row, dim, bad);
            OperationCase after = before;
            ASSERT_EQ(runAndVerify(*runtime, after, before), "") << before.text();
            for (uint32_t r = 0; r < 37; ++r)
                for (uint32_t d = 0; d < 70; ++d)
                    if (r != row) {
                        ASSERT_TRUE(std::isfinite(after.tensor(VKATTN_Y).get(0, 0, r, d))) << "row " << r << ", NaN in row " << row;
                    }
        }
}
