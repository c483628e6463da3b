// Compiles the library's pipelines by letting the library do it. The library calls our
// vkCreateComputePipelines, which asks the driver for statistics and reads them.
#pragma once

#include "compile/figures.hpp"

#include <vkattn/runtime.hpp>

#include <memory>
#include <string>
#include <vector>

namespace vkattn::bench {

struct Representation {
    std::string name, text;
};

struct CompiledPipeline {
    std::string shader;
    Figures figures;
    MatrixCounts matrix;
    std::vector<Statistic> statistics;
    std::vector<Representation> representations;
};

class CompileCapture {
  public:
    CompileCapture(const DeviceInfo &device, const std::string &tuning); // throws Failure
    ~CompileCapture();
    CompileCapture(const CompileCapture &) = delete;
    CompileCapture &operator=(const CompileCapture &) = delete;

    struct Outcome {
        vkattn_result result = VKATTN_OK;
        std::string why; // reason where result is not OK
        // The operation's pipelines that no earlier one has.
        std::vector<CompiledPipeline> pipelines;
    };
    [[nodiscard]] Outcome compile(const vkattn_operation &operation);

  private:
    class Device;
    std::unique_ptr<Device> device_;
};

} // namespace vkattn::bench
