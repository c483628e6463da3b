// Writes one file again and again until it is killed: kill_test.cpp does that.
//   blob FILE BYTES   a pipeline cache, as docs/embedding.md advises: version n is BYTES times the
//                     byte n
//   verdicts FILE     what self-tests found (RuntimeOptions::verdictFile), by the library
#include "runtime/verdicts.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace {

void writeBlobs(const std::string &path, size_t bytes) {
    for (unsigned version = 1;; version = version % 250 + 1) {
        const std::vector<char> blob(bytes, static_cast<char>(version));
        const std::string temporary = path + ".tmp";
        std::FILE *file = std::fopen(temporary.c_str(), "wb");
        if (!file) std::exit(2);
        bool good = std::fwrite(blob.data(), 1, blob.size(), file) == blob.size();
        good = std::fclose(file) == 0 && good;
        if (!good) std::exit(2);
        std::filesystem::rename(temporary, path);
    }
}

void writeVerdicts(const std::string &path) {
    vkattn::RuntimeOptions options;
    options.verdictFile = path;
    const vkattn::DeviceInfo device;
    const vkattn::Verdicts verdicts(options, device);
    for (int n = 0;; ++n)
        for (const vkattn_kernel kernel : {VKATTN_KERNEL_FLASH_COOPMAT, VKATTN_KERNEL_FLASH_COOPMAT2})
            verdicts.remember(vkattnKernelName(kernel), n % 2 ? VKATTN_VERDICT_SLOW : VKATTN_VERDICT_TRUSTED, {});
}

} // namespace

int main(int argc, char **argv) {
    const std::vector<std::string> arguments(argv, argv + argc);
    if (argc == 4 && arguments[1] == "blob") writeBlobs(arguments[2], std::stoul(arguments[3]));
    if (argc == 3 && arguments[1] == "verdicts") writeVerdicts(arguments[2]);
    return 2;
}
