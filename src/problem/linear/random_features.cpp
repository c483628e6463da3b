// What a host makes once for linear attention: orthogonal random features, and the named layers.
#include "util/diagnostic.hpp"
#include "util/philox.hpp"
#include "vkattn/linear.h"

#include <cmath>
#include <memory>
#include <new>

using namespace vkattn;

namespace {

constexpr uint32_t maxRows = 4096, maxDims = 2048;

// The random numbers of a head.
struct Normals {
    PhiloxKey key;
    uint32_t head;

    // Writes `dims` normal numbers of a row.
    void draw(uint32_t row, uint32_t purpose, uint32_t dims, double *out) const {
        constexpr double turn = 6.283185307179586;
        for (uint32_t first = 0; first < dims; first += 4) {
            const PhiloxCounter random = philox({{first / 4, row, head, purpose}}, key);
            double four[4];
            for (uint32_t pair = 0; pair < 2; ++pair) { // Box-Muller; u is never 0
                const double u = (random.words[2 * pair] + 0.5) * 0x1p-32, angle = turn * ((random.words[2 * pair + 1] + 0.5) * 0x1p-32);
                const double radius = std::sqrt(-2 * std::log(u));
                four[2 * pair] = radius * std::cos(angle);
                four[2 * pair + 1] = radius * std::sin(angle);
            }
            for (uint32_t n = 0; n < 4 && first + n < dims; ++n) out[first + n] = four[n];
        }
    }
};

double normOf(const double *x, uint32_t dims) {
    double sum = 0;
    for (uint32_t d = 0; d < dims; ++d) sum += x[d] * x[d];
    return std::sqrt(sum);
}

// Makes row n of a block a unit vector that is orthogonal to the rows before it. The second round removes what
// rounding has left by the first.
void orthonormalize(double *block, uint32_t n, uint32_t dims) {
    double *const row = block + size_t{n} * dims;
    for (int round = 0; round < 2; ++round) {
        for (uint32_t before = 0; before < n; ++before) {
            const double *const other = block + size_t{before} * dims;
            double product = 0;
            for (uint32_t d = 0; d < dims; ++d) product += row[d] * other[d];
            for (uint32_t d = 0; d < dims; ++d) row[d] -= product * other[d];
        }
        const double norm = normOf(row, dims);
        for (uint32_t d = 0; d < dims; ++d) row[d] /= norm;
    }
}

constexpr vkattn_linear_preset presets[] = {
    {"linear transformer", "Katharopoulos et al. 2020, arXiv 2006.16236", VKATTN_LINEAR_FEATURES, VKATTN_FEATURES_ELU1, 0, 0,
     "q, k, v as in softmax attention"},
    {"Performer", "Choromanski et al. 2021, arXiv 2009.14794", VKATTN_LINEAR_FEATURES, VKATTN_FEATURES_FAVOR, 0, 0,
     "q, k, v as in softmax attention; omega by vkattnRandomFeatures"},
    {"Performer ReLU", "Choromanski et al. 2021, arXiv 2009.14794", VKATTN_LINEAR_FEATURES, VKATTN_FEATURES_RELU, 0, 0,
     "generalised attention; omega by vkattnRandomFeatures"},
    {"RetNet", "Sun et al. 2023, arXiv 2307.08621", VKATTN_LINEAR_GATED, VKATTN_FEATURES_ELU1, 0, 0,
     "decay: ln(1 - 2^(-5 - h)) of head h, the same for all tokens; q and k rotated"},
    {"lightning attention", "Qin et al. 2024, arXiv 2401.04658", VKATTN_LINEAR_GATED, VKATTN_FEATURES_ELU1, 0, 1,
     "decay: minus the slope of the head, the same for all tokens"},
    {"GLA", "Yang et al. 2023, arXiv 2312.06635", VKATTN_LINEAR_GATED, VKATTN_FEATURES_ELU1, 1, 0, "decay: ln alpha of each key dim"},
    {"Mamba-2", "Dao and Gu 2024, arXiv 2405.21060", VKATTN_LINEAR_GATED, VKATTN_FEATURES_ELU1, 0, 1,
     "q: C, k: B, v: delta x, decay: delta A of the head"},
    {"DeltaNet", "Yang et al. 2024, arXiv 2406.06484", VKATTN_LINEAR_DELTA, VKATTN_FEATURES_ELU1, 0, 0,
     "k of norm 1; writeStrength: beta in 0 to 1"},
    {"Gated DeltaNet", "Yang, Kautz and Hatamizadeh 2024, arXiv 2412.06464", VKATTN_LINEAR_GATED_DELTA, VKATTN_FEATURES_ELU1, 0, 0,
     "q and k of norm 1; decay: ln alpha of the head; writeStrength: beta"},
    {"KDA", "Kimi Team 2025, arXiv 2510.26692", VKATTN_LINEAR_GATED_DELTA, VKATTN_FEATURES_ELU1, 1, 0,
     "q and k of norm 1; decay: ln alpha of each key dim; writeStrength: beta"},
};

} // namespace

extern "C" {

vkattn_result vkattnRandomFeatures(uint32_t m, uint32_t dims, vkattn_feature_lengths lengths, uint64_t seed, uint32_t head, float *omega,
                                   vkattn_diagnostic *why) {
    if (!omega) return fail(why, invalid, "omega is NULL");
    if (m == 0 || m > maxRows) return fail(why, invalid, "m is %u, expected 1 to %u", m, maxRows);
    if (dims == 0 || dims > maxDims) return fail(why, invalid, "dims is %u, expected 1 to %u", dims, maxDims);
    if (lengths != VKATTN_LENGTHS_CHI && lengths != VKATTN_LENGTHS_ROOT)
        return fail(why, invalid, "lengths is %d, expected VKATTN_LENGTHS_CHI or VKATTN_LENGTHS_ROOT", static_cast<int>(lengths));
    const uint32_t blockRows = m < dims ? m : dims;
    const size_t numbers = (size_t{blockRows} + 1) * dims;
    const std::unique_ptr<double[]> room(new (std::nothrow) double[numbers]);
    if (!room) return fail(why, VKATTN_ERROR_OUT_OF_HOST_MEMORY, "out of host memory for %zu bytes of a block of rows", 8 * numbers);
    const Normals normals{{{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}}, head};
    double *const block = room.get(), *const lengthOf = block + size_t{blockRows} * dims;
    for (uint32_t row = 0; row < m; ++row) {
        const uint32_t n = row % dims;
        double *const direction = block + size_t{n} * dims;
        normals.draw(row, 0, dims, direction);
        orthonormalize(block, n, dims);
        double length = std::sqrt(static_cast<double>(dims));
        if (lengths == VKATTN_LENGTHS_CHI) {
            normals.draw(row, 1, dims, lengthOf);
            length = normOf(lengthOf, dims);
        }
        for (uint32_t d = 0; d < dims; ++d) omega[size_t{row} * dims + d] = static_cast<float>(length * direction[d]);
    }
    return VKATTN_OK;
}

const vkattn_linear_preset *vkattnLinearPresets(uint32_t *count) {
    if (count) *count = sizeof presets / sizeof presets[0];
    return presets;
}

} // extern "C"
