#include "cpu_runs.hpp"

#include "cpu/pool.hpp"

#include <gtest/gtest.h>

namespace vkattn::test {

void run(OperationCase &c, uint32_t threads) {
    const vkattn_operation o = c.operation();
    vkattn_cpu_pool pool = nullptr;
    vkattn_diagnostic why{};
    uint64_t bytes = 0;
    if (threads) {
        ASSERT_EQ(vkattnCpuCreatePool(threads, &pool, nullptr), VKATTN_OK);
        pool->pool.shareAnyWork();
    }
    ASSERT_EQ(vkattnCpuOperationWorkspace(&o, pool, &bytes, &why), VKATTN_OK) << why.message;
    std::vector<unsigned char> workspace(bytes + 2, 0xa5);
    const auto memory = c.operands();
    const vkattn_result r =
        vkattnCpuRunOperation(pool, &o, memory.data(), static_cast<uint32_t>(memory.size()), workspace.data() + 1, bytes, &why);
    vkattnCpuDestroyPool(pool);
    ASSERT_EQ(r, VKATTN_OK) << why.message << c.text();
    EXPECT_EQ(workspace.front(), 0xa5);
    EXPECT_EQ(workspace.back(), 0xa5) << "wrote past the workspace: " << c.text();
}

void runOracle(OperationCase &c) {
    const vkattn_operation o = c.operation();
    vkattn_diagnostic why{};
    const auto memory = c.operands();
    ASSERT_EQ(vkattnCpuOracleOperation(&o, memory.data(), static_cast<uint32_t>(memory.size()), &why), VKATTN_OK)
        << why.message << c.text();
}

vkattn_verify_report verified(OperationCase &after, OperationCase &before) {
    const vkattn_operation o = after.operation();
    const auto memory = after.operandsAfter(before);
    vkattn_verify_options options{};
    options.structSize = sizeof options;
    options.allRows = 1;
    vkattn_verify_report report{};
    vkattn_diagnostic why{};
    EXPECT_EQ(vkattnCpuVerifyOperation(&o, memory.data(), static_cast<uint32_t>(memory.size()), &options, &report, &why), VKATTN_OK)
        << why.message;
    return report;
}

} // namespace vkattn::test
