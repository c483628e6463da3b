// vkattn, the command-line tool. Messages go to stderr, results to stdout.
#include "program/run_program.hpp"
#include "tool/commands.hpp"

#include <iostream>

namespace {

using namespace vkattn::program;

ExitStatus execute(int argc, const char *const *argv) {
    const ExitStatus status = vkattn::tool::executeCommandLine(argc, argv);
    std::cout.flush();
    if (!std::cout) throw Failure("the result could not be printed: standard output is closed or full");
    return status;
}

} // namespace

int main(int argc, char **argv) {
    return vkattn::program::runProgram("vkattn", "split the work over batch entries, heads or queries",
                                       [&] { return execute(argc, argv); });
}
