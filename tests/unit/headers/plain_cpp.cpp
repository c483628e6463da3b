// vkattn.hpp as engines compile it: without exceptions, without RTTI (tests/unit/CMakeLists.txt),
// without Vulkan's prototypes.
#define VK_NO_PROTOTYPES
#include "vkattn/vkattn.hpp"

#include <concepts>
#include <type_traits>

#if defined(__GNUC__) && (defined(__cpp_exceptions) || defined(__GXX_RTTI))
#error "this file is to be compiled with -fno-exceptions -fno-rtti"
#endif

namespace {

using vkattn::Context;

static_assert(sizeof(Context) == sizeof(void *), "a handle and nothing else");
static_assert(std::is_nothrow_move_constructible_v<Context> && std::is_nothrow_move_assignable_v<Context>);
static_assert(!std::is_copy_constructible_v<Context>);

// Every call has a face.
template <class T>
concept Faces = requires(const T &context, const vkattn_problem &problem, vkattn::span<const vkattn_binding> bindings,
                         VkCommandBuffer commands, vkattn_requirements &requirements, uint32_t &count, size_t &bytes,
                         vkattn::span<std::byte> data, vkattn_caps &caps, vkattn_dispatch_list &list, vkattn_explanation &explanation) {
    { context.query(problem, requirements) } -> std::same_as<vkattn_result>;
    { context.recordSlice(problem, 1, commands, bindings) } -> std::same_as<vkattn_result>;
    { context.slicesForBudget(problem, 500.0, count) } -> std::same_as<vkattn_result>;
    { context.cacheBytes(bytes) } -> std::same_as<vkattn_result>;
    { context.exportCache(data, bytes) } -> std::same_as<vkattn_result>;
    { context.importCache(data) } -> std::same_as<vkattn_result>;
    { context.caps(caps) } -> std::same_as<vkattn_result>;
    { vkattn::measureDispatches(caps, problem, list) } -> std::same_as<vkattn_result>;
    { vkattn::listDispatches(caps, problem, data, list) } -> std::same_as<vkattn_result>;
    { vkattn::explain(caps, problem, explanation) } -> std::same_as<vkattn_result>;
};
static_assert(Faces<Context>);

} // namespace

// Returns how many calls did not return INVALID_ARGUMENT.
int facesAnswerNoHandleWithAnError() {
    const Context context;
    const vkattn_problem problem{};
    vkattn_requirements requirements{};
    vkattn_caps caps{};
    VkPhysicalDeviceFeatures2 chain{};
    vkattn_feature_storage room{};
    uint32_t count = 0;
    const vkattn_result results[] = {
        context.query(problem, requirements),
        context.prewarm({&problem, 1}),
        context.record(problem, nullptr, {}),
        context.recordSlice(problem, 1, nullptr, {}),
        context.caps(caps),
        vkattn::deviceExtensions(vkattn::physicalDevice(nullptr, nullptr, nullptr, 0), VKATTN_HELPFUL, count),
        vkattn::patchFeatures(vkattn::physicalDevice(nullptr, nullptr, nullptr, 0), {}, chain, room),
        vkattn::physicalDeviceCaps(vkattn::physicalDevice(nullptr, nullptr, nullptr, 0), {}, nullptr, caps),
    };
    int wrong = 0;
    for (const vkattn_result result : results) wrong += result != VKATTN_ERROR_INVALID_ARGUMENT;
    return wrong;
}
