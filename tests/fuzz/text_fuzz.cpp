// The reader of programs of hooks: what stands between a host's text and the compiler.
#include "compiler/text.hpp"
#include "fuzz/shared/fuzz.hpp"

#include <algorithm>
#include <cstdlib>

using namespace vkattn::test;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const std::string_view text(reinterpret_cast<const char *>(data), size);
    std::string error;
    const uint32_t hooks = vkattn::compiler::hooksOf(text, "own.glsl", error);
    if (hooks == 0) {
        // A line that the text has.
        require(error.rfind("own.glsl:", 0) == 0);
        const long line = std::atol(error.c_str() + 9);
        require(line >= 1 && line <= 1 + std::count(text.begin(), text.end(), '\n'));
        return 0;
    }
    require(hooks < 32 && (hooks & 27) != 0 && ((hooks & 4) == 0 || (hooks & 1) != 0));
    // Nothing of the preprocessor's, outside comments; those who look for "#" there find none.
    require(text.find('\0') == std::string_view::npos);
    return 0;
}
