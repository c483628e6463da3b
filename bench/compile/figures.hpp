// The compiler's figures for a pipeline (VK_KHR_pipeline_executable_properties), under names that
// are the same for all drivers.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace vkattn::bench {

// A statistic as the driver gives it.
struct Statistic {
    std::string executable, name, description;
    std::string text;              // the value
    std::optional<uint64_t> whole; // the value, where it is a whole number
};

enum class Figure : uint32_t {
    // Registers of a lane: AMD VGPRs, NVIDIA GPRs, Adreno full registers (of four words), Apple
    // half-words.
    registers,
    scalarRegisters, // AMD SGPRs, Apple uniforms
    halfRegisters,   // Adreno
    spills,          // registers spilled to memory, or stores that do so
    softSpills,      // registers spilled to registers of another kind
    scratchBytes,    // private memory of a lane
    sharedBytes,     // shared memory of a workgroup
    waves,           // subgroups that a SIMD (AMD), multiprocessor (NVIDIA) or core holds at once
    instructions,
    codeBytes,
    matrixInstructions, // counted in the internal representation
    count
};
constexpr size_t figureCount = static_cast<size_t>(Figure::count);
[[nodiscard]] const char *columnName(Figure figure); // name of the column in CSV

class Figures {
  public:
    [[nodiscard]] std::optional<uint64_t> &operator[](Figure figure) { return values_[static_cast<size_t>(figure)]; }
    [[nodiscard]] const std::optional<uint64_t> &operator[](Figure figure) const { return values_[static_cast<size_t>(figure)]; }
    [[nodiscard]] bool spills() const; // whether registers are spilled to memory

  private:
    // A figure without a value is one that the driver does not report.
    std::array<std::optional<uint64_t>, figureCount> values_{};
};

[[nodiscard]] Figures figuresOf(std::span<const Statistic> statistics);

// Instructions of matrix units in a text of assembly: mnemonic -> number.
using MatrixCounts = std::map<std::string, uint64_t>;
[[nodiscard]] MatrixCounts matrixInstructions(std::string_view assembly);
[[nodiscard]] uint64_t total(const MatrixCounts &counts);

} // namespace vkattn::bench
