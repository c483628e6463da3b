// The formulas of the experiments in double precision, on plain arrays.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace vkattn::tool::lab {

using Row = std::vector<double>;

// Of any numbers.
struct Spread {
    double mean = 0, deviation = 0, least = 0, most = 0;
    // Of the mean, where the numbers are independent.
    double error = 0;
};
template <class Iterator> [[nodiscard]] Spread spreadOf(Iterator first, Iterator last) {
    Spread spread{.least = INFINITY, .most = -INFINITY};
    const auto count = static_cast<double>(last - first);
    for (Iterator at = first; at != last; ++at) {
        const auto each = static_cast<double>(*at);
        spread.mean += each / count;
        spread.least = std::min(spread.least, each), spread.most = std::max(spread.most, each);
    }
    double squares = 0;
    for (Iterator at = first; at != last; ++at) squares += std::pow(static_cast<double>(*at) - spread.mean, 2);
    spread.deviation = std::sqrt(squares / count);
    spread.error = spread.deviation / std::sqrt(count);
    return spread;
}
template <class Array> [[nodiscard]] Spread spreadOf(const Array &numbers) {
    return spreadOf(numbers.begin(), numbers.end());
}

// The element that as many lie below.
template <class Number> [[nodiscard]] double quantileOf(std::vector<Number> numbers, double share) {
    const auto at = static_cast<ptrdiff_t>(std::floor(share * static_cast<double>(numbers.size() - 1)));
    std::nth_element(numbers.begin(), numbers.begin() + at, numbers.end());
    return static_cast<double>(numbers[static_cast<size_t>(at)]);
}

// q_i . k_j of rows of `dim`, [query][key].
[[nodiscard]] Row dotsOf(const float *q, size_t queries, const float *k, size_t keys, size_t dim);

// sum += factor * row, of as many numbers.
void addTimes(Row &sum, double factor, const float *row);

// Of scores, times a scale.
[[nodiscard]] Row softmaxOf(const double *scores, size_t count, double scale);

// -sum p ln p of probabilities, with 0 ln 0 = 0.
template <class Number> [[nodiscard]] double entropyOf(const Number *p, size_t count) {
    double sum = 0;
    for (size_t n = 0; n < count; ++n)
        if (const auto each = static_cast<double>(p[n]); each > 0) sum -= each * std::log(each);
    return sum;
}

template <class Array> [[nodiscard]] double lengthOf(const Array &numbers) {
    double squares = 0;
    for (const auto each : numbers) squares += static_cast<double>(each) * static_cast<double>(each);
    return std::sqrt(squares);
}

// The backward pass of a row: dS = P o (dP - sum P dP).
[[nodiscard]] Row softmaxGradient(const Row &p, const Row &dP);

// What is added to a weight by a step of Adam (Kingma and Ba 2015, algorithm 1), counted from 1, and
// the moments before and after.
class Adam {
  public:
    explicit Adam(size_t count, double rate) : rate_(rate), first_(count), second_(count) {}
    template <class Number> void step(std::vector<Number> &weights, const std::vector<Number> &gradients) {
        ++steps_;
        const double firstUnbiased = 1 / (1 - std::pow(beta1, steps_)), secondUnbiased = 1 / (1 - std::pow(beta2, steps_));
        for (size_t n = 0; n < weights.size(); ++n) {
            const auto g = static_cast<double>(gradients[n]);
            first_[n] = beta1 * first_[n] + (1 - beta1) * g;
            second_[n] = beta2 * second_[n] + (1 - beta2) * g * g;
            weights[n] -= static_cast<Number>(rate_ * first_[n] * firstUnbiased / (std::sqrt(second_[n] * secondUnbiased) + epsilon));
        }
    }

  private:
    static constexpr double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
    double rate_;
    Row first_, second_;
    int steps_ = 0;
};

} // namespace vkattn::tool::lab
