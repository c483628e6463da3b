// Singular values and eigenvalues of one matrix.
#pragma once

#include "analysis/spectra/matrix.hpp"

#include <complex>

namespace vkattn::analysis {

inline constexpr double doubleUnit = 0x1p-52, floatUnit = 0x1p-24;

struct SingularValues {
    std::vector<double> values; // descending
    double condition = 0;       // largest / least; infinite where `singular`
    bool singular = false;      // the least is below its number * 2^-52 * the largest
    size_t rank = 0;            // values above max(rows, columns) * unit * the largest
    double stableRank = 0;      // sum of squares / largest square
    double effectiveRank = 0;   // exp of the entropy of values / their sum (Roy & Vetterli 2007)
};
// Up to so many rows and columns all values are found in seconds.
inline constexpr size_t exactSpectrumLimit = 1024;

// `unit`: the relative error of the matrix' elements.
// What follows from all singular values of a matrix of these extents.
[[nodiscard]] SingularValues describeSingular(std::vector<double> values, size_t rows, size_t columns, double unit = floatUnit);
// Empty values where the matrix is empty or not finite.
[[nodiscard]] SingularValues singularValues(const Matrix &matrix, double unit = floatUnit);

struct SingularVectors {
    std::vector<double> values; // descending
    Matrix left;                // [rows, count]
    Matrix right;               // [columns, count]
};
// All min(rows, columns) of a finite matrix, which is left * diagonal of the values * right^T.
[[nodiscard]] SingularVectors singularVectors(const Matrix &matrix);

// Nothing above the diagonal, or nothing below: as of causal attention of queries and keys of one number.
[[nodiscard]] bool isTriangular(const Matrix &matrix);

struct Eigenvalues {
    std::vector<std::complex<double>> values; // descending by absolute value
    double radius = 0;                        // largest absolute value: 1 where every row sums to 1
    double gap = 0;                           // 1 - second largest absolute value
    bool triangular = false;                  // the values are the diagonal, exactly, as of causal attention
    bool converged = true;
};
// Of a square matrix. Empty values where it is not square, empty, or not finite.
[[nodiscard]] Eigenvalues eigenvalues(const Matrix &matrix);

// The left vector pi = pi A with sum 1, by power iteration from the uniform vector: where walkers along the
// weights end up. Rows that are zero keep their walkers. Of causal attention pi is the first token alone.
struct Stationary {
    std::vector<double> distribution;
    bool converged = true; // the last step moved less than 1e-12 in all
    size_t steps = 0;
};
[[nodiscard]] Stationary stationaryDistribution(const Matrix &matrix, size_t mostSteps = 10000);

} // namespace vkattn::analysis
