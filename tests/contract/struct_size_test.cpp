// structSize: a caller of earlier headers has shorter structs, whose missing fields count as zero
// and are not written; a caller of later headers is refused with both sizes. For every struct that
// begins with structSize.
#include "support/vulkan/fake_vulkan.hpp"
#include "vkattn/cpu.h"
#include "vkattn/vkattn.hpp"

#include <cstddef>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <string>

using namespace vkattn;
using namespace vkattn::test;

namespace {

struct Library {
    FakeVulkan fake;
    Context context;
    vkattn_problem problem = vkattn::problem(layout, layout, layout, layout);
    vkattn_caps caps{};
    static constexpr vkattn_layout layout = packed(VKATTN_F32, 1, 2, 8, 16);

    Library() {
        problem.kernel = VKATTN_KERNEL_STAGED;
        EXPECT_EQ(context.create(fake.host()), VKATTN_OK);
        EXPECT_EQ(context.caps(caps), VKATTN_OK);
        EXPECT_EQ(context.prewarm({&problem, 1}), VKATTN_OK);
    }
};

// `call` takes the struct. Every size but what sizeof can be, up to the struct's own, is refused, with
// the numbers: another one may end inside a pointer.
template <class Struct>
void refusesOtherSizes(const char *type, const Struct &whole, const std::function<vkattn_result(Struct &, vkattn_diagnostic *)> &call) {
    vkattn_diagnostic why{};
    Struct given = whole;
    EXPECT_EQ(call(given, &why), VKATTN_OK) << type << ": " << why.message;
    const std::string known = std::to_string(sizeof(Struct));
    std::vector<uint32_t> sizes = {0, 6, static_cast<uint32_t>(sizeof(Struct) - 1), static_cast<uint32_t>(sizeof(Struct) + 4), 1u << 30};
    if (alignof(Struct) > 4) sizes.insert(sizes.end(), {12, static_cast<uint32_t>(sizeof(Struct) - 4)});
    for (const uint32_t size : sizes) {
        given = whole;
        given.structSize = size;
        why = {};
        EXPECT_EQ(call(given, &why), VKATTN_ERROR_INVALID_ARGUMENT) << type << " " << size;
        const std::string message = why.message;
        for (const std::string &part : {"structSize is " + std::to_string(size), std::string(type), known})
            EXPECT_NE(message.find(part), std::string::npos) << part << ": " << message;
        EXPECT_EQ(message.find("newer") != std::string::npos, size > sizeof(Struct)) << message;
    }
}

// A struct is filled in for a caller who knows `size` bytes of it: these bytes are those of a
// caller who knows all, and the others stay.
template <class Struct>
void writesNoFurther(const char *type, size_t size, const std::function<vkattn_result(Struct &, vkattn_diagnostic *)> &call) {
    Struct whole{};
    whole.structSize = sizeof whole;
    refusesOtherSizes<Struct>(type, whole, call);
    ASSERT_EQ(call(whole, nullptr), VKATTN_OK) << type;
    unsigned char memory[sizeof(Struct)];
    std::memset(memory, 0xa5, sizeof memory);
    const auto known = static_cast<uint32_t>(size);
    std::memcpy(memory, &known, sizeof known);
    Struct shorter;
    std::memcpy(&shorter, memory, sizeof shorter);
    vkattn_diagnostic why{};
    ASSERT_EQ(call(shorter, &why), VKATTN_OK) << type << ": " << why.message;
    EXPECT_EQ(shorter.structSize, known) << type;
    const auto *got = reinterpret_cast<const unsigned char *>(&shorter), *expected = reinterpret_cast<const unsigned char *>(&whole);
    EXPECT_EQ(std::memcmp(got + 4, expected + 4, size - 4), 0) << type;
    EXPECT_EQ(std::memcmp(got + size, memory + size, sizeof memory - size), 0) << type << ": written past its end";
}

// A struct that is read, cut before a field that holds nonsense: the field counts as zero.
template <class Struct>
void readsNoFurther(const char *type, const Struct &whole, size_t size, const std::function<void(Struct &)> &spoil,
                    const std::function<vkattn_result(Struct &, vkattn_diagnostic *)> &call) {
    refusesOtherSizes<Struct>(type, whole, call);
    Struct given = whole;
    spoil(given);
    vkattn_diagnostic why{};
    EXPECT_EQ(call(given, &why), VKATTN_ERROR_INVALID_ARGUMENT) << type << ": the nonsense is none, and this test proves nothing";
    given.structSize = static_cast<uint32_t>(size);
    EXPECT_EQ(call(given, &why), VKATTN_OK) << type << ": " << why.message;
}

} // namespace

TEST(StructSize, ofWhatIsRead) {
    Library on;
    readsNoFurther<vkattn_problem>(
        "vkattn_problem", on.problem, offsetof(vkattn_problem, presentRoles), [](auto &p) { p.presentRoles = ~0u; },
        [](auto &p, auto *why) { return vkattnValidateProblem(&p, why); });
    readsNoFurther<vkattn_host>(
        "vkattn_host", on.fake.host(), offsetof(vkattn_host, tuning), [](auto &host) { host.tuningBytes = 5; },
        [](auto &host, auto *why) {
            Context context;
            return context.create(host, why);
        });
    readsNoFurther<vkattn_caps>(
        "vkattn_caps", on.caps, offsetof(vkattn_caps, wrongKernels), [](auto &caps) { caps.wrongKernels = ~0u; },
        [&](auto &caps, auto *why) { return vkattnKernelSupport(&caps, VKATTN_KERNEL_STAGED, why); });
    readsNoFurther<vkattn_caps>(
        "vkattn_caps", on.caps, offsetof(vkattn_caps, wrongKernels), [](auto &caps) { caps.wrongKernels = ~0u; },
        [&](auto &caps, auto *why) {
            vkattn_host host = on.fake.host();
            host.capsLimit = &caps;
            Context context;
            return context.create(host, why);
        });
    readsNoFurther<vkattn_caps>(
        "vkattn_caps", on.caps, offsetof(vkattn_caps, wrongKernels), [](auto &caps) { caps.wrongKernels = ~0u; },
        [&](auto &caps, auto *why) {
            vkattn_dispatch_list list{};
            return measureDispatches(caps, on.problem, list, planOptions(0), why);
        });

    readsNoFurther<vkattn_plan_options>(
        "vkattn_plan_options", planOptions(0), offsetof(vkattn_plan_options, tuning), [](auto &options) { options.tuningBytes = 5; },
        [&](auto &options, auto *why) {
            vkattn_explanation plan{};
            return explain(on.caps, on.problem, plan, options, why);
        });
    const vkattn_host host = on.fake.host();
    refusesOtherSizes<vkattn_physical_device>("vkattn_physical_device",
                                              physicalDevice(host.getInstanceProcAddr, host.instance, host.physicalDevice, 0),
                                              [](auto &device, auto *why) {
                                                  uint32_t count = 0;
                                                  return vkattnDeviceExtensions(&device, VKATTN_HELPFUL, &count, nullptr, why);
                                              });

    FakeCommands commands;
    std::vector<vkattn_binding> bindings;
    for (uint32_t role = VKATTN_Q; role <= VKATTN_OUT; ++role)
        bindings.push_back({static_cast<vkattn_role>(role), reinterpret_cast<VkBuffer>(uintptr_t{0x1000}), 4096u * role, 1024});
    bindings.push_back({VKATTN_WORKSPACE, reinterpret_cast<VkBuffer>(uintptr_t{0x2000}), 0, 1 << 20});
    vkattn_record record{};
    record.structSize = sizeof record;
    record.commandBuffer = commands.handle();
    record.bindings = bindings.data();
    record.bindingCount = static_cast<uint32_t>(bindings.size());
    readsNoFurther<vkattn_record>(
        "vkattn_record", record, offsetof(vkattn_record, sliceIndex), [](auto &r) { r.sliceIndex = 3; },
        [&](auto &r, auto *why) { return vkattnRecord(on.context.handle(), &on.problem, &r, why); });

    std::vector<float> numbers(2 * 8 * 16);
    std::vector<vkattn_operand_memory> memory;
    for (uint32_t role = VKATTN_Q; role <= VKATTN_OUT; ++role)
        memory.push_back({static_cast<vkattn_role>(role), numbers.data(), numbers.size() * sizeof(float)});
    vkattn_verify_options options{};
    options.structSize = sizeof options;
    options.threads = 1;
    const auto verify = [&](vkattn_verify_options &given, vkattn_diagnostic *why) {
        vkattn_verify_report report{};
        return vkattnCpuVerify(&on.problem, memory.data(), 4, &given, &report, why);
    };
    refusesOtherSizes<vkattn_verify_options>("vkattn_verify_options", options, verify);
    options.rows = 2, options.seed = 1;
    vkattn_verify_report whole{}, cut{};
    ASSERT_EQ(vkattnCpuVerify(&on.problem, memory.data(), 4, &options, &whole, nullptr), VKATTN_OK);
    options.structSize = offsetof(vkattn_verify_options, rows);
    ASSERT_EQ(vkattnCpuVerify(&on.problem, memory.data(), 4, &options, &cut, nullptr), VKATTN_OK);
    EXPECT_LT(whole.rowsChecked, cut.rowsChecked) << "without `rows` all of so few are checked";
}

TEST(StructSize, ofWhatIsFilledIn) {
    Library on;
    const auto caps = [](auto &out, auto *why) { return vkattnMinimumCaps(&out, why); };
    writesNoFurther<vkattn_caps>("vkattn_caps", offsetof(vkattn_caps, matrixShapes), caps);
    writesNoFurther<vkattn_caps>("vkattn_caps", offsetof(vkattn_caps, subgroupSize), [&](auto &out, auto *why) {
        const vkattn_host host = on.fake.host();
        const vkattn_physical_device device = physicalDevice(host.getInstanceProcAddr, host.instance, host.physicalDevice, host.apiVersion);
        return vkattnPhysicalDeviceCaps(&device, host.enabledExtensions, host.enabledExtensionCount, host.enabledFeatures, &out, why);
    });
    writesNoFurther<vkattn_caps>("vkattn_caps", offsetof(vkattn_caps, subgroupSize), [&](auto &out, auto *why) {
        std::string message;
        vkattn_host host = on.fake.host();
        host.userData = &message;
        host.log = [](void *to, vkattn_log_level level, const char *text) {
            if (level == VKATTN_LOG_ERROR) *static_cast<std::string *>(to) = text;
        };
        Context context;
        EXPECT_EQ(context.create(host), VKATTN_OK);
        // Its message is in the log.
        const vkattn_result result = vkattnContextCaps(context.handle(), &out);
        if (why) message.copy(why->message, sizeof why->message - 1);
        return result;
    });
    writesNoFurther<vkattn_requirements>("vkattn_requirements", offsetof(vkattn_requirements, kernelName),
                                         [&](auto &out, auto *why) { return vkattnQuery(on.context.handle(), &on.problem, &out, why); });
    writesNoFurther<vkattn_explanation>("vkattn_explanation", offsetof(vkattn_explanation, choice),
                                        [&](auto &out, auto *why) { return vkattnExplain(&on.caps, nullptr, &on.problem, &out, why); });
    writesNoFurther<vkattn_dispatch_list>(
        "vkattn_dispatch_list", offsetof(vkattn_dispatch_list, workspaceBytes),
        [&](auto &out, auto *why) { return vkattnListDispatches(&on.caps, nullptr, &on.problem, nullptr, 0, &out, why); });
    writesNoFurther<vkattn_self_test>("vkattn_self_test", offsetof(vkattn_self_test, bufferAlignment), [&](auto &out, auto *why) {
        return vkattnSelfTestQuery(on.context.handle(), VKATTN_KERNEL_FLASH, &out, why);
    });
    writesNoFurther<vkattn_cpu_plan>("vkattn_cpu_plan", offsetof(vkattn_cpu_plan, workspaceBytes),
                                     [&](auto &out, auto *why) { return vkattnCpuExplain(&on.problem, nullptr, &out, why); });
}
