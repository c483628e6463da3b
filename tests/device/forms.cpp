#include "forms.hpp"

#include <algorithm>

namespace vkattn::test {

const std::vector<Form> &forms() {
    constexpr vkattn_kernel flash = VKATTN_KERNEL_FLASH, decode = VKATTN_KERNEL_DECODE, coopmat = VKATTN_KERNEL_FLASH_COOPMAT,
                            coopmat2 = VKATTN_KERNEL_FLASH_COOPMAT2;
    static const std::vector<Form> list = {
        {"staged", VKATTN_KERNEL_STAGED, "", false},
        {"flashPortable", flash, "dimLanes=4 rowLanes=2 rowsPerLane=2", false},
        {"flashSubgroups", flash, "dimLanes=4 rowLanes=4 keysPerLane=2 subgroups=1", true},
        {"flashSharedTiles", flash, "rowLanes=8 keysPerLane=2 source=1 tileKeys=8 rolledEdges=1", false},
        {"flashShuffled", flash, "rowLanes=LANES rowsPerLane=2 source=2 subgroups=1", true},
        {"flashDirect", flash, "rowLanes=8 keysPerLane=3", false},
        {"decodeKeysInLanes", decode, "keyLanes=8 rowsPerLane=2", false},
        {"decodeDimsAndKeysPortable", decode, "dimLanes=4 keyLanes=4 keysPerLane=2", false},
        {"decodeDimsAndKeysSubgroups", decode, "dimLanes=2 keyLanes=8 rowsPerLane=2 wholeRuns=1 subgroups=1", true},
        {"coopmatFlat", coopmat, "subgroups=2 rowBlocks=1 tileKeys=32", true},
        {"coopmatTall", coopmat, "subgroups=1 rowBlocks=2 tileKeys=32", true},
        {"coopmatWide", coopmat, "subgroups=4 rowBlocks=1 tileKeys=64", true},
        {"coopmat2Flat", coopmat2, "subgroups=2 rowBlocks=1 tileKeys=32", true},
        {"coopmat2Tall", coopmat2, "subgroups=1 rowBlocks=2 tileKeys=16", true},
    };
    return list;
}

std::string tuningOf(const Form &form, uint32_t subgroupSize) {
    std::string tile = form.tile;
    if (tile.empty()) return {};
    // The second row is for dims that leave the first no room in shared memory.
    if (form.onMatrixUnits())
        return "vkattn-tuning 1\nflash_coopmat maxDim=256 " + tile + "\nflash_coopmat maxDim=256 subgroups=1 rowBlocks=1 tileKeys=32\n";
    if (const size_t at = tile.find("LANES"); at != std::string::npos) tile.replace(at, 5, std::to_string(subgroupSize));
    const std::string row = " maxDim=64 " + tile + "\n",
                      wide = " maxDim=512 " + tile + " rowsPerLane=1 keysPerLane=1\n"; // the last one counts
    return "vkattn-tuning 1\nflash" + row + "flash" + wide + "decode" + row + "decode" + wide;
}

Runtime *runtimeFor(const Form &form, Room room, std::string &skipped) {
    const Runtime *plain = runtimeFor(Limits::full);
    skipped.clear();
    if (!plain) return nullptr;
    const vkattn_caps &caps = plain->device()->caps;
    if (form.subgroups && (!caps.subgroupShuffle || caps.subgroupSize < 4)) skipped = "needs subgroup shuffles, which the device has not";
    for (uint32_t n = 0; form.onMatrixUnits() && n < plain->device()->kernels.size(); ++n) {
        const KernelSupport &kernel = plain->device()->kernels[n];
        if (n + 1 == static_cast<uint32_t>(form.kernel) && !kernel.available) skipped = kernel.reason;
    }
    if (!skipped.empty()) return nullptr;
    RuntimeOptions options = optionsFor(Limits::full);
    options.tuning = tuningOf(form, caps.subgroupSize);
    if (room == Room::tight) {
        options.capsLimit = caps;
        options.capsLimit->maxStorageBufferRange = 1u << 16;
        options.maxWorkspaceBytes = 16384;
    }
    return runtimeFor(std::string(form.name) + (room == Room::tight ? " tight" : ""), options);
}

std::string refusalOf(const Form &form, const Instance &in) {
    if (form.kernel == VKATTN_KERNEL_STAGED) return {};
    if (in.c.weights) return "only the staged kernel writes them";
    if (std::max(in.c.headDim, in.c.valueDim) > (form.onMatrixUnits() ? 256u : 512u))
        return std::string("takes head and value dims up to ") + (form.onMatrixUnits() ? "256" : "512");
    if (in.problem.q.extent[2] == 0) return {}; // nothing to write
    const bool ragged = in.c.ragged;
    if ((ragged && in.problem.maxSeqK ? in.problem.maxSeqK : in.problem.k.extent[2]) == 0) return "nothing to do without keys";
    return {};
}

Runtime *EveryForm::runtime(Room room) {
    std::string skipped;
    Runtime *runtime = runtimeFor(form(), room, skipped);
    const auto skip = [&] { GTEST_SKIP() << form().name << ": " << skipped; };
    if (!skipped.empty())
        skip();
    else
        EXPECT_TRUE(runtime);
    return runtime;
}

Case takenBy(const Form &form, Case c) {
    c.kernel = form.kernel;
    if (!form.onMatrixUnits()) return c;
    const vkattn_caps &caps = runtimeFor(Limits::full)->device()->caps;
    std::vector<vkattn_dtype> types;
    for (uint32_t n = 0; n < caps.matrixShapeCount; ++n)
        if (std::find(types.begin(), types.end(), caps.matrixShapes[n].inputs) == types.end()) types.push_back(caps.matrixShapes[n].inputs);
    Random random = randomFor(c.name);
    c.q = c.k = c.v = types[random() % types.size()];
    return c;
}

std::string formName(const testing::TestParamInfo<size_t> &info) {
    return forms()[info.param].name;
}

} // namespace vkattn::test
