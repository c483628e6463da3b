// `vkattn layer` on arrays of a test, compared with the formulas in double.
#pragma once

#include "cli/run/run_fixture.hpp"
#include "layer_reference.hpp"

struct LayerShape {
    std::vector<size_t> x = {2, 5, 8}; // [token, model] or [batch, token, model]
    size_t heads = 2, kvHeads = 2, headDim = 4, valueDim = 4, out = 8;
    std::vector<size_t> context; // likewise; empty: none
    bool biases = true;
};

class LayerTest : public RunTest {
  protected:
    LayerReference layer; // its attention is RunTest's `reference`

    // Draws x.npy, context.npy and every parameter in the folder p, and writes them.
    void given(const LayerShape &shape, const NpyOptions &tokens = {}, const NpyOptions &parameters = {});
    // Writes a parameter of its name again, as it stands in `layer`.
    void write(const std::string &parameter, Array &array, const NpyOptions &options = {}) const;
    void normed(NormPlace place, const NpyOptions &parameters = {});

    // "layer --x x.npy --params p --heads H --out o.npy", what `layer` says, where, and what
    // follows.
    [[nodiscard]] Arguments command(const Arguments &more = {}) const;
    // Runs with --verify, --weights and --lse, and compares everything that is written with the
    // reference.
    Outcome check(const Arguments &options = {}, const std::string &descr = "<f4");
    // Runs, and reads the result.
    [[nodiscard]] ReadArray resultOf(const Arguments &options = {}) const;

  private:
    size_t rank_ = 3; // of x.npy
    static void expectNear(const ReadArray &got, const Measured &expected, const std::vector<size_t> &shape, const std::string &descr);
};
