// Host memory for arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace vkattn::tool {

// Aligned for every dtype, as operator new is.
class HostBuffer {
  public:
    HostBuffer() = default;
    // Zeroed: what a broken kernel leaves unwritten must not be an earlier user's data.
    explicit HostBuffer(size_t bytes) : data_(std::make_unique<std::byte[]>(bytes)), bytes_(bytes) {}
    [[nodiscard]] std::byte *data() const { return data_.get(); }
    [[nodiscard]] size_t bytes() const { return bytes_; }
    [[nodiscard]] std::span<std::byte> span() const { return {data_.get(), bytes_}; }

  private:
    std::unique_ptr<std::byte[]> data_;
    size_t bytes_ = 0;
};

// RAM and swap of this machine, as far as this process may use them; 0 = unknown. Linux promises
// more memory than there is and kills the process when it is touched, so std::bad_alloc is no
// answer to a size that comes from a file.
[[nodiscard]] uint64_t usableMemoryBytes();

struct NamedBytes {
    std::string name; // the path of an array, or what it is
    uint64_t bytes;
};

// Throws Failure, with the largest, where the arrays together need more memory than this machine
// has.
void checkMemory(const std::vector<NamedBytes> &arrays);

} // namespace vkattn::tool
