// The batteries-included library of an installed package: a device of its own, checked against the
// oracle.
#include <vkattn/runtime.hpp>

#include <cstdio>

int main() {
    constexpr uint32_t tokens = 33, dim = 24, elements = 2 * tokens * dim;
    std::vector<float> q(elements), k(elements), v(elements), out(elements, 1e30f);
    for (uint32_t n = 0; n < elements; ++n) {
        q[n] = static_cast<float>(n % 13) / 13 - 0.5f;
        k[n] = static_cast<float>(n % 7) / 7 - 0.5f;
        v[n] = static_cast<float>(n % 11) / 11 - 0.5f;
    }
    const vkattn_layout layout = vkattn::packed(VKATTN_F32, 1, 2, tokens, dim);
    const vkattn_problem problem = vkattn::problem(layout, layout, layout, layout);
    const vkattn_operand_memory operands[] = {{VKATTN_Q, q.data(), q.size() * 4},
                                              {VKATTN_K, k.data(), k.size() * 4},
                                              {VKATTN_V, v.data(), v.size() * 4},
                                              {VKATTN_OUT, out.data(), out.size() * 4}};
    std::string message;
    const auto runtime = vkattn::Runtime::open({}, nullptr, &message);
    if (!runtime) return std::printf("%s\n", message.c_str()), 1;
    const vkattn::RunResult result = runtime->run(problem, operands);
    vkattn_verify_report report{};
    vkattn_diagnostic why{};
    if (vkattnCpuVerify(&problem, operands, 4, nullptr, &report, &why) != VKATTN_OK) return std::printf("%s\n", why.message), 1;
    std::printf("%s%s: %s\n", result.device.c_str(), result.fallbackReason.c_str(), report.passed ? "right" : "wrong");
    return result.status == VKATTN_OK && report.passed && runtime->device() ? 0 : 1;
}
