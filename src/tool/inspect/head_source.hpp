// Where the weights of heads and their statistics come from, one head after the other.
#pragma once

#include "analysis/geometry.hpp"
#include "analysis/head.hpp"
#include "tool/options/arguments.hpp"

#include <vkattn/statistics.h>

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
    // Why no head's weights are taken: heads are too large, and no option asks for weights by name. Empty: they
    // are taken.
    std::string withheld;
};

// What computed the weights; known after the first head.
struct SourceDevice {
    std::string device, kernel, fallbackReason; // empty where weights were given
};

// What is asked of statistics beside the figures of rows and what keys receive.
struct StatisticsRequest {
    double density = 0;   // the threshold; 0: no density
    uint32_t topKeys = 0; // of each row; 0: none
};

// What a head does, in the numbers of vkattn/statistics.h; the weights were never in memory.
struct HeadStatistics {
    size_t queries = 0, keys = 0;
    int64_t shift = 0;           // as HeadWeights
    std::vector<float> rows;     // [query, VKATTN_STATISTIC_COUNT]
    std::vector<double> sums;    // of each query: what attention's own weights sum to
    std::vector<float> received; // [key], over the rows that are finite
    // [query, topKeys]
    std::vector<float> topWeights;
    std::vector<int32_t> topKeys;
};

class HeadSource {
  public:
    virtual ~HeadSource() = default;
    [[nodiscard]] virtual const SourceFacts &facts() const = 0;
    // Opens the device and reads what is read as a whole; outputs have been checked before.
    virtual void start() = 0;
    // Heads are asked for in order, those of a batch entry together: first the statistics, which a source of
    // weights alone has none of, then the weights. Both throw Failure.
    [[nodiscard]] virtual std::optional<HeadStatistics> statistics(uint32_t batch, uint32_t head, const StatisticsRequest &request) = 0;
    [[nodiscard]] virtual analysis::HeadWeights head(uint32_t batch, uint32_t head) = 0;
    // Of the head whose weights were asked for last.
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
