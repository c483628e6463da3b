#include "tool/rotary_command.hpp"

#include "tool/arrays/rotary_job.hpp"
#include "tool/device.hpp"
#include "tool/execution.hpp"
#include "tool/report/options_report.hpp"

#include <vkattn/operations.hpp>

#include <algorithm>

namespace vkattn::tool {
using namespace program;
namespace {

// 32-bit numbers.
template <class Word> std::span<Word> wordsOf(const HostBuffer &buffer) {
    return {reinterpret_cast<Word *>(buffer.data()), buffer.bytes() / sizeof(Word)};
}

HostArrays loadArrays(const RotaryArguments &arguments, RotaryJob &job) {
    const vkattn_operation operation = vkattn::operation(job.rotary);
    const auto buffer = [&](vkattn_role role) { return HostBuffer(static_cast<size_t>(vkattnOperationBytes(&operation, role))); };
    HostArrays arrays;
    for (Input &input : job.inputs) {
        if (input.role() != VKATTN_POSITIONS) {
            arrays.add(input.role(), input.load(operation));
            continue;
        }
        HostBuffer positions = buffer(VKATTN_POSITIONS);
        std::copy(job.positions.begin(), job.positions.end(), wordsOf<uint32_t>(positions).begin());
        arrays.add(VKATTN_POSITIONS, std::move(positions));
    }
    if (!job.tablePositions.empty()) {
        HostBuffer cos = buffer(VKATTN_COS), sin = buffer(VKATTN_SIN);
        buildTables(job.tablePositions, 2 * job.rotary.cos.extent[3], arguments, wordsOf<float>(cos), wordsOf<float>(sin));
        arrays.add(VKATTN_COS, std::move(cos));
        arrays.add(VKATTN_SIN, std::move(sin));
    }
    arrays.add(job.outputs);
    return arrays;
}

} // namespace

ExitStatus rotaryCommand(const RotaryArguments &arguments) {
    RotaryJob job = describeJob(arguments);
    std::vector<OutputFile> files = openOutputs(arguments, job);
    const std::unique_ptr<Runtime> runtime = openDevice(arguments);
    const HostArrays arrays = loadArrays(arguments, job);
    RunReport report{.arguments = arguments, .job = job, .options = optionsJson(arguments, job.rotary)};
    report.result = compute(arguments, *runtime, operation(job.rotary), arrays);
    return finish(std::move(report), operation(job.rotary), arrays, files);
}

} // namespace vkattn::tool
