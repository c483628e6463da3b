// Every function of vkattn.hpp, called as hosts call it; compiled at each language level
// (tests/headers.cmake).
#define VK_NO_PROTOTYPES
#include <vkattn/vkattn.hpp>

#include <array>
#include <string>
#include <vector>

static_assert(std::is_trivially_copyable_v<vkattn::span<int>> && !std::is_convertible_v<vkattn::span<const int>, vkattn::span<int>> &&
              !std::is_convertible_v<std::vector<int>, vkattn::span<int>> &&
              std::is_convertible_v<std::vector<int>, vkattn::span<const int>>);

namespace {

int failures(const vkattn::Context &context, const vkattn_problem &problem, VkCommandBuffer commands) {
    const vkattn_binding array[] = {{VKATTN_Q, VK_NULL_HANDLE, 0, 4}};
    const std::vector<vkattn_binding> vector(array, array + 1);
    std::array<vkattn_binding, 1> standard{{array[0]}};
    std::vector<std::byte> bytes(100);
    const std::vector<std::byte> blob(100);
    vkattn_requirements requirements{};
    vkattn_caps caps{};
    vkattn_self_test test{};
    vkattn_verdict verdict{};
    vkattn_dispatch_list list{};
    vkattn_explanation explanation{};
    const std::string tuning = "vkattn-tuning 1\n";
    const vkattn_plan_options options = vkattn::planOptions(1 << 20, tuning);
    size_t size = 0;
    uint32_t count = 0;
    const vkattn_result results[] = {
        context.query(problem, requirements),
        context.prewarm({&problem, 1}),
        context.record(problem, commands, array),
        context.record(problem, commands, vector),
        context.record(problem, commands, standard),
        context.record(problem, commands, {standard.data(), 1}),
        context.recordSlice(problem, 1, commands, vkattn::span(standard)),
        context.slicesForBudget(problem, 500.0, count),
        context.caps(caps),
        context.setVerdict(VKATTN_KERNEL_STAGED, VKATTN_VERDICT_TRUSTED),
        context.selfTestQuery(VKATTN_KERNEL_FLASH, test),
        context.selfTestFill(VKATTN_KERNEL_FLASH, bytes.data()),
        context.selfTestRecord(VKATTN_KERNEL_FLASH, commands, VK_NULL_HANDLE, 0),
        context.selfTestJudge(VKATTN_KERNEL_FLASH, bytes.data(), verdict),
        context.cacheBytes(size),
        context.exportCache(bytes, size),
        context.importCache(blob),
        vkattn::explain(caps, problem, explanation),
        vkattn::explainKernel(caps, problem, VKATTN_KERNEL_FLASH, options),
        vkattn::measureDispatches(caps, problem, list),
        vkattn::listDispatches(caps, problem, bytes, list, options),
    };
    int failed = 0;
    for (const vkattn_result result : results) failed += result < VKATTN_OK;
    for (const vkattn_dispatch &dispatch : vkattn::span(list.dispatches, list.dispatchCount)) failed += dispatch.operandCount == 0;
    return failed;
}

// The operations beside attention.
int operationFailures(const vkattn::Context &context, VkCommandBuffer commands, const vkattn_caps &caps) {
    const vkattn_layout x = vkattn::matrix(VKATTN_F32, 4, 64), table = vkattn::matrix(VKATTN_F32, 16, 32);
    vkattn_projection projection = vkattn::projection(x, vkattn::matrix(VKATTN_F16, 64, 64), x);
    projection.bias = vkattn::vector(VKATTN_F32, 64);
    const vkattn_norm layer = vkattn::layerNorm(x, x), rms = vkattn::rmsNorm(x, x);
    const vkattn_rotary rotary = vkattn::rotary(x, table, table, x);
    const vkattn_append append = vkattn::append(x, vkattn::matrix(VKATTN_BF16, 100, 64));
    const vkattn_layout counters = vkattn::vector(VKATTN_BITS32, 4);
    const vkattn_advance advance = vkattn::advance(counters, counters, 1, 100);
    const vkattn_mean mean = vkattn::mean(vkattn::packed(VKATTN_F32, 1, 2, 4, 64), x);
    const vkattn_append pages = vkattn::appendToPages(x, vkattn::packed(VKATTN_F16, 9, 1, 16, 64), 4);
    const vkattn_merge merge = vkattn::merge(2, vkattn::packed(VKATTN_F32, 2, 1, 4, 64), vkattn::packed(VKATTN_F32, 2, 1, 4, 1), x);
    const vkattn_hadamard hadamard = vkattn::hadamard(x, x);
    const vkattn_keep keep = vkattn::keep(0.1, 42, 7, 100, vkattn::matrix(VKATTN_BITS32, 4, 4));
    const vkattn_norm_gradient gradient = vkattn::normGradient(VKATTN_RMS_NORM, x, {}, x, x);
    const vkattn_drop drop = vkattn::drop(0.1, 42, 7, x, x);
    const vkattn_problem attention = vkattn::problem(x, x, x, x);
    vkattn_attention_statistics statistics = vkattn::attentionStatistics(attention);
    statistics.received = vkattn::matrix(VKATTN_F32, 4, 1);
    const vkattn_visible_blocks blocks = vkattn::visibleBlocks(attention, 2, 2);
    const vkattn_linear_attention linear = vkattn::linearAttention(x, x, x, x);
    vkattn_linear_gradient ofLinear = vkattn::linearGradient(linear, x);
    ofLinear.dV = x;
    const vkattn_operation all[] = {vkattn::operation(pages),      vkattn::operation(merge),      vkattn::operation(hadamard),
                                    vkattn::operation(projection), vkattn::operation(layer),      vkattn::operation(rms),
                                    vkattn::operation(rotary),     vkattn::operation(append),     vkattn::operation(advance),
                                    vkattn::operation(mean),       vkattn::operation(keep),       vkattn::operation(gradient),
                                    vkattn::operation(drop),       vkattn::operation(statistics), vkattn::operation(linear),
                                    vkattn::operation(ofLinear),   vkattn::operation(blocks)};
    int failed = context.prewarm(all) < VKATTN_OK;
    for (const vkattn_operation &operation : all) {
        vkattn_requirements needs{};
        vkattn_explanation explanation{};
        failed += context.query(operation, needs) < VKATTN_OK;
        failed += vkattn::explain(caps, operation, explanation) < VKATTN_OK;
        failed += context.record(operation, commands, {}) < VKATTN_OK;
    }
    return failed;
}

} // namespace

int calls(PFN_vkGetInstanceProcAddr getInstanceProcAddr, VkInstance instance, VkPhysicalDevice physicalDevice, VkDevice device,
          VkCommandBuffer commands) {
    uint32_t count = 0;
    const vkattn_physical_device asked = vkattn::physicalDevice(getInstanceProcAddr, instance, physicalDevice, VK_API_VERSION_1_1);
    if (vkattn::deviceExtensions(asked, VKATTN_HELPFUL, count) != VKATTN_OK) return 1;
    std::vector<const char *> extensions(count);
    if (vkattn::deviceExtensions(asked, VKATTN_HELPFUL, count, extensions) != VKATTN_OK) return 1;
    VkPhysicalDeviceFeatures2 features{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, nullptr, {}};
    vkattn_feature_storage room;
    vkattn_caps caps{};
    if (vkattn::patchFeatures(asked, extensions, features, room) != VKATTN_OK ||
        vkattn::physicalDeviceCaps(asked, extensions, &features, caps) != VKATTN_OK)
        return 1;
    vkattn::Context made, context;
    if (made.create(vkattn::host(getInstanceProcAddr, instance, physicalDevice, device, VK_API_VERSION_1_1, extensions, &features)) !=
        VKATTN_OK)
        return 1;
    context = std::move(made);
    const vkattn_layout rows = vkattn::packedTokenMajor(VKATTN_F16, 1, 2, 8, 64), columns = vkattn::packed(VKATTN_F16, 1, 2, 8, 64);
    return operationFailures(context, commands, caps) + failures(context, vkattn::problem(rows, columns, columns, rows), commands) +
           (context.handle() && context ? 0 : 1);
}
