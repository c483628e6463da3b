// `vkattn rotary` on arrays of a test, compared with the formula in double.
#pragma once

#include "cli/harness.hpp"

#include <optional>

// What the reference knows of a rotation.
struct Rotation {
    bool interleaved = false;
    size_t dims = 0; // 0: all
    double base = 10000;
    double start = 0;
    std::vector<double> positions; // by batch entry and token; empty: from the start on
    std::optional<Array> cos, sin; // [position, dims / 2]; otherwise by the base
};

class RotaryTest : public CliTest {
  protected:
    std::mt19937_64 random{testSeed()};
    Array x;
    Rotation rotation;
    Arguments where = {"--device", "cpu"};

    // Writes x.npy.
    void given(const std::vector<size_t> &shape, const NpyOptions &options = {});
    // Writes p.npy and tells the reference.
    void givenPositions(const std::vector<size_t> &shape, const std::vector<double> &positions,
                        const NpyOptions &options = {.descr = "<i4"});
    // Writes c.npy and s.npy and tells the reference.
    void givenTables(Array cos, Array sin, const NpyOptions &options = {});

    // "rotary --x x.npy --out o.npy", where, and what follows.
    [[nodiscard]] Arguments command(const Arguments &more = {}) const;
    // Runs with --verify, and compares shape, dtype and every element with the reference.
    Outcome check(const Arguments &options = {}, const std::string &descr = "<f4");
    // Runs, and returns the bytes of the output.
    [[nodiscard]] std::string bytesOf(const Arguments &options) const;

  private:
    [[nodiscard]] double angle(size_t row, size_t pair, size_t dims) const;
    void expectRotated(const ReadArray &got, size_t row, size_t position) const;
};
