// Bytes as a description with its data, for device_fuzz.cpp. Each byte has one meaning wherever it
// stands, so that a changed byte changes one thing. Missing bytes are 0, the plainest choice. Most
// descriptions are valid.
#pragma once

#include "vkattn/runtime.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vkattn::test {

// The layout of one tensor in memory.
struct LayoutGenes {
    uint8_t order; // of the dims, from the slowest to the fastest
    uint8_t gap;   // elements between the dims; from 240 on large ones
    // For inputs. Bit d: dim d has stride 0. Bit 4 + d: dim d has stride 1, so that rows overlap.
    uint8_t zero;
    uint8_t negative; // bit d: dim d runs backwards
    uint8_t offset;
};

// Rules of visibility.
struct RuleGenes {
    uint8_t arrays;             // bit 0 global tokens, 1 prefix lengths, 2 dilations; two bits each: kinds of offsets
    uint8_t dilation;           // below 64: none
    uint8_t grid, rows, planes; // the rule, and how many of the keys
    uint8_t sizes, shift;
    uint8_t blocks; // the kind
    uint8_t blockQueries, blockKeys;
    uint8_t blockOptions; // bit 0 of batch entries, 1 of heads, 2 full; above: entries, or random blocks
};

struct Genes {
    uint8_t room, kernel, shape; // which limits; which kernel; dims and types
    uint8_t batch, kvHeads, group, queries, keys;
    uint8_t flags, windowLeft, windowRight, scale, softcap;
    uint8_t overlays;           // which of softcap, bias, slopes, masks and documents together
    uint8_t tensors;            // bit 0 lse, 1 weights, 2 row statistics, 3 dropout, 4 weights after dropout, 5 scores, 6 and 7 their stage
    uint8_t arrays;             // bit 0 key lengths, 1 cu_seqlens (ragged), 2 sinks, 3 pages, 4 those in CSR
    uint8_t sequences;          // ragged batches; of pages their tokens
    uint8_t maxSeqQ, maxSeqK;   // of pages the latter their number
    uint8_t biasOnes, maskOnes; // bit d: extent 1
    uint8_t types;              // of the weights and scores
    uint8_t slices;
    uint8_t data, seed;
    uint8_t sharedValues;  // odd: k and v are views of one buffer
    LayoutGenes layout[9]; // by role; the scores lie as the weights
    RuleGenes rules;
    uint8_t segments; // two bits: further segments of K and V; bit 2 prior, 3 masks with fewer keys
    uint8_t segmentKeys;
};
static_assert(alignof(Genes) == 1);

class Description {
  public:
    // The genes, then bytes for the arrays.
    Description(const uint8_t *bytes, size_t size);

    vkattn_problem problem{};
    Genes genes{};
    [[nodiscard]] bool small() const; // few enough elements and pairs for milliseconds
    // Fills the operands of a valid problem.
    void allocate();
    [[nodiscard]] const std::vector<vkattn_operand_memory> &operands() const { return operands_; }
    // The contents of the outputs, in order of their roles.
    [[nodiscard]] std::vector<std::vector<unsigned char>> outputs() const;
    void restoreOutputs(); // as allocate() left them
    // Empty: no byte of an output changed since allocate() but those of elements that a row writes.
    [[nodiscard]] std::string damage() const;
    [[nodiscard]] std::string text() const; // for whoever looks at a finding

  private:
    struct Span {
        uint32_t first, count;
    };
    void describe();
    void describeRules(uint32_t batch, uint32_t queries, uint32_t keys);
    // Returns the keys of all segments. `keys`: of the first.
    [[nodiscard]] uint32_t describeSegments(uint32_t keys);
    // Returns where a sequence lies, by the rule of problem.h. `role` has the cu_seqlens.
    [[nodiscard]] Span spanOf(vkattn_role role, uint32_t sequence, uint32_t total, uint32_t most) const;
    [[nodiscard]] bool written(vkattn_role role, const uint32_t (&index)[4]) const;
    void fillRows(vkattn_role role, const vkattn_layout &l, unsigned char *memory);
    void fillTensor(vkattn_role role, const vkattn_layout &layout);
    void fillArray(vkattn_role role);
    [[nodiscard]] unsigned char *memoryOf(vkattn_role role, size_t bytes, size_t slack);
    [[nodiscard]] float value(vkattn_role role, uint32_t token);
    [[nodiscard]] float nonFinite();
    [[nodiscard]] uint32_t random();
    [[nodiscard]] const vkattn_layout &layout(vkattn_role role) const;

    std::vector<uint8_t> rest_; // bytes after the genes
    size_t at_ = 0;
    uint32_t state_ = 0; // of random()
    std::unique_ptr<unsigned char[]> memory_[VKATTN_ROLE_LIMIT];
    size_t bytes_[VKATTN_ROLE_LIMIT] = {};
    std::vector<unsigned char> before_[VKATTN_ROLE_LIMIT]; // outputs
    std::vector<vkattn_operand_memory> operands_;
};

} // namespace vkattn::test
