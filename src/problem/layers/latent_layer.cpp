// vkattnPlanLatentLayer: multi-head latent attention as operations, absorbed or naive.
#include "vkattn/latent_layer.h"

#include "problem/layers/layer_steps.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace vkattn {
namespace {

// The same rows for every head: a stride of 0.
Place forHeads(const Place &rows, uint32_t heads) {
    Place place = rows;
    place.layout.extent[1] = heads;
    place.layout.strideElems[1] = 0;
    return place;
}

class LatentPlanner {
  public:
    LatentPlanner(const vkattn_latent_layer &layer, vkattn_layer_plan &plan, vkattn_diagnostic *why)
        : l_(layer), steps_(plan, layer.stored, layer.options, why), why_(why) {}

    [[nodiscard]] vkattn_result plan() {
        if (const auto r = check()) return r;
        // Both products of X first: the second waits for nothing.
        const Place x = {l_.x, VKATTN_X}, down = steps_.between(batch_, 1, tokens_, latent_ + l_.rope);
        Place queries = x;
        if (!absent(l_.wdq)) {
            queries = steps_.between(batch_, 1, tokens_, l_.wdq.extent[2]);
            if (const auto r = product("dq", x, {l_.wdq, VKATTN_WDQ}, queries)) return r;
        }
        if (const auto r = product("dkv", x, {l_.wdkv, VKATTN_WDKV}, down)) return r;
        if (!absent(l_.wdq))
            if (const auto r = norm("q norm", queries, {l_.gammaQ, VKATTN_GAMMA_Q}, queries)) return r;
        const Place latents = columns(down, 0, latent_);
        if (const auto r = norm("kv norm", latents, {l_.gamma, VKATTN_GAMMA}, latents)) return r;
        Place keys = down;
        if (const auto r = keep(down, keys)) return r;
        const Place q = steps_.between(batch_, l_.heads, tokens_, l_.nope + l_.rope);
        if (const auto r = product("uq", queries, {l_.wuq, VKATTN_WQ}, rowsOf(q))) return r;
        const Place values = steps_.between(batch_, l_.heads, tokens_, l_.value);
        if (const auto r = absorbed_ ? attendAbsorbed(q, keys, values) : attendNaive(q, keys, values)) return r;
        if (const auto r = steps_.addProjection("out", rowsOf(values), {l_.wo, VKATTN_WO}, {},
                                                l_.flags & VKATTN_LAYER_RESIDUAL ? x : Place{}, {l_.y, VKATTN_Y}))
            return r;
        steps_.finish();
        return VKATTN_OK;
    }

  private:
    [[nodiscard]] vkattn_result check() {
        if (const auto r = checkFlagsAndHeads(l_.flags, VKATTN_LAYER_RESIDUAL, l_.heads, why_)) return r;
        if (l_.nope == 0 || l_.rope == 0 || l_.value == 0 || l_.rope % 2)
            return fail(why_, invalid, "layer.nope is %u, rope %u and value %u, expected at least 1 each, and an even rope", l_.nope,
                        l_.rope, l_.value);
        if (l_.form != VKATTN_LATENT_AUTO && l_.form != VKATTN_LATENT_ABSORBED && l_.form != VKATTN_LATENT_NAIVE)
            return fail(why_, invalid, "layer.form is %d, which is no vkattn_latent_form", static_cast<int>(l_.form));
        if (const auto r = checkStored(l_.stored, why_)) return r;
        constexpr uint32_t arrays = VKATTN_PRESENT(VKATTN_POSITIONS) | VKATTN_PRESENT(VKATTN_STARTS);
        if (l_.presentRoles & ~arrays)
            return fail(why_, invalid,
                        "layer.presentRoles is 0x%x, expected those of VKATTN_POSITIONS and VKATTN_STARTS; arrays of the "
                        "attention are in its options",
                        l_.presentRoles);
        if (!absent(l_.gammaQ) && absent(l_.wdq)) return fail(why_, invalid, "layer has gammaQ and no wdq: X itself is not normed");
        if (const auto r = checkRows("x", l_.x, why_)) return r;
        batch_ = l_.x.extent[0], tokens_ = l_.x.extent[2];
        const struct {
            const char *name;
            const vkattn_layout &layout;
        } matrices[] = {{"wdq", l_.wdq}, {"wuq", l_.wuq}, {"wdkv", l_.wdkv}, {"wukv", l_.wukv}, {"wo", l_.wo}};
        for (const auto &[name, layout] : matrices)
            if (const auto r = checkMatrix(name, layout, why_)) return r;
        if (l_.wdkv.extent[2] <= l_.rope)
            return fail(why_, invalid, "layer.wdkv has %u rows, expected latent + rope: more than %u", l_.wdkv.extent[2], l_.rope);
        latent_ = l_.wdkv.extent[2] - l_.rope;
        if (const auto r = expectDim("wuq", "rows, expected heads * (nope + rope)", l_.wuq.extent[2], l_.nope, l_.rope)) return r;
        if (const auto r = expectDim("wukv", "rows, expected heads * (nope + value)", l_.wukv.extent[2], l_.nope, l_.value)) return r;
        if (const auto r = expectDim("wo", "columns, expected heads * value", l_.wo.extent[3], l_.value, 0)) return r;
        // k_n and v are views of single rows and columns of W_UKV.
        if (l_.wukv.strideElems[2] == 0 || l_.wukv.strideElems[3] == 0)
            return fail(why_, invalid, "layer.wukv has a stride of 0, expected a matrix of its own rows and columns");
        if (const auto r = checkReach("wukv", l_.wukv, why_)) return r;
        if (const auto r = checkReach("cache", l_.cache, why_)) return r;
        return checkKeys();
    }
    [[nodiscard]] vkattn_result expectDim(const char *name, const char *what, uint32_t got, uint32_t first, uint32_t second) {
        const uint64_t expected = uint64_t{l_.heads} * (uint64_t{first} + second);
        if (got == expected) return VKATTN_OK;
        return fail(why_, invalid, "layer.%s has %u %s = %llu", name, got, what, static_cast<unsigned long long>(expected));
    }

    [[nodiscard]] vkattn_result checkKeys() {
        const vkattn_layout &cache = l_.cache;
        if (!absent(cache) && (cache.extent[0] != batch_ || cache.extent[1] != 1 || cache.extent[3] != latent_ + l_.rope))
            return fail(why_, invalid, "layer.cache is [%u, %u, %u, %u], expected [%u, 1, cache tokens, latent + rope = %u]",
                        cache.extent[0], cache.extent[1], cache.extent[2], cache.extent[3], batch_, latent_ + l_.rope);
        keyTokens_ = absent(cache) ? tokens_ : cache.extent[2];
        const double n = tokens_, m = keyTokens_, latent = latent_, nope = l_.nope, rope = l_.rope, value = l_.value;
        const double absorbed = n * m * (2 * latent + rope) + n * latent * (nope + value),
                     naive = n * m * (nope + rope + value) + m * latent * (nope + value);
        absorbed_ = l_.form == VKATTN_LATENT_AUTO ? absorbed <= naive : l_.form == VKATTN_LATENT_ABSORBED;
        const double rows = absorbed_ ? n : std::max(n, m),
                     widest = (absorbed_ ? 2 * latent + rope : nope + rope + value) * static_cast<double>(l_.heads) + latent;
        return checkBetween(batch_, rows, widest + l_.wdq.extent[2], why_);
    }

    // [batch, heads, tokens, dim], whose tokens lie together, as [batch, 1, tokens, heads * dim].
    [[nodiscard]] static Place rowsOf(const Place &heads) {
        Place place = heads;
        place.layout.extent[3] *= place.layout.extent[1];
        place.layout.extent[1] = 1;
        return place;
    }
    // Rows [first, first + count) of each head of W_UKV.
    [[nodiscard]] Place up(uint32_t first, uint32_t count) const {
        Place place = {l_.wukv, VKATTN_WUKV};
        place.layout.extent[1] = l_.heads;
        place.layout.extent[2] = count;
        place.layout.strideElems[1] = int64_t{l_.nope + l_.value} * l_.wukv.strideElems[2];
        place.layout.offsetElems += static_cast<uint64_t>(int64_t{first} * l_.wukv.strideElems[2]);
        return place;
    }
    [[nodiscard]] static Place transposed(const Place &matrix) {
        Place place = matrix;
        std::swap(place.layout.extent[2], place.layout.extent[3]);
        std::swap(place.layout.strideElems[2], place.layout.strideElems[3]);
        return place;
    }

    [[nodiscard]] vkattn_result product(const char *name, const Place &x, const Place &w, const Place &y) {
        return steps_.addProjection(name, x, w, {}, {}, y);
    }
    [[nodiscard]] vkattn_result norm(const char *name, const Place &x, const Place &gamma, const Place &y) {
        vkattn_norm norm{};
        norm.kind = VKATTN_RMS_NORM;
        norm.epsilon = l_.epsilon;
        return steps_.addNorm(name, norm, x, {}, gamma, {}, y);
    }
    [[nodiscard]] vkattn_result rotate(const char *name, uint32_t flags, const Place &x, const Place &y) {
        vkattn_rotary rotary{};
        rotary.flags = flags;
        rotary.pairs = l_.pairs;
        rotary.start = l_.start;
        rotary.presentRoles = l_.presentRoles;
        return steps_.addRotary(name, rotary, x, {l_.cos, VKATTN_COS}, {l_.sin, VKATTN_SIN}, y);
    }

    // Rotates k_r, and appends both to the cache where there is one: `keys` is then the cache.
    [[nodiscard]] vkattn_result keep(const Place &down, Place &keys) {
        const Place turned = columns(down, latent_, l_.rope);
        if (absent(l_.cache)) return rotate("k rotary", 0, turned, turned);
        keys = {l_.cache, VKATTN_CACHE};
        vkattn_append append{};
        append.start = l_.start;
        append.presentRoles = l_.presentRoles & VKATTN_PRESENT(VKATTN_STARTS);
        if (const auto r = steps_.addAppend("append", append, columns(down, 0, latent_), columns(keys, 0, latent_))) return r;
        return rotate("k rotary", VKATTN_ROTARY_APPEND, turned, columns(keys, latent_, l_.rope));
    }

    [[nodiscard]] float scale() const { return 1 / std::sqrt(static_cast<float>(l_.nope + l_.rope)); }

    [[nodiscard]] vkattn_result attendAbsorbed(const Place &q, const Place &keys, const Place &values) {
        const Place wide = steps_.between(batch_, l_.heads, tokens_, latent_ + l_.rope),
                    sums = steps_.between(batch_, l_.heads, tokens_, latent_);
        if (const auto r = product("absorb", columns(q, 0, l_.nope), transposed(up(0, l_.nope)), columns(wide, 0, latent_))) return r;
        if (const auto r = rotate("q rotary", 0, columns(q, l_.nope, l_.rope), columns(wide, latent_, l_.rope))) return r;
        if (const auto r = steps_.addAttention(scale(), wide, keys, {}, sums)) return r;
        return product("v", sums, up(l_.nope, l_.value), values);
    }

    [[nodiscard]] vkattn_result attendNaive(const Place &q, const Place &keys, const Place &values) {
        const Place k = steps_.between(batch_, l_.heads, keyTokens_, l_.nope + l_.rope),
                    v = steps_.between(batch_, l_.heads, keyTokens_, l_.value), turned = columns(q, l_.nope, l_.rope),
                    latents = forHeads(columns(keys, 0, latent_), l_.heads);
        if (const auto r = product("uk", latents, up(0, l_.nope), columns(k, 0, l_.nope))) return r;
        if (const auto r = product("uv", latents, up(l_.nope, l_.value), v)) return r;
        if (const auto r =
                steps_.addAppend("spread", {}, forHeads(columns(keys, latent_, l_.rope), l_.heads), columns(k, l_.nope, l_.rope)))
            return r;
        if (const auto r = rotate("q rotary", 0, turned, turned)) return r;
        return steps_.addAttention(scale(), q, k, v, values);
    }

    const vkattn_latent_layer &l_;
    LayerSteps steps_;
    vkattn_diagnostic *why_;
    bool absorbed_ = false;
    uint32_t batch_ = 0, tokens_ = 0, keyTokens_ = 0, latent_ = 0;
};

} // namespace
} // namespace vkattn

extern "C" vkattn_result vkattnPlanLatentLayer(const vkattn_latent_layer *layer, vkattn_layer_plan *plan, vkattn_diagnostic *why) {
    return vkattn::planInPlace<vkattn::LatentPlanner>(layer, "vkattn_latent_layer", plan, why);
}
