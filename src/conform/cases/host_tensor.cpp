#include "conform/cases/host_tensor.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace vkattn::conform {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

uint64_t sizeOf(vkattn_dtype dtype) {
    if (dtype == VKATTN_F32 || dtype == VKATTN_BITS32) return 4;
    return dtype == VKATTN_BOOL8 || isSmallType(dtype) ? 1 : 2;
}

// Test-side half conversions through the compiler's own arithmetic, independent of the library's
// integer code.
float fromHalf(uint16_t bits) {
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const float magnitude = exponent == 31 ? (mantissa ? nan : infinity)
                            : exponent     ? std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25)
                                           : std::ldexp(static_cast<float>(mantissa), -24);
    return bits & 0x8000 ? -magnitude : magnitude;
}
uint16_t toHalf(float value) {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const float magnitude = std::fabs(value);
    if (std::isnan(value)) return 0x7e00;
    if (magnitude == 0) return sign; // frexp gives 0 no exponent
    if (magnitude >= 65520.0f) return static_cast<uint16_t>(sign | 0x7c00);
    int exponent = 0;
    std::frexp(magnitude, &exponent); // magnitude = f * 2^exponent, 0.5 <= f < 1
    const int unit = std::max(exponent - 11, -24);
    const auto steps = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, -unit)));
    return static_cast<uint16_t>(sign | (steps + (static_cast<uint32_t>(unit + 24) << 10)));
}

float fromBrain(uint16_t bits) {
    const uint32_t word = uint32_t{bits} << 16;
    float value;
    std::memcpy(&value, &word, 4);
    return value;
}
uint16_t toBrain(float value) {
    if (std::isnan(value)) return 0x7fc0;
    if (!std::isinf(value)) {
        int exponent = 0;
        std::frexp(value, &exponent);
        const int unit = std::max(exponent - 8, -133);
        // 2^128 is infinity
        value = static_cast<float>(std::ldexp(std::nearbyint(std::ldexp(static_cast<double>(value), -unit)), unit));
    }
    uint32_t word;
    std::memcpy(&word, &value, 4);
    return static_cast<uint16_t>(word >> 16);
}

// Of e exponent bits and m mantissa bits, from the definition.
float fromFloat8(uint8_t code, int exponentBits) {
    const int mantissaBits = 7 - exponentBits, exponent = (code & 0x7f) >> mantissaBits, mantissa = code & ((1 << mantissaBits) - 1);
    const int bias = (1 << (exponentBits - 1)) - 1, most = (1 << exponentBits) - 1;
    float magnitude = std::ldexp(static_cast<float>(mantissa), 1 - bias - mantissaBits);
    if (exponent) magnitude = std::ldexp(static_cast<float>((1 << mantissaBits) + mantissa), exponent - bias - mantissaBits);
    if (exponentBits == 4 && (code & 0x7f) == 0x7f) magnitude = nan;
    if (exponentBits == 5 && exponent == most) magnitude = mantissa ? nan : infinity;
    return code & 0x80 ? -magnitude : magnitude;
}
// The nearest of all codes; of two as near the even one.
uint8_t toFloat8(float value, int exponentBits) {
    const auto sign = static_cast<uint8_t>(std::signbit(value) ? 0x80 : 0);
    const uint8_t largest = exponentBits == 4 ? 0x7e : 0x7b;
    if (std::isnan(value)) return sign | 0x7f;
    if (std::isinf(value)) return sign | (exponentBits == 4 ? 0x7f : 0x7c);
    const double magnitude = std::fabs(value);
    int below = 0, above = largest; // codes of positive numbers ascend
    while (above - below > 1)
        (fromFloat8(static_cast<uint8_t>((below + above) / 2), exponentBits) <= magnitude ? below : above) = (below + above) / 2;
    const double under = magnitude - fromFloat8(static_cast<uint8_t>(below), exponentBits),
                 over = fromFloat8(static_cast<uint8_t>(above), exponentBits) - magnitude;
    const bool up = over < under || (over == under && below % 2);
    return static_cast<uint8_t>(sign | (up ? above : below));
}

constexpr uint32_t ofBlock = 32;
bool hasBlocks(vkattn_dtype dtype) {
    return dtype == VKATTN_Q8_0 || dtype == VKATTN_Q4_0;
}
uint64_t blockBytes(vkattn_dtype dtype) {
    return dtype == VKATTN_Q8_0 ? 34 : 18;
}
float fromBlock(vkattn_dtype dtype, const unsigned char *block, uint32_t n) {
    const float scale = fromHalf(static_cast<uint16_t>(block[0] | block[1] << 8));
    if (dtype == VKATTN_Q8_0) return scale * static_cast<float>(block[2 + n] < 128 ? block[2 + n] : block[2 + n] - 256);
    return scale * static_cast<float>((n < 16 ? block[2 + n] % 16 : block[2 + n - 16] / 16) - 8);
}
void toBlock(vkattn_dtype dtype, const float *from, unsigned char *block) {
    float most = 0;
    bool finite = true;
    for (uint32_t n = 0; n < ofBlock; ++n) {
        finite = finite && std::isfinite(from[n]);
        if (std::fabs(from[n]) > std::fabs(most)) most = from[n];
    }
    const float scale = !finite ? nan : dtype == VKATTN_Q8_0 ? std::fabs(most) / 127 : most / -8;
    const uint16_t half = toHalf(scale);
    block[0] = static_cast<unsigned char>(half & 0xff), block[1] = static_cast<unsigned char>(half >> 8);
    const auto code = [&](uint32_t n, float least, float limit) {
        return finite && scale != 0 ? static_cast<int>(std::fmin(std::fmax(std::nearbyint(from[n] / scale), least), limit)) : 0;
    };
    if (dtype == VKATTN_Q8_0)
        for (uint32_t n = 0; n < ofBlock; ++n) block[2 + n] = static_cast<unsigned char>(code(n, -127, 127));
    else
        for (uint32_t n = 0; n < 16; ++n) block[2 + n] = static_cast<unsigned char>((code(n, -8, 7) + 8) + 16 * (code(n + 16, -8, 7) + 8));
}
void toRow(const float *from, uint32_t dims, unsigned char *row) {
    float most = 0;
    bool finite = true;
    for (uint32_t d = 0; d < dims; ++d) finite = finite && std::isfinite(from[d]), most = std::fmax(most, std::fabs(from[d]));
    const float scale = finite ? most / 127 : nan;
    std::memcpy(row, &scale, 4);
    for (uint32_t d = 0; d < dims; ++d)
        row[4 + d] = static_cast<unsigned char>(finite && scale != 0 ? static_cast<int>(std::nearbyint(from[d] / scale)) : 0);
}

} // namespace

vkattn_layout makeLayout(vkattn_dtype dtype, const uint32_t (&e)[4], Style style) {
    vkattn_layout l{dtype, {e[0], e[1], e[2], e[3]}, {}, 0};
    // Rows are padded to whole blocks, and to words with their scale.
    const int64_t heads = e[1], tokens = e[2],
                  grain = hasBlocks(dtype)       ? ofBlock
                          : dtype == VKATTN_INT8 ? 4
                                                 : 1,
                  dim = (e[3] + (dtype == VKATTN_INT8 ? 4 : 0) + grain - 1) / grain * grain;
    if (hasScales(dtype) && style == Style::dimMajor) style = Style::packed;
    switch (style) {
    case Style::packed:
    case Style::reversed: {
        const int64_t strides[4] = {heads * tokens * dim, tokens * dim, dim, 1};
        std::copy_n(strides, 4, l.strideElems);
        if (style == Style::reversed && tokens > 0) {
            l.strideElems[2] = -dim;
            l.offsetElems = static_cast<uint64_t>((tokens - 1) * dim);
        }
        break;
    }
    case Style::tokenMajor: {
        const int64_t strides[4] = {tokens * heads * dim, dim, heads * dim, 1};
        std::copy_n(strides, 4, l.strideElems);
        break;
    }
    case Style::padded: {
        const int64_t token = dim + (grain > 1 ? grain : 3 - dim % 2), head = token * tokens + 5 * grain, batch = head * heads + 7 * grain;
        const int64_t strides[4] = {batch, head, token, 1};
        std::copy_n(strides, 4, l.strideElems);
        l.offsetElems = static_cast<uint64_t>(3 * grain);
        break;
    }
    case Style::dimMajor: {
        const int64_t strides[4] = {heads * tokens * dim, tokens * dim, 1, std::max<int64_t>(tokens, 1)};
        std::copy_n(strides, 4, l.strideElems);
        break;
    }
    }
    return l;
}

void HostTensor::make(const vkattn_layout &l, uint64_t bytes, unsigned char fillByte) {
    layout = l;
    memory_.assign(bytes + 2 * canary, fillByte);
    elements_.assign(hasBlocks(l.dtype) ? bytes / blockBytes(l.dtype) * ofBlock : l.dtype == VKATTN_INT8 ? bytes : 0, 0.0f);
}

uint64_t HostTensor::byteOf(uint32_t b, uint32_t h, uint32_t t, uint32_t d) const {
    const uint32_t index[4] = {b, h, t, d};
    int64_t at = static_cast<int64_t>(layout.offsetElems);
    for (int n = 0; n < 4; ++n)
        if (layout.extent[n] > 1) at += index[n] * layout.strideElems[n];
    if (hasBlocks(layout.dtype)) return canary + static_cast<uint64_t>(at) / ofBlock * blockBytes(layout.dtype);
    if (layout.dtype == VKATTN_INT8) at += 4; // the scale
    return canary + static_cast<uint64_t>(at) * sizeOf(layout.dtype);
}

float HostTensor::get(uint32_t b, uint32_t h, uint32_t t, uint32_t d) const {
    const unsigned char *at = memory_.data() + byteOf(b, h, t, d);
    if (layout.dtype == VKATTN_BOOL8) return *at ? 1.0f : 0.0f;
    if (layout.dtype == VKATTN_FP8_E4M3 || layout.dtype == VKATTN_FP8_E5M2) return fromFloat8(*at, layout.dtype == VKATTN_FP8_E4M3 ? 4 : 5);
    if (hasBlocks(layout.dtype)) return fromBlock(layout.dtype, at, d % ofBlock);
    if (layout.dtype == VKATTN_INT8) {
        float scale;
        std::memcpy(&scale, at - d - 4, 4);
        return scale * static_cast<float>(static_cast<signed char>(*at));
    }
    if (layout.dtype == VKATTN_F16) {
        uint16_t bits;
        std::memcpy(&bits, at, 2);
        return fromHalf(bits);
    }
    if (layout.dtype == VKATTN_BF16) {
        uint16_t bits;
        std::memcpy(&bits, at, 2);
        return fromBrain(bits);
    }
    float value;
    std::memcpy(&value, at, 4);
    return value;
}

void HostTensor::set(uint32_t b, uint32_t h, uint32_t t, uint32_t d, float value) {
    unsigned char *at = memory_.data() + byteOf(b, h, t, d);
    if (layout.dtype == VKATTN_BOOL8) {
        *at = static_cast<unsigned char>(value);
    } else if (layout.dtype == VKATTN_FP8_E4M3 || layout.dtype == VKATTN_FP8_E5M2) {
        *at = toFloat8(value, layout.dtype == VKATTN_FP8_E4M3 ? 4 : 5);
    } else if (hasBlocks(layout.dtype)) {
        float *block = elements_.data() + (byteOf(b, h, t, d) - canary) / blockBytes(layout.dtype) * ofBlock;
        block[d % ofBlock] = value;
        toBlock(layout.dtype, block, at);
    } else if (layout.dtype == VKATTN_INT8) {
        float *row = elements_.data() + (byteOf(b, h, t, 0) - canary);
        row[d] = value;
        toRow(row, layout.extent[3], at - d - 4);
    } else if (layout.dtype == VKATTN_F16 || layout.dtype == VKATTN_BF16) {
        const uint16_t bits = layout.dtype == VKATTN_F16 ? toHalf(value) : toBrain(value);
        std::memcpy(at, &bits, 2);
    } else {
        std::memcpy(at, &value, 4);
    }
}

void HostTensor::copyRow(const Row &row, const HostTensor &from, const Row &fromRow) {
    const auto copy = [&](uint32_t d, uint64_t before, uint64_t bytes) {
        std::memcpy(memory_.data() + byteOf(row.b, row.h, row.t, d) - before,
                    from.memory_.data() + from.byteOf(fromRow.b, fromRow.h, fromRow.t, d) - before, bytes);
    };
    if (layout.dtype == VKATTN_INT8) copy(0, 4, 4); // the scale
    for (uint32_t d = 0; d < layout.extent[3]; d += hasBlocks(layout.dtype) ? ofBlock : 1)
        copy(d, 0, hasBlocks(layout.dtype) ? blockBytes(layout.dtype) : sizeOf(layout.dtype));
}

uint32_t HostTensor::getWord(uint32_t b, uint32_t h, uint32_t t, uint32_t d) const {
    uint32_t word;
    std::memcpy(&word, memory_.data() + byteOf(b, h, t, d), 4);
    return word;
}

void HostTensor::setWord(uint32_t b, uint32_t h, uint32_t t, uint32_t d, uint32_t word) {
    std::memcpy(memory_.data() + byteOf(b, h, t, d), &word, 4);
}

void HostTensor::fillRandomly(Random &random) {
    for (unsigned char &byte : memory_) byte = static_cast<unsigned char>(random());
}

std::string HostTensor::damage(const HostTensor &before, const Elements &written) const {
    std::vector<bool> element(memory_.size());
    const uint32_t *e = layout.extent;
    for (uint32_t b = 0; b < e[0]; ++b)
        for (uint32_t h = 0; h < e[1]; ++h)
            for (uint32_t t = 0; t < e[2]; ++t)
                for (uint32_t d = 0; d < e[3]; ++d) {
                    if (written && !written(b, h, t, d)) continue;
                    const uint64_t at = byteOf(b, h, t, d),
                                   bytes = hasBlocks(layout.dtype) ? blockBytes(layout.dtype) : sizeOf(layout.dtype);
                    for (uint64_t n = 0; n < bytes; ++n) element[at + n] = true;
                    for (uint64_t n = 0; n < 4 && layout.dtype == VKATTN_INT8; ++n) element[at - d - 4 + n] = true; // the scale
                }
    for (size_t n = 0; n < memory_.size(); ++n)
        if (!element[n] && memory_[n] != before.memory_[n])
            return "byte " + std::to_string(static_cast<int64_t>(n) - static_cast<int64_t>(canary)) +
                   " of the binding is part of no element to be written, and was changed";
    return {};
}

} // namespace vkattn::conform
