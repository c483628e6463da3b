// A logical device that the runtime owns: queue, command buffer, fence, timestamps, memory, and the
// vkattn context on the device.
#pragma once

#include "runtime/instance.hpp"
#include "runtime/list/host_shader.hpp"

namespace vkattn {

// Memory for one operand, mapped where the host can reach the memory.
struct Buffer {
    VkBuffer buffer = VK_NULL_HANDLE;
    VkDeviceMemory memory = VK_NULL_HANDLE;
    uint64_t size = 0;
    unsigned char *mapped = nullptr;
};

class Device {
  public:
    // Returns NULL with the reason where the device cannot be created.
    [[nodiscard]] static std::unique_ptr<Device> create(const Instance &instance, const Instance::Found &found,
                                                        const RuntimeOptions &options, std::string &why);
    ~Device();
    Device(const Device &) = delete;
    Device &operator=(const Device &) = delete;

    // The outcome of a call. On failure `vkResult` and `why` say what happened; the device is
    // usable again unless it is lost.
    struct Failure {
        VkResult vkResult = VK_SUCCESS;
        vkattn_result result = VKATTN_OK;
        std::string why;
        explicit operator bool() const { return result != VKATTN_OK; }
    };
    struct Timing {
        std::vector<double> samplesMilliseconds;
        double longestSliceMilliseconds = 0; // median time of each repeat's longest slice
        bool deviceTimestamps = false;
    };
    // `slices`: how often the operation is recorded, each time the next slice.
    [[nodiscard]] Failure run(const vkattn_operation &operation, uint32_t slices, const vkattn_requirements &requirements,
                              std::span<const vkattn_operand_memory> operands, const RunOptions &options, Timing &timing);

    // Runs the problem on buffers of any content. Its pipelines are compiled afterwards, at
    // whatever call the driver compiles.
    [[nodiscard]] Failure warmUp(const vkattn_problem &problem);

    // Compares the kernel with the staged kernel (trial.cpp). The verdict is TRUSTED, or WRONG with
    // what differed, and the context refuses a wrong kernel from then on.
    [[nodiscard]] Failure selfTest(vkattn_kernel kernel, vkattn_verdict &verdict, std::string &difference);
    // Computes attention over one key a row whose values are all halves, unpacked by unpackHalf2x16:
    // sets `exact` where each comes out as its value. Leaves the context's exactHalves at 1.
    [[nodiscard]] Failure tryHalves(bool &exact);
    // Times the kernel on a middling problem against the kernel that AUTO takes without the kernels
    // `without` (1 << vkattn_kernel). Takes tens of milliseconds.
    [[nodiscard]] Failure isSlower(vkattn_kernel kernel, uint32_t without, bool &slower);

    [[nodiscard]] vkattn_context context() const { return context_; }

    // Waits for what was submitted without waiting. Then nothing on the device uses any memory.
    [[nodiscard]] Failure finish();

    // Memory of tensors (buffers.cpp). A tensor begins as zeros. What is submitted has finished
    // before the host reads or writes, and before memory is freed.
    [[nodiscard]] Failure makeTensor(Buffer &buffer, uint64_t bytes);
    void freeTensor(Buffer &buffer);
    [[nodiscard]] Failure readTensor(const Buffer &from, uint64_t offset, void *data, uint64_t bytes);
    [[nodiscard]] Failure writeTensor(Buffer &to, uint64_t offset, const void *data, uint64_t bytes);

  private:
    friend class RecordedList;
    Device() = default;
    [[nodiscard]] bool open(const Instance &instance, const Instance::Found &found, const RuntimeOptions &options, std::string &why);

    // Implemented in buffers.cpp.
    [[nodiscard]] Failure reserve(Buffer &buffer, uint64_t bytes, bool hostVisible);
    void release(Buffer &buffer);
    void releaseAll();
    [[nodiscard]] int memoryType(uint32_t allowed, bool hostVisible) const;
    [[nodiscard]] Failure upload(Buffer &to, const void *data, uint64_t bytes, uint64_t offset = 0);
    [[nodiscard]] Failure download(const Buffer &from, void *data, uint64_t bytes, uint64_t offset = 0);
    // `data` NULL: zeros.
    [[nodiscard]] Failure copyThroughStaging(const Buffer &buffer, uint64_t offset, unsigned char *data, uint64_t bytes, bool toDevice);

    [[nodiscard]] Failure createCommandBuffer(VkCommandPool &pool, VkCommandBuffer &commands);
    [[nodiscard]] Failure createDescriptorPool(uint32_t sets, uint32_t storageDescriptors, VkDescriptorPool &pool);
    [[nodiscard]] Failure begin();
    [[nodiscard]] Failure begin(VkCommandBuffer commands, VkCommandBufferUsageFlags usage);
    // Between the two calls the device's time is measured, and operations see all that was written
    // before them: by copies, and by earlier submits of any command buffer.
    void startTimed(VkCommandBuffer commands);
    [[nodiscard]] Failure endTimed(VkCommandBuffer commands);
    [[nodiscard]] Failure recordOperation(VkCommandBuffer commands, const vkattn_operation &operation,
                                          std::span<const vkattn_binding> bindings, VkDescriptorPool descriptors, uint32_t slice);
    // Shaders of the host's, implemented in list/host_shader.cpp.
    [[nodiscard]] Failure checkLimits(const HostShader &shader) const;
    // Makes the pipeline at its first use. It lives as long as the device.
    [[nodiscard]] Failure findPipeline(const HostShader &shader, const HostShaderPipeline *&found);
    [[nodiscard]] Failure makePipeline(const HostShader &shader, HostShaderPipeline &made);
    void release(HostShaderPipeline &made);
    [[nodiscard]] Failure recordShader(VkCommandBuffer commands, const HostShader &shader, const HostShaderPipeline &pipeline,
                                       VkDescriptorPool descriptors);
    void computeBarrier(VkCommandBuffer commands) const;
    void barrier(VkCommandBuffer commands, VkPipelineStageFlags fromStages, VkAccessFlags fromAccess, VkPipelineStageFlags toStages,
                 VkAccessFlags toAccess) const;
    [[nodiscard]] Failure recordSlice(const vkattn_operation &operation, std::span<const vkattn_binding> bindings, uint32_t slice);
    // `commands` NULL: nothing but the fence, where there is one.
    [[nodiscard]] Failure submit(VkCommandBuffer commands, VkFence fence = VK_NULL_HANDLE);
    [[nodiscard]] Failure submitAndWait(VkCommandBuffer commands);
    // Measures by the wall clock, and sets `deviceTimestamps` to false, where the device has no
    // timestamps or does not return them.
    [[nodiscard]] Failure submitTimed(VkCommandBuffer commands, double &milliseconds, bool &deviceTimestamps);
    [[nodiscard]] Failure prepareDescriptorPool(const vkattn_requirements &requirements);
    // Binds buffers of any content.
    [[nodiscard]] Failure bindAnything(const vkattn_problem &problem, std::vector<vkattn_binding> &bindings);
    // Returns the median of three runs.
    [[nodiscard]] Failure time(const vkattn_problem &problem, double &milliseconds);
    [[nodiscard]] static Failure failed(const char *call, VkResult result);

    RuntimeDeviceTable table_;
    VkDevice device_ = VK_NULL_HANDLE;
    uint32_t family_ = 0;
    VkQueue queue_ = VK_NULL_HANDLE;
    bool pending_ = false; // something is submitted that nobody has waited for
    VkCommandPool pool_ = VK_NULL_HANDLE;
    VkCommandBuffer commands_ = VK_NULL_HANDLE;
    VkFence fence_ = VK_NULL_HANDLE;
    VkQueryPool queries_ = VK_NULL_HANDLE; // NULL: no timestamps
    VkDescriptorPool descriptors_ = VK_NULL_HANDLE;
    uint32_t descriptorSets_ = 0, storageDescriptors_ = 0; // what the pool has room for
    uint64_t timestampMask_ = 0;
    double timestampPeriod_ = 0; // nanoseconds for a tick
    VkPhysicalDeviceMemoryProperties memory_{};
    bool unified_ = false; // the device computes from memory that the host can reach
    vkattn_context context_ = nullptr;
    Buffer buffers_[VKATTN_ROLE_LIMIT], staging_;
    std::vector<std::unique_ptr<HostShaderPipeline>> shaders_;
};

} // namespace vkattn
