// By how much the gradients of linear attention may be off, step by step beside the way back of a scan; see
// docs/numerics.md, "Gradients of linear attention".
#pragma once

#include "cpu/linear/state_errors.hpp"
#include "cpu/linear_gradient/reverse_scan.hpp"

namespace vkattn {

class GradientErrors {
  public:
    using Scan = ReverseScan<double, StateErrors>;

    explicit GradientErrors(const LinearGradient &g)
        : a_(g.forward), columns_(a_.valueDim + (a_.hasFeatures() ? 1 : 0)),
          share_(relativeError + 4 * unitRoundoff * std::sqrt(static_cast<double>(a_.keyTokens) + a_.queryTokens)) {}

    bool overflowed = false; // fp32 may overflow on finite input: any answer is right
    // Bounds of what the scan has found last.
    std::vector<double> dQuery, dKey, dValue, dDecay;
    double dStrength = 0;

    void begin(Scan &scan) {
        overflowed = scan.now().companion.overflowed;
        size_.resize(scan.dState.size());
        for (size_t n = 0; n < size_.size(); ++n) size_[n] = std::abs(scan.dState[n]);
        error_.assign(size_.size(), 0.0);
        systematic_.assign(columns_, 0.0), random_ = systematic_;
        keep(scan);
    }
    // After the scan has taken a row back.
    void row(Scan &scan) {
        StateErrors &state = scan.reader[0].companion;
        const SequentialScan<double> &at = scan.reader[0].scan;
        state.rowOverflowed = false;
        state.read(at, outBound_);
        overflowed |= state.rowOverflowed;
        if (a_.hasFeatures() && at.denominator == 0) {
            dQuery.assign(a_.keyDim, infinite); // fp32 may have a denominator that is not 0, or the other way round
            return;
        }
        errorsOfGiven(scan, state);
        errorOfMapped_.assign(a_.stateRows, 0.0), sizeOfMapped_ = errorOfMapped_;
        const double length = normOf(at.query);
        for (uint32_t r = 0; r < a_.stateRows; ++r) {
            const double q = std::abs(at.query[r]), off = state.errorOfFeature(at, at.query, r);
            for (uint32_t c = 0; c < columns_; ++c) {
                const double size = state.sizeOf(at, r, c);
                sizeOfMapped_[r] += size * sizeOfGiven_[c];
                errorOfMapped_[r] += state.ofState(at, r, c) * sizeOfGiven_[c] + size * errorOfGiven_[c];
                note(size_[at_(r, c)] += q * sizeOfGiven_[c]);
                error_[at_(r, c)] += q * errorOfGiven_[c] + off * sizeOfGiven_[c] + smallestNormal * (1 + q + sizeOfGiven_[c]);
            }
            note(sizeOfMapped_[r]);
        }
        // As a state that is written does, a column of a delta rule takes its roundings.
        for (uint32_t c = 0; c < columns_ && a_.isDelta(); ++c)
            random_[c] = std::hypot(random_[c], 4 * unitRoundoff * (normOfColumn(scan.dState, c) + 3 * length * sizeOfGiven_[c]));
        boundsThroughMap(state, at, VKATTN_Q, at.rawQuery, at.query, scan.dMappedQuery, dQuery);
        keep(scan);
    }
    // After the scan has taken a token back, and before it goes on.
    void token(Scan &scan, uint32_t t) {
        const StateErrors &state = scan.now().companion, &earlier = scan.before().companion;
        const SequentialScan<double> &at = scan.now().scan, &past = scan.before().scan;
        const double length = normOf(at.key), beta = a_.isDelta() ? std::abs(at.strength) : 1;
        errorOfWritten_.assign(columns_, 0.0), errorOfDifference_ = errorOfWritten_, errorOfDWritten_ = errorOfWritten_;
        double kept = 0;
        for (const double each : at.kept) kept = std::max(kept, each);
        dValue.assign(a_.valueDim, 0.0);
        for (uint32_t c = 0; c < columns_; ++c) {
            double error = a_.isDelta() ? length * ofColumn(c) : 0, read = 0, size = 0;
            for (uint32_t r = 0; r < a_.stateRows; ++r) {
                const double k = std::abs(at.key[r]), d = sizeOf(r, c);
                if (!a_.isDelta()) error += error_[at_(r, c)] * k;
                error += d * (state.errorOfFeature(at, at.key, r) + share_ * k) + smallestNormal * (1 + k + d);
                read += k * std::abs(scan.recalled[at_(r, c)]);
                size += d * k;
            }
            note(size);
            errorOfDWritten_[c] = error;
            if (c < a_.valueDim) dValue[c] = beta * (error + 4 * unitRoundoff * std::abs(scan.dWritten[c]));
            if (!a_.isDelta()) continue;
            note(read);
            errorOfDifference_[c] =
                kept * length * earlier.ofColumn(c) + share_ * read + 2 * unitRoundoff * std::abs(at.value[c]) + smallestNormal;
            errorOfWritten_[c] = beta * errorOfDifference_[c] + 2 * unitRoundoff * std::abs(at.written[c]);
        }
        dDecay.assign(scan.dDecay.size(), 0.0);
        errorOfMapped_.assign(a_.stateRows, 0.0), sizeOfMapped_ = errorOfMapped_;
        dStrength = 0;
        for (uint32_t c = 0; c < a_.valueDim && a_.isDelta(); ++c) {
            const double d = std::abs(scan.dWritten[c]), e = std::abs(scan.difference[c]);
            dStrength += errorOfDWritten_[c] * e + d * errorOfDifference_[c] + share_ * d * e + smallestNormal * (1 + d + e);
            note(d * e);
        }
        for (uint32_t r = 0; r < a_.stateRows; ++r) {
            const double decay = state.errorOfDecay(at, t, r);
            for (uint32_t c = 0; c < columns_; ++c) {
                const double size = sizeOf(r, c),
                             error = a_.isDelta() ? ofColumn(c) + relativeError * size : error_[at_(r, c)] + share_ * size;
                const double written = c < a_.valueDim ? std::abs(at.written[c]) : 1;
                errorOfMapped_[r] += error * written + size * errorOfWritten_[c] + smallestNormal * (1 + written + size);
                sizeOfMapped_[r] += size * written;
                if (!a_.isGated() && !a_.isDelta()) continue;
                const double sizeOfR = at.kept[r] * earlier.sizeOf(past, r, c);
                const double errorOfR =
                    at.kept[r] * earlier.ofState(past, r, c) + (decay + 2 * unitRoundoff) * sizeOfR + smallestNormal * (1 + sizeOfR);
                double dR = size, errorOfDR = error;
                if (a_.isDelta()) {
                    const double dV = std::abs(scan.dValue[c]), k = std::abs(at.key[r]);
                    errorOfMapped_[r] += errorOfR * dV + sizeOfR * dValue[c];
                    sizeOfMapped_[r] += sizeOfR * dV;
                    dR = std::abs(before_[at_(r, c)] - at.key[r] * scan.dValue[c]);
                    errorOfDR += k * dValue[c] + 4 * unitRoundoff * (size + k * dV);
                }
                if (!a_.isGated()) continue;
                dDecay[a_.decaysKeyDims() ? r : 0] +=
                    errorOfDR * sizeOfR + dR * errorOfR + share_ * dR * sizeOfR + smallestNormal * (1 + dR + sizeOfR);
                note(dR * sizeOfR);
            }
            note(sizeOfMapped_[r]);
        }
        boundsThroughMap(state, at, VKATTN_K, at.rawKey, at.key, scan.dMappedKey, dKey);
        a_.isDelta() ? turnColumns(scan, t, length, beta, kept) : decayTerms(state, at, t);
        keep(scan);
    }
    // Returns the bound of an element of dStateIn.
    [[nodiscard]] double ofState(const Scan &scan, uint32_t r, uint32_t c) const {
        if (a_.isDelta()) return ofColumn(c) + relativeError * std::abs(scan.dState[at_(r, c)]);
        return error_[at_(r, c)] + share_ * size_[at_(r, c)];
    }

  private:
    [[nodiscard]] size_t at_(uint32_t r, uint32_t c) const { return size_t{r} * columns_ + c; }
    void note(double size) { overflowed |= std::isfinite(size) && size > mostOfFp32; }
    [[nodiscard]] static double normOf(const std::vector<double> &x) {
        double square = 0;
        for (const double each : x) square += each * each;
        return std::sqrt(square);
    }
    [[nodiscard]] double normOfColumn(const std::vector<double> &of, uint32_t c) const {
        double square = 0;
        for (uint32_t r = 0; r < a_.stateRows; ++r) square += of[at_(r, c)] * of[at_(r, c)];
        return std::sqrt(square);
    }
    // The size of an element of dS before the token: of its terms where they are known.
    [[nodiscard]] double sizeOf(uint32_t r, uint32_t c) const { return a_.isDelta() ? std::abs(before_[at_(r, c)]) : size_[at_(r, c)]; }
    [[nodiscard]] double ofColumn(uint32_t c) const { return systematic_[c] + 4 * random_[c]; }
    void keep(const Scan &scan) {
        if (a_.isDelta()) before_ = scan.dState;
    }

    // N and E of features, or scale dOut.
    void errorsOfGiven(const Scan &scan, const StateErrors &state) {
        const SequentialScan<double> &at = scan.reader[0].scan;
        errorOfGiven_.assign(columns_, 0.0), sizeOfGiven_ = errorOfGiven_;
        double off = 4 * unitRoundoff;
        if (a_.hasFeatures()) {
            const double left = std::abs(at.denominator) - state.ofDenominator;
            off += left > 0 ? state.ofDenominator / left : infinite;
        }
        for (uint32_t c = 0; c < a_.valueDim; ++c) {
            const double given = std::abs(scan.given[c]);
            sizeOfGiven_[c] = given;
            errorOfGiven_[c] = given == 0 ? 0 : given * off;
            if (!a_.hasFeatures() || given == 0) continue;
            sizeOfGiven_[a_.valueDim] += given * std::abs(at.out[c]);
            errorOfGiven_[a_.valueDim] += given * (outBound_[c] + (off + share_) * (std::abs(at.out[c]) + outBound_[c]));
        }
    }
    void decayTerms(const StateErrors &state, const SequentialScan<double> &at, uint32_t t) {
        for (uint32_t r = 0; r < a_.stateRows; ++r) {
            const double decay = state.errorOfDecay(at, t, r);
            for (uint32_t c = 0; c < columns_; ++c) {
                double &size = size_[at_(r, c)], &error = error_[at_(r, c)];
                error = at.kept[r] * (error + decay * size) + smallestNormal * (1 + size);
                size *= at.kept[r];
                note(size);
            }
        }
    }
    // As StateErrors turns the columns of a state.
    void turnColumns(Scan &scan, uint32_t t, double length, double beta, double kept) {
        const SequentialScan<double> &at = scan.now().scan;
        const double along = 1 - at.strength * length * length;
        const double growth = kept * std::sqrt(std::max(1.0, 1 + (along * along - 1) / a_.keyDim));
        double decay = 0;
        for (uint32_t r = 0; r < a_.stateRows; ++r) decay = std::max(decay, scan.now().companion.errorOfDecay(at, t, r));
        for (uint32_t c = 0; c < columns_; ++c) {
            const double past = normOfColumn(before_, c),
                         local = unitRoundoff * (normOfColumn(scan.dState, c) + kept * beta * length * length * past);
            systematic_[c] = growth * (systematic_[c] + decay * past) + smallestNormal * (1 + past);
            random_[c] = std::hypot(growth * random_[c], 4 * local);
            note(past * std::max(length, 1.0) * std::max(beta * length, 1.0));
        }
    }
    // From the errors of the gradients of what the map makes of a token to bounds of those of the token, x.
    void boundsThroughMap(const StateErrors &state, const SequentialScan<double> &at, vkattn_role role, const std::vector<double> &x,
                          const std::vector<double> &mapped, const std::vector<double> &dMapped, std::vector<double> &to) {
        to.assign(a_.keyDim, 0.0);
        const uint32_t m = a_.randomFeatures();
        const auto errorOf = [&](uint32_t r) { return errorOfMapped_[r] + share_ * sizeOfMapped_[r]; };
        const bool relu = a_.hasFeatures() && a_.features == VKATTN_FEATURES_RELU, favor = a_.hasMaximum();
        for (uint32_t d = 0; d < a_.keyDim && m == 0; ++d) {
            const double slope = !a_.hasFeatures() || x[d] > 0 ? 1 : relu ? 0 : std::exp(x[d]);
            to[d] = slope * (errorOf(d) + (a_.hasFeatures() ? 8 * unitRoundoff * std::abs(dMapped[d]) : 0)) +
                    (slope == 0 ? 0 : smallestNormal * (1 + std::abs(dMapped[d])));
        }
        if (m == 0) return;
        const double root = relu ? 1 / std::sqrt(static_cast<double>(m)) : std::abs(at.rootOfScale(role));
        for (uint32_t r = 0; r < a_.stateRows; ++r) {
            double error = errorOf(r), weight = std::abs(dMapped[r]), own = 0;
            if (relu) {
                double product = 0, terms = 0;
                for (uint32_t d = 0; d < a_.keyDim; ++d) product += at.omega(r, d) * x[d], terms += std::abs(at.omega(r, d) * x[d]);
                const double unsure = (relativeError + 4 * unitRoundoff) * terms + smallestNormal;
                if (std::abs(product) <= unsure)
                    error += weight; // on either side of 0
                else if (!(product > 0))
                    continue;
            } else {
                // A small exponential may be flushed to 0.
                error = std::abs(mapped[r]) * error + (state.errorOfFeature(at, mapped, r) + smallestNormal) * (weight + error);
                weight *= std::abs(mapped[r]);
                own = role == VKATTN_K ? root : 0;
            }
            for (uint32_t d = 0; d < a_.keyDim; ++d)
                to[d] +=
                    root * (error + share_ * weight + smallestNormal) * (std::abs(at.omega(favor ? r % m : r, d)) + own * std::abs(x[d]));
        }
    }

    const LinearAttention &a_;
    const uint32_t columns_;
    const double share_; // of its terms' sizes that a sum may be off by
    // By element of dS: the sum of the sizes of its terms, and the error that decays and features have put in.
    std::vector<double> size_, error_;
    // Of delta rules: dS before the step, and by column Euclidean norms of its error.
    std::vector<double> before_, systematic_, random_;
    std::vector<double> outBound_, sizeOfGiven_, errorOfGiven_, sizeOfMapped_, errorOfMapped_;
    std::vector<double> errorOfWritten_, errorOfDifference_, errorOfDWritten_;
};

} // namespace vkattn
