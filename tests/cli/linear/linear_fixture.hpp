// `vkattn linear` on arrays of a test, compared with the formulas in double.
#pragma once

#include "cli/harness.hpp"

#include <map>

class LinearTest : public CliTest {
  protected:
    std::mt19937_64 random{testSeed()};
    std::map<std::string, Array> arrays; // by option without dashes
    std::string rule = "linear", features = "elu1";
    bool causal = false;
    double scale = 0; // 0: 1/sqrt(dim)
    // Arrays whose gradients are written, by option without dashes.
    [[nodiscard]] std::vector<std::string> differentiated() const;
    Arguments where = {"--device", "cpu"};

    // Draws an array, times `spread`, and writes NAME.npy.
    void given(const std::string &name, const std::vector<size_t> &shape, double spread = 1, const NpyOptions &options = {});
    // q, k and v of [heads, tokens, dim] and what the rule needs beside them.
    void givenAll(size_t heads, size_t tokens, size_t dim, size_t valueDim);
    // "linear --q q.npy ... --out o.npy --rule ...", where, and what follows.
    [[nodiscard]] Arguments command(const Arguments &more = {}) const;
    // Runs with --verify, and compares every element with the formulas.
    Outcome check(const Arguments &options = {}, const std::string &descr = "<f4");

    // "linear --q q.npy ... --rule ... --dout dout.npy --dq dq.npy ...", where, and what follows. Draws dout.
    [[nodiscard]] Arguments gradientCommand(const Arguments &more = {});
    // Runs with --verify, and compares every gradient with central differences of the formulas.
    Outcome checkGradients(const Arguments &options = {});

  private:
    [[nodiscard]] Arguments optionsOfScan() const;
    // The sum of dout times what the formulas have.
    [[nodiscard]] double loss() const;
    [[nodiscard]] std::vector<double> expectedOfHead(size_t head) const;
    [[nodiscard]] std::vector<double> map(const double *x, size_t head) const;
};
