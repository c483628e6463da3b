#include "support/case.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace vkattn::test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

uint64_t sizeOf(vkattn_dtype dtype) {
    return dtype == VKATTN_F32 ? 4 : dtype == VKATTN_F16 ? 2 : 1;
}

// Test-side half conversions through the compiler's own arithmetic, independent of the library's integer code.
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
    if (magnitude >= 65520.0f) return static_cast<uint16_t>(sign | 0x7c00);
    int exponent = 0;
    std::frexp(magnitude, &exponent); // magnitude = f * 2^exponent, 0.5 <= f < 1
    const int unit = std::max(exponent - 11, -24);
    const auto steps = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, -unit)));
    return static_cast<uint16_t>(sign | (steps + (static_cast<uint32_t>(unit + 24) << 10)));
}

vkattn_layout makeLayout(vkattn_dtype dtype, const uint32_t (&e)[4], Style style) {
    vkattn_layout l{dtype, {e[0], e[1], e[2], e[3]}, {}, 0};
    const int64_t heads = e[1], tokens = e[2], dim = e[3];
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
        const int64_t token = dim + 3 - dim % 2, head = token * tokens + 5, batch = head * heads + 7;
        const int64_t strides[4] = {batch, head, token, 1};
        std::copy_n(strides, 4, l.strideElems);
        l.offsetElems = 3;
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

float normal(Random &random) {
    const double u = (static_cast<double>(random() >> 11) + 1) * 0x1p-53, v = static_cast<double>(random() >> 11) * 0x1p-53;
    return static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(2 * 3.14159265358979323846 * v));
}

void fill(HostTensor &tensor, const std::function<float(uint32_t, uint32_t, uint32_t, uint32_t)> &value) {
    const uint32_t *e = tensor.layout.extent;
    for (uint32_t b = 0; b < e[0]; ++b)
        for (uint32_t h = 0; h < e[1]; ++h)
            for (uint32_t t = 0; t < e[2]; ++t)
                for (uint32_t d = 0; d < e[3]; ++d) tensor.set(b, h, t, d, value(b, h, t, d));
}

} // namespace

void HostTensor::make(const vkattn_layout &l, uint64_t bytes, unsigned char fillByte) {
    layout = l;
    memory_.assign(bytes + 2 * canary, fillByte);
}

uint64_t HostTensor::byteOf(uint32_t b, uint32_t h, uint32_t t, uint32_t d) const {
    const uint32_t index[4] = {b, h, t, d};
    int64_t at = static_cast<int64_t>(layout.offsetElems);
    for (int n = 0; n < 4; ++n)
        if (layout.extent[n] > 1) at += index[n] * layout.strideElems[n];
    return canary + static_cast<uint64_t>(at) * sizeOf(layout.dtype);
}

float HostTensor::get(uint32_t b, uint32_t h, uint32_t t, uint32_t d) const {
    const unsigned char *at = memory_.data() + byteOf(b, h, t, d);
    if (layout.dtype == VKATTN_BOOL8) return *at ? 1.0f : 0.0f;
    if (layout.dtype == VKATTN_F16) {
        uint16_t bits;
        std::memcpy(&bits, at, 2);
        return fromHalf(bits);
    }
    float value;
    std::memcpy(&value, at, 4);
    return value;
}

void HostTensor::set(uint32_t b, uint32_t h, uint32_t t, uint32_t d, float value) {
    unsigned char *at = memory_.data() + byteOf(b, h, t, d);
    if (layout.dtype == VKATTN_BOOL8) {
        *at = static_cast<unsigned char>(value);
    } else if (layout.dtype == VKATTN_F16) {
        const uint16_t bits = toHalf(value);
        std::memcpy(at, &bits, 2);
    } else {
        std::memcpy(at, &value, 4);
    }
}

void HostTensor::fillRandomly(Random &random) {
    for (unsigned char &byte : memory_) byte = static_cast<unsigned char>(random());
}

std::string HostTensor::damage(const HostTensor &before) const {
    std::vector<bool> element(memory_.size());
    const uint32_t *e = layout.extent;
    for (uint32_t b = 0; b < e[0]; ++b)
        for (uint32_t h = 0; h < e[1]; ++h)
            for (uint32_t t = 0; t < e[2]; ++t)
                for (uint32_t d = 0; d < e[3]; ++d)
                    for (uint64_t n = 0; n < sizeOf(layout.dtype); ++n) element[byteOf(b, h, t, d) + n] = true;
    for (size_t n = 0; n < memory_.size(); ++n)
        if (!element[n] && memory_[n] != before.memory_[n])
            return "byte " + std::to_string(static_cast<int64_t>(n) - static_cast<int64_t>(canary)) +
                   " of the binding is no element and was changed";
    return {};
}

bool Instance::visible(uint32_t b, uint32_t h, uint32_t i, uint32_t j) const {
    const int64_t keys = keyLength(b);
    if (j >= keys) return false;
    const int64_t position = c.topLeft ? int64_t{i} : int64_t{i} + keys - int64_t{c.queryTokens};
    if (c.causal && j > position) return false;
    if (c.window && c.left >= 0 && j < position - c.left) return false;
    if (c.window && c.right >= 0 && j > position + c.right) return false;
    const auto at = [&](const HostTensor &t) {
        const uint32_t *e = t.layout.extent;
        return t.get(e[0] > 1 ? b : 0, e[1] > 1 ? h : 0, e[2] > 1 ? i : 0, e[3] > 1 ? j : 0);
    };
    if (c.maskBroadcast && at(mask) == 0) return false;
    if (c.biasBroadcast && at(bias) == -infinity) return false;
    return true;
}

void Instance::collectOperands() {
    operands.clear();
    const auto add = [&](vkattn_role role, HostTensor &t) { operands.push_back({role, t.data(), t.bytes()}); };
    add(VKATTN_Q, q);
    add(VKATTN_K, k);
    add(VKATTN_V, v);
    add(VKATTN_OUT, out);
    if (c.lse) add(VKATTN_LSE, lse);
    if (c.weights) add(VKATTN_WEIGHTS, weights);
    if (c.maskBroadcast) add(VKATTN_MASK, mask);
    if (c.biasBroadcast) add(VKATTN_BIAS, bias);
    if (c.lengths) operands.push_back({VKATTN_KEY_LENGTHS, lengths.data(), lengths.size() * 4});
}

std::unique_ptr<Instance> makeInstance(const Case &c, Random &random) {
    auto made = std::make_unique<Instance>();
    Instance &in = *made;
    in.c = c;
    vkattn_problem &p = in.problem;
    p.structSize = sizeof p;
    p.flags = (c.causal ? static_cast<uint32_t>(VKATTN_CAUSAL) : 0) | (c.topLeft ? VKATTN_ALIGN_TOP_LEFT : 0) |
              (c.window ? VKATTN_WINDOW : 0) | (c.scale ? VKATTN_SCALE : 0);
    p.presentRoles = c.lengths ? 1u << VKATTN_KEY_LENGTHS : 0;
    p.scale = c.scale.value_or(0);
    p.softcap = c.softcap;
    if (c.window) p.windowLeft = c.left, p.windowRight = c.right;
    p.q = makeLayout(c.q, {c.batch, c.heads, c.queryTokens, c.headDim}, c.qStyle);
    p.k = makeLayout(c.k, {c.batch, c.kvHeads, c.keyTokens, c.headDim}, c.kStyle);
    p.v = makeLayout(c.v, {c.batch, c.kvHeads, c.keyTokens, c.valueDim}, c.vStyle);
    p.out = makeLayout(c.out, {c.batch, c.heads, c.queryTokens, c.valueDim}, c.outStyle);
    if (c.lse) p.lse = makeLayout(VKATTN_F32, {c.batch, c.heads, c.queryTokens, 1}, c.outStyle);
    if (c.weights) p.weights = makeLayout(c.weightsType, {c.batch, c.heads, c.queryTokens, c.keyTokens}, c.weightsStyle);
    const auto broadcast = [&](vkattn_dtype dtype, uint32_t ones, Style style) {
        const uint32_t full[4] = {c.batch, c.heads, c.queryTokens, c.keyTokens};
        uint32_t e[4];
        for (uint32_t d = 0; d < 4; ++d) e[d] = ones >> d & 1 ? 1 : full[d];
        return makeLayout(dtype, e, style);
    };
    if (c.maskBroadcast) p.mask = broadcast(VKATTN_BOOL8, *c.maskBroadcast, c.kStyle);
    if (c.biasBroadcast) p.bias = broadcast(c.biasType, *c.biasBroadcast, c.qStyle);

    const auto make = [&](HostTensor &t, const vkattn_layout &l, vkattn_role role) { t.make(l, vkattnOperandBytes(&p, role), 0xff); };
    make(in.q, p.q, VKATTN_Q); // gaps of inputs hold NaN
    make(in.k, p.k, VKATTN_K);
    make(in.v, p.v, VKATTN_V);
    make(in.out, p.out, VKATTN_OUT);
    in.out.fillRandomly(random);
    if (c.lse) make(in.lse, p.lse, VKATTN_LSE), in.lse.fillRandomly(random);
    if (c.weights) make(in.weights, p.weights, VKATTN_WEIGHTS), in.weights.fillRandomly(random);
    if (c.maskBroadcast) {
        make(in.mask, p.mask, VKATTN_MASK);
        fill(in.mask, [&](auto...) { return random() % 3 ? static_cast<float>(1 + random() % 255) : 0.0f; });
    }
    if (c.biasBroadcast) {
        make(in.bias, p.bias, VKATTN_BIAS);
        fill(in.bias, [&](uint32_t, uint32_t, uint32_t t, uint32_t) {
            if (static_cast<float>(random() % 1000) < c.biasHidden * 1000) return -infinity;
            return c.biasConstant && t % 2 == 0 ? *c.biasConstant : 2 * normal(random);
        });
    }
    if (c.lengths)
        for (uint32_t b = 0; b < c.batch; ++b) {
            in.lengths.push_back(between(random, 0, c.keyTokens));
            if (c.hostileLengths && b % 2 == 0) in.lengths.back() = b % 4 ? 0xffffffffu : c.keyTokens + between(random, 1, 1000);
        }

    const float scale = c.scale.value_or(1.0f / std::sqrt(static_cast<float>(c.headDim)));
    switch (c.data) {
    case Data::normal:
        fill(in.q, [&](auto...) { return normal(random); });
        fill(in.k, [&](auto...) { return normal(random); });
        fill(in.v, [&](auto...) { return normal(random); });
        break;
    case Data::needle: {
        // q = 1 + noise; the needle's key makes a logit of 30, the others stay near 0.
        const float peak = 30.0f / (scale * static_cast<float>(c.headDim));
        fill(in.q, [&](auto...) { return 1.0f + 0.05f * normal(random); });
        fill(in.k, [&](uint32_t, uint32_t, uint32_t t, uint32_t) { return t == c.needle ? peak : 0.05f * normal(random); });
        fill(in.v,
             [&](uint32_t, uint32_t, uint32_t t, uint32_t d) { return static_cast<float>(t % 1021) + 0.25f * static_cast<float>(d % 4); });
        break;
    }
    case Data::equal:
        fill(in.q, [&](auto...) { return normal(random); });
        fill(in.k, [&](uint32_t, uint32_t, uint32_t, uint32_t d) { return static_cast<float>(d % 3); });
        fill(in.v, [&](auto...) { return normal(random); });
        break;
    case Data::extreme: {
        const float size = std::sqrt((c.q == VKATTN_F16 || c.k == VKATTN_F16 ? 6e4f : 1e4f) / (scale * static_cast<float>(c.headDim)));
        fill(in.q, [&](auto...) { return random() % 2 ? size : -size; });
        fill(in.k, [&](auto...) { return random() % 2 ? size : -size; });
        fill(in.v, [&](auto...) { return normal(random); });
        break;
    }
    }
    if (c.poison) {
        const uint32_t group = c.heads / c.kvHeads;
        for (uint32_t b = 0; b < c.batch; ++b)
            for (uint32_t h = 0; h < c.kvHeads; ++h)
                for (uint32_t j = 0; j < c.keyTokens; ++j) {
                    bool seen = false;
                    for (uint32_t g = 0; g < group && !seen; ++g)
                        for (uint32_t i = 0; i < c.queryTokens && !seen; ++i) seen = in.visible(b, h * group + g, i, j);
                    if (seen) continue;
                    for (uint32_t d = 0; d < c.headDim; ++d) in.k.set(b, h, j, d, d % 3 ? nan : infinity);
                    for (uint32_t d = 0; d < c.valueDim; ++d) in.v.set(b, h, j, d, d % 3 ? -infinity : nan);
                }
    }
    in.collectOperands();
    return made;
}

std::string runAndCheck(Runtime &runtime, Instance &in, vkattn_verify_report *reportOut) {
    const HostTensor out = in.out, lse = in.lse, weights = in.weights;
    const RunResult result = runtime.run(in.problem, in.operands);
    if (result.status != VKATTN_OK) return "run: " + result.message;
    if (!result.fallbackReason.empty()) return "fell back to the CPU: " + result.fallbackReason;

    vkattn_verify_report report{};
    vkattn_verify_options options{};
    options.structSize = sizeof options;
    options.allRows = 1;
    vkattn_diagnostic why{};
    if (vkattnCpuVerify(&in.problem, in.operands.data(), static_cast<uint32_t>(in.operands.size()), &options, &report, &why) != VKATTN_OK)
        return std::string("verify: ") + why.message;
    if (reportOut) *reportOut = report;
    if (!report.passed) {
        char text[400];
        std::snprintf(text, sizeof text, "role %d at [%u, %u, %u, %u]: got %.9g, expected %.9g, error %.3g, bound %.3g",
                      static_cast<int>(report.worstRole), report.worstIndex[0], report.worstIndex[1], report.worstIndex[2],
                      report.worstIndex[3], report.worstGot, report.worstExpected, report.worstError, report.worstBound);
        return text;
    }
    std::string damage = in.out.damage(out);
    if (damage.empty() && in.c.lse) damage = in.lse.damage(lse);
    if (damage.empty() && in.c.weights) damage = in.weights.damage(weights);
    return damage;
}

} // namespace vkattn::test
