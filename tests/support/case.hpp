// One attention problem with its data, as tests describe, fill, run and check it.
#pragma once

#include "support/seed.hpp"
#include "vkattn/runtime.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace vkattn::test {

// How a tensor lies in memory. Every style fits every tensor.
enum class Style {
    packed,     // [batch, head, token, dim]
    tokenMajor, // [batch, token, head, dim]
    padded,     // rows and heads odd numbers of elements apart, starting at an odd offset
    dimMajor,   // [batch, head, dim, token]: neighbouring dims lie far apart
    reversed,   // tokens run backwards through memory: a negative stride
};

enum class Data {
    normal,  // N(0, 1)
    needle,  // one key dominates every row; V encodes the key's number
    equal,   // all logits equal: the output is the mean of the visible V
    extreme, // logits up to +-1e4 (f32) or +-6e4 (f16)
};

struct Case {
    std::string name;
    uint32_t batch = 2, heads = 2, kvHeads = 2, queryTokens = 17, keyTokens = 19, headDim = 16, valueDim = 16;
    vkattn_dtype q = VKATTN_F32, k = VKATTN_F32, v = VKATTN_F32, out = VKATTN_F32, biasType = VKATTN_F32, weightsType = VKATTN_F32;
    Style qStyle = Style::packed, kStyle = Style::packed, vStyle = Style::packed, outStyle = Style::packed, weightsStyle = Style::packed;
    bool causal = false, topLeft = false, window = false;
    int32_t left = -1, right = -1;
    std::optional<float> scale;
    float softcap = 0;
    bool lse = false, weights = false, lengths = false, hostileLengths = false;
    // Extents of mask and bias that are 1 (broadcast): bit d for dimension d.
    std::optional<uint32_t> maskBroadcast, biasBroadcast;
    float biasHidden = 0.2f;           // share of -infinity
    std::optional<float> biasConstant; // every finite bias has this value in half of the rows
    Data data = Data::normal;
    uint32_t needle = 0; // Data::needle: which key
    bool poison = true;  // NaN and infinity in K and V wherever no row may see them
};

// A tensor in host memory with canaries around and between its elements.
class HostTensor {
  public:
    void make(const vkattn_layout &layout, uint64_t bytes, unsigned char fill);
    [[nodiscard]] unsigned char *data() { return memory_.data() + canary; }
    [[nodiscard]] const unsigned char *data() const { return memory_.data() + canary; }
    [[nodiscard]] uint64_t bytes() const { return memory_.size() - 2 * canary; }
    [[nodiscard]] float get(uint32_t b, uint32_t h, uint32_t t, uint32_t d) const;
    void set(uint32_t b, uint32_t h, uint32_t t, uint32_t d, float value); // bool8: 0 or not
    void fillRandomly(Random &random);                                     // every byte: what an output holds before
    [[nodiscard]] std::string damage(const HostTensor &before) const;      // empty: every byte that is no element is as before
    vkattn_layout layout{};

  private:
    static constexpr uint64_t canary = 64;
    [[nodiscard]] uint64_t byteOf(uint32_t b, uint32_t h, uint32_t t, uint32_t d) const;
    std::vector<unsigned char> memory_;
};

struct Instance {
    Case c;
    vkattn_problem problem{};
    HostTensor q, k, v, out, lse, weights, mask, bias;
    std::vector<uint32_t> lengths;
    std::vector<vkattn_operand_memory> operands;

    // Visible by the rules of docs/numerics.md, written here once more: not the library's code.
    [[nodiscard]] bool visible(uint32_t b, uint32_t h, uint32_t i, uint32_t j) const;
    [[nodiscard]] uint32_t keyLength(uint32_t b) const { return c.lengths ? std::min(lengths[b], c.keyTokens) : c.keyTokens; }
    void collectOperands();
};

[[nodiscard]] std::unique_ptr<Instance> makeInstance(const Case &c, Random &random);

// Runs on the runtime, which must not fall back, and checks the result and the canaries. Empty: all is right.
[[nodiscard]] std::string runAndCheck(Runtime &runtime, Instance &instance, vkattn_verify_report *report = nullptr);

// The case matrix: every option, pairs of options, odd sizes, needle data, extremes. `full` adds all pairs.
[[nodiscard]] std::vector<Case> caseMatrix(Random &random, bool full);

} // namespace vkattn::test
