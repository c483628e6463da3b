// Keys and values in pages on the CPU: what comes out is what the same keys give where they lie one after the other.
#include "conform/cases/case_text.hpp"
#include "support/extent.hpp"
#include "support/keys/pages.hpp"
#include "support/seed.hpp"
#include "unit/cpu/cpu_runs.hpp"

#include <vkattn/operations.hpp>

#include <gtest/gtest.h>

using namespace vkattn;
using namespace vkattn::conform;
using namespace vkattn::test;

namespace {

void expectVerified(const vkattn_problem &problem, const std::vector<vkattn_operand_memory> &operands, const Case &c) {
    const vkattn_verify_report report = verifiedOnCpu(operation(problem), operands, caseText(c));
    ASSERT_TRUE(report.passed) << caseText(c) << ": " << report.worstGot << ", expected " << report.worstExpected;
}

// The verifier knows pages by the oracle; the second time there are none.
TEST(Pages, areTheSameKeysOneAfterTheOther) {
    Random random = randomFor("pages");
    const Draws draws{60, 400};
    int masked = 0;
    for (int n = 0; draws.take(n); ++n) {
        Case c = drawPages(random, n % 2 == 1);
        if (n % 4 == 0) { // few rows, with dims in lanes
            c.queryTokens = 1, c.headDim = c.valueDim = 32, c.keyTokens = 200, c.kStyle = c.vStyle = Style::packed;
            c.softcap = 0, c.dropout = 0, c.alibi = c.weights = false, c.maskBroadcast.reset(), c.bitMaskBroadcast.reset(),
            c.biasBroadcast.reset();
            c.documents = Documents::none, c.blocks = Blocks::none, c.grid = Grid::none, c.hooks = Hooks::none, c.dilation = 0,
            c.globalTokens = false;
        }
        const std::unique_ptr<CaseData> data = makeCaseData(c, random);
        vkattn_diagnostic why{};
        ASSERT_EQ(vkattnCpuRun(&data->problem, data->operands.data(), static_cast<uint32_t>(data->operands.size()), 2, &why), VKATTN_OK)
            << why.message << caseText(c);
        expectVerified(data->problem, data->operands, c);
        const ContiguousProblem contiguous(*data);
        expectVerified(contiguous.problem, contiguous.operands, c);
        masked += contiguous.mask.empty() ? 0 : 1;
    }
    EXPECT_GT(masked, 0);
}

} // namespace
