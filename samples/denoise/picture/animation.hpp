// Animated PNG: the zlib stream of each frame, as stb_image_write makes it for a picture alone,
// between chunks that say when it is shown (https://www.w3.org/TR/png-3/, APNG). The same frames
// give the same bytes.
#pragma once

#include "picture/picture.hpp"

namespace denoise {

class Animation {
  public:
    explicit Animation(uint16_t framesPerSecond) : framesPerSecond_(framesPerSecond) {}

    void add(const Picture &frame); // all of one size
    [[nodiscard]] bool empty() const { return streams_.empty(); }

    // Returns the file: it plays without end. There is at least one frame.
    [[nodiscard]] std::vector<uint8_t> encode() const;

  private:
    uint16_t framesPerSecond_;
    std::vector<uint8_t> header_; // the data of IHDR
    std::vector<std::vector<uint8_t>> streams_;
};

} // namespace denoise
