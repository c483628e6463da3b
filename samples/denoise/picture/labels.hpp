// Pictures side by side, each with a caption.
#pragma once

#include "picture/picture.hpp"

namespace denoise {

struct Panel {
    const Picture *picture; // all of one size
    // lower-case letters, digits, "B", " ", ".", "-", "/"; others are left blank
    std::string caption;
};

[[nodiscard]] Picture sideBySide(const std::vector<Panel> &panels);

} // namespace denoise
