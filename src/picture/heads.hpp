// What pictures and the page show of heads.
#pragma once

#include "analysis/pooling.hpp"
#include "analysis/spectra/matrix.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vkattn::picture {

// A column of the table of heads.
struct Figure {
    std::string name, meaning; // "entropy", "mean over rows, in nats"
    int digits = 3;            // behind the point
};

// A head where a mask hides more.
struct Flow {
    std::string mask;
    double kept = 0, distance = 0, entropy = 0, reach = 0;
};

struct Head {
    std::string name;  // "layer 2, head 3"
    std::string kind;  // "diagonal", "local", "global" or "sparse"
    int64_t shift = 0; // query i stands at key i + shift
    analysis::PooledWeights weights;
    std::vector<double> figures; // as Heads::figures
    // Each may be empty: mass at each distance, mass received by each key, singular values.
    std::vector<double> distances, received, singularValues;
    bool allSingularValues = true; // false: the leading ones
    std::vector<Flow> flows;
};

// The divergence of each two of `heads`, which index Heads::heads.
struct Likeness {
    std::string name;
    std::vector<size_t> heads;
    analysis::Matrix divergence;
};

struct Heads {
    std::string title;
    std::vector<std::string> facts;  // of the inputs, a sentence each
    std::vector<std::string> tokens; // of the first keys; may be empty
    std::vector<Figure> figures;
    std::vector<Head> heads;
    std::vector<Likeness> likeness;
    size_t inARow = 0; // heads that belong together, as those of a layer; 0: none do
};

// The largest finite weight of all heads; the end of the colour range that they share.
[[nodiscard]] double sharedLargest(const Heads &heads);
[[nodiscard]] double ownLargest(const Head &head);

// The most cells on a side of a head, with which the page of so many heads stays below 5 MB: at most 256.
[[nodiscard]] size_t cellsOnASide(size_t heads, size_t queries, size_t keys);

// "largest of each block of 16 x 16 weights", or empty where each cell is one weight.
[[nodiscard]] std::string poolingText(const analysis::PooledWeights &weights);

} // namespace vkattn::picture
