#include "tool/execution.hpp"

#include "program/note.hpp"
#include "tool/arrays/convert.hpp"
#include "tool/device.hpp"
#include "tool/options/names.hpp"

#include <algorithm>
#include <cstring>

namespace vkattn::tool {
using namespace program;
namespace {

// .npy has no bfloat16.
void writeWidened(std::span<const std::byte> data, OutputFile &file) {
    std::vector<float> chunk(std::min<size_t>(data.size() / sizeof(uint16_t), 65536));
    for (size_t at = 0; at < data.size(); at += chunk.size() * sizeof(uint16_t)) {
        const size_t count = std::min(chunk.size(), (data.size() - at) / sizeof(uint16_t));
        convert(VKATTN_BF16, data.data() + at, VKATTN_F32, chunk.data(), count);
        file.write(std::as_bytes(std::span(chunk).first(count)));
    }
}

// Arrays over heads are float32 in memory whatever their files hold.
void writeNarrowed(std::span<const std::byte> data, OutputFile &file) {
    std::vector<uint16_t> halves(data.size() / sizeof(float));
    convert(VKATTN_F32, data.data(), VKATTN_F16, halves.data(), halves.size());
    file.write(std::as_bytes(std::span(halves)));
}

void writeOutputs(const JobArrays &job, const HostArrays &arrays, std::vector<OutputFile> &files) {
    for (size_t i = 0; i < files.size(); i++) {
        const OutputArray &output = job.outputs[i];
        const std::string header = npyHeaderBytes(output.type, output.shape);
        files[i].write(std::as_bytes(std::span(header)));
        if (output.dtype == VKATTN_BF16)
            writeWidened(arrays.of(output.role), files[i]);
        else if (output.dtype == VKATTN_F32 && output.type == npyFloat16)
            writeNarrowed(arrays.of(output.role), files[i]);
        else
            files[i].write(arrays.of(output.role));
        files[i].close();
    }
    for (OutputFile &file : files) file.publish();
}

} // namespace

void HostArrays::add(vkattn_role role, HostBuffer buffer) {
    operands_.push_back({role, buffer.data(), buffer.bytes()});
    buffers_.push_back(std::move(buffer));
}

void HostArrays::add(const std::vector<OutputArray> &outputs) {
    for (const OutputArray &output : outputs) add(output.role, HostBuffer(static_cast<size_t>(output.bytes)));
}

std::vector<vkattn_operand_memory> HostArrays::operandsOf(const vkattn_operation &operation) const {
    vkattn_operand_use uses[VKATTN_ROLE_LIMIT];
    const std::span<const vkattn_operand_use> used(uses, vkattnOperandUses(&operation, uses, VKATTN_ROLE_LIMIT));
    std::vector<vkattn_operand_memory> operands;
    for (const vkattn_operand_memory &operand : operands_)
        if (std::any_of(used.begin(), used.end(), [&](const vkattn_operand_use &use) { return use.role == operand.role; }))
            operands.push_back(operand);
    return operands;
}

std::span<const std::byte> HostArrays::of(vkattn_role role) const {
    size_t i = 0;
    while (operands_[i].role != role) i++;
    return buffers_[i].span();
}

bool HostArrays::allFinite() const {
    uint32_t word = 0;
    std::memcpy(&word, of(VKATTN_NONFINITE).data(), sizeof word);
    return word == 0;
}

std::vector<OutputFile> openOutputs(const ComputeArguments &arguments, const JobArrays &job) {
    std::vector<std::string> inputs;
    for (const Input &input : job.inputs) inputs.push_back(input.path());
    inputs.insert(inputs.end(), job.otherFiles.begin(), job.otherFiles.end());
    std::vector<OutputTarget> targets;
    for (const OutputArray &output : job.outputs)
        targets.push_back(checkOutputTarget(operandName(arguments, output.role).option, output.path, inputs, targets));
    std::vector<OutputFile> files;
    files.reserve(targets.size());
    for (OutputTarget &target : targets) files.emplace_back(std::move(target));
    return files;
}

RunResult compute(const ComputeArguments &arguments, Runtime &runtime, const vkattn_operation &operation, const HostArrays &arrays) {
    RunOptions options;
    options.repeat = arguments.repeat;
    // Who repeats wants the steady time, and software drivers compile at first dispatch.
    options.warmUp = arguments.repeat > 1;
    const RunResult result = runtime.run(operation, arrays.operandsOf(operation), options);
    throwWhereFailed(arguments, runtime, result);
    return result;
}

Verification verify(const VerifyRequest &request, const vkattn_operation &operation, const HostArrays &arrays, const RunResult &result,
                    const std::string &step) {
    Verification verification{.step = step};
    vkattn_verify_options &options = verification.options = verifyOptions(request);
    options.probabilityUnit = result.probabilityUnit;
    options.probabilityFloor = result.probabilityFloor;
    vkattn_diagnostic why{};
    const std::vector<vkattn_operand_memory> operands = arrays.operandsOf(operation);
    if (vkattnCpuVerifyOperation(&operation, operands.data(), static_cast<uint32_t>(operands.size()), &options, &verification.report,
                                 &why) != VKATTN_OK)
        throw Failure(std::string("cannot verify: ") + why.message);
    return verification;
}

void noteUnusedKernel(const RunArguments &arguments, const Runtime &runtime) {
    // Where the CPU stands in for a device its reason is reported.
    if (arguments.kernel != VKATTN_KERNEL_AUTO && runtime.device() == nullptr && runtime.fallbackReason().empty())
        printNote(std::string("--kernel ") + vkattnKernelName(arguments.kernel) + " chooses among Vulkan kernels; the CPU has computed");
}

void throwWhereFailed(const ComputeArguments &arguments, const Runtime &runtime, const RunResult &result) {
    if (result.status == VKATTN_OK) return;
    // Where the CPU itself ran out of memory no other device was refused.
    const bool cpuFailed = result.status == VKATTN_ERROR_OUT_OF_HOST_MEMORY && (arguments.allowFallback || runtime.device() == nullptr);
    if (result.status == VKATTN_ERROR_INVALID_ARGUMENT || cpuFailed) throw Failure(result.message);
    throw Failure(result.message + adviseFallback, ExitStatus::deviceUnusable);
}

ExitStatus finish(RunReport report, const vkattn_operation &operation, const HostArrays &arrays, std::vector<OutputFile> &files) {
    if (report.arguments.verify) report.verification = verify(*report.arguments.verify, operation, arrays, report.result);
    return publish(report, arrays, files);
}

ExitStatus publish(const RunReport &report, const HostArrays &arrays, std::vector<OutputFile> &files) {
    writeOutputs(report.job, arrays, files);
    printRunReport(report);
    return report.verification && report.verification->report.passed == 0 ? ExitStatus::verificationFailed : ExitStatus::success;
}

} // namespace vkattn::tool
