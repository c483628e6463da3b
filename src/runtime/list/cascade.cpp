#include "runtime/list/cascade.hpp"

#include "runtime/list/tensor_memory.hpp"

namespace vkattn {
namespace {

// Makes the rows of neighbouring batch entries those of one, so that there are `groups` entries.
vkattn_result foldBatch(const DeviceTensor &tensor, const char *name, uint32_t groups, DeviceTensor &out, std::string *why) {
    vkattn_layout layout = tensor.layout();
    const uint32_t entries = layout.extent[0] / groups, rows = layout.extent[2];
    const int64_t step = rows == 1 ? layout.strideElems[0] : layout.strideElems[2];
    if (entries > 1 && rows > 1 && layout.strideElems[0] != static_cast<int64_t>(rows) * layout.strideElems[2])
        return failed(invalid,
                      std::string(name) + " of a cascade has " + std::to_string(rows) +
                          " queries whose batch entries do not follow each other: give one query each, " +
                          "or a token-major tensor, [batch, token, head, dim] in memory",
                      why);
    if (entries > 1) {
        layout.extent[2] = entries * rows;
        layout.strideElems[2] = step;
        layout.strideElems[0] *= entries;
        layout.extent[0] = groups;
    }
    out = tensor.view(layout, why);
    return out ? VKATTN_OK : invalid;
}

// What a cascade cannot have: what depends on where a token stands among the keys of all levels. NULL: nothing.
const char *besideLevels(const AttentionOf &own) {
    if (own.options.flags & VKATTN_WINDOW) return "VKATTN_WINDOW";
    if (own.options.grid.rule != VKATTN_GRID_NONE) return "a grid";
    if (own.options.program) return "a program";
    if (own.options.dropout > 0) return "dropout";
    if (own.slopes) return "ALiBi slopes";
    return own.priorOut || own.priorLse ? "priorOut, which the levels leave," : nullptr;
}

} // namespace

vkattn_result attentionsOf(const CascadeOf &cascade, std::vector<AttentionOf> &out, std::string *why) {
    const AttentionOf &own = cascade.own;
    for (const auto &[tensor, name] : {std::pair{&own.q, "q"}, {&own.out, "out"}, {&own.lse, "lse"}})
        if (!*tensor)
            return failed(invalid,
                          std::string("own.") + name + " of a cascade has no tensor; the levels go on from each other in out and lse", why);
    if (const char *const other = besideLevels(own))
        return failed(invalid,
                      std::string("own has ") + other + " in a cascade, whose levels are seen whole; leave that out, or the levels", why);
    const uint32_t batch = own.q.layout().extent[0];
    for (const CascadeLevel &level : cascade.levels) {
        const std::string which = "level " + std::to_string(out.size()) + " of the cascade";
        if (!level.k || !level.v) return failed(invalid, which + " has no k or no v", why);
        const uint32_t groups = level.k.layout().extent[0];
        if (groups == 0 || batch % groups != 0)
            return failed(invalid,
                          which + " has " + std::to_string(groups) + " groups, expected a number that divides the " +
                              std::to_string(batch) + " sequences",
                          why);
        AttentionOf step{};
        step.k = level.k, step.v = level.v, step.keyLengths = level.keyLengths;
        step.options.flags = own.options.flags & (VKATTN_SCALE | VKATTN_DETERMINISTIC);
        step.options.scale = own.options.scale, step.options.softcap = own.options.softcap, step.options.kernel = own.options.kernel;
        if (const auto r = foldBatch(own.q, "q", groups, step.q, why)) return r;
        if (const auto r = foldBatch(own.out, "out", groups, step.out, why)) return r;
        if (const auto r = foldBatch(own.lse, "lse", groups, step.lse, why)) return r;
        if (!out.empty()) step.priorOut = step.out, step.priorLse = step.lse;
        out.push_back(step);
    }
    out.push_back(own);
    if (out.size() > 1) out.back().priorOut = own.out, out.back().priorLse = own.lse;
    return VKATTN_OK;
}

} // namespace vkattn
