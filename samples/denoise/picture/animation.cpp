#include "picture/animation.hpp"

#include <array>
#include <span>
#include <string_view>

namespace denoise {
namespace {

constexpr size_t signatureBytes = 8;

uint32_t read32(const uint8_t *p) {
    return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | p[3];
}

// Numbers of PNG have their highest byte first.
void append32(std::vector<uint8_t> &bytes, uint32_t value) {
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<uint8_t>(value >> shift));
}

void append16(std::vector<uint8_t> &bytes, uint16_t value) {
    bytes.push_back(static_cast<uint8_t>(value >> 8));
    bytes.push_back(static_cast<uint8_t>(value));
}

uint32_t crc32(std::span<const uint8_t> bytes) {
    static const std::array<uint32_t, 256> table = [] {
        std::array<uint32_t, 256> result{};
        for (uint32_t i = 0; i < 256; ++i) {
            uint32_t value = i;
            for (int bit = 0; bit < 8; ++bit) value = (value & 1) != 0 ? 0xedb88320u ^ (value >> 1) : value >> 1;
            result[i] = value;
        }
        return result;
    }();
    uint32_t crc = ~0u;
    for (const uint8_t byte : bytes) crc = table[(crc ^ byte) & 255] ^ (crc >> 8);
    return ~crc;
}

void appendChunk(std::vector<uint8_t> &bytes, std::string_view type, std::span<const uint8_t> data) {
    append32(bytes, static_cast<uint32_t>(data.size()));
    const size_t covered = bytes.size(); // by the checksum: the type and the data
    bytes.insert(bytes.end(), type.begin(), type.end());
    bytes.insert(bytes.end(), data.begin(), data.end());
    append32(bytes, crc32(std::span(bytes).subspan(covered)));
}

} // namespace

void Animation::add(const Picture &frame) {
    const std::vector<uint8_t> png = encodePng(frame);
    std::vector<uint8_t> &stream = streams_.emplace_back();
    for (size_t at = signatureBytes; at + 12 <= png.size();) {
        const size_t size = read32(png.data() + at);
        const std::string_view type(reinterpret_cast<const char *>(png.data() + at + 4), 4);
        const std::span<const uint8_t> data = std::span(png).subspan(at + 8, size);
        if (type == "IHDR") header_.assign(data.begin(), data.end());
        if (type == "IDAT") stream.insert(stream.end(), data.begin(), data.end());
        at += size + 12;
    }
}

std::vector<uint8_t> Animation::encode() const {
    std::vector<uint8_t> file{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    appendChunk(file, "IHDR", header_);
    std::vector<uint8_t> control;
    append32(control, static_cast<uint32_t>(streams_.size()));
    append32(control, 0); // plays without end
    appendChunk(file, "acTL", control);
    uint32_t sequence = 0; // one count for both kinds of chunks
    for (const std::vector<uint8_t> &stream : streams_) {
        std::vector<uint8_t> frame;
        append32(frame, sequence++);
        frame.insert(frame.end(), header_.begin(), header_.begin() + 8); // width and height
        append32(frame, 0), append32(frame, 0);                          // at the upper left corner
        append16(frame, 1), append16(frame, framesPerSecond_);           // seconds, as a fraction
        frame.push_back(0), frame.push_back(0);                          // the whole picture is replaced
        appendChunk(file, "fcTL", frame);
        if (&stream == &streams_.front()) { // also what programs show that know no animations
            appendChunk(file, "IDAT", stream);
            continue;
        }
        std::vector<uint8_t> data;
        append32(data, sequence++);
        data.insert(data.end(), stream.begin(), stream.end());
        appendChunk(file, "fdAT", data);
    }
    appendChunk(file, "IEND", {});
    return file;
}

} // namespace denoise
