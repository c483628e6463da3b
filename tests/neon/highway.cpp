// The parts of Highway's library that a build for one target needs. The host has the library for
// its own processor only.
#include "cpu/targets.hpp"

#include <hwy/base.h>
#include <hwy/targets.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace hwy {

int64_t SupportedTargets() {
    return HWY_STATIC_TARGET;
}
void SetSupportedTargetsForTest(int64_t) {}
ChosenTarget &GetChosenTarget() {
    static ChosenTarget chosen;
    return chosen;
}
HWY_NORETURN void Abort(const char *file, int line, const char *format, ...) {
    std::fprintf(stderr, "%s:%d: ", file, line);
    va_list arguments;
    va_start(arguments, format);
    std::vfprintf(stderr, format, arguments);
    va_end(arguments);
    std::abort();
}

} // namespace hwy
