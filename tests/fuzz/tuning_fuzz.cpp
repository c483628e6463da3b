// The reader of tuning files, and the planner with what it has read.
#include "core/plan/tuning/tuning.hpp"
#include "fuzz/shared/fuzz.hpp"
#include "vkattn/vkattn.hpp"

using namespace vkattn;
using namespace vkattn::test;

namespace {

Caps someCaps(uint32_t kind) {
    Caps caps = minimumCaps();
    caps.deviceType = kind & 1 ? VK_PHYSICAL_DEVICE_TYPE_CPU : VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    if ((kind & 2) == 0) return caps;
    caps.maxStorageBuffersPerStage = 64;
    caps.maxWorkgroupInvocations = 1024;
    for (uint32_t &size : caps.maxWorkgroupSize) size = 1024;
    caps.maxSharedMemoryBytes = 32768;
    caps.subgroupSize = 32;
    caps.subgroupShuffle = caps.subgroupClustered = caps.fullSubgroups = 1;
    return caps;
}

void checkTiles(const FlashTile (&tiles)[FlashTuning::maxTiles]) {
    for (const FlashTile &tile : tiles) {
        if (tile.maxDim == 0) return;
        require(tile.maxDim <= 2048 && tile.minDim >= 1 && tile.minDim <= tile.maxDim);
        require(tile.dimLanes >= 1 && tile.keyLanes >= 1 && tile.rowLanes >= 1 && (tile.dimLanes & (tile.dimLanes - 1)) == 0);
        require(tile.rowsPerLane >= 1 && tile.keysPerLane >= 1 && tile.rowsPerLane * tile.keysPerLane <= 32);
        require(tile.source <= 2 && tile.tileKeys >= 1);
    }
    require(false); // a list without an end
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    vkattn_diagnostic why{};
    const Caps gpu = someCaps(2);
    FlashTuning tuning = flashTuning(gpu);
    const vkattn_result r = readTuning(data, size, tuning, &why);
    require(r == VKATTN_OK || (r == VKATTN_ERROR_INVALID_ARGUMENT && why.message[0] != '\0' && terminated(why.message)));
    for (const char *c = why.message; *c; ++c) require(static_cast<unsigned char>(*c) >= 0x20 && static_cast<unsigned char>(*c) < 0x7f);
    checkTiles(tuning.flash);
    checkTiles(tuning.decode);
    if (r != VKATTN_OK) return 0;
    for (uint32_t kind = 0; kind < 4; ++kind)
        for (const uint32_t dim : {1u, 40u, 64u, 128u, 512u, 2048u}) {
            const vkattn_layout q = packed(VKATTN_F32, 1, 4, kind & 1 ? 1 : 300, dim), k = packed(VKATTN_F16, 1, 2, 333, dim);
            const vkattn_problem p = problem(q, k, k, q);
            vkattn_explanation plan{};
            plan.structSize = sizeof plan;
            const Caps caps = someCaps(kind);
            const vkattn_result planned = explain(caps, p, plan, planOptions(0, {reinterpret_cast<const char *>(data), size}), &why);
            require(planned == VKATTN_OK); // the staged kernel takes what no tile fits
            require(plan.workgroupInvocations >= 1 && plan.workgroupInvocations <= caps.maxWorkgroupInvocations);
        }
    return 0;
}
