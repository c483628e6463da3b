#include "measure/cascade.hpp"

#include "shapes/operands.hpp"

namespace vkattn::bench {
namespace {

constexpr uint32_t sequences = 32, ownTokens = 64;

constexpr PassShape table[] = {
    {"shared-d64", 8, 4096, 64, VKATTN_F32, false},
    {"shared-d128", 8, 4096, 128, VKATTN_F32, false},
    {"shared-d128-f16", 8, 4096, 128, VKATTN_F16, false},
    {"shared-gqa-d64", 32, 4096, 64, VKATTN_F32, false, 8},
};

std::vector<PassTime> measureCascade(Runtime &runtime, const PassShape &shape, const MeasureOptions &options, std::string &failure) {
    const uint32_t kvHeads = shape.keyHeads(), keys = shape.tokens + ownTokens;
    const vkattn_layout rows = packed(VKATTN_F32, sequences, shape.heads, 1, shape.dim);
    const vkattn_layout ofSequences = packed(shape.dtype, sequences, kvHeads, keys, shape.dim);
    AttentionOf apart{}, shared{};
    if (!makeInput(runtime, rows, options.seed, apart.q, failure) || !makeInput(runtime, ofSequences, options.seed + 1, apart.k, failure) ||
        !makeInput(runtime, ofSequences, options.seed + 2, apart.v, failure))
        return {};
    apart.out = runtime.allocate(rows, &failure);
    shared.out = runtime.allocate(rows, &failure);
    shared.lse = runtime.allocate(packed(VKATTN_F32, sequences, shape.heads, 1, 1), &failure);
    if (!apart.out || !shared.out || !shared.lse) return {};
    shared.q = apart.q;
    shared.k = apart.k.part(2, shape.tokens, ownTokens);
    shared.v = apart.v.part(2, shape.tokens, ownTokens);
    const CascadeLevel prefix{apart.k.part(0, 0, 1).part(2, 0, shape.tokens), apart.v.part(0, 0, 1).part(2, 0, shape.tokens)};
    const double flops = 4.0 * sequences * shape.heads * keys * shape.dim;

    Passes passes(runtime);
    passes.add("32 sequences", apart, flops);
    passes.add("cascade", CascadeOf{shared, {&prefix, 1}}, flops);
    passes.add("its own keys alone", shared, flops * ownTokens / keys);
    return passes.measure(options, 0);
}

} // namespace

PassTable cascadePasses() {
    return {table, measureCascade};
}

} // namespace vkattn::bench
