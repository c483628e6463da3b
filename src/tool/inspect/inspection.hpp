// All that `vkattn inspect` has found, for its texts, files, pictures and page.
#pragma once

#include "analysis/classes.hpp"
#include "analysis/flow.hpp"
#include "analysis/geometry.hpp"
#include "analysis/measures.hpp"
#include "analysis/pooling.hpp"
#include "analysis/spectra/spectrum.hpp"

#include <optional>
#include <string>
#include <vector>

namespace vkattn::tool {

struct SpectrumOfHead {
    // Exact where `exact`; else the leading values, by random projections.
    analysis::SingularValues singular;
    bool exact = true;
    // Of square heads: exact values where `exact` or where the head is triangular.
    std::optional<analysis::Eigenvalues> eigen;
    std::optional<analysis::Stationary> stationary;
};

// What was measured of every head, beside what the figures of rows and received weights tell.
struct Measured {
    bool weights = false;  // weights were in memory: reach, distances, relative density
    bool sorted = false;   // and sorted: the keys that cover most of a row's weight
    bool topMass = false;  // the weight on the largest keys
    bool density = false;  // the share of keys above the threshold
    bool spectra = false;  // spectra, flow, geometry, similarity
    uint32_t topKeys = 0;  // of each row, kept; 0: none
    bool keptRows = false; // the figures of each row
};

struct FlowOfHead {
    analysis::FlowMask mask;
    double keptMass = 0; // mean over rows, before rows are renormalised
    analysis::RowsOfHead overRows;
    double reach = 0;
};

// One head of one batch entry (of one sequence, where the batch is ragged).
struct InspectedHead {
    uint32_t batch = 0, head = 0;
    uint32_t queries = 0, keys = 0;
    int64_t shift = 0;               // query i stands at key i + shift
    analysis::HeadMeasures measures; // as far as Inspection::measured says
    analysis::HeadClass headClass = analysis::HeadClass::sparse;
    SpectrumOfHead spectrum;
    std::vector<FlowOfHead> flows;
    std::optional<analysis::Geometry> geometry; // where queries and keys are known
    analysis::PooledWeights weights;            // for pictures; empty where none are asked for
    // [query, Measured::topKeys]
    std::vector<int32_t> topKeys;
    std::vector<float> topWeights;
};

// A head over the batch: means of the measures of each entry in which rows are ordinary.
struct HeadSummary {
    uint32_t head = 0;
    analysis::HeadClass headClass = analysis::HeadClass::sparse; // of `figures`
    analysis::ClassFigures figures;
    double entropy = 0, effectiveRange = 0, effectiveKeys = 0, largest = 0, distance = 0, signedDistance = 0, firstToken = 0, squares = 0;
    double reach = 0, density = 0, relativeDensity = 0, mutualInformation = 0, topMass = 0, keysForMass = 0;
    uint64_t rows = 0, empty = 0, notFinite = 0; // over the batch
    std::optional<analysis::SeedFigures> seed;   // where asked for
};

struct HeadSimilarity {
    uint32_t batch = 0;
    uint64_t rowStride = 1;                 // every so many-th row was compared
    analysis::Matrix jensenShannon, cosine; // [head, head]
};

struct Inspection {
    std::string source; // "w.npy" or "q.npy, k.npy"
    // What computed the weights; empty where they were given.
    std::string device, kernel, fallbackReason;
    bool ragged = false;   // batch entries are sequences
    std::string batchName; // what a batch entry is: "batch", "sequence", or as given
    std::string withheld;  // why no weights were taken; empty: they were
    Measured measured;
    bool visibleFromWeights = false;                      // hidden pairs are those with a weight of 0
    uint32_t batch = 0, heads = 0, queries = 0, keys = 0; // of the arrays; ragged: the longest sequences
    analysis::MeasureOptions options;
    analysis::ClassThresholds thresholds;
    std::vector<std::string> tokens;        // of the first keys; may be empty
    std::vector<InspectedHead> entries;     // [batch][head]
    std::vector<HeadSummary> summaries;     // [head]
    std::vector<HeadSimilarity> similarity; // of each batch entry; empty with one head

    [[nodiscard]] const InspectedHead &entry(uint32_t b, uint32_t h) const { return entries[size_t{b} * heads + h]; }
};

class HeadSource;
struct InspectArguments;

// Measures every head. `cells`: most rows and columns of the pooled weights, 0 for none. Throws Failure.
[[nodiscard]] Inspection inspect(HeadSource &source, const InspectArguments &arguments, std::vector<std::string> tokens, size_t cells);

// What names a key in texts: its token in quotes, or its number.
[[nodiscard]] std::string keyName(const Inspection &inspection, uint64_t key);

} // namespace vkattn::tool
