#include "support/core_steps.hpp"

#include <gtest/gtest.h>

namespace vkattn::test {
namespace {

class Steps {
  public:
    explicit Steps(const CoreHost &on) : on_(on) {}

    CoreSteps run() {
        Context context;
        step("create", [&] { return context.create(on_.host, &why_); });
        if (!context) return std::move(report_);
        for (const vkattn_operation &operation : on_.operations) {
            vkattn_requirements needs{};
            step("query", [&] { return context.query(operation, needs, &why_); });
            step("prewarm", [&] { return context.prewarm({&operation, 1}, &why_); });
            step("record", [&] { return record(context, operation, needs); });
        }
        keepPipelines(context);
        test(context);
        on_.phase("destroy");
        return std::move(report_);
    }

  private:
    template <class Do> void step(const char *name, Do what) {
        on_.phase(name);
        why_ = {};
        const vkattn_result result = what();
        if (result == VKATTN_OK) return;
        report_.failed.push_back({name, result, why_.message});
        why_ = {};
        if (const vkattn_result second = what())
            report_.again.push_back(std::string(name) + ": " + std::to_string(second) + ", " + why_.message);
    }

    vkattn_result record(const Context &context, const vkattn_operation &operation, const vkattn_requirements &needs) {
        const CoreHost::Target target = on_.begin(needs.descriptorSetCount, needs.storageDescriptorCount);
        std::vector<vkattn_binding> bindings;
        uint64_t at = 0;
        for (uint32_t n = 0; n < VKATTN_ROLE_LIMIT; ++n) {
            const auto role = static_cast<vkattn_role>(n);
            const uint64_t bytes = role == VKATTN_WORKSPACE ? needs.workspaceBytes : vkattnOperationBytes(&operation, role);
            if (bytes == 0) continue;
            const uint64_t words = (bytes + 3) / 4 * 4;
            bindings.push_back({role, on_.buffer, at, words});
            at = (at + words + 255) / 256 * 256;
        }
        if (at > on_.bufferBytes) report_.again.emplace_back("the buffer is too small for the test's operations");
        return context.record(operation, target.commands, bindings, target.pool, &why_);
    }

    void keepPipelines(const Context &context) {
        // One byte off, so that the library has to align what the driver reads.
        std::vector<std::byte> blob;
        size_t bytes = 0;
        const auto exported = [&]() -> vkattn_result {
            if (const auto r = context.cacheBytes(bytes, &why_)) return r;
            blob.resize(bytes + 1);
            return context.exportCache(std::span(blob).subspan(1), bytes, &why_);
        };
        step("export", exported);
        step("import", [&] { return context.importCache(std::span(blob).subspan(1, bytes), &why_); });
        step("export", exported); // of two caches, merged
    }

    void test(const Context &context) {
        constexpr vkattn_kernel kernel = VKATTN_KERNEL_FLASH;
        vkattn_self_test needs{};
        step("self-test", [&] { return context.selfTestQuery(kernel, needs, &why_); });
        if (needs.bufferBytes > on_.bufferBytes) report_.again.emplace_back("the buffer is too small for the self-test");
        step("self-test", [&] { return context.selfTestFill(kernel, on_.mapped, &why_); });
        step("self-test", [&] {
            const CoreHost::Target target = on_.begin(needs.descriptorSetCount, needs.storageDescriptorCount);
            return context.selfTestRecord(kernel, target.commands, on_.buffer, 0, target.pool, &why_);
        });
        vkattn_verdict verdict = VKATTN_VERDICT_MAX;
        step("self-test", [&] { return context.selfTestJudge(kernel, on_.mapped, verdict, &why_); });
        if (verdict != VKATTN_VERDICT_WRONG) report_.again.emplace_back("the self-test trusts what nobody computed");
    }

    const CoreHost &on_;
    CoreSteps report_;
    vkattn_diagnostic why_{};
};

} // namespace

SmallOperations::SmallOperations() {
    constexpr vkattn_kernel kernels[attentionCount] = {VKATTN_KERNEL_STAGED, VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE};
    for (int n = 0; n < attentionCount; ++n) {
        const vkattn_layout q = packed(VKATTN_F32, 1, 2, kernels[n] == VKATTN_KERNEL_DECODE ? 1 : 9, 8), k = packed(VKATTN_F32, 1, 2, 9, 8);
        attention_[n] = problem(q, k, k, q);
        attention_[n].kernel = kernels[n];
        all_.push_back(operation(attention_[n]));
    }
    const vkattn_layout rows = matrix(VKATTN_F32, 9, 8), row = vector(VKATTN_F32, 8), table = matrix(VKATTN_F32, 5, 4);
    projection_ = projection(rows, matrix(VKATTN_F32, 8, 8), rows);
    projection_.bias = row;
    projection_.residual = rows;
    norm_ = layerNorm(rows, rows);
    norm_.residual = norm_.sum = rows;
    norm_.gamma = norm_.beta = row;
    rotary_ = rotary(rows, table, table, rows);
    rotary_.flags = VKATTN_ROTARY_APPEND;
    rotary_.presentRoles = VKATTN_PRESENT(VKATTN_POSITIONS) | VKATTN_PRESENT(VKATTN_STARTS);
    append_ = append(rows, matrix(VKATTN_F32, 20, 8));
    append_.presentRoles = VKATTN_PRESENT(VKATTN_STARTS);
    advance_ = advance(vector(VKATTN_BITS32, 9), vector(VKATTN_BITS32, 9));
    mean_ = mean(packed(VKATTN_F32, 1, 3, 9, 8), rows);
    merge_ = merge(2, packed(VKATTN_F32, 2, 1, 9, 8), packed(VKATTN_F32, 2, 1, 9, 1), rows);
    merge_.lse = matrix(VKATTN_F32, 9, 1);
    hadamard_ = hadamard(rows, rows);
    keep_ = keep(0.5, 1, 2, 40, matrix(VKATTN_BITS32, 9, 2));
    const vkattn_layout heads = packed(VKATTN_F32, 1, 2, 9, 8);
    forward_ = problem(heads, heads, heads, heads);
    forward_.flags = VKATTN_ROW_STATISTICS;
    forward_.lse = packed(VKATTN_F32, 1, 2, 9, 2);
    forward_.bias = packed(VKATTN_F32, 1, 1, 1, 9);
    forward_.softcap = 2;
    forward_.presentRoles = VKATTN_PRESENT(VKATTN_SINKS) | VKATTN_PRESENT(VKATTN_ALIBI_SLOPES);
    gradient_ = attentionGradient(forward_, heads);
    gradient_.dLse = packed(VKATTN_F32, 1, 2, 9, 1);
    gradient_.dWeights = packed(VKATTN_F32, 1, 2, 9, 9);
    gradient_.dQ = gradient_.dK = gradient_.dV = heads;
    gradient_.dBias = forward_.bias;
    gradient_.presentRoles = VKATTN_PRESENT(VKATTN_D_SINKS) | VKATTN_PRESENT(VKATTN_D_SLOPES) | VKATTN_PRESENT(VKATTN_D_SCALE) |
                             VKATTN_PRESENT(VKATTN_D_SOFTCAP) | VKATTN_PRESENT(VKATTN_NONFINITE);
    normGradient_ = normGradient(VKATTN_LAYER_NORM, rows, row, rows, rows, row, row);
    drop_ = drop(0.5, 1, 2, rows, rows);
    drop_.residual = rows;
    normGradient_.residual = rows;
    statistics_ = attentionStatistics(forward_);
    statistics_.statistics = packed(VKATTN_F32, 1, 2, 9, VKATTN_STATISTIC_COUNT);
    statistics_.received = packed(VKATTN_F32, 1, 2, 9, 1);
    statistics_.topWeights = packed(VKATTN_F32, 1, 2, 9, 2);
    statistics_.topKeys = packed(VKATTN_BITS32, 1, 2, 9, 2);
    statistics_.densityThreshold = 0.1f;
    masked_ = problem(heads, heads, {}, {});
    masked_.mask = packed(VKATTN_BOOL8, 1, 1, 9, 9);
    visibleBlocks_ = visibleBlocks(masked_, 4, 4);
    const vkattn_layout ofTokens = matrix(VKATTN_F32, 9, 1);
    linear_ = linearAttention(rows, rows, rows, rows);
    linear_.rule = VKATTN_LINEAR_GATED_DELTA, linear_.decay = linear_.writeStrength = ofTokens;
    linearGradient_ = linearGradient(linear_, rows);
    linearGradient_.dQ = linearGradient_.dK = linearGradient_.dV = rows;
    linearGradient_.dDecay = linearGradient_.dWriteStrength = ofTokens;
    for (const vkattn_operation &other :
         {operation(projection_), operation(norm_), operation(rotary_), operation(append_), operation(advance_), operation(mean_),
          operation(merge_), operation(hadamard_), operation(keep_), operation(gradient_), operation(normGradient_), operation(drop_),
          operation(statistics_), operation(visibleBlocks_), operation(linear_), operation(linearGradient_)})
        all_.push_back(other);
}

CoreSteps runCoreSteps(const CoreHost &on) {
    return Steps(on).run();
}

void expectOnlyOutOfHostMemory(const CoreSteps &steps, uint64_t allocation) {
    EXPECT_LE(steps.failed.size(), 1u) << "allocation " << allocation;
    for (const CoreStep &step : steps.failed) {
        EXPECT_EQ(step.result, VKATTN_ERROR_OUT_OF_HOST_MEMORY) << step.name << ", allocation " << allocation << ": " << step.message;
        EXPECT_NE(step.message, "") << step.name << ", allocation " << allocation;
    }
    for (const std::string &text : steps.again) ADD_FAILURE() << text << ", allocation " << allocation;
}

} // namespace vkattn::test
