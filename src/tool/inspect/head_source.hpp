// Where the weights of heads come from, one head after the other.
#pragma once

#include "analysis/geometry.hpp"
#include "analysis/head.hpp"
#include "tool/options/arguments.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vkattn::tool {

struct SourceFacts {
    std::string text;                                     // "w.npy", or "q.npy and k.npy"
    std::vector<std::string> inputs;                      // paths that no output may name
    bool ragged = false;                                  // batch entries are sequences
    bool visibleFromWeights = false;                      // what has a weight of 0 counts as hidden
    uint32_t batch = 0, heads = 0, queries = 0, keys = 0; // ragged: of the longest sequences
    // Of what is written for each row and for each key, without the 8 of --stats.
    std::vector<uint64_t> rowShape, keyShape;
};

// What computed the weights; known after the first head.
struct SourceDevice {
    std::string device, kernel, fallbackReason; // empty where weights were given
};

class HeadSource {
  public:
    virtual ~HeadSource() = default;
    [[nodiscard]] virtual const SourceFacts &facts() const = 0;
    // Opens the device and reads what is read as a whole; outputs have been checked before.
    virtual void start() = 0;
    // Heads are asked for in order, those of a batch entry together. Throws Failure.
    [[nodiscard]] virtual analysis::HeadWeights head(uint32_t batch, uint32_t head) = 0;
    // Of the head that was asked for last.
    [[nodiscard]] virtual std::optional<analysis::Geometry> geometry(const analysis::HeadWeights &weights) const = 0;
    [[nodiscard]] virtual SourceDevice device() const = 0;
    // Where the rows and keys of a head begin in what is written for each row and each key.
    [[nodiscard]] virtual uint64_t firstRow(uint32_t batch, uint32_t head) const = 0;
    [[nodiscard]] virtual uint64_t firstKey(uint32_t batch, uint32_t head) const = 0;
};

// Throw Failure where files are not as they must be, or need more memory than this machine has.
[[nodiscard]] std::unique_ptr<HeadSource> weightsSource(const InspectArguments &arguments);
[[nodiscard]] std::unique_ptr<HeadSource> attentionSource(const InspectArguments &arguments);

} // namespace vkattn::tool
