#include "conform/layers/layer_gradient_case.hpp"

#include "conform/cases/operation_case.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace vkattn::conform {
namespace {

// An input of a layer, and the role and place of its gradient.
struct Input {
    vkattn_role input, role;
    vkattn_layout vkattn_layer_gradient::*layout;
};
constexpr Input inputs[] = {
    {VKATTN_X, VKATTN_D_X, &vkattn_layer_gradient::dX},
    {VKATTN_CONTEXT, VKATTN_D_CONTEXT, &vkattn_layer_gradient::dContext},
    {VKATTN_WQ, VKATTN_D_WQ, &vkattn_layer_gradient::dWq},
    {VKATTN_WK, VKATTN_D_WK, &vkattn_layer_gradient::dWk},
    {VKATTN_WV, VKATTN_D_WV, &vkattn_layer_gradient::dWv},
    {VKATTN_WO, VKATTN_D_WO, &vkattn_layer_gradient::dWo},
    {VKATTN_BQ, VKATTN_D_BQ, &vkattn_layer_gradient::dBq},
    {VKATTN_BK, VKATTN_D_BK, &vkattn_layer_gradient::dBk},
    {VKATTN_BV, VKATTN_D_BV, &vkattn_layer_gradient::dBv},
    {VKATTN_BO, VKATTN_D_BO, &vkattn_layer_gradient::dBo},
    {VKATTN_GAMMA, VKATTN_D_GAMMA, &vkattn_layer_gradient::dGamma},
    {VKATTN_BETA, VKATTN_D_BETA, &vkattn_layer_gradient::dBeta},
    {VKATTN_BIAS, VKATTN_D_BIAS, &vkattn_layer_gradient::dBias},
};
constexpr vkattn_role scalars[] = {VKATTN_D_SCALE, VKATTN_D_SOFTCAP};

const Input *inputOf(vkattn_role gradient) {
    const Input *const found = std::find_if(std::begin(inputs), std::end(inputs), [&](const Input &each) { return each.role == gradient; });
    return found == std::end(inputs) ? nullptr : found;
}

using Row = std::vector<double>;
using Rows = std::vector<Row>;

template <class Number> double largestOf(const std::vector<Number> &values) {
    double largest = 0;
    for (const Number each : values) largest = std::max(largest, std::abs(static_cast<double>(each)));
    return largest;
}

// The layer in double, with everything that it learns as numbers that can be moved.
class Formulas {
  public:
    std::map<vkattn_role, Row> numbers;
    double scale, softcap;

    explicit Formulas(const LayerGradientCase &given) : given_(given), m_(*given.forward), l_(m_.layer) {
        for (const auto &[role, array] : m_.arrays) numbers[role] = Row(array.values.begin(), array.values.end());
        const bool literal = l_.options && m_.options.flags & VKATTN_SCALE;
        scale = literal ? static_cast<double>(m_.options.scale) : 1 / std::sqrt(static_cast<double>(m_.dim));
        softcap = l_.options ? static_cast<double>(m_.options.softcap) : 0;
    }

    struct Loss {
        double sum = 0, magnitude = 0; // the sum, and that of the absolute values
    };
    [[nodiscard]] Loss loss() const {
        Loss loss;
        const float *dY = given_.dY.values.data();
        for (uint32_t b = 0; b < l_.x.extent[0]; ++b)
            for (const Row &row : output(b))
                for (const double each : row) {
                    const double term = each * static_cast<double>(*dY++);
                    loss.sum += term, loss.magnitude += std::abs(term);
                }
        return loss;
    }

    // At least the largest term of a gradient behind a norm, whose terms cancel: with two dims a layer
    // norm leaves nothing. Of the losses so far.
    [[nodiscard]] double largestBehindNorm() const {
        const double gamma = has(VKATTN_GAMMA) ? std::max(1.0, largestOf(numbers.at(VKATTN_GAMMA))) : 1;
        return gamma * largestOf(given_.dY.values) / leastSigma_;
    }

  private:
    [[nodiscard]] bool has(vkattn_role role) const { return numbers.count(role) != 0; }
    [[nodiscard]] Rows rowsOf(vkattn_role role, const vkattn_layout &layout, uint32_t b) const {
        const size_t count = layout.extent[2], dims = layout.extent[3];
        Rows rows(count);
        auto at = numbers.at(role).begin() + static_cast<ptrdiff_t>(b * count * dims);
        for (Row &row : rows) row.assign(at, at + static_cast<ptrdiff_t>(dims)), at += static_cast<ptrdiff_t>(dims);
        return rows;
    }
    // Rows [first, first + count) of a matrix and of its bias.
    [[nodiscard]] Rows product(const Rows &x, vkattn_role w, vkattn_role bias, size_t first, size_t count) const {
        const Row &matrix = numbers.at(w);
        Rows y(x.size(), Row(count));
        for (size_t t = 0; t < x.size(); ++t)
            for (size_t o = 0; o < count; ++o) {
                const size_t in = x[t].size();
                double sum = has(bias) ? numbers.at(bias)[first + o] : 0;
                for (size_t k = 0; k < in; ++k) sum += x[t][k] * matrix[(first + o) * in + k];
                y[t][o] = sum;
            }
        return y;
    }
    [[nodiscard]] Rows normed(Rows rows) const {
        for (Row &row : rows) {
            const auto dims = static_cast<double>(row.size());
            double mean = 0, variance = 0;
            if (l_.norm == VKATTN_LAYER_NORM)
                for (const double each : row) mean += each / dims;
            for (const double each : row) variance += (each - mean) * (each - mean) / dims;
            const double sigma = std::sqrt(variance + static_cast<double>(l_.epsilon));
            leastSigma_ = std::min(leastSigma_, sigma);
            for (size_t d = 0; d < row.size(); ++d)
                row[d] = (row[d] - mean) / sigma * (has(VKATTN_GAMMA) ? numbers.at(VKATTN_GAMMA)[d] : 1) +
                         (has(VKATTN_BETA) ? numbers.at(VKATTN_BETA)[d] : 0);
        }
        return rows;
    }
    void turn(Rows &rows, uint32_t b) const {
        if (!has(VKATTN_COS)) return;
        const uint32_t tokens = l_.x.extent[2], half = l_.cos.extent[3];
        for (uint32_t t = 0; t < tokens; ++t) {
            const uint32_t position =
                !m_.positions.empty() ? m_.positions[b * tokens + t] : (m_.starts.empty() ? l_.start : m_.starts[b]) + t;
            for (size_t head = 0; head < rows[t].size(); head += m_.dim)
                for (uint32_t n = 0; n < half; ++n) {
                    const bool interleaved = l_.pairs == VKATTN_PAIRS_INTERLEAVED;
                    double &first = rows[t][head + (interleaved ? 2 * n : n)],
                           &second = rows[t][head + (interleaved ? 2 * n + 1 : n + half)];
                    const double angle = position * std::pow(10000.0, -2.0 * n / (2.0 * half)), x = first, y = second;
                    first = x * std::cos(angle) - y * std::sin(angle);
                    second = x * std::sin(angle) + y * std::cos(angle);
                }
        }
    }
    [[nodiscard]] double biasOf(size_t b, size_t h, size_t i, size_t j) const {
        if (!has(VKATTN_BIAS)) return 0;
        const size_t at[] = {b, h, i, j};
        size_t element = 0;
        for (int d = 0; d < 4; ++d) element = element * m_.options.bias.extent[d] + (m_.options.bias.extent[d] > 1 ? at[d] : 0);
        return numbers.at(VKATTN_BIAS)[element];
    }
    // What dropout multiplies an element by.
    struct Dropout {
        double probability;
        uint64_t seed;
        uint32_t offset;
        [[nodiscard]] double kept(uint32_t plane, uint32_t row, uint32_t column) const {
            if (probability == 0) return 1;
            const double dropped = std::nearbyint(probability * 0x1p32) * 0x1p-32;
            return vkattnDropoutKeeps(probability, seed, offset, plane, row, column) ? 1 / (1 - dropped) : 0;
        }
    };
    [[nodiscard]] Row attended(uint32_t b, uint32_t h, uint32_t i, const Rows &q, const Rows &k, const Rows &v) const {
        const size_t keyHead = h / (l_.heads / m_.kvHeads);
        const auto rows = static_cast<int64_t>(q.size());
        const int64_t keys =
            m_.keyLengths.empty() ? static_cast<int64_t>(k.size()) : std::min<int64_t>(static_cast<int64_t>(k.size()), m_.keyLengths[b]);
        const uint32_t flags = l_.options ? m_.options.flags : 0;
        const int64_t self = flags & VKATTN_ALIGN_TOP_LEFT ? i : i + keys - rows,
                      end = flags & VKATTN_CAUSAL ? std::min(keys, self + 1) : keys;
        const Dropout ofWeights = l_.options ? Dropout{m_.options.dropout, m_.options.dropoutSeed, m_.options.dropoutOffset} : Dropout{};
        Row weights, out(m_.valueDim);
        double largest = -1e300, sum = 0;
        for (int64_t j = 0; j < end; ++j) {
            double dot = 0;
            for (uint32_t d = 0; d < m_.dim; ++d) dot += q[i][h * m_.dim + d] * k[static_cast<size_t>(j)][keyHead * m_.dim + d];
            const double z = dot * scale, capped = softcap > 0 ? softcap * std::tanh(z / softcap) : z;
            weights.push_back(capped + biasOf(b, h, i, static_cast<size_t>(j)));
            largest = std::max(largest, weights.back());
        }
        for (double &each : weights) sum += each = std::exp(each - largest);
        for (uint32_t j = 0; j < weights.size(); ++j)
            for (uint32_t d = 0; d < m_.valueDim; ++d)
                out[d] += weights[j] / sum * ofWeights.kept(b * l_.heads + h, i, j) * v[j][keyHead * m_.valueDim + d];
        return out;
    }
    [[nodiscard]] Rows output(uint32_t b) const {
        const size_t qRows = l_.heads * m_.dim, kRows = m_.kvHeads * m_.dim, vRows = m_.kvHeads * m_.valueDim;
        const bool packed = !has(VKATTN_WK), post = l_.place == VKATTN_NORM_POST;
        const Rows x = rowsOf(VKATTN_X, l_.x, b), n = l_.place == VKATTN_NORM_PRE ? normed(x) : x;
        const Rows source = has(VKATTN_CONTEXT) ? rowsOf(VKATTN_CONTEXT, l_.context, b) : n;
        Rows q = product(n, VKATTN_WQ, VKATTN_BQ, 0, qRows);
        Rows k = packed ? product(n, VKATTN_WQ, VKATTN_BQ, qRows, kRows) : product(source, VKATTN_WK, VKATTN_BK, 0, kRows);
        const Rows v = packed ? product(n, VKATTN_WQ, VKATTN_BQ, qRows + kRows, vRows) : product(source, VKATTN_WV, VKATTN_BV, 0, vRows);
        turn(q, b), turn(k, b);
        Rows a(q.size());
        for (uint32_t i = 0; i < q.size(); ++i)
            for (uint32_t h = 0; h < l_.heads; ++h) {
                const Row head = attended(b, h, i, q, k, v);
                a[i].insert(a[i].end(), head.begin(), head.end());
            }
        Rows y = product(a, VKATTN_WO, VKATTN_BO, 0, l_.wo.extent[2]);
        const Dropout ofOutput = {l_.outputDropout, l_.outputDropoutSeed, l_.outputDropoutOffset};
        for (uint32_t t = 0; t < y.size(); ++t)
            for (uint32_t d = 0; d < y[t].size(); ++d)
                y[t][d] = y[t][d] * ofOutput.kept(b, t, d) + (l_.flags & VKATTN_LAYER_RESIDUAL ? x[t][d] : 0);
        return post ? normed(std::move(y)) : y;
    }

    const LayerGradientCase &given_;
    const MultiHeadCase &m_;
    const vkattn_layer &l_;
    mutable double leastSigma_ = 1e300;
};

// The loss where some of the numbers are moved along a direction; at the end they are back.
class Line {
  public:
    Line(Formulas &formulas, double *moved, Row direction)
        : formulas_(formulas), moved_(moved), before_(moved, moved + direction.size()), direction_(std::move(direction)) {}
    Line(const Line &) = delete;
    Line &operator=(const Line &) = delete;
    ~Line() { std::copy(before_.begin(), before_.end(), moved_); }

    [[nodiscard]] Formulas::Loss lossAt(double by) {
        for (size_t n = 0; n < direction_.size(); ++n) moved_[n] = before_[n] + by * direction_[n];
        return formulas_.loss();
    }
    // Central difference; `magnitude` grows by those of the losses.
    [[nodiscard]] double difference(double step, double &magnitude) {
        const Formulas::Loss above = lossAt(step), below = lossAt(-step);
        magnitude += above.magnitude + below.magnitude;
        return (above.sum - below.sum) / (2 * step);
    }

  private:
    Formulas &formulas_;
    double *moved_;
    Row before_, direction_;
};

Row drawDirection(size_t count, Random &random) {
    std::normal_distribution<double> normal;
    Row direction(count);
    for (double &each : direction) each = normal(random);
    return direction;
}

} // namespace

std::vector<vkattn_role> LayerGradientCase::roles() const {
    std::vector<vkattn_role> all;
    for (const Input &each : inputs)
        if ((gradient.*each.layout).extent[0]) all.push_back(each.role);
    for (const vkattn_role role : scalars)
        if (gradient.presentRoles & VKATTN_PRESENT(role)) all.push_back(role);
    return all;
}

vkattn_layout &LayerGradientCase::layout(vkattn_role role) {
    return gradient.*inputOf(role)->layout;
}

void LayerGradientCase::ask(Random &random, vkattn_role input, vkattn_dtype dtype) {
    const Input *const each = std::find_if(std::begin(inputs), std::end(inputs), [&](const Input &of) { return of.input == input; });
    const uint32_t *const e = forward->arrays.at(input).layout.extent;
    gradient.*each->layout = drawLayout(random, dtype, true, {e[0], e[1], e[2], e[3]});
}

void LayerGradientCase::drawDY(Random &random, vkattn_dtype dtype) {
    const uint32_t *const e = forward->layer.y.extent;
    gradient.dY = drawLayout(random, dtype, true, {e[0], e[1], e[2], e[3]});
    drawValues(random, dY, gradient.dY);
}

vkattn_result LayerGradientCase::addTo(Runtime &runtime, OperationList &list, std::string *why) {
    DeviceTensor y;
    std::vector<ListOperand> operands;
    if (const auto r = forward->operandsOn(runtime, operands, y, why)) return r;
    if (const auto r = list.add(forward->layer, operands, why)) return r;
    operands.push_back({VKATTN_D_Y, tensorOf(runtime, dY, why)});
    written.clear();
    for (const vkattn_role role : roles()) {
        written.push_back(runtime.allocate(inputOf(role) ? layout(role) : words(1), why));
        operands.push_back({role, written.back()});
    }
    for (const ListOperand &operand : operands)
        if (!operand.tensor) return VKATTN_ERROR_OUT_OF_DEVICE_MEMORY;
    gradient.forward = &forward->layer;
    return list.add(gradient, operands, why);
}

std::string LayerGradientCase::judge(const std::vector<std::vector<float>> &gradients, double tolerance, Random &random) const {
    constexpr double step = 1e-5;
    constexpr int elements = 3; // of each gradient, beside the direction
    Formulas formulas(*this);
    const std::vector<vkattn_role> asked = roles();
    // Sums of gradients that cancel are only as exact as what they cancel from: other gradients, and on
    // the way to queries and keys, where a row of one key leaves nothing, those of the values.
    double largest = 0;
    for (const std::vector<float> &each : gradients) largest = std::max(largest, largestOf(each));
    Row &ofValues = formulas.numbers.at(forward->arrays.count(VKATTN_WV) ? VKATTN_WV : VKATTN_WQ);
    for (int trial = 0; trial < 2; ++trial) {
        double ignored = 0;
        Line line(formulas, ofValues.data(), drawDirection(ofValues.size(), random));
        largest = std::max(largest, std::abs(line.difference(step, ignored)));
    }
    if (forward->layer.place == VKATTN_NORM_POST) largest = std::max(largest, formulas.largestBehindNorm());
    for (size_t n = 0; n < asked.size(); ++n) {
        const std::vector<float> &got = gradients[n];
        const Input *const input = inputOf(asked[n]);
        double *const moved = input                        ? formulas.numbers.at(input->input).data()
                              : asked[n] == VKATTN_D_SCALE ? &formulas.scale
                                                           : &formulas.softcap;
        for (int trial = 0; trial <= elements; ++trial) {
            Row direction(got.size());
            if (trial == 0)
                direction = drawDirection(got.size(), random);
            else
                direction[random() % got.size()] = 1;
            Line line(formulas, moved, direction);
            // Central differences of two steps: their own error falls by 4, and their difference shows it
            // where a norm of nearly nothing bends the loss.
            double magnitude = 0, ofFine = 0;
            const double coarse = line.difference(step, magnitude), fine = line.difference(step / 2, ofFine);
            const double expected = (4 * fine - coarse) / 3;
            double sum = 0, length = 0;
            for (size_t e = 0; e < got.size(); ++e)
                sum += direction[e] * static_cast<double>(got[e]), length += direction[e] * direction[e];
            // The gradient of the keys' bias is nothing but what cancels: adding to all keys adds to all
            // scores of a row.
            const double cancelled = asked[n] == VKATTN_D_BK ? 0.1 : 0.01;
            // The losses' own roundings, in double precision: some for each step of a term; and what the
            // differences are off by.
            const double rounded = 32 * 0x1p-53 * magnitude / (2 * step) + std::abs(coarse - fine);
            const double smallest = input && (gradient.*input->layout).dtype == VKATTN_F16 ? 0x1p-25 : 0; // half an ulp
            const double bound = std::sqrt(length) * (tolerance * largestOf(got) + cancelled * tolerance * largest + smallest) + rounded;
            if (std::abs(sum - expected) <= bound) continue;
            char text[200];
            std::snprintf(text, sizeof text, "gradient of role %d, %s: %.8g, expected %.8g by differences: off by %.3g, bound %.3g",
                          static_cast<int>(asked[n]), trial ? "an element" : "along a direction", sum, expected, std::abs(sum - expected),
                          bound);
            return text;
        }
    }
    return {};
}

std::string LayerGradientCase::text() const {
    std::string all = "gradient of a layer";
    for (const vkattn_role role : roles()) {
        (all += ' ') += std::to_string(role);
        if (const Input *const input = inputOf(role)) (all += ':') += std::to_string((gradient.*input->layout).dtype);
    }
    return all + ", stored " + std::to_string(gradient.stored) + ", dropout " + std::to_string(forward->options.dropout) + ", softcap " +
           std::to_string(forward->options.softcap) + ", scale " + std::to_string(forward->options.scale) + "; " + forward->text();
}

std::unique_ptr<LayerGradientCase> drawLayerGradient(Random &random, MultiHeadParts parts) {
    auto made = std::make_unique<LayerGradientCase>();
    const auto yes = [&] { return between(random, 0, 1) == 1; };
    made->forward = drawMultiHead(random, parts);
    MultiHeadCase &m = *made->forward;
    m.layer.flags |= VKATTN_LAYER_KEEPS_STEPS;
    if (yes()) m.layer.stored = VKATTN_F32;
    made->gradient.structSize = sizeof made->gradient;
    const bool known = parts == MultiHeadParts::all || parts == MultiHeadParts::packed;
    const auto type = [&] { return known || yes() ? VKATTN_F32 : drawType(random); };
    made->gradient.stored = known || yes() ? m.layer.stored : drawType(random);
    if (m.layer.options) {
        vkattn_problem &o = m.options;
        if (yes()) o.dropout = 0.3, o.dropoutSeed = random(), o.dropoutOffset = static_cast<uint32_t>(random());
        if (yes()) o.softcap = 2, made->gradient.presentRoles |= yes() ? VKATTN_PRESENT(VKATTN_D_SOFTCAP) : 0;
        if (yes()) o.flags |= VKATTN_SCALE, o.scale = 0.7f, made->gradient.presentRoles |= yes() ? VKATTN_PRESENT(VKATTN_D_SCALE) : 0;
    }
    do
        for (const Input &each : inputs)
            if (m.arrays.count(each.input) && (known || between(random, 0, 3))) made->ask(random, each.input, type());
    while (made->roles().empty());
    made->drawDY(random, type());
    return made;
}

std::unique_ptr<LayerGradientCase> wholeLayerGradient(Random &random, std::unique_ptr<MultiHeadCase> layer) {
    auto made = std::make_unique<LayerGradientCase>();
    made->forward = std::move(layer);
    made->forward->layer.flags |= VKATTN_LAYER_KEEPS_STEPS;
    made->gradient.structSize = sizeof made->gradient;
    for (const Input &each : inputs)
        if (const auto found = made->forward->arrays.find(each.input); found != made->forward->arrays.end()) {
            const uint32_t *const e = found->second.layout.extent;
            made->gradient.*each.layout = packed(VKATTN_F32, e[0], e[1], e[2], e[3]);
        }
    const uint32_t *const e = made->forward->layer.y.extent;
    made->gradient.dY = packed(VKATTN_F32, e[0], e[1], e[2], e[3]);
    drawValues(random, made->dY, made->gradient.dY);
    return made;
}

LayerOutcome computeAndJudge(Runtime &runtime, LayerGradientCase &layer, Random &random) {
    LayerOutcome outcome;
    OperationList list = runtime.list();
    std::string why;
    const auto require = [&](bool holds, const std::string &wrong) {
        if (!holds) outcome.wrong = wrong + "; " + layer.text();
        return holds;
    };
    const auto worked = [&](const char *what, vkattn_result status) {
        return require(status == VKATTN_OK, std::string(what) + " gave status " + std::to_string(status) + ": " + why);
    };
    const auto read = [&](std::vector<std::vector<float>> &all) {
        all.resize(layer.written.size());
        for (size_t n = 0; n < all.size(); ++n)
            if (layer.written[n].layout().dtype == VKATTN_BITS32) {
                all[n].resize(1);
                if (!worked("download", layer.written[n].download(all[n].data(), 4, &why))) return false;
            } else if (!worked("download", valuesOf(layer.written[n], all[n], &why))) {
                return false;
            }
        return true;
    };
    if (!worked("add", layer.addTo(runtime, list, &why)) || !worked("verify", list.verify(outcome.steps, nullptr, &why))) return outcome;
    for (const StepCheck &step : outcome.steps)
        if (!require(step.report.passed != 0, "step " + std::to_string(&step - outcome.steps.data()) + " (" + step.operation +
                                                  ") is off by " + std::to_string(step.report.worstError) + ", bound " +
                                                  std::to_string(step.report.worstBound)))
            return outcome;
    std::vector<std::vector<float>> stepped, replayed;
    if (!read(stepped)) return outcome;
    if (layer.forward->layer.stored == VKATTN_F32 && layer.gradient.stored == VKATTN_F32) {
        bool narrow = false;
        for (const DeviceTensor &each : layer.written)
            narrow = narrow || each.layout().dtype == VKATTN_F16 || each.layout().dtype == VKATTN_BF16;
        const std::string wrong = layer.judge(stepped, narrow ? 0.03 : 2e-3, random);
        if (!require(wrong.empty(), wrong)) return outcome;
    }
    outcome.result = list.run();
    why = outcome.result.message;
    if (!worked("run", outcome.result.status) || !read(replayed)) return outcome;
    (void)require(replayed == stepped, "the list left other bits than its steps one by one");
    return outcome;
}

} // namespace vkattn::conform
