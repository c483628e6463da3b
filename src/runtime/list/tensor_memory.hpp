// Memory of device tensors.
#pragma once

#include "runtime/runtime_impl.hpp"
#include "vkattn/list.hpp"

namespace vkattn {

class TensorMemory {
  public:
    // Returns zeroed memory on the Runtime's device, or of the host where the CPU computes; NULL
    // with the reason.
    [[nodiscard]] static std::shared_ptr<TensorMemory> create(std::shared_ptr<Runtime::Impl> runtime, uint64_t bytes, vkattn_result &result,
                                                              std::string *why);
    ~TensorMemory();
    TensorMemory(const TensorMemory &) = delete;
    TensorMemory &operator=(const TensorMemory &) = delete;

    [[nodiscard]] Runtime::Impl &runtime() const { return *runtime_; }
    [[nodiscard]] uint64_t bytes() const { return bytes_; }
    [[nodiscard]] VkBuffer buffer() const { return buffer_.buffer; }
    // The whole memory as an operand of the calls of vkattn/cpu.h. Where the host cannot reach the
    // memory the address only tells different memories apart.
    [[nodiscard]] unsigned char *address() const { return address_; }

    // Copy bytes between the host and [offset, offset + count) of the memory. What is submitted
    // has finished before.
    [[nodiscard]] vkattn_result read(uint64_t offset, void *data, uint64_t count, std::string *why);
    [[nodiscard]] vkattn_result write(uint64_t offset, const void *data, uint64_t count, std::string *why);

  private:
    TensorMemory(std::shared_ptr<Runtime::Impl> runtime, uint64_t bytes) : runtime_(std::move(runtime)), bytes_(bytes) {}
    [[nodiscard]] vkattn_result outcome(Device::Failure failure, std::string *why);

    std::shared_ptr<Runtime::Impl> runtime_;
    uint64_t bytes_;
    Buffer buffer_;
    std::unique_ptr<uint64_t[]> host_;
    unsigned char *address_ = nullptr;
};

// The result of most failures.
inline constexpr vkattn_result invalid = VKATTN_ERROR_INVALID_ARGUMENT;
// Sets *why, where there is one, and returns the result.
vkattn_result failed(vkattn_result result, std::string reason, std::string *why);

} // namespace vkattn
