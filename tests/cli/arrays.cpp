#include "arrays.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

namespace {

uint16_t halfBits(double value) {
    const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
    const double magnitude = std::abs(value);
    if (std::isnan(value)) return 0x7e00;
    if (magnitude >= 65520) return sign | 0x7c00;
    if (magnitude == 0) return sign;
    const int exponent = std::max(std::ilogb(magnitude), -14);
    // 1024 to 2048, or below 1024: subnormal
    const auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
    return static_cast<uint16_t>(sign | (((exponent + 14) << 10) + units));
}

double halfValue(uint16_t bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    if (exponent == 31) return fraction != 0 ? NAN : sign * INFINITY;
    return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

template <class T> void append(std::string &bytes, T value) {
    bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
}

// Appends one element and returns the element as it is stored.
double appendElement(std::string &bytes, const std::string &type, double value) {
    if (type == "f2") return append(bytes, halfBits(value)), halfValue(halfBits(value));
    if (type == "f4") return append(bytes, static_cast<float>(value)), static_cast<double>(static_cast<float>(value));
    if (type == "f8") return append(bytes, value), value;
    if (type == "b1" || type == "u1" || type == "i1") return append(bytes, static_cast<uint8_t>(value)), value;
    if (type == "i2") return append(bytes, static_cast<int16_t>(value)), value;
    if (type == "i4") return append(bytes, static_cast<int32_t>(value)), value;
    if (type == "u4") return append(bytes, static_cast<uint32_t>(value)), value;
    if (type == "i8") return append(bytes, static_cast<int64_t>(value)), value;
    if (type == "c8") return append(bytes, static_cast<float>(value)), append(bytes, 0.0f), value;
    ADD_FAILURE() << "the test writes no " << type;
    return value;
}

std::string shapeText(const std::vector<size_t> &shape) {
    std::string text = "(";
    for (size_t i = 0; i < shape.size(); i++) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
    return text + (shape.size() == 1 ? ",)" : ")");
}

} // namespace

size_t Array::count(const std::vector<size_t> &shape) {
    size_t n = 1;
    for (const size_t extent : shape) n *= extent;
    return n;
}

uint64_t testSeed() {
    static const uint64_t seed = [] {
        const char *given = std::getenv("VKATTN_TEST_SEED");
        const uint64_t value = given != nullptr ? std::strtoull(given, nullptr, 0) : 20240607;
        std::printf("VKATTN_TEST_SEED=%llu\n", static_cast<unsigned long long>(value));
        return value;
    }();
    return seed;
}

Array randomArray(std::mt19937_64 &random, const std::vector<size_t> &shape, double spread) {
    std::normal_distribution<double> normal(0, spread);
    Array array{shape, std::vector<double>(Array::count(shape))};
    for (double &value : array.values) value = normal(random);
    return array;
}

Array roundedToBfloat16(Array array) {
    for (double &value : array.values) {
        if (!std::isfinite(value) || value == 0) continue;
        const int exponent = std::max(std::ilogb(value), -126);
        const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, 7 - exponent)), exponent - 7);
        value = std::abs(rounded) >= 0x1p128 ? std::copysign(INFINITY, value) : rounded;
    }
    return array;
}

std::string npyBytes(const std::string &dict, const std::string &data, int version, bool pad) {
    std::string header = dict;
    const size_t preamble = version == 1 ? 10 : 12;
    if (pad) header.append(63 - (preamble + header.size()) % 64, ' ');
    header += '\n';
    std::string bytes = "\x93NUMPY";
    bytes += static_cast<char>(version);
    bytes += '\0';
    if (version == 1)
        append(bytes, static_cast<uint16_t>(header.size()));
    else
        append(bytes, static_cast<uint32_t>(header.size()));
    return bytes + header + data;
}

void writeNpy(const std::filesystem::path &path, Array &array, const NpyOptions &options) {
    ASSERT_EQ(array.values.size(), Array::count(array.shape));
    const size_t rank = array.shape.size();
    // The index of element n of the file: first dimension fastest in Fortran order, last fastest in
    // C order.
    std::vector<size_t> stride(rank, 1);
    for (size_t i = rank; i-- > 1;) stride[i - 1] = stride[i] * array.shape[i];
    std::string data;
    const std::string type = options.descr.substr(1);
    for (size_t n = 0; n < array.values.size(); n++) {
        size_t rest = n, at = options.fortran ? 0 : n;
        for (size_t i = 0; options.fortran && i < rank; i++) {
            at += rest % array.shape[i] * stride[i];
            rest /= array.shape[i];
        }
        array.values[at] = appendElement(data, type, array.values[at]);
    }
    const std::string dict = "{'descr': '" + options.descr + "', 'fortran_order': " + (options.fortran ? "True" : "False") +
                             ", 'shape': " + shapeText(array.shape) + ", }";
    writeBytes(path, npyBytes(dict, data, options.version, options.pad));
}

void writeNpy(const std::filesystem::path &path, Array &&array, const NpyOptions &options) {
    writeNpy(path, array, options);
}

ReadArray readNpy(const std::filesystem::path &path) {
    ReadArray array;
    const std::string bytes = readBytes(path);
    EXPECT_EQ(bytes.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8)) << path;
    if (bytes.size() < 128) return array;
    const size_t offset = 10 + static_cast<uint8_t>(bytes[8]) + 256u * static_cast<uint8_t>(bytes[9]);
    EXPECT_EQ(offset % 64, 0u);
    const std::string header = bytes.substr(10, offset - 10);
    EXPECT_EQ(header.back(), '\n');
    const std::string before = "{'descr': '", between = "', 'fortran_order': False, 'shape': (";
    EXPECT_EQ(header.substr(0, before.size()), before);
    array.descr = header.substr(before.size(), 3);
    EXPECT_EQ(header.substr(before.size() + 3, between.size()), between);
    std::stringstream shape(header.substr(before.size() + 3 + between.size()));
    for (size_t extent = 0; shape >> extent; shape.ignore(1)) array.shape.push_back(extent);
    EXPECT_EQ(header.substr(0, header.find_last_not_of(" \n") + 1),
              before + array.descr + between + shapeText(array.shape).substr(1) + ", }");
    const size_t itemBytes = array.descr == "<f2" ? 2 : 4;
    EXPECT_EQ(bytes.size() - offset, Array::count(array.shape) * itemBytes) << path;
    for (size_t at = offset; at + itemBytes <= bytes.size(); at += itemBytes) {
        uint16_t half = 0;
        float single = 0;
        int32_t whole = 0;
        void *const number = itemBytes == 2 ? static_cast<void *>(&half) : array.descr == "<i4" ? static_cast<void *>(&whole) : &single;
        std::memcpy(number, bytes.data() + at, itemBytes);
        array.values.push_back(number == &half ? halfValue(half)
                                               : static_cast<double>(number == &whole ? static_cast<double>(whole) : single));
    }
    return array;
}

std::string readBytes(const std::filesystem::path &path) {
    std::ifstream file(path, std::ios::binary);
    EXPECT_TRUE(file.good()) << "cannot read " << path;
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

void writeBytes(const std::filesystem::path &path, const std::string &bytes) {
    std::ofstream file(path, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    ASSERT_TRUE(file.good()) << "cannot write " << path;
}
