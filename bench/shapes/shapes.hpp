// The shapes to measure: named attention problems, and the work of each.
#pragma once

#include "shapes/rules.hpp"

#include <vkattn/vkattn.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vkattn::bench {

// The element types of Q and output, and of K and V.
struct ElementTypes {
    const char *name;
    vkattn_dtype queries, keys;
};
[[nodiscard]] std::span<const ElementTypes> elementTypes();

struct Shape {
    std::string name, group, standsFor;
    uint32_t batch = 1, heads = 1, kvHeads = 1, queries = 1, keys = 1, headDim = 64;
    const ElementTypes *types = nullptr;
    bool causal = false;  // bottom-right: the last query sees the last key
    uint32_t window = 0;  // keys that a query sees, its own included; 0 = no window
    bool quick = false;   // whether the shape is part of --group quick
    uint32_t swept = 0;   // in a sweep: the tokens that this shape was set to
    std::string family{}; // in a sweep: the name without the tokens; otherwise `name`
    // V is the first so many dims of K (VKATTN_VALUES_IN_KEYS); 0: V has memory of its own
    uint32_t valuesInKeys = 0;
    Rule rule{}; // needs as many queries as keys, not causal, no window
    // K and V lie in pages of so many tokens, which divide the keys, in any order; 0: one after the other
    uint32_t pageTokens = 0;

    [[nodiscard]] uint32_t valueDim() const { return valuesInKeys ? valuesInKeys : headDim; }
    [[nodiscard]] vkattn_problem problem(vkattn_kernel kernel) const;
    // Returns a text such as "1x8x4096x4096 D64", with heads as 32/8 where they are grouped.
    [[nodiscard]] std::string sizeText() const;
    [[nodiscard]] std::string optionsText() const; // "causal window=256", a rule, or empty

    // The work, by the conventions of README.md.
    // (query, key) pairs that are not hidden, over batch and heads
    [[nodiscard]] double visiblePairs() const;
    // 2 * (headDim + valueDim) for each visible pair
    [[nodiscard]] double flops() const;
    [[nodiscard]] uint64_t bytes() const;         // Q, K, V and output, each once
    [[nodiscard]] uint64_t keyValueBytes() const; // K and V alone
};

[[nodiscard]] const std::vector<Shape> &shapeTable();
[[nodiscard]] std::vector<std::string> groupNames(); // among them "quick" and "all"

// These functions throw Failure, with the names that there are, where a name is unknown. They also
// take NAME@TOKENS, the name of a row in a sweep.
[[nodiscard]] Shape shapeNamed(const std::string &name);
[[nodiscard]] std::vector<Shape> shapesOfGroup(const std::string &group);
// A custom shape is a text such as heads=8,kv=8,q=4096,k=4096,d=64,type=f16kv,causal.
[[nodiscard]] Shape customShape(const std::string &text);

// Returns the shape at another sequence length: queries and keys where they are as many, otherwise
// keys alone. The name becomes NAME@TOKENS.
[[nodiscard]] Shape withTokens(const Shape &shape, uint32_t tokens);

} // namespace vkattn::bench
