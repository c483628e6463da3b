// Pictures made of pictures: side by side with captions, stacked, in halves, smaller.
#pragma once

#include "picture/picture.hpp"

namespace denoise {

struct Panel {
    const Picture *picture; // all of one size
    // lower-case letters, digits, "B", " ", ".", "-", "/"; others are left blank
    std::string caption;
};

[[nodiscard]] Picture sideBySide(const std::vector<Panel> &panels);

// Returns pictures of one width below each other.
[[nodiscard]] Picture stacked(const std::vector<Picture> &pictures);

// Returns the left half of one picture beside the right half of the other, with a line between.
[[nodiscard]] Picture halfAndHalf(const Picture &left, const Picture &right);

// Returns the picture with blocks of pixels averaged, so that it is at most `width` wide.
[[nodiscard]] Picture smaller(const Picture &picture, int width);

// Returns the picture with 64 levels a channel instead of 256: its file is a third smaller, and the
// eye sees no difference in a picture that moves.
[[nodiscard]] Picture fewerLevels(const Picture &picture);

} // namespace denoise
