#include "conform/layers/layer_case.hpp"

#include "conform/cases/operation_case.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace vkattn::conform {
namespace {

uint64_t elementsOf(const vkattn_layout &l) {
    return uint64_t{l.extent[0]} * l.extent[1] * l.extent[2] * l.extent[3];
}

// `values` as they are in a type of 16 bits, and back.
std::vector<uint16_t> narrowed(const std::vector<float> &values, vkattn_dtype dtype) {
    std::vector<uint16_t> all(values.size());
    (void)vkattnConvert(VKATTN_F32, values.data(), dtype, all.data(), all.size(), nullptr);
    return all;
}

} // namespace

const std::vector<float> *LayerCase::valuesOf(vkattn_role role) const {
    const auto found = arrays.find(role);
    return found == arrays.end() ? nullptr : &found->second.values;
}

BoundedRows LayerCase::rowsOf(vkattn_role role, uint32_t batch) const {
    const LayerArray &array = arrays.at(role);
    const uint32_t count = array.layout.extent[2], dims = array.layout.extent[3];
    const float *at = array.values.data() + uint64_t{batch} * count * dims;
    BoundedRows rows(count, BoundedRow(dims));
    for (BoundedRow &row : rows)
        for (Bounded &each : row) each.value = static_cast<double>(*at++);
    return rows;
}

void LayerCase::makeTables(const vkattn_layout &layout) {
    LayerArray &cos = arrays[VKATTN_COS], &sin = arrays[VKATTN_SIN];
    cos.layout = sin.layout = layout;
    cos.values.resize(elementsOf(layout));
    sin.values = cos.values;
    (void)vkattnRotaryTable(layout.extent[2], 2 * layout.extent[3], 10000, cos.values.data(), sin.values.data(), nullptr);
}

std::string LayerCase::arraysText() const {
    std::string all;
    for (const auto &[role, array] : arrays) {
        const vkattn_layout &l = array.layout;
        all += "\nrole " + std::to_string(role) + " dtype " + std::to_string(l.dtype);
        for (int d = 0; d < 4; ++d) all += "  " + std::to_string(l.extent[d]) + " by " + std::to_string(l.strideElems[d]);
    }
    return all;
}

void drawValues(Random &random, LayerArray &array, const vkattn_layout &layout, float scale) {
    array.layout = layout;
    std::normal_distribution<float> normal;
    array.values.resize(elementsOf(layout));
    for (float &each : array.values) each = normal(random) * scale;
    if (array.layout.dtype == VKATTN_F32) return;
    const std::vector<uint16_t> narrow = narrowed(array.values, array.layout.dtype);
    (void)vkattnConvert(array.layout.dtype, narrow.data(), VKATTN_F32, array.values.data(), narrow.size(), nullptr);
}

DeviceTensor tensorOf(Runtime &runtime, const LayerArray &array, std::string *why) {
    DeviceTensor made = runtime.allocate(array.layout, why);
    if (!made) return {};
    const std::vector<float> &values = array.values;
    if (array.layout.dtype == VKATTN_F32) return made.upload(values.data(), 4 * values.size(), why) == VKATTN_OK ? made : DeviceTensor{};
    const std::vector<uint16_t> narrow = narrowed(values, array.layout.dtype);
    return made.upload(narrow.data(), 2 * narrow.size(), why) == VKATTN_OK ? made : DeviceTensor{};
}

DeviceTensor tensorOf(Runtime &runtime, const std::vector<uint32_t> &values, std::string *why) {
    DeviceTensor made = runtime.allocate(words(static_cast<uint32_t>(values.size())), why);
    if (!made) return {};
    return made.upload(values.data(), 4 * values.size(), why) == VKATTN_OK ? made : DeviceTensor{};
}

vkattn_result valuesOf(const DeviceTensor &tensor, std::vector<float> &values, std::string *why) {
    values.resize(elementsOf(tensor.layout()));
    if (tensor.layout().dtype == VKATTN_F32) return tensor.download(values.data(), 4 * values.size(), why);
    std::vector<uint16_t> narrow(values.size());
    if (const auto r = tensor.download(narrow.data(), 2 * narrow.size(), why)) return r;
    return vkattnConvert(tensor.layout().dtype, narrow.data(), VKATTN_F32, values.data(), narrow.size(), nullptr);
}

std::string judge(const LayerCase &layer, const std::vector<float> &y) {
    const BoundedRows rows = layer.output();
    size_t count = 0, at = 0;
    for (const BoundedRow &row : rows) count += row.size();
    if (count != y.size()) return "y has " + std::to_string(y.size()) + " elements, expected " + std::to_string(count);
    for (size_t r = 0; r < rows.size(); ++r)
        for (size_t n = 0; n < rows[r].size(); ++n, ++at) {
            const Bounded &expected = rows[r][n];
            const double got = static_cast<double>(y[at]), error = std::abs(got - expected.value), bound = 2 * expected.error;
            if (error <= bound) continue;
            char text[160];
            std::snprintf(text, sizeof text, "y of row %zu, dim %zu is %.10g, expected %.10g: error %.3g, bound %.3g", r, n, got,
                          expected.value, error, bound);
            return text;
        }
    return {};
}

LayerOutcome computeAndJudge(Runtime &runtime, LayerCase &layer) {
    LayerOutcome outcome;
    OperationList list = runtime.list();
    DeviceTensor output;
    std::string why;
    const auto require = [&](bool holds, const std::string &wrong) {
        if (!holds) outcome.wrong = wrong + "; " + layer.text();
        return holds;
    };
    const auto worked = [&](const char *what, vkattn_result status) {
        return require(status == VKATTN_OK, std::string(what) + " gave status " + std::to_string(status) + ": " + why);
    };
    if (!worked("add", layer.addTo(runtime, list, output, &why)) || !worked("verify", list.verify(outcome.steps, nullptr, &why)))
        return outcome;
    for (const StepCheck &step : outcome.steps)
        if (!require(step.report.passed != 0, "step " + std::to_string(&step - outcome.steps.data()) + " (" + step.operation +
                                                  ") is off by " + std::to_string(step.report.worstError) + ", bound " +
                                                  std::to_string(step.report.worstBound)))
            return outcome;
    std::vector<float> stepped, replayed;
    if (!worked("download", valuesOf(output, stepped, &why))) return outcome;
    const std::string wrong = judge(layer, stepped);
    if (!require(wrong.empty(), wrong)) return outcome;
    outcome.result = list.run(); // a cache takes the same tokens at the same place
    why = outcome.result.message;
    if (!worked("run", outcome.result.status) || !worked("download", valuesOf(output, replayed, &why))) return outcome;
    (void)require(replayed == stepped, "the list left other bits than its steps one by one");
    return outcome;
}

vkattn_layout &MultiHeadCase::layout(vkattn_role role) {
    switch (role) {
    case VKATTN_X:
        return layer.x;
    case VKATTN_CONTEXT:
        return layer.context;
    case VKATTN_WQ:
        return layer.wq;
    case VKATTN_WK:
        return layer.wk;
    case VKATTN_WV:
        return layer.wv;
    case VKATTN_WO:
        return layer.wo;
    case VKATTN_BQ:
        return layer.bq;
    case VKATTN_BK:
        return layer.bk;
    case VKATTN_BV:
        return layer.bv;
    case VKATTN_BO:
        return layer.bo;
    case VKATTN_GAMMA:
        return layer.gamma;
    case VKATTN_BETA:
        return layer.beta;
    case VKATTN_COS:
        return layer.cos;
    case VKATTN_SIN:
        return layer.sin;
    case VKATTN_BIAS:
        return options.bias;
    case VKATTN_WEIGHTS:
        return options.weights;
    default:
        return layer.y;
    }
}

void MultiHeadCase::draw(Random &random, vkattn_role role, const vkattn_layout &l, float scale) {
    drawValues(random, arrays[role], l, scale);
    layout(role) = l;
}

vkattn_result MultiHeadCase::operandsOn(Runtime &runtime, std::vector<ListOperand> &operands, DeviceTensor &y, std::string *why) {
    for (const auto &[role, array] : arrays) operands.push_back({role, tensorOf(runtime, array, why)});
    y = runtime.allocate(layer.y, why);
    operands.push_back({VKATTN_Y, y});
    if (!positions.empty()) operands.push_back({VKATTN_POSITIONS, tensorOf(runtime, positions, why)});
    if (!starts.empty()) operands.push_back({VKATTN_STARTS, tensorOf(runtime, starts, why)});
    if (!keyLengths.empty()) operands.push_back({VKATTN_KEY_LENGTHS, tensorOf(runtime, keyLengths, why)});
    if (layer.options && options.weights.extent[0]) {
        weights = runtime.allocate(options.weights, why);
        operands.push_back({VKATTN_WEIGHTS, weights});
    }
    if (layer.flags & VKATTN_LAYER_KEEPS_STEPS) {
        vkattn_layer_plan plan{};
        plan.structSize = sizeof plan;
        vkattn_diagnostic diagnostic{};
        if (const auto r = vkattnPlanLayer(&layer, &plan, &diagnostic)) {
            if (why) *why = diagnostic.message;
            return r;
        }
        operands.push_back({VKATTN_KEPT, runtime.allocate(words(static_cast<uint32_t>(plan.keptBytes / 4)), why)});
    }
    for (const ListOperand &operand : operands)
        if (!operand.tensor) return VKATTN_ERROR_OUT_OF_DEVICE_MEMORY;
    return VKATTN_OK;
}

vkattn_result MultiHeadCase::addTo(Runtime &runtime, OperationList &list, DeviceTensor &y, std::string *why) {
    std::vector<ListOperand> operands;
    if (const auto r = operandsOn(runtime, operands, y, why)) return r;
    return list.add(layer, operands, why);
}

BoundedRows MultiHeadCase::turned(BoundedRows rows, uint32_t batch) const {
    if (!has(VKATTN_COS)) return rows;
    const uint32_t tokens = layer.x.extent[2], dims = 2 * layer.cos.extent[3];
    for (uint32_t t = 0; t < tokens; ++t) {
        const uint32_t position = !positions.empty() ? positions[batch * tokens + t] : (starts.empty() ? layer.start : starts[batch]) + t;
        for (size_t head = 0; head < rows[t].size(); head += dim) {
            const auto first = rows[t].begin() + static_cast<ptrdiff_t>(head);
            const BoundedRow some = rotated({first, first + dims}, layer.pairs, position);
            std::copy(some.begin(), some.end(), first);
        }
    }
    return rounded(std::move(rows), layer.stored);
}

BoundedRows MultiHeadCase::output() const {
    const vkattn_layer &l = layer;
    const size_t qRows = l.heads * dim, kRows = kvHeads * dim, vRows = kvHeads * valueDim;
    const uint32_t flags = l.options ? l.options->flags : 0;
    const bool one = !has(VKATTN_WK), causal = flags & VKATTN_CAUSAL, topLeft = flags & VKATTN_ALIGN_TOP_LEFT;
    const auto biasOf = [&](size_t b, size_t h, size_t i, size_t j) {
        if (!has(VKATTN_BIAS)) return 0.0;
        const uint32_t *const extent = options.bias.extent;
        const size_t at[] = {b, h, i, j};
        size_t element = 0;
        for (int d = 0; d < 4; ++d) element = element * extent[d] + (extent[d] > 1 ? at[d] : 0);
        return static_cast<double>((*valuesOf(VKATTN_BIAS))[element]);
    };
    const auto stored = [&](BoundedRows rows) { return rounded(std::move(rows), l.stored); };
    const auto normed = [&](const BoundedRows &rows) {
        return norm(rows, l.norm, l.epsilon, valuesOf(VKATTN_GAMMA), valuesOf(VKATTN_BETA));
    };
    const auto projected = [&](const BoundedRows &rows, vkattn_role w, vkattn_role bias, size_t first, size_t count) {
        return stored(product(rows, {*valuesOf(w), first, count}, valuesOf(bias)));
    };
    BoundedRows all;
    for (uint32_t b = 0; b < l.x.extent[0]; ++b) {
        const BoundedRows x = rowsOf(VKATTN_X, b), n = l.place == VKATTN_NORM_PRE ? stored(normed(x)) : x,
                          c = has(VKATTN_CONTEXT) ? rowsOf(VKATTN_CONTEXT, b) : n;
        const BoundedRows q = turned(projected(n, VKATTN_WQ, VKATTN_BQ, 0, qRows), b),
                          k = turned(one ? projected(n, VKATTN_WQ, VKATTN_BQ, qRows, kRows) : projected(c, VKATTN_WK, VKATTN_BK, 0, kRows),
                                     b),
                          v = one ? projected(n, VKATTN_WQ, VKATTN_BQ, qRows + kRows, vRows) : projected(c, VKATTN_WV, VKATTN_BV, 0, vRows);
        BoundedRows a(q.size());
        for (size_t i = 0; i < q.size(); ++i)
            for (uint32_t h = 0; h < l.heads; ++h) {
                const size_t keyHead = h / (l.heads / kvHeads);
                const size_t keys = keyLengths.empty() ? k.size() : std::min<size_t>(k.size(), keyLengths[b]);
                // The last query sees the last key, or the first one the first.
                const size_t seen = !causal   ? keys
                                    : topLeft ? std::min(keys, i + 1)
                                              : std::min(keys, keys + i + 1 < q.size() ? 0 : keys + i + 1 - q.size());
                const double scale = 1 / std::sqrt(static_cast<double>(dim));
                BoundedRow scores;
                for (size_t j = 0; j < seen; ++j) {
                    BoundedSum score;
                    for (uint32_t d = 0; d < dim; ++d) score.add(q[i][h * dim + d], k[j][keyHead * dim + d]);
                    const double bias = biasOf(b, h, i, j), sum = score.value * scale + bias;
                    scores.push_back(
                        {sum, (score.error + unitOfSum(dim) * score.magnitude) * scale + 2 * fp32Unit * (std::abs(bias) + std::abs(sum))});
                }
                const BoundedRow head = attend(
                    scores, valueDim, [&](size_t j, size_t d) { return v[j][keyHead * valueDim + d]; }, l.stored);
                a[i].insert(a[i].end(), head.begin(), head.end());
            }
        const bool residual = l.flags & VKATTN_LAYER_RESIDUAL, post = l.place == VKATTN_NORM_POST;
        BoundedRows y = product(stored(std::move(a)), {*valuesOf(VKATTN_WO), 0, l.wo.extent[2]}, valuesOf(VKATTN_BO));
        if (post || l.outputDropout > 0) y = stored(std::move(y));
        if (l.outputDropout > 0) {
            y = dropped(std::move(y), l.outputDropout, l.outputDropoutSeed, l.outputDropoutOffset, b);
            if (post) y = stored(std::move(y));
        }
        if (residual) y = sum(std::move(y), x);
        if (post) y = normed(y);
        y = rounded(std::move(y), l.y.dtype);
        all.insert(all.end(), y.begin(), y.end());
    }
    return all;
}

std::string MultiHeadCase::text() const {
    std::string turns;
    if (has(VKATTN_COS)) {
        turns = ", pairs " + std::to_string(layer.pairs) + " from " + std::to_string(layer.start) + ", or at";
        for (const std::vector<uint32_t> &all : {starts, positions})
            for (const uint32_t each : all) (turns += ' ') += std::to_string(each);
    }
    return "layer of " + std::to_string(layer.heads) + " heads, " + std::to_string(kvHeads) + " of keys, dims " + std::to_string(dim) +
           " and " + std::to_string(valueDim) + ", place " + std::to_string(layer.place) + ", norm " + std::to_string(layer.norm) +
           ", flags " + std::to_string(layer.flags) + ", stored " + std::to_string(layer.stored) + ", options " +
           (layer.options ? std::to_string(options.flags) + (options.weights.extent[0] ? " with weights" : "") : "none") +
           (keyLengths.empty() ? "" : " with key lengths") + ", output dropout " + std::to_string(layer.outputDropout) + " of " +
           std::to_string(layer.outputDropoutSeed) + " and " + std::to_string(layer.outputDropoutOffset) + ", y dtype " +
           std::to_string(layer.y.dtype) + turns + arraysText();
}

void MultiHeadCase::drawRotary(Random &random) {
    const uint32_t entries = layer.x.extent[0], tokens = layer.x.extent[2], farthest = 30;
    layer.pairs = between(random, 0, 1) ? VKATTN_PAIRS_INTERLEAVED : VKATTN_PAIRS_HALF;
    layer.cos = layer.sin = drawLayout(random, VKATTN_F32, true, {1, 1, farthest + tokens, between(random, 1, dim / 2)});
    makeTables(layer.cos);
    switch (between(random, 0, 2)) {
    case 0:
        layer.start = between(random, 0, farthest);
        break;
    case 1:
        layer.presentRoles = VKATTN_PRESENT(VKATTN_STARTS);
        for (uint32_t b = 0; b < entries; ++b) starts.push_back(between(random, 0, farthest));
        break;
    default:
        layer.presentRoles = VKATTN_PRESENT(VKATTN_POSITIONS);
        for (uint32_t t = 0; t < entries * tokens; ++t) positions.push_back(between(random, 0, farthest));
    }
}

void MultiHeadCase::drawOptions(Random &random, MultiHeadParts parts) {
    const auto yes = [&] { return between(random, 0, 1) == 1; };
    const uint32_t batch = layer.x.extent[0], tokens = layer.x.extent[2],
                   keyTokens = has(VKATTN_CONTEXT) ? layer.context.extent[2] : tokens;
    const auto broadcast = [&](uint32_t extent) { return yes() ? extent : 1; };
    layer.options = &options;
    options.structSize = sizeof options;
    if (yes()) options.flags = yes() ? uint32_t{VKATTN_CAUSAL} : uint32_t{VKATTN_CAUSAL} | VKATTN_ALIGN_TOP_LEFT;
    if (yes() && parts != MultiHeadParts::tall) {
        if (yes()) layer.flags |= VKATTN_LAYER_AVERAGED_WEIGHTS;
        const uint32_t written = layer.flags & VKATTN_LAYER_AVERAGED_WEIGHTS ? 1 : layer.heads;
        options.weights = drawLayout(random, drawType(random), true, {batch, written, tokens, keyTokens});
    }
    if (yes())
        draw(random, VKATTN_BIAS,
             drawLayout(random, drawType(random), true,
                        {broadcast(batch), broadcast(layer.heads), broadcast(tokens), broadcast(keyTokens)}));
    if (parts != MultiHeadParts::any || !yes()) return; // no keys at all would hide what else is wrong
    options.presentRoles = VKATTN_PRESENT(VKATTN_KEY_LENGTHS);
    for (uint32_t b = 0; b < batch; ++b) keyLengths.push_back(between(random, 0, keyTokens + 2));
}

std::unique_ptr<MultiHeadCase> drawMultiHead(Random &random, MultiHeadParts parts) {
    auto made = std::make_unique<MultiHeadCase>();
    MultiHeadCase &m = *made;
    const auto yes = [&] { return between(random, 0, 1) == 1; };
    const bool everything = parts == MultiHeadParts::all, known = everything || parts == MultiHeadParts::packed;
    // Bounds of f32 are narrow.
    const auto type = [&] { return known ? VKATTN_F32 : drawType(random); };
    const auto has = [&] { return yes() || everything; };
    const bool tall = parts == MultiHeadParts::tall;
    const uint32_t heads = between(random, 1, tall ? 3 : 6), batch = between(random, 1, 2),
                   tokens = tall ? between(random, 65, 200) : between(random, known ? 2 : 1, 20);
    do m.kvHeads = between(random, 1, heads);
    while (heads % m.kvHeads);
    const bool packedQkv = parts == MultiHeadParts::packed || (parts != MultiHeadParts::all && between(random, 0, 3) == 0),
               cross = !packedQkv && has();
    const bool turns = parts == MultiHeadParts::packed || (!cross && yes());
    m.dim = between(random, turns ? 2 : 1, 12), m.valueDim = packedQkv ? m.dim : between(random, 1, 12);
    const uint32_t model = between(random, 1, 40), keyTokens = cross ? between(random, 1, tall ? 250 : 20) : tokens,
                   keyModel = cross ? between(random, 1, 40) : model;
    vkattn_layer &l = m.layer;
    l.structSize = sizeof l;
    l.heads = heads, l.kvHeads = m.kvHeads;
    l.place = everything ? VKATTN_NORM_POST : static_cast<vkattn_norm_place>(between(random, 0, 2));
    l.norm = yes() ? VKATTN_LAYER_NORM : VKATTN_RMS_NORM;
    l.epsilon = 1e-5f;
    l.flags = has() ? uint32_t{VKATTN_LAYER_RESIDUAL} : 0;
    l.stored = type();
    const uint32_t out = l.flags & VKATTN_LAYER_RESIDUAL ? model : between(random, 1, 40);
    const auto draw = [&](vkattn_role role, uint32_t entries, uint32_t rows, uint32_t dims, float scale = 1) {
        m.draw(random, role, drawLayout(random, type(), true, {entries, 1, rows, dims}), scale);
    };
    const auto drawMatrix = [&](vkattn_role role, uint32_t rows, uint32_t in) {
        draw(role, 1, rows, in, 1 / std::sqrt(static_cast<float>(in)));
    };
    draw(VKATTN_X, batch, tokens, model);
    if (cross) draw(VKATTN_CONTEXT, batch, keyTokens, keyModel);
    const uint32_t qRows = heads * m.dim, kRows = m.kvHeads * m.dim, vRows = m.kvHeads * m.valueDim;
    if (packedQkv) {
        drawMatrix(VKATTN_WQ, qRows + kRows + vRows, model);
        if (has()) draw(VKATTN_BQ, 1, 1, qRows + kRows + vRows);
    } else {
        drawMatrix(VKATTN_WQ, qRows, model);
        drawMatrix(VKATTN_WK, kRows, keyModel);
        drawMatrix(VKATTN_WV, vRows, keyModel);
        if (has()) draw(VKATTN_BQ, 1, 1, qRows);
        if (has()) draw(VKATTN_BK, 1, 1, kRows);
        if (has()) draw(VKATTN_BV, 1, 1, vRows);
    }
    drawMatrix(VKATTN_WO, out, heads * m.valueDim);
    if (has()) draw(VKATTN_BO, 1, 1, out);
    const uint32_t normed = l.place == VKATTN_NORM_PRE ? model : out;
    if (l.place != VKATTN_NORM_NONE && has()) draw(VKATTN_GAMMA, 1, 1, normed);
    if (l.place != VKATTN_NORM_NONE && has()) draw(VKATTN_BETA, 1, 1, normed);
    if (turns) m.drawRotary(random);
    l.y = drawLayout(random, type(), true, {batch, 1, tokens, out});
    if (between(random, 0, 3) || parts == MultiHeadParts::tall) m.drawOptions(random, parts);
    if (everything || between(random, 0, tall ? 1 : 2) == 0) {
        l.outputDropout = between(random, 1, 9) / 10.0;
        l.outputDropoutSeed = random();
        l.outputDropoutOffset = static_cast<uint32_t>(random());
    }
    return made;
}

std::unique_ptr<MultiHeadCase> plainMultiHead(Random &random, uint32_t heads, uint32_t dim, uint32_t tokens) {
    auto made = std::make_unique<MultiHeadCase>();
    const uint32_t model = heads * dim;
    made->layer.structSize = sizeof made->layer;
    made->layer.heads = made->kvHeads = heads;
    made->dim = made->valueDim = dim;
    made->draw(random, VKATTN_X, packed(VKATTN_F32, 1, 1, tokens, model));
    // As drawMultiHead has them: larger ones make scores so large that a softmax magnifies every rounding.
    const float scale = 1 / std::sqrt(static_cast<float>(model));
    for (const vkattn_role role : {VKATTN_WQ, VKATTN_WK, VKATTN_WV, VKATTN_WO})
        made->draw(random, role, matrix(VKATTN_F32, model, model), scale);
    made->layer.y = made->layer.x;
    return made;
}

} // namespace vkattn::conform
