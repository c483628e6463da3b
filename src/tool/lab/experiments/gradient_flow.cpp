#include "program/pictures/chart.hpp"
#include "tool/lab/computation.hpp"
#include "tool/lab/experiment.hpp"
#include "tool/lab/formulas.hpp"
#include "tool/lab/tensors.hpp"

namespace vkattn::tool::lab {
namespace {

constexpr uint32_t depth = 12, tokens = 32, dim = 64, heads = 4;

// A stack of attention layers of one form, each with matrices of its own.
struct Stack {
    Numbers x, dY;                          // into the first layer; out of the last
    std::vector<Numbers> projections, outs; // [3 dim, dim], [dim, dim]
};

Stack drawStack(const Setting &setting) {
    program::Random random = setting.random();
    Stack stack{.x = normals(random, size_t{tokens} * dim), .dY = normals(random, size_t{tokens} * dim)};
    const auto matrixOf = [&](size_t count) {
        Numbers numbers = normals(random, count);
        for (float &each : numbers) each /= std::sqrt(static_cast<float>(dim));
        return numbers;
    };
    for (uint32_t n = 0; n < depth; ++n) {
        stack.projections.push_back(matrixOf(size_t{3} * dim * dim));
        stack.outs.push_back(matrixOf(size_t{dim} * dim));
    }
    return stack;
}

struct Flow {
    Row lengths;          // of the gradient out of each layer, the last first; then into the first
    Row outputs;          // of what each layer computes
    double worst = 0;     // error beside the oracle, as a share of what is allowed
    Numbers lastGradient; // with respect to the input of the last layer
};

Flow flowOf(const Setting &setting, const Stack &stack, bool residual) {
    const Tensors tensors(setting.runtime);
    const vkattn_layout rows = packed(VKATTN_F32, 1, 1, tokens, dim);
    std::vector<DeviceTensor> values = {tensors.of(rows, stack.x)};
    std::vector<LayerOf> layers;
    Flow flow;
    OperationList forward = setting.runtime.list(), back = setting.runtime.list();
    for (uint32_t n = 0; n < depth; ++n) {
        values.push_back(tensors.of(rows));
        LayerOf layer{values[n],
                      tensors.of(matrix(VKATTN_F32, 3 * dim, dim), stack.projections[n]),
                      {},
                      {},
                      tensors.of(matrix(VKATTN_F32, dim, dim), stack.outs[n]),
                      values[n + 1]};
        layer.heads = heads;
        layer.residual = residual;
        layer.kept = tensors.keptOf(layer);
        tensors.add(forward, layer);
        layers.push_back(layer);
    }
    tensors.run(forward);
    std::vector<DeviceTensor> gradients = {tensors.of(rows, stack.dY)};
    for (uint32_t n = depth; n-- > 0;) {
        LayerGradientOf gradient{layers[n], gradients.back()};
        gradients.push_back(tensors.of(rows));
        gradient.dX = gradients.back();
        tensors.add(back, gradient);
    }
    tensors.run(back);
    for (const DeviceTensor &each : gradients) flow.lengths.push_back(lengthOf(tensors.download(each)));
    for (uint32_t n = 0; n <= depth; ++n) flow.outputs.push_back(lengthOf(tensors.download(values[n])));
    flow.lastGradient = tensors.download(gradients[1]);
    flow.worst = std::max(tensors.verify(forward), tensors.verify(back));
    return flow;
}

// The last layer alone on what it had with the residual: by how much its gradients differ from those
// without, beside dY.
double identityError(const Setting &setting, const Stack &stack) {
    Stack one = stack;
    one.projections.resize(1), one.outs.resize(1);
    const Tensors tensors(setting.runtime);
    const vkattn_layout rows = packed(VKATTN_F32, 1, 1, tokens, dim);
    const auto gradientOf = [&](bool residual) {
        OperationList list = setting.runtime.list();
        LayerOf layer{tensors.of(rows, one.x),
                      tensors.of(matrix(VKATTN_F32, 3 * dim, dim), one.projections[0]),
                      {},
                      {},
                      tensors.of(matrix(VKATTN_F32, dim, dim), one.outs[0]),
                      tensors.of(rows)};
        layer.heads = heads;
        layer.residual = residual;
        layer.kept = tensors.keptOf(layer);
        LayerGradientOf gradient{layer, tensors.of(rows, one.dY)};
        gradient.dX = tensors.of(rows);
        tensors.add(list, layer), tensors.add(list, gradient);
        tensors.run(list);
        return tensors.download(gradient.dX);
    };
    const Numbers with = gradientOf(true), without = gradientOf(false);
    Row difference(with.size());
    for (size_t n = 0; n < with.size(); ++n)
        difference[n] = static_cast<double>(with[n]) - static_cast<double>(without[n]) - static_cast<double>(one.dY[n]);
    return lengthOf(difference) / lengthOf(one.dY);
}

} // namespace

Findings gradientFlow(const Setting &setting) {
    const Stack stack = drawStack(setting);
    const Flow with = flowOf(setting, stack, true), without = flowOf(setting, stack, false);
    Findings found{
        .sizes = "12 attention layers of 4 heads, 32 tokens, model dim 64, matrices from N(0, 1/64); |dL/dx| of the input of each layer",
        .table = Table({{"layer", "layer", "%.0f"},
                        {"with_residual", "with residual", "%.4g"},
                        {"without_residual", "without", "%.4g"},
                        {"ratio", "ratio", "%.3g"},
                        {"x_with_residual", "|x| with", "%.4g"},
                        {"x_without_residual", "|x| without", "%.4g"}})};
    program::Curve a{.label = "with residual"}, b{.label = "without"};
    for (uint32_t layer = 1; layer <= depth; ++layer) {
        const size_t at = depth + 1 - layer;
        found.table.add({double(layer), with.lengths[at], without.lengths[at], with.lengths[at] / without.lengths[at],
                         with.outputs[layer - 1], without.outputs[layer - 1]});
        a.points.emplace_back(layer, with.lengths[at]), b.points.emplace_back(layer, without.lengths[at]);
    }
    char text[160];
    std::snprintf(text, sizeof text,
                  "of one layer dX with the residual less dX without is dY: off by %.1e of it. Every step beside double: %.0f%% of the",
                  identityError(setting, stack), 100 * std::max(with.worst, without.worst));
    found.theory = {
        "y = x + f(x) has dy/dx = 1 + df/dx: the identity carries a gradient past every layer. Without it tokens become alike layer by",
        "layer (rank collapse, Dong et al. 2021), a uniform softmax has no gradient, and what is left shrinks like what is averaged;", text,
        "allowed error at most"};
    found.mistakes = {
        "the norms are right, the reason is not said: it is the identity in dy/dx. Hooks that call an object without __call__ fail."};
    program::Plot plot{.x = {.label = "layer, whose input the gradient is of", .least = 1, .most = depth},
                       .y = {.label = "length of the gradient", .scale = program::AxisScale::decades},
                       .curves = {a, b}};
    found.picture =
        program::svgText({"The residual carries gradients past every layer", "12 attention layers, 32 tokens, model dim 64", {plot}});
    return found;
}

} // namespace vkattn::tool::lab
