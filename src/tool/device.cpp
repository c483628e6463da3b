#include "tool/device.hpp"

#include "tool/verdicts.hpp"

namespace vkattn::tool {
using namespace program;
std::unique_ptr<Runtime> openDevice(const ComputeArguments &arguments) {
    return program::openRuntime(runtimeOptions(arguments));
}

OpenedRuntime openRuntime(const RunArguments &arguments) {
    OpenedRuntime opened;
    RuntimeOptions options = runtimeOptions(arguments);
    useVerdicts(arguments.verdicts, options);
    opened.verdictFile = options.verdictFile;
    if (arguments.tuning) options.tuning = (opened.tuning = readTuning(*arguments.tuning)).text;
    opened.runtime = program::openRuntime(options);
    if (opened.runtime->device() == nullptr) return opened;
    if (!arguments.tuning && arguments.findTuning) {
        // The file has the device's name, which is known only now.
        opened.tuning = findTuning(opened.runtime->device()->name);
        options.tuning = opened.tuning.text;
        if (!options.tuning.empty()) {
            opened.runtime.reset();
            opened.runtime = program::openRuntime(options);
        }
    }
    if (const DeviceInfo *device = opened.runtime->device()) warnOfOtherDevice(opened.tuning, *device);
    return opened;
}

} // namespace vkattn::tool
