// The model on the device that was asked for, or from the first error on, where that is allowed, on the CPU.
#pragma once

#include "model/paged_model.hpp"
#include "program/options/device_options.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace serve {

class Computer {
  public:
    // The checkpoint outlives the computer. Throws Failure, as moveToCpu does.
    Computer(const vkattn::program::DeviceChoice &choice, const story::Checkpoint &checkpoint, const Capacity &capacity,
             std::vector<uint32_t> systemPrompt);

    // Valid until the next move.
    [[nodiscard]] PagedModel &model() { return *model_; }
    // After an error of the model: makes the model anew, with nothing in its cache but the system prompt. Throws Failure where the
    // model is on the CPU already, or is not to move there.
    void moveToCpu(const story::ComputeError &error);

    // How often the model has moved: results of two places differ in their last bits.
    [[nodiscard]] uint32_t moves() const { return moves_; }
    // "cpu" and the fallback's name there.
    [[nodiscard]] std::string device() const { return runtime_->device() ? runtime_->device()->name : "cpu"; }
    [[nodiscard]] std::string driver() const { return runtime_->device() ? runtime_->device()->driver : "vkattn cpu fallback"; }
    [[nodiscard]] const std::string &fallbackReason() const { return reason_.empty() ? runtime_->fallbackReason() : reason_; }

  private:
    const story::Checkpoint &checkpoint_;
    Capacity capacity_;
    std::vector<uint32_t> systemPrompt_;
    bool allowFallback_;
    std::unique_ptr<vkattn::Runtime> runtime_;
    std::optional<PagedModel> model_;
    std::string reason_; // of a move
    uint32_t moves_ = 0;
};

} // namespace serve
