// vkattn/vkattn.hpp: C++17 face of vkattn/problem.h and vkattn/vkattn.h. Header only, without
// exceptions, RTTI and allocation.
#pragma once

#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) < 201703L
#error "vkattn.hpp needs C++17 or later: compile with -std=c++17 (MSVC: /std:c++17), or use vkattn.h, which is C99 and C++11"
#endif

#include "vkattn/operations.hpp"
#include "vkattn/traits.hpp"
#include "vkattn/vkattn.h"

#include <cstddef>
#include <iterator>
#include <type_traits>
#include <utility>
#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) >= 202002L
#include <span>
#endif

namespace vkattn {

// A view of elements that are neighbours in memory. Anything that has data() and size() converts to
// a view: arrays, std::vector, std::array, std::span. The view is a type of its own because C++17
// has no std::span, and a program may mix language levels: this type is the same at each of them.
template <class T> class span {
    template <class Range>
    using Matching =
        std::enable_if_t<std::is_convertible_v<std::remove_pointer_t<decltype(std::data(std::declval<Range &>()))> (*)[], T (*)[]> &&
                         !std::is_same_v<std::remove_cv_t<Range>, span>>;

  public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;
    using size_type = std::size_t;
    using iterator = T *;

    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    template <class Range, class = Matching<Range>>
    constexpr span(Range &range) noexcept : data_(std::data(range)), size_(std::size(range)) {}
    template <class Range, class = Matching<const Range>>
    constexpr span(const Range &range) noexcept : data_(std::data(range)), size_(std::size(range)) {}

    [[nodiscard]] constexpr T *data() const noexcept { return data_; }
    [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
    [[nodiscard]] constexpr bool empty() const noexcept { return size_ == 0; }
    [[nodiscard]] constexpr T *begin() const noexcept { return data_; }
    [[nodiscard]] constexpr T *end() const noexcept { return data_ + size_; }
    [[nodiscard]] constexpr T &operator[](std::size_t n) const { return data_[n]; }

  private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};
template <class Range> span(Range &) -> span<std::remove_pointer_t<decltype(std::data(std::declval<Range &>()))>>;

} // namespace vkattn

// Functions that take a std::span take a vkattn::span.
#if defined(__cpp_lib_span) && defined(__cpp_lib_ranges)
template <class T> inline constexpr bool std::ranges::enable_borrowed_range<vkattn::span<T>> = true;
#endif

namespace vkattn {

// Returns the elements from one row of a densely packed tensor to the next: of small types, rows are whole
// blocks, or have their scale before them.
[[nodiscard]] constexpr int64_t rowElements(vkattn_dtype dtype, uint32_t dim) {
    if (isBlockType(dtype)) return (int64_t{dim} + elementsOfBlock(dtype) - 1) / elementsOfBlock(dtype) * elementsOfBlock(dtype);
    return dtype == VKATTN_INT8 ? (int64_t{dim} + 7) / 4 * 4 : int64_t{dim};
}
// Returns the bytes of such a row.
[[nodiscard]] constexpr int64_t rowBytes(vkattn_dtype dtype, uint32_t dim) {
    return rowElements(dtype, dim) / elementsOfBlock(dtype) * bytesOfBlock(dtype);
}

// Returns the layout of a tensor [batch, head, token, dim], densely packed with dim innermost
// (BHSD).
[[nodiscard]] constexpr vkattn_layout packed(vkattn_dtype dtype, uint32_t batch, uint32_t heads, uint32_t tokens, uint32_t dim) {
    const int64_t token = rowElements(dtype, dim), head = token * tokens, batchStride = head * heads;
    return {dtype, {batch, heads, tokens, dim}, {batchStride, head, token, 1}, 0};
}

// Returns the layout of the same tensor stored as [batch, token, head, dim] (BSHD), the order in
// which projections write it.
[[nodiscard]] constexpr vkattn_layout packedTokenMajor(vkattn_dtype dtype, uint32_t batch, uint32_t heads, uint32_t tokens, uint32_t dim) {
    const int64_t head = rowElements(dtype, dim), token = head * heads, batchStride = token * tokens;
    return {dtype, {batch, heads, tokens, dim}, {batchStride, head, token, 1}, 0};
}

// Returns a problem with all defaults. Options are set in its fields and flags.
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

// The kernels of the library, without AUTO:
//     for (const vkattn_kernel kernel : vkattn::KernelList())
class KernelList {
  public:
    KernelList() : count_(vkattnKernels(list_, capacity)) {}
    [[nodiscard]] const vkattn_kernel *begin() const { return list_; }
    [[nodiscard]] const vkattn_kernel *end() const { return list_ + (count_ < capacity ? count_ : capacity); }

  private:
    static constexpr uint32_t capacity = 32; // kernels are bits of vkattn_caps::wrongKernels
    vkattn_kernel list_[capacity] = {};
    uint32_t count_;
};

// Returns the description of a device before there is a VkDevice. The instance was created with
// `apiVersion`.
[[nodiscard]] inline vkattn_physical_device physicalDevice(PFN_vkGetInstanceProcAddr getInstanceProcAddr, VkInstance instance,
                                                           VkPhysicalDevice physicalDevice, uint32_t apiVersion) {
    return {sizeof(vkattn_physical_device), apiVersion, instance, physicalDevice, getInstanceProcAddr};
}

// Counts the extensions to enable, before vkCreateDevice, and writes them to `names` where `names`
// is not empty. Where `names` is too small the call fails, and `count` is the room that is needed.
// See vkattnDeviceExtensions.
[[nodiscard]] inline vkattn_result deviceExtensions(const vkattn_physical_device &device, vkattn_need need, uint32_t &count,
                                                    span<const char *> names = {}, vkattn_diagnostic *why = nullptr) {
    count = static_cast<uint32_t>(names.size());
    return vkattnDeviceExtensions(&device, need, &count, names.empty() ? nullptr : names.data(), why);
}

// Sets the features that help in your chain, before vkCreateDevice. `room` must live as long as the
// chain. See vkattnPatchDeviceFeatures.
[[nodiscard]] inline vkattn_result patchFeatures(const vkattn_physical_device &device, span<const char *const> extensions,
                                                 VkPhysicalDeviceFeatures2 &chain, vkattn_feature_storage &room,
                                                 vkattn_diagnostic *why = nullptr) {
    return vkattnPatchDeviceFeatures(&device, extensions.data(), static_cast<uint32_t>(extensions.size()), &chain, &room, why);
}

// Returns the caps that a context on such a device would plan with. See vkattnPhysicalDeviceCaps.
[[nodiscard]] inline vkattn_result physicalDeviceCaps(const vkattn_physical_device &device, span<const char *const> extensions,
                                                      const VkPhysicalDeviceFeatures2 *features, vkattn_caps &out,
                                                      vkattn_diagnostic *why = nullptr) {
    out.structSize = sizeof out;
    return vkattnPhysicalDeviceCaps(&device, extensions.data(), static_cast<uint32_t>(extensions.size()), features, &out, why);
}

// Returns the host of a context: the engine's handles, and how instance and device were created.
// `apiVersion` is the instance's VkApplicationInfo::apiVersion. Extensions and features are those
// of the device. Features that the host does not declare are not used: with an apiVersion below 1.1
// plans know no subgroups, and are several times slower. The other fields of vkattn_host may be set
// afterwards.
[[nodiscard]] constexpr vkattn_host host(PFN_vkGetInstanceProcAddr getInstanceProcAddr, VkInstance instance,
                                         VkPhysicalDevice physicalDevice, VkDevice device, uint32_t apiVersion,
                                         span<const char *const> enabledExtensions, const VkPhysicalDeviceFeatures2 *enabledFeatures) {
    vkattn_host h{};
    h.structSize = sizeof h;
    h.apiVersion = apiVersion;
    h.instance = instance;
    h.physicalDevice = physicalDevice;
    h.device = device;
    h.getInstanceProcAddr = getInstanceProcAddr;
    h.enabledExtensions = enabledExtensions.data();
    h.enabledExtensionCount = static_cast<uint32_t>(enabledExtensions.size());
    h.enabledFeatures = enabledFeatures;
    return h;
}

// Returns options of plans that need no context. The tuning file's bytes are read only during the
// calls that take the options.
[[nodiscard]] inline vkattn_plan_options planOptions(uint64_t maxWorkspaceBytes, span<const char> tuning = {}) {
    return {sizeof(vkattn_plan_options), 0, maxWorkspaceBytes, tuning.data(), tuning.size()};
}

// Says what the planner chooses, why, and what the choice costs. See vkattnExplain.
[[nodiscard]] inline vkattn_result explain(const vkattn_caps &caps, const vkattn_problem &problem, vkattn_explanation &out,
                                           const vkattn_plan_options &options = planOptions(0), vkattn_diagnostic *why = nullptr) {
    out.structSize = sizeof out;
    return vkattnExplain(&caps, &options, &problem, &out, why);
}

// Says why the planner does not take this kernel. See vkattnExplainKernel.
[[nodiscard]] inline vkattn_result explainKernel(const vkattn_caps &caps, const vkattn_problem &problem, vkattn_kernel kernel,
                                                 const vkattn_plan_options &options = planOptions(0), vkattn_diagnostic *why = nullptr) {
    return vkattnExplainKernel(&caps, &options, &problem, kernel, why);
}

// Returns what a list of the problem's dispatches needs (scratch memory, workspace and the like),
// without the list. See vkattnListDispatches.
[[nodiscard]] inline vkattn_result measureDispatches(const vkattn_caps &caps, const vkattn_problem &problem, vkattn_dispatch_list &list,
                                                     const vkattn_plan_options &options = planOptions(0),
                                                     vkattn_diagnostic *why = nullptr) {
    list.structSize = sizeof list;
    return vkattnListDispatches(&caps, &options, &problem, nullptr, 0, &list, why);
}

// Returns the problem's dispatches as plain data. The list lies in `scratch`, which is aligned to 8
// bytes, and lives as long as the scratch memory. See vkattnListDispatches.
[[nodiscard]] inline vkattn_result listDispatches(const vkattn_caps &caps, const vkattn_problem &problem, span<std::byte> scratch,
                                                  vkattn_dispatch_list &list, const vkattn_plan_options &options = planOptions(0),
                                                  vkattn_diagnostic *why = nullptr) {
    std::byte none[8]; // empty scratch is too small; it does not ask for the size
    list.structSize = sizeof list;
    return vkattnListDispatches(&caps, &options, &problem, scratch.empty() ? static_cast<void *>(none) : scratch.data(), scratch.size(),
                                &list, why);
}

// Says how any operation is computed. See vkattnExplainOperation.
[[nodiscard]] inline vkattn_result explain(const vkattn_caps &caps, const vkattn_operation &operation, vkattn_explanation &out,
                                           const vkattn_plan_options &options = planOptions(0), vkattn_diagnostic *why = nullptr) {
    out.structSize = sizeof out;
    return vkattnExplainOperation(&caps, &options, &operation, &out, why);
}

// Owns a vkattn_context. Move-only. vkattn.h says what each call promises. A context must be
// destroyed before its device. A class that has a Context as a member and destroys the VkDevice in
// its destructor calls reset() there first: members outlive the destructor's body.
class Context {
  public:
    Context() = default;
    ~Context() { reset(); }
    Context(Context &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Context &operator=(Context &&other) noexcept {
        if (this != &other) {
            reset();
            handle_ = std::exchange(other.handle_, nullptr);
        }
        return *this;
    }
    // Destroys the context, if there is one. No command buffer that was recorded with the context
    // may be pending. create() works again afterwards.
    void reset() noexcept { vkattnDestroyContext(std::exchange(handle_, nullptr)); }

    [[nodiscard]] vkattn_result create(const vkattn_host &host, vkattn_diagnostic *why = nullptr) {
        reset();
        return vkattnCreateContext(&host, &handle_, why);
    }
    [[nodiscard]] vkattn_result query(const vkattn_problem &problem, vkattn_requirements &out, vkattn_diagnostic *why = nullptr) const {
        out.structSize = sizeof out;
        return vkattnQuery(handle_, &problem, &out, why);
    }
    [[nodiscard]] vkattn_result prewarm(span<const vkattn_problem> problems, vkattn_diagnostic *why = nullptr) const {
        return vkattnPrewarm(handle_, problems.data(), static_cast<uint32_t>(problems.size()), why);
    }
    [[nodiscard]] vkattn_result record(const vkattn_problem &problem, VkCommandBuffer commandBuffer, span<const vkattn_binding> bindings,
                                       VkDescriptorPool descriptorPool = VK_NULL_HANDLE, vkattn_diagnostic *why = nullptr) const {
        return recordSlice(problem, 0, commandBuffer, bindings, descriptorPool, why);
    }
    // Records slice `slice` of problem.sliceCount slices.
    [[nodiscard]] vkattn_result recordSlice(const vkattn_problem &problem, uint32_t slice, VkCommandBuffer commandBuffer,
                                            span<const vkattn_binding> bindings, VkDescriptorPool descriptorPool = VK_NULL_HANDLE,
                                            vkattn_diagnostic *why = nullptr) const {
        const vkattn_record record = recordOf(commandBuffer, bindings, descriptorPool, slice);
        return vkattnRecord(handle_, &problem, &record, why);
    }
    // The same for any operation (vkattn/operations.hpp).
    [[nodiscard]] vkattn_result query(const vkattn_operation &operation, vkattn_requirements &out, vkattn_diagnostic *why = nullptr) const {
        out.structSize = sizeof out;
        return vkattnQueryOperation(handle_, &operation, &out, why);
    }
    [[nodiscard]] vkattn_result prewarm(span<const vkattn_operation> operations, vkattn_diagnostic *why = nullptr) const {
        return vkattnPrewarmOperations(handle_, operations.data(), static_cast<uint32_t>(operations.size()), why);
    }
    [[nodiscard]] vkattn_result record(const vkattn_operation &operation, VkCommandBuffer commandBuffer,
                                       span<const vkattn_binding> bindings, VkDescriptorPool descriptorPool = VK_NULL_HANDLE,
                                       vkattn_diagnostic *why = nullptr) const {
        const vkattn_record record = recordOf(commandBuffer, bindings, descriptorPool, 0);
        return vkattnRecordOperation(handle_, &operation, &record, why);
    }
    // The same for a layer (vkattn/layer.h).
    [[nodiscard]] vkattn_result query(const vkattn_layer &layer, vkattn_requirements &out, vkattn_diagnostic *why = nullptr) const {
        out.structSize = sizeof out;
        return vkattnQueryLayer(handle_, &layer, &out, why);
    }
    [[nodiscard]] vkattn_result prewarm(const vkattn_layer &layer, vkattn_diagnostic *why = nullptr) const {
        return vkattnPrewarmLayer(handle_, &layer, why);
    }
    [[nodiscard]] vkattn_result record(const vkattn_layer &layer, VkCommandBuffer commandBuffer, span<const vkattn_binding> bindings,
                                       VkDescriptorPool descriptorPool = VK_NULL_HANDLE, vkattn_diagnostic *why = nullptr) const {
        const vkattn_record record = recordOf(commandBuffer, bindings, descriptorPool, 0);
        return vkattnRecordLayer(handle_, &layer, &record, why);
    }
    // The same for a latent layer (vkattn/latent_layer.h).
    [[nodiscard]] vkattn_result query(const vkattn_latent_layer &layer, vkattn_requirements &out, vkattn_diagnostic *why = nullptr) const {
        out.structSize = sizeof out;
        return vkattnQueryLatentLayer(handle_, &layer, &out, why);
    }
    [[nodiscard]] vkattn_result prewarm(const vkattn_latent_layer &layer, vkattn_diagnostic *why = nullptr) const {
        return vkattnPrewarmLatentLayer(handle_, &layer, why);
    }
    [[nodiscard]] vkattn_result record(const vkattn_latent_layer &layer, VkCommandBuffer commandBuffer, span<const vkattn_binding> bindings,
                                       VkDescriptorPool descriptorPool = VK_NULL_HANDLE, vkattn_diagnostic *why = nullptr) const {
        const vkattn_record record = recordOf(commandBuffer, bindings, descriptorPool, 0);
        return vkattnRecordLatentLayer(handle_, &layer, &record, why);
    }
    // The same for the gradients of a layer (vkattn/layer_gradient.h).
    [[nodiscard]] vkattn_result query(const vkattn_layer_gradient &gradient, vkattn_requirements &out,
                                      vkattn_diagnostic *why = nullptr) const {
        out.structSize = sizeof out;
        return vkattnQueryLayerGradient(handle_, &gradient, &out, why);
    }
    [[nodiscard]] vkattn_result prewarm(const vkattn_layer_gradient &gradient, vkattn_diagnostic *why = nullptr) const {
        return vkattnPrewarmLayerGradient(handle_, &gradient, why);
    }
    [[nodiscard]] vkattn_result record(const vkattn_layer_gradient &gradient, VkCommandBuffer commandBuffer,
                                       span<const vkattn_binding> bindings, VkDescriptorPool descriptorPool = VK_NULL_HANDLE,
                                       vkattn_diagnostic *why = nullptr) const {
        const vkattn_record record = recordOf(commandBuffer, bindings, descriptorPool, 0);
        return vkattnRecordLayerGradient(handle_, &gradient, &record, why);
    }
    // Returns the sliceCount that keeps each slice below `microseconds` of device time.
    [[nodiscard]] vkattn_result slicesForBudget(const vkattn_problem &problem, double microseconds, uint32_t &sliceCount,
                                                vkattn_diagnostic *why = nullptr) const {
        return vkattnSlicesForBudget(handle_, &problem, microseconds, &sliceCount, why);
    }
    [[nodiscard]] vkattn_result caps(vkattn_caps &out) const {
        out.structSize = sizeof out;
        return vkattnContextCaps(handle_, &out);
    }
    [[nodiscard]] vkattn_result setVerdict(vkattn_kernel kernel, vkattn_verdict verdict, vkattn_diagnostic *why = nullptr) const {
        return vkattnSetVerdict(handle_, kernel, verdict, why);
    }
    [[nodiscard]] vkattn_result setExactHalves(bool exact, vkattn_diagnostic *why = nullptr) const {
        return vkattnSetExactHalves(handle_, exact ? 1u : 0u, why);
    }
    [[nodiscard]] vkattn_result selfTestQuery(vkattn_kernel kernel, vkattn_self_test &out, vkattn_diagnostic *why = nullptr) const {
        out.structSize = sizeof out;
        return vkattnSelfTestQuery(handle_, kernel, &out, why);
    }
    [[nodiscard]] vkattn_result selfTestFill(vkattn_kernel kernel, void *mapped, vkattn_diagnostic *why = nullptr) const {
        return vkattnSelfTestFill(handle_, kernel, mapped, why);
    }
    [[nodiscard]] vkattn_result selfTestRecord(vkattn_kernel kernel, VkCommandBuffer commandBuffer, VkBuffer buffer, VkDeviceSize offset,
                                               VkDescriptorPool descriptorPool = VK_NULL_HANDLE, vkattn_diagnostic *why = nullptr) const {
        return vkattnSelfTestRecord(handle_, kernel, commandBuffer, descriptorPool, buffer, offset, why);
    }
    [[nodiscard]] vkattn_result selfTestJudge(vkattn_kernel kernel, const void *mapped, vkattn_verdict &verdict,
                                              vkattn_diagnostic *why = nullptr) const {
        return vkattnSelfTestJudge(handle_, kernel, mapped, &verdict, why);
    }
    // Returns the size of the pipelines as a blob.
    [[nodiscard]] vkattn_result cacheBytes(size_t &bytes, vkattn_diagnostic *why = nullptr) const {
        return vkattnExportCache(handle_, &bytes, nullptr, why);
    }
    // Writes the pipelines as a blob to `data`. `bytes` is the part of `data` that was written.
    [[nodiscard]] vkattn_result exportCache(span<std::byte> data, size_t &bytes, vkattn_diagnostic *why = nullptr) const {
        std::byte none[1];
        bytes = data.size();
        return vkattnExportCache(handle_, &bytes, data.empty() ? none : data.data(), why);
    }
    [[nodiscard]] vkattn_result importCache(span<const std::byte> data, vkattn_diagnostic *why = nullptr) const {
        return vkattnImportCache(handle_, data.size(), data.data(), why);
    }
    [[nodiscard]] vkattn_context handle() const { return handle_; }
    [[nodiscard]] explicit operator bool() const { return handle_ != nullptr; }

  private:
    [[nodiscard]] static vkattn_record recordOf(VkCommandBuffer commandBuffer, span<const vkattn_binding> bindings,
                                                VkDescriptorPool descriptorPool, uint32_t slice) {
        vkattn_record record{};
        record.structSize = sizeof record;
        record.commandBuffer = commandBuffer;
        record.bindings = bindings.data();
        record.bindingCount = static_cast<uint32_t>(bindings.size());
        record.descriptorPool = descriptorPool;
        record.sliceIndex = slice;
        return record;
    }

    vkattn_context handle_ = nullptr;
};

} // namespace vkattn
