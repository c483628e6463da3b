// What bias, masks and documents say about a tile of pairs.
#include "cpu/attention.hpp"

#include <limits>

namespace vkattn {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

template <vkattn_dtype dtype>
void copyBias(const unsigned char *data, uint64_t at, uint64_t step, uint32_t count, float *out, uint32_t stride) {
    for (uint32_t j = 0; j < count; ++j, at += step) out[size_t{j} * stride] = loadElement(data, dtype, at);
}

} // namespace

Pairs lookUpPairs(const Call &call, const Sequence &s, uint32_t b, const RowPlace *places, uint32_t rows, uint32_t begin, uint32_t end,
                  float *out, uint32_t stride) {
    const Problem &p = call.p;
    const Tensor &bias = p.tensor(VKATTN_BIAS), &mask = p.tensor(VKATTN_MASK), &bits = p.tensor(VKATTN_BIT_MASK);
    const uint32_t count = end - begin;
    std::fill(out, out + size_t{count} * stride, 0.0f);
    uint64_t visible = 0;
    for (uint32_t r = 0; r < rows; ++r) {
        const uint32_t h = places[r].head, i = places[r].query;
        float *row = out + r;
        if (bias.present()) {
            const unsigned char *data = call.operands.data[VKATTN_BIAS];
            const uint64_t at = bias.index(b, h, i, begin), step = static_cast<uint64_t>(bias.stride[3]);
            if (bias.dtype == VKATTN_F32)
                copyBias<VKATTN_F32>(data, at, step, count, row, stride);
            else if (bias.dtype == VKATTN_F16)
                copyBias<VKATTN_F16>(data, at, step, count, row, stride);
            else
                copyBias<VKATTN_BF16>(data, at, step, count, row, stride);
        }
        if (mask.present()) {
            const unsigned char *data = call.operands.data[VKATTN_MASK];
            const uint64_t step = static_cast<uint64_t>(mask.stride[3]);
            uint64_t at = mask.index(b, h, i, begin);
            for (uint32_t j = 0; j < count; ++j, at += step)
                if (data[at] == 0) row[size_t{j} * stride] = -infinity;
        }
        if (bits.present()) {
            uint32_t word = 0;
            for (uint32_t j = 0; j < count; ++j) {
                const uint32_t key = begin + j;
                if (j == 0 || key % 32 == 0) word = call.operands.word(VKATTN_BIT_MASK, bits.index(b, h, i, key / 32));
                if (!(word >> key % 32 & 1u)) row[size_t{j} * stride] = -infinity;
            }
        }
        if (p.has(VKATTN_DOC_IDS_Q)) {
            const uint64_t queries = p.tensor(VKATTN_Q).extent[2], keys = p.tensor(VKATTN_K).extent[2];
            const uint32_t document = call.operands.word(VKATTN_DOC_IDS_Q, s.batch * queries + s.query(i));
            const uint64_t first = s.batch * keys + s.key(begin);
            for (uint32_t j = 0; j < count; ++j)
                if (call.operands.word(VKATTN_DOC_IDS_K, first + j) != document) row[size_t{j} * stride] = -infinity;
        }
        for (uint32_t j = 0; j < count; ++j) visible += row[size_t{j} * stride] != -infinity;
    }
    return visible == 0 ? Pairs::noneVisible : visible == uint64_t{count} * rows ? Pairs::allVisible : Pairs::someVisible;
}

} // namespace vkattn
