// Result rows as CSV, and rivals' rows. Fields with commas or quotes are quoted as RFC 4180 says.
#pragma once

#include "machine/machine.hpp"
#include "measure/measure.hpp"

#include <optional>
#include <string>
#include <vector>

namespace vkattn::bench {

[[nodiscard]] std::string csvHeader(); // with its line end
[[nodiscard]] std::string csvRow(const Machine &machine, const Measurement &m);
[[nodiscard]] std::string csvLine(const std::vector<std::string> &fields); // with its line end
[[nodiscard]] std::vector<std::string> csvFields(const std::string &line);

// A file of rows that grows. The header is written where the file is new, and each row as it comes,
// so that an interrupted run keeps the rows that it has.
class CsvFile {
  public:
    // Throws Failure where the file is there and has other columns.
    CsvFile(std::string path, std::string header);
    void append(const std::string &row) const;

  private:
    std::string path_;
    // The text that the next row needs in front: the header, or a line end that an interrupted
    // write has left out.
    mutable std::string before_;
};

struct RivalRow {
    std::string shape, rival, device;
    double medianMs = 0;
    [[nodiscard]] std::string label() const { return device.empty() ? rival : rival + ", " + device; }
};
// Parses the columns shape,rival,median_ms[,device], in any order. Other columns are ignored, and #
// starts a comment line. Throws Failure with the line's number.
[[nodiscard]] std::vector<RivalRow> readRivals(const std::string &option, const std::string &path);
// `source` names the file in messages.
[[nodiscard]] std::vector<RivalRow> parseRivals(const std::string &source, const std::string &text);

} // namespace vkattn::bench
