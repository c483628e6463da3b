// Tensors in host memory, as conform and the tests fill and compare them.
#pragma once

#include "conform/cases/random.hpp"
#include "vkattn/runtime.hpp"
#include "vkattn/traits.hpp"

#include <functional>
#include <string>
#include <vector>

namespace vkattn::conform {

// How a tensor lies in memory. Every style fits every tensor.
enum class Style {
    packed,     // [batch, head, token, dim]
    tokenMajor, // [batch, token, head, dim]
    padded,     // rows and heads odd numbers of elements apart, starting at an odd offset
    dimMajor,   // [batch, head, dim, token]: neighbouring dims lie far apart
    reversed,   // tokens run backwards through memory: a negative stride
};

// Returns a layout of these extents. Types that have scales have neighbouring dims, and rows of whole blocks.
[[nodiscard]] vkattn_layout makeLayout(vkattn_dtype dtype, const uint32_t (&extent)[4], Style style);

// A tensor in host memory with canaries around and between its elements.
class HostTensor {
  public:
    void make(const vkattn_layout &layout, uint64_t bytes, unsigned char fill);
    [[nodiscard]] unsigned char *data() { return memory_.data() + canary; }
    [[nodiscard]] const unsigned char *data() const { return memory_.data() + canary; }
    [[nodiscard]] uint64_t bytes() const { return memory_.size() - 2 * canary; }
    [[nodiscard]] float get(uint32_t b, uint32_t h, uint32_t t, uint32_t d) const;
    // Rounds to the type. A type with scales: the element's block or row is made anew of what was set. bool8: 0 or not.
    void set(uint32_t b, uint32_t h, uint32_t t, uint32_t d, float value);
    // Takes a row of a tensor of the same type and dims, as it is stored.
    struct Row {
        uint32_t b, h, t;
    };
    void copyRow(const Row &row, const HostTensor &from, const Row &fromRow);
    [[nodiscard]] uint32_t getWord(uint32_t b, uint32_t h, uint32_t t, uint32_t d) const; // bits32
    void setWord(uint32_t b, uint32_t h, uint32_t t, uint32_t d, uint32_t word);
    void fillRandomly(Random &random); // every byte: what an output holds before
    // Empty: every byte is as before but for those of elements, or of the elements that `written`
    // names.
    using Elements = std::function<bool(uint32_t, uint32_t, uint32_t, uint32_t)>;
    [[nodiscard]] std::string damage(const HostTensor &before, const Elements &written = {}) const;
    vkattn_layout layout{};

  private:
    static constexpr uint64_t canary = 64;
    [[nodiscard]] uint64_t byteOf(uint32_t b, uint32_t h, uint32_t t, uint32_t d) const;
    std::vector<unsigned char> memory_;
    std::vector<float> elements_; // of a type with scales: what was set, from which a block or row is made anew
};

} // namespace vkattn::conform
