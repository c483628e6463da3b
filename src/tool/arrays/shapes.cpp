#include "tool/arrays/shapes.hpp"

#include "program/failure.hpp"
#include "program/files/npy.hpp"

#include <vkattn/vkattn.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace vkattn::tool {
using namespace program;

vkattn_layout dense(const std::string &text, vkattn_dtype dtype, const Extents &extent) {
    constexpr uint64_t limit = 1ull << 60; // elements; the library's own
    uint64_t elements = 1;
    for (const uint64_t factor : extent) {
        if (factor > 0 && elements > limit / factor)
            throw Failure(text + ": its shape " + npyShapeText(std::vector<uint64_t>(extent, extent + 4)) +
                          " is too large, its bytes overflow 64 bits");
        elements *= std::max<uint64_t>(factor, 1);
    }
    return packed(dtype, extent[batch], extent[head], extent[token], extent[dim]);
}

Operand assumedOperand(const char *option, std::vector<uint32_t> shape, vkattn_dtype dtype) {
    std::string text = std::string("--shape") + (option + 1);
    char separator = ' ';
    for (const uint32_t extent : shape) {
        text += separator;
        text += std::to_string(extent);
        separator = ',';
    }
    shape.insert(shape.begin(), 4 - shape.size(), 1u);
    return {text, dense(text, dtype, {shape[batch], shape[head], shape[token], shape[dim]})};
}

std::string shapeText(const vkattn_layout &layout) {
    std::string text = "[";
    for (int d = 0; d < 4; ++d)
        if (d != 1 || layout.extent[1] > 1) text += (text.size() > 1 ? ", " : "") + std::to_string(layout.extent[d]);
    return text + "]";
}

void disagree(const Operand &a, const Operand &b, const std::string &rule) {
    throw Failure("shapes disagree: " + a.text + " and " + b.text + ": " + rule);
}

void requireEqual(const Operand &a, const Operand &b, Dimension dimension, const std::string &what) {
    if (a.layout.extent[dimension] != b.layout.extent[dimension])
        disagree(a, b,
                 "they need the same " + what + ", not " + std::to_string(a.layout.extent[dimension]) + " and " +
                     std::to_string(b.layout.extent[dimension]));
}

void requireSomething(const Operand &operand, uint32_t maxDim) {
    const uint32_t *extent = operand.layout.extent;
    const char *missing = extent[batch] == 0  ? "batch entries"
                          : extent[head] == 0 ? "heads"
                          : extent[dim] == 0  ? "elements in a row (dim)"
                                              : nullptr;
    if (missing != nullptr)
        throw Failure(operand.text + ": has zero " + missing + ", expected at least 1; only the number of tokens may be 0");
    if (extent[dim] > maxDim)
        throw Failure(operand.text + ": its last dimension (dim) is " + std::to_string(extent[dim]) + ", expected at most " +
                      std::to_string(maxDim) + ": split it into heads, or check the order of dimensions");
}

vkattn_layout poolOfPages(const std::string &text, size_t dimensions, vkattn_layout pool, bool headsFirst) {
    const char *const order = headsFirst ? "[page, head, token, dim]" : "[page, token, head, dim]";
    if (dimensions != 4) throw Failure(text + ": a pool of pages has 4 dimensions, " + order);
    if (pool.extent[batch] == 0) throw Failure(text + ": a pool of no pages, expected at least 1, " + order);
    if (headsFirst) return pool;
    std::swap(pool.extent[head], pool.extent[token]);
    std::swap(pool.strideElems[head], pool.strideElems[token]);
    return pool;
}

uint32_t keysOf(const vkattn_problem &problem) {
    const bool paged = problem.pageIndices != 0 || (problem.presentRoles & VKATTN_PRESENT(VKATTN_PAGE_TABLE)) != 0;
    return paged ? problem.tablePages * problem.k.extent[token] : problem.k.extent[token] + problem.k1.extent[token];
}

} // namespace vkattn::tool
