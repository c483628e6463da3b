#include "program/terminal.hpp"

#if defined(__unix__) || defined(__APPLE__)
#include <initializer_list>
#include <sys/ioctl.h>
#include <unistd.h>
#endif

namespace vkattn::program {

#if defined(__unix__) || defined(__APPLE__)

bool stdoutIsTerminal() {
    return isatty(STDOUT_FILENO) != 0;
}

bool stderrIsTerminal() {
    return isatty(STDERR_FILENO) != 0;
}

uint32_t terminalColumns() {
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
        winsize size{};
        if (ioctl(stream, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    }
    return 100;
}

#else

bool stdoutIsTerminal() {
    return false;
}

bool stderrIsTerminal() {
    return false;
}

uint32_t terminalColumns() {
    return 100;
}

#endif

} // namespace vkattn::program
