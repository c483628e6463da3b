// Element-by-element comparison of gradients with the oracle, by the rules of docs/numerics.md,
// "Gradients".
#include "cpu/entry.hpp"
#include "cpu/gradient/gradient.hpp"
#include "cpu/gradient/oracle_row.hpp"
#include "cpu/oracle/comparison.hpp"

#include <memory>
#include <mutex>

namespace vkattn {
namespace {

// A sum of the oracle, and what is known of its rounding.
struct JudgedSum {
    double value = 0;
    double error = 0;     // what the errors of its terms may add up to
    double magnitude = 0; // the sum of the terms' magnitudes
    float emulated = 0;   // the plain fp32 sum, which finds terms that all round to one side
    bool free = false;    // a row overflows in fp32 on finite input: any answer is right

    void add(double term, double errorOfTerm) {
        value += term;
        error += errorOfTerm;
        magnitude += std::abs(term);
        emulated += static_cast<float>(term);
    }
    void add(const JudgedSum &other) {
        value += other.value;
        error += other.error;
        magnitude += other.magnitude;
        emulated += other.emulated;
        free |= other.free;
    }
};

// The errors that the terms of a row may have; see docs/numerics.md.
class RowErrors {
  public:
    std::vector<double> weight, dScore, dPlain; // of P_ij, dS_ij and dz_ij
    std::vector<double> absoluteDot;            // sum_d |q_id k_jd|
    double sink = 0, dSink = 0, sizeOfZ = 0;    // the last: what the rounding of products may move z_ij by
    bool overflowed = false;

    void compute(const Gradient &g, const GradientRow &row, const HeadKeysValues &kv, const vkattn_verify_options &options) {
        const Problem &p = g.forward;
        const double scale = std::abs(static_cast<double>(p.scale));
        const size_t count = row.pairs.size();
        const auto probability = 1e-5 + static_cast<double>(options.probabilityUnit);
        const double floor = std::max<double>(static_cast<double>(options.probabilityFloor), smallestNormal);
        overflowed = false;
        absoluteDot.resize(count), weight.resize(count), dScore.resize(count), dPlain.resize(count);
        double largest = 0, added = 0;
        for (size_t n = 0; n < count; ++n) {
            const GradientPair &pair = row.pairs[n];
            absoluteDot[n] = absoluteProduct(row.query, kv.key(pair.j));
            if (std::isfinite(absoluteDot[n])) largest = std::max(largest, absoluteDot[n]);
            added += finiteOr0(pair.weight * roundingOf(pair.added));
        }
        sizeOfZ = 4 * unitRoundoff * scale * largest;
        const double emulation = emulate(row, kv);
        sink = row.sink == 0 ? 0 : row.sink * (growth(sizeOfZ + added) + probability) + 2 * emulation + smallestNormal;
        double dErrors = 0, dMagnitude = 0; // of D_i
        for (size_t n = 0; n < count; ++n) {
            const GradientPair &pair = row.pairs[n];
            weight[n] = pair.weight * (growth(sizeOfZ + added + roundingOf(pair.added)) + probability) + 2 * emulation + floor;
            const double values = pair.dropped ? 0 : std::abs(pair.kept) * absoluteProduct(row.dOut, kv.value(pair.j));
            const double given = std::abs(pair.dWeights);
            dScore[n] = 4 * unitRoundoff * (values + given); // of dP_ij, until D_i is known
            dErrors += weight[n] * (values + given) + 4 * unitRoundoff * pair.weight * given;
            dMagnitude += pair.weight * (values + given);
            noteOverflow(values + given, pair.dWeight());
        }
        const vkattn_dtype stored = p.tensor(VKATTN_OUT).dtype;
        for (size_t e = 0; e < row.dOut.size() && row.seen(); ++e) {
            const double size = std::abs(row.dOut[e] * row.out[e]);
            dErrors += 4 * unitRoundoff * size + std::abs(row.dOut[e]) * (halfUlp(row.out[e], stored) + smallestNormal);
            dMagnitude += size;
        }
        noteOverflow(dMagnitude, row.d);
        for (size_t n = 0; n < count; ++n) {
            const GradientPair &pair = row.pairs[n];
            const double difference = pair.dWeight() - row.d + row.dLse;
            const double sizes = std::abs(pair.dWeight()) + std::abs(row.d) + std::abs(row.dLse);
            const double ofDifference = dScore[n] + dErrors + 4 * unitRoundoff * sizes;
            dScore[n] = (weight[n] * (std::abs(difference) + ofDifference) + pair.weight * ofDifference) * std::abs(pair.hookSlope) +
                        probability * std::abs(pair.dScore) + smallestNormal * (1 + sizes);
            // The slope is a function of a score that is rounded.
            if (p.program.scores()) dScore[n] += std::abs(pair.dScore) * (16 * unitRoundoff + sizeOfZ + 2 * roundingOf(pair.added));
            // 1 - tanh^2: its own rounding, and what the rounding of z does to it.
            const double ofSlope = p.softcap > 0 ? 8 * unitRoundoff + 2 * sizeOfZ / static_cast<double>(p.softcap) * pair.slope : 0;
            dPlain[n] = dScore[n] * pair.slope + (std::abs(pair.dScore) + dScore[n]) * ofSlope;
            noteOverflow(sizes, difference);
        }
        dSink = row.sink == 0 ? 0
                              : sink * (std::abs(row.dLse - row.d) + dErrors) +
                                    row.sink * (dErrors + 4 * unitRoundoff * (std::abs(row.dLse) + std::abs(row.d)));
    }

  private:
    [[nodiscard]] static double absoluteProduct(const std::vector<double> &a, const float *b) {
        double sum = 0;
        for (size_t e = 0; e < a.size(); ++e) sum += std::abs(a[e] * static_cast<double>(b[e]));
        return sum;
    }
    [[nodiscard]] static double finiteOr0(double x) { return std::isfinite(x) ? x : 0; }
    // By what share of itself a probability moves where the scores of its row move by `rounding`: in the
    // forward pass, and once more in the backward pass.
    [[nodiscard]] static double growth(double rounding) { return std::expm1(std::min(2 * rounding, 64.0)); }
    // As in the forward pass: terms above 2^17 are left to the emulation.
    [[nodiscard]] static double roundingOf(double added) { return std::isfinite(added) ? std::min(2 * unitRoundoff * added, 0x1p-6) : 0; }
    void noteOverflow(double magnitude, double value) { overflowed |= std::isfinite(value) && !(magnitude <= mostOfFp32); }

    // Returns the largest error of a probability of the row in plain fp32. The terms are added one by one, as
    // kernels add them: where they are large, each rounding moves the score by many times the difference of
    // two keys, and decides which keys are the largest.
    double emulate(const GradientRow &row, const HeadKeysValues &kv) {
        emulated_.compute(row.pairs.size(), row.ownSink(), [&](size_t n) {
            float ignored;
            return row.rule().score(row.pairs[n].j, emulatedDot(row.query, kv.key(row.pairs[n].j)), ignored);
        });
        double error = 0;
        for (size_t n = 0; n < row.pairs.size(); ++n) {
            const auto got = static_cast<double>(emulated_.weight[n]);
            if (std::isfinite(row.pairs[n].weight) && !std::isfinite(got)) overflowed = true;
            error = std::max(error, finiteOr0(std::abs(got - row.pairs[n].weight)));
        }
        return error;
    }

    RowProbabilities<float> emulated_;
};

class GradientChecker {
  public:
    GradientChecker(const Gradient &g, const Operands &operands, const vkattn_verify_options &options)
        : g_(g), p_(g.forward), operands_(operands), options_(options), probability_(1e-5 + static_cast<double>(options.probabilityUnit)) {}

    // The sums over pairs of every head; `bias` is shared by all checkers, and has a lock of its own.
    std::vector<JudgedSum> slopes, sinks;
    JudgedSum scale, softcap;
    Tally tally;
    HeadKeysValues kv; // of the head that is checked

    void checkHead(const Sequence &s, uint32_t b, uint32_t kvHead, std::vector<JudgedSum> &bias, std::mutex &biasMutex) {
        slopes.assign(p_.heads, {});
        sinks.assign(p_.heads, {});
        scale = softcap = {};
        dK_.assign(size_t{s.keys} * p_.headDim, {});
        dV_.assign(size_t{s.keys} * p_.valueDim, {});
        unsure_.assign(size_t{s.keys} * p_.valueDim, 0);
        largest_.assign(s.keys, 0);
        queries_.assign(size_t{s.keys} * p_.headDim, 0);
        std::vector<JudgedSum> rowOfBias;
        for (uint32_t h = kvHead * p_.groupSize(); h < (kvHead + 1) * p_.groupSize(); ++h)
            for (uint32_t i = 0; i < s.queries; ++i) {
                row_.compute(g_, operands_, s, kv, b, h, i);
                errors_.compute(g_, row_, kv, options_);
                checkRow(s, b, h, i);
                addToKeys();
                addToHead(h);
                if (bias.empty()) continue;
                const std::lock_guard lock(biasMutex);
                for (size_t n = 0; n < row_.pairs.size(); ++n) {
                    JudgedSum &sum = bias[biasPlace(g_.tensor(VKATTN_D_BIAS), b, h, i, row_.pairs[n].j)];
                    sum.add(row_.pairs[n].dScore, errors_.dScore[n]);
                    sum.free |= errors_.overflowed;
                }
            }
        checkKeys(VKATTN_D_K, dK_, s, b, kvHead);
        checkKeys(VKATTN_D_V, dV_, s, b, kvHead);
    }

    void checkNumber(vkattn_role role, uint32_t n, const JudgedSum &sum) {
        if (g_.uses(role)) check(role, {0, 0, 0, n}, n, VKATTN_F32, sum);
    }
    void checkBias(uint64_t place, const JudgedSum &sum) {
        const Tensor &t = g_.tensor(VKATTN_D_BIAS);
        uint32_t index[4];
        uint64_t rest = place;
        for (int d = 3; d >= 0; --d) index[d] = static_cast<uint32_t>(rest % t.extent[d]), rest /= t.extent[d];
        check(VKATTN_D_BIAS, index, biasIndex(t, place), t.dtype, sum);
    }
    // Whether the host's loop over results would have found a gradient that is not finite.
    [[nodiscard]] bool foundNonfinite() const { return foundNonfinite_; }
    void merge(const GradientChecker &other) {
        tally.merge(other.tally);
        foundNonfinite_ |= other.foundNonfinite_;
    }

  private:
    // Returns what a rounded dz of the pair may be at most, where kernels round dz beside larger ones.
    [[nodiscard]] double largestOf(size_t pair) const {
        const double largest = std::abs(row_.pairs[pair].dPlain) + errors_.dPlain[pair];
        return std::isfinite(largest) ? largest : 0; // then nothing is promised, or not by a number
    }
    void checkRow(const Sequence &s, uint32_t b, uint32_t h, uint32_t i) {
        if (!g_.uses(VKATTN_D_Q)) return;
        double largest = 0;
        for (size_t n = 0; n < row_.pairs.size(); ++n) largest = std::max(largest, largestOf(n));
        const auto factor = static_cast<double>(p_.scale);
        const Tensor &t = g_.tensor(VKATTN_D_Q);
        dQ_.assign(p_.headDim, {});
        for (size_t n = 0; n < row_.pairs.size(); ++n) {
            const GradientPair &pair = row_.pairs[n];
            const float *k = kv.key(pair.j);
            for (uint32_t e = 0; e < p_.headDim; ++e)
                dQ_[e].add(factor * pair.dPlain * static_cast<double>(k[e]),
                           std::abs(factor * static_cast<double>(k[e])) * (errors_.dPlain[n] + floor_ * largest));
        }
        for (uint32_t e = 0; e < p_.headDim; ++e) {
            dQ_[e].free = errors_.overflowed;
            check(VKATTN_D_Q, {b, h, i, e}, t.index(s.batch, h, s.query(i), e), t.dtype, dQ_[e]);
        }
    }
    void addToKeys() {
        const auto factor = static_cast<double>(p_.scale);
        for (size_t n = 0; n < row_.pairs.size(); ++n) {
            const GradientPair &pair = row_.pairs[n];
            JudgedSum *const dK = dK_.data() + size_t{pair.j} * p_.headDim, *const dV = dV_.data() + size_t{pair.j} * p_.valueDim;
            for (uint32_t e = 0; g_.uses(VKATTN_D_K) && e < p_.headDim; ++e) {
                dK[e].add(factor * pair.dPlain * row_.query[e], std::abs(factor * row_.query[e]) * errors_.dPlain[n]);
                dK[e].free |= errors_.overflowed;
                queries_[size_t{pair.j} * p_.headDim + e] += std::abs(factor * row_.query[e]);
            }
            largest_[pair.j] = std::max(largest_[pair.j], largestOf(n));
            for (uint32_t e = 0; g_.uses(VKATTN_D_V) && e < p_.valueDim; ++e) {
                if (!pair.dropped)
                    dV[e].add(pair.kept * pair.weight * row_.dOut[e], std::abs(pair.kept) * errors_.weight[n] * std::abs(row_.dOut[e]));
                else if (!std::isfinite(row_.dOut[e])) // a NaN of a row may reach a key that the row sees, dropped or not
                    unsure_[size_t{pair.j} * p_.valueDim + e] = 1;
                dV[e].free |= errors_.overflowed;
            }
        }
    }
    void addToHead(uint32_t h) {
        sinks[h].add(row_.dSink, errors_.dSink);
        sinks[h].free |= errors_.overflowed;
        slopes[h].free |= errors_.overflowed;
        scale.free |= errors_.overflowed;
        softcap.free |= errors_.overflowed;
        for (size_t n = 0; n < row_.pairs.size(); ++n) {
            const GradientPair &pair = row_.pairs[n];
            slopes[h].add(-pair.distance * pair.dScore, pair.distance * errors_.dScore[n]);
            const double dotError = 4 * unitRoundoff * errors_.absoluteDot[n];
            scale.add(pair.dPlain * pair.dot, errors_.dPlain[n] * (std::abs(pair.dot) + dotError) + std::abs(pair.dPlain) * dotError);
            if (!(p_.softcap > 0)) continue;
            const double x = std::abs(static_cast<double>(p_.scale) * pair.dot / static_cast<double>(p_.softcap)), tanh = std::tanh(x);
            const double factor = softcapFactor(p_, pair.dot);
            const double ofFactor = 8 * unitRoundoff * (tanh + std::min(x, 16.0)) + errors_.sizeOfZ / static_cast<double>(p_.softcap);
            softcap.add(pair.dScore * factor, errors_.dScore[n] * (std::abs(factor) + ofFactor) + std::abs(pair.dScore) * ofFactor);
        }
    }

    void checkKeys(vkattn_role role, const std::vector<JudgedSum> &sums, const Sequence &s, uint32_t b, uint32_t kvHead) {
        if (!g_.uses(role)) return;
        const Tensor &t = g_.tensor(role);
        const uint32_t dims = t.extent[3], keys = p_.ragged() ? s.keys : p_.keyTokens;
        for (uint32_t j = 0; j < keys; ++j)
            for (uint32_t e = 0; e < dims; ++e) {
                const uint64_t index = t.index(s.batch, kvHead, s.key(j), e);
                const size_t n = size_t{j} * dims + e;
                JudgedSum sum = j < s.keys ? sums[n] : JudgedSum{};
                sum.free |= role == VKATTN_D_V && j < s.keys && unsure_[n];
                if (role == VKATTN_D_K && j < s.keys && floor_ > 0) sum.error += floor_ * largest_[j] * queries_[n];
                check(role, {b, kvHead, j, e}, index, t.dtype, sum);
            }
    }

    void check(vkattn_role role, const uint32_t (&index)[4], uint64_t at, vkattn_dtype dtype, const JudgedSum &sum) {
        const auto lossScale = static_cast<double>(g_.lossScale);
        const double got = static_cast<double>(loadElement(operands_.data[role], dtype, at)), expected = sum.value / lossScale;
        foundNonfinite_ |= !std::isfinite(got);
        double bound = 0;
        if (sum.magnitude != 0 || sum.error != 0) {
            const double emulation = std::abs(static_cast<double>(sum.emulated) - sum.value);
            bound =
                (sum.error + probability_ * sum.magnitude + (std::isfinite(emulation) ? 2 * emulation : 0) + smallestNormal) / lossScale +
                halfUlp(expected, dtype) + smallestNormal;
        }
        double error = std::abs(got - expected);
        bool right = error <= bound;
        if (!std::isfinite(expected)) {
            right = !std::isfinite(got);
            error = right ? 0 : infinite;
        } else if (!std::isfinite(got)) {
            right = roundsToInfinity(got, expected, bound, dtype);
            error = right ? 0 : infinite;
        }
        if (sum.free || (std::isfinite(expected) && !(sum.magnitude <= mostOfFp32))) right = true, error = 0;
        tally.noteError(error);
        tally.note(role, index, {got, expected, error, bound, right});
    }

    const Gradient &g_;
    const Problem &p_;
    const Operands &operands_;
    const vkattn_verify_options &options_;
    double probability_;
    GradientRow row_;
    RowErrors errors_;
    std::vector<JudgedSum> dQ_, dK_, dV_;
    double floor_ = static_cast<double>(options_.probabilityFloor); // of dz, as a share of the largest of a row or a key
    std::vector<double> largest_, queries_;                         // of each key: that dz, and the sum of |scale q_id|
    std::vector<unsigned char> unsure_;                             // elements of dV that a NaN of a dropped pair may have reached
    bool foundNonfinite_ = false;
};

// A sequence and a key head: what one thread checks at a time, and what these contribute to sums over
// more than their own rows.
struct CheckedHead {
    uint32_t b, kvHead;
    Sequence s;
    std::vector<JudgedSum> slopes, sinks; // of the heads of the group
    JudgedSum scale, softcap;
};

// Returns whether the gradient has sums over rows of more than one key head, which can only be checked
// as a whole.
bool sumsOverHeads(const Gradient &g) {
    for (const vkattn_role role : {VKATTN_D_BIAS, VKATTN_D_SINKS, VKATTN_D_SLOPES, VKATTN_D_SCALE, VKATTN_D_SOFTCAP})
        if (g.uses(role)) return true;
    return false;
}

// Returns the heads that are checked.
std::vector<CheckedHead> headsToCheck(const Gradient &g, const Operands &operands, const vkattn_verify_options &options) {
    const Problem &p = g.forward;
    std::vector<CheckedHead> all;
    double flops = 0;
    const auto add = [&](uint32_t b, const Sequence &s) {
        flops += 10.0 * s.queries * s.keys * p.heads * std::max(p.headDim, p.valueDim);
        for (uint32_t kvHead = 0; kvHead < p.kvHeads; ++kvHead) all.push_back({b, kvHead, s, {}, {}, {}, {}});
    };
    const bool rows = p.tensor(VKATTN_Q).extent[2] != 0, keys = p.tensor(VKATTN_K).extent[2] != 0;
    if (rows || (keys && (g.uses(VKATTN_D_K) || g.uses(VKATTN_D_V)))) forEverySequence(p, operands, add);
    if (sumsOverHeads(g)) return all;
    std::vector<uint64_t> rowsOfHead;
    for (const CheckedHead &head : all) rowsOfHead.push_back(uint64_t{head.s.queries} * p.groupSize());
    std::vector<CheckedHead> some;
    for (const size_t n : chosenHeads(rowsOfHead, flops, options)) some.push_back(all[n]);
    return some;
}

void verify(const Gradient &g, const Operands &operands, const vkattn_verify_options &options, vkattn_verify_report &report) {
    const Problem &p = g.forward;
    const Sequences sequences(p, operands);
    std::vector<CheckedHead> heads = headsToCheck(g, operands, options);
    report = {};
    report.rowsTotal = sequences.rows();
    for (const CheckedHead &head : heads) report.rowsChecked += uint64_t{head.s.queries} * p.groupSize();
    std::vector<JudgedSum> bias(g.uses(VKATTN_D_BIAS) ? biasElements(g.tensor(VKATTN_D_BIAS)) : 0);
    std::mutex biasMutex;
    GradientChecker total(g, operands, options);
    checkUnits(
        options, heads.size(), [&] { return std::make_shared<GradientChecker>(g, operands, options); },
        [&](GradientChecker &checker, uint64_t n) {
            CheckedHead &head = heads[n];
            if (head.s.queries) checker.kv.load(p, operands, sequences, head.b, head.kvHead);
            checker.checkHead(head.s, head.b, head.kvHead, bias, biasMutex);
            const auto ofGroup = [&](const std::vector<JudgedSum> &all) {
                const auto from = all.begin() + head.kvHead * p.groupSize();
                return std::vector<JudgedSum>(from, from + p.groupSize());
            };
            head.slopes = ofGroup(checker.slopes);
            head.sinks = ofGroup(checker.sinks);
            head.scale = checker.scale;
            head.softcap = checker.softcap;
        },
        [&](const GradientChecker &checker) { total.merge(checker); });
    if (heads.empty() || sumsOverHeads(g)) { // all heads
        std::vector<JudgedSum> slopes(p.heads), sinks(p.heads);
        JudgedSum scale, softcap;
        for (const CheckedHead &head : heads) {
            for (uint32_t n = 0; n < p.groupSize(); ++n) {
                slopes[head.kvHead * p.groupSize() + n].add(head.slopes[n]);
                sinks[head.kvHead * p.groupSize() + n].add(head.sinks[n]);
            }
            scale.add(head.scale);
            softcap.add(head.softcap);
        }
        for (uint32_t h = 0; h < p.heads; ++h) {
            total.checkNumber(VKATTN_D_SLOPES, h, slopes[h]);
            total.checkNumber(VKATTN_D_SINKS, h, sinks[h]);
        }
        total.checkNumber(VKATTN_D_SCALE, 0, scale);
        total.checkNumber(VKATTN_D_SOFTCAP, 0, softcap);
        for (uint64_t n = 0; n < bias.size(); ++n) total.checkBias(n, bias[n]);
    }
    // Without such a gradient the word is what it was, which nobody knows here.
    if (g.has(VKATTN_NONFINITE) && total.foundNonfinite()) {
        const auto got = static_cast<double>(operands.word(VKATTN_NONFINITE, 0));
        total.tally.note(VKATTN_NONFINITE, {0, 0, 0, 0}, {got, 1, std::abs(got - 1), 0, got == 1});
    }
    total.tally.writeTo(report);
}

} // namespace

vkattn_result verifyGradient(const vkattn_attention_gradient *description, const vkattn_operand_memory *memory, uint32_t count,
                             const vkattn_verify_options *options, vkattn_verify_report *report, vkattn_diagnostic *why) {
    return verifyBound(makeGradient, description, memory, count, options, report, why, "the oracle's sums of one head or of the bias",
                       verify);
}

} // namespace vkattn
