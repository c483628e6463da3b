// An animation is taken apart again: its chunks, their checksums and order, and the pixels of every
// frame.
#include "picture/animation.hpp"

#include "support/seed.hpp"

#include <gtest/gtest.h>

#include <string>

namespace denoise {
namespace {

using vkattn::test::between;
using Bytes = std::vector<uint8_t>;

uint32_t number(std::span<const uint8_t> bytes, size_t at, size_t size = 4) {
    uint32_t value = 0;
    for (size_t i = 0; i < size; ++i) value = value << 8 | bytes[at + i];
    return value;
}

// CRC-32 bit by bit, without a table.
uint32_t checksum(std::span<const uint8_t> bytes) {
    uint32_t crc = 0xffffffff;
    for (const uint8_t byte : bytes) {
        crc ^= byte;
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (0xedb88320 & -(crc & 1));
    }
    return ~crc;
}

struct Chunk {
    std::string type;
    Bytes data;
    Bytes whole; // with its size and checksum
};

std::vector<Chunk> chunksOf(const Bytes &file) {
    const Bytes signature{137, 80, 78, 71, 13, 10, 26, 10};
    EXPECT_TRUE(file.size() > 8 && std::equal(signature.begin(), signature.end(), file.begin()));
    std::vector<Chunk> chunks;
    size_t at = 8;
    while (at + 12 <= file.size()) {
        const size_t size = number(file, at);
        if (size > file.size() - at - 12) break;
        const auto bytes = std::span(file).subspan(at);
        chunks.push_back(
            {std::string(file.begin() + static_cast<std::ptrdiff_t>(at) + 4, file.begin() + static_cast<std::ptrdiff_t>(at) + 8),
             Bytes(bytes.begin() + 8, bytes.begin() + 8 + static_cast<std::ptrdiff_t>(size)),
             Bytes(bytes.begin(), bytes.begin() + 12 + static_cast<std::ptrdiff_t>(size))});
        EXPECT_EQ(number(file, at + 8 + size), checksum(bytes.subspan(4, size + 4))) << chunks.back().type;
        at += size + 12;
    }
    EXPECT_EQ(at, file.size());
    return chunks;
}

Picture drawnPicture(vkattn::test::Random &random, int width, int height) {
    Picture picture(width, height);
    for (uint8_t &value : picture.rgb) value = static_cast<uint8_t>(between(random, 0, 255));
    return picture;
}

TEST(Animation, comesApartIntoItsFrames) {
    vkattn::test::Random random = vkattn::test::randomFor("denoise.animation");
    const int width = static_cast<int>(between(random, 1, 50)), height = static_cast<int>(between(random, 1, 50));
    std::vector<Picture> frames;
    Animation animation(30);
    EXPECT_TRUE(animation.empty());
    for (uint32_t count = between(random, 1, 5); count > 0; --count)
        animation.add(frames.emplace_back(drawnPicture(random, width, height)));
    const Bytes file = animation.encode();
    EXPECT_EQ(file, animation.encode());

    const std::vector<Chunk> chunks = chunksOf(file);
    ASSERT_GE(chunks.size(), 5u);
    EXPECT_EQ(chunks[0].type, "IHDR");
    EXPECT_EQ(chunks[1].type, "acTL");
    ASSERT_EQ(chunks[1].data.size(), 8u);
    EXPECT_EQ(number(chunks[1].data, 0), frames.size());
    EXPECT_EQ(number(chunks[1].data, 4), 0u); // plays without end
    EXPECT_EQ(chunks.back().type, "IEND");
    ASSERT_EQ(chunks.size(), 3 + 2 * frames.size());

    uint32_t sequence = 0;
    for (size_t i = 0; i < frames.size(); ++i) {
        const Chunk &control = chunks[2 + 2 * i], &data = chunks[3 + 2 * i];
        EXPECT_EQ(control.type, "fcTL");
        ASSERT_EQ(control.data.size(), 26u);
        EXPECT_EQ(number(control.data, 0), sequence++);
        EXPECT_EQ(number(control.data, 4), static_cast<uint32_t>(width));
        EXPECT_EQ(number(control.data, 8), static_cast<uint32_t>(height));
        EXPECT_EQ(number(control.data, 12), 0u);
        EXPECT_EQ(number(control.data, 16), 0u);
        EXPECT_EQ(number(control.data, 20, 2), 1u); // a 30th of a second
        EXPECT_EQ(number(control.data, 22, 2), 30u);
        EXPECT_EQ(number(control.data, 24, 2), 0u);
        EXPECT_EQ(data.type, i == 0 ? "IDAT" : "fdAT");
        Bytes stream = data.data;
        if (i > 0) {
            EXPECT_EQ(number(stream, 0), sequence++);
            stream.erase(stream.begin(), stream.begin() + 4);
        }
        // The frame as a picture of its own. The reader asks for no checksum of IDAT.
        Bytes picture(file.begin(), file.begin() + 8);
        picture.insert(picture.end(), chunks[0].whole.begin(), chunks[0].whole.end());
        for (const int shift : {24, 16, 8, 0}) picture.push_back(static_cast<uint8_t>(stream.size() >> shift));
        for (const char letter : {'I', 'D', 'A', 'T'}) picture.push_back(static_cast<uint8_t>(letter));
        picture.insert(picture.end(), stream.begin(), stream.end());
        picture.insert(picture.end(), 4, 0);
        picture.insert(picture.end(), chunks.back().whole.begin(), chunks.back().whole.end());
        Picture decoded;
        std::string why;
        ASSERT_TRUE(decodePicture("frame", picture, decoded, why)) << why;
        EXPECT_EQ(decoded.width, width);
        EXPECT_EQ(decoded.rgb, frames[i].rgb) << "frame " << i;
    }
}

} // namespace
} // namespace denoise
