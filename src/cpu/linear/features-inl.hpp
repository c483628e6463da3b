// Keys and queries as the scan takes them: as they are, or as a feature map makes them, for one Highway target.
#if defined(VKATTN_CPU_LINEAR_FEATURES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef VKATTN_CPU_LINEAR_FEATURES_INL_HPP
#undef VKATTN_CPU_LINEAR_FEATURES_INL_HPP
#else
#define VKATTN_CPU_LINEAR_FEATURES_INL_HPP
#endif

#include "cpu/linear/work.hpp"

#include <cmath>

#include "cpu/linear/products-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace vkattn {
namespace HWY_NAMESPACE {

// A running maximum takes no notice of a NaN: the sums beside it are NaN then.
HWY_INLINE Vector largerOf(Vector maximum, Vector x) {
    return hn::IfThenElse(hn::Gt(x, maximum), x, maximum);
}
// Makes the exponents of a query relative to the largest term of its row.
inline void subtractMost(float *query, const float *maxima, size_t width) {
    const Floats f;
    auto most = hn::Set(f, minusInfinity);
    forWidth(width, [&](size_t r) HWY_ATTR { most = hn::Max(most, hn::Add(hn::Load(f, query + r), hn::Load(f, maxima + r))); });
    const float largest = hn::GetLane(hn::MaxOfLanes(f, most));
    const auto subtracted = hn::Set(f, largest == minusInfinity ? 0 : largest);
    forWidth(width, [&](size_t r) HWY_ATTR { hn::Store(hn::Sub(hn::Load(f, query + r), subtracted), f, query + r); });
}
// Exponents of queries as factors of a state that has `maxima`; a feature without keys gives nothing.
inline void featuresOfQuery(const float *query, const float *maxima, size_t width, float *to) {
    const Floats f;
    forWidth(width, [&](size_t r) HWY_ATTR {
        const auto maximum = hn::Load(f, maxima + r), exponent = hn::Add(hn::Load(f, query + r), maximum);
        const auto power = exp2Of(hn::Mul(exponent, hn::Set(f, log2e)));
        hn::Store(hn::IfThenZeroElse(isMinusInfinity(maximum), power), f, to + r);
    });
}

class FeatureMap {
  public:
    FeatureMap(const LinearAttention &a, const Operands &operands, const FeatureScratch &place, uint32_t b, uint32_t stateHead,
               float *scratch)
        : a_(a), operands_(operands), place_(place), b_(b), stateHead_(stateHead), raw_(scratch + place.raw), omega_(scratch + place.omega),
          dims_(wholeLines(a.keyDim)) {}

    // Copies omega, with features side by side.
    void takeOmega() const {
        const Tensor &t = a_.tensor(VKATTN_OMEGA);
        if (!t.present()) return;
        const uint32_t head = a_.keyHead(VKATTN_OMEGA, stateHead_), m = t.extent[2];
        for (uint32_t d = 0; d < a_.keyDim; ++d) {
            float *const row = omega_ + d * place_.omegaWidth;
            for (uint32_t r = 0; r < m; ++r) row[r] = loadElement(operands_.data[VKATTN_OMEGA], VKATTN_F32, t.index(0, head, r, d));
            std::fill(row + m, row + place_.omegaWidth, 0.0f);
        }
    }
    // Both write `count` rows; FAVOR: of exponents, those of queries without |q'|^2 / 2. The ends of rows, past the
    // features, are such that they add nothing. Rows of `slopes`, where they are asked for, become the derivatives of
    // ELU1 and RELU.
    void mapKeys(uint32_t head, uint32_t first, uint32_t count, float *to, float *slopes = nullptr) const {
        map(VKATTN_K, head, first, count, to, slopes);
    }
    void mapQueries(uint32_t head, uint32_t first, uint32_t count, float *to, float *slopes = nullptr) const {
        map(VKATTN_Q, head, first, count, to, slopes);
    }
    // x' of a token that FAVOR has mapped, and a row of omega: a dim of all features.
    [[nodiscard]] const float *scaled(uint32_t token) const { return raw_ + token * dims_; }
    [[nodiscard]] const float *omegaOf(uint32_t dim) const { return omega_ + dim * place_.omegaWidth; }
    [[nodiscard]] float rootOfScale(bool ofKey) const {
        const float root = std::sqrt(std::fabs(a_.scale));
        return !ofKey && a_.scale < 0 ? -root : root;
    }

  private:
    void map(vkattn_role role, uint32_t head, uint32_t first, uint32_t count, float *to, float *slopes) const {
        const StoredRows rows = storedRows(a_.tensor(role), operands_.data[role], b_, head, first);
        const bool random = a_.randomFeatures() != 0;
        copyRows(rows, count, random ? raw_ : to, random ? dims_ : place_.width);
        if (!a_.hasFeatures()) return;
        for (uint32_t t = 0; t < count; ++t) {
            float *const row = to + t * place_.width, *const x = raw_ + t * dims_,
                         *const slope = slopes ? slopes + t * place_.width : nullptr;
            if (a_.hasMaximum())
                exponents(x, role == VKATTN_K, row);
            else if (a_.features == VKATTN_FEATURES_ELU1)
                elu(row, slope);
            else
                relu(random ? x : nullptr, row, slope);
            std::fill(row + a_.stateRows, row + place_.width, a_.hasMaximum() ? minusInfinity : 0.0f);
        }
    }
    void elu(float *row, float *slopes) const {
        const Floats f;
        forWidth(place_.width, [&](size_t r) HWY_ATTR {
            const auto x = hn::Load(f, row + r);
            const auto power = exp2Of(hn::Mul(hn::IfThenElseZero(hn::Lt(x, hn::Zero(f)), x), hn::Set(f, log2e)));
            // A NaN is not above 0, and x + power keeps it.
            const auto positive = hn::Gt(x, hn::Zero(f));
            const auto below = hn::IfThenElse(hn::IsNaN(x), x, power), one = hn::Set(f, 1.0f);
            hn::Store(hn::IfThenElse(positive, hn::Add(x, one), below), f, row + r);
            if (slopes) hn::Store(hn::IfThenElse(positive, one, below), f, slopes + r);
        });
    }
    void relu(const float *x, float *row, float *slopes) const {
        const Floats f;
        if (x) multiply(x, row);
        const auto factor = hn::Set(f, x ? 1 / std::sqrt(static_cast<float>(a_.randomFeatures())) : 1.0f), epsilon = hn::Set(f, a_.epsilon);
        forWidth(place_.width, [&](size_t r) HWY_ATTR {
            const auto product = hn::Mul(factor, hn::Load(f, row + r));
            const auto negative = hn::Lt(product, hn::Zero(f)); // not Max: a NaN stays
            hn::Store(hn::Add(hn::IfThenZeroElse(negative, product), epsilon), f, row + r);
            if (slopes) hn::Store(hn::IfThenElseZero(hn::Gt(product, hn::Zero(f)), hn::Set(f, 1.0f)), f, slopes + r);
        });
    }
    void exponents(float *x, bool ofKey, float *row) const {
        const Floats f;
        const auto factor = hn::Set(f, rootOfScale(ofKey));
        forWidth(dims_, [&](size_t d) HWY_ATTR { hn::Store(hn::Mul(factor, hn::Load(f, x + d)), f, x + d); });
        const float half = ofKey ? 0.5f * dotOf(x, x, dims_) : 0.0f;
        multiply(x, row);
        const uint32_t m = a_.randomFeatures();
        if (a_.features == VKATTN_FEATURES_FAVOR2)
            for (uint32_t r = 0; r < m; ++r) row[m + r] = -row[r] - half;
        for (uint32_t r = 0; r < m; ++r) row[r] -= half;
    }
    // Omega x.
    void multiply(const float *x, float *row) const {
        std::fill(row, row + place_.omegaWidth, 0.0f);
        addProduct({x, 0, 1}, a_.keyDim, omega_, place_.omegaWidth, 1, place_.omegaWidth, row, 0);
    }

    const LinearAttention &a_;
    const Operands &operands_;
    const FeatureScratch &place_;
    const uint32_t b_, stateHead_;
    float *const raw_, *const omega_;
    const size_t dims_;
};

} // namespace HWY_NAMESPACE
} // namespace vkattn
HWY_AFTER_NAMESPACE();
#endif
