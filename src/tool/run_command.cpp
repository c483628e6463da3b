#include "tool/run_command.hpp"

#include "program/note.hpp"
#include "tool/arrays/convert.hpp"
#include "tool/arrays/job.hpp"
#include "tool/arrays/output_file.hpp"
#include "tool/device.hpp"
#include "tool/options/names.hpp"
#include "tool/report/run_report.hpp"

#include <vkattn/runtime.hpp>

#include <algorithm>
#include <cstring>

namespace vkattn::tool {
using namespace program;
namespace {

std::vector<OutputFile> openOutputs(const Job &job) {
    std::vector<std::string> inputs;
    for (const Input &input : job.inputs) inputs.push_back(input.path());
    std::vector<OutputTarget> targets;
    for (const OutputArray &output : job.outputs)
        targets.push_back(checkOutputTarget(operandName(output.role).option, output.path, inputs, targets));
    std::vector<OutputFile> files;
    files.reserve(targets.size());
    for (OutputTarget &target : targets) files.emplace_back(std::move(target));
    return files;
}

// Storage of every operand, bound by role.
struct HostArrays {
    std::vector<HostBuffer> buffers; // inputs, then outputs, in the job's order
    std::vector<vkattn_operand_memory> operands;
};

HostArrays loadArrays(Job &job) {
    HostArrays arrays;
    const auto add = [&](vkattn_role role, HostBuffer buffer) {
        arrays.operands.push_back({role, buffer.data(), buffer.bytes()});
        arrays.buffers.push_back(std::move(buffer));
    };
    for (Input &input : job.inputs) add(input.role(), input.load(job.problem));
    for (const OutputArray &output : job.outputs) add(output.role, HostBuffer(static_cast<size_t>(output.bytes)));
    return arrays;
}

RunResult compute(const RunArguments &arguments, Runtime &runtime, const Job &job, const HostArrays &arrays) {
    RunOptions options;
    options.repeat = arguments.repeat;
    // Who repeats wants the steady time, and software drivers compile at first dispatch.
    options.warmUp = arguments.repeat > 1;
    const RunResult result = runtime.run(job.problem, arrays.operands, options);
    if (result.status == VKATTN_OK) return result;
    // Where the CPU itself ran out of memory no other device was refused.
    const bool cpuFailed = result.status == VKATTN_ERROR_OUT_OF_HOST_MEMORY && (arguments.allowFallback || runtime.device() == nullptr);
    if (result.status == VKATTN_ERROR_INVALID_ARGUMENT || cpuFailed) throw Failure(result.message);
    throw Failure(result.message + ": leave out --no-fallback to compute on the CPU", ExitStatus::deviceUnusable);
}

Verification verify(const VerifyRequest &request, const Job &job, const HostArrays &arrays, const RunResult &result) {
    Verification verification;
    vkattn_verify_options &options = verification.options;
    options.structSize = sizeof options;
    options.allRows = request.allRows ? 1 : 0;
    options.rows = request.rows;
    options.seed = 1; // fixed: the same command checks the same rows
    options.probabilityUnit = result.probabilityUnit;
    options.probabilityFloor = result.probabilityFloor;
    vkattn_diagnostic why{};
    const auto count = static_cast<uint32_t>(arrays.operands.size());
    if (vkattnCpuVerify(&job.problem, arrays.operands.data(), count, &options, &verification.report, &why) != VKATTN_OK)
        throw Failure(std::string("cannot verify: ") + why.message);
    return verification;
}

// .npy has no bfloat16.
void writeWidened(std::span<const std::byte> data, OutputFile &file) {
    std::vector<float> chunk(std::min<size_t>(data.size() / sizeof(uint16_t), 65536));
    for (size_t at = 0; at < data.size(); at += chunk.size() * sizeof(uint16_t)) {
        const size_t count = std::min(chunk.size(), (data.size() - at) / sizeof(uint16_t));
        convert(VKATTN_BF16, data.data() + at, VKATTN_F32, chunk.data(), count);
        file.write(std::as_bytes(std::span(chunk).first(count)));
    }
}

void writeOutputs(const Job &job, const HostArrays &arrays, std::vector<OutputFile> &files) {
    for (size_t i = 0; i < files.size(); i++) {
        const std::string header = npyHeaderBytes(job.outputs[i].type, job.outputs[i].shape);
        files[i].write(std::as_bytes(std::span(header)));
        const std::span<const std::byte> data = arrays.buffers[job.inputs.size() + i].span();
        if (job.outputs[i].dtype == VKATTN_BF16)
            writeWidened(data, files[i]);
        else
            files[i].write(data);
        files[i].close();
    }
    for (OutputFile &file : files) file.publish();
}

} // namespace

ExitStatus runCommand(const RunArguments &arguments) {
    RunReport report{.arguments = arguments, .job = describeJob(arguments)};
    std::vector<OutputFile> files = openOutputs(report.job);
    const OpenedRuntime opened = openRuntime(arguments);
    const std::unique_ptr<Runtime> &runtime = opened.runtime;
    report.tuning = opened.tuning.source;
    const HostArrays arrays = loadArrays(report.job);
    report.result = compute(arguments, *runtime, report.job, arrays);
    // Where the CPU stands in for a device its reason is reported.
    if (arguments.kernel != VKATTN_KERNEL_AUTO && runtime->device() == nullptr && runtime->fallbackReason().empty())
        printNote(std::string("--kernel ") + vkattnKernelName(arguments.kernel) + " chooses among Vulkan kernels; the CPU has computed");
    if (arguments.verify) report.verification = verify(*arguments.verify, report.job, arrays, report.result);
    writeOutputs(report.job, arrays, files);
    printRunReport(report);
    return report.verification && report.verification->report.passed == 0 ? ExitStatus::verificationFailed : ExitStatus::success;
}

} // namespace vkattn::tool
