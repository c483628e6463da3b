// `vkattn inspect` on arrays of a test, against figures taken in plain loops from the reference's scores.
#pragma once

#include "cli/run/run_fixture.hpp"

#include <nlohmann/json.hpp>

class InspectTest : public RunTest {
  protected:
    // Draws q.npy and k.npy.
    void givenVectors(const std::vector<size_t> &qShape, const std::vector<size_t> &kShape, const NpyOptions &options = {});

    // "inspect --q q.npy --k k.npy --stats s.npy --received r.npy --top 3 --top-keys tk.npy --top-weights tw.npy", where,
    // and what follows.
    [[nodiscard]] Arguments inspection(const Arguments &more = {}) const;
    // Runs, and compares every number of the files.
    Outcome checkInspection(const Arguments &options = {});
    // The same of weights alone, which hide what is 0.
    Outcome checkWeights(const Array &weights, const Arguments &options = {}, const NpyOptions &file = {});

    [[nodiscard]] nlohmann::json jsonOf(Arguments arguments) const;

  private:
    // What one row should have: weights over keys, hidden where below 0.
    struct Expected {
        Expected(size_t rowCount, size_t keyCount, size_t pairs);
        std::vector<double> rows, received, weights; // weights: p of each row, [row, key]
        std::vector<double> topKeys, topWeights;     // [row, 3]
    };
    static void addRow(const std::vector<double> &p, double position, Expected &expected, size_t row);
    void compareFiles(const Expected &expected, const std::vector<size_t> &rowShape, const std::vector<size_t> &keyShape,
                      size_t keys) const;
};
