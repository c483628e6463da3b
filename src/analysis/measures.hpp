// What is measured of one head: how its rows spread, and what needs the weights of all pairs.
#pragma once

#include "analysis/rows.hpp"

#include <limits>

namespace vkattn::analysis {

// Over rows. `count` may be less than that of all ordinary rows: a row that sees one key has no normalised
// entropy. All are 0 where no row counts.
struct Spread {
    uint64_t count = 0;
    double mean = 0, deviation = 0; // deviation of these rows, not of a sample: divided by count
    double least = 0, greatest = 0;

    void add(double value);

  private:
    double squares_ = 0; // of distances from the mean (Welford 1962)
};

struct MeasureOptions {
    double reachMass = 0.01;    // of `reach`
    double density = 0.1;       // tau of `density`
    double relativeDensity = 1; // tau of `relativeDensity`: times what a uniform row would give
    uint64_t topKeys = 5;       // of `topMass`
    double coveredMass = 0.9;   // of `keysForMass`
};

// Rows that see nothing, and rows that are not finite, are counted and take no part in the rest.
struct RowsOfHead {
    uint64_t rows = 0, empty = 0, notFinite = 0;
    Spread sum, entropy, largest, distance, diagonal, firstToken, squares, visible, signedDistance, distanceDeviation;
    Spread normalizedEntropy; // entropy / ln(visible), of rows that see at least two keys
    Spread effectiveRange;    // exp(entropy): 1 to visible
    Spread effectiveKeys;     // 1 / squares
    Spread locality;          // neighbourMass / neighbours, of rows that have neighbours
};
[[nodiscard]] RowsOfHead summarize(std::span<const RowMeasures> rows);

// Means over the ordinary rows.
struct PairsOfHead {
    std::vector<double> distanceHistogram; // h(r): mass at |j - i'| = r
    double reach = 0;                      // least r with mass beyond r of at most reachMass
    std::vector<double> received;          // a_j: mass on key j; 0 where there is no ordinary row
    double mutualInformation = 0;          // 0 to ln(keys)
    double density = 0;                    // share of visible keys with p > tau
    double relativeDensity = 0;            // share of visible keys with p > tau / visible
    Spread topMass;                        // mass of the topKeys largest p of a row
    Spread keysForMass;                    // fewest keys that together have coveredMass
};

struct HeadMeasures {
    std::vector<RowMeasures> rows;
    RowsOfHead overRows;
    PairsOfHead pairs;
};
[[nodiscard]] HeadMeasures measureHead(const HeadWeights &head, const MeasureOptions &options = {});

// Entropy of `received` - mean entropy of the rows.
[[nodiscard]] double mutualInformation(std::span<const double> received, double meanEntropy);

// ln(p_ij / a_j): how much more a row has of a key than the rows have on average. -infinity where p is 0.
[[nodiscard]] double pointwiseInformation(double p, double received);

} // namespace vkattn::analysis
