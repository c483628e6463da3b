#include "picture/picture.hpp"

#include "program/failure.hpp"
#include "program/files/output_file.hpp"

#include <stb_image.h>
#include <stb_image_write.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <memory>
#include <new>
#include <system_error>

namespace denoise {
namespace {

namespace fs = std::filesystem;

constexpr float exposure = 0.8f;

float filmic(float x) {
    x *= exposure;
    return std::clamp(x * (2.51f * x + 0.03f) / (x * (2.43f * x + 0.59f) + 0.14f), 0.0f, 1.0f);
}

float encodeSrgb(float x) {
    return x <= 0.0031308f ? 12.92f * x : 1.055f * std::pow(x, 1 / 2.4f) - 0.055f;
}

uint8_t toByte(float x) {
    return static_cast<uint8_t>(std::lround(std::clamp(x, 0.0f, 1.0f) * 255));
}

// Returns "'path' problem". The text is appended part by part: GCC 12 warns of the shorter way with
// operator+ (its bug 105329).
std::string about(const fs::path &path, const std::string &problem) {
    std::string text(1, '\'');
    return text.append(path.string()).append("' ").append(problem);
}

bool readFile(const fs::path &path, std::vector<uint8_t> &bytes, std::string &why) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (status.type() == fs::file_type::not_found) {
        why = about(path, "does not exist: check the path");
        return false;
    }
    if (status.type() == fs::file_type::directory) {
        why = about(path, "is a folder: name one picture");
        return false;
    }
    std::ifstream file(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
    if (!file) {
        why = about(path, "cannot be read: check its permissions");
        return false;
    }
    return true;
}

void appendBytes(void *context, void *data, int size) {
    auto &bytes = *static_cast<std::vector<uint8_t> *>(context);
    bytes.insert(bytes.end(), static_cast<const uint8_t *>(data), static_cast<const uint8_t *>(data) + size);
}

} // namespace

bool decodePicture(const fs::path &path, std::span<const uint8_t> bytes, Picture &out, std::string &why) {
    const int size = static_cast<int>(std::min<size_t>(bytes.size(), std::numeric_limits<int>::max()));
    int width = 0, height = 0, channels = 0;
    if (stbi_info_from_memory(bytes.data(), size, &width, &height, &channels) == 0) {
        why = about(path, "is not a picture that can be read: use PNG or JPEG");
        return false;
    }
    if (static_cast<int64_t>(width) * height > maxPicturePixels) {
        why = about(path, "is larger than the 16 megapixels that this sample takes: scale it down");
        return false;
    }
    const std::unique_ptr<stbi_uc, void (*)(void *)> pixels(stbi_load_from_memory(bytes.data(), size, &width, &height, &channels, 3),
                                                            stbi_image_free);
    if (!pixels) {
        why = about(path, "is damaged: save it again as PNG or JPEG (").append(stbi_failure_reason()).append(")");
        return false;
    }
    out = Picture(width, height);
    std::copy_n(pixels.get(), out.rgb.size(), out.rgb.begin());
    return true;
}

bool loadPicture(const fs::path &path, Picture &out, std::string &why) {
    std::vector<uint8_t> bytes;
    if (!readFile(path, bytes, why)) return false;
    return decodePicture(path, bytes, out, why);
}

std::vector<uint8_t> encodePng(const Picture &picture) {
    std::vector<uint8_t> bytes;
    if (stbi_write_png_to_func(appendBytes, &bytes, picture.width, picture.height, 3, picture.rgb.data(), picture.width * 3) == 0)
        throw std::bad_alloc();
    return bytes;
}

void saveFile(const fs::path &path, std::span<const std::byte> bytes) {
    vkattn::program::OutputFile file(vkattn::program::checkOutputTarget("--out", path.string(), {}, {}));
    file.write(bytes);
    file.close();
    file.publish();
}

bool prepareFolder(const fs::path &folder, std::string &why) {
    if (const std::error_code error = vkattn::program::makeFolder(folder)) {
        why = about(folder, "cannot be made a folder: choose another with --out").append(" (").append(error.message()).append(")");
        return false;
    }
    try { // goes away unpublished
        vkattn::program::OutputFile probe(vkattn::program::checkOutputTarget("--out", (folder / "denoise.write-test").string(), {}, {}));
    } catch (const vkattn::program::Failure &) {
        why = about(folder, "cannot be written to: choose another folder with --out");
        return false;
    }
    return true;
}

Picture toneMap(const Image &radiance) {
    Picture picture(radiance.width, radiance.height);
    for (size_t i = 0; i < picture.rgb.size(); ++i) picture.rgb[i] = toByte(encodeSrgb(filmic(radiance.data[i])));
    return picture;
}

Image toImage(const Picture &picture) {
    Image image(picture.width, picture.height, 3);
    for (size_t i = 0; i < picture.rgb.size(); ++i) image.data[i] = static_cast<float>(picture.rgb[i]) / 255;
    return image;
}

Picture toPicture(const Image &image) {
    Picture picture(image.width, image.height);
    for (size_t i = 0; i < picture.rgb.size(); ++i) picture.rgb[i] = toByte(image.data[i]);
    return picture;
}

} // namespace denoise
