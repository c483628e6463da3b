#include "program/interruption.hpp"

#include <csignal>

namespace vkattn::program {
namespace {

volatile std::sig_atomic_t noted = 0;

#if defined(_WIN32)
constexpr int signals[] = {SIGINT, SIGTERM};
#else
constexpr int signals[] = {SIGINT, SIGTERM, SIGHUP};
#endif
constexpr int count = sizeof signals / sizeof *signals;
using Handler = void (*)(int);
Handler before[count] = {};

extern "C" void noteSignal(int) {
    noted = 1;
    for (int n = 0; n < count; n++)
        if (before[n] != SIG_IGN) std::signal(signals[n], before[n]);
}

} // namespace

void noteInterruptions() {
    for (int n = 0; n < count; n++) {
        before[n] = std::signal(signals[n], noteSignal);
        if (before[n] == SIG_IGN) std::signal(signals[n], SIG_IGN); // nohup ignores the signal
    }
}

bool interrupted() {
    return noted != 0;
}

} // namespace vkattn::program
