#include "unit/cpu/cpu_runs.hpp"

#include "cpu/pool.hpp"

#include <gtest/gtest.h>
#include <limits>

namespace vkattn::test {

void runOnCpu(const vkattn_operation &operation, const std::vector<vkattn_operand_memory> &memory, uint32_t threads,
              const std::string &text) {
    vkattn_cpu_pool pool = nullptr;
    vkattn_diagnostic why{};
    uint64_t bytes = 0;
    if (threads) {
        ASSERT_EQ(vkattnCpuCreatePool(threads, &pool, nullptr), VKATTN_OK);
        pool->pool.shareAnyWork();
    }
    ASSERT_EQ(vkattnCpuOperationWorkspace(&operation, pool, &bytes, &why), VKATTN_OK) << why.message;
    std::vector<unsigned char> workspace(bytes + 2, 0xa5);
    const vkattn_result r =
        vkattnCpuRunOperation(pool, &operation, memory.data(), static_cast<uint32_t>(memory.size()), workspace.data() + 1, bytes, &why);
    vkattnCpuDestroyPool(pool);
    ASSERT_EQ(r, VKATTN_OK) << why.message << text;
    EXPECT_EQ(workspace.front(), 0xa5);
    EXPECT_EQ(workspace.back(), 0xa5) << "wrote past the workspace: " << text;
}

void runOracleOf(const vkattn_operation &operation, const std::vector<vkattn_operand_memory> &memory, const std::string &text) {
    vkattn_diagnostic why{};
    ASSERT_EQ(vkattnCpuOracleOperation(&operation, memory.data(), static_cast<uint32_t>(memory.size()), &why), VKATTN_OK)
        << why.message << text;
}

vkattn_verify_report verifiedOnCpu(const vkattn_operation &operation, const std::vector<vkattn_operand_memory> &memory,
                                   const std::string &text, vkattn_verify_options options) {
    options.structSize = sizeof options;
    if (!options.rows) options.allRows = 1;
    vkattn_verify_report report{};
    vkattn_diagnostic why{};
    EXPECT_EQ(vkattnCpuVerifyOperation(&operation, memory.data(), static_cast<uint32_t>(memory.size()), &options, &report, &why), VKATTN_OK)
        << why.message << text;
    return report;
}

vkattn_verify_report verified(OperationCase &after, OperationCase &before) {
    return verifiedOnCpu(after.operation(), after.operandsAfter(before), after.text());
}

Element drawElement(Random &random, const std::vector<vkattn_role> &roles, const std::function<const uint32_t *(vkattn_role)> &extentOf,
                    const std::function<bool(const Element &)> &writes) {
    for (int tries = 0; tries < 100; ++tries) {
        Element e{roles[between(random, 0, static_cast<uint32_t>(roles.size()) - 1)], {}};
        const uint32_t *extent = extentOf(e.role);
        if (!extent[0] || !extent[1] || !extent[2] || !extent[3]) continue;
        for (int d = 0; d < 4; ++d) e.at[d] = between(random, 0, extent[d] - 1);
        if (writes(e)) return e;
    }
    return {VKATTN_ROLE_LIMIT, {}};
}

Case drawLargeNumbers(Random &random, int n) {
    Case c = randomCase(random, 3);
    constexpr vkattn_dtype types[] = {VKATTN_F32, VKATTN_F16, VKATTN_BF16};
    c.q = c.k = c.v = types[n % 3];
    c.data = n % 4 == 0 ? Data::extreme : n % 4 == 1 ? Data::needle : Data::normal;
    if (c.data == Data::needle) c.needle = std::min(c.needle, c.keyTokens ? c.keyTokens - 1 : 0);
    if (n % 4 == 2) {
        constexpr float constants[] = {-65504.0f, -1e9f, -std::numeric_limits<float>::max()};
        c.biasBroadcast = 0;
        c.biasType = VKATTN_F32;
        c.biasConstant = constants[n / 4 % 3];
    }
    if (n % 4 == 3) c.alibi = true, c.alibiSlope = n % 8 == 3 ? 1000.0f : 3.7f;
    return c;
}

} // namespace vkattn::test
