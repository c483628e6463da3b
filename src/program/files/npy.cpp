#include "program/files/npy.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string_view>

namespace vkattn::program {
namespace {

static_assert(std::endian::native == std::endian::little, "file data is used as it lies in the file");

constexpr std::string_view magic{"\x93NUMPY", 6};
constexpr uint64_t maxArrayBytes = std::numeric_limits<int64_t>::max();

// Text from a file, fit for a terminal: printable ASCII, short.
std::string readable(std::string_view text) {
    constexpr size_t limit = 48;
    std::string out = "'";
    for (const char c : text.substr(0, limit)) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x20 && byte < 0x7f) {
            out += c;
            continue;
        }
        char escaped[8];
        std::snprintf(escaped, sizeof escaped, "\\x%02x", unsigned{byte});
        out += escaped;
    }
    return out + (text.size() > limit ? "...'" : "'");
}

// The Python literal {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }: these three keys,
// once each, in any order.
class DictParser {
  public:
    explicit DictParser(std::string_view text) : text_(text) {}

    std::string descr;
    bool fortranOrder = false;
    std::vector<uint64_t> shape;

    bool parse(std::string &why) {
        if (const size_t nul = text_.find('\0'); nul != std::string_view::npos) {
            why = "malformed header: NUL byte at position " + std::to_string(nul) + "; " + expectation();
            return false;
        }
        if (dict()) return true;
        if (reason_.empty()) reason_ = "malformed header near " + readable(text_.substr(position_, 24)) + "; " + expectation();
        why = reason_;
        return false;
    }

  private:
    static std::string expectation() {
        return "expected a dict literal like {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }: save the array again with "
               "numpy.save";
    }
    bool fail(std::string reason) {
        reason_ = std::move(reason);
        return false;
    }
    void skipSpace() {
        while (position_ < text_.size() && std::string_view(" \t\r\n\f\v").find(text_[position_]) != std::string_view::npos) position_++;
    }
    [[nodiscard]] char peek() {
        skipSpace();
        // parse() has excluded NUL as content
        return position_ < text_.size() ? text_[position_] : '\0';
    }
    bool take(char c) {
        if (peek() != c) return false;
        position_++;
        return true;
    }
    bool takeWord(std::string_view word) {
        skipSpace();
        if (text_.substr(position_, word.size()) != word) return false;
        position_ += word.size();
        return true;
    }

    bool string(std::string &out) {
        const char quote = peek();
        if (quote != '\'' && quote != '"') return false;
        const size_t begin = position_ + 1;
        const size_t end = text_.find(quote, begin);
        if (end == std::string_view::npos) return false;
        const std::string_view content = text_.substr(begin, end - begin);
        // No type or key name has one, and an escaped quote would.
        if (content.find('\\') != std::string_view::npos) return false;
        out = content;
        position_ = end + 1;
        return true;
    }

    bool dimension() {
        if (peek() == '-') return fail("negative dimension in the header's shape; every dimension must be 0 or more");
        const size_t begin = position_;
        uint64_t value = 0;
        while (position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9') {
            const auto digit = static_cast<uint64_t>(text_[position_] - '0');
            if (value > (maxArrayBytes - digit) / 10) return fail("a dimension in the header's shape does not fit in 63 bits");
            value = value * 10 + digit;
            position_++;
        }
        if (position_ == begin) return false;
        // Python 2 wrote longs so.
        if (position_ < text_.size() && text_[position_] == 'L') position_++;
        if (shape.size() == npyMaxDimensions) return fail("more than " + std::to_string(npyMaxDimensions) + " dimensions");
        shape.push_back(value);
        return true;
    }

    bool tuple() {
        if (!take('(')) return false;
        bool comma = false;
        while (!take(')')) {
            if (!shape.empty() && !comma) return false;
            if (!dimension()) return false;
            comma = take(',');
        }
        return shape.size() != 1 || comma; // (3) is a number, not a tuple
    }

    bool entry() {
        std::string key;
        if (!string(key)) return false;
        if (!take(':')) return false;
        bool *seen = key == "descr" ? &seenDescr_ : key == "fortran_order" ? &seenOrder_ : key == "shape" ? &seenShape_ : nullptr;
        if (seen == nullptr) return fail("unknown header key " + readable(key) + "; " + expectation());
        if (*seen) return fail("header key " + readable(key) + " is given twice; " + expectation());
        *seen = true;
        if (seen == &seenDescr_) {
            if (peek() == '[' || peek() == '(' || peek() == '{')
                return fail("a structured dtype, expected one plain number type: save one field, as array['field']");
            return string(descr);
        }
        if (seen == &seenOrder_) {
            fortranOrder = takeWord("True");
            return fortranOrder || takeWord("False");
        }
        return tuple();
    }

    bool dict() {
        if (!take('{')) return false;
        while (!take('}')) {
            if (!entry()) return false;
            if (!take(',') && peek() != '}') return false;
        }
        skipSpace();
        if (position_ != text_.size()) return fail("malformed header: text after the dict, " + readable(text_.substr(position_, 24)));
        const char *missing = !seenDescr_ ? "descr" : !seenOrder_ ? "fortran_order" : !seenShape_ ? "shape" : nullptr;
        return missing == nullptr || fail(std::string("malformed header: no '") + missing + "' in it; " + expectation());
    }

    std::string_view text_;
    size_t position_ = 0;
    bool seenDescr_ = false, seenOrder_ = false, seenShape_ = false;
    std::string reason_;
};

bool parseType(std::string_view descr, NpyType &type, std::string &why) {
    const auto reject = [&](const char *reason) {
        why = "dtype " + readable(descr) + " " + reason;
        return false;
    };
    std::string_view rest = descr;
    char order = '<';
    if (!rest.empty() && std::string_view("<>|=").find(rest[0]) != std::string_view::npos) {
        order = rest[0];
        rest.remove_prefix(1);
    }
    if (rest.empty()) return reject("is not a dtype; expected one like '<f4'");
    switch (rest[0]) {
    case 'O':
        return reject("holds Python objects, expected numbers: convert with array.astype(np.float32) and save again");
    case 'U':
    case 'S':
    case 'a':
        return reject("holds text, expected numbers");
    case 'M':
    case 'm':
        return reject("holds dates or times, expected numbers");
    case 'V':
        return reject("holds raw bytes (bfloat16 is saved so), expected numbers: convert with array.astype(np.float32) and save again; "
                      "--round-to bf16 then stores the same bfloat16 values");
    default:
        break;
    }
    struct Known {
        std::string_view code;
        NpyType type;
    };
    using enum NpyKind;
    static constexpr std::array<Known, 19> known{{
        {"b1", {boolean, 1}},         {"?", {boolean, 1}},          {"i1", {signedInteger, 1}},   {"i2", {signedInteger, 2}},
        {"i4", {signedInteger, 4}},   {"i8", {signedInteger, 8}},   {"u1", {unsignedInteger, 1}}, {"u2", {unsignedInteger, 2}},
        {"u4", {unsignedInteger, 4}}, {"u8", {unsignedInteger, 8}}, {"f2", {floating, 2}},        {"f4", {floating, 4}},
        {"f8", {floating, 8}},        {"f12", {floating, 12}},      {"f16", {floating, 16}},      {"c8", {complex, 8}},
        {"c16", {complex, 16}},       {"c24", {complex, 24}},       {"c32", {complex, 32}},
    }};
    const auto *found = std::find_if(known.begin(), known.end(), [&](const Known &entry) { return entry.code == rest; });
    if (found == known.end()) return reject("is not a dtype; expected one like '<f4'");
    if (order == '>' && found->type.itemBytes > 1)
        return reject("is big-endian, expected little-endian: convert with array.astype(array.dtype.newbyteorder('<')) and save again");
    type = found->type;
    return true;
}

// The product of the non-zero dimensions is bounded too, so that strides of an empty array cannot
// overflow either.
bool arrayBytes(std::span<const uint64_t> shape, uint32_t itemBytes, uint64_t &bytes) {
    uint64_t product = itemBytes;
    bool empty = false;
    for (const uint64_t dimension : shape) {
        if (dimension == 0)
            empty = true;
        else if (product > maxArrayBytes / dimension)
            return false;
        else
            product *= dimension;
    }
    bytes = empty ? 0 : product;
    return true;
}

uint64_t littleEndian(std::span<const std::byte> bytes) {
    uint64_t value = 0;
    for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | std::to_integer<uint64_t>(bytes[i]);
    return value;
}

} // namespace

std::string npyTypeName(NpyType type) {
    const std::string bits = std::to_string(type.itemBytes * 8);
    switch (type.kind) {
    case NpyKind::boolean:
        return "bool";
    case NpyKind::signedInteger:
        return "int" + bits;
    case NpyKind::unsignedInteger:
        return "uint" + bits;
    case NpyKind::floating:
        return "float" + bits;
    case NpyKind::complex:
        return "complex" + bits;
    }
    return "?";
}

std::string npyShapeText(std::span<const uint64_t> shape) {
    std::string text = "(";
    for (size_t i = 0; i < shape.size(); i++) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
    return text + (shape.size() == 1 ? ",)" : ")");
}

std::optional<NpyHeader> parseNpyHeader(std::span<const std::byte> prefix, uint64_t fileBytes, std::string &why) {
    const auto reject = [&](std::string reason) {
        why = std::move(reason);
        return std::nullopt;
    };
    prefix = prefix.first(static_cast<size_t>(std::min<uint64_t>(prefix.size(), fileBytes)));
    const std::string_view text(reinterpret_cast<const char *>(prefix.data()), prefix.size());
    if (prefix.empty()) return reject("the file is empty, expected a .npy array: save one with numpy.save");
    if (text.substr(0, magic.size()) != magic.substr(0, text.size()))
        return reject("not a .npy file: it starts with " + readable(text.substr(0, magic.size())) + ", expected '\\x93NUMPY'" +
                      (text.substr(0, 2) == "PK" ? "; it may be an .npz archive: save one array with numpy.save" : ""));
    const auto truncated = [&](const std::string &needed) {
        return reject("truncated: the file has " + std::to_string(fileBytes) + " bytes, " + needed + ": copy or save it again");
    };
    if (prefix.size() < 10) return truncated("the start of a .npy header takes 10");
    const auto major = std::to_integer<unsigned>(prefix[6]), minor = std::to_integer<unsigned>(prefix[7]);
    if (major < 1 || major > 3 || minor != 0)
        return reject(".npy version " + std::to_string(major) + "." + std::to_string(minor) +
                      ", expected 1.0, 2.0 or 3.0: save the array again with numpy.save");
    const size_t lengthBytes = major == 1 ? 2 : 4;
    if (prefix.size() < 8 + lengthBytes) return truncated("the start of a .npy header takes 12");
    const uint64_t headerBytes = littleEndian(prefix.subspan(8, lengthBytes));
    if (headerBytes > npyMaxHeaderBytes)
        return reject("its header claims " + std::to_string(headerBytes) + " bytes, at most " + std::to_string(npyMaxHeaderBytes) +
                      " are accepted and a plain array needs about 118: save the array again with numpy.save");

    NpyHeader header;
    header.dataOffsetBytes = 8 + lengthBytes + headerBytes;
    if (prefix.size() < header.dataOffsetBytes) return truncated("its header alone ends at " + std::to_string(header.dataOffsetBytes));
    DictParser dict(text.substr(8 + lengthBytes, static_cast<size_t>(headerBytes)));
    if (!dict.parse(why) || !parseType(dict.descr, header.type, why)) return std::nullopt;
    header.fortranOrder = dict.fortranOrder;
    header.shape = std::move(dict.shape);
    const std::string what = "shape " + npyShapeText(header.shape) + " of " + npyTypeName(header.type);
    if (!arrayBytes(header.shape, header.type.itemBytes, header.dataBytes))
        return reject(what + " is too large: the product of its dimensions overflows 64 bits");
    const uint64_t present = fileBytes - header.dataOffsetBytes;
    if (present < header.dataBytes)
        return reject("truncated: " + what + " takes " + std::to_string(header.dataBytes) + " bytes of data, the file has " +
                      std::to_string(present) + ": copy or save it again");
    if (present > header.dataBytes)
        return reject("longer than its header says: " + what + " takes " + std::to_string(header.dataBytes) +
                      " bytes of data, the file has " + std::to_string(present) +
                      ": it holds something else too, so save one array with numpy.save");
    return header;
}

std::string npyHeaderBytes(NpyType type, std::span<const uint64_t> shape) {
    constexpr std::string_view kindCodes = "biufc";
    std::string dict = std::string("{'descr': '") + (type.itemBytes == 1 ? '|' : '<') + kindCodes[static_cast<size_t>(type.kind)] +
                       std::to_string(type.itemBytes) + "', 'fortran_order': False, 'shape': " + npyShapeText(shape) + ", }";
    constexpr size_t preamble = 10;
    const size_t total = (preamble + dict.size() + 1 + 63) / 64 * 64;
    dict.append(total - preamble - dict.size() - 1, ' ');
    dict += '\n';
    std::string bytes(magic);
    bytes += {'\x01', '\x00', static_cast<char>(dict.size() & 0xff), static_cast<char>(dict.size() >> 8)};
    return bytes + dict;
}

std::optional<NpyFile> NpyFile::open(const std::filesystem::path &path, std::string &why) {
    std::error_code error;
    const std::filesystem::file_status status = std::filesystem::status(path, error);
    const auto reject = [&](std::string reason) {
        why = std::move(reason);
        return std::nullopt;
    };
    if (status.type() == std::filesystem::file_type::not_found) return reject("no such file");
    if (status.type() == std::filesystem::file_type::directory) return reject("it is a directory, expected a .npy file");
    if (status.type() == std::filesystem::file_type::none) return reject("cannot be opened: " + error.message());
    if (!std::filesystem::is_regular_file(status)) return reject("not a regular file: copy its content into one, its size must be known");
    const uint64_t fileBytes = std::filesystem::file_size(path, error);
    if (error) return reject("cannot be opened: " + error.message());

    NpyFile file;
    file.file_.reset(std::fopen(path.string().c_str(), "rb"));
    if (file.file_ == nullptr) return reject(std::string("cannot be opened: ") + std::strerror(errno));
    std::vector<std::byte> prefix(static_cast<size_t>(std::min<uint64_t>(fileBytes, npyMaxPrefixBytes)));
    if (!file.read(prefix, why)) return std::nullopt;
    std::optional<NpyHeader> header = parseNpyHeader(prefix, fileBytes, why);
    if (!header) return std::nullopt;
    file.header_ = std::move(*header);
    if (std::fseek(file.file_.get(), static_cast<long>(file.header_.dataOffsetBytes), SEEK_SET) != 0)
        return reject(std::string("cannot be read: ") + std::strerror(errno));
    return file;
}

bool NpyFile::read(std::span<std::byte> into, std::string &why) {
    if (into.empty() || std::fread(into.data(), 1, into.size(), file_.get()) == into.size()) return true;
    why = std::ferror(file_.get()) != 0 ? std::string("cannot be read: ") + std::strerror(errno) : "it became shorter while it was read";
    return false;
}

std::string npyBytes(std::span<const uint64_t> shape, std::span<const float> numbers) {
    std::string bytes = npyHeaderBytes(npyFloat32, shape);
    bytes.append(reinterpret_cast<const char *>(numbers.data()), numbers.size_bytes());
    return bytes;
}

} // namespace vkattn::program
