// Runs `vkattn lab`, and reads what it writes.
#pragma once

#include "../harness.hpp"

#include <map>
#include <string>
#include <vector>

// Rows of a CSV by the words of its first line.
using CsvRow = std::map<std::string, std::string>;

class LabTest : public CliTest {
  protected:
    // The figures of an experiment on the CPU, from out/NAME.csv; the picture and the standard output are
    // looked at too.
    [[nodiscard]] std::vector<CsvRow> figures(const std::string &name, const Arguments &more = {}) const;
    [[nodiscard]] std::vector<CsvRow> rowsOf(const std::string &name) const; // of a CSV
    [[nodiscard]] std::string contents(const std::string &name) const;
};

[[nodiscard]] double numberOf(const CsvRow &row, const std::string &key);
// Within 20% of the expected figure; below 1e-4 its logarithm; infinity exactly.
void expectFigure(const CsvRow &row, const std::string &key, double expected);
