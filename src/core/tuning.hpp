// Tile shapes by device class: one table, one row per measured fact.
#pragma once

#include "core/caps.hpp"

#include <cstdint>

namespace vkattn {

// A tile of lanesX x lanesY invocations, each owning perLaneX x perLaneY results. X runs along keys (scores) or value dims (values).
struct TileShape {
    uint32_t lanesX, lanesY, perLaneX, perLaneY;
    [[nodiscard]] constexpr uint32_t invocations() const { return lanesX * lanesY; }
    [[nodiscard]] constexpr uint32_t sizeX() const { return lanesX * perLaneX; }
    [[nodiscard]] constexpr uint32_t sizeY() const { return lanesY * perLaneY; }
};

enum TileClass : uint32_t {
    manyRows = 0,
    fewRows = 1, // scores, values: chunks with fewer than fewRowsBelow query rows; softmax: long rows
    narrow = 2,  // values only: many rows, value dims up to narrowUpTo
    tileClassCount = 3
};

struct StagedTuning {
    TileShape scores[2], values[tileClassCount];
    uint32_t fewRowsBelow, narrowUpTo;
    uint32_t softmaxLanes[2];
    uint32_t overlayLanes, overlayKeysPerLane; // bias, ALiBi, masks, documents; sinks: lanes only
    uint32_t sequenceLanes;                    // the one workgroup that reads the sequences of a ragged batch
};

[[nodiscard]] const StagedTuning &stagedTuning(const Caps &caps);

} // namespace vkattn
