// vkattn/vkattn.hpp: C++20 face of vkattn/problem.h and vkattn/vkattn.h. Header only; no exceptions, no RTTI, no allocation.
#pragma once

#include "vkattn/vkattn.h"

#include <span>
#include <utility>

namespace vkattn {

// [batch, head, token, dim], densely packed with dim innermost (BHSD).
[[nodiscard]] constexpr vkattn_layout packed(vkattn_dtype dtype, uint32_t batch, uint32_t heads, uint32_t tokens, uint32_t dim) {
    const int64_t token = dim, head = token * tokens, batchStride = head * heads;
    return {dtype, {batch, heads, tokens, dim}, {batchStride, head, token, 1}, 0};
}

// The same tensor stored [batch, token, head, dim] (BSHD), as projections leave it.
[[nodiscard]] constexpr vkattn_layout packedTokenMajor(vkattn_dtype dtype, uint32_t batch, uint32_t heads, uint32_t tokens, uint32_t dim) {
    const int64_t head = dim, token = head * heads, batchStride = token * tokens;
    return {dtype, {batch, heads, tokens, dim}, {batchStride, head, token, 1}, 0};
}

// A problem with all defaults. Add options to the fields and flags.
[[nodiscard]] constexpr vkattn_problem problem(const vkattn_layout &q, const vkattn_layout &k, const vkattn_layout &v,
                                               const vkattn_layout &out) {
    vkattn_problem p{};
    p.structSize = sizeof p;
    p.q = q;
    p.k = k;
    p.v = v;
    p.out = out;
    return p;
}

// Owns a vkattn_context. Move-only; see vkattn.h for what each call promises.
class Context {
  public:
    Context() = default;
    ~Context() { vkattnDestroyContext(handle_); }
    Context(Context &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Context &operator=(Context &&other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }

    [[nodiscard]] vkattn_result create(const vkattn_host &host, vkattn_diagnostic *why = nullptr) {
        vkattnDestroyContext(std::exchange(handle_, nullptr));
        return vkattnCreateContext(&host, &handle_, why);
    }
    [[nodiscard]] vkattn_result query(const vkattn_problem &problem, vkattn_requirements &out, vkattn_diagnostic *why = nullptr) const {
        out.structSize = sizeof out;
        return vkattnQuery(handle_, &problem, &out, why);
    }
    [[nodiscard]] vkattn_result prewarm(std::span<const vkattn_problem> problems, vkattn_diagnostic *why = nullptr) const {
        return vkattnPrewarm(handle_, problems.data(), static_cast<uint32_t>(problems.size()), why);
    }
    [[nodiscard]] vkattn_result record(const vkattn_problem &problem, VkCommandBuffer commandBuffer,
                                       std::span<const vkattn_binding> bindings, VkDescriptorPool descriptorPool = VK_NULL_HANDLE,
                                       vkattn_diagnostic *why = nullptr) const {
        vkattn_record record{};
        record.structSize = sizeof record;
        record.commandBuffer = commandBuffer;
        record.bindings = bindings.data();
        record.bindingCount = static_cast<uint32_t>(bindings.size());
        record.descriptorPool = descriptorPool;
        return vkattnRecord(handle_, &problem, &record, why);
    }
    [[nodiscard]] vkattn_context handle() const { return handle_; }
    [[nodiscard]] explicit operator bool() const { return handle_ != nullptr; }

  private:
    vkattn_context handle_ = nullptr;
};

} // namespace vkattn
