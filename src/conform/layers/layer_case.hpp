// Layers whole with their data, drawn, and their formulas (vkattn/layer.h, vkattn/latent_layer.h)
// apart from every operation of the library.
#pragma once

#include "conform/cases/random.hpp"
#include "conform/layers/bounded.hpp"
#include "vkattn/list.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace vkattn::conform {

// The memory of a role: its layout in any strides, and its elements, densely packed; every element
// is a number that the type has.
struct LayerArray {
    vkattn_layout layout{};
    std::vector<float> values;
};

class LayerCase {
  public:
    LayerCase() = default;
    LayerCase(const LayerCase &) = delete; // the layer points at its options
    LayerCase &operator=(const LayerCase &) = delete;
    virtual ~LayerCase() = default;

    // Appends the layer to the list, on new tensors of the Runtime that hold the case's data. `y`
    // is then the tensor that the layer writes.
    [[nodiscard]] virtual vkattn_result addTo(Runtime &runtime, OperationList &list, DeviceTensor &y, std::string *why) = 0;
    // Returns the rows of y, one batch entry after the other.
    [[nodiscard]] virtual BoundedRows output() const = 0;
    [[nodiscard]] virtual std::string text() const = 0;

    std::map<vkattn_role, LayerArray> arrays; // inputs

  protected:
    [[nodiscard]] bool has(vkattn_role role) const { return arrays.count(role) != 0; }
    // NULL: absent.
    [[nodiscard]] const std::vector<float> *valuesOf(vkattn_role role) const;
    // Rows of an input, with their type's numbers.
    [[nodiscard]] BoundedRows rowsOf(vkattn_role role, uint32_t batch) const;
    // Tables of a rotary embedding, both of the layout.
    void makeTables(const vkattn_layout &layout);
    [[nodiscard]] std::string arraysText() const;
};

// Every element is drawn from N(0, scale^2), and rounded to the layout's type.
void drawValues(Random &random, LayerArray &array, const vkattn_layout &layout, float scale = 1);
// Returns a tensor with the elements; no tensor, with the reason in *why, where that fails.
[[nodiscard]] DeviceTensor tensorOf(Runtime &runtime, const LayerArray &array, std::string *why = nullptr);
// Returns a tensor with the words, as device arrays hold them; no tensor where that fails.
[[nodiscard]] DeviceTensor tensorOf(Runtime &runtime, const std::vector<uint32_t> &values, std::string *why = nullptr);
// Returns the elements, densely packed.
[[nodiscard]] vkattn_result valuesOf(const DeviceTensor &tensor, std::vector<float> &values, std::string *why = nullptr);

// Compares an output with the case's formulas. Returns what is wrong first; empty: nothing.
[[nodiscard]] std::string judge(const LayerCase &layer, const std::vector<float> &y);

// What comes of a layer on a Runtime.
struct LayerOutcome {
    std::vector<StepCheck> steps;
    RunResult result;
    std::string wrong; // what is wrong first, with the layer's text; empty: nothing
};
// Computes the layer step by step, each compared with the oracle on the inputs that it had; compares
// the output with the layer's formulas; and computes the layer as one list, which must leave the
// same bits.
[[nodiscard]] LayerOutcome computeAndJudge(Runtime &runtime, LayerCase &layer);

// `all` and `packed` are of f32, whose bounds are narrow, and have several tokens.
enum class MultiHeadParts {
    any,
    all,    // a context, every bias, a post-norm with gamma and beta, and the residual
    packed, // one matrix for Q, K and V, and a rotary embedding
    tall,   // over 64 tokens
};

// Multi-head attention whole.
struct MultiHeadCase final : LayerCase {
    vkattn_layer layer{};
    vkattn_problem options{};
    uint32_t kvHeads = 1, dim = 1, valueDim = 1;
    // With tables in `arrays`: VKATTN_POSITIONS by batch entry and token, or VKATTN_STARTS by batch
    // entry; both empty: layer.start.
    std::vector<uint32_t> positions, starts;
    std::vector<uint32_t> keyLengths; // by batch entry; empty: all keys
    DeviceTensor weights;             // that the list writes to which the layer was added last

    void draw(Random &random, vkattn_role role, const vkattn_layout &layout, float scale = 1);
    [[nodiscard]] vkattn_layout &layout(vkattn_role role);
    // Sets the layer's operands, on new tensors with the case's data.
    [[nodiscard]] vkattn_result operandsOn(Runtime &runtime, std::vector<ListOperand> &operands, DeviceTensor &y, std::string *why);
    [[nodiscard]] vkattn_result addTo(Runtime &runtime, OperationList &list, DeviceTensor &y, std::string *why) override;
    [[nodiscard]] BoundedRows output() const override;
    [[nodiscard]] std::string text() const override;

  private:
    void drawRotary(Random &random);
    void drawOptions(Random &random, MultiHeadParts parts);
    // Rows of heads of `dim`, turned by their positions.
    [[nodiscard]] BoundedRows turned(BoundedRows rows, uint32_t batch) const;
    friend std::unique_ptr<MultiHeadCase> drawMultiHead(Random &random, MultiHeadParts parts);
};
[[nodiscard]] std::unique_ptr<MultiHeadCase> drawMultiHead(Random &random, MultiHeadParts parts = MultiHeadParts::any);
// One batch entry of f32, dense; no bias, no norm.
[[nodiscard]] std::unique_ptr<MultiHeadCase> plainMultiHead(Random &random, uint32_t heads, uint32_t dim, uint32_t tokens);

// Multi-head latent attention whole: the naive formulas, whichever form computes.
struct LatentCase final : LayerCase {
    uint32_t batch = 1, tokens = 1, model = 1, queryLatent = 0, latent = 1, out = 1, cacheTokens = 0, past = 0;
    uint32_t heads = 1, nope = 1, rope = 2, value = 1;
    vkattn_latent_form form = VKATTN_LATENT_AUTO;
    vkattn_rotary_pairs pairs = VKATTN_PAIRS_INTERLEAVED;
    vkattn_dtype stored = VKATTN_F32;
    bool residual = false, causal = true;
    vkattn_layout y{};

    // With the sizes set: dense arrays of f32.
    void fill(Random &random);
    // On tensors with the case's data.
    [[nodiscard]] LatentLayerOf on(Runtime &runtime, std::string *why) const;
    [[nodiscard]] vkattn_result addTo(Runtime &runtime, OperationList &list, DeviceTensor &y, std::string *why) override;
    [[nodiscard]] BoundedRows output() const override;
    [[nodiscard]] std::string text() const override;

  private:
    void fill(Random &random, const std::function<vkattn_layout(uint32_t, uint32_t, uint32_t)> &layoutOf);
    [[nodiscard]] BoundedRow attended(const BoundedRow &queries, uint32_t token, uint32_t head, const BoundedRows &kept) const;
    friend std::unique_ptr<LatentCase> drawLatent(Random &random, bool cached);
};
// `cached`: with tokens in a cache, which half of the others have, and with the narrow bounds of
// f32.
[[nodiscard]] std::unique_ptr<LatentCase> drawLatent(Random &random, bool cached = false);

} // namespace vkattn::conform
