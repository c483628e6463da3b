// How the memory that a caller lends to a call is divided: the parts of the call, and the scratch memory of
// each thread. All parts are whole cache lines.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vkattn {

inline constexpr uint64_t workspaceAlignment = 64;

[[nodiscard]] constexpr uint64_t ceilDivide(uint64_t a, uint64_t b) {
    return (a + b - 1) / b;
}
// Returns the bytes of a part.
[[nodiscard]] constexpr uint64_t aligned(uint64_t bytes) {
    return ceilDivide(bytes, workspaceAlignment) * workspaceAlignment;
}
// Returns the floats of a part.
[[nodiscard]] constexpr size_t wholeLines(size_t floats) {
    return (floats + 15) / 16 * 16;
}

// Hands out the parts of a workspace, which has workspaceAlignment bytes more than they have: the caller's
// memory may begin anywhere.
class WorkspaceParts {
  public:
    explicit WorkspaceParts(void *workspace) : next_(static_cast<unsigned char *>(workspace)) {
        if (next_) next_ += (workspaceAlignment - reinterpret_cast<uintptr_t>(next_) % workspaceAlignment) % workspaceAlignment;
    }
    // Takes a part, whose size is what aligned() returned.
    template <class Element> [[nodiscard]] Element *take(uint64_t bytes) {
        auto *const part = reinterpret_cast<Element *>(next_);
        next_ += bytes;
        return part;
    }
    // Returns the memory after all parts that were taken.
    [[nodiscard]] unsigned char *rest() const { return next_; }

  private:
    unsigned char *next_;
};

// Lays out scratch memory, in floats from its start.
class ScratchParts {
  public:
    void place(size_t &part, size_t floats) {
        part = end_;
        end_ += wholeLines(floats);
    }
    [[nodiscard]] size_t total() const { return end_; }

  private:
    size_t end_ = 0;
};

} // namespace vkattn
