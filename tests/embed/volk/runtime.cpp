// vkattn::runtime, which has a volk of its own, in an engine that uses volk.
#include "engine.h"

#include "attention.h"

#include <vkattn/runtime.hpp>

#include <cstdio>

namespace {

bool run() {
    float q[64], k[64], v[64], out[64];
    for (int n = 0; n < 64; ++n) q[n] = k[n] = v[n] = static_cast<float>(n % 9) / 9, out[n] = 1e30f;
    const vkattn_layout layout = vkattn::packed(VKATTN_F32, 1, 1, 8, 8);
    const vkattn_problem problem = vkattn::problem(layout, layout, layout, layout);
    const vkattn_operand_memory operands[] = {
        {VKATTN_Q, q, sizeof q}, {VKATTN_K, k, sizeof k}, {VKATTN_V, v, sizeof v}, {VKATTN_OUT, out, sizeof out}};
    vkattn::RuntimeOptions options;
    options.allowFallback = false;
    std::string message;
    const auto runtime = vkattn::Runtime::open(options, nullptr, &message);
    if (!runtime) return std::printf("the runtime finds no device: %s\n", message.c_str()), false;
    const vkattn::RunResult result = runtime->run(problem, operands);
    vkattn_verify_report report{};
    if (vkattnCpuVerify(&problem, operands, 4, nullptr, &report, nullptr) != VKATTN_OK || !report.passed || result.status != VKATTN_OK)
        return std::printf("the runtime computes on %s: wrong. %s\n", result.device.c_str(), result.message.c_str()), false;
    std::printf("the runtime computes on %s: right\n", result.device.c_str());
    return true;
}

} // namespace

int main() {
    gpu_instance instance;
    gpu own;
    int result = engineOpen(&instance, &own);
    if (result) return result;
    result = !run() || attend(&own, 3) || enginePointersAreIntact() || engineStillWorks(&own);
    gpuClose(&own);
    return gpuCloseInstance(&instance) || result;
}
