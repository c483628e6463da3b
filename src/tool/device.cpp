#include "device.hpp"

namespace vkattn::tool {

std::unique_ptr<Runtime> openRuntime(const RunArguments &arguments) {
    RuntimeOptions options;
    options.device = arguments.device.value_or("");
    options.allowFallback = arguments.allowFallback;
    OpenStatus status = OpenStatus::ok;
    std::string message;
    std::unique_ptr<Runtime> runtime = Runtime::open(options, &status, &message);
    if (status == OpenStatus::unknownDevice) throw Failure(message);
    if (status != OpenStatus::ok || runtime == nullptr)
        throw Failure(message + ": leave out --no-fallback to compute on the CPU", ExitStatus::deviceUnusable);
    return runtime;
}

} // namespace vkattn::tool
