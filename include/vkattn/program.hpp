// vkattn/program.hpp: programs of hooks in GLSL, compiled at run time by libshaderc. C++17, target
// vkattn::program, which needs vkattn::core and libshaderc. Hosts that ship no compiler make a vkattn_program
// at build time with the CMake function vkattn_compile_program. docs/programs.md says what a program is.
#pragma once

#include "vkattn/operations.h"
#include "vkattn/vkattn.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace vkattn {

// One text of hooks. Nothing here throws, except std::bad_alloc from the standard library.
class Program {
  public:
    // Checks `text`, which holds functions and constants of GLSL 4.50 and nothing else: hooks with the
    // signatures of vkattn_hook_bits, and what they call. Compiles the text by itself, and no kernel: a
    // few milliseconds. `name` stands in messages, as a compiler names a file. Returns NULL with the reason
    // in `error`: "NAME:LINE: what is wrong".
    [[nodiscard]] VKATTN_API static std::unique_ptr<Program> make(std::string_view text, std::string_view name, std::string &error);
    VKATTN_API ~Program();
    Program(const Program &) = delete;
    Program &operator=(const Program &) = delete;

    // What vkattn_problem::program points to. The Program outlives every context that has seen it.
    [[nodiscard]] VKATTN_API const vkattn_program *get() const;

    // The same hooks for the processor, before the program is first used (vkattn_program::score).
    VKATTN_API void setProcessorForm(double (*score)(double, const vkattn_program_pair *),
                                     double (*scoreSlope)(double, const vkattn_program_pair *),
                                     uint32_t (*visible)(const vkattn_program_pair *),
                                     double (*probability)(double, const vkattn_program_pair *) = nullptr, double (*row)(double) = nullptr);

    // Compiles every module that the plan of `problem` on a device with `caps` dispatches and that is not
    // compiled yet: some tenths of a second each. `problem.program` is this program. Call from any
    // thread, off the frame, before the problem is recorded, listed or prewarmed, and not while another
    // thread does that with this program; vkattnPrewarm then has the driver compile the pipelines.
    // Returns what vkattnListDispatches returns; INVALID_ARGUMENT also where the text does not compile with
    // a kernel, with the compiler's message in *why.
    [[nodiscard]] VKATTN_API vkattn_result prepare(const vkattn_caps &caps, const vkattn_problem &problem, vkattn_diagnostic *why,
                                                   const vkattn_plan_options *options = nullptr);
    // The same for a backward pass, statistics or visible blocks of attention, whose problem has this program.
    [[nodiscard]] VKATTN_API vkattn_result prepare(const vkattn_caps &caps, const vkattn_operation &operation, vkattn_diagnostic *why,
                                                   const vkattn_plan_options *options = nullptr);

    // Modules that were compiled, and the time that took.
    [[nodiscard]] VKATTN_API uint32_t compiledModules() const;
    [[nodiscard]] VKATTN_API double compileMilliseconds() const;

  private:
    struct State;
    explicit Program(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

} // namespace vkattn
