#include "program/failure.hpp"
#include "program/pictures/chart.hpp"
#include "tool/lab/computation.hpp"
#include "tool/lab/experiment.hpp"
#include "tool/lab/formulas.hpp"
#include "tool/lab/tensors.hpp"

namespace vkattn::tool::lab {
namespace {

constexpr uint32_t entries = 32, tokens = 10, dim = 64, rows = entries * tokens, epochs = 100;
constexpr double rate = 0.015;

// Attention over the tokens themselves, Q = K = X, whose values are X W^T.
class Model {
  public:
    Model(const Setting &setting, const Numbers &x, double dropout)
        : tensors_(setting.runtime), seed_(setting.seed), dropout_(dropout), x_(tensors_.of(layout(), x)), w_(tensors_.of(weights())),
          v_(tensors_.of(layout())), out_(tensors_.of(layout())), dOut_(tensors_.of(layout())), dV_(tensors_.of(layout())),
          dW_(tensors_.of(weights())), statistics_(tensors_.of(packed(VKATTN_F32, entries, 1, tokens, 2))), runtime_(setting.runtime) {}

    [[nodiscard]] Numbers forward(const Numbers &w, uint32_t epoch) {
        tensors_.upload(w_, w);
        OperationList list = runtime_.list();
        tensors_.add(list, ProjectionOf{all(x_), w_, all(v_)});
        tensors_.add(list, attention(epoch));
        tensors_.run(list);
        return tensors_.download(out_);
    }
    // Of what the last forward pass computed.
    [[nodiscard]] Numbers backward(const Numbers &dOut, uint32_t epoch) {
        tensors_.upload(dOut_, dOut);
        OperationList list = runtime_.list();
        AttentionGradientOf gradient{attention(epoch), dOut_};
        gradient.dV = dV_;
        tensors_.add(list, gradient);
        tensors_.add(list, ProjectionOf{transposed(all(dV_)), transposed(all(x_)), dW_}); // dW = dV^T X
        tensors_.run(list);
        return tensors_.download(dW_);
    }

  private:
    [[nodiscard]] static vkattn_layout layout() { return packed(VKATTN_F32, entries, 1, tokens, dim); }
    [[nodiscard]] static vkattn_layout weights() { return matrix(VKATTN_F32, dim, dim); }
    [[nodiscard]] static DeviceTensor all(const DeviceTensor &tensor) { return tensor.view(matrix(VKATTN_F32, rows, dim)); }
    [[nodiscard]] AttentionOf attention(uint32_t epoch) const {
        AttentionOf attention{x_, x_, v_, out_, statistics_};
        attention.options.flags = VKATTN_ROW_STATISTICS;
        if (dropout_ > 0) {
            attention.options.dropout = dropout_, attention.options.dropoutSeed = seed_;
            attention.options.dropoutOffset = epoch;
        }
        return attention;
    }

    Tensors tensors_;
    uint64_t seed_;
    double dropout_;
    DeviceTensor x_, w_, v_, out_, dOut_, dV_, dW_, statistics_;
    Runtime &runtime_;
};

// The same in double, with the pairs that vkattn drops.
class ExactModel {
  public:
    ExactModel(const Numbers &x, uint64_t seed, double dropout) : x_(x.begin(), x.end()), seed_(seed), dropout_(dropout) {
        for (size_t entry = 0; entry < entries; ++entry) {
            const float *const q = x.data() + entry * tokens * dim;
            const Row dots = dotsOf(q, tokens, q, tokens, dim);
            for (size_t row = 0; row < tokens; ++row)
                for (const double each : softmaxOf(dots.data() + row * tokens, tokens, 1 / std::sqrt(dim))) weights_.push_back(each);
        }
    }
    [[nodiscard]] double diagonal() const {
        double sum = 0;
        for (size_t row = 0; row < rows; ++row) sum += weights_[row * tokens + row % tokens] / rows;
        return sum;
    }
    // Mixes the tokens: A X, which W is applied to.
    void mix(uint32_t epoch) {
        mixed_.assign(size_t{rows} * dim, 0);
        for (size_t row = 0; row < rows; ++row)
            for (size_t key = 0; key < tokens; ++key) {
                const auto entry = static_cast<uint32_t>(row / tokens), i = static_cast<uint32_t>(row % tokens),
                           j = static_cast<uint32_t>(key);
                if (dropout_ > 0 && !vkattnDropoutKeeps(dropout_, seed_, epoch, entry, i, j)) continue;
                const double weight = weights_[row * tokens + key] / (1 - dropout_);
                for (size_t d = 0; d < dim; ++d) mixed_[row * dim + d] += weight * x_[(row / tokens * tokens + key) * dim + d];
            }
    }
    // Returns the loss, and adds a step to W.
    double learn(const Numbers &target, Row &w, Adam &adam) const {
        double loss = 0;
        constexpr double count = double{rows} * dim;
        Row dW(w.size());
        for (size_t row = 0; row < rows; ++row)
            for (size_t o = 0; o < dim; ++o) {
                const double *const x = mixed_.data() + row * dim;
                double difference = -static_cast<double>(target[row * dim + o]);
                for (size_t d = 0; d < dim; ++d) difference += x[d] * w[o * dim + d];
                loss += difference * difference / count;
                for (size_t d = 0; d < dim; ++d) dW[o * dim + d] += 2 / count * difference * x[d];
            }
        adam.step(w, dW);
        return loss;
    }

  private:
    Row x_, weights_, mixed_;
    uint64_t seed_;
    double dropout_;
};

struct Course {
    Row losses, exact; // by epoch
    double diagonal = 0;
};

Course train(const Setting &setting, double dropout) {
    program::Random random = setting.random();
    const Numbers x = normals(random, size_t{rows} * dim), truth = normals(random, size_t{dim} * dim);
    Numbers w = normals(random, truth.size());
    const Row products = dotsOf(x.data(), rows, truth.data(), dim, dim);
    const Numbers target(products.begin(), products.end());

    Course course;
    Model model(setting, x, dropout);
    ExactModel exact(x, setting.seed, dropout);
    course.diagonal = exact.diagonal();
    Adam adam(w.size(), rate), exactAdam(w.size(), rate);
    Row exactW(w.begin(), w.end());
    exact.mix(0);
    for (uint32_t epoch = 0; epoch < epochs; ++epoch) {
        const Numbers out = model.forward(w, epoch);
        double loss = 0;
        Numbers dOut(out.size());
        for (size_t n = 0; n < out.size(); ++n) {
            const double difference = static_cast<double>(out[n]) - static_cast<double>(target[n]);
            loss += difference * difference / static_cast<double>(out.size());
            dOut[n] = static_cast<float>(2 * difference / static_cast<double>(out.size()));
        }
        course.losses.push_back(loss);
        adam.step(w, model.backward(dOut, epoch));
        if (dropout > 0) exact.mix(epoch);
        course.exact.push_back(exact.learn(target, exactW, exactAdam));
    }
    return course;
}

} // namespace

Findings convergence(const Setting &setting) {
    Findings found{.sizes = "32 entries of 10 tokens, d 64; Q = K = X, V = X W; the loss is that to X W*; Adam, rate 0.015, 100 epochs",
                   .table = Table({{"dropout", "dropout", "%.1f"},
                                   {"first_loss", "first loss", "%.1f"},
                                   {"last_loss", "last", "%.2f"},
                                   {"last_loss_double", "in double", "%.2f"},
                                   {"reduction_percent", "less, %", "%.1f"},
                                   {"last_ten_percent", "in the last 10 epochs, %", "%.1f"},
                                   {"converged", "converged"},
                                   {"mean_diagonal", "mean diagonal of A", "%.4f"}})};
    program::Plot plot{.x = {.label = "epoch", .least = 1, .most = epochs}, .y = {.label = "loss, mean of squares", .least = 0}};
    Table losses({{"epoch", "epoch", "%.0f"},
                  {"loss", "loss"},
                  {"loss_double", "in double"},
                  {"dropout_loss", "with dropout"},
                  {"dropout_loss_double", "in double"}});
    std::vector<Course> courses;
    for (const double dropout : {0.0, 0.1}) {
        const Course &course = courses.emplace_back(train(setting, dropout));
        const double first = course.losses.front(), last = course.losses.back(), before = course.losses[epochs - 11];
        const double gain = 100 * (1 - last / before);
        found.table.add(
            {dropout, first, last, course.exact.back(), 100 * (1 - last / first), gain, gain < 1 ? "yes" : "no", course.diagonal});
        program::Curve curve{.label = dropout > 0 ? "dropout 0.1" : "no dropout", .marks = false};
        for (size_t n = 0; n < epochs; ++n) curve.points.emplace_back(n + 1, course.losses[n]);
        plot.curves.push_back(std::move(curve));
    }
    for (size_t n = 0; n < epochs; ++n)
        losses.add({static_cast<double>(n + 1), courses[0].losses[n], courses[0].exact[n], courses[1].losses[n], courses[1].exact[n]});
    found.more.push_back(std::move(losses));
    found.theory = {"W and W* from N(0, 1): the first loss is 2 d = 128. With Q = K = X a token's score with itself is |x|^2 / sqrt(d) = "
                    "8, so that A is",
                    "nearly the identity and the task is linear regression. Dropout of 0.1 leaves at least 0.1 d = 6.4: what is dropped "
                    "cannot be told"};
    found.mistakes = {
        "\"converged\": at the notes' own thresholds it has not, the last ten epochs still gain. The task hardly needs attention."};
    found.picture =
        program::svgText({"Adam has not converged after 100 epochs", "one attention layer, 32 entries of 10 tokens, d 64", {plot}});
    return found;
}

} // namespace vkattn::tool::lab
