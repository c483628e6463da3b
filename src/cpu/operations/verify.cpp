// Element-by-element comparison of operations with the oracle, by the rules of docs/numerics.md,
// "Operations".
#include "cpu/entry.hpp"
#include "cpu/gradient/gradient.hpp"
#include "cpu/linear/linear.hpp"
#include "cpu/linear_gradient/linear_gradient.hpp"
#include "cpu/operations/oracle.hpp"
#include "cpu/oracle/comparison.hpp"
#include "cpu/statistics/statistics.hpp"
#include "cpu/visible_blocks/visible_blocks.hpp"

#include <memory>
#include <set>
#include <utility>

using namespace vkattn;

namespace {

constexpr double unit = 0x1p-24; // half a unit in the last place of 1 in fp32

class RowChecker {
  public:
    RowChecker(const Operation &o, const Operands &operands) : o_(o), operands_(operands) {
        // Only a table can send two tokens to one place.
        for (uint32_t b = 0; o.has(VKATTN_PAGE_TABLE) && b < o.batch; ++b)
            for (uint32_t t = 0; t < o.rows; ++t) {
                token_.place(o, operands, {b, 0, t}, o.has(VKATTN_STARTS) ? operands.word(VKATTN_STARTS, b) : o.start);
                if (token_.written && !places_.insert({token_.entry, token_.to}).second) contested_.insert({token_.entry, token_.to});
            }
    }

    // Checks at most OracleProducts::rows rows.
    void check(const RowOfX *ids, uint32_t count) {
        if (o_.kind == VKATTN_PROJECTION) return checkProjection(ids, count);
        for (uint32_t n = 0; n < count; ++n)
            if (o_.kind == VKATTN_NORM)
                checkNorm(ids[n]);
            else if (o_.kind == VKATTN_NORM_GRADIENT)
                checkNormGradient(ids[n]);
            else if (o_.kind == VKATTN_ADVANCE)
                checkWord(ids[n].r);
            else if (o_.kind == VKATTN_KEEP)
                checkBits(ids[n]);
            else if (o_.kind == VKATTN_MEAN)
                checkMean(ids[n]);
            else if (o_.kind == VKATTN_MERGE)
                checkMerge(ids[n]);
            else if (o_.kind == VKATTN_HADAMARD)
                checkHadamard(ids[n]);
            else if (o_.kind == VKATTN_DROP)
                checkDrop(ids[n]);
            else
                checkToken(ids[n]);
    }

    // Checks the gradients that sum over all rows, which are one row themselves.
    void checkColumns() {
        std::vector<double> dGamma(o_.inner), dBeta(o_.inner), ofGamma(o_.inner), ofBeta(o_.inner), slack(o_.inner);
        bool overflow = false;
        for (uint64_t n = 0; n < rowsOfX(o_); ++n) {
            gradient_.compute(o_, operands_, rowOfX(o_, n));
            overflow = overflow || squaresOverflow(gradient_.norm);
            for (uint32_t d = 0; d < o_.inner; ++d) {
                const double dY = gradient_.dY[d], z = gradient_.z[d];
                dGamma[d] += dY * z, ofGamma[d] += std::abs(dY * z);
                dBeta[d] += dY, ofBeta[d] += std::abs(dY);
                slack[d] += std::abs(dY) * errorOfZ(gradient_.norm, z);
            }
        }
        // Blocks of 64 rows are summed up, and then the blocks.
        const double rows = static_cast<double>(rowsOfX(o_)), sums = (std::min(rows, 64.0) + rows / 64 + 4) * unit;
        const double flushed = (rows + 4) * smallestNormal;
        for (uint32_t d = 0; d < o_.inner; ++d) {
            if (o_.uses(VKATTN_D_GAMMA))
                compare(VKATTN_D_GAMMA, {0, 0, 0, d}, dGamma[d], sums * ofGamma[d] + slack[d] + flushed, overflow || ofGamma[d] > 0x1p127);
            if (o_.uses(VKATTN_D_BETA)) compare(VKATTN_D_BETA, {0, 0, 0, d}, dBeta[d], sums * ofBeta[d] + flushed, ofBeta[d] > 0x1p127);
        }
    }

    Tally tally;

  private:
    // Squares that fp32 cannot hold, of finite input.
    [[nodiscard]] bool squaresOverflow(const OracleNorm &norm) const {
        const double square = norm.sigma * norm.sigma;
        return std::isfinite(norm.magnitude) && !(square >= 0x1p-100 && square * o_.inner <= 0x1p126 && norm.magnitude <= 0x1p127);
    }
    // What an element (s - mean) / sigma may be off by in fp32.
    [[nodiscard]] static double errorOfZ(const OracleNorm &norm, double z) {
        return 1e-6 * std::max(std::abs(z), 1.0) + unit * std::abs(norm.mean) / norm.sigma;
    }

    void checkProjection(const RowOfX *ids, uint32_t count) {
        for (uint32_t first = 0; first < count;) { // the rows of one batch entry and group at a time
            uint32_t end = first + 1;
            while (end < count && ids[end].b == ids[first].b && ids[end].g == ids[first].g) ++end;
            products_.take(o_, operands_, ids + first, end - first);
            for (uint32_t column = 0; column < o_.out; ++column) {
                products_.multiply(o_, operands_, ids[first].b, ids[first].g, column);
                for (uint32_t n = first; n < end; ++n) checkProduct(ids[n], n - first, column);
            }
            first = end;
        }
    }
    void checkProduct(const RowOfX &id, uint32_t n, uint32_t column) {
        const double sum = products_.sum[n], magnitude = products_.magnitude[n];
        const auto emulated = static_cast<double>(products_.emulated[n]);
        const bool bothFinite = std::isfinite(sum) && std::isfinite(emulated);
        const double bias = o_.uses(VKATTN_BIAS) ? elementOf(o_, operands_, VKATTN_BIAS, id.b, id.g, 0, column) : 0;
        const double residual = o_.uses(VKATTN_RESIDUAL) ? elementOf(o_, operands_, VKATTN_RESIDUAL, id.b, id.g, id.r, column) : 0;
        const double expected = sum + bias + residual;
        // What fp32 cannot hold on its way from finite input.
        const bool overflow = !std::isnan(sum) && !(bothFinite ? magnitude <= 0x1p127 : emulated == sum);
        const double flushed = smallestNormal * (o_.inner + 4.0 + products_.sumOfX[n] + products_.sumOfW);
        const double rounding = bothFinite ? 2 * std::abs(emulated - sum) + unit * (4 * magnitude + 2 * std::sqrt(products_.walk[n])) : 0;
        const double added = 2 * unit * (std::abs(sum + bias) + std::abs(expected));
        compare(VKATTN_Y, {id.b, id.g, id.r, column}, expected, rounding + added + flushed, overflow);
    }

    void checkNorm(const RowOfX &id) {
        norm_.compute(o_, operands_, id);
        const bool overflow = squaresOverflow(norm_);
        for (uint32_t d = 0; d < o_.inner; ++d) {
            const double z = (norm_.s[d] - norm_.mean) / norm_.sigma;
            const double gamma = OracleNorm::gamma(o_, operands_, d), beta = OracleNorm::beta(o_, operands_, d);
            const double relative = errorOfZ(norm_, z);
            const double flushed = smallestNormal * (4 + std::abs(gamma) + 1 / norm_.sigma);
            compare(VKATTN_Y, {id.b, id.g, id.r, d}, norm_.y[d],
                    relative * std::abs(gamma) + unit * (std::abs(z * gamma) + std::abs(beta)) + flushed, overflow);
            if (o_.uses(VKATTN_SUM)) compareStored(VKATTN_SUM, {id.b, id.g, id.r, d}, norm_.s[d], 2 * smallestNormal);
        }
    }

    void checkNormGradient(const RowOfX &id) {
        if (!o_.uses(VKATTN_D_X)) return;
        gradient_.compute(o_, operands_, id);
        const OracleNorm &norm = gradient_.norm;
        // Sums run over lanes and runs of a lane: fewer roundings than 40 on a way, whatever the row.
        constexpr double sums = 40 * unit;
        double errorOfProducts = sums * gradient_.magnitudeOfProducts;
        for (uint32_t d = 0; d < o_.inner; ++d)
            errorOfProducts += std::abs(gradient_.g[d]) * (errorOfZ(norm, gradient_.z[d]) + unit * std::abs(gradient_.z[d])) / o_.inner;
        const double errorOfG = sums * gradient_.magnitudeOfG, products = gradient_.meanOfProducts;
        for (uint32_t d = 0; d < o_.inner; ++d) {
            const double z = gradient_.z[d], g = gradient_.g[d], whole = std::abs(g) + std::abs(gradient_.meanOfG) + std::abs(z * products);
            const double inside = 4 * unit * whole + errorOfG + std::abs(z) * errorOfProducts + errorOfZ(norm, z) * std::abs(products);
            const double flushed = smallestNormal * (8 + 8 / norm.sigma);
            // The factor 1 / sigma is as exact as that of the norm.
            const double own = gradient_.dX[d], bound = inside / norm.sigma + 1e-6 * std::abs(own) + flushed;
            const bool overflow = squaresOverflow(norm) || whole / norm.sigma > 0x1p126, adds = o_.uses(VKATTN_RESIDUAL);
            // A device rounds dX before the residual is added, and once more the sum.
            const double past = adds ? elementOf(o_, operands_, VKATTN_RESIDUAL, id.b, id.g, id.r, d) : 0;
            const double rounded = adds ? halfUlp(own, o_.tensor(VKATTN_D_X).dtype) + 2 * unit * std::abs(own + past) : 0;
            const bool roundsAway = adds && roundsToInfinity(std::copysign(infinite, own), own, bound, o_.tensor(VKATTN_D_X).dtype);
            compare(VKATTN_D_X, {id.b, id.g, id.r, d}, own + past, bound + rounded, overflow || roundsAway);
        }
    }

    void checkToken(const RowOfX &id) {
        token_.compute(o_, operands_, id);
        // Any of the tokens that go to one place may be there.
        if (!token_.written || contested_.count({token_.entry, token_.to})) return;
        const auto entry = static_cast<uint32_t>(token_.entry), to = static_cast<uint32_t>(token_.to);
        if (hasScales(o_.tensor(VKATTN_Y).dtype)) return checkScaledRow({entry, id.g, to, 0});
        for (uint32_t d = 0; d < o_.inner; ++d) {
            const double magnitude = token_.magnitude[d], expected = token_.y[d];
            if (magnitude < 0) // a denormal may be flushed
                compareStored(VKATTN_Y, {entry, id.g, to, d}, expected, std::abs(expected) < smallestNormal ? std::abs(expected) : 0);
            else
                compare(VKATTN_Y, {entry, id.g, to, d}, expected, 4 * unit * magnitude + 8 * smallestNormal, magnitude > 0x1p127);
        }
    }

    // A row of blocks, or of bytes with their scale: codes may be off where a quotient lies in the middle of two, and a device divides
    // inexactly.
    void checkScaledRow(const uint32_t (&row)[4]) {
        const vkattn_dtype type = o_.tensor(VKATTN_Y).dtype;
        const uint32_t block = isBlockType(type) ? elementsOfBlock(type) : o_.inner;
        for (uint32_t first = 0; first < o_.inner; first += block) {
            const uint32_t end = std::min(first + block, o_.inner);
            double extreme = 0;
            bool finite = true;
            for (uint32_t d = first; d < end; ++d) {
                finite = finite && std::isfinite(token_.y[d]);
                if (std::abs(token_.y[d]) > std::abs(extreme)) extreme = token_.y[d];
            }
            const double scale = type == VKATTN_Q4_0 ? extreme / -8 : std::abs(extreme) / 127;
            // The scale's own: where it is stored, and by the division.
            const double ofScale =
                halfUlp(scale, type == VKATTN_INT8 ? VKATTN_F32 : VKATTN_F16) + std::abs(scale) * 0x1p-20 + smallestNormal;
            const bool overflows = type != VKATTN_INT8 && std::abs(scale) >= 65519;
            for (uint32_t d = first; d < end; ++d) {
                const double steps = scale == 0 ? 0 : token_.y[d] / scale, most = type == VKATTN_Q4_0 ? std::min(steps, 7.0) : steps;
                const double bound = std::abs(scale) * (0.5 + std::abs(steps) * 0x1p-20) + (std::abs(steps) + 0.5) * ofScale;
                const uint32_t index[4] = {row[0], row[1], row[2], d};
                note(VKATTN_Y, index, finite ? most * scale : std::numeric_limits<double>::quiet_NaN(), bound, overflows);
            }
        }
    }

    void checkMean(const RowOfX &id) {
        const double groups = o_.averaged, sums = std::min(groups, 32.0) + groups / 32 + 2;
        for (uint32_t d = 0; d < o_.inner; ++d) {
            const OracleMean expected(o_, operands_, id, d);
            compare(VKATTN_Y, {id.b, 0, id.r, d}, expected.mean, sums * unit * expected.magnitude + (groups + 2) * smallestNormal, false);
        }
    }

    // A sum of n terms in log2(n) rounds, and a product with a rounded root.
    void checkHadamard(const RowOfX &id) {
        const double roundings = std::log2(static_cast<double>(o_.block)) + 3;
        rotated_.compute(o_, operands_, id);
        for (uint32_t d = 0; d < o_.inner; ++d) {
            const double magnitude = rotated_.magnitude[d];
            // What fp32 cannot hold before it is divided.
            const bool overflow = std::isfinite(magnitude) && magnitude * std::sqrt(static_cast<double>(o_.block)) > 0x1p127;
            compare(VKATTN_Y, {id.b, id.g, id.r, d}, rotated_.y[d], roundings * (unit * magnitude + smallestNormal) * 1.01, overflow);
        }
    }

    void checkMerge(const RowOfX &id) {
        merge_.take(o_, operands_, id);
        // exp is as exact as Vulkan asks: 3 + 2 |x| units in the last place, and its argument is rounded.
        const auto errorOfWeight = [&](uint32_t t) { return unit * (6 + 5 * std::min(merge_.below[t], 200.0)); };
        double errorOfSum = (o_.parts + 8) * unit;
        for (uint32_t t = 0; t < o_.parts; ++t)
            if (merge_.takesPart[t]) errorOfSum += merge_.share[t] * errorOfWeight(t);
        for (uint32_t d = 0; d < o_.inner; ++d) {
            const OracleMerge::Element expected = merge_.element(o_, operands_, id, d);
            double bound = (2 * errorOfSum + o_.parts * unit) * expected.magnitude + 4 * smallestNormal;
            bool eitherWay = false;
            for (uint32_t t = 0; t < o_.parts; ++t) {
                if (!merge_.takesPart[t]) continue;
                const double x = elementOf(o_, operands_, VKATTN_X, uint64_t{t} * o_.batch + id.b, id.g, id.r, d);
                // A share below the normal numbers may count as 0, and 0 times infinity is NaN.
                const bool flushed = merge_.share[t] < 4 * smallestNormal;
                eitherWay = eitherWay || (flushed && std::isinf(x));
                if (std::isfinite(x))
                    bound += merge_.share[t] * errorOfWeight(t) * std::abs(x) + (flushed ? 4 * smallestNormal * std::abs(x) : 0);
            }
            const double got = elementOf(o_, operands_, VKATTN_Y, id.b, id.g, id.r, d);
            if (eitherWay && !std::isfinite(expected.y) && !std::isfinite(got)) continue;
            compare(VKATTN_Y, {id.b, id.g, id.r, d}, expected.y, bound, std::isfinite(expected.y) && expected.magnitude > 0x1.fffffp127);
        }
        // The logarithm of a sum near 1 is exact to 2^-21 on Vulkan, and others to 3 units in the last place.
        const double logarithm = std::log(static_cast<double>(o_.parts));
        if (o_.uses(VKATTN_LSE)) compare(VKATTN_LSE, {id.b, id.g, id.r, 0}, merge_.lse, 0x1p-21 + 6 * unit * logarithm + errorOfSum, false);
    }

    void checkDrop(const RowOfX &id) {
        for (uint32_t d = 0; d < o_.inner; ++d) {
            const OracleDrop expected(o_, operands_, id, d);
            const double kept = std::abs(expected.kept);
            // Factor and product are rounded where the factor is not 1, and the sum; denormals may be flushed.
            const double rounding = (o_.dropoutThreshold ? 3 * kept : 0) + (o_.uses(VKATTN_RESIDUAL) ? std::abs(expected.y) : 0);
            compare(VKATTN_Y, {id.b, id.g, id.r, d}, expected.y, unit * rounding + 4 * smallestNormal,
                    std::isfinite(kept) && kept > 0x1p127);
        }
    }

    void checkWord(uint32_t n) { compareWord({0, 0, 0, n}, static_cast<double>(advancedWord(o_, operands_, n))); }
    void checkBits(const RowOfX &id) {
        for (uint32_t word = 0; word < o_.inner; ++word) compareWord({id.b, id.g, id.r, word}, keptWord(o_, id, word));
    }
    // Words are integers: nothing is rounded, and every difference is wrong.
    void compareWord(const uint32_t (&index)[4], double expected) {
        const double got = operands_.word(VKATTN_Y, o_.tensor(VKATTN_Y).index(index[0], index[1], index[2], index[3]));
        const double error = std::abs(got - expected);
        tally.noteError(error);
        tally.note(VKATTN_Y, index, {got, expected, error, 0, error == 0});
    }

    // Compares an element whose value before it is stored may be off by `bound`.
    void compare(vkattn_role role, const uint32_t (&index)[4], double expected, double bound, bool overflow) {
        note(role, index, expected, bound + halfUlp(expected, o_.tensor(role).dtype), overflow);
    }
    // Compares an element that is the conversion of `expected`.
    void compareStored(vkattn_role role, const uint32_t (&index)[4], double expected, double bound) {
        note(role, index, asStored(expected, o_.tensor(role).dtype), bound, false);
    }
    void note(vkattn_role role, const uint32_t (&index)[4], double expected, double bound, bool overflow) {
        const double got = elementOf(o_, operands_, role, index[0], index[1], index[2], index[3]);
        double error = std::abs(got - expected);
        bool right = error <= bound;
        if (overflow || std::isnan(expected) || std::isinf(expected)) {
            right = overflow || (std::isnan(expected) ? std::isnan(got) : got == expected);
            error = right ? 0 : infinite;
        } else if (!std::isfinite(got)) {
            right = roundsToInfinity(got, expected, bound, o_.tensor(role).dtype);
            error = right ? 0 : infinite;
        }
        tally.noteError(error);
        tally.note(role, index, {got, expected, error, bound, right});
    }

    const Operation &o_;
    const Operands &operands_;
    OracleProducts products_;
    OracleNorm norm_;
    OracleNormGradient gradient_;
    OracleToken token_;
    OracleHadamard rotated_;
    OracleMerge merge_;
    std::set<std::pair<uint64_t, uint64_t>> places_, contested_; // of appended tokens
};

void verify(const Operation &o, const Operands &operands, const vkattn_verify_options &options, vkattn_verify_report &report) {
    const uint64_t total = rowsOfX(o);
    // Random words of each column, of which keep has 32 in an element.
    const double perElement = o.kind == VKATTN_KEEP ? 2000 : o.kind == VKATTN_DROP && o.dropoutThreshold ? 60 : 1;
    const ChosenRows rows(total, o.flops() + perElement * static_cast<double>(total) * o.inner, options, [&](std::set<uint64_t> &chosen) {
        for (const uint32_t b : {0u, o.batch - 1})
            for (const uint32_t g : {0u, o.groups - 1}) addEdges(chosen, (uint64_t{b} * o.groups + g) * o.rows, o.rows);
    });
    report = {};
    report.rowsTotal = total;
    report.rowsChecked = rows.count();
    report.worstRole = o.kind == VKATTN_NORM_GRADIENT ? VKATTN_D_X : VKATTN_Y;
    report.passed = 1;
    if (rows.count() == 0) return;

    constexpr uint64_t rowsPerUnit = OracleProducts::rows;
    const uint64_t units = (rows.count() + rowsPerUnit - 1) / rowsPerUnit;
    Tally sum;
    checkUnits(
        options, units, [&] { return std::make_shared<RowChecker>(o, operands); },
        [&](RowChecker &checker, uint64_t n) {
            RowOfX ids[rowsPerUnit];
            uint32_t count = 0;
            for (uint64_t row = n * rowsPerUnit; row < std::min(rows.count(), (n + 1) * rowsPerUnit); ++row)
                ids[count++] = rowOfX(o, rows[row]);
            checker.check(ids, count);
        },
        [&](const RowChecker &checker) { sum.merge(checker.tally); });
    if (o.sumsOverRows()) {
        RowChecker checker(o, operands);
        checker.checkColumns();
        sum.merge(checker.tally);
    }
    sum.writeTo(report);
}

} // namespace

extern "C" vkattn_result vkattnCpuVerifyOperation(const vkattn_operation *operation, const vkattn_operand_memory *memory, uint32_t count,
                                                  const vkattn_verify_options *options, vkattn_verify_report *report,
                                                  vkattn_diagnostic *why) {
    if (!operation) return fail(why, VKATTN_ERROR_INVALID_ARGUMENT, "operation is NULL");
    if (operation->kind == VKATTN_ATTENTION) return vkattnCpuVerify(operation->of.attention, memory, count, options, report, why);
    if (operation->kind == VKATTN_ATTENTION_GRADIENT)
        return verifyGradient(operation->of.attentionGradient, memory, count, options, report, why);
    if (operation->kind == VKATTN_ATTENTION_STATISTICS)
        return verifyStatistics(operation->of.attentionStatistics, memory, count, options, report, why);
    if (operation->kind == VKATTN_VISIBLE_BLOCKS)
        return verifyVisibleBlocks(operation->of.visibleBlocks, memory, count, options, report, why);
    if (operation->kind == VKATTN_LINEAR_ATTENTION) return verifyLinear(operation->of.linearAttention, memory, count, options, report, why);
    if (operation->kind == VKATTN_LINEAR_ATTENTION_GRADIENT)
        return verifyLinearGradient(operation->of.linearGradient, memory, count, options, report, why);
    return verifyBound(makeOperation, operation, memory, count, options, report, why, "the oracle's rows", verify);
}
