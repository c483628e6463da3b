#include "compile/operations.hpp"

#include <vkattn/operations.hpp>
#include <vkattn/vkattn.hpp>

namespace vkattn::bench {
namespace {

// A model of 1024 dims: 8 heads of 128.
constexpr uint32_t model = 1024, heads = 8, headDim = model / heads, cacheTokens = 4096;

struct Routine {
    const char *name;
    vkattn_projection_kernel kernel;
};
constexpr Routine routines[] = {{"projection_shared", VKATTN_PROJECTION_SHARED},
                                {"projection_few", VKATTN_PROJECTION_FEW},
                                {"projection_coopmat", VKATTN_PROJECTION_COOPMAT}};
constexpr struct {
    const char *name;
    vkattn_gradient_kernel kernel;
} gradientRoutines[] = {{"gradient_tiles", VKATTN_GRADIENT_TILES}, {"gradient_coopmat", VKATTN_GRADIENT_COOPMAT}};
constexpr struct {
    const char *name;
    vkattn_norm (*make)(const vkattn_layout &x, const vkattn_layout &y, float epsilon);
} norms[] = {{"layer_norm", layerNorm}, {"rms_norm", rmsNorm}};
constexpr struct {
    const char *name;
    uint32_t tokens;
} shapes[] = {{"prompt", 1024}, {"token", 1}};
constexpr struct {
    const char *name;
    vkattn_dtype dtype;
} dtypes[] = {{"f32", VKATTN_F32}, {"f16", VKATTN_F16}, {"bf16", VKATTN_BF16}};

class Visitor {
  public:
    explicit Visitor(const std::function<void(const OperationToCompile &, const vkattn_operation &)> &visit) : visit_(visit) {}

    void projections(const char *shape, uint32_t tokens, const char *type, vkattn_dtype dtype) {
        const vkattn_layout rows = packed(dtype, 1, 1, tokens, model), w = matrix(dtype, model, model);
        for (const Routine &routine : routines) {
            vkattn_projection p = projection(rows, w, rows);
            p.kernel = routine.kernel;
            visit_({routine.name, shape, type, ""}, operation(p));
            p.bias = vector(dtype, model);
            p.residual = rows;
            visit_({routine.name, shape, type, "options"}, operation(p));
        }
    }
    void norms(const char *shape, uint32_t tokens, const char *type, vkattn_dtype dtype) {
        const vkattn_layout rows = packed(dtype, 1, 1, tokens, model);
        for (const auto &each : bench::norms) {
            vkattn_norm n = each.make(rows, rows, 1e-5f);
            visit_({each.name, shape, type, ""}, operation(n));
            n.residual = n.sum = rows;
            n.gamma = n.beta = vector(dtype, model);
            visit_({each.name, shape, type, "options"}, operation(n));
        }
    }
    void tokens(const char *shape, uint32_t count, const char *type, vkattn_dtype dtype) {
        const vkattn_layout x = packed(dtype, 1, heads, count, headDim), cache = packed(dtype, 1, heads, cacheTokens, headDim),
                            table = matrix(VKATTN_F32, cacheTokens, headDim / 2);
        vkattn_rotary r = rotary(x, table, table, x);
        visit_({"rotary", shape, type, ""}, operation(r));
        r.presentRoles = VKATTN_PRESENT(VKATTN_STARTS);
        r.flags = VKATTN_ROTARY_APPEND;
        r.y = cache;
        visit_({"rotary", shape, type, "options"}, operation(r));
        vkattn_append a = append(x, cache);
        visit_({"append", shape, type, ""}, operation(a));
        a.presentRoles = VKATTN_PRESENT(VKATTN_STARTS);
        visit_({"append", shape, type, "options"}, operation(a));
        visit_({"hadamard", shape, type, ""}, operation(hadamard(x, x)));
    }
    // Of weights: f32, whatever the layer's type.
    void means(const char *shape, uint32_t tokens) {
        visit_({"mean", shape, "f32", ""},
               operation(mean(packed(VKATTN_F32, 1, heads, tokens, model), packed(VKATTN_F32, 1, 1, tokens, model))));
    }

    void normGradients(const char *shape, uint32_t tokens, const char *type, vkattn_dtype dtype) {
        const vkattn_layout rows = packed(dtype, 1, 1, tokens, model), row = vector(dtype, model);
        visit_({"norm gradient", shape, type, ""}, operation(normGradient(VKATTN_LAYER_NORM, rows, row, rows, rows)));
        visit_({"norm gradient", shape, type, "options"}, operation(normGradient(VKATTN_LAYER_NORM, rows, row, rows, rows, row, row)));
    }
    void drops(const char *shape, uint32_t tokens, const char *type, vkattn_dtype dtype) {
        const vkattn_layout rows = packed(dtype, 1, 1, tokens, model);
        vkattn_drop d = drop(0.1, 1, 1, rows, rows);
        visit_({"drop", shape, type, ""}, operation(d));
        d.residual = rows;
        visit_({"drop", shape, type, "options"}, operation(d));
    }

    // dQ, dK and dV; with options: of a softcap and slopes, whose gradients are asked for too.
    void gradients(const char *shape, uint32_t tokens, const char *type, vkattn_dtype dtype) {
        for (const auto &routine : gradientRoutines)
            for (const uint32_t dim : {64u, 128u}) {
                const vkattn_layout rows = packed(dtype, 1, heads, tokens, dim), keys = packed(dtype, 1, heads, cacheTokens, dim);
                vkattn_problem forward = problem(rows, keys, keys, rows);
                forward.flags = VKATTN_CAUSAL | VKATTN_ROW_STATISTICS;
                forward.lse = packed(VKATTN_F32, 1, heads, tokens, 2);
                vkattn_attention_gradient g = attentionGradient(forward, rows);
                g.dQ = rows, g.dK = g.dV = keys;
                g.kernel = routine.kernel;
                visit_({routine.name, shape, type, "", dim}, operation(g));
                forward.softcap = 20;
                forward.presentRoles = VKATTN_PRESENT(VKATTN_ALIBI_SLOPES);
                g.presentRoles = VKATTN_PRESENT(VKATTN_D_SLOPES) | VKATTN_PRESENT(VKATTN_D_SOFTCAP);
                visit_({routine.name, shape, type, "options", dim}, operation(g));
            }
    }

    // All columns; with options: also the largest weights, what keys receive, the density, a softcap and slopes.
    void statistics(const char *shape, uint32_t tokens, const char *type, vkattn_dtype dtype) {
        for (const uint32_t dim : {64u, 128u}) {
            const vkattn_layout rows = packed(dtype, 1, heads, tokens, dim), keys = packed(dtype, 1, heads, cacheTokens, dim);
            vkattn_problem attention = problem(rows, keys, keys, rows);
            attention.flags = VKATTN_CAUSAL;
            vkattn_attention_statistics s = attentionStatistics(attention);
            s.statistics = packed(VKATTN_F32, 1, heads, tokens, VKATTN_STATISTIC_COUNT);
            visit_({"statistics", shape, type, "", dim}, operation(s));
            attention.softcap = 20;
            attention.presentRoles = VKATTN_PRESENT(VKATTN_ALIBI_SLOPES);
            s.received = packed(VKATTN_F32, 1, heads, cacheTokens, 1);
            s.topWeights = packed(VKATTN_F32, 1, heads, tokens, 8);
            s.topKeys = packed(VKATTN_BITS32, 1, heads, tokens, 8);
            s.densityThreshold = 0.01f;
            visit_({"statistics", shape, type, "options", dim}, operation(s));
        }
    }

  private:
    const std::function<void(const OperationToCompile &, const vkattn_operation &)> &visit_;
};

} // namespace

std::vector<std::string> namesOfOperations() {
    std::vector<std::string> names;
    for (const Routine &each : routines) names.emplace_back(each.name);
    for (const auto &each : norms) names.emplace_back(each.name);
    for (const auto &each : gradientRoutines) names.emplace_back(each.name);
    names.insert(names.end(), {"rotary", "append", "hadamard", "advance", "mean", "keep", "norm gradient", "drop", "statistics"});
    return names;
}

void visitOperations(const std::function<void(const OperationToCompile &, const vkattn_operation &)> &visit) {
    Visitor visitor(visit);
    for (const auto &[shape, tokens] : shapes)
        for (const auto &[type, dtype] : dtypes) {
            visitor.projections(shape, tokens, type, dtype);
            visitor.norms(shape, tokens, type, dtype);
            visitor.normGradients(shape, tokens, type, dtype);
            visitor.drops(shape, tokens, type, dtype);
            visitor.tokens(shape, tokens, type, dtype);
            visitor.gradients(shape, tokens, type, dtype);
            visitor.statistics(shape, tokens, type, dtype);
        }
    for (const auto &[shape, tokens] : shapes) visitor.means(shape, tokens);
    const vkattn_layout lengths = vector(VKATTN_BITS32, 1);
    visit({"advance", "token", "bits32", ""}, operation(advance(lengths, lengths)));
    visit({"keep", "prompt", "bits32", ""}, operation(keep(0.1, 1, 1, 1024, packed(VKATTN_BITS32, 1, 8, 1024, 32))));
}

} // namespace vkattn::bench
