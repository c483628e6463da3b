// The same attention with a window of the library's, with a program that was compiled at build time, and with one that is compiled now.
#include "near_keys.h"

#include <vkattn/runtime.hpp>
#ifdef HAS_COMPILER
#include <vkattn/program.hpp>
#endif

#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

namespace {

constexpr uint32_t tokens = 40, dim = 16, heads = 2, reach = 3;
std::vector<float> numbers(size_t{heads} * tokens * dim);

std::vector<float> run(vkattn::Runtime &runtime, const vkattn_problem &problem) {
    std::vector<float> out(numbers.size());
    const size_t bytes = 4 * out.size();
    const vkattn_operand_memory operands[] = {{VKATTN_Q, numbers.data(), bytes},
                                              {VKATTN_K, numbers.data(), bytes},
                                              {VKATTN_V, numbers.data(), bytes},
                                              {VKATTN_OUT, out.data(), bytes}};
    const vkattn::RunResult result = runtime.run(problem, operands);
    if (result.status != VKATTN_OK) std::printf("run: %s\n", result.message.c_str()), std::exit(1);
    return out;
}
void expectSame(const std::vector<float> &a, const std::vector<float> &b, const char *what) {
    for (size_t n = 0; n < a.size(); ++n)
        if (!(std::abs(a[n] - b[n]) <= 1e-6f)) std::printf("%s: element %zu is %g, expected %g\n", what, n, b[n], a[n]), std::exit(1);
    std::printf("%s: the same\n", what);
}

} // namespace

int main() {
    for (size_t n = 0; n < numbers.size(); ++n) numbers[n] = std::sin(static_cast<float>(n * n % 1013));
    vkattn::RuntimeOptions options;
    options.allowFallback = false;
    std::string message;
    const std::unique_ptr<vkattn::Runtime> runtime = vkattn::Runtime::open(options, nullptr, &message);
    if (!runtime) return std::printf("open: %s\n", message.c_str()), 77;
    const vkattn_layout layout = vkattn::packed(VKATTN_F32, 1, heads, tokens, dim);
    vkattn_problem window = vkattn::problem(layout, layout, layout, layout), hooked = window;
    window.flags |= VKATTN_WINDOW;
    window.windowLeft = window.windowRight = static_cast<int32_t>(reach);
    const std::vector<float> expected = run(*runtime, window);
    hooked.program = &near_keys;
    hooked.programWords[0] = reach;
    expectSame(expected, run(*runtime, hooked), "compiled at build time");
    hooked.kernel = VKATTN_KERNEL_STAGED;
    expectSame(expected, run(*runtime, hooked), "compiled at build time, staged");
#ifdef HAS_COMPILER
    std::ostringstream text;
    text << std::ifstream(HOOKS).rdbuf();
    std::string error;
    const std::unique_ptr<vkattn::Program> program = vkattn::Program::make(text.str(), "near.glsl", error);
    if (!program) return std::printf("%s\n", error.c_str()), 1;
    hooked.program = program->get();
    hooked.kernel = VKATTN_KERNEL_AUTO;
    vkattn_diagnostic why{};
    if (program->prepare(runtime->device()->caps, hooked, &why) != VKATTN_OK) return std::printf("prepare: %s\n", why.message), 1;
    expectSame(expected, run(*runtime, hooked), "compiled at run time");
    if (!vkattn::Program::make("float vkattnScore(", "bad.glsl", error) && error.rfind("bad.glsl:1:", 0) == 0)
        std::printf("%s\n", error.c_str());
    else
        return std::printf("a broken program: '%s'\n", error.c_str()), 1;
#endif
    return 0;
}
