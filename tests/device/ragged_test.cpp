// Ragged batches past what the case matrix holds: as many sequences as a shader can read, and
// hostile arrays over many lanes.
#include "environment.hpp"

#include <algorithm>

using namespace vkattn;
using namespace vkattn::test;

namespace {

// `sequences` sequences of at most two queries and two keys in packed [1, 1, tokens, 1] tensors;
// `spoil` edits the arrays.
template <class Spoil> void checkMany(uint32_t sequences, const Spoil &spoil) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    Random random = randomFor("many sequences");
    std::vector<uint32_t> cuQ = {0}, cuK = {0};
    for (uint32_t s = 0; s < sequences; ++s) {
        cuQ.push_back(cuQ.back() + static_cast<uint32_t>(random() % 3));
        cuK.push_back(cuK.back() + static_cast<uint32_t>(random() % 3));
    }
    const uint32_t queries = cuQ.back() + 3, keys = cuK.back() + 3;
    spoil(cuQ, queries, random);
    spoil(cuK, keys, random);
    std::vector<float> q(queries), k(keys), v(keys), out(queries, 77.0f), lse(queries, 77.0f);
    for (auto *values : {&q, &k, &v})
        for (float &value : *values) value = static_cast<float>(static_cast<int64_t>(random() % 4001) - 2000) * 0.001f;
    vkattn_problem p{};
    p.structSize = sizeof p;
    const auto layout = [](uint32_t tokens) { return vkattn_layout{VKATTN_F32, {1, 1, tokens, 1}, {tokens, tokens, 1, 1}, 0}; };
    p.q = p.out = p.lse = layout(queries);
    p.k = p.v = layout(keys);
    p.flags = VKATTN_CAUSAL;
    p.presentRoles = VKATTN_PRESENT(VKATTN_CU_SEQ_Q) | VKATTN_PRESENT(VKATTN_CU_SEQ_K);
    p.sequences = sequences;
    p.maxSeqQ = p.maxSeqK = 2;
    // The table of sequences is the same for all kernels; the fused ones take a workgroup a
    // sequence, which takes SwiftShader minutes.
    if (sequences > 100000) p.kernel = VKATTN_KERNEL_STAGED;
    const vkattn_operand_memory operands[] = {{VKATTN_Q, q.data(), q.size() * 4},           {VKATTN_K, k.data(), k.size() * 4},
                                              {VKATTN_V, v.data(), v.size() * 4},           {VKATTN_OUT, out.data(), out.size() * 4},
                                              {VKATTN_LSE, lse.data(), lse.size() * 4},     {VKATTN_CU_SEQ_Q, cuQ.data(), cuQ.size() * 4},
                                              {VKATTN_CU_SEQ_K, cuK.data(), cuK.size() * 4}};
    const RunResult result = runtime->run(p, operands);
    ASSERT_EQ(result.status, VKATTN_OK) << result.message;
    EXPECT_EQ(result.fallbackReason, "");
    vkattn_verify_options options{};
    options.structSize = sizeof options;
    options.allRows = 1;
    vkattn_verify_report report{};
    vkattn_diagnostic why{};
    ASSERT_EQ(vkattnCpuVerify(&p, operands, static_cast<uint32_t>(std::size(operands)), &options, &report, &why), VKATTN_OK) << why.message;
    EXPECT_TRUE(report.passed) << sequences << " sequences: " << report.worstGot << " instead of " << report.worstExpected << " at token "
                               << report.worstIndex[2];
    // Rows that belong to no sequence keep their bytes.
    std::vector<bool> owned(queries);
    uint32_t begin = 0;
    for (uint32_t s = 0; s < sequences; ++s) {
        begin = std::max(begin, std::min(cuQ[s], queries));
        const uint32_t end = std::min(std::max(begin, std::min(cuQ[s + 1], queries)), begin + 2);
        for (uint32_t t = begin; t < end; ++t) owned[t] = true;
    }
    uint32_t touched = 0;
    for (uint32_t t = 0; t < queries; ++t) touched += !owned[t] && (out[t] != 77.0f || lse[t] != 77.0f);
    EXPECT_EQ(touched, 0u) << sequences << " sequences";
}

const auto asDrawn = [](auto &...) {};
const auto hostile = [](std::vector<uint32_t> &cu, uint32_t total, Random &random) {
    for (uint32_t n = 0; n < 40; ++n) cu[random() % cu.size()] = static_cast<uint32_t>(random() % (n < 30 ? total : 0x100000000ull) / 2);
};

} // namespace

TEST(Ragged, manySequences) {
    for (const uint32_t sequences : {1u, 63u, 64u, 65u, 127u, 128u, 129u, 1000u, 70001u}) {
        checkMany(sequences, asDrawn);
        checkMany(sequences, hostile);
    }
}
TEST(Ragged, aMillionSequences) {
    checkMany(1u << 20, asDrawn);
}
