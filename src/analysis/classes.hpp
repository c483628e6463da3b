// Kinds of heads, told apart by thresholds (docs/analysis.md).
#pragma once

#include "analysis/measures.hpp"

namespace vkattn::analysis {

enum class HeadClass { diagonal, local, global, sparse };
[[nodiscard]] const char *headClassName(HeadClass headClass);

struct ClassThresholds {
    double diagonal = 0.3, locality = 0.2, normalizedEntropy = 0.8;
};

// What decides; means over rows.
struct ClassFigures {
    double diagonal = 0, locality = 0, normalizedEntropy = 0;
};
[[nodiscard]] ClassFigures classFigures(const RowsOfHead &rows);

// Asked in this order: diagonal, local and global where the figure is above its threshold; sparse otherwise.
[[nodiscard]] HeadClass classify(const ClassFigures &figures, const ClassThresholds &thresholds = {});

// The classes as notes that ignore masks have them, for comparison: of the mean of the batch's weights, whose
// rows are not normalised, with -sum A ln(A + 1e-8), its threshold a share of ln(keys), the mean of the two
// neighbouring diagonals, and the share of all pairs above 0.1. Causal heads look less local and less global
// than they are, and heads drift to `global` as the batch grows.
struct SeedFigures {
    double diagonal = 0, locality = 0, entropy = 0, density = 0;
    HeadClass headClass = HeadClass::sparse;
};
// Takes one head, from each batch entry; diagonals are those of j = i. Entries of other extents than the first
// count as far as they reach.
class SeedBatch {
  public:
    void add(const HeadWeights &head);
    [[nodiscard]] SeedFigures figures(const ClassThresholds &thresholds = {}) const;

  private:
    Matrix sum_;
    size_t count_ = 0;
};

} // namespace vkattn::analysis
