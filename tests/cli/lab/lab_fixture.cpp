#include "lab_fixture.hpp"

#include <cmath>
#include <fstream>
#include <sstream>

namespace {

std::vector<std::string> cellsOf(const std::string &line) {
    std::vector<std::string> cells(1);
    bool quoted = false;
    for (const char c : line) {
        if (c == '"')
            quoted = !quoted;
        else if (c == ',' && !quoted)
            cells.emplace_back();
        else
            cells.back() += c;
    }
    return cells;
}

} // namespace

std::string LabTest::contents(const std::string &name) const {
    std::ifstream stream(file(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<CsvRow> LabTest::figures(const std::string &name, const Arguments &more) const {
    Arguments arguments = {"lab", name, "--out", "out", "--device", "cpu"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = tool(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    for (const std::string &word : {name + ": ", std::string("\n  seed    "), std::string("\n  theory  "), std::string("\n  notes   ")})
        EXPECT_NE(outcome.out.find(word), std::string::npos) << word << "\n" << outcome.out;
    const std::string svg = contents("out/" + name + ".svg");
    EXPECT_EQ(svg.rfind("<svg ", 0), 0u);
    EXPECT_EQ(svg.substr(svg.size() - std::min<size_t>(svg.size(), 7)), "</svg>\n");
    for (const char *const bad : {"nan", "inf", "\"-nan"}) EXPECT_EQ(svg.find("\"" + std::string(bad)), std::string::npos) << name;

    return rowsOf("out/" + name + ".csv");
}

std::vector<CsvRow> LabTest::rowsOf(const std::string &name) const {
    std::istringstream lines(contents(name));
    std::string line;
    std::vector<CsvRow> rows;
    std::getline(lines, line);
    const std::vector<std::string> keys = cellsOf(line);
    while (std::getline(lines, line)) {
        const std::vector<std::string> cells = cellsOf(line);
        EXPECT_EQ(cells.size(), keys.size()) << line;
        CsvRow &row = rows.emplace_back();
        for (size_t n = 0; n < std::min(keys.size(), cells.size()); ++n) row[keys[n]] = cells[n];
    }
    return rows;
}

double numberOf(const CsvRow &row, const std::string &key) {
    const auto found = row.find(key);
    if (found == row.end()) {
        ADD_FAILURE() << "no column " << key;
        return NAN;
    }
    return std::strtod(found->second.c_str(), nullptr);
}

void expectFigure(const CsvRow &row, const std::string &key, double expected) {
    const double got = numberOf(row, key);
    if (std::isinf(expected)) {
        EXPECT_EQ(got, expected) << key;
    } else if (expected < 1e-4) {
        EXPECT_NEAR(std::log10(got), std::log10(expected), -0.2 * std::log10(expected)) << key << " " << got;
    } else {
        EXPECT_NEAR(got, expected, 0.2 * expected) << key;
    }
}
