// The .npy parser over bytes: the files that it takes, the files that it refuses, and that a bad
// file is cheap.
#include "program/files/npy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <random>

namespace {

using namespace vkattn::program;

std::span<const std::byte> bytesOf(const std::string &text) {
    return std::as_bytes(std::span(text));
}

std::string preamble(int major, int minor, size_t headerBytes) {
    std::string bytes = "\x93NUMPY";
    bytes += {static_cast<char>(major), static_cast<char>(minor)};
    for (int i = 0; i < (major == 1 ? 2 : 4); i++) bytes += static_cast<char>(headerBytes >> 8 * i & 0xff);
    return bytes;
}

std::string whole(const std::string &header, size_t dataBytes, int major = 1) {
    return preamble(major, 0, header.size()) + header + std::string(dataBytes, '\x01');
}

struct Parsed {
    std::optional<NpyHeader> header;
    std::string why;
};

Parsed parse(const std::string &file) {
    Parsed parsed;
    parsed.header = parseNpyHeader(bytesOf(file), file.size(), parsed.why);
    EXPECT_NE(parsed.header.has_value(), !parsed.why.empty());
    return parsed;
}

void expectRefused(const std::string &file, const std::string &word) {
    const Parsed parsed = parse(file);
    EXPECT_FALSE(parsed.header) << word;
    EXPECT_NE(parsed.why.find(word), std::string::npos) << "no '" << word << "' in: " << parsed.why;
}

const std::string plain = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";

TEST(npy, takesWhatNumpyWrites) {
    for (const int major : {1, 2, 3}) {
        const Parsed parsed = parse(whole(plain, 24, major));
        ASSERT_TRUE(parsed.header) << parsed.why;
        EXPECT_EQ(parsed.header->type, npyFloat32);
        EXPECT_FALSE(parsed.header->fortranOrder);
        EXPECT_EQ(parsed.header->shape, (std::vector<uint64_t>{2, 3}));
        EXPECT_EQ(parsed.header->dataBytes, 24u);
        EXPECT_EQ(parsed.header->dataOffsetBytes, (major == 1 ? 10u : 12u) + plain.size());
    }
}

TEST(npy, takesEverySpellingOfTheSameDict) {
    for (const std::string header :
         {"{'descr':'<f4','fortran_order':False,'shape':(2,3)}", "{\"shape\": (2, 3), \"descr\": \"<f4\", \"fortran_order\": False}",
          "  {  'fortran_order' : False , 'shape' : ( 2 , 3 , ) , 'descr' : '<f4' , }  \n",
          "{'shape': (2L, 3L), 'fortran_order': False, 'descr': '=f4'}", "{\t'descr': '<f4',\n'fortran_order': False,\r\n'shape': (2, 3)}",
          "{'descr': 'f4', 'fortran_order': False, 'shape': (2, 3)}"}) {
        const Parsed parsed = parse(whole(header, 24));
        ASSERT_TRUE(parsed.header) << header << ": " << parsed.why;
        EXPECT_EQ(parsed.header->type, npyFloat32) << header;
        EXPECT_EQ(parsed.header->shape, (std::vector<uint64_t>{2, 3})) << header;
    }
    EXPECT_TRUE(parse(whole("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}", 24)).header->fortranOrder);
    EXPECT_TRUE(parse(whole("{'descr': '<f4', 'fortran_order': False, 'shape': ()}", 4)).header->shape.empty());
    EXPECT_EQ(parse(whole("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", 12)).header->shape.size(), 1u);
}

TEST(npy, knowsEveryNumberType) {
    const struct {
        const char *descr;
        NpyType type;
        const char *name;
    } types[] = {{"<f2", npyFloat16, "float16"},
                 {"<f4", npyFloat32, "float32"},
                 {"<f8", npyFloat64, "float64"},
                 {"|b1", npyBool, "bool"},
                 {"?", npyBool, "bool"},
                 {"|u1", npyUint8, "uint8"},
                 {">u1", npyUint8, "uint8"},
                 {"<i4", npyInt32, "int32"},
                 {"<i8", npyInt64, "int64"},
                 {"<i2", {NpyKind::signedInteger, 2}, "int16"},
                 {"<c8", {NpyKind::complex, 8}, "complex64"},
                 {"<u8", {NpyKind::unsignedInteger, 8}, "uint64"}};
    for (const auto &[descr, type, name] : types) {
        const Parsed parsed =
            parse(whole(std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': (2,)}", type.itemBytes * 2));
        ASSERT_TRUE(parsed.header) << descr << ": " << parsed.why;
        EXPECT_EQ(parsed.header->type, type) << descr;
        EXPECT_EQ(npyTypeName(parsed.header->type), name);
    }
}

TEST(npy, refusesOtherTypes) {
    const auto typed = [](const std::string &descr) { return whole("{'descr': " + descr + ", 'fortran_order': False, 'shape': (2,)}", 8); };
    expectRefused(typed("'>f4'"), "big-endian");
    expectRefused(typed("'|O'"), "Python objects");
    expectRefused(typed("'O'"), "Python objects");
    expectRefused(typed("'<U5'"), "text");
    expectRefused(typed("'|S5'"), "text");
    expectRefused(typed("'<M8[ns]'"), "dates");
    expectRefused(typed("'|V2'"), "bfloat16");
    expectRefused(typed("[('a', '<f4'), ('b', '<f4')]"), "structured");
    expectRefused(typed("'<f3'"), "not a dtype");
    expectRefused(typed("'<f44'"), "not a dtype");
    expectRefused(typed("'<'"), "not a dtype");
    expectRefused(typed("''"), "not a dtype");
    // No text from a file reaches the terminal raw.
    expectRefused(typed("'<f4\x1b[31m'"), "\\x1b[31m");
    expectRefused(typed("4"), "malformed header");
    expectRefused(typed("None"), "malformed header");
}

TEST(npy, refusesBadStarts) {
    expectRefused("", "empty");
    expectRefused("PK\x03\x04 and more bytes", ".npz");
    expectRefused("1.0,2.0,3.0\n4.0,5.0,6.0\n", "not a .npy file");
    expectRefused("\x93NUM", "truncated");
    expectRefused("\x93NUMPX" + std::string(100, 'x'), "not a .npy file");
    for (size_t bytes = 1; bytes < whole(plain, 24).size(); bytes++) expectRefused(whole(plain, 24).substr(0, bytes), "truncated");
    expectRefused(preamble(4, 0, 10) + plain, ".npy version 4.0");
    expectRefused(preamble(0, 0, 10) + plain, ".npy version 0.0");
    expectRefused(preamble(1, 1, 10) + plain, ".npy version 1.1");
    expectRefused(preamble(2, 0, 0xffffffff) + plain, "its header claims 4294967295 bytes");
    expectRefused(preamble(3, 0, 65536) + std::string(70000, ' '), "its header claims 65536 bytes");
}

TEST(npy, refusesMalformedDicts) {
    for (const std::string header : {"",
                                     "{",
                                     "}",
                                     "{}",
                                     "[]",
                                     "{'descr'",
                                     "{'descr': ",
                                     "{'descr': '<f4",
                                     "{'descr' '<f4'}",
                                     "{'descr': '<f4' 'shape': (2, 3)}",
                                     "{'descr': '<f4', 'fortran_order': False}",
                                     "{'descr': '<f4', 'shape': (2, 3)}",
                                     "{'fortran_order': False, 'shape': (2, 3)}",
                                     "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}",
                                     "{'descr': '<f4', 'fortran_order': false, 'shape': (2, 3)}",
                                     "{'descr': '<f4', 'fortran_order': Falsehood, 'shape': (2, 3)}",
                                     "{'descr': '<f4', 'fortran_order': False, 'shape': [2, 3]}",
                                     "{'descr': '<f4', 'fortran_order': False, 'shape': (6)}",
                                     "{'descr': '<f4', 'fortran_order': False, 'shape': 6}",
                                     "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}",
                                     "{'descr': '<f4', 'fortran_order': False, 'shape': (2,, 3)}",
                                     "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
                                     "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3}",
                                     "{'descr': '<f4', 'fortran_order': False, 'shape': (2.0, 3)}",
                                     "{'descr': '<f4', 'fortran_order': False, 'shape': (0x2, 3)}",
                                     "{'descr': '<f4', 'fortran_order': False, 'shape': (2LL, 3)}",
                                     "{'descr': '<f4', 'fortran_order': False, 'shape': (True, 6)}",
                                     "{'descr': '<f4', 'fortran_order': False, 'shape': ((2, 3))}",
                                     "{, 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}",
                                     "{'descr': '<f4',, 'fortran_order': False, 'shape': (2, 3)}",
                                     "{'descr\\'': '<f4', 'fortran_order': False, 'shape': (2, 3)}",
                                     "{'descr': '<f4\", 'fortran_order': False, 'shape': (2, 3)}"})
        expectRefused(whole(header, 24), "header");
    expectRefused(whole("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} x", 24), "text after the dict");
    expectRefused(whole("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'extra': 1}", 24), "unknown header key 'extra'");
    expectRefused(whole("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}", 24), "given twice");
    const std::string open = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)";
    expectRefused(whole(open + '\0' + "}", 24), "NUL byte at position " + std::to_string(open.size()));
    expectRefused(whole(plain + std::string(4, '\0'), 24), "NUL byte");
    expectRefused(whole(std::string(60000, '('), 24), "malformed header");
    expectRefused(whole("{'shape': " + std::string(60000, '('), 24), "malformed header");
}

TEST(npy, refusesBadShapes) {
    const auto shaped = [](const std::string &shape, size_t dataBytes = 24) {
        return whole("{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + "}", dataBytes);
    };
    expectRefused(shaped("(-2, 3)"), "negative dimension");
    expectRefused(shaped("(2, -3)"), "negative dimension");
    expectRefused(shaped("(4294967296, 4294967296)"), "overflows 64 bits");
    expectRefused(shaped("(4611686018427387904, 4)"), "overflows 64 bits");
    expectRefused(shaped("(9223372036854775807,)"), "overflows 64 bits");
    expectRefused(shaped("(0, 4294967296, 4294967296)"), "overflows 64 bits");
    expectRefused(shaped("(9223372036854775808,)"), "does not fit in 63 bits");
    expectRefused(shaped("(18446744073709551617, 6)"), "does not fit in 63 bits");
    expectRefused(shaped("(99999999999999999999999999999999, 6)"), "does not fit in 63 bits");
    expectRefused(shaped("(1000000000, 1000)"),
                  "truncated: shape (1000000000, 1000) of float32 takes 4000000000000 bytes of data, the file has 24");
    expectRefused(shaped("(2, 4)"), "truncated");
    expectRefused(shaped("(2, 2)"), "longer than its header says");
    expectRefused(shaped("(0, 3)"), "longer than its header says");
    std::string many = "(1";
    for (int i = 0; i < 32; i++) many += ", 1";
    expectRefused(shaped(many + ")", 4), "more than 32 dimensions");
    EXPECT_TRUE(parse(shaped("(0, 3)", 0)).header);
    EXPECT_TRUE(parse(shaped("(4294967296, 0)", 0)).header);
}

TEST(npy, needsOnlyThePrefixOfALargeFile) {
    const std::string start = whole("{'descr': '<f4', 'fortran_order': False, 'shape': (1048576, 1048576)}", 100);
    const uint64_t dataBytes = uint64_t{4} << 40;
    std::string why;
    const std::optional<NpyHeader> header = parseNpyHeader(bytesOf(start), start.size() - 100 + dataBytes, why);
    ASSERT_TRUE(header) << why;
    EXPECT_EQ(header->dataBytes, dataBytes);
    // The parser believes a caller who claims fewer bytes than the caller hands over.
    EXPECT_FALSE(parseNpyHeader(bytesOf(start), 20, why));
}

TEST(npy, writesWhatItReads) {
    for (const NpyType type : {npyFloat16, npyFloat32})
        for (const std::vector<uint64_t> &shape :
             std::vector<std::vector<uint64_t>>{{7}, {0, 8}, {2, 3}, {4294967295, 0, 2048}, {1, 2, 3, 4}}) {
            uint64_t bytes = type.itemBytes;
            for (const uint64_t extent : shape) bytes *= extent;
            const std::string file = npyHeaderBytes(type, shape) + std::string(bytes, 'x');
            EXPECT_EQ((file.size() - bytes) % 64, 0u);
            const Parsed parsed = parse(file);
            ASSERT_TRUE(parsed.header) << parsed.why;
            EXPECT_EQ(parsed.header->type, type);
            EXPECT_EQ(parsed.header->shape, shape);
            EXPECT_FALSE(parsed.header->fortranOrder);
        }
    // Byte for byte what numpy.save writes.
    EXPECT_EQ(npyHeaderBytes(npyFloat32, std::vector<uint64_t>{2, 3}), std::string("\x93NUMPY\x01\x00\x76\x00", 10) +
                                                                           "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }" +
                                                                           std::string(58, ' ') + "\n");
}

TEST(npy, damagedFilesNeverCrash) {
    const char *given = std::getenv("VKATTN_TEST_SEED");
    const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 0) : 20240607;
    std::printf("VKATTN_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
    std::mt19937_64 random(seed);
    const std::string pieces[] = {"{",    "}",     "(",   ")",  ",", ":",           "'", "\"", "descr", "shape", "fortran_order",
                                  "True", "False", "<f4", "-1", "0", "99999999999", "L", "\\", "\n"};
    for (int n = 0; n < 20000; n++) {
        std::string file = whole(plain, 24, static_cast<int>(1 + random() % 3));
        for (uint64_t change = 0; change < 1 + random() % 6; change++) {
            const size_t at = random() % std::max<size_t>(file.size(), 1);
            switch (random() % 4) {
            case 0:
                file[at] = static_cast<char>(random());
                break;
            case 1:
                file.erase(at, 1 + random() % 4);
                break;
            case 2:
                file.insert(at, pieces[random() % std::size(pieces)]);
                break;
            default:
                file.resize(at + 1);
                break;
            }
        }
        std::string why;
        const std::optional<NpyHeader> header = parseNpyHeader(bytesOf(file), file.size(), why);
        if (header) {
            EXPECT_EQ(header->dataOffsetBytes + header->dataBytes, file.size());
        } else {
            EXPECT_FALSE(why.empty());
        }
    }
}

TEST(npy, filesAreReadInOrder) {
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("vkattn-npy-test-" + std::to_string(std::random_device()()) + ".npy");
    std::string file = whole(plain, 0);
    for (int i = 0; i < 24; i++) file += static_cast<char>(i);
    std::ofstream(path, std::ios::binary) << file;
    std::string why;
    std::optional<NpyFile> opened = NpyFile::open(path, why);
    ASSERT_TRUE(opened) << why;
    std::vector<std::byte> data(10);
    ASSERT_TRUE(opened->read(data, why));
    EXPECT_EQ(data[9], std::byte{9});
    ASSERT_TRUE(opened->read(data, why));
    EXPECT_EQ(data[0], std::byte{10});
    EXPECT_FALSE(opened->read(data, why));
    EXPECT_NE(why.find("shorter"), std::string::npos);
    std::filesystem::remove(path);
    EXPECT_FALSE(NpyFile::open(path, why));
    EXPECT_EQ(why, "no such file");
}

} // namespace
