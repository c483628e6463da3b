#include "problem/tensor.hpp"

#include "util/diagnostic.hpp"

#include <algorithm>

namespace vkattn {
namespace {

constexpr int64_t maxSpan = INT64_MAX / 8; // elements; leaves room for bytes

uint64_t magnitude(int64_t value) {
    return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

// Blocks begin where rows do, and rows of bytes with their scale at words.
vkattn_result checkBlocks(const Tensor &t, const char *name, vkattn_diagnostic *why) {
    if (!isBlockType(t.dtype) && t.dtype != VKATTN_INT8) return VKATTN_OK;
    const int64_t block = isBlockType(t.dtype) ? elementsOfBlock(t.dtype) : 4;
    if (!t.unitDims())
        return fail(why, invalid, "%s has a stride of %lld elements between dims, expected 1: dims of its type are neighbours", name,
                    static_cast<long long>(t.stride[3]));
    if (t.offset % static_cast<uint64_t>(block))
        return fail(why, invalid, "%s has offsetElems %llu, expected a multiple of %lld, where rows of its type may begin", name,
                    static_cast<unsigned long long>(t.offset), static_cast<long long>(block));
    for (int d = 0; d < 3; ++d)
        if (t.stride[d] % block)
            return fail(why, invalid,
                        "%s has a stride of %lld elements in dimension %d, expected a multiple of %lld, where rows of its type may begin; "
                        "pad the rows",
                        name, static_cast<long long>(t.stride[d]), d, static_cast<long long>(block));
    return VKATTN_OK;
}

} // namespace

bool multiplySizes(uint64_t a, uint64_t b, uint64_t &product) {
    if (b != 0 && a > static_cast<uint64_t>(maxSpan) / b) return false;
    product = a * b;
    return true;
}

vkattn_result makeTensor(const vkattn_layout &layout, const TensorRule &rule, Tensor &out, vkattn_diagnostic *why) {
    const char *name = rule.name;
    const auto dtype = static_cast<uint32_t>(layout.dtype);
    if (dtype > VKATTN_INT8 || !(rule.dtypes >> dtype & 1u))
        return fail(why, invalid, "%s has dtype %u, expected %s", name, dtype,
                    rule.dtypes == 1u << VKATTN_BOOL8    ? "VKATTN_BOOL8"
                    : rule.dtypes == 1u << VKATTN_BITS32 ? "VKATTN_BITS32"
                    : rule.dtypes == 1u << VKATTN_F32    ? "VKATTN_F32"
                    : rule.dtypes >> VKATTN_Q8_0 & 1u
                        ? "VKATTN_F32, VKATTN_F16, VKATTN_BF16, VKATTN_FP8_E4M3, VKATTN_FP8_E5M2, VKATTN_Q8_0, VKATTN_Q4_0 or VKATTN_INT8"
                        : "VKATTN_F32, VKATTN_F16 or VKATTN_BF16");
    out.dtype = layout.dtype;
    out.offset = layout.offsetElems;
    std::copy_n(layout.extent, 4, out.extent);
    for (int d = 0; d < 4; ++d) out.stride[d] = layout.extent[d] > 1 ? layout.strideElems[d] : 0;
    if (out.extent[2] > maxTokens) return fail(why, invalid, "%s has %u tokens, expected at most %u", name, out.extent[2], maxTokens);
    if (out.empty()) return VKATTN_OK;
    if (const auto r = checkBlocks(out, name, why)) return r;

    uint64_t above = layout.offsetElems, below = 0;
    if (above > static_cast<uint64_t>(maxSpan))
        return fail(why, invalid, "%s: offsetElems %llu is too large", name, static_cast<unsigned long long>(above));
    for (int d = 0; d < 4; ++d) {
        uint64_t reach = 0;
        uint64_t &side = out.stride[d] < 0 ? below : above;
        if (!multiplySizes(out.extent[d] - 1ull, magnitude(out.stride[d]), reach) || (side += reach) > static_cast<uint64_t>(maxSpan))
            return fail(why, invalid, "%s: extent %u with stride %lld in dimension %d overflows 64-bit addressing", name, out.extent[d],
                        static_cast<long long>(out.stride[d]), d);
    }
    if (below > layout.offsetElems)
        return fail(why, invalid, "%s: negative strides reach %llu elements below offsetElems %llu; raise offsetElems", name,
                    static_cast<unsigned long long>(below), static_cast<unsigned long long>(layout.offsetElems));

    if (rule.output) {
        int order[4] = {0, 1, 2, 3};
        std::sort(order, order + 4, [&](int a, int b) { return magnitude(out.stride[a]) < magnitude(out.stride[b]); });
        uint64_t inner = 1 + (out.extent[3] == 1 ? bytesBeforeRow(out.dtype) : 0); // elements spanned by the smaller strides
        for (const int d : order) {
            if (out.extent[d] <= 1) continue;
            if (magnitude(out.stride[d]) < inner)
                return fail(why, invalid,
                            "%s overlaps itself: stride %lld in dimension %d is below the %llu elements that smaller strides span", name,
                            static_cast<long long>(out.stride[d]), d, static_cast<unsigned long long>(inner));
            inner += (out.extent[d] - 1ull) * magnitude(out.stride[d]);
            if (d == 3) inner += bytesBeforeRow(out.dtype);
        }
    }
    return VKATTN_OK;
}

vkattn_result expectExtents(const Tensor &tensor, const char *name, const uint32_t (&expected)[4], uint32_t broadcast,
                            vkattn_diagnostic *why) {
    for (int d = 0; d < 4; ++d)
        if (tensor.extent[d] != expected[d] && !(broadcast >> d & 1u && tensor.extent[d] == 1))
            return fail(why, invalid, "%s is [%u, %u, %u, %u], expected [%u, %u, %u, %u]%s", name, tensor.extent[0], tensor.extent[1],
                        tensor.extent[2], tensor.extent[3], expected[0], expected[1], expected[2], expected[3],
                        broadcast ? " or 1 where it broadcasts" : "");
    return VKATTN_OK;
}

ByteRange Tensor::span(const Box &box) const {
    uint64_t first = offset, low = 0, high = 0;
    for (int d = 0; d < 4; ++d) {
        if (extent[d] == 0 || box.count[d] == 0) return {};
        if (extent[d] == 1) continue;
        first += box.first[d] * static_cast<uint64_t>(stride[d]);
        (stride[d] < 0 ? low : high) += (box.count[d] - 1ull) * magnitude(stride[d]);
    }
    const uint64_t last = first + high + 1, block = elementsOfBlock(dtype);
    return {bytesBefore(dtype, first - low), bytesBefore(dtype, last / block * block + (last % block ? block : 0)) + bytesBeforeRow(dtype)};
}

ByteRange Tensor::span() const {
    Box all{};
    std::copy_n(extent, 4, all.count);
    return span(all);
}

} // namespace vkattn
