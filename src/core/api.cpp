// The C functions of vkattn.h: argument checks, then the layers below.
#include "core/kernels/coopmat.hpp"
#include "core/kernels/explain.hpp"
#include "core/kernels/flash.hpp"
#include "core/kernels/staged.hpp"
#include "core/plan/slices.hpp"
#include "core/vulkan/cache.hpp"
#include "core/vulkan/context.hpp"
#include "core/vulkan/dispatch_list.hpp"
#include "core/vulkan/record.hpp"
#include "core/vulkan/self_test.hpp"
#include "util/diagnostic.hpp"

using namespace vkattn;

namespace {

constexpr vkattn_result invalid = VKATTN_ERROR_INVALID_ARGUMENT;

DeviceContext *fromHandle(vkattn_context handle) {
    return reinterpret_cast<DeviceContext *>(handle);
}

const Log *logOf(vkattn_context handle) {
    return handle ? &fromHandle(handle)->log() : nullptr;
}

vkattn_result planFor(DeviceContext &context, const vkattn_problem *description, Plan &plan, vkattn_diagnostic *why) {
    Problem problem;
    if (const auto r = makeProblem(description, problem, why)) return r;
    std::optional<PlanLimits> room;
    return makePlan(problem, context.planLimits(room), plan, why);
}

// What a context on such a device would plan with.
vkattn_result limitsFor(const vkattn_caps *caps, uint64_t maxWorkspaceBytes, const void *tuning, size_t tuningBytes, PlanLimits &limits,
                        vkattn_diagnostic *why) {
    if (!caps) return fail(why, invalid, "caps is NULL");
    if (const auto r = checkCaps(*caps, "caps", why)) return r;
    if (tuningBytes && !tuning) return fail(why, invalid, "tuning is NULL with tuningBytes %zu", tuningBytes);
    limits = {*caps, maxWorkspaceBytes ? maxWorkspaceBytes : VKATTN_DEFAULT_MAX_WORKSPACE_BYTES, flashTuning(*caps)};
    if (const auto r = readTuning(tuning, tuningBytes, limits.tuning, why)) return r;
    return stagedSupported(*caps, why); // as a context: below the Vulkan 1.0 minimum there is none
}

} // namespace

extern "C" {

uint32_t vkattnVersion(void) {
    return VK_MAKE_API_VERSION(0, VKATTN_VERSION_MAJOR, VKATTN_VERSION_MINOR, VKATTN_VERSION_PATCH);
}

uint64_t vkattnShaderHash(void) {
    return shaderBankHash();
}

vkattn_result vkattnDeviceExtensions(PFN_vkGetInstanceProcAddr getInstanceProcAddr, VkInstance instance, VkPhysicalDevice physicalDevice,
                                     uint32_t apiVersion, vkattn_need need, uint32_t *count, const char **names, vkattn_diagnostic *why) {
    if (!getInstanceProcAddr || !instance || !physicalDevice || !count)
        return fail(why, invalid, "getInstanceProcAddr, instance, physicalDevice and count must not be NULL");
    if (need != VKATTN_REQUIRED && need != VKATTN_HELPFUL)
        return fail(why, invalid, "need is %d, expected VKATTN_REQUIRED or VKATTN_HELPFUL", static_cast<int>(need));
    PhysicalDevice device;
    if (const auto r = device.load(getInstanceProcAddr, instance, physicalDevice, apiVersion, why)) return r;
    return listExtensions(extensionRows(), device, need, *count, names, why);
}

vkattn_result vkattnPatchDeviceFeatures(PFN_vkGetInstanceProcAddr getInstanceProcAddr, VkInstance instance, VkPhysicalDevice physicalDevice,
                                        uint32_t apiVersion, const char *const *extensions, uint32_t extensionCount,
                                        VkPhysicalDeviceFeatures2 *chain, vkattn_feature_storage *room, vkattn_diagnostic *why) {
    if (!getInstanceProcAddr || !instance || !physicalDevice || !chain || !room || (extensionCount && !extensions))
        return fail(why, invalid,
                    "getInstanceProcAddr, instance, physicalDevice, chain, room, and extensions with a count, must not be NULL");
    PhysicalDevice device;
    if (const auto r = device.load(getInstanceProcAddr, instance, physicalDevice, apiVersion, why)) return r;
    return patchChain(featureRows(), device, {extensions, extensionCount}, *chain, room, sizeof *room, why);
}

vkattn_result vkattnPhysicalDeviceCaps(PFN_vkGetInstanceProcAddr getInstanceProcAddr, VkInstance instance, VkPhysicalDevice physicalDevice,
                                       uint32_t apiVersion, const char *const *extensions, uint32_t extensionCount,
                                       const VkPhysicalDeviceFeatures2 *features, vkattn_caps *out, vkattn_diagnostic *why) {
    if (!getInstanceProcAddr || !instance || !physicalDevice || !out || (extensionCount && !extensions))
        return fail(why, invalid, "getInstanceProcAddr, instance, physicalDevice, out, and extensions with a count, must not be NULL");
    if (out->structSize != sizeof(vkattn_caps))
        return fail(why, invalid, "out->structSize is %u, expected sizeof(vkattn_caps) = %zu", out->structSize, sizeof(vkattn_caps));
    if (features)
        if (const auto r = checkChain(features, "features", why)) return r;
    PhysicalDevice device;
    if (const auto r = device.load(getInstanceProcAddr, instance, physicalDevice, apiVersion, why)) return r;
    *out = readCaps(device, {device.version, {extensions, extensionCount}, features});
    return VKATTN_OK;
}

vkattn_result vkattnKernelSupport(const vkattn_caps *caps, uint32_t index, const char **name, vkattn_diagnostic *why) {
    if (!caps) return fail(why, invalid, "caps is NULL");
    if (const auto r = checkCaps(*caps, "caps", why)) return r;
    static constexpr vkattn_kernel kernels[] = {VKATTN_KERNEL_STAGED, VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE,
                                                VKATTN_KERNEL_FLASH_COOPMAT, VKATTN_KERNEL_FLASH_COOPMAT2};
    if (index >= sizeof kernels / sizeof kernels[0]) return fail(why, invalid, "there is no kernel %u", index);
    if (name) *name = kernelName(kernels[index]);
    if (why) why->message[0] = '\0';
    if (kernels[index] == VKATTN_KERNEL_STAGED) return stagedSupported(*caps, why);
    if (const auto r = checkQuarantine(kernels[index], *caps, why)) return r;
    return flashSupported(kernels[index], {*caps, VKATTN_DEFAULT_MAX_WORKSPACE_BYTES, flashTuning(*caps)}, why);
}

vkattn_result vkattnCreateContext(const vkattn_host *host, vkattn_context *out, vkattn_diagnostic *why) {
    if (!out) return fail(why, invalid, "out is NULL");
    *out = nullptr;
    if (!host) return fail(why, invalid, "host is NULL");
    const Log log = host->structSize == sizeof(vkattn_host) ? Log{host->log, host->userData} : Log{};
    const LoggedCall call(&log, why);
    DeviceContext *context = nullptr;
    const vkattn_result result = DeviceContext::create(*host, context, why);
    *out = reinterpret_cast<vkattn_context>(context);
    return call.result(result);
}

void vkattnDestroyContext(vkattn_context context) {
    DeviceContext::destroy(fromHandle(context));
}

vkattn_result vkattnContextCaps(vkattn_context context, vkattn_caps *out) {
    vkattn_diagnostic *why = nullptr; // for the log, if there is one
    const LoggedCall call(logOf(context), why);
    if (!context || !out || out->structSize != sizeof(vkattn_caps))
        return call.result(fail(why, invalid, "context or out is NULL, or out->structSize is not sizeof(vkattn_caps)"));
    std::optional<PlanLimits> room;
    *out = fromHandle(context)->planLimits(room).caps;
    return VKATTN_OK;
}

static vkattn_result query(vkattn_context context, const vkattn_problem *problem, vkattn_requirements *out, vkattn_diagnostic *why) {
    if (!context || !out) return fail(why, invalid, "context and out must not be NULL");
    if (out->structSize != sizeof(vkattn_requirements))
        return fail(why, invalid, "out->structSize is %u, expected sizeof(vkattn_requirements) = %zu", out->structSize,
                    sizeof(vkattn_requirements));
    std::optional<PlanLimits> room;
    const PlanLimits &limits = fromHandle(context)->planLimits(room);
    Problem checked;
    if (const auto r = makeProblem(problem, checked, why)) return r;
    Plan plan;
    if (const auto r = makePlan(checked, limits, plan, why)) return r;
    const bool pool = limits.caps.pushDescriptors == 0;
    out->dispatchCount = plan.dispatchCount;
    out->pipelineCount = plan.pipelines().size();
    out->descriptorSetCount = pool ? plan.dispatchCount : 0;
    out->storageDescriptorCount = pool ? static_cast<uint32_t>(plan.storageDescriptorCount()) : 0;
    out->chunkCount = plan.chunkCount();
    out->workspaceBytes = plan.workspaceBytes;
    out->workspaceAlignment = plan.workspaceAlignment;
    out->kernelName = plan.kernelName();
    out->persistentWorkspaceBytes = persistentWorkspaceBytes(plan);
    out->maxSlices = mostSlices(plan, limits);
    out->probabilityUnit = weightRounding(plan).unit;
    out->probabilityFloor = weightRounding(plan).floor;
    return VKATTN_OK;
}
vkattn_result vkattnQuery(vkattn_context context, const vkattn_problem *problem, vkattn_requirements *out, vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    return call.result(query(context, problem, out, why));
}

vkattn_result vkattnExplain(const vkattn_caps *caps, uint64_t maxWorkspaceBytes, const void *tuning, size_t tuningBytes,
                            const vkattn_problem *description, vkattn_explanation *out, vkattn_diagnostic *why) {
    if (!out || out->structSize != sizeof(vkattn_explanation))
        return fail(why, invalid, "out is NULL or its structSize is not sizeof(vkattn_explanation)");
    Problem problem;
    if (const auto r = makeProblem(description, problem, why)) return r;
    PlanLimits limits;
    if (const auto r = limitsFor(caps, maxWorkspaceBytes, tuning, tuningBytes, limits, why)) return r;
    return explainPlan(problem, limits, *out, why);
}

static vkattn_result slices(vkattn_context handle, const vkattn_problem *description, double microseconds, uint32_t *sliceCount,
                            vkattn_diagnostic *why) {
    if (!handle || !sliceCount) return fail(why, invalid, "context and sliceCount must not be NULL");
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
    if (!context || (problemCount && !problems)) return fail(why, invalid, "context, and problems with a problemCount, must not be NULL");
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
    if (!context || !record) return fail(why, invalid, "context and record must not be NULL");
    if (record->structSize != sizeof(vkattn_record))
        return fail(why, invalid, "record.structSize is %u, expected sizeof(vkattn_record) = %zu", record->structSize,
                    sizeof(vkattn_record));
    Plan plan;
    if (const auto r = planFor(*fromHandle(context), problem, plan, why)) return r;
    return recordPlan(*fromHandle(context), plan, *record, why);
}
vkattn_result vkattnRecord(vkattn_context context, const vkattn_problem *problem, const vkattn_record *record, vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    return call.result(recordProblem(context, problem, record, why));
}

vkattn_result vkattnDescribe(const vkattn_caps *caps, uint64_t maxWorkspaceBytes, const void *tuning, size_t tuningBytes,
                             const vkattn_problem *description, void *scratch, size_t *scratchBytes, const vkattn_dispatch **dispatches,
                             uint32_t *count, vkattn_diagnostic *why) {
    if (!scratchBytes) return fail(why, invalid, "scratchBytes is NULL");
    Problem problem;
    if (const auto r = makeProblem(description, problem, why)) return r;
    PlanLimits limits;
    if (const auto r = limitsFor(caps, maxWorkspaceBytes, tuning, tuningBytes, limits, why)) return r;
    Plan plan;
    if (const auto r = makePlan(problem, limits, plan, why)) return r;
    return describePlan(plan, limits.caps, scratch, scratchBytes, dispatches, count, why);
}

vkattn_result vkattnExportCache(vkattn_context context, size_t *bytes, void *data, vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    if (!context || !bytes) return call.result(fail(why, invalid, "context and bytes must not be NULL"));
    return call.result(fromHandle(context)->caches().exportTo(*bytes, data, why));
}

vkattn_result vkattnImportCache(vkattn_context context, size_t bytes, const void *data, vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    if (!context || (bytes && !data)) return call.result(fail(why, invalid, "context, and data with bytes, must not be NULL"));
    const vkattn_result result = fromHandle(context)->caches().importFrom(bytes, data, why);
    if (result == VKATTN_CACHE_REJECTED) fromHandle(context)->log().warning("the pipeline cache is not used: %s", why ? why->message : "");
    return call.result(result);
}

static vkattn_result checkJudged(vkattn_context context, vkattn_kernel kernel, vkattn_diagnostic *why) {
    if (!context) return fail(why, invalid, "context is NULL");
    if (kernel <= VKATTN_KERNEL_STAGED || kernel >= VKATTN_KERNEL_COUNT)
        return fail(why, invalid, "kernel is %d, expected one other than VKATTN_KERNEL_AUTO and STAGED: staged is the baseline",
                    static_cast<int>(kernel));
    return VKATTN_OK;
}

static vkattn_result setVerdict(vkattn_context context, vkattn_kernel kernel, vkattn_verdict verdict, vkattn_diagnostic *why) {
    if (const auto r = checkJudged(context, kernel, why)) return r;
    if (verdict != VKATTN_VERDICT_TRUSTED && verdict != VKATTN_VERDICT_SLOW && verdict != VKATTN_VERDICT_WRONG)
        return fail(why, invalid, "verdict is %d, expected VKATTN_VERDICT_TRUSTED, SLOW or WRONG", static_cast<int>(verdict));
    fromHandle(context)->setVerdict(kernel, verdict);
    return VKATTN_OK;
}
vkattn_result vkattnSetVerdict(vkattn_context context, vkattn_kernel kernel, vkattn_verdict verdict, vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    return call.result(setVerdict(context, kernel, verdict, why));
}

static vkattn_result selfTestQuery(vkattn_context context, vkattn_kernel kernel, vkattn_self_test *out, vkattn_diagnostic *why) {
    if (const auto r = checkJudged(context, kernel, why)) return r;
    if (!out || out->structSize != sizeof(vkattn_self_test))
        return fail(why, invalid, "out is NULL or its structSize is not sizeof(vkattn_self_test)");
    return querySelfTest(*fromHandle(context), kernel, *out, why);
}
vkattn_result vkattnSelfTestQuery(vkattn_context context, vkattn_kernel kernel, vkattn_self_test *out, vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    return call.result(selfTestQuery(context, kernel, out, why));
}

static vkattn_result selfTestFill(vkattn_context context, vkattn_kernel kernel, void *mapped, vkattn_diagnostic *why) {
    if (const auto r = checkJudged(context, kernel, why)) return r;
    if (!mapped) return fail(why, invalid, "mapped is NULL");
    return fillSelfTest(*fromHandle(context), kernel, mapped, why);
}
vkattn_result vkattnSelfTestFill(vkattn_context context, vkattn_kernel kernel, void *mapped, vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    return call.result(selfTestFill(context, kernel, mapped, why));
}

static vkattn_result selfTestRecord(vkattn_context context, vkattn_kernel kernel, const SelfTestTarget &target, vkattn_diagnostic *why) {
    if (const auto r = checkJudged(context, kernel, why)) return r;
    if (!target.commandBuffer || !target.buffer) return fail(why, invalid, "commandBuffer and buffer must not be VK_NULL_HANDLE");
    return recordSelfTest(*fromHandle(context), kernel, target, why);
}
vkattn_result vkattnSelfTestRecord(vkattn_context context, vkattn_kernel kernel, VkCommandBuffer commandBuffer,
                                   VkDescriptorPool descriptorPool, VkBuffer buffer, VkDeviceSize offset, vkattn_diagnostic *why) {
    const LoggedCall call(logOf(context), why);
    return call.result(selfTestRecord(context, kernel, {commandBuffer, descriptorPool, buffer, offset}, why));
}

static vkattn_result selfTestJudge(vkattn_context context, vkattn_kernel kernel, const void *mapped, vkattn_verdict *verdict,
                                   vkattn_diagnostic *why) {
    if (const auto r = checkJudged(context, kernel, why)) return r;
    if (!mapped || !verdict) return fail(why, invalid, "mapped and verdict must not be NULL");
    return judgeSelfTest(*fromHandle(context), kernel, mapped, *verdict, why);
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
