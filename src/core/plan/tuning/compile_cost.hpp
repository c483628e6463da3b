// What a tile costs to compile: the operations of one lane after its loops are unrolled. Drivers'
// compilers take time in proportion to them, software drivers at the first dispatch, where over a
// minute looks like a hang.
#pragma once

#include "core/plan/tuning/tuning.hpp"

namespace vkattn {

// What a load or store counts, in multiply-adds: software drivers check the bounds of each and make
// it a branch, and 16-bit elements are converted. A load from shared memory, at one address for all
// lanes, is cheaper.
constexpr uint32_t compileOperationsPerAccess = 12, compileOperationsPerSharedLoad = 2;

struct LaneDims {
    uint32_t head, value;      // of a lane
    uint32_t shuffleLanes;     // lanes that share a load, where the tile's source is shuffled
    bool valuesInKeys = false; // a lane that loads keys by itself has their values
};

// Of shaders/flash/lanes.comp, for the types and options that take most: which tile is taken
// depends on dims and device alone. Half of it is the steps that every row sees whole, half the
// steps that are tested; then come the edges, where q is loaded and the output is stored.
[[nodiscard]] uint64_t compileOperations(const FlashTile &tile, const LaneDims &dims);
// Of the staged kernel: its heaviest shader.
[[nodiscard]] uint64_t compileOperations(const StagedTuning &tuning);

// How many operations a built-in tile may have on such a device. A tuning file's rows are not held
// to it: whoever measured them has compiled them.
[[nodiscard]] uint64_t compileLimit(const Caps &caps);

} // namespace vkattn
