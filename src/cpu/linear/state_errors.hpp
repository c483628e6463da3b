// By how much a state, and what is read of it, may be off: the bounds that verifiers of linear attention and of its
// gradients are made of; see docs/numerics.md.
#pragma once

#include "cpu/linear/oracle_scan.hpp"
#include "cpu/oracle/comparison.hpp"

namespace vkattn {

inline constexpr double relativeError = 1e-5; // of a sum's terms, as in attention

// By how much the state of a head, and what is read of it, may be off; see docs/numerics.md.
class StateErrors {
  public:
    explicit StateErrors(const LinearAttention &a) : a_(a) {}

    bool overflowed = false;    // fp32 may overflow on finite input: any answer is right
    bool rowOverflowed = false; // likewise, of the last row alone
    double exponent = 0;        // the largest error of an exponent of FAVOR so far
    double ofDenominator = 0;   // the error of the last row's denominator

    void begin(const SequentialScan<double> &scan) {
        columns_ = scan.summed();
        tokens_ = 0, exponent = 0, largestKey_ = largestStep_ = growth_ = 0, overflowed = false;
        size_.assign(uint64_t{a_.stateRows} * columns_, 0.0);
        error_ = size_;
        forState(scan, [&](size_t n, double element) { size_[n] = std::abs(element); });
        systematic_.assign(a_.valueDim, 0.0), random_ = systematic_, values_ = systematic_, steps_ = systematic_;
        for (uint32_t r = 0; r < a_.stateRows; ++r)
            for (uint32_t d = 0; d < a_.valueDim; ++d) steps_[d] += std::abs(scan.state[uint64_t{r} * a_.stateColumns + d]);
        keys_ = 0;
        norms(scan, norm_);
    }
    // After the scan has written token t.
    void write(const SequentialScan<double> &scan, uint32_t t) {
        ++tokens_;
        double square = 0, largestWritten = 0;
        for (const double each : scan.key) square += each * each;
        if (std::isfinite(square)) largestKey_ = std::max(largestKey_, std::sqrt(square));
        for (uint32_t d = 0; d < a_.valueDim; ++d) {
            const double written = std::abs(scan.written[d]);
            values_[d] += written;
            steps_[d] += std::sqrt(square) * written;
            if (std::isfinite(written)) largestWritten = std::max(largestWritten, written);
        }
        keys_ += std::sqrt(square);
        if (std::isfinite(square)) largestStep_ = std::max(largestStep_, std::sqrt(square) * largestWritten);
        overflowed |= largestStep_ > mostOfFp32 || (a_.isDelta() && largestKey_ * largestKey_ > mostOfFp32);
        // Chunks add decays up before they take the exponential. An infinite one is input.
        double grows = 0;
        for (uint32_t r = 0; a_.isGated() && r < a_.stateRows; ++r)
            if (const double g = scan.decay(t, r); std::isfinite(g)) grows = std::max(grows, g);
        overflowed |= (growth_ += grows) > 87;
        if (a_.hasFeatures() && a_.randomFeatures() && !a_.hasMaximum())
            for (uint32_t r = 0; r < a_.stateRows; ++r) overflowed |= !(scan.sizeOfTerms(r) <= mostOfFp32);
        a_.isDelta() ? writeDelta(scan, t) : writeTerms(scan, t);
    }
    // After the scan has read a row.
    void read(const SequentialScan<double> &scan, std::vector<double> &bound) {
        bound.assign(a_.valueDim, 0.0), reach_ = bound;
        rowOverflowed = a_.hasMaximum() && !(scan.sizeOfTerms() <= mostOfFp32);
        const double scale = a_.hasFeatures() ? 1 : std::abs(static_cast<double>(a_.scale));
        double queryNorm = 0, errorOfSum = 0, reachOfSum = 0;
        for (uint32_t r = 0; r < a_.stateRows; ++r) {
            const double q = std::abs(scan.query[r]), off = errorOfFeature(scan, scan.query, r);
            queryNorm += q * q;
            const size_t row = size_t{r} * columns_;
            for (uint32_t d = 0; d < a_.valueDim; ++d) {
                const double size = a_.isDelta() ? std::abs(scan.state[uint64_t{r} * a_.stateColumns + d]) : size_[row + d];
                bound[d] += a_.isDelta() ? q * relativeError * size : q * error_[row + d] + (q * share() + off) * size;
                reach_[d] += q * size;
            }
            if (!a_.hasFeatures()) continue;
            errorOfSum += q * error_[row + a_.valueDim] + (q * share() + off) * size_[row + a_.valueDim];
            reachOfSum += q * size_[row + a_.valueDim];
        }
        for (uint32_t d = 0; d < a_.valueDim; ++d) {
            if (a_.isDelta()) bound[d] += std::sqrt(queryNorm) * column(d);
            // Products of queries and keys come first in a chunk, and those of keys and values in a scan by tokens.
            const double query = std::sqrt(queryNorm);
            const bool overflows = std::max(reach_[d], reachOfSum) > mostOfFp32 || query * std::max(largestKey_, largestStep_) > mostOfFp32;
            // They may underflow too, and so may the decay over several tokens.
            bound[d] += smallestNormal * (a_.stateRows * values_[d] + (query + 1) * steps_[d]);
            bound[d] = overflows ? infinite : bound[d] * scale;
            if (!a_.hasFeatures() || scan.denominator == 0) continue;
            const double underflows =
                smallestNormal * (static_cast<double>(a_.stateRows) * static_cast<double>(tokens_) + (query + 1) * keys_);
            ofDenominator = errorOfSum + underflows;
            const double sum = std::abs(scan.denominator) - ofDenominator;
            bound[d] = sum > 0 ? (bound[d] + std::abs(scan.out[d]) * ofDenominator) / sum : infinite;
        }
    }
    // Returns the bound of an element of the state.
    [[nodiscard]] double ofState(const SequentialScan<double> &scan, uint32_t r, uint32_t c) const {
        const double underflows = smallestNormal * (c < a_.valueDim ? steps_[c] : keys_);
        if (a_.isDelta()) return underflows + column(c) + relativeError * std::abs(scan.state[uint64_t{r} * a_.stateColumns + c]);
        return underflows + error_[size_t{r} * columns_ + c] + share() * size_[size_t{r} * columns_ + c];
    }
    // Of delta rules: the Euclidean norm of the error of a column.
    [[nodiscard]] double ofColumn(uint32_t d) const { return column(d); }
    // The size of an element of the state: of its terms where they are known.
    [[nodiscard]] double sizeOf(const SequentialScan<double> &scan, uint32_t r, uint32_t c) const {
        return a_.isDelta() ? std::abs(scan.state[uint64_t{r} * a_.stateColumns + c]) : size_[size_t{r} * columns_ + c];
    }
    // The share of its terms' sizes that a sum of so many tokens may be off by.
    [[nodiscard]] double share() const { return relativeError + 4 * unitRoundoff * std::sqrt(static_cast<double>(tokens_)); }
    // The error of a feature of the token that was mapped last, of keys relative to the running maximum as the state is.
    [[nodiscard]] double errorOfFeature(const SequentialScan<double> &scan, const std::vector<double> &features, uint32_t r) const {
        if (!a_.hasFeatures()) return 0;
        if (a_.hasMaximum()) return std::abs(features[r]) * std::expm1(relativeError + errorOfProduct(scan.sizeOfTerms()));
        if (a_.features == VKATTN_FEATURES_ELU1) return 8 * unitRoundoff * std::abs(features[r]) + smallestNormal;
        return relativeError * std::abs(features[r]) + errorOfProduct(scan.sizeOfTerms(r));
    }
    // What one step of decay adds to the relative error of a state. g = 0 multiplies by 1.
    [[nodiscard]] double errorOfDecay(const SequentialScan<double> &scan, uint32_t t, uint32_t r) const {
        if (a_.hasMaximum()) return scan.kept[r] == 1 ? 0 : 8 * unitRoundoff + 2 * exponent;
        const double g = a_.isGated() ? scan.decay(t, r) : 0;
        return g == 0 || !std::isfinite(g) ? 0 : (4 + 2 * std::abs(g)) * unitRoundoff;
    }

  private:
    // The error of a product with omega whose terms have such sizes together. With a stride of 0
    // they are equal, and so may be their rounding errors: the bound knows of no chance.
    [[nodiscard]] double errorOfProduct(double terms) const { return (a_.keyDim + 4) * unitRoundoff * terms; }
    // visit(place, element) of what tokens are added to.
    template <class Visit> void forState(const SequentialScan<double> &scan, const Visit &visit) const {
        for (uint32_t r = 0; r < a_.stateRows; ++r)
            for (uint32_t c = 0; c < columns_; ++c) visit(size_t{r} * columns_ + c, scan.state[uint64_t{r} * a_.stateColumns + c]);
    }
    void writeTerms(const SequentialScan<double> &scan, uint32_t t) {
        if (a_.hasMaximum()) {
            exponent = std::max(exponent, relativeError + errorOfProduct(scan.sizeOfTerms()));
            overflowed |= !(scan.sizeOfTerms() <= mostOfFp32);
        }
        double largest = 0;
        for (uint32_t r = 0; r < a_.stateRows; ++r) {
            const double decay = errorOfDecay(scan, t, r), kept = scan.kept[r], key = std::abs(scan.key[r]);
            const double off = errorOfFeature(scan, scan.key, r);
            for (uint32_t c = 0; c < columns_; ++c) {
                const size_t n = size_t{r} * columns_ + c;
                const double value = c < a_.valueDim ? std::abs(scan.value[c]) : 1;
                error_[n] = kept * (error_[n] + decay * size_[n]) + off * value + smallestNormal * (1 + size_[n] + value + key);
                size_[n] = kept * size_[n] + key * value;
                if (std::isfinite(size_[n])) largest = std::max(largest, size_[n]);
            }
        }
        overflowed |= largest > mostOfFp32;
    }
    // A delta rule turns a column's error as it turns the column: by I - beta k k^T, which lengthens nothing where |k|
    // and beta are at most 1, and elsewhere the part of an error that lies along k.
    void writeDelta(const SequentialScan<double> &scan, uint32_t t) {
        double keyNorm = 0, kept = 0, decay = 0;
        for (uint32_t r = 0; r < a_.stateRows; ++r) {
            keyNorm += scan.key[r] * scan.key[r];
            kept = std::max(kept, scan.kept[r]);
            decay = std::max(decay, errorOfDecay(scan, t, r));
        }
        const double beta = std::abs(scan.strength), length = std::sqrt(keyNorm), along = 1 - scan.strength * keyNorm;
        const double growth = kept * std::sqrt(std::max(1.0, 1 + (along * along - 1) / a_.keyDim));
        std::swap(norm_, before_);
        norms(scan, norm_);
        for (uint32_t d = 0; d < a_.valueDim; ++d) {
            const double local = unitRoundoff * (norm_[d] + beta * keyNorm * kept * before_[d] + beta * length * std::abs(scan.value[d]));
            systematic_[d] = growth * (systematic_[d] + decay * before_[d]) + smallestNormal * (1 + norm_[d] + before_[d]);
            random_[d] = std::hypot(growth * random_[d], 4 * local);
            const double read = std::max(length, 1.0) * (kept * before_[d] + std::abs(scan.value[d]));
            const double reach = norm_[d] + std::max(beta, 1.0) * std::max(length, 1.0) * read;
            overflowed |= std::isfinite(reach) && reach > mostOfFp32;
        }
    }
    [[nodiscard]] double column(uint32_t d) const { return systematic_[d] + 4 * random_[d]; }
    void norms(const SequentialScan<double> &scan, std::vector<double> &to) const {
        to.assign(a_.valueDim, 0.0);
        if (!a_.isDelta()) return;
        for (uint32_t r = 0; r < a_.stateRows; ++r)
            for (uint32_t d = 0; d < a_.valueDim; ++d) {
                const double element = scan.state[uint64_t{r} * a_.stateColumns + d];
                to[d] += element * element;
            }
        for (double &each : to) each = std::sqrt(each);
    }

    const LinearAttention &a_;
    uint32_t columns_ = 0;
    uint64_t tokens_ = 0;
    double largestKey_ = 0, largestStep_ = 0; // norm of a key; times what is written
    double growth_ = 0;                       // the sum of the decays that are above 0
    // By element of the state: the sum of the sizes of its terms, and the error that decays and features have put in.
    std::vector<double> size_, error_;
    // Of delta rules, by column: Euclidean norms of the column now and before the token, and of its error.
    std::vector<double> norm_, before_, systematic_, random_;
    std::vector<double> reach_; // the sizes of the terms of a row's sums
    // The sums of the sizes of what was written, of that times the norms of keys, and of these norms: without decay.
    std::vector<double> values_, steps_;
    double keys_ = 0;
};

} // namespace vkattn
