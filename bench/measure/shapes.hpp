// What is measured: named attention problems, and how much work each one is.
#pragma once

#include <vkattn/vkattn.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vkattn::bench {

// Which element types Q and output, and K and V, have.
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
    uint32_t window = 0;  // keys a query sees, itself included; 0 = no window
    bool quick = false;   // part of --group quick
    uint32_t swept = 0;   // in a sweep: the tokens that this shape was set to
    std::string family{}; // in a sweep: the name without the tokens; otherwise `name`

    [[nodiscard]] vkattn_problem problem(vkattn_kernel kernel) const;
    // "1x8x4096x4096 D64", heads as 32/8 where they are grouped
    [[nodiscard]] std::string sizeText() const;
    [[nodiscard]] std::string optionsText() const; // "causal window=256", or empty

    // The work, by the conventions of README.md.
    // (query, key) pairs that are not hidden, over batch and heads
    [[nodiscard]] double visiblePairs() const;
    [[nodiscard]] double flops() const;           // 4 * headDim for each of them
    [[nodiscard]] uint64_t bytes() const;         // Q, K, V and output, each once
    [[nodiscard]] uint64_t keyValueBytes() const; // K and V alone
};

[[nodiscard]] const std::vector<Shape> &shapeTable();
[[nodiscard]] std::vector<std::string> groupNames(); // with "quick" and "all"

// Each throws Failure, with the names that there are, where one is unknown.
// Also NAME@TOKENS, as a sweep names its rows.
[[nodiscard]] Shape shapeNamed(const std::string &name);
[[nodiscard]] std::vector<Shape> shapesOfGroup(const std::string &group);
// heads=8,kv=8,q=4096,k=4096,d=64,type=f16kv,causal
[[nodiscard]] Shape customShape(const std::string &text);

// The shape at another sequence length: queries and keys where they are as many, otherwise keys
// alone. Named NAME@TOKENS.
[[nodiscard]] Shape withTokens(const Shape &shape, uint32_t tokens);

} // namespace vkattn::bench
