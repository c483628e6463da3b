#include "runtime/layouts.hpp"
#include "runtime/list/tensor_memory.hpp"

#include <limits>

namespace vkattn {
namespace {

bool knownType(vkattn_dtype dtype) {
    return dtype == VKATTN_F32 || dtype == VKATTN_F16 || dtype == VKATTN_BF16 || dtype == VKATTN_BOOL8 || dtype == VKATTN_BITS32 ||
           isSmallType(dtype);
}

std::string text(const vkattn_layout &layout) {
    std::string all = "[";
    for (int d = 0; d < 4; ++d) all += (d ? ", " : "") + std::to_string(layout.extent[d]);
    return all + "]";
}

// Says in *why what is wrong with a layout in memory of that many bytes.
bool fits(const vkattn_layout &layout, uint64_t bytes, std::string *why) {
    Elements elements;
    if (!knownType(layout.dtype))
        return failed(invalid, "dtype is " + std::to_string(layout.dtype) + ", which is no element type", why), false;
    if (!findElements(asStored(layout), elements))
        return failed(invalid, "the tensor " + text(layout) + " has elements before the first byte of its memory, or spans more than 2^60",
                      why),
               false;
    if (elements.end * elementSize(layout.dtype) > bytes)
        return failed(invalid,
                      "the tensor " + text(layout) + " needs " + std::to_string(elements.end * elementSize(layout.dtype)) +
                          " bytes, and its memory has " + std::to_string(bytes),
                      why),
               false;
    return true;
}

uint64_t elementCount(const vkattn_layout &layout) {
    return uint64_t{layout.extent[0]} * layout.extent[1] * layout.extent[2] * layout.extent[3];
}

vkattn_result checkCopy(bool tensor, const vkattn_layout &layout, const void *data, uint64_t bytes, std::string *why) {
    if (!tensor) return failed(invalid, "there is no tensor: it is empty, or its allocation failed", why);
    const uint64_t expected = elementCount(asStored(layout)) * elementSize(layout.dtype);
    if (bytes != expected)
        return failed(invalid,
                      "the host array has " + std::to_string(bytes) + " bytes, expected " + std::to_string(expected) + " for the tensor " +
                          text(layout),
                      why);
    if (!data && bytes) return failed(invalid, "the host array is NULL", why);
    return VKATTN_OK;
}

} // namespace

DeviceTensor Runtime::allocate(const vkattn_layout &layout, std::string *why) {
    DeviceTensor tensor;
    if (!fits(layout, std::numeric_limits<uint64_t>::max(), why)) return tensor;
    Elements elements;
    (void)findElements(asStored(layout), elements);
    vkattn_result result;
    tensor.memory_ = TensorMemory::create(impl_, elements.end * elementSize(layout.dtype), result, why);
    if (tensor.memory_) tensor.layout_ = layout;
    return tensor;
}

DeviceTensor DeviceTensor::view(const vkattn_layout &layout, std::string *why) const {
    DeviceTensor tensor;
    if (!memory_) return failed(invalid, "there is no tensor to view", why), tensor;
    if (!fits(layout, memory_->bytes(), why)) return tensor;
    tensor.memory_ = memory_;
    tensor.layout_ = layout;
    return tensor;
}

DeviceTensor DeviceTensor::part(uint32_t dimension, uint32_t first, uint32_t count, std::string *why) const {
    if (!memory_) return failed(invalid, "there is no tensor to view", why), DeviceTensor();
    if (dimension > 3 || first > layout_.extent[dimension] || count > layout_.extent[dimension] - first)
        return failed(invalid,
                      "elements " + std::to_string(first) + " to " + std::to_string(uint64_t{first} + count) + " of dimension " +
                          std::to_string(dimension) + " are not all in the tensor " + text(layout_),
                      why),
               DeviceTensor();
    DeviceTensor tensor = *this;
    tensor.layout_.extent[dimension] = count;
    tensor.layout_.offsetElems += static_cast<uint64_t>(layout_.strideElems[dimension]) * first;
    return tensor;
}

vkattn_result DeviceTensor::upload(const void *data, uint64_t bytes, std::string *why) const {
    if (const auto r = checkCopy(memory_ != nullptr, layout_, data, bytes, why)) return r;
    if (bytes == 0) return VKATTN_OK;
    const uint64_t size = elementSize(layout_.dtype);
    const vkattn_layout stored = asStored(layout_);
    if (isDense(stored)) return memory_->write(stored.offsetElems * size, data, bytes, why);
    Elements elements;
    (void)findElements(stored, elements);
    std::vector<unsigned char> image((elements.end - elements.begin) * size);
    if (const auto r = memory_->read(elements.begin * size, image.data(), image.size(), why)) return r;
    const auto *from = static_cast<const unsigned char *>(data);
    eachElement(stored, [&](uint64_t in, uint64_t n) { std::memcpy(image.data() + (in - elements.begin) * size, from + n * size, size); });
    return memory_->write(elements.begin * size, image.data(), image.size(), why);
}

vkattn_result DeviceTensor::download(void *data, uint64_t bytes, std::string *why) const {
    if (const auto r = checkCopy(memory_ != nullptr, layout_, data, bytes, why)) return r;
    if (bytes == 0) return VKATTN_OK;
    const uint64_t size = elementSize(layout_.dtype);
    const vkattn_layout stored = asStored(layout_);
    if (isDense(stored)) return memory_->read(stored.offsetElems * size, data, bytes, why);
    Elements elements;
    (void)findElements(stored, elements);
    std::vector<unsigned char> image((elements.end - elements.begin) * size);
    if (const auto r = memory_->read(elements.begin * size, image.data(), image.size(), why)) return r;
    auto *to = static_cast<unsigned char *>(data);
    eachElement(stored, [&](uint64_t in, uint64_t n) { std::memcpy(to + n * size, image.data() + (in - elements.begin) * size, size); });
    return VKATTN_OK;
}

} // namespace vkattn
