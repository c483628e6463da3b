// The model of samples/train in double precision and plain loops, forward, backward and Adam: what
// its lists are compared with. Shares no code with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

struct PlainSizes {
    size_t symbols, copied, sequences, dims, heads;
    [[nodiscard]] size_t positions() const { return 2 * copied; }
    [[nodiscard]] size_t rows() const { return sequences * positions(); }
    [[nodiscard]] size_t columns() const { return symbols + 1 + positions(); }
};

class PlainModel {
  public:
    // The weights as initialWeights() has them.
    PlainModel(const PlainSizes &sizes, const std::vector<float> &weights);

    // Takes a step, counted from 1; returns the mean loss before it. A target past the symbols is none.
    double train(const std::vector<uint32_t> &tokens, const std::vector<uint32_t> &targets, double step);
    [[nodiscard]] const std::vector<double> &gradients() const { return gradients_; } // of the last step

  private:
    using Matrix = std::vector<double>;
    // rows x inner times [outer, inner]^T
    [[nodiscard]] Matrix product(const Matrix &x, const double *w, size_t inner, size_t outer) const;
    // Adds dY^T X to dW and returns dY W.
    Matrix backward(const Matrix &dY, const Matrix &x, const double *w, double *dW, size_t inner, size_t outer) const;
    void attend(const Matrix &projected, Matrix &attended);
    [[nodiscard]] Matrix attendBackward(const Matrix &projected, const Matrix &attended, const Matrix &dAttended) const;

    PlainSizes s_;
    std::vector<double> weights_, gradients_, first_, second_, probabilities_;
};
