#include "runtime/device.hpp"

#include "runtime/layouts.hpp"
#include "runtime/median.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace vkattn {

std::unique_ptr<Device> Device::create(const Instance &instance, const Instance::Found &found, const RuntimeOptions &options,
                                       std::string &why) {
    std::unique_ptr<Device> device(new Device);
    if (!device->open(instance, found, options, why)) return nullptr;
    return device;
}

bool Device::open(const Instance &instance, const Instance::Found &found, const RuntimeOptions &options, std::string &why) {
    const InstanceTable &it = instance.table();
    uint32_t familyCount = 0;
    it.GetPhysicalDeviceQueueFamilyProperties(found.handle, &familyCount, nullptr);
    std::vector<VkQueueFamilyProperties> families(familyCount);
    it.GetPhysicalDeviceQueueFamilyProperties(found.handle, &familyCount, families.data());
    uint32_t family = 0;
    while (family < familyCount && !(families[family].queueFlags & VK_QUEUE_COMPUTE_BIT)) ++family;
    if (family == familyCount) {
        why = "the device has no queue family with compute";
        return false;
    }

    const std::vector<const char *> extensions = instance.deviceExtensions(found.handle);
    DeviceFeatures features;
    const bool patched = instance.deviceFeatures(found.handle, extensions, features);
    const float priority = 1.0f;
    VkDeviceQueueCreateInfo queueInfo{};
    queueInfo.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queueInfo.queueFamilyIndex = family;
    queueInfo.queueCount = 1;
    queueInfo.pQueuePriorities = &priority;
    VkDeviceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    info.pNext = patched ? &features.chain : nullptr;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queueInfo;
    info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
    info.ppEnabledExtensionNames = extensions.data();
    if (const VkResult r = it.CreateDevice(found.handle, &info, nullptr, &device_)) {
        device_ = VK_NULL_HANDLE;
        why = failureText("vkCreateDevice", r);
        return false;
    }
    if (!table_.load(it.GetDeviceProcAddr, device_)) {
        why = "the device lacks a Vulkan 1.0 function";
        return false;
    }
    it.GetPhysicalDeviceMemoryProperties(found.handle, &memory_);
    unified_ = found.info.type == DeviceType::cpu || found.info.type == DeviceType::integrated;
    table_.GetDeviceQueue(device_, family, 0, &queue_);
    family_ = family;
    Failure failure = createCommandBuffer(pool_, commands_);
    if (!failure) {
        VkFenceCreateInfo fenceInfo{};
        fenceInfo.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
        if (const VkResult r = table_.CreateFence(device_, &fenceInfo, nullptr, &fence_)) {
            fence_ = VK_NULL_HANDLE;
            failure = failed("vkCreateFence", r);
        }
    }
    if (failure) {
        why = failure.why;
        return false;
    }
    VkPhysicalDeviceProperties properties;
    it.GetPhysicalDeviceProperties(found.handle, &properties);
    const uint32_t bits = families[family].timestampValidBits;
    timestampPeriod_ = static_cast<double>(properties.limits.timestampPeriod);
    if (bits && timestampPeriod_ > 0) {
        timestampMask_ = bits >= 64 ? ~0ull : (1ull << bits) - 1;
        VkQueryPoolCreateInfo queryInfo{};
        queryInfo.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
        queryInfo.queryType = VK_QUERY_TYPE_TIMESTAMP;
        queryInfo.queryCount = 2;
        // Without a query pool the wall clock measures time.
        if (table_.CreateQueryPool(device_, &queryInfo, nullptr, &queries_)) queries_ = VK_NULL_HANDLE;
    }

    vkattn_host host{};
    host.structSize = sizeof host;
    host.apiVersion = instance.apiVersion();
    host.instance = instance.handle();
    host.physicalDevice = found.handle;
    host.device = device_;
    host.getInstanceProcAddr = it.getInstanceProcAddr;
    host.enabledExtensions = extensions.data();
    host.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
    host.enabledFeatures = patched ? &features.chain : nullptr;
    host.maxWorkspaceBytes = options.maxWorkspaceBytes;
    host.tuning = options.tuning.data();
    host.tuningBytes = options.tuning.size();
    host.capsLimit = options.capsLimit ? &*options.capsLimit : nullptr;
    vkattn_diagnostic diagnostic{};
    if (vkattnCreateContext(&host, &context_, &diagnostic) != VKATTN_OK) {
        why = diagnostic.message;
        return false;
    }
    vkattn_caps caps{};
    caps.structSize = sizeof caps;
    if (vkattnContextCaps(context_, &caps) == VKATTN_OK && caps.pushDescriptors)
        table_.CmdPushDescriptorSet =
            reinterpret_cast<PFN_vkCmdPushDescriptorSetKHR>(it.GetDeviceProcAddr(device_, "vkCmdPushDescriptorSetKHR"));
    return true;
}

Device::Failure Device::createCommandBuffer(VkCommandPool &pool, VkCommandBuffer &commands) {
    VkCommandPoolCreateInfo poolInfo{};
    poolInfo.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    poolInfo.queueFamilyIndex = family_;
    // The handle is undefined after a call that failed.
    if (const VkResult r = table_.CreateCommandPool(device_, &poolInfo, nullptr, &pool)) {
        pool = VK_NULL_HANDLE;
        return failed("vkCreateCommandPool", r);
    }
    VkCommandBufferAllocateInfo allocate{};
    allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    allocate.commandPool = pool;
    allocate.commandBufferCount = 1;
    if (const VkResult r = table_.AllocateCommandBuffers(device_, &allocate, &commands)) return failed("vkAllocateCommandBuffers", r);
    return {};
}

Device::~Device() {
    vkattnDestroyContext(context_);
    if (!device_) return;
    if (table_.DestroyDevice) {
        table_.DeviceWaitIdle(device_);
        releaseAll();
        for (const auto &each : shaders_) release(*each);
        if (descriptors_) table_.DestroyDescriptorPool(device_, descriptors_, nullptr);
        if (queries_) table_.DestroyQueryPool(device_, queries_, nullptr);
        if (fence_) table_.DestroyFence(device_, fence_, nullptr);
        if (pool_) table_.DestroyCommandPool(device_, pool_, nullptr);
        table_.DestroyDevice(device_, nullptr);
    }
}

Device::Failure Device::failed(const char *call, VkResult result) {
    const bool exhausted =
        result == VK_ERROR_OUT_OF_DEVICE_MEMORY || result == VK_ERROR_OUT_OF_POOL_MEMORY || result == VK_ERROR_FRAGMENTED_POOL;
    const vkattn_result code = result == VK_ERROR_DEVICE_LOST          ? VKATTN_ERROR_DEVICE_LOST
                               : result == VK_ERROR_OUT_OF_HOST_MEMORY ? VKATTN_ERROR_OUT_OF_HOST_MEMORY
                               : exhausted                             ? VKATTN_ERROR_OUT_OF_DEVICE_MEMORY
                                                                       : VKATTN_ERROR_VULKAN;
    return {result, code, failureText(call, result)};
}

Device::Failure Device::begin() {
    if (const VkResult r = table_.ResetCommandPool(device_, pool_, 0)) return failed("vkResetCommandPool", r);
    return begin(commands_, 0);
}

Device::Failure Device::begin(VkCommandBuffer commands, VkCommandBufferUsageFlags usage) {
    VkCommandBufferBeginInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    info.flags = usage;
    if (const VkResult r = table_.BeginCommandBuffer(commands, &info)) return failed("vkBeginCommandBuffer", r);
    return {};
}

Device::Failure Device::submit(VkCommandBuffer commands, VkFence fence) {
    VkSubmitInfo submit{};
    submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    submit.commandBufferCount = commands ? 1 : 0;
    submit.pCommandBuffers = &commands;
    if (const VkResult r = table_.QueueSubmit(queue_, 1, &submit, fence)) return failed("vkQueueSubmit", r);
    pending_ = true;
    return {};
}

Device::Failure Device::submitAndWait(VkCommandBuffer commands) {
    if (const VkResult r = table_.ResetFences(device_, 1, &fence_)) return failed("vkResetFences", r);
    // The fence of a submit waits for all that was submitted before, too.
    if (auto f = submit(commands, fence_)) return f;
    pending_ = false; // whatever happens: after a failure there is nothing more to wait for
    if (const VkResult r = table_.WaitForFences(device_, 1, &fence_, VK_TRUE, UINT64_MAX)) {
        // Memory that running work may still use must not be freed or used again.
        table_.DeviceWaitIdle(device_);
        return failed("vkWaitForFences", r);
    }
    return {};
}

Device::Failure Device::finish() {
    if (!pending_) return {};
    auto failure = submitAndWait(VK_NULL_HANDLE);
    if (failure) {
        table_.DeviceWaitIdle(device_);
        pending_ = false;
    }
    return failure;
}

Device::Failure Device::createDescriptorPool(uint32_t sets, uint32_t storageDescriptors, VkDescriptorPool &pool) {
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, storageDescriptors};
    VkDescriptorPoolCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
    info.maxSets = sets;
    info.poolSizeCount = 1;
    info.pPoolSizes = &size;
    if (const VkResult r = table_.CreateDescriptorPool(device_, &info, nullptr, &pool)) {
        pool = VK_NULL_HANDLE;
        return failed("vkCreateDescriptorPool", r);
    }
    return {};
}

Device::Failure Device::prepareDescriptorPool(const vkattn_requirements &requirements) {
    if (!requirements.descriptorSetCount) return {};
    if (descriptors_ && requirements.descriptorSetCount <= descriptorSets_ && requirements.storageDescriptorCount <= storageDescriptors_) {
        if (const VkResult r = table_.ResetDescriptorPool(device_, descriptors_, 0)) return failed("vkResetDescriptorPool", r);
        return {};
    }
    if (descriptors_) table_.DestroyDescriptorPool(device_, descriptors_, nullptr);
    if (auto f = createDescriptorPool(requirements.descriptorSetCount, requirements.storageDescriptorCount, descriptors_)) return f;
    descriptorSets_ = requirements.descriptorSetCount;
    storageDescriptors_ = requirements.storageDescriptorCount;
    return {};
}

namespace {

// Returns NULL for the role of an input, and for an array.
const vkattn_layout *outputTensor(const vkattn_operation &operation, vkattn_role role) {
    const auto of = operation.of;
    switch (operation.kind) {
    case VKATTN_ATTENTION:
        return role == VKATTN_OUT       ? &of.attention->out
               : role == VKATTN_LSE     ? &of.attention->lse
               : role == VKATTN_WEIGHTS ? &of.attention->weights
               : role == VKATTN_SCORES  ? &of.attention->scores
                                        : nullptr;
    case VKATTN_PROJECTION:
        return role == VKATTN_Y ? &of.projection->y : nullptr;
    case VKATTN_NORM:
        return role == VKATTN_Y ? &of.norm->y : role == VKATTN_SUM ? &of.norm->sum : nullptr;
    case VKATTN_ROTARY:
        return role == VKATTN_Y ? &of.rotary->y : nullptr;
    case VKATTN_APPEND:
        return role == VKATTN_Y ? &of.append->y : nullptr;
    case VKATTN_ADVANCE:
        return role == VKATTN_Y ? &of.advance->y : nullptr;
    case VKATTN_MEAN:
        return role == VKATTN_Y ? &of.mean->y : nullptr;
    case VKATTN_MERGE:
        return role == VKATTN_Y ? &of.merge->y : role == VKATTN_LSE ? &of.merge->lse : nullptr;
    case VKATTN_HADAMARD:
        return role == VKATTN_Y ? &of.hadamard->y : nullptr;
    case VKATTN_KEEP:
        return role == VKATTN_Y ? &of.keep->y : nullptr;
    case VKATTN_DROP:
        return role == VKATTN_Y ? &of.drop->y : nullptr;
    case VKATTN_ATTENTION_GRADIENT:
        return role == VKATTN_D_Q      ? &of.attentionGradient->dQ
               : role == VKATTN_D_K    ? &of.attentionGradient->dK
               : role == VKATTN_D_V    ? &of.attentionGradient->dV
               : role == VKATTN_D_BIAS ? &of.attentionGradient->dBias
                                       : nullptr;
    case VKATTN_ATTENTION_STATISTICS:
        return role == VKATTN_STATISTICS    ? &of.attentionStatistics->statistics
               : role == VKATTN_RECEIVED    ? &of.attentionStatistics->received
               : role == VKATTN_TOP_WEIGHTS ? &of.attentionStatistics->topWeights
               : role == VKATTN_TOP_KEYS    ? &of.attentionStatistics->topKeys
                                            : nullptr;
    case VKATTN_LINEAR_ATTENTION:
        return role == VKATTN_OUT         ? &of.linearAttention->out
               : role == VKATTN_STATE_OUT ? &of.linearAttention->stateOut
               : role == VKATTN_SNAPSHOTS ? &of.linearAttention->snapshots
                                          : nullptr;
    case VKATTN_LINEAR_ATTENTION_GRADIENT:
        return role == VKATTN_D_Q                ? &of.linearGradient->dQ
               : role == VKATTN_D_K              ? &of.linearGradient->dK
               : role == VKATTN_D_V              ? &of.linearGradient->dV
               : role == VKATTN_D_DECAY          ? &of.linearGradient->dDecay
               : role == VKATTN_D_WRITE_STRENGTH ? &of.linearGradient->dWriteStrength
               : role == VKATTN_D_STATE_IN       ? &of.linearGradient->dStateIn
                                                 : nullptr;
    case VKATTN_NORM_GRADIENT:
        return role == VKATTN_D_X       ? &of.normGradient->dX
               : role == VKATTN_D_GAMMA ? &of.normGradient->dGamma
               : role == VKATTN_D_BETA  ? &of.normGradient->dBeta
                                        : nullptr;
    default:
        return nullptr;
    }
}

// Returns an output as it is stored; no layout for the role of an input.
std::optional<vkattn_layout> outputLayout(const vkattn_operation &operation, vkattn_role role, uint64_t bytes) {
    if (const vkattn_layout *const tensor = outputTensor(operation, role)) {
        vkattn_layout stored = asStored(*tensor);
        // The memory may end with the last code, before the bytes that fill its row.
        if (tensor->dtype == VKATTN_INT8) stored.extent[3] = tensor->extent[3] + 4;
        return stored;
    }
    const bool ofGradients = operation.kind == VKATTN_ATTENTION_GRADIENT && role >= VKATTN_D_SINKS && role <= VKATTN_NONFINITE;
    if (ofGradients || (operation.kind == VKATTN_LINEAR_ATTENTION_GRADIENT && role == VKATTN_NONFINITE))
        return vector(VKATTN_BITS32, static_cast<uint32_t>(bytes / sizeof(uint32_t)));
    if (operation.kind == VKATTN_VISIBLE_BLOCKS && role >= VKATTN_BLOCK_COUNTS && role <= VKATTN_FULL_BLOCK_INDICES)
        return vector(VKATTN_BITS32, static_cast<uint32_t>(bytes / sizeof(uint32_t)));
    return {};
}

// Returns whether every element of an output is written. Rows that belong to no sequence of a
// ragged batch are not, nor is what a cache held before, nor a word that only ever becomes 1, nor what lies
// behind the end of a list.
bool writesAll(const vkattn_operation &operation, vkattn_role role) {
    switch (operation.kind) {
    case VKATTN_ATTENTION_GRADIENT:
        return operation.of.attentionGradient->forward->sequences == 0 && role != VKATTN_NONFINITE;
    case VKATTN_LINEAR_ATTENTION_GRADIENT:
        return role != VKATTN_NONFINITE;
    case VKATTN_ATTENTION:
    case VKATTN_ATTENTION_STATISTICS:
        return problemOf(operation)->sequences == 0;
    case VKATTN_ROTARY:
        return (operation.of.rotary->flags & VKATTN_ROTARY_APPEND) == 0;
    case VKATTN_VISIBLE_BLOCKS:
        return role == VKATTN_BLOCK_COUNTS || role == VKATTN_FULL_BLOCK_COUNTS;
    default:
        return operation.kind != VKATTN_APPEND;
    }
}

// Copies the tensor's elements only: the bytes between them may belong to someone else, also to
// another output of the same run.
void copyElements(const vkattn_layout &layout, const unsigned char *from, unsigned char *to) {
    const uint64_t size = elementSize(layout.dtype);
    const bool runs = layout.strideElems[3] == 1 || layout.extent[3] == 1;
    const uint64_t count = runs ? 1 : layout.extent[3], bytes = runs ? layout.extent[3] * size : size;
    const auto stride = [&](int d) { return layout.extent[d] > 1 ? static_cast<uint64_t>(layout.strideElems[d]) : 0; };
    for (uint64_t b = 0; b < layout.extent[0]; ++b)
        for (uint64_t h = 0; h < layout.extent[1]; ++h)
            for (uint64_t t = 0; t < layout.extent[2]; ++t)
                for (uint64_t d = 0; d < count; ++d) {
                    const uint64_t at = (layout.offsetElems + b * stride(0) + h * stride(1) + t * stride(2) + d * stride(3)) * size;
                    std::memcpy(to + at, from + at, bytes);
                }
}

} // namespace

void Device::startTimed(VkCommandBuffer commands) {
    if (queries_) {
        table_.CmdResetQueryPool(commands, queries_, 0, 2);
        table_.CmdWriteTimestamp(commands, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, queries_, 0);
    }
    barrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
            VK_ACCESS_TRANSFER_WRITE_BIT | VK_ACCESS_SHADER_WRITE_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
            VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
}

Device::Failure Device::endTimed(VkCommandBuffer commands) {
    barrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
            VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_HOST_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT);
    if (queries_) table_.CmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries_, 1);
    if (const VkResult r = table_.EndCommandBuffer(commands)) return failed("vkEndCommandBuffer", r);
    return {};
}

void Device::computeBarrier(VkCommandBuffer commands) const {
    barrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
            VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
}

void Device::barrier(VkCommandBuffer commands, VkPipelineStageFlags fromStages, VkAccessFlags fromAccess, VkPipelineStageFlags toStages,
                     VkAccessFlags toAccess) const {
    VkMemoryBarrier memory{};
    memory.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    memory.srcAccessMask = fromAccess;
    memory.dstAccessMask = toAccess;
    table_.CmdPipelineBarrier(commands, fromStages, toStages, 0, 1, &memory, 0, nullptr, 0, nullptr);
}

Device::Failure Device::recordOperation(VkCommandBuffer commands, const vkattn_operation &operation,
                                        std::span<const vkattn_binding> bindings, VkDescriptorPool descriptors, uint32_t slice) {
    vkattn_record record{};
    record.structSize = sizeof record;
    record.allowCompile = 1;
    record.commandBuffer = commands;
    record.bindings = bindings.data();
    record.bindingCount = static_cast<uint32_t>(bindings.size());
    record.descriptorPool = descriptors;
    record.sliceIndex = slice;
    vkattn_diagnostic why{};
    if (const vkattn_result r = vkattnRecordOperation(context_, &operation, &record, &why))
        return {static_cast<VkResult>(why.vkResult), r, why.message};
    return {};
}

Device::Failure Device::recordSlice(const vkattn_operation &operation, std::span<const vkattn_binding> bindings, uint32_t slice) {
    if (auto f = begin()) return f;
    startTimed(commands_);
    if (auto f = recordOperation(commands_, operation, bindings, descriptors_, slice)) return f;
    return endTimed(commands_);
}

Device::Failure Device::submitTimed(VkCommandBuffer commands, double &milliseconds, bool &deviceTimestamps) {
    const auto start = std::chrono::steady_clock::now();
    if (auto f = submitAndWait(commands)) return f;
    milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    if (!queries_) return {};
    uint64_t stamps[2] = {};
    const VkResult r =
        table_.GetQueryPoolResults(device_, queries_, 0, 2, sizeof stamps, stamps, 8, VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
    if (r == VK_ERROR_DEVICE_LOST) return failed("vkGetQueryPoolResults", r);
    if (r == VK_SUCCESS)
        milliseconds = static_cast<double>((stamps[1] - stamps[0]) & timestampMask_) * timestampPeriod_ * 1e-6;
    else
        deviceTimestamps = false;
    return {};
}

Device::Failure Device::run(const vkattn_operation &operation, uint32_t slices, const vkattn_requirements &requirements,
                            std::span<const vkattn_operand_memory> operands, const RunOptions &options, Timing &timing) {
    vkattn_binding bindings[VKATTN_ROLE_LIMIT];
    uint32_t bindingCount = 0;
    const auto bind = [&](vkattn_role role, uint64_t bytes) -> Failure {
        if (auto f = reserve(buffers_[role], bytes, unified_)) return f;
        bindings[bindingCount++] = {role, buffers_[role].buffer, 0, buffers_[role].size};
        return {};
    };
    // The whole range of such an output is results: what the caller has there is not needed.
    const auto isWhole = [&](vkattn_role role, const vkattn_layout &output) {
        return writesAll(operation, role) && isDense(output) && output.offsetElems == 0;
    };
    for (const vkattn_operand_memory &operand : operands) {
        const uint64_t bytes = vkattnOperationBytes(&operation, operand.role);
        if (auto f = bind(operand.role, bytes)) return f;
        const std::optional<vkattn_layout> output = outputLayout(operation, operand.role, bytes);
        if (!bytes || (output && isWhole(operand.role, *output))) continue;
        if (auto f = upload(buffers_[operand.role], operand.data, bytes)) return f;
    }
    if (requirements.workspaceBytes)
        if (auto f = bind(VKATTN_WORKSPACE, requirements.workspaceBytes)) return f;
    if (auto f = prepareDescriptorPool(requirements)) return f;

    // A problem without slices is recorded once and submitted again. Slices share the command
    // buffer and are recorded one after the other.
    const std::span<const vkattn_binding> bound(bindings, bindingCount);
    if (slices == 1)
        if (auto f = recordSlice(operation, bound, 0)) return f;
    timing.deviceTimestamps = queries_ != VK_NULL_HANDLE;
    const uint64_t runs = uint64_t{std::max(options.repeat, 1u)} + (options.warmUp ? 1 : 0);
    std::vector<double> longest;
    for (uint64_t n = 0; n < runs; ++n) {
        double whole = 0, most = 0;
        if (slices > 1 && n > 0)
            if (auto f = prepareDescriptorPool(requirements)) return f;
        for (uint32_t slice = 0; slice < slices; ++slice) {
            double milliseconds = 0;
            if (slices > 1)
                if (auto f = recordSlice(operation, bound, slice)) return f;
            if (auto f = submitTimed(commands_, milliseconds, timing.deviceTimestamps)) return f;
            whole += milliseconds;
            most = std::max(most, milliseconds);
        }
        if (n == 0 && options.warmUp) continue;
        timing.samplesMilliseconds.push_back(whole);
        longest.push_back(most);
    }
    timing.longestSliceMilliseconds = median(longest);

    std::vector<unsigned char> scratch;
    for (const vkattn_operand_memory &operand : operands) {
        const uint64_t bytes = vkattnOperationBytes(&operation, operand.role);
        const std::optional<vkattn_layout> output = outputLayout(operation, operand.role, bytes);
        if (!output || !bytes) continue;
        auto *data = static_cast<unsigned char *>(operand.data);
        if (isWhole(operand.role, *output)) {
            if (auto f = download(buffers_[operand.role], data, bytes)) return f;
        } else {
            scratch.resize(bytes);
            if (auto f = download(buffers_[operand.role], scratch.data(), bytes)) return f;
            copyElements(*output, scratch.data(), data);
        }
    }
    return {};
}

} // namespace vkattn
