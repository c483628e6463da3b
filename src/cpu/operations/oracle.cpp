// The oracle of operations: the rows of oracle.hpp, one after the other.
#include "cpu/operations/oracle.hpp"

#include "cpu/entry.hpp"
#include "cpu/gradient/gradient.hpp"
#include "cpu/linear/linear.hpp"
#include "cpu/linear_gradient/linear_gradient.hpp"
#include "cpu/statistics/statistics.hpp"
#include "cpu/visible_blocks/visible_blocks.hpp"

#include <cstring>

using namespace vkattn;

namespace {

void project(const Operation &o, const Operands &operands) {
    OracleProducts products;
    for (uint32_t b = 0; b < o.batch; ++b)
        for (uint32_t g = 0; g < o.groups; ++g)
            for (uint32_t first = 0; first < o.rows; first += OracleProducts::rows) {
                RowOfX ids[OracleProducts::rows];
                const uint32_t count = std::min(OracleProducts::rows, o.rows - first);
                for (uint32_t n = 0; n < count; ++n) ids[n] = {b, g, first + n};
                products.take(o, operands, ids, count);
                for (uint32_t column = 0; column < o.out; ++column) {
                    products.multiply(o, operands, b, g, column);
                    for (uint32_t n = 0; n < count; ++n) {
                        double y = products.sum[n];
                        if (o.uses(VKATTN_BIAS)) y += elementOf(o, operands, VKATTN_BIAS, b, g, 0, column);
                        if (o.uses(VKATTN_RESIDUAL)) y += elementOf(o, operands, VKATTN_RESIDUAL, b, g, ids[n].r, column);
                        storeElementOf(o, operands, VKATTN_Y, {b, g, ids[n].r, column}, y);
                    }
                }
            }
}

void normalize(const Operation &o, const Operands &operands) {
    OracleNorm row;
    for (uint64_t n = 0; n < rowsOfX(o); ++n) {
        const RowOfX id = rowOfX(o, n);
        row.compute(o, operands, id);
        for (uint32_t d = 0; d < o.inner; ++d) {
            if (o.uses(VKATTN_SUM)) storeElementOf(o, operands, VKATTN_SUM, {id.b, id.g, id.r, d}, row.s[d]);
            storeElementOf(o, operands, VKATTN_Y, {id.b, id.g, id.r, d}, row.y[d]);
        }
    }
}

void differentiate(const Operation &o, const Operands &operands) {
    OracleNormGradient row;
    std::vector<double> dGamma(o.inner), dBeta(o.inner);
    for (uint64_t n = 0; n < rowsOfX(o); ++n) {
        const RowOfX id = rowOfX(o, n);
        row.compute(o, operands, id);
        for (uint32_t d = 0; d < o.inner; ++d) {
            const double past = o.uses(VKATTN_RESIDUAL) ? elementOf(o, operands, VKATTN_RESIDUAL, id.b, id.g, id.r, d) : 0;
            if (o.uses(VKATTN_D_X)) storeElementOf(o, operands, VKATTN_D_X, {id.b, id.g, id.r, d}, row.dX[d] + past);
            dGamma[d] += row.dY[d] * row.z[d];
            dBeta[d] += row.dY[d];
        }
    }
    for (uint32_t d = 0; d < o.inner; ++d) {
        if (o.uses(VKATTN_D_GAMMA)) storeElementOf(o, operands, VKATTN_D_GAMMA, {0, 0, 0, d}, dGamma[d]);
        if (o.uses(VKATTN_D_BETA)) storeElementOf(o, operands, VKATTN_D_BETA, {0, 0, 0, d}, dBeta[d]);
    }
}

void moveTokens(const Operation &o, const Operands &operands) {
    OracleToken token;
    for (uint64_t n = 0; n < rowsOfX(o); ++n) {
        const RowOfX id = rowOfX(o, n);
        token.compute(o, operands, id);
        if (!token.written) continue;
        const Tensor &y = o.tensor(VKATTN_Y);
        if (hasScales(y.dtype)) { // a row at a time: its elements share scales
            const std::vector<float> row(token.y.begin(), token.y.end());
            storeSmallRow(y.dtype, row.data(), row.size(),
                          operands.data[VKATTN_Y] + bytesBefore(y.dtype, y.index(token.entry, id.g, token.to, 0)));
            continue;
        }
        for (uint32_t d = 0; d < o.inner; ++d) storeElementOf(o, operands, VKATTN_Y, {token.entry, id.g, token.to, d}, token.y[d]);
    }
}

void advance(const Operation &o, const Operands &operands) {
    for (uint64_t n = 0; n < rowsOfX(o); ++n) {
        const auto word = static_cast<uint32_t>(advancedWord(o, operands, n));
        std::memcpy(operands.data[VKATTN_Y] + 4 * o.tensor(VKATTN_Y).index(0, 0, 0, n), &word, 4);
    }
}

void average(const Operation &o, const Operands &operands) {
    for (uint64_t n = 0; n < rowsOfX(o); ++n) {
        const RowOfX id = rowOfX(o, n);
        for (uint32_t d = 0; d < o.inner; ++d)
            storeElementOf(o, operands, VKATTN_Y, {id.b, 0, id.r, d}, OracleMean(o, operands, id, d).mean);
    }
}

void rotate(const Operation &o, const Operands &operands) {
    OracleHadamard row; // all before any: Y may be the memory of X
    for (uint64_t n = 0; n < rowsOfX(o); ++n) {
        const RowOfX id = rowOfX(o, n);
        row.compute(o, operands, id);
        for (uint32_t d = 0; d < o.inner; ++d) storeElementOf(o, operands, VKATTN_Y, {id.b, id.g, id.r, d}, row.y[d]);
    }
}

void merge(const Operation &o, const Operands &operands) {
    OracleMerge row;
    for (uint64_t n = 0; n < rowsOfX(o); ++n) {
        const RowOfX id = rowOfX(o, n);
        row.take(o, operands, id);
        // All before any: the first part may be the output's memory.
        std::vector<double> y(o.inner);
        for (uint32_t d = 0; d < o.inner; ++d) y[d] = row.element(o, operands, id, d).y;
        for (uint32_t d = 0; d < o.inner; ++d) storeElementOf(o, operands, VKATTN_Y, {id.b, id.g, id.r, d}, y[d]);
        if (o.uses(VKATTN_LSE)) storeElementOf(o, operands, VKATTN_LSE, {id.b, id.g, id.r, 0}, row.lse);
    }
}

void keep(const Operation &o, const Operands &operands) {
    for (uint64_t n = 0; n < rowsOfX(o); ++n) {
        const RowOfX id = rowOfX(o, n);
        for (uint32_t word = 0; word < o.inner; ++word) {
            const uint32_t bits = keptWord(o, id, word);
            std::memcpy(operands.data[VKATTN_Y] + 4 * o.tensor(VKATTN_Y).index(id.b, id.g, id.r, word), &bits, 4);
        }
    }
}

void drop(const Operation &o, const Operands &operands) {
    for (uint64_t n = 0; n < rowsOfX(o); ++n) {
        const RowOfX id = rowOfX(o, n);
        for (uint32_t d = 0; d < o.inner; ++d)
            storeElementOf(o, operands, VKATTN_Y, {id.b, id.g, id.r, d}, OracleDrop(o, operands, id, d).y);
    }
}

void compute(const Operation &o, const Operands &operands) {
    switch (o.kind) {
    case VKATTN_PROJECTION:
        return project(o, operands);
    case VKATTN_NORM:
        return normalize(o, operands);
    case VKATTN_NORM_GRADIENT:
        return differentiate(o, operands);
    case VKATTN_ADVANCE:
        return advance(o, operands);
    case VKATTN_MEAN:
        return average(o, operands);
    case VKATTN_HADAMARD:
        rotate(o, operands);
        break;
    case VKATTN_MERGE:
        return merge(o, operands);
    case VKATTN_KEEP:
        return keep(o, operands);
    case VKATTN_DROP:
        return drop(o, operands);
    default:
        return moveTokens(o, operands);
    }
}

} // namespace

extern "C" vkattn_result vkattnCpuOracleOperation(const vkattn_operation *operation, const vkattn_operand_memory *memory, uint32_t count,
                                                  vkattn_diagnostic *why) {
    if (!operation) return fail(why, VKATTN_ERROR_INVALID_ARGUMENT, "operation is NULL");
    if (operation->kind == VKATTN_ATTENTION) return vkattnCpuOracle(operation->of.attention, memory, count, why);
    if (operation->kind == VKATTN_ATTENTION_GRADIENT) return oracleGradient(operation->of.attentionGradient, memory, count, why);
    if (operation->kind == VKATTN_ATTENTION_STATISTICS) return oracleStatistics(operation->of.attentionStatistics, memory, count, why);
    if (operation->kind == VKATTN_VISIBLE_BLOCKS) return oracleVisibleBlocks(operation->of.visibleBlocks, memory, count, why);
    if (operation->kind == VKATTN_LINEAR_ATTENTION) return oracleLinear(operation->of.linearAttention, memory, count, why);
    if (operation->kind == VKATTN_LINEAR_ATTENTION_GRADIENT) return oracleLinearGradient(operation->of.linearGradient, memory, count, why);
    return computeBound(makeOperation, operation, memory, count, why, "a few rows", compute);
}
