#include "model/computer.hpp"

#include "program/failure.hpp"

namespace serve {

using namespace vkattn::program;

Computer::Computer(const DeviceChoice &choice, const story::Checkpoint &checkpoint, const Capacity &capacity,
                   std::vector<uint32_t> systemPrompt)
    : checkpoint_(checkpoint), capacity_(capacity), systemPrompt_(std::move(systemPrompt)), allowFallback_(choice.allowFallback),
      runtime_(openRuntime(runtimeOptions(choice))) {
    try {
        model_.emplace(*runtime_, checkpoint_, capacity_, systemPrompt_);
    } catch (const story::ComputeError &error) {
        moveToCpu(error);
    }
}

void Computer::moveToCpu(const story::ComputeError &error) {
    if (!runtime_->device() || error.result == VKATTN_ERROR_INVALID_ARGUMENT) throw Failure(error.what(), ExitStatus::deviceUnusable);
    if (!allowFallback_) throw Failure(error.what() + std::string(adviseFallback), ExitStatus::deviceUnusable);
    reason_ = runtime_->device()->name + ": " + error.what();
    model_.reset();
    vkattn::RuntimeOptions cpu;
    cpu.device = "cpu";
    runtime_ = openRuntime(cpu);
    ++moves_;
    try {
        model_.emplace(*runtime_, checkpoint_, capacity_, systemPrompt_);
    } catch (const story::ComputeError &again) {
        throw Failure(again.what(), ExitStatus::deviceUnusable);
    }
}

} // namespace serve
