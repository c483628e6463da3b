#include "compile/figures.hpp"

#include <algorithm>
#include <cctype>

namespace vkattn::bench {
namespace {

constexpr const char *columnNames[] = {"registers",    "scalar_registers", "half_registers",     "spills",
                                       "soft_spills",  "scratch_bytes",    "shared_bytes",       "waves",
                                       "instructions", "code_bytes",       "matrix_instructions"};
static_assert(std::size(columnNames) == figureCount);

// Names of statistics in Mesa 26.2, and in the vendors' own drivers, where case varies.
constexpr struct {
    const char *name;
    Figure figure;
    uint64_t divisor = 1;
} known[] = {
    {"VGPRs", Figure::registers}, // RADV
    {"SGPRs", Figure::scalarRegisters},
    {"Spilled VGPRs", Figure::spills},
    {"Spilled SGPRs", Figure::softSpills},
    {"Scratch size", Figure::scratchBytes},
    {"LDS size", Figure::sharedBytes},
    {"Subgroups per SIMD", Figure::waves},
    {"Instructions", Figure::instructions},
    {"Code size", Figure::codeBytes},
    {"Number of GPRs", Figure::registers}, // NVK
    {"Max warps/SM", Figure::waves},
    {"Instruction count", Figure::instructions},
    {"Spills to memory", Figure::spills},
    {"Spills to reg", Figure::softSpills},
    {"SLM size", Figure::scratchBytes},
    {"Registers used", Figure::registers}, // Turnip
    {"Max Waves Per Core", Figure::waves},
    {"STP Count", Figure::spills},
    {"Half-registers used", Figure::halfRegisters},
    {"GPRs", Figure::registers}, // Honeykrisp (asahi): of 16 bits
    {"Uniforms", Figure::scalarRegisters},
    {"Spills", Figure::spills},
    {"Scratch", Figure::scratchBytes},
    {"Threads", Figure::waves, 32},
    {"Register Count", Figure::registers}, // NVIDIA's own
    {"Binary Size", Figure::codeBytes},
    {"Stack Size", Figure::scratchBytes},
    {"Local Memory Size", Figure::scratchBytes},
    {"Shared Memory Size", Figure::sharedBytes},
    {"numUsedVgprs", Figure::registers}, // AMD's own
    {"numUsedSgprs", Figure::scalarRegisters},
    {"ldsUsageSizeInBytes", Figure::sharedBytes},
    {"scratchMemUsageInBytes", Figure::scratchBytes},
    {"Spill count", Figure::spills}, // ANV
    {"Scratch Memory Size", Figure::scratchBytes},
};

bool isSame(std::string_view a, std::string_view b) {
    const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

bool isMatrixMnemonic(std::string_view word) {
    constexpr std::string_view prefixes[] = {"v_wmma_", "v_swmmac_", "v_mfma_", "v_smfmac_", "hmma", "imma", "qmma", "bmma", "dpas"};
    return std::any_of(std::begin(prefixes), std::end(prefixes), [&](std::string_view prefix) { return word.starts_with(prefix); });
}

} // namespace

const char *columnName(Figure figure) {
    return columnNames[static_cast<size_t>(figure)];
}

bool Figures::spills() const {
    return (*this)[Figure::spills].value_or(0) != 0 || (*this)[Figure::scratchBytes].value_or(0) != 0;
}

Figures figuresOf(std::span<const Statistic> statistics) {
    Figures figures;
    for (const Statistic &statistic : statistics)
        for (const auto &[name, figure, divisor] : known) {
            if (!isSame(statistic.name, name) || !statistic.whole) continue;
            std::optional<uint64_t> &value = figures[figure];
            const uint64_t given = *statistic.whole / divisor;
            // A pipeline of several executables has the sum of their code, and the most of the
            // resources that they take turns in.
            const bool sums = figure == Figure::instructions || figure == Figure::codeBytes || figure == Figure::spills;
            value = !value ? given : sums ? *value + given : figure == Figure::waves ? std::min(*value, given) : std::max(*value, given);
        }
    return figures;
}

MatrixCounts matrixInstructions(std::string_view assembly) {
    MatrixCounts counts;
    std::string word;
    const auto endWord = [&] {
        if (isMatrixMnemonic(word)) ++counts[word];
        word.clear();
    };
    for (const char c : assembly) {
        const auto byte = static_cast<unsigned char>(c);
        if (std::isalnum(byte) || c == '_' || c == '.')
            word += static_cast<char>(std::tolower(byte));
        else
            endWord();
    }
    endWord();
    return counts;
}

uint64_t total(const MatrixCounts &counts) {
    uint64_t sum = 0;
    for (const auto &[name, count] : counts) sum += count;
    return sum;
}

} // namespace vkattn::bench
