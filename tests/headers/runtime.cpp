// runtime.hpp as hosts use it; compiled at each language level (tests/headers.cmake).
#include <vkattn/runtime.hpp>

vkattn::RunResult runOnce(const vkattn_problem &problem, const std::vector<vkattn_operand_memory> &operands) {
    vkattn::RuntimeOptions options;
    options.device = "cpu";
    std::string message;
    const auto runtime = vkattn::Runtime::open(options, nullptr, &message);
    if (!runtime || runtime->prewarm({&problem, 1}, &message) != VKATTN_OK) return {};
    return runtime->run(problem, operands);
}
