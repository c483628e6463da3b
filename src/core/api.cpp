// The C functions of vkattn.h: argument checks, then the layers below.
#include "core/api_common.hpp"
#include "core/device/read_caps.hpp"
#include "core/kernels/explain.hpp"
#include "core/plan/kernel.hpp"
#include "core/plan/slices.hpp"
#include "core/vulkan/cache.hpp"
#include "core/vulkan/dispatch_list.hpp"
#include "core/vulkan/record.hpp"
#include "core/vulkan/self_test.hpp"
#include "util/diagnostic.hpp"
#include "util/required.hpp"
#include "util/struct_size.hpp"

using namespace vkattn;

vkattn_result vkattn::limitsFor(const vkattn_caps *caps, const vkattn_plan_options *given, PlanLimits &limits, vkattn_diagnostic *why) {
    if (const auto r = requireAll({{caps, "caps"}}, why)) return r;
    if (given)
        if (const auto r = checkStructSize(*given, "options", "vkattn_plan_options", why)) return r;
    vkattn_plan_options room{};
    const vkattn_plan_options &options = given ? completed(*given, room) : room;
    Caps taken;
    if (const auto r = takeCaps(*caps, "caps", taken, why)) return r;
    if (options.tuningBytes && !options.tuning)
        return fail(why, VKATTN_ERROR_INVALID_ARGUMENT, "options.tuning is NULL with tuningBytes %zu", options.tuningBytes);
    limits = {taken, options.maxWorkspaceBytes ? options.maxWorkspaceBytes : VKATTN_DEFAULT_MAX_WORKSPACE_BYTES, flashTuning(taken)};
    if (const auto r = readTuning(options.tuning, options.tuningBytes, limits.tuning, why)) return r;
    // A context exists only at or above the Vulkan 1.0 minimum.
    return baseline().supported(baseline(), limits, why);
}

void vkattn::describeSchedule(const Schedule &schedule, const Caps &caps, vkattn_requirements &out) {
    const bool pool = caps.pushDescriptors == 0;
    out.dispatchCount = schedule.dispatchCount;
    out.pipelineCount = schedule.type->pipelines(schedule).size();
    out.descriptorSetCount = pool ? schedule.dispatchCount : 0;
    out.storageDescriptorCount = pool ? static_cast<uint32_t>(schedule.type->storageDescriptorCount(schedule)) : 0;
    out.workspaceBytes = schedule.workspaceBytes;
    out.workspaceAlignment = schedule.workspaceAlignment;
    out.kernelName = schedule.kernelName;
}

namespace {

vkattn_result planFor(DeviceContext &context, const vkattn_problem *description, Plan &plan, vkattn_diagnostic *why) {
    Problem problem;
    if (const auto r = makeProblem(description, problem, why)) return r;
    std::optional<PlanLimits> room;
    return makePlan(problem, context.planLimits(room), plan, why);
}

vkattn_result checkKernel(vkattn_kernel id, const Kernel *&kernel, vkattn_diagnostic *why) {
    kernel = findKernel(id);
    if (kernel) return VKATTN_OK;
    return fail(why, invalid, "kernel is %d, expected one of vkattnKernels", static_cast<int>(id));
}

// Finds the instance-level functions of the device that the caller names.
vkattn_result loadDevice(const vkattn_physical_device *given, PhysicalDevice &device, vkattn_diagnostic *why) {
    if (const auto r = requireAll({{given, "device"}}, why)) return r;
    if (const auto r = checkStructSize(*given, "device", "vkattn_physical_device", why)) return r;
    vkattn_physical_device room;
    const vkattn_physical_device &named = completed(*given, room);
    if (const auto r = requireAll({{named.instance, "device->instance"},
                                   {named.physicalDevice, "device->physicalDevice"},
                                   {named.getInstanceProcAddr, "device->getInstanceProcAddr"}},
                                  why))
        return r;
    return device.load(named.getInstanceProcAddr, named.instance, named.physicalDevice, named.apiVersion, why);
}

} // namespace

extern "C" {

uint32_t vkattnVersion(void) {
    return VK_MAKE_API_VERSION(0, VKATTN_VERSION_MAJOR, VKATTN_VERSION_MINOR, VKATTN_VERSION_PATCH);
}

uint64_t vkattnShaderHash(void) {
    return shaderBankHash();
}

vkattn_result vkattnDeviceExtensions(const vkattn_physical_device *given, vkattn_need need, uint32_t *count, const char **names,
                                     vkattn_diagnostic *why) {
    if (const auto r = requireAll({{count, "count"}}, why)) return r;
    if (need != VKATTN_REQUIRED && need != VKATTN_HELPFUL)
        return fail(why, invalid, "need is %d, expected VKATTN_REQUIRED or VKATTN_HELPFUL", static_cast<int>(need));
    PhysicalDevice device;
    if (const auto r = loadDevice(given, device, why)) return r;
    return listExtensions(extensionRows(), device, need, *count, names, why);
}

vkattn_result vkattnPatchDeviceFeatures(const vkattn_physical_device *given, const char *const *extensions, uint32_t extensionCount,
                                        VkPhysicalDeviceFeatures2 *chain, vkattn_feature_storage *room, vkattn_diagnostic *why) {
    if (const auto r = requireAll(
            {{!extensionCount || extensions, "extensions, with an extensionCount above 0,"}, {chain, "chain"}, {room, "room"}}, why))
        return r;
    PhysicalDevice device;
    if (const auto r = loadDevice(given, device, why)) return r;
    return patchChain(featureRows(), device, {extensions, extensionCount}, *chain, room, sizeof *room, why);
}

vkattn_result vkattnPhysicalDeviceCaps(const vkattn_physical_device *given, const char *const *extensions, uint32_t extensionCount,
                                       const VkPhysicalDeviceFeatures2 *features, vkattn_caps *out, vkattn_diagnostic *why) {
    if (const auto r = requireAll({{!extensionCount || extensions, "extensions, with an extensionCount above 0,"}, {out, "out"}}, why))
        return r;
    if (const auto r = checkStructSize(*out, "out", "vkattn_caps", why)) return r;
    if (features)
        if (const auto r = checkChain(features, "features", why)) return r;
    PhysicalDevice device;
    if (const auto r = loadDevice(given, device, why)) return r;
    writeStruct(*out, readCaps(device, {device.version, {extensions, extensionCount}, features}));
    return VKATTN_OK;
}

vkattn_result vkattnMinimumCaps(vkattn_caps *out, vkattn_diagnostic *why) {
    if (const auto r = requireAll({{out, "out"}}, why)) return r;
    if (const auto r = checkStructSize(*out, "out", "vkattn_caps", why)) return r;
    writeStruct(*out, minimumCaps());
    return VKATTN_OK;
}

uint32_t vkattnKernels(vkattn_kernel *out, uint32_t capacity) {
    uint32_t count = 0;
    for (const Kernel &kernel : allKernels()) {
        if (out && count < capacity) out[count] = kernel.id;
        ++count;
    }
    return count;
}

const char *vkattnKernelName(vkattn_kernel id) {
    if (id == VKATTN_KERNEL_AUTO) return "auto";
    const Kernel *kernel = findKernel(id);
    return kernel ? kernel->name : nullptr;
}

uint32_t vkattnKernelTraits(vkattn_kernel id) {
    const Kernel *kernel = findKernel(id);
    return kernel ? kernel->traits : 0;
}

vkattn_result vkattnKernelSupport(const vkattn_caps *caps, vkattn_kernel id, vkattn_diagnostic *why) {
    if (const auto r = requireAll({{caps, "caps"}}, why)) return r;
    Caps taken;
    if (const auto r = takeCaps(*caps, "caps", taken, why)) return r;
    const Kernel *kernel = nullptr;
    if (const auto r = checkKernel(id, kernel, why)) return r;
    if (why) why->message[0] = '\0';
    if (const auto r = checkAvailable(*kernel, taken, why)) return r;
    return kernel->supported(*kernel, {taken, VKATTN_DEFAULT_MAX_WORKSPACE_BYTES, flashTuning(taken)}, why);
}

vkattn_result vkattnCreateContext(const vkattn_host *given, vkattn_context *out, vkattn_diagnostic *why) {
    if (const auto r = requireAll({{out, "out"}}, why)) return r;
    *out = nullptr;
    if (const auto r = requireAll({{given, "host"}}, why)) return r;
    if (const auto r = checkStructSize(*given, "host", "vkattn_host", why)) return r;
    vkattn_host room;
    const vkattn_host &host = completed(*given, room);
    const Log log{host.log, host.userData};
    const LoggedCall call(&log, why);
    DeviceContext *context = nullptr;
    const vkattn_result result = DeviceContext::create(host, context, why);
    *out = reinterpret_cast<vkattn_context>(context);
    return call.result(result);
}

void vkattnDestroyContext(vkattn_context context) {
    DeviceContext::destroy(fromHandle(context));
}

vkattn_result vkattnContextCaps(vkattn_context context, vkattn_caps *out) {
    vkattn_diagnostic *why = nullptr; // for the log, if there is one
    const LoggedCall call(logOf(context), why);
    if (const auto r = requireAll({{context, "context"}, {out, "out"}}, why)) return call.result(r);
    if (const auto r = checkStructSize(*out, "out", "vkattn_caps", why)) return call.result(r);
    std::optional<PlanLimits> room;
    writeStruct(*out, fromHandle(context)->planLimits(room).caps);
    return VKATTN_OK;
}

static vkattn_result query(vkattn_context context, const vkattn_problem *problem, vkattn_requirements *given, vkattn_diagnostic *why) {
    if (const auto r = requireAll({{context, "context"}, {given, "out"}}, why)) return r;
    if (const auto r = checkStructSize(*given, "out", "vkattn_requirements", why)) return r;
    std::optional<PlanLimits> room;
    const PlanLimits &limits = fromHandle(context)->planLimits(room);
    Problem checked;
    if (const auto r = makeProblem(problem, checked, why)) return r;
    Plan plan;
    if (const auto r = makePlan(checked, limits, plan, why)) return r;
    vkattn_requirements out{};
    describeSchedule(plan, limits.caps, out);
    out.chunkCount = plan.chunkCount();
    out.kernel = plan.kernel->id;
    out.persistentWorkspaceBytes = persistentWorkspaceBytes(plan);
    out.maxSlices = mostSlices(plan, limits);
    const WeightRounding rounding = plan.kernel->weightRounding(plan);
    out.probabilityUnit = rounding.unit;
    out.probabilityFloor = rounding.floor;
    writeStruct(*given, out);
    return VKATTN_OK;
}
vkattn_result vkattnQuery(vkattn_context context, const vkattn_problem *problem, vkattn_requirements *out, vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    return call.result(query(context, problem, out, why));
}

vkattn_result vkattnExplain(const vkattn_caps *caps, const vkattn_plan_options *options, const vkattn_problem *description,
                            vkattn_explanation *out, vkattn_diagnostic *why) {
    if (const auto r = requireAll({{out, "out"}}, why)) return r;
    if (const auto r = checkStructSize(*out, "out", "vkattn_explanation", why)) return r;
    Problem problem;
    if (const auto r = makeProblem(description, problem, why)) return r;
    PlanLimits limits;
    if (const auto r = limitsFor(caps, options, limits, why)) return r;
    vkattn_explanation explanation;
    if (const auto r = explainPlan(problem, limits, explanation, why)) return r;
    writeStruct(*out, explanation);
    return VKATTN_OK;
}

vkattn_result vkattnExplainKernel(const vkattn_caps *caps, const vkattn_plan_options *options, const vkattn_problem *description,
                                  vkattn_kernel id, vkattn_diagnostic *why) {
    const Kernel *kernel = nullptr;
    if (const auto r = checkKernel(id, kernel, why)) return r;
    Problem problem;
    if (const auto r = makeProblem(description, problem, why)) return r;
    PlanLimits limits;
    if (const auto r = limitsFor(caps, options, limits, why)) return r;
    return reasonOf(*kernel, problem, limits, why);
}

static vkattn_result slices(vkattn_context handle, const vkattn_problem *description, double microseconds, uint32_t *sliceCount,
                            vkattn_diagnostic *why) {
    if (const auto r = requireAll({{handle, "context"}, {sliceCount, "sliceCount"}}, why)) return r;
    if (!(microseconds > 0) || microseconds > 1e15)
        return fail(why, invalid, "microseconds is %g, expected more than 0 and at most 1e15", microseconds);
    std::optional<PlanLimits> room;
    const PlanLimits &limits = fromHandle(handle)->planLimits(room);
    Problem problem;
    if (const auto r = makeProblem(description, problem, why)) return r;
    problem.slices = 1;
    Plan plan;
    if (const auto r = makePlan(problem, limits, plan, why)) return r;
    return slicesForBudget(plan, limits, microseconds, *sliceCount, why);
}
vkattn_result vkattnSlicesForBudget(vkattn_context context, const vkattn_problem *problem, double microseconds, uint32_t *sliceCount,
                                    vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    return call.result(slices(context, problem, microseconds, sliceCount, why));
}

static vkattn_result prewarm(vkattn_context context, const vkattn_problem *problems, uint32_t problemCount, vkattn_diagnostic *why) {
    if (const auto r = requireAll({{context, "context"}, {!problemCount || problems, "problems, with a problemCount above 0,"}}, why))
        return r;
    for (uint32_t n = 0; n < problemCount; ++n) {
        Plan plan;
        if (const auto r = planFor(*fromHandle(context), &problems[n], plan, why)) return r;
        if (const auto r = fromHandle(context)->pipelines().compile(plan.pipelines(), why)) return r;
    }
    return VKATTN_OK;
}
vkattn_result vkattnPrewarm(vkattn_context context, const vkattn_problem *problems, uint32_t problemCount, vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    return call.result(prewarm(context, problems, problemCount, why));
}

static vkattn_result recordProblem(vkattn_context context, const vkattn_problem *problem, const vkattn_record *record,
                                   vkattn_diagnostic *why) {
    if (const auto r = requireAll({{context, "context"}, {record, "record"}}, why)) return r;
    if (const auto r = checkStructSize(*record, "record", "vkattn_record", why)) return r;
    vkattn_record room;
    Plan plan;
    if (const auto r = planFor(*fromHandle(context), problem, plan, why)) return r;
    return recordSchedule(*fromHandle(context), plan, completed(*record, room), why);
}
vkattn_result vkattnRecord(vkattn_context context, const vkattn_problem *problem, const vkattn_record *record, vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    return call.result(recordProblem(context, problem, record, why));
}

vkattn_result vkattnListDispatches(const vkattn_caps *caps, const vkattn_plan_options *options, const vkattn_problem *description,
                                   void *scratch, size_t scratchBytes, vkattn_dispatch_list *list, vkattn_diagnostic *why) {
    if (const auto r = requireAll({{list, "list"}}, why)) return r;
    if (const auto r = checkStructSize(*list, "list", "vkattn_dispatch_list", why)) return r;
    Problem problem;
    if (const auto r = makeProblem(description, problem, why)) return r;
    PlanLimits limits;
    if (const auto r = limitsFor(caps, options, limits, why)) return r;
    Plan plan;
    if (const auto r = makePlan(problem, limits, plan, why)) return r;
    vkattn_dispatch_list listed{};
    if (const auto r = writeDispatches(plan, limits.caps, scratch, scratchBytes, listed, why)) return r;
    listed.persistentWorkspaceBytes = persistentWorkspaceBytes(plan);
    const WeightRounding rounding = plan.kernel->weightRounding(plan);
    listed.probabilityUnit = rounding.unit;
    listed.probabilityFloor = rounding.floor;
    writeStruct(*list, listed);
    return VKATTN_OK;
}

vkattn_result vkattnExportCache(vkattn_context context, size_t *bytes, void *data, vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    if (const auto r = requireAll({{context, "context"}, {bytes, "bytes"}}, why)) return call.result(r);
    return call.result(fromHandle(context)->caches().exportTo(*bytes, data, why));
}

vkattn_result vkattnImportCache(vkattn_context context, size_t bytes, const void *data, vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    if (const auto r = requireAll({{context, "context"}, {!bytes || data, "data, with bytes above 0,"}}, why)) return call.result(r);
    const vkattn_result result = fromHandle(context)->caches().importFrom(bytes, data, why);
    if (result == VKATTN_CACHE_REJECTED) fromHandle(context)->log().warning("the pipeline cache is not used: %s", why ? why->message : "");
    return call.result(result);
}

static vkattn_result checkJudged(vkattn_context context, vkattn_kernel id, const Kernel *&kernel, vkattn_diagnostic *why) {
    if (const auto r = requireAll({{context, "context"}}, why)) return r;
    kernel = findKernel(id);
    if (!kernel || kernel == &baseline())
        return fail(why, invalid, "kernel is %d, expected one of vkattnKernels other than %s, which is the baseline", static_cast<int>(id),
                    baseline().name);
    return VKATTN_OK;
}

static vkattn_result setVerdict(vkattn_context context, vkattn_kernel id, vkattn_verdict verdict, vkattn_diagnostic *why) {
    const Kernel *kernel = nullptr;
    if (const auto r = checkJudged(context, id, kernel, why)) return r;
    if (verdict != VKATTN_VERDICT_TRUSTED && verdict != VKATTN_VERDICT_SLOW && verdict != VKATTN_VERDICT_WRONG)
        return fail(why, invalid, "verdict is %d, expected VKATTN_VERDICT_TRUSTED, SLOW or WRONG", static_cast<int>(verdict));
    fromHandle(context)->setVerdict(*kernel, verdict);
    return VKATTN_OK;
}
vkattn_result vkattnSetVerdict(vkattn_context context, vkattn_kernel kernel, vkattn_verdict verdict, vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    return call.result(setVerdict(context, kernel, verdict, why));
}

static vkattn_result setExactHalves(vkattn_context context, uint32_t exact, vkattn_diagnostic *why) {
    if (const auto r = requireAll({{context, "context"}}, why)) return r;
    if (exact > 1) return fail(why, invalid, "exact is %u, expected 0 or 1", exact);
    DeviceContext &device = *fromHandle(context);
    if (exact && !device.mayHaveExactHalves())
        return fail(why, invalid, "exact is 1, and the exactHalves of host.capsLimit is 0: set it there, or leave halves as they are");
    device.setExactHalves(exact != 0);
    return VKATTN_OK;
}
vkattn_result vkattnSetExactHalves(vkattn_context context, uint32_t exact, vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    return call.result(setExactHalves(context, exact, why));
}

static vkattn_result selfTestQuery(vkattn_context context, vkattn_kernel id, vkattn_self_test *out, vkattn_diagnostic *why) {
    const Kernel *kernel = nullptr;
    if (const auto r = checkJudged(context, id, kernel, why)) return r;
    if (const auto r = requireAll({{out, "out"}}, why)) return r;
    if (const auto r = checkStructSize(*out, "out", "vkattn_self_test", why)) return r;
    vkattn_self_test needs{};
    if (const auto r = querySelfTest(*fromHandle(context), *kernel, needs, why)) return r;
    writeStruct(*out, needs);
    return VKATTN_OK;
}
vkattn_result vkattnSelfTestQuery(vkattn_context context, vkattn_kernel kernel, vkattn_self_test *out, vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    return call.result(selfTestQuery(context, kernel, out, why));
}

static vkattn_result selfTestFill(vkattn_context context, vkattn_kernel id, void *mapped, vkattn_diagnostic *why) {
    const Kernel *kernel = nullptr;
    if (const auto r = checkJudged(context, id, kernel, why)) return r;
    if (const auto r = requireAll({{mapped, "mapped"}}, why)) return r;
    return fillSelfTest(*fromHandle(context), *kernel, mapped, why);
}
vkattn_result vkattnSelfTestFill(vkattn_context context, vkattn_kernel kernel, void *mapped, vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    return call.result(selfTestFill(context, kernel, mapped, why));
}

static vkattn_result selfTestRecord(vkattn_context context, vkattn_kernel id, const SelfTestTarget &target, vkattn_diagnostic *why) {
    const Kernel *kernel = nullptr;
    if (const auto r = checkJudged(context, id, kernel, why)) return r;
    if (const auto r = requireAll({{target.commandBuffer, "commandBuffer"}, {target.buffer, "buffer"}}, why)) return r;
    return recordSelfTest(*fromHandle(context), *kernel, target, why);
}
vkattn_result vkattnSelfTestRecord(vkattn_context context, vkattn_kernel kernel, VkCommandBuffer commandBuffer,
                                   VkDescriptorPool descriptorPool, VkBuffer buffer, VkDeviceSize offset, vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    return call.result(selfTestRecord(context, kernel, {commandBuffer, descriptorPool, buffer, offset}, why));
}

static vkattn_result selfTestJudge(vkattn_context context, vkattn_kernel id, const void *mapped, vkattn_verdict *verdict,
                                   vkattn_diagnostic *why) {
    const Kernel *kernel = nullptr;
    if (const auto r = checkJudged(context, id, kernel, why)) return r;
    if (const auto r = requireAll({{mapped, "mapped"}, {verdict, "verdict"}}, why)) return r;
    return judgeSelfTest(*fromHandle(context), *kernel, mapped, *verdict, why);
}
vkattn_result vkattnSelfTestJudge(vkattn_context context, vkattn_kernel kernel, const void *mapped, vkattn_verdict *verdict,
                                  vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    return call.result(selfTestJudge(context, kernel, mapped, verdict, why));
}

void vkattnCompileStatistics(vkattn_context context, uint32_t *pipelines, uint64_t *nanoseconds) {
    if (pipelines) *pipelines = context ? fromHandle(context)->pipelines().compiledCount() : 0;
    if (nanoseconds) *nanoseconds = context ? fromHandle(context)->pipelines().compileNanoseconds() : 0;
}

} // extern "C"
