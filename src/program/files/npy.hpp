// .npy files (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html), versions 1
// to 3. They come from anywhere, so the parser is strict: no allocation is sized by a number from
// the file before that number was checked against the file's size, nothing recurses, and every
// rejection has a reason that says what to do. Nothing here throws, except std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vkattn::program {

enum class NpyKind { boolean, signedInteger, unsignedInteger, floating, complex };

// Always little-endian or single bytes; the parser rejects the rest.
struct NpyType {
    NpyKind kind = NpyKind::floating;
    uint32_t itemBytes = 4;
    friend bool operator==(const NpyType &, const NpyType &) = default;
};
inline constexpr NpyType npyFloat16{NpyKind::floating, 2}, npyFloat32{NpyKind::floating, 4}, npyFloat64{NpyKind::floating, 8};
inline constexpr NpyType npyBool{NpyKind::boolean, 1}, npyUint8{NpyKind::unsignedInteger, 1}, npyUint32{NpyKind::unsignedInteger, 4};
inline constexpr NpyType npyInt32{NpyKind::signedInteger, 4}, npyInt64{NpyKind::signedInteger, 8};

// NumPy's own word for it: "float32", "bool".
[[nodiscard]] std::string npyTypeName(NpyType type);

// As Python prints it: "(4, 8)", "(4,)", "()".
[[nodiscard]] std::string npyShapeText(std::span<const uint64_t> shape);

struct NpyHeader {
    NpyType type;
    bool fortranOrder = false;
    // At most npyMaxDimensions; the product of the non-zero ones times itemBytes is below 2^63.
    std::vector<uint64_t> shape;
    uint64_t dataOffsetBytes = 0; // in the file; not aligned to anything
    uint64_t dataBytes = 0;       // reaches exactly to the end of the file
};

inline constexpr size_t npyMaxDimensions = 32; // NumPy's own limit before version 2
inline constexpr size_t npyMaxHeaderBytes = 65535;
// What parseNpyHeader may look at.
inline constexpr size_t npyMaxPrefixBytes = 12 + npyMaxHeaderBytes;

// Parses the header of a file of `fileBytes` bytes, of which `prefix` holds the first
// min(fileBytes, npyMaxPrefixBytes) or more. Empty with the reason in `why` where it is not an
// array that this program can read.
[[nodiscard]] std::optional<NpyHeader> parseNpyHeader(std::span<const std::byte> prefix, uint64_t fileBytes, std::string &why);

// Magic, version 1.0 and header, padded so that the data starts at a multiple of 64 bytes. C order.
[[nodiscard]] std::string npyHeaderBytes(NpyType type, std::span<const uint64_t> shape);
// A whole file of float32.
[[nodiscard]] std::string npyBytes(std::span<const uint64_t> shape, std::span<const float> numbers);

// A file whose header has been checked and whose data has not been read yet, so that shapes are
// compared before gigabytes move.
class NpyFile {
  public:
    [[nodiscard]] static std::optional<NpyFile> open(const std::filesystem::path &path, std::string &why);
    [[nodiscard]] const NpyHeader &header() const { return header_; }

    // The next bytes of the data, in file order. False with a reason where the file has shrunk or
    // cannot be read.
    [[nodiscard]] bool read(std::span<std::byte> into, std::string &why);

  private:
    struct Close {
        void operator()(std::FILE *file) const { std::fclose(file); }
    };
    std::unique_ptr<std::FILE, Close> file_;
    NpyHeader header_;
};

} // namespace vkattn::program
