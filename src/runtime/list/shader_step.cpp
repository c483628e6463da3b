// A shader of the host's as a step of a list: its description checked, its CPU function, and the
// comparison of the two.
#include "runtime/layouts.hpp"
#include "runtime/list/step.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vkattn {
namespace {

constexpr uint32_t spirvMagic = 0x07230203;
constexpr size_t spirvHeaderWords = 5;

std::string number(uint64_t value) {
    return std::to_string(value);
}

// Returns what is wrong with a description, its tensors apart; empty: nothing.
std::string problemOf(const ShaderStep &s) {
    if (s.spirv.size() < spirvHeaderWords || s.spirv[0] != spirvMagic)
        return "there is no SPIR-V: expected words that begin with 0x07230203, as glslc -mfmt=num writes them";
    for (int d = 0; d < 3; ++d)
        if (s.groups[d] == 0) return "groups[" + number(static_cast<uint64_t>(d)) + "] is 0, expected at least 1";
    if (s.pushBytes > maxShaderPushBytes || s.pushBytes % 4 != 0)
        return "pushBytes is " + number(s.pushBytes) + ", expected a multiple of 4, at most " + number(maxShaderPushBytes);
    if (s.pushBytes > 0 && !s.pushConstants) return "pushConstants is NULL with pushBytes " + number(s.pushBytes);
    if (s.tensors.empty() || s.tensors.size() > maxShaderTensors)
        return "there are " + number(s.tensors.size()) + " tensors, expected 1 to " + number(maxShaderTensors);
    for (const double tolerance : {s.absoluteTolerance, s.relativeTolerance})
        if (!(tolerance >= 0) || !std::isfinite(tolerance)) return "a tolerance is not a finite number from 0 on";
    return {};
}

// An element as a double, which holds every element exactly.
double elementOf(vkattn_dtype dtype, const unsigned char *from) {
    float single = 0;
    uint32_t word = 0;
    switch (dtype) {
    case VKATTN_F32:
        std::memcpy(&single, from, 4);
        return static_cast<double>(single);
    case VKATTN_F16:
    case VKATTN_BF16:
        (void)vkattnConvert(dtype, from, VKATTN_F32, &single, 1, nullptr);
        return static_cast<double>(single);
    case VKATTN_BOOL8:
        return static_cast<double>(*from);
    default:
        std::memcpy(&word, from, 4);
        return static_cast<double>(word);
    }
}

// The place of error / bound in vkattn_verify_report::histogram.
int binOf(double error, double bound) {
    if (error == 0) return 0;
    if (!(error <= bound)) return VKATTN_VERIFY_BINS - 1;
    return std::clamp(static_cast<int>(std::ceil(std::log2(error / bound))) + 14, 1, 14);
}

} // namespace

vkattn_result ListStep::describe(const ShaderStep &given, std::vector<StepMemory> tensors, std::string *why) {
    const auto refuse = [&](const std::string &reason) { return failed(invalid, "the shader step '" + given.name + "': " + reason, why); };
    if (given.name.empty()) return failed(invalid, "a shader step has no name: reports and reasons say the name", why);
    if (const std::string problem = problemOf(given); !problem.empty()) return refuse(problem);
    ShaderWork &work = shader_.emplace();
    for (size_t n = 0; n < tensors.size(); ++n) {
        const std::string name = "tensor " + number(n);
        if (!tensors[n].memory) return refuse(name + " has no memory: it is empty, or its allocation failed");
        Elements elements;
        (void)findElements(tensors[n].layout, elements); // no tensor has a layout without elements in its memory
        const uint64_t size = elementSize(tensors[n].layout.dtype);
        const MemoryUse made = {tensors[n].memory.get(), elements.begin * size, elements.end * size,
                                given.tensors[n].access != ShaderAccess::read};
        if (made.begin == made.end) return refuse(name + " has no element");
        if (made.begin % shaderAlignment != 0)
            return refuse(name + " begins at byte " + number(made.begin) + " of its memory, expected a multiple of " +
                          number(shaderAlignment) + ": give the whole, and the offset as a push constant");
        for (size_t o = 0; o < n; ++o)
            if (conflicts(made, {&work.tensors[o], 1}))
                return refuse(name + " shares bytes with tensor " + number(o) +
                              ", and the shader writes one of them: give the memory once, as readWrite");
        work.tensors.push_back(made);
        work.memory.push_back({tensors[n].memory->address() + made.begin, made.end - made.begin});
        work.host.buffers.push_back({tensors[n].memory->buffer(), made.begin, (made.end - made.begin + 3) & ~3ull});
    }
    if (std::none_of(work.tensors.begin(), work.tensors.end(), [](const MemoryUse &each) { return each.writes; }))
        return refuse("no tensor is written: give what the shader writes as ShaderAccess::write or readWrite");
    work.host.name = given.name;
    work.host.spirv.assign(given.spirv.begin(), given.spirv.end());
    const auto *push = static_cast<const unsigned char *>(given.pushConstants);
    work.host.push.assign(push, push + given.pushBytes);
    std::copy_n(given.groups, 3, work.host.groups);
    work.cpu = given.cpu;
    work.absoluteTolerance = given.absoluteTolerance, work.relativeTolerance = given.relativeTolerance;
    operands_ = std::move(tensors);
    bound.shader = &work.host;
    return VKATTN_OK;
}

void ListStep::computeShader() const {
    shader_->cpu(shader_->memory, shader_->host.push.data());
}

vkattn_result ListStep::verifyShader(StepImages &before, StepImages &after, vkattn_verify_report &report, std::string *why) const {
    const ShaderWork &work = *shader_;
    if (!work.cpu) return failed(invalid, "there is no CPU function to compare with: set ShaderStep::cpu", why);
    const auto bytesOf = [&](StepImages &images, size_t n) {
        return reinterpret_cast<unsigned char *>(images[operands_[n].memory.get()].data());
    };
    std::vector<ShaderMemory> truth;
    for (size_t n = 0; n < work.tensors.size(); ++n)
        truth.push_back({bytesOf(before, n) + work.tensors[n].begin, work.tensors[n].end - work.tensors[n].begin});
    work.cpu(truth, work.host.push.data());

    report = {};
    report.passed = 1;
    report.worstRole = VKATTN_Y;
    double worst = -1;
    for (size_t n = 0; n < work.tensors.size(); ++n) {
        if (!work.tensors[n].writes) continue;
        const vkattn_layout &layout = operands_[n].layout;
        const uint64_t size = elementSize(layout.dtype), rows = uint64_t{layout.extent[0]} * layout.extent[1] * layout.extent[2];
        report.rowsTotal += rows, report.rowsChecked += rows;
        const bool exact = layout.dtype == VKATTN_BITS32 || layout.dtype == VKATTN_BOOL8;
        eachElement(layout, [&](uint64_t at, uint64_t index) {
            const double expected = elementOf(layout.dtype, bytesOf(before, n) + at * size),
                         got = elementOf(layout.dtype, bytesOf(after, n) + at * size);
            const bool same = got == expected || (std::isnan(got) && std::isnan(expected));
            const double allowed =
                exact || !std::isfinite(expected) ? 0 : work.absoluteTolerance + work.relativeTolerance * std::fabs(expected);
            const double difference = std::fabs(got - expected), infinite = std::numeric_limits<double>::infinity();
            const double error = same ? 0 : std::isfinite(difference) ? difference : infinite;
            const double ratio = error == 0 ? 0 : allowed > 0 ? error / allowed : infinite;
            ++report.histogram[binOf(error, allowed)];
            report.maxError = std::max(report.maxError, error);
            if (!(error <= allowed)) report.passed = 0;
            if (!(ratio > worst)) return;
            worst = ratio;
            report.worstError = error, report.worstBound = allowed, report.worstGot = got, report.worstExpected = expected;
            for (int d = 3; d >= 0; --d) {
                report.worstIndex[d] = static_cast<uint32_t>(index % layout.extent[d]);
                index /= layout.extent[d];
            }
        });
    }
    return VKATTN_OK;
}

} // namespace vkattn
