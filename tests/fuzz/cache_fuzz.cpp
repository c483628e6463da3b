// vkattnImportCache on a device without a driver. The first byte says how far the harness helps the
// rest past the header.
#include "core/vulkan/cache.hpp"
#include "fuzz/shared/fuzz.hpp"
#include "support/vulkan/cache_device.hpp"
#include "vkattn/vkattn.hpp"

using namespace vkattn;
using namespace vkattn::test;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static Context context; // hashing the shaders for each input would take most of the time
    static std::vector<unsigned char> good;
    vkattn_diagnostic why{};
    if (!context || cacheDevice.liveCaches > 6) {
        require(context.create(cacheDeviceHost(), &why) == VKATTN_OK);
        require(cacheDevice.liveCaches == 1);
        size_t bytes = 0;
        require(vkattnExportCache(context.handle(), &bytes, nullptr, &why) == VKATTN_OK);
        good.resize(bytes);
        require(vkattnExportCache(context.handle(), &bytes, good.data(), &why) == VKATTN_OK && bytes == good.size());
    }
    if (size == 0) return 0;
    // Each accepted blob costs a new context sooner or later.
    const uint8_t mode = data[0] % 16 == 15 ? 3 : data[0] % 16 % 3;
    std::vector<unsigned char> blob(data + 1, data + size);
    if (mode >= 2) { // a right header before the bytes; 3: the driver's as well
        const size_t kept = mode == 2 ? blob::headerBytes : good.size();
        blob.insert(blob.begin(), good.begin(), good.begin() + static_cast<ptrdiff_t>(kept));
        const uint64_t payload = blob.size() - blob::headerBytes;
        for (size_t n = 0; n < 8; ++n) blob[blob::payloadBytesAt + n] = static_cast<unsigned char>(payload >> 8 * n);
    }
    if (mode >= 1) fixChecksums(blob);
    const std::vector<unsigned char> exact(blob); // no spare bytes behind its end
    const vkattn_result r = vkattnImportCache(context.handle(), exact.size(), exact.data(), &why);
    require(r == VKATTN_OK || r == VKATTN_CACHE_REJECTED);
    require(r == VKATTN_OK || (why.message[0] != '\0' && terminated(why.message)));
    require(mode < 3 || r == VKATTN_OK);
    require(cacheDevice.badInitialData == 0); // else the driver was given what is not its own
    return 0;
}
