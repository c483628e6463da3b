// The gradients of a norm, for one Highway target: rows for dX, then columns for dGamma and dBeta.
#if defined(VKATTN_CPU_OPERATIONS_NORM_GRADIENT_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef VKATTN_CPU_OPERATIONS_NORM_GRADIENT_INL_HPP
#undef VKATTN_CPU_OPERATIONS_NORM_GRADIENT_INL_HPP
#else
#define VKATTN_CPU_OPERATIONS_NORM_GRADIENT_INL_HPP
#endif

#include "cpu/operations/work.hpp"

#include "cpu/operations/rows-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace vkattn {
namespace HWY_NAMESPACE {

inline void differentiateRows(const OperationCall &call, uint64_t unit, float *scratch) {
    const Floats f;
    const Operation &o = call.o;
    const size_t room = wholeLines(o.inner);
    float *const z = scratch, *const g = scratch + room, *const gamma = scratch + 2 * room, *const product = scratch + 3 * room;
    const Tensor &x = o.tensor(VKATTN_X), &dY = o.tensor(VKATTN_D_Y), &dX = o.tensor(VKATTN_D_X);
    const bool scales = o.tensor(VKATTN_GAMMA).present(), layerNorm = o.norm == VKATTN_LAYER_NORM;
    const auto dims = static_cast<double>(o.inner);
    std::fill(scratch, scratch + 4 * room, 0.0f); // past the ends of rows too
    if (scales) copyRows(storedRows(o.tensor(VKATTN_GAMMA), call.read(VKATTN_GAMMA), 0, 0, 0), 1, gamma, 0);
    forRowsOf(call, unit, [&](uint32_t b, uint32_t group, uint32_t r) HWY_ATTR {
        copyRows(storedRows(x, call.read(VKATTN_X), b, group, r), 1, z, 0);
        const RowScale scale = scaleOf(o, z);
        if (o.sumsOverRows()) {
            float *const facts = call.rowFacts + 3 * ((uint64_t{b} * o.groups + group) * o.rows + r);
            facts[0] = scale.mean, facts[1] = scale.rest, facts[2] = scale.factor;
        }
        if (!dX.present()) return;
        copyRows(storedRows(dY, call.read(VKATTN_D_Y), b, group, r), 1, g, 0);
        const auto mean = hn::Set(f, scale.mean), rest = hn::Set(f, scale.rest), factor = hn::Set(f, scale.factor);
        forVectors(o.inner, [&](uint32_t d) HWY_ATTR {
            const auto each = hn::Mul(hn::Sub(hn::Sub(hn::Load(f, z + d), mean), rest), factor);
            const auto given = scales ? hn::Mul(hn::Load(f, g + d), hn::Load(f, gamma + d)) : hn::Load(f, g + d);
            hn::Store(each, f, z + d);
            hn::Store(given, f, g + d);
            hn::Store(hn::Mul(given, each), f, product + d);
        });
        const auto same = [](Vector each) HWY_ATTR { return each; };
        const auto meanOfG = hn::Set(f, layerNorm ? static_cast<float>(sumOver(g, o.inner, same) / dims) : 0.0f);
        const auto meanOfProducts = hn::Set(f, static_cast<float>(sumOver(product, o.inner, same) / dims));
        forVectors(o.inner, [&](uint32_t d) HWY_ATTR {
            const auto centered = hn::Sub(hn::Load(f, g + d), meanOfG);
            hn::Store(hn::Mul(hn::NegMulAdd(hn::Load(f, z + d), meanOfProducts, centered), factor), f, g + d);
        });
        if (o.tensor(VKATTN_RESIDUAL).present()) {
            copyRows(storedRows(o.tensor(VKATTN_RESIDUAL), call.read(VKATTN_RESIDUAL), b, group, r), 1, product, 0);
            forVectors(o.inner, [&](uint32_t d) HWY_ATTR { hn::Store(hn::Add(hn::Load(f, g + d), hn::Load(f, product + d)), f, g + d); });
        }
        storeRow(dX, call.write(VKATTN_D_X), dX.index(b, group, r, 0), g, o.inner);
    });
}

// Rows are summed up in fp32 a block at a time, and blocks in double: the error does not grow with the
// rows.
inline void sumGradientColumns(const OperationCall &call, uint64_t unit, float *scratch) {
    constexpr uint32_t blockRows = 64;
    const Operation &o = call.o;
    const Tensor &x = o.tensor(VKATTN_X), &dY = o.tensor(VKATTN_D_Y);
    const auto first = static_cast<uint32_t>(unit * gradientColumns);
    const uint32_t count = std::min(gradientColumns, o.inner - first);
    double *const dGamma = reinterpret_cast<double *>(scratch), *const dBeta = dGamma + gradientColumns;
    float *const products = reinterpret_cast<float *>(dBeta + gradientColumns), *const sums = products + gradientColumns;
    std::fill_n(dGamma, 2 * gradientColumns, 0.0);
    const uint64_t rows = uint64_t{o.batch} * o.groups * o.rows;
    for (uint64_t block = 0; block < rows; block += blockRows) {
        std::fill_n(products, 2 * gradientColumns, 0.0f);
        for (uint64_t n = block; n < std::min(rows, block + blockRows); ++n) {
            const uint64_t entry = n / o.rows, b = entry / o.groups, group = entry % o.groups, r = n % o.rows;
            const StoredRows ofX = storedRows(x, call.read(VKATTN_X), b, group, r),
                             ofDY = storedRows(dY, call.read(VKATTN_D_Y), b, group, r);
            const float *const facts = call.rowFacts + 3 * n;
            ofX.byType([&](auto *s) HWY_ATTR {
                ofDY.byType([&](auto *given) HWY_ATTR {
                    for (uint32_t d = 0; d < count; ++d) {
                        const float z = (loadFloat(s + (first + d) * ofX.dimStride) - facts[0] - facts[1]) * facts[2];
                        const float each = loadFloat(given + (first + d) * ofDY.dimStride);
                        products[d] += each * z;
                        sums[d] += each;
                    }
                });
            });
        }
        for (uint32_t d = 0; d < count; ++d) {
            dGamma[d] += static_cast<double>(products[d]);
            dBeta[d] += static_cast<double>(sums[d]);
        }
    }
    const auto store = [&](vkattn_role role, const double *totals) {
        const Tensor &t = o.tensor(role);
        if (!t.present()) return;
        for (uint32_t d = 0; d < count; ++d)
            storeElement(call.write(role), t.dtype, t.index(0, 0, 0, first + d), static_cast<float>(totals[d]));
    };
    store(VKATTN_D_GAMMA, dGamma);
    store(VKATTN_D_BETA, dBeta);
}

} // namespace HWY_NAMESPACE
} // namespace vkattn
HWY_AFTER_NAMESPACE();
#endif
