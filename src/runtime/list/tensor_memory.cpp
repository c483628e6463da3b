#include "runtime/list/tensor_memory.hpp"

#include <new>

namespace vkattn {

vkattn_result failed(vkattn_result result, std::string reason, std::string *why) {
    if (why) *why = std::move(reason);
    return result;
}

vkattn_result TensorMemory::outcome(Device::Failure failure, std::string *why) {
    return failure ? failed(failure.result, runtime_->reasonOf(failure), why) : VKATTN_OK;
}

std::shared_ptr<TensorMemory> TensorMemory::create(std::shared_ptr<Runtime::Impl> runtime, uint64_t bytes, vkattn_result &result,
                                                   std::string *why) {
    std::shared_ptr<TensorMemory> memory(new TensorMemory(std::move(runtime), bytes));
    Runtime::Impl &impl = *memory->runtime_;
    if (!impl.device) {
        const uint64_t words = bytes / 8 + 1;
        memory->host_.reset(new (std::nothrow) uint64_t[words]());
        result = memory->host_ ? VKATTN_OK
                               : failed(VKATTN_ERROR_OUT_OF_HOST_MEMORY,
                                        "out of host memory for a tensor of " + std::to_string(bytes) + " bytes", why);
        memory->address_ = reinterpret_cast<unsigned char *>(memory->host_.get());
    } else if (!impl.lost.empty()) {
        result = failed(VKATTN_ERROR_DEVICE_LOST, impl.lost, why);
    } else {
        result = memory->outcome(impl.device->makeTensor(memory->buffer_, bytes), why);
        // Each memory has a terabyte of addresses that nothing ever reads.
        memory->address_ = memory->buffer_.mapped
                               ? memory->buffer_.mapped
                               : reinterpret_cast<unsigned char *>(static_cast<uintptr_t>(++impl.unreachableMemories << 40));
    }
    return result == VKATTN_OK ? memory : nullptr;
}

TensorMemory::~TensorMemory() {
    if (runtime_->device) runtime_->device->freeTensor(buffer_);
}

vkattn_result TensorMemory::read(uint64_t offset, void *data, uint64_t count, std::string *why) {
    if (!runtime_->lost.empty()) return failed(VKATTN_ERROR_DEVICE_LOST, runtime_->lost, why);
    if (runtime_->device) return outcome(runtime_->device->readTensor(buffer_, offset, data, count), why);
    std::memcpy(data, address_ + offset, count);
    return VKATTN_OK;
}

vkattn_result TensorMemory::write(uint64_t offset, const void *data, uint64_t count, std::string *why) {
    if (!runtime_->lost.empty()) return failed(VKATTN_ERROR_DEVICE_LOST, runtime_->lost, why);
    if (runtime_->device) return outcome(runtime_->device->writeTensor(buffer_, offset, data, count), why);
    std::memcpy(address_ + offset, data, count);
    return VKATTN_OK;
}

} // namespace vkattn
