// The files of page/, embedded at build time (src/CMakeLists.txt).
#pragma once

namespace vkattn::picture {

extern const char *const pageMarkup, *const pageStyle, *const pageScript;

} // namespace vkattn::picture
