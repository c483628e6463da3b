#include "tool/lab/formulas.hpp"

namespace vkattn::tool::lab {

Row dotsOf(const float *q, size_t queries, const float *k, size_t keys, size_t dim) {
    Row dots(queries * keys);
    for (size_t i = 0; i < queries; ++i)
        for (size_t j = 0; j < keys; ++j) {
            // Four sums, so that one addition need not wait for the one before.
            double sums[4] = {};
            const float *const a = q + i * dim, *const b = k + j * dim;
            size_t d = 0;
            for (; d + 4 <= dim; d += 4)
                for (size_t n = 0; n < 4; ++n) sums[n] += static_cast<double>(a[d + n]) * static_cast<double>(b[d + n]);
            for (; d < dim; ++d) sums[0] += static_cast<double>(a[d]) * static_cast<double>(b[d]);
            dots[i * keys + j] = sums[0] + sums[1] + sums[2] + sums[3];
        }
    return dots;
}

void addTimes(Row &sum, double factor, const float *row) {
    for (size_t n = 0; n < sum.size(); ++n) sum[n] += factor * static_cast<double>(row[n]);
}

Row softmaxOf(const double *scores, size_t count, double scale) {
    Row p(count);
    const double most = *std::max_element(scores, scores + count), least = *std::min_element(scores, scores + count);
    const double largest = scale * (scale < 0 ? least : most);
    double sum = 0;
    for (size_t n = 0; n < count; ++n) sum += p[n] = std::exp(scale * scores[n] - largest);
    for (double &each : p) each /= sum;
    return p;
}

Row softmaxGradient(const Row &p, const Row &dP) {
    // As differences from the likeliest key: where that has nearly all the weight, dP - mean cancels.
    const double likeliest = dP[static_cast<size_t>(std::max_element(p.begin(), p.end()) - p.begin())];
    double mean = 0;
    for (size_t n = 0; n < p.size(); ++n) mean += p[n] * (dP[n] - likeliest);
    Row dS(p.size());
    for (size_t n = 0; n < p.size(); ++n) dS[n] = p[n] * (dP[n] - likeliest - mean);
    return dS;
}

} // namespace vkattn::tool::lab
