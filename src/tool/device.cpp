#include "tool/device.hpp"

#include "tool/verdicts.hpp"

namespace vkattn::tool {
using namespace program;
namespace {

RuntimeOptions runtimeOptions(const ComputeArguments &arguments) {
    RuntimeOptions options;
    options.device = arguments.device.value_or("");
    options.allowFallback = arguments.allowFallback;
    return options;
}

} // namespace

std::unique_ptr<Runtime> openRuntime(const RuntimeOptions &options, const std::string &ifUnusable) {
    OpenStatus status = OpenStatus::ok;
    std::string message;
    std::unique_ptr<Runtime> runtime = Runtime::open(options, &status, &message);
    if (status == OpenStatus::unknownDevice) throw Failure(message);
    if (status != OpenStatus::ok || runtime == nullptr) throw Failure(message + ifUnusable, ExitStatus::deviceUnusable);
    return runtime;
}

std::unique_ptr<Runtime> openDevice(const ComputeArguments &arguments) {
    return openRuntime(runtimeOptions(arguments), adviseFallback);
}

OpenedRuntime openRuntime(const RunArguments &arguments) {
    OpenedRuntime opened;
    RuntimeOptions options = runtimeOptions(arguments);
    useVerdicts(arguments.verdicts, options);
    opened.verdictFile = options.verdictFile;
    if (arguments.tuning) options.tuning = (opened.tuning = readTuning(*arguments.tuning)).text;
    opened.runtime = openRuntime(options, adviseFallback);
    if (opened.runtime->device() == nullptr) return opened;
    if (!arguments.tuning && arguments.findTuning) {
        // The file has the device's name, which is known only now.
        opened.tuning = findTuning(opened.runtime->device()->name);
        options.tuning = opened.tuning.text;
        if (!options.tuning.empty()) {
            opened.runtime.reset();
            opened.runtime = openRuntime(options, adviseFallback);
        }
    }
    if (const DeviceInfo *device = opened.runtime->device()) warnOfOtherDevice(opened.tuning, *device);
    return opened;
}

} // namespace vkattn::tool
