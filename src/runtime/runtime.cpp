#include "vkattn/runtime.hpp"

#include "runtime/layouts.hpp"
#include "runtime/median.hpp"
#include "runtime/runtime_impl.hpp"
#include "runtime/slice_count.hpp"
#include "runtime/warm_up.hpp"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <new>

namespace vkattn {
namespace {

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
}

std::string deviceList(const std::vector<Instance::Found> &devices) {
    std::string list;
    for (const auto &found : devices)
        list += "\n  " + std::to_string(found.info.index) + "  " + found.info.name + "  (" + deviceTypeName(found.info.type) + ")";
    return list + "\n  cpu  (no Vulkan: the processor)";
}

// Returns the devices that `wanted` names, in the order to try them. The list is empty, with a
// message, where `wanted` names no device or several different ones.
std::vector<const Instance::Found *> choose(const std::vector<Instance::Found> &devices, const std::string &wanted, std::string &message) {
    std::vector<const Instance::Found *> matches;
    if (wanted.empty()) {
        for (const auto &found : devices) matches.push_back(&found);
        return matches;
    }
    if (wanted.find_first_not_of("0123456789") == std::string::npos) {
        if (wanted.size() <= 9 && std::stoul(wanted) < devices.size()) return {&devices[std::stoul(wanted)]};
        message = "there is no device " + wanted + "; the devices are:" + deviceList(devices);
        return {};
    }
    const std::string name = lower(wanted);
    for (const auto &found : devices) {
        if (lower(found.info.name) == name) return {&found};
        if (lower(found.info.name).find(name) != std::string::npos) matches.push_back(&found);
    }
    if (matches.empty()) {
        message = "there is no device '" + wanted + "'; the devices are:" + deviceList(devices);
        return {};
    }
    for (const Instance::Found *match : matches)
        if (match->info.name != matches.front()->info.name) {
            message = "'" + wanted + "' fits several devices; name one by its index:" + deviceList(devices);
            return {};
        }
    return {matches.front()};
}

} // namespace

Runtime::Runtime() : impl_(std::make_shared<Impl>()) {}
Runtime::~Runtime() = default;

std::vector<DeviceInfo> Runtime::devices(std::string *whyEmpty, PFN_vkGetInstanceProcAddr getInstanceProcAddr) {
    RuntimeOptions options;
    options.getInstanceProcAddr = getInstanceProcAddr;
    std::string why;
    std::vector<DeviceInfo> list;
    if (const auto instance = Instance::create(options, why)) {
        for (const auto &found : instance->devices()) list.push_back(found.info);
    }
    if (whyEmpty) *whyEmpty = list.empty() ? why : std::string();
    return list;
}

std::unique_ptr<Runtime> Runtime::open(const RuntimeOptions &options, OpenStatus *status, std::string *message) {
    std::unique_ptr<Runtime> runtime(new Runtime);
    Impl &impl = *runtime->impl_;
    impl.options = options;
    OpenStatus ignoredStatus;
    std::string ignoredMessage;
    OpenStatus &result = status ? *status : ignoredStatus;
    std::string &text = message ? *message : ignoredMessage;
    result = OpenStatus::ok;
    text.clear();
    if (lower(options.device) == "cpu") return runtime;

    std::string why;
    impl.instance = Instance::create(options, why);
    if (impl.instance) {
        const std::vector<const Instance::Found *> candidates = choose(impl.instance->devices(), options.device, text);
        if (candidates.empty()) {
            result = OpenStatus::unknownDevice;
            return nullptr;
        }
        why.clear();
        for (const Instance::Found *found : candidates) {
            std::string reason;
            impl.device = Device::create(*impl.instance, *found, options, reason);
            impl.info = &found->info;
            if (impl.device) {
                impl.recallVerdicts();
                return runtime;
            }
            why += (why.empty() ? "" : "; ") + found->info.name + ": " + reason;
        }
    }
    impl.info = nullptr;
    impl.instance.reset();
    impl.fallbackReason = why;
    if (options.allowFallback) return runtime;
    result = OpenStatus::deviceUnusable;
    text = why;
    return nullptr;
}

const DeviceInfo *Runtime::device() const {
    return impl_->info;
}
const std::string &Runtime::fallbackReason() const {
    return impl_->fallbackReason;
}

vkattn_result Runtime::prewarm(span<const vkattn_problem> problems, std::string *why) {
    if (!impl_->device) return VKATTN_OK;
    std::string ignored;
    std::string &reason = why ? *why : ignored;
    for (const vkattn_problem &problem : problems) impl_->testWhatTakes(vkattn::operation(problem));
    if (!impl_->lost.empty()) return reason = impl_->lost, VKATTN_ERROR_DEVICE_LOST;
    const vkattn_context context = impl_->device->context();
    vkattn_diagnostic diagnostic{};
    if (const auto r = vkattnPrewarm(context, problems.data(), static_cast<uint32_t>(problems.size()), &diagnostic))
        return reason = diagnostic.message, r;
    if (impl_->info->type != DeviceType::cpu) return VKATTN_OK;
    vkattn_caps caps{};
    caps.structSize = sizeof caps;
    if (const auto r = vkattnContextCaps(context, &caps)) return r;
    for (const vkattn_problem &problem : problems) {
        Device::Failure failure =
            impl_->device->warmUp(smallProblemLike(problem, caps, impl_->options.maxWorkspaceBytes, impl_->options.tuning));
        if (!failure) continue;
        reason = impl_->reasonOf(failure);
        return failure.result;
    }
    return VKATTN_OK;
}

Runtime::CompileStatistics Runtime::compileStatistics() const {
    uint32_t pipelines = 0;
    uint64_t nanoseconds = 0;
    if (impl_->device) vkattnCompileStatistics(impl_->device->context(), &pipelines, &nanoseconds);
    return {pipelines, static_cast<double>(nanoseconds) * 1e-9};
}

RunResult Runtime::run(const vkattn_problem &problem, span<const vkattn_operand_memory> operands, const RunOptions &options) {
    return run(vkattn::operation(problem), operands, options);
}

RunResult Runtime::run(const vkattn_operation &operation, span<const vkattn_operand_memory> operands, const RunOptions &options) {
    RunResult result;
    vkattn_diagnostic why{};
    result.status = vkattnCpuCheckOperation(&operation, operands.data(), static_cast<uint32_t>(operands.size()), &why);
    if (result.status != VKATTN_OK) {
        result.message = why.message;
        return result;
    }
    if (!impl_->device) return impl_->runOnCpu(operation, operands, options, impl_->fallbackReason);

    vkattn_requirements requirements{};
    requirements.structSize = sizeof requirements;
    vkattn_operation planned = operation;
    SlicedOperation sliced;
    uint32_t slices = slicesOf(operation);
    const auto query = [&] {
        const vkattn_result r = vkattnQueryOperation(impl_->device->context(), &planned, &requirements, &why);
        if (r != VKATTN_OK || slices <= requirements.maxSlices) return r;
        // Each slice that has work gets a submit; slices without work get none.
        slices = requirements.maxSlices;
        planned = sliced.of(operation, slices);
        return vkattnQueryOperation(impl_->device->context(), &planned, &requirements, &why);
    };
    std::string reason;
    impl_->testWhatTakes(operation);
    if (!impl_->lost.empty()) {
        result.status = VKATTN_ERROR_DEVICE_LOST;
        reason = impl_->lost;
    } else if ((result.status = query()) != VKATTN_OK) {
        reason = why.message;
    } else {
        Device::Timing timing;
        Device::Failure failure = impl_->device->run(planned, slices, requirements, operands, options, timing);
        if (!failure) {
            impl_->sign(result);
            result.kernel = requirements.kernelName;
            result.milliseconds = median(timing.samplesMilliseconds);
            result.samplesMilliseconds = std::move(timing.samplesMilliseconds);
            result.deviceTimestamps = timing.deviceTimestamps;
            result.longestSliceMilliseconds = timing.longestSliceMilliseconds;
            result.workspaceBytes = requirements.workspaceBytes;
            result.dispatchCount = requirements.dispatchCount;
            result.probabilityUnit = requirements.probabilityUnit;
            result.probabilityFloor = requirements.probabilityFloor;
            return result;
        }
        result.status = failure.result;
        reason = impl_->reasonOf(failure);
    }
    reason = impl_->info->name + ": " + reason;
    if (!impl_->options.allowFallback) {
        result.message = reason;
        return result;
    }
    return impl_->runOnCpu(operation, operands, options, reason);
}

} // namespace vkattn
