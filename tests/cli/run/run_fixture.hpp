// Runs the tool on random arrays and compares everything that it writes with the reference.
#pragma once

#include "cli/harness.hpp"
#include "reference.hpp"

class RunTest : public CliTest {
  protected:
    std::mt19937_64 random{testSeed()};
    Array q, k, v;
    ReferenceOptions reference;
    Arguments where = {"--device", "cpu"};
    bool wantsWeights = true, wantsScores = false; // of the reference's stage
    double outUnit = 0;                            // relative rounding of a result that is coarser than its file's dtype

    [[nodiscard]] bool chance(unsigned n) { return random() % n == 0; }
    [[nodiscard]] size_t extent(size_t most) { return static_cast<size_t>(1 + random() % most); }

    // Writes the three arrays with one dtype each.
    void given(const std::vector<size_t> &qShape, const std::vector<size_t> &kShape, const std::vector<size_t> &vShape,
               const NpyOptions &qOptions = {}, const NpyOptions &kOptions = {}, const NpyOptions &vOptions = {});
    // Values that were rounded while writing are read back through the same conversion.
    [[nodiscard]] Array rounded(Array array, const NpyOptions &options) const;

    // Each function writes a file for an option and tells the reference.
    void givenBits(const std::vector<size_t> &rows, size_t keys,
                   const NpyOptions &options = {.descr = "<u4"}); // random, bits past the keys too
    void givenAlibi(size_t heads, const std::string &descr = "<f4");
    void givenSinks(size_t heads, const std::string &descr = "<f4"); // some of them -infinity
    void givenOffsets(const std::vector<long> &cuQ, const std::vector<long> &cuK, const std::string &descr = "<i4");
    void givenDocuments(const std::vector<size_t> &qShape, const std::vector<size_t> &kShape, const NpyOptions &options = {.descr = "<i4"});
    // Draws this many sequences in this many tokens, some of which may lie before the first or
    // after the last sequence.
    [[nodiscard]] std::vector<long> randomOffsets(size_t sequences, size_t tokens);

    // The command line that check() runs.
    [[nodiscard]] Arguments command(const Arguments &options) const;
    // Runs, and compares all outputs with the reference.
    Outcome check(const Arguments &options = {}, const std::string &descr = "<f4");
    void compare(const std::string &descr);

  private:
    void expectNear(const ReadArray &got, const Array &expected, const std::vector<size_t> &shape) const;
};
