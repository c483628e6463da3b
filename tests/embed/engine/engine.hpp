// An engine that keeps its context as a member.
#pragma once

#include "gpu.hpp"

class Engine {
  public:
    explicit Engine(gpu &own) : gpu_(own) {} // the device outlives the engine
    // Both return GPU_OK, or GPU_FAILED after printing why. The verifier has compared the result
    // with the oracle.
    int attendOnDevice();
    int attendOnCpu();

  private:
    int judge(const char *where, unsigned char *memory) const;

    gpu &gpu_;
    vkattn::Context attention_;
    vkattn_problem problem_{};
};
