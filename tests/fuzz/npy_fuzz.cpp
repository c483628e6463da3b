// The reader of .npy headers: whole files as they come, and, after a first byte with its lowest bit
// set, text put into a right frame of a file whose size is made up.
#include "fuzz/shared/fuzz.hpp"
#include "program/files/npy.hpp"

using namespace vkattn::test;
using namespace vkattn::program;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Bytes bytes(data, size);
    const uint8_t mode = bytes.raw<uint8_t>();
    std::vector<std::byte> prefix;
    uint64_t fileBytes = 0;
    if ((mode & 1) == 0) {
        while (!bytes.empty()) prefix.push_back(bytes.raw<std::byte>());
        fileBytes = prefix.size();
    } else {
        const uint64_t dataBytes = bytes.raw<uint64_t>() >> (mode >> 2);
        std::string text;
        while (!bytes.empty() && text.size() < 4000) text += bytes.raw<char>();
        const char version = mode & 2 ? '\x02' : '\x01';
        std::string file("\x93NUMPY");
        file += {version, '\0', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
        if (version == 2) file.append(2, '\0');
        file += text;
        fileBytes = file.size() + dataBytes;
        if (fileBytes < dataBytes) fileBytes = UINT64_MAX;
        const uint64_t present = fileBytes < npyMaxPrefixBytes ? fileBytes : npyMaxPrefixBytes;
        for (const char c : file) prefix.push_back(static_cast<std::byte>(c));
        prefix.resize(static_cast<size_t>(present));
    }
    std::string why;
    const std::optional<NpyHeader> header = parseNpyHeader(prefix, fileBytes, why);
    if (!header) {
        require(!why.empty() && why.size() < 4096);
        for (const char c : why) require(static_cast<unsigned char>(c) >= 0x20 && static_cast<unsigned char>(c) < 0x7f);
        return 0;
    }
    require(header->shape.size() <= npyMaxDimensions);
    require(header->dataOffsetBytes <= fileBytes && header->dataBytes == fileBytes - header->dataOffsetBytes);
    uint64_t elements = 1;
    for (const uint64_t extent : header->shape) elements *= extent;
    require(elements * header->type.itemBytes == header->dataBytes);
    require(!npyTypeName(header->type).empty() && !npyShapeText(header->shape).empty());
    return 0;
}
