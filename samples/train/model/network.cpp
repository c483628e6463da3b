#include "network.hpp"

#include "program/random.hpp"
#include "shader_steps.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace train {

using namespace vkattn;

namespace {

constexpr double learningRate = 3e-3;

void check(vkattn_result result, const std::string &why) {
    if (result != VKATTN_OK) throw ComputeError(result, why);
}

double ratioOf(const vkattn_verify_report &report) {
    return report.worstBound > 0 ? report.worstError / report.worstBound : report.worstError;
}

// The same memory with rows for columns.
DeviceTensor transposed(const DeviceTensor &matrix) {
    vkattn_layout layout = matrix.layout();
    std::swap(layout.extent[2], layout.extent[3]);
    std::swap(layout.strideElems[2], layout.strideElems[3]);
    return matrix.view(layout);
}

template <class Number> void upload(const DeviceTensor &tensor, const std::vector<Number> &numbers) {
    std::string why;
    check(tensor.upload(numbers.data(), numbers.size() * sizeof(Number), &why), why);
}

std::vector<float> download(const DeviceTensor &tensor) {
    const uint32_t *extent = tensor.layout().extent;
    std::vector<float> numbers(size_t{extent[0]} * extent[1] * extent[2] * extent[3]);
    std::string why;
    check(tensor.download(numbers.data(), numbers.size() * sizeof(float), &why), why);
    return numbers;
}

} // namespace

WeightsMap::WeightsMap(const Shape &s) {
    uint32_t end = 0;
    const auto next = [&](uint32_t rows, uint32_t columns) {
        const WeightsPart part = {end, rows, columns};
        end += rows * columns;
        return part;
    };
    embedding = next(s.dims, s.columns());
    queriesKeysValues = next(3 * s.dims, s.dims);
    out = next(s.dims, s.dims);
    logits = next(s.symbols, s.dims);
    bias = next(1, s.symbols);
    count = end;
}

Weights initialWeights(const Shape &shape, uint64_t seed) {
    const WeightsMap map(shape);
    Weights made{std::vector<float>(map.count), std::vector<float>(size_t{2} * map.count)};
    vkattn::program::Random random(seed, static_cast<uint32_t>(Purpose::weights), 0);
    const auto fill = [&](const WeightsPart &part, float most) {
        for (uint32_t n = 0; n < part.rows * part.columns; ++n) made.weights[part.at + n] = random.within(most);
    };
    const auto most = [](uint32_t inputs) { return static_cast<float>(std::sqrt(3.0 / inputs)); };
    fill(map.embedding, 0.5f);
    fill(map.queriesKeysValues, most(shape.dims));
    fill(map.out, most(shape.dims));
    fill(map.logits, most(shape.dims));
    return made;
}

// Appends the steps of a list, each with a name.
class Network::Builder {
  public:
    Builder(const Network &model, Pass &pass, uint32_t step) : m_(model), s_(model.shape_), pass_(pass), step_(step) {}

    void forward(bool drops) {
        note("one-hot", addOneHot(pass_.list, m_.tokens_, m_.oneHot_, s_.tokens(), s_.positions(), &why_));
        add("embedding", ProjectionOf{m_.oneHot_, weights(m_.map_.embedding), m_.embedded_});
        add("attention layer", m_.layer(drops ? step_ : 0));
        add("logits", ProjectionOf{m_.mixed_, weights(m_.map_.logits), m_.logits_, weights(m_.map_.bias)});
        const float weight = 1 / static_cast<float>(s_.sequences * s_.copied);
        note("cross-entropy", addCrossEntropy(pass_.list, m_.logits_, m_.targets_, m_.dLogits_, m_.results_, weight, &why_));
    }

    // A projection Y = X W^T has dX = dY W, dW = dY^T X and db = 1^T dY: projections themselves, whose
    // matrices are transposed by their strides.
    void backward() {
        add("gradient of the bias", ProjectionOf{m_.ones_, transposed(m_.dLogits_), gradients(m_.map_.bias)});
        ofMatrix("gradient of the logits' matrix", m_.dLogits_, m_.mixed_, m_.map_.logits);
        ofInput("gradient of the output", m_.dLogits_, m_.map_.logits, m_.dMixed_);
        LayerGradientOf gradient{m_.layer(step_), m_.sequencesOf(m_.dMixed_)};
        gradient.dX = m_.sequencesOf(m_.dEmbedded_);
        gradient.dWq = gradients(m_.map_.queriesKeysValues), gradient.dWo = gradients(m_.map_.out);
        add("gradients of the attention layer", gradient);
        ofMatrix("gradient of the embedding", m_.dEmbedded_, m_.oneHot_, m_.map_.embedding);
        note("adam", addAdam(pass_.list, m_.gradients_, m_.schedule_, m_.weights_, m_.moments_, &why_));
    }

  private:
    // A layer is several steps.
    void note(const char *name, vkattn_result result) {
        check(result, name + (": " + why_));
        pass_.names.resize(pass_.list.size(), name);
    }
    template <class Operation> void add(const char *name, const Operation &operation) { note(name, pass_.list.add(operation, &why_)); }
    void ofMatrix(const char *name, const DeviceTensor &dY, const DeviceTensor &x, const WeightsPart &w) {
        add(name, ProjectionOf{transposed(dY), transposed(x), gradients(w)});
    }
    void ofInput(const char *name, const DeviceTensor &dY, const WeightsPart &w, const DeviceTensor &dX) {
        add(name, ProjectionOf{dY, transposed(weights(w)), dX});
    }
    [[nodiscard]] DeviceTensor weights(const WeightsPart &part) const { return m_.part(m_.weights_, part); }
    [[nodiscard]] DeviceTensor gradients(const WeightsPart &part) const { return m_.part(m_.gradients_, part); }

    const Network &m_;
    const Shape &s_;
    Pass &pass_;
    uint32_t step_;
    std::string why_;
};

Network::Network(Runtime &runtime, const Shape &shape, double dropout, uint64_t seed, const std::optional<vkattn_verify_options> &verify)
    : runtime_(runtime), shape_(shape), map_(shape), dropout_(dropout), seed_(seed), verify_(verify) {
    const auto rows = [&](uint32_t columns) { return allocate(matrix(VKATTN_F32, shape_.rows(), columns)); };
    weights_ = allocate(vector(VKATTN_F32, map_.count)), gradients_ = allocate(weights_.layout());
    moments_ = allocate(vector(VKATTN_F32, 2 * map_.count)), schedule_ = allocate(vector(VKATTN_F32, 3));
    ones_ = allocate(vector(VKATTN_F32, shape_.rows()));
    upload(ones_, std::vector<float>(shape_.rows(), 1.0f));
    tokens_ = allocate(words(shape_.rows())), targets_ = allocate(words(shape_.rows())), results_ = rows(2);
    oneHot_ = rows(shape_.columns());
    embedded_ = rows(shape_.dims), mixed_ = rows(shape_.dims), dMixed_ = rows(shape_.dims), dEmbedded_ = rows(shape_.dims);
    logits_ = rows(shape_.symbols), dLogits_ = rows(shape_.symbols);
    std::string why;
    kept_ = runtime_.allocateKept(layer(0), &why);
    if (!kept_) throw ComputeError(runtime_.device() ? VKATTN_ERROR_OUT_OF_DEVICE_MEMORY : VKATTN_ERROR_OUT_OF_HOST_MEMORY, why);
}

DeviceTensor Network::sequencesOf(const DeviceTensor &rows) const {
    return rows.view(packed(VKATTN_F32, shape_.sequences, 1, shape_.positions(), shape_.dims));
}

LayerOf Network::layer(uint32_t step) const {
    LayerOf layer{sequencesOf(embedded_), part(weights_, map_.queriesKeysValues), {}, {}, part(weights_, map_.out), sequencesOf(mixed_)};
    layer.heads = shape_.heads;
    layer.residual = true;
    layer.kept = kept_;
    layer.attention.options.flags = VKATTN_CAUSAL;
    if (step == 0 || dropout_ == 0) return layer;
    layer.attention.options.dropout = dropout_;
    layer.attention.options.dropoutSeed = seed_;
    layer.attention.options.dropoutOffset = step;
    return layer;
}

DeviceTensor Network::allocate(const vkattn_layout &layout) const {
    std::string why;
    DeviceTensor tensor = runtime_.allocate(layout, &why);
    if (!tensor) throw ComputeError(runtime_.device() ? VKATTN_ERROR_OUT_OF_DEVICE_MEMORY : VKATTN_ERROR_OUT_OF_HOST_MEMORY, why);
    return tensor;
}

DeviceTensor Network::part(const DeviceTensor &all, const WeightsPart &part) const {
    vkattn_layout layout = matrix(VKATTN_F32, part.rows, part.columns);
    layout.offsetElems = part.at;
    return all.view(layout);
}

void Network::load(const Weights &from) {
    upload(weights_, from.weights);
    upload(moments_, from.moments);
}

Weights Network::read() const {
    return {download(weights_), download(moments_)};
}

Network::Pass Network::build(bool learns, uint32_t step) const {
    Pass pass{runtime_.list()};
    Builder builder(*this, pass, step);
    builder.forward(learns);
    if (learns) builder.backward();
    std::string why;
    check(pass.list.record(&why), why);
    return pass;
}

Figures Network::train(const Batch &batch, uint32_t step) {
    // The offset of dropout is part of the description: with dropout each step is recorded anew.
    if (!learning_ || dropout_ > 0) {
        learning_.reset();
        learning_.emplace(build(true, step));
    }
    const auto correction = [&](float beta) { return static_cast<float>(1 / (1 - std::pow(static_cast<double>(beta), step))); };
    upload(schedule_, std::vector<float>{static_cast<float>(learningRate), correction(adamBeta1), correction(adamBeta2)});
    return compute(*learning_, batch, step);
}

Figures Network::evaluate(const Batch &batch) {
    if (!evaluating_) evaluating_.emplace(build(false, 0));
    return compute(*evaluating_, batch, 0);
}

Figures Network::compute(Pass &pass, const Batch &batch, uint32_t step) {
    std::string why;
    upload(tokens_, batch.tokens);
    upload(targets_, batch.targets);
    if (verify_) {
        verify(pass, step);
    } else {
        check(pass.list.submit(&why), why);
        check(pass.list.wait(&why), why);
    }
    Figures figures;
    const std::vector<float> results = download(results_);
    for (size_t n = 0; n < results.size(); n += 2)
        figures.loss += static_cast<double>(results[n]), figures.accuracy += static_cast<double>(results[n + 1]);
    const double count = double{1} * shape_.sequences * shape_.copied;
    return {figures.loss / count, figures.accuracy / count};
}

std::vector<uint32_t> Network::answers() const {
    const std::vector<float> logits = download(logits_);
    std::vector<uint32_t> answers;
    for (uint32_t row = 0; row < shape_.rows(); ++row) {
        if (row % shape_.positions() < shape_.copied) continue;
        const auto first = logits.begin() + static_cast<ptrdiff_t>(row * shape_.symbols);
        answers.push_back(static_cast<uint32_t>(std::max_element(first, first + shape_.symbols) - first));
    }
    return answers;
}

void Network::verify(Pass &pass, uint32_t step) {
    std::string why;
    std::vector<StepCheck> checks;
    check(pass.list.verify(checks, &*verify_, &why), why);
    for (size_t n = 0; n < checks.size(); ++n) {
        const vkattn_verify_report &report = checks[n].report;
        Verification &all = verification_;
        const bool first = all.passed && !report.passed, larger = all.passed && ratioOf(report) > ratioOf(all.worst);
        if (first || larger || all.steps == 0) {
            all.worst = report, all.worstStep = pass.names[n], all.worstOperation = checks[n].operation;
            all.worstTrainingStep = step;
        }
        all.passed = all.passed && report.passed;
        all.rows += report.rowsChecked;
        ++all.steps;
    }
}

} // namespace train
