#include "inputs.hpp"

#include "failure.hpp"
#include "note.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vkattn::tool {
namespace {

constexpr size_t chunkItems = 65536; // of conversions: 512 KiB of file at a time

NpyFile openFile(const std::string &path) {
    std::string why;
    std::optional<NpyFile> file = NpyFile::open(path, why);
    if (!file) throw Failure(path + ": " + why);
    return std::move(*file);
}

} // namespace

Input::Input(vkattn_role role, const std::string &option, const std::string &path)
    : role_(role), option_(option), path_(path), file_(openFile(path)) {
    checkType();
    if (role_ != VKATTN_KEY_LENGTHS) makeLayout();
}

void Input::fail(const std::string &reason) const {
    throw Failure(path_ + ": " + reason);
}

void Input::checkType() const {
    const NpyType type = header().type;
    const std::string found = "it holds " + npyTypeName(type) + ", but " + option_ + " takes ";
    if (role_ == VKATTN_MASK) {
        if (type != npyBool && type != npyUint8)
            fail(found + "bool or uint8: save array != 0, or give additive values of a floating dtype to --bias");
    } else if (role_ == VKATTN_KEY_LENGTHS) {
        if (type != npyInt32 && type != npyInt64) fail(found + "int32 or int64: convert with array.astype(np.int32)");
    } else if (type != npyFloat16 && type != npyFloat32 && type != npyFloat64) {
        fail(found + "float32 or float16 (float64 is converted): " +
             (role_ == VKATTN_BIAS && type.itemBytes == 1 ? "give a boolean mask to --mask" : "convert with array.astype(np.float32)"));
    }
}

void Input::makeLayout() {
    const std::vector<uint64_t> &shape = header().shape;
    const bool pairs = role_ == VKATTN_MASK || role_ == VKATTN_BIAS;
    if (shape.size() < 2 || shape.size() > 4)
        fail("shape " + npyShapeText(shape) + " has " + std::to_string(shape.size()) + (shape.size() == 1 ? " dimension" : " dimensions") +
             ", expected 2 to 4: " +
             (pairs ? "[query, key], [head, query, key] or [batch, head, query, key]"
                    : "[token, dim], [head, token, dim] or [batch, head, token, dim]"));
    for (const uint64_t extent : shape)
        if (extent > std::numeric_limits<uint32_t>::max())
            fail("shape " + npyShapeText(shape) + " has a dimension of " + std::to_string(extent) + ", expected at most 4294967295");

    layout_.dtype = role_ == VKATTN_MASK ? VKATTN_BOOL8 : header().type == npyFloat16 ? VKATTN_F16 : VKATTN_F32;
    const size_t missing = 4 - shape.size();
    std::fill_n(layout_.extent, missing, 1u);
    // The product of non-zero extents fits in 63 bits (npy.hpp), so no stride overflows.
    int64_t stride = 1;
    const auto place = [&](size_t i) {
        layout_.extent[missing + i] = static_cast<uint32_t>(shape[i]);
        layout_.strideElems[missing + i] = stride;
        stride *= static_cast<int64_t>(shape[i]);
    };
    if (header().fortranOrder)
        for (size_t i = 0; i < shape.size(); i++) place(i);
    else
        for (size_t i = shape.size(); i-- > 0;) place(i);
}

uint64_t Input::memoryBytes() const {
    if (role_ == VKATTN_KEY_LENGTHS) return header().dataBytes / header().type.itemBytes * sizeof(uint32_t);
    return header().type == npyFloat64 ? header().dataBytes / 2 : header().dataBytes;
}

std::string Input::text() const {
    return path_ + " " + npyShapeText(header().shape) + " " + npyTypeName(header().type);
}

void Input::read(std::span<std::byte> into) {
    std::string why;
    if (!file_.read(into, why)) fail(why);
}

HostBuffer Input::load() {
    HostBuffer buffer(static_cast<size_t>(memoryBytes()));
    if (header().type == npyFloat64)
        readFloat64({reinterpret_cast<float *>(buffer.data()), buffer.bytes() / sizeof(float)});
    else
        read(buffer.span());
    return buffer;
}

void Input::readFloat64(std::span<float> into) {
    constexpr double largest = std::numeric_limits<float>::max();
    std::vector<double> chunk(std::min(into.size(), chunkItems));
    uint64_t tooLarge = 0;
    for (size_t begin = 0; begin < into.size(); begin += chunk.size()) {
        const size_t count = std::min(chunk.size(), into.size() - begin);
        read(std::as_writable_bytes(std::span(chunk).first(count)));
        for (size_t i = 0; i < count; i++) {
            const double value = chunk[i];
            const auto converted = static_cast<float>(value);
            const bool overflowed = std::isinf(converted) && !std::isinf(value);
            tooLarge += overflowed ? 1 : 0;
            // A finite bias stays finite: -infinity would hide the pair, which is another meaning.
            into[begin + i] = overflowed && role_ == VKATTN_BIAS ? static_cast<float>(std::copysign(largest, value)) : converted;
        }
    }
    std::string text = path_ + ": float64 converted to float32";
    if (tooLarge > 0)
        text += "; " + std::to_string(tooLarge) + " values beyond its range became " +
                (role_ == VKATTN_BIAS ? "the largest finite ones" : "infinite");
    printNote(text);
}

HostBuffer Input::loadKeyLengths(uint32_t keyTokens) {
    HostBuffer buffer(static_cast<size_t>(memoryBytes()));
    const std::span<uint32_t> lengths(reinterpret_cast<uint32_t *>(buffer.data()), buffer.bytes() / sizeof(uint32_t));
    const bool wide = header().type == npyInt64;
    uint64_t clamped = 0;
    std::string first;
    for (size_t i = 0; i < lengths.size(); i++) {
        int64_t given = 0;
        int32_t narrow = 0;
        if (wide)
            read(std::as_writable_bytes(std::span(&given, 1)));
        else
            read(std::as_writable_bytes(std::span(&narrow, 1)));
        if (!wide) given = narrow;
        const int64_t length = std::clamp<int64_t>(given, 0, keyTokens);
        if (length != given && clamped++ == 0)
            first = std::to_string(given) + " of batch entry " + std::to_string(i) + " to " + std::to_string(length);
        lengths[i] = static_cast<uint32_t>(length);
    }
    if (clamped > 0)
        printNote(path_ + ": " + std::to_string(clamped) + " of " + std::to_string(lengths.size()) + " key lengths lie outside [0, " +
                  std::to_string(keyTokens) + "] and were clamped, first " + first);
    return buffer;
}

} // namespace vkattn::tool
