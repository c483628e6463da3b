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

class FeatureMap {
  public:
    FeatureMap(const LinearCall &call, const LinearScratch &place, const LinearUnit &unit, float *scratch)
        : call_(call), a_(call.a), place_(place), unit_(unit), raw_(scratch + place.raw), omega_(scratch + place.omega),
          dims_(wholeLines(call.a.keyDim)) {}

    // Copies omega, with features side by side.
    void takeOmega() const {
        const Tensor &t = a_.tensor(VKATTN_OMEGA);
        if (!t.present()) return;
        const uint32_t head = a_.keyHead(VKATTN_OMEGA, unit_.stateHead), m = t.extent[2];
        for (uint32_t d = 0; d < a_.keyDim; ++d) {
            float *const row = omega_ + d * place_.omegaWidth;
            for (uint32_t r = 0; r < m; ++r) row[r] = loadElement(call_.operands.data[VKATTN_OMEGA], VKATTN_F32, t.index(0, head, r, d));
            std::fill(row + m, row + place_.omegaWidth, 0.0f);
        }
    }
    // Both write `count` rows; FAVOR: of exponents, those of queries without |q'|^2 / 2. The ends of rows, past the
    // features, are such that they add nothing.
    void mapKeys(uint32_t head, uint32_t first, uint32_t count, float *to) const { map(VKATTN_K, head, first, count, to); }
    void mapQueries(uint32_t head, uint32_t first, uint32_t count, float *to) const { map(VKATTN_Q, head, first, count, to); }

  private:
    void map(vkattn_role role, uint32_t head, uint32_t first, uint32_t count, float *to) const {
        const StoredRows rows = storedRows(a_.tensor(role), call_.operands.data[role], unit_.b, head, first);
        const bool random = a_.randomFeatures() != 0;
        copyRows(rows, count, random ? raw_ : to, random ? dims_ : place_.width);
        if (!a_.hasFeatures()) return;
        for (uint32_t t = 0; t < count; ++t) {
            float *const row = to + t * place_.width, *const x = raw_ + t * dims_;
            if (a_.hasMaximum())
                exponents(x, role == VKATTN_K, row);
            else if (a_.features == VKATTN_FEATURES_ELU1)
                elu(row);
            else
                relu(random ? x : nullptr, row);
            std::fill(row + a_.stateRows, row + place_.width, a_.hasMaximum() ? minusInfinity : 0.0f);
        }
    }
    void elu(float *row) const {
        const Floats f;
        forWidth(place_.width, [&](size_t r) HWY_ATTR {
            const auto x = hn::Load(f, row + r);
            const auto power = exp2Of(hn::Mul(hn::IfThenElseZero(hn::Lt(x, hn::Zero(f)), x), hn::Set(f, log2e)));
            // A NaN is not above 0, and x + power keeps it.
            const auto positive = hn::Gt(x, hn::Zero(f));
            hn::Store(hn::IfThenElse(positive, hn::Add(x, hn::Set(f, 1.0f)), hn::IfThenElse(hn::IsNaN(x), x, power)), f, row + r);
        });
    }
    void relu(const float *x, float *row) const {
        const Floats f;
        if (x) multiply(x, row);
        const auto factor = hn::Set(f, x ? 1 / std::sqrt(static_cast<float>(a_.randomFeatures())) : 1.0f), epsilon = hn::Set(f, a_.epsilon);
        forWidth(place_.width, [&](size_t r) HWY_ATTR {
            const auto product = hn::Mul(factor, hn::Load(f, row + r));
            const auto negative = hn::Lt(product, hn::Zero(f)); // not Max: a NaN stays
            hn::Store(hn::Add(hn::IfThenZeroElse(negative, product), epsilon), f, row + r);
        });
    }
    void exponents(float *x, bool ofKey, float *row) const {
        const Floats f;
        const float root = std::sqrt(std::fabs(a_.scale));
        const auto factor = hn::Set(f, !ofKey && a_.scale < 0 ? -root : root);
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

    const LinearCall &call_;
    const LinearAttention &a_;
    const LinearScratch &place_;
    const LinearUnit &unit_;
    float *const raw_, *const omega_;
    const size_t dims_;
};

} // namespace HWY_NAMESPACE
} // namespace vkattn
HWY_AFTER_NAMESPACE();
#endif
