// Position encodings that are tables for a host: computed once, in double precision.
#include "util/diagnostic.hpp"
#include "vkattn/operations.h"

#include <algorithm>
#include <bit>
#include <cmath>

using namespace vkattn;

namespace {

constexpr uint32_t maxPositions = 1u << 30, maxRotated = 1u << 16, maxDims = 1u << 20;

vkattn_result checkBase(double base, vkattn_diagnostic *why) {
    if (std::isfinite(base) && base > 0) return VKATTN_OK;
    return fail(why, invalid, "base is %g, expected a finite number above 0; 10000 is usual", base);
}

} // namespace

extern "C" {

vkattn_result vkattnRotaryTable(uint32_t positions, uint32_t n, double base, float *cos, float *sin, vkattn_diagnostic *why) {
    if (!cos || !sin) return fail(why, invalid, "%s is NULL", cos ? "sin" : "cos");
    if (n == 0 || n % 2 || n > maxRotated) return fail(why, invalid, "n is %u, expected an even number from 2 to %u", n, maxRotated);
    if (positions > maxPositions) return fail(why, invalid, "positions is %u, expected at most %u", positions, maxPositions);
    if (const auto r = checkBase(base, why)) return r;
    const uint32_t half = n / 2;
    for (uint32_t i = 0; i < half; ++i) {
        const double frequency = std::pow(base, -2.0 * i / n);
        for (uint32_t p = 0; p < positions; ++p) {
            const uint64_t at = uint64_t{p} * half + i;
            cos[at] = static_cast<float>(std::cos(p * frequency));
            sin[at] = static_cast<float>(std::sin(p * frequency));
        }
    }
    return VKATTN_OK;
}

vkattn_result vkattnSinusoids(uint32_t start, uint32_t count, uint32_t dims, double base, float *out, vkattn_diagnostic *why) {
    if (!out) return fail(why, invalid, "out is NULL");
    if (dims == 0 || dims > maxDims) return fail(why, invalid, "dims is %u, expected 1 to %u", dims, maxDims);
    if (const auto r = checkBase(base, why)) return r;
    for (uint32_t d = 0; d < dims; ++d) {
        const double frequency = std::pow(base, -2.0 * (d / 2) / dims);
        for (uint32_t n = 0; n < count; ++n) {
            const double angle = (static_cast<double>(start) + n) * frequency;
            out[uint64_t{n} * dims + d] = static_cast<float>(d % 2 ? std::cos(angle) : std::sin(angle));
        }
    }
    return VKATTN_OK;
}

vkattn_result vkattnAlibiSlopes(uint32_t heads, float *out, vkattn_diagnostic *why) {
    if (!out) return fail(why, invalid, "out is NULL");
    if (heads == 0) return fail(why, invalid, "heads is 0, expected at least 1");
    const uint32_t power = std::bit_floor(heads);
    for (uint32_t h = 0; h < heads; ++h) {
        const double exponent = h < power ? -8.0 * (h + 1.0) / power : -8.0 * (2.0 * (h - power) + 1.0) / (2.0 * power);
        out[h] = static_cast<float>(std::exp2(exponent));
    }
    return VKATTN_OK;
}

uint32_t vkattnT5Bucket(int32_t relative, uint32_t bidirectional, uint32_t buckets, uint32_t maxDistance) {
    if (buckets < 4 || buckets % 4 || maxDistance <= buckets / 2) return 0;
    const int64_t distance = -static_cast<int64_t>(relative); // keys before the query count upwards
    const uint32_t side = bidirectional ? buckets / 2 : buckets, exact = side / 2;
    const uint32_t first = bidirectional && distance < 0 ? side : 0;
    const auto n = static_cast<uint64_t>(bidirectional ? std::abs(distance) : std::max<int64_t>(distance, 0));
    if (n < exact) return first + static_cast<uint32_t>(n);
    // Powers of two come out exact: T5's own formula in fp32 has the same boundaries.
    const double share = std::log2(static_cast<double>(n) / exact) / std::log2(static_cast<double>(maxDistance) / exact);
    return first + std::min(exact + static_cast<uint32_t>(share * (side - exact)), side - 1);
}

} // extern "C"
