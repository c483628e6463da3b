// Shaders of the host's as steps of a list: they compute between the other steps, are verified
// against their CPU function, and wrong ones are refused.
#include "device/environment.hpp"
#include "device/host_shader.hpp"

#include <cmath>
#include <limits>

using namespace vkattn;
using namespace vkattn::test;
using conform::Limits;

namespace {

constexpr vkattn_result invalid = VKATTN_ERROR_INVALID_ARGUMENT;
constexpr uint32_t count = 100;

std::unique_ptr<Runtime> cpuRuntime() {
    RuntimeOptions options;
    options.device = "cpu";
    return Runtime::open(options, nullptr, nullptr);
}

void fill(const DeviceTensor &tensor, const std::vector<float> &values) {
    EXPECT_EQ(tensor.upload(values.data(), 4 * values.size()), VKATTN_OK);
}
std::vector<float> contents(const DeviceTensor &tensor) {
    std::vector<float> values(tensor.layout().extent[3]);
    EXPECT_EQ(tensor.download(values.data(), 4 * values.size()), VKATTN_OK);
    return values;
}

} // namespace

// Between an append before it and one after it, replayed, on every kind of device and the CPU.
TEST(ListShader, isAStepBetweenOthers) {
    const auto cpu = cpuRuntime();
    for (Runtime *runtime : {runtimeFor(Limits::full), runtimeFor(Limits::weak), cpu.get()}) {
        ASSERT_TRUE(runtime);
        const DeviceTensor given = runtime->allocate(vector(VKATTN_F32, count)), x = runtime->allocate(given.layout()),
                           y = runtime->allocate(given.layout()), z = runtime->allocate(given.layout());
        std::vector<float> values(count);
        for (uint32_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
        fill(given, values);
        OperationList list = runtime->list();
        std::string why;
        ASSERT_EQ(list.add(AppendOf{given, x}, &why), VKATTN_OK) << why;
        const ScaleAdd thrice(x, y, 3);
        ASSERT_EQ(list.add(thrice.step, &why), VKATTN_OK) << why;
        EXPECT_EQ(list.barrierCount(), 1u) << "x is read after it was written";
        ASSERT_EQ(list.add(AppendOf{y, z}, &why), VKATTN_OK) << why;
        EXPECT_EQ(list.barrierCount(), 2u) << "y is read after it was written";
        const ScaleAdd apart(given, runtime->allocate(given.layout()), 1);
        ASSERT_EQ(list.add(apart.step, &why), VKATTN_OK) << why;
        EXPECT_EQ(list.barrierCount(), 2u) << "nothing that the last step writes is shared";
        ASSERT_EQ(list.record(&why), VKATTN_OK) << why;
        for (int replay = 1; replay <= 3; ++replay) {
            ASSERT_EQ(list.submit(&why), VKATTN_OK) << why;
            const std::vector<float> got = contents(z);
            for (uint32_t i = 0; i < count; ++i) ASSERT_EQ(got[i], static_cast<float>(3 * replay) * values[i]) << i;
        }
        const RunResult result = list.run();
        EXPECT_EQ(result.status, VKATTN_OK) << result.message;
        EXPECT_EQ(result.dispatchCount, runtime->device() ? 4u : 0u);
    }
}

// A step is compared with its CPU function on what it really had, within the tolerance.
TEST(ListShader, isVerifiedByItsCpuFunction) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    const DeviceTensor x = runtime->allocate(vector(VKATTN_F32, count)), y = runtime->allocate(x.layout());
    std::vector<float> values(count, 1.0f);
    fill(x, values);
    const auto verify = [&](const ShaderStep &step) {
        OperationList list = runtime->list();
        std::string why;
        EXPECT_EQ(list.add(step, &why), VKATTN_OK) << why;
        std::vector<StepCheck> checks;
        EXPECT_EQ(list.verify(checks, nullptr, &why), VKATTN_OK) << why;
        EXPECT_EQ(checks.size(), 1u);
        EXPECT_EQ(checks.at(0).operation, "scale_add");
        return checks.at(0).report;
    };
    ScaleAdd twice(x, y, 2);
    vkattn_verify_report report = verify(twice.step);
    EXPECT_TRUE(report.passed);
    EXPECT_EQ(report.rowsChecked, 1u);
    EXPECT_EQ(report.worstError, 0);
    EXPECT_EQ(contents(y), std::vector<float>(count, 2.0f)) << "verification runs the list once";
    EXPECT_TRUE(verify(twice.step).passed) << "what a step adds to is as it was before the step";
    EXPECT_EQ(contents(y), std::vector<float>(count, 4.0f));

    // One element is off by 1 of 7: seen, with its place, unless the tolerance allows it.
    const auto right = twice.step.cpu;
    twice.step.cpu = [right](span<const ShaderMemory> memory, const void *push) {
        right(memory, push);
        static_cast<float *>(memory[1].data)[70] += 1;
    };
    report = verify(twice.step);
    EXPECT_FALSE(report.passed);
    EXPECT_EQ(report.worstIndex[3], 70u);
    EXPECT_EQ(report.worstError, 1);
    EXPECT_EQ(report.worstGot, 6);
    EXPECT_EQ(report.worstExpected, 7);
    EXPECT_EQ(report.histogram[VKATTN_VERIFY_BINS - 1], 1u);
    twice.step.absoluteTolerance = 1;
    EXPECT_TRUE(verify(twice.step).passed);
    twice.step.absoluteTolerance = 0, twice.step.relativeTolerance = 0.1;
    EXPECT_TRUE(verify(twice.step).passed) << "1 of 11 is within a tenth";
    twice.step.relativeTolerance = 0.07;
    EXPECT_FALSE(verify(twice.step).passed) << "1 of 13 is not within 7%";

    // NaN equals NaN, and nothing else.
    values[3] = std::numeric_limits<float>::quiet_NaN();
    fill(x, values);
    twice.step.cpu = right;
    EXPECT_TRUE(verify(twice.step).passed);
    twice.step.absoluteTolerance = 1e30;
    twice.step.cpu = [right](span<const ShaderMemory> memory, const void *push) {
        right(memory, push);
        static_cast<float *>(memory[1].data)[3] = 0;
    };
    EXPECT_FALSE(verify(twice.step).passed);
}

TEST(ListShader, wrongOnesAreRefused) {
    const auto cpu = cpuRuntime(), other = cpuRuntime();
    Runtime *device = runtimeFor(Limits::full);
    ASSERT_TRUE(device);
    for (Runtime *runtime : {device, cpu.get()}) {
        const DeviceTensor x = runtime->allocate(vector(VKATTN_F32, count)), y = runtime->allocate(x.layout());
        OperationList list = runtime->list();
        const ScaleAdd right(x, y, 1);
        const auto expect = [&](const char *words, const std::function<void(ShaderStep &)> &change) {
            ShaderStep step = right.step;
            change(step);
            std::string why;
            EXPECT_EQ(list.add(step, &why), invalid) << words;
            EXPECT_NE(why.find(words), std::string::npos) << "expected \"" << words << "\": " << why;
            EXPECT_EQ(list.size(), 0u) << "the list stays as it was";
        };
        const std::vector<uint32_t> noMagic(20, 7), header = {0x07230203, 0, 0, 0};
        expect("has no name", [&](ShaderStep &s) { s.name.clear(); });
        expect("no SPIR-V", [&](ShaderStep &s) { s.spirv = {}; });
        expect("no SPIR-V", [&](ShaderStep &s) { s.spirv = noMagic; });
        expect("no SPIR-V", [&](ShaderStep &s) { s.spirv = header; });
        expect("groups[1] is 0", [&](ShaderStep &s) { s.groups[1] = 0; });
        expect("pushBytes is 132", [&](ShaderStep &s) { s.pushBytes = 132; });
        expect("pushBytes is 6", [&](ShaderStep &s) { s.pushBytes = 6; });
        expect("pushConstants is NULL", [&](ShaderStep &s) { s.pushConstants = nullptr; });
        expect("tolerance", [&](ShaderStep &s) { s.absoluteTolerance = -1; });
        expect("tolerance", [&](ShaderStep &s) { s.relativeTolerance = std::numeric_limits<double>::quiet_NaN(); });
        std::vector<ShaderTensor> tensors;
        const auto given = [&](ShaderStep &s) { s.tensors = tensors; };
        expect("there are 0 tensors", given);
        tensors.assign(17, {x});
        expect("there are 17 tensors", given);
        tensors = {{x}, {{}, ShaderAccess::write}};
        expect("tensor 1 has no memory", given);
        tensors = {{x}, {y}};
        expect("no tensor is written", given);
        tensors = {{x}, {x, ShaderAccess::write}};
        expect("shares bytes with tensor 0", given);
        tensors = {{x}, {y.part(3, 1, 9), ShaderAccess::write}};
        expect("begins at byte 4 of its memory, expected a multiple of 256", given);
        tensors = {{x}, {y.part(3, 0, 0), ShaderAccess::write}};
        expect("tensor 1 has no element", given);
        tensors = {{x}, {other->allocate(x.layout()), ShaderAccess::write}};
        expect("another Runtime's", given);
        // Parts of one memory are no overlap, nor is what is only read.
        tensors = {{x}, {x}, {y.part(3, 0, 10), ShaderAccess::write}, {y.part(3, 64, 10), ShaderAccess::write}};
        ShaderStep parts = right.step;
        parts.tensors = tensors;
        std::string why;
        EXPECT_EQ(list.add(parts, &why), VKATTN_OK) << why;
    }
}

// Where the CPU computes, or is asked whether the device is right, the function must be there.
TEST(ListShader, needsItsCpuFunctionWhereTheCpuComputes) {
    const auto cpu = cpuRuntime();
    for (Runtime *runtime : {runtimeFor(Limits::full), cpu.get()}) {
        ASSERT_TRUE(runtime);
        const DeviceTensor x = runtime->allocate(vector(VKATTN_F32, count)), y = runtime->allocate(x.layout());
        ScaleAdd without(x, y, 1);
        without.step.cpu = {};
        OperationList list = runtime->list();
        std::string why;
        EXPECT_EQ(list.add(without.step, &why), runtime->device() ? VKATTN_OK : invalid);
        if (!runtime->device()) {
            EXPECT_NE(why.find("'scale_add' has no CPU function"), std::string::npos) << why;
            continue;
        }
        EXPECT_EQ(list.run().status, VKATTN_OK);
        std::vector<StepCheck> checks;
        EXPECT_EQ(list.verify(checks, nullptr, &why), invalid);
        EXPECT_NE(why.find("step 0 (scale_add): there is no CPU function"), std::string::npos) << why;
    }
}

// Limits of the device are found when the list is recorded, and the step is named.
TEST(ListShader, limitsOfTheDeviceAreErrors) {
    Runtime *runtime = runtimeFor(Limits::weak);
    ASSERT_TRUE(runtime && runtime->device());
    const DeviceTensor x = runtime->allocate(vector(VKATTN_F32, count)), y = runtime->allocate(x.layout());
    ScaleAdd right(x, y, 1);
    const auto expect = [&](const char *words) {
        OperationList list = runtime->list();
        std::string why;
        ASSERT_EQ(list.add(right.step, &why), VKATTN_OK) << why;
        EXPECT_EQ(list.record(&why), VKATTN_ERROR_UNSUPPORTED);
        EXPECT_NE(why.find(words), std::string::npos) << why;
    };
    right.step.groups[0] = 65536; // Vulkan 1.0 guarantees one less
    expect("step 0 (scale_add): groups[0] is 65536, and the device takes at most 65535");
    right.step.groups[0] = 1;
    std::vector<ShaderTensor> many(5, {x});
    many[1] = {y, ShaderAccess::write};
    right.step.tensors = many;
    expect("step 0 (scale_add): the shader's storage buffers are 5, and the device takes at most 4");
}
