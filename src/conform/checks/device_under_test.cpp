// The device under test, opened once for each kind of tiles and limits.
#include "conform/checks/check.hpp"

namespace vkattn::conform {
namespace {

constexpr vkattn_kernel flash = VKATTN_KERNEL_FLASH, decode = VKATTN_KERNEL_DECODE, coopmat = VKATTN_KERNEL_FLASH_COOPMAT,
                        coopmat2 = VKATTN_KERNEL_FLASH_COOPMAT2;
constexpr TestLayout testLayout[] = {
    {"device", VKATTN_KERNEL_AUTO, "", false},
    {"flashPortable", flash, "dimLanes=4 rowLanes=2 rowsPerLane=2", false},
    {"flashSubgroups", flash, "dimLanes=4 rowLanes=4 keysPerLane=2 subgroups=1", true},
    {"flashSharedTiles", flash, "rowLanes=8 keysPerLane=2 source=1 tileKeys=8 rolledEdges=1", false},
    {"flashSharedDims", flash, "dimLanes=2 rowLanes=4 keysPerLane=2 source=1 tileKeys=8 subgroups=1", true},
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

// A tuning file whose tiles all are these.
std::string tuningOf(const TestLayout &chosen, uint32_t subgroupSize) {
    std::string tile = chosen.row;
    if (tile.empty()) return {};
    // The second row is for dims that leave the first no room in shared memory.
    if (chosen.onMatrixUnits())
        return "vkattn-tuning 1\nflash_coopmat maxDim=256 " + tile + "\nflash_coopmat maxDim=256 subgroups=1 rowBlocks=1 tileKeys=32\n";
    if (const size_t at = tile.find("LANES"); at != std::string::npos) tile.replace(at, 5, std::to_string(subgroupSize));
    const std::string row = " maxDim=64 " + tile + "\n",
                      // The last one counts.
        wide = " maxDim=512 " + tile + " rowsPerLane=1 keysPerLane=1\n";
    return "vkattn-tuning 1\nflash" + row + "flash" + wide + "decode" + row + "decode" + wide;
}

vkattn_caps minimumCaps() {
    vkattn_caps caps{};
    caps.structSize = sizeof caps;
    vkattnMinimumCaps(&caps, nullptr); // fails for a wrong structSize only
    return caps;
}

void limit(RuntimeOptions &options, Limits limits, const vkattn_caps &device) {
    if (limits == Limits::full) return;
    options.capsLimit = areMinimum(limits) ? minimumCaps() : device;
    if (makeChunks(limits))
        options.capsLimit->maxStorageBufferRange = bindingBytesOfChunks, options.maxWorkspaceBytes = workspaceBytesOfChunks;
    // Such a device gets the tiles of GPUs, which take minutes to compile where the device is the
    // CPU.
    if (areMinimum(limits) && device.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU && options.tuning.empty())
        options.tuning = "vkattn-tuning 1\n"
                         "flash maxDim=512 dimLanes=4 rowLanes=4 rowsPerLane=2 keysPerLane=2\n"
                         "decode maxDim=512 dimLanes=4 keyLanes=4 rowsPerLane=2 keysPerLane=2\n";
}

std::string whatIsMissing(const TestLayout &chosen, const DeviceInfo &device) {
    if (chosen.subgroups && (!device.caps.subgroupShuffle || device.caps.subgroupSize < 4))
        return "the device does not support subgroup shuffles in compute shaders";
    if (const KernelSupport *support = device.support(chosen.kernel); chosen.onMatrixUnits() && !support->available) return support->reason;
    return {};
}

} // namespace

std::span<const TestLayout> testLayouts() {
    return testLayout;
}

const TestLayout *testLayoutOf(std::string_view name) {
    for (const TestLayout &each : testLayout)
        if (name == each.name) return &each;
    return nullptr;
}

RuntimeOptions optionsFor(RuntimeOptions base, const TestLayout &chosen, Limits limits, const vkattn_caps &device) {
    base.allowFallback = false;
    base.selfTest = 0; // every result is compared here
    base.verdictFile.clear();
    base.tuning = tuningOf(chosen, device.subgroupSize);
    limit(base, limits, device);
    return base;
}

DeviceUnderTest::DeviceUnderTest(RuntimeOptions base) : base_(std::move(base)) {}

Runtime *DeviceUnderTest::runtime(const TestLayout &chosen, Limits limits, std::string &why) {
    why.clear();
    std::unique_ptr<Runtime> &made = runtimes_[{chosen.name, limits}];
    if (made) return made.get();
    vkattn_caps caps{};
    if (&chosen != testLayout || limits != Limits::full) {
        const DeviceInfo *info = device();
        if (!info) return why = failure_, nullptr;
        why = whatIsMissing(chosen, *info);
        if (!why.empty()) return nullptr;
        caps = info->caps;
    }
    OpenStatus status = OpenStatus::ok;
    made = Runtime::open(optionsFor(base_, chosen, limits, caps), &status, &why);
    if (!made) failure_ = why;
    return made.get();
}

const DeviceInfo *DeviceUnderTest::device() {
    std::string why;
    const Runtime *plain = runtime(testLayout[0], Limits::full, why);
    return plain ? plain->device() : nullptr;
}

Runtime::CompileStatistics DeviceUnderTest::compileStatistics() const {
    Runtime::CompileStatistics all;
    for (const auto &[key, runtime] : runtimes_) {
        if (!runtime) continue;
        const Runtime::CompileStatistics one = runtime->compileStatistics();
        all.pipelines += one.pipelines, all.seconds += one.seconds;
    }
    return all;
}

} // namespace vkattn::conform
