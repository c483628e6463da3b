#include "compile/table.hpp"

#include "failure.hpp"
#include "report/csv.hpp"
#include "text.hpp"

#include <algorithm>
#include <map>

namespace vkattn::bench {
namespace {

constexpr const char *namedColumns[] = {"date", "commit", "device", "driver", "kernel", "shape", "dtype", "head_dim", "options", "shader"};
constexpr size_t namedCount = std::size(namedColumns), fieldCount = namedCount + figureCount + 1;

std::string optionalText(const std::optional<uint64_t> &value) {
    return value ? std::to_string(*value) : std::string();
}

std::string changeText(const CompileRow &before, const CompileRow &now, Figure figure) {
    const auto text = [&](const CompileRow &row) { return row.figures[figure] ? std::to_string(*row.figures[figure]) : std::string("-"); };
    return std::string(columnName(figure)) + " " + text(before) + " -> " + text(now);
}

// Returns the resources that have taken the room of other waves, as far as the driver reports them.
std::string causes(const CompileRow &before, const CompileRow &now) {
    std::vector<std::string> texts;
    for (const Figure figure : {Figure::registers, Figure::sharedBytes})
        if (before.figures[figure] != now.figures[figure]) texts.push_back(changeText(before, now, figure));
    return texts.empty() ? "by neither registers nor shared memory" : join(texts, ", ");
}

bool isMatrixKernel(const CompileRow &row) {
    return row.kernel.find("coopmat") != std::string::npos && row.shader.find("coopmat") != std::string::npos;
}

// Returns whether a figure that is better low has grown by more than another version of a compiler
// may change it.
bool grown(const std::optional<uint64_t> &before, const std::optional<uint64_t> &now) {
    return before && now && *now > *before + std::max<uint64_t>(8, *before / 8);
}

void check(const CompileRow &row, CompileComparison &result) {
    const auto cell = [&](Figure figure) { return optionalText(row.figures[figure]); };
    if (row.headDim <= 128 && row.figures.spills())
        result.failures.push_back(row.name() + ": private memory (spills " + cell(Figure::spills) + ", scratch_bytes " +
                                  cell(Figure::scratchBytes) + "), which head dims up to 128 must not need");
    if (isMatrixKernel(row) && row.figures[Figure::matrixInstructions] == uint64_t{0})
        result.failures.push_back(row.name() + ": no matrix instructions in a kernel that is made for them");
}

void compare(const CompileRow &before, const CompileRow &now, CompileComparison &result) {
    std::vector<std::string> worse;
    const auto figure = [&](const CompileRow &row, Figure which) { return row.figures[which].value_or(0); };
    if (now.headDim > 128 && now.figures.spills() && !before.figures.spills())
        worse.push_back(changeText(before, now, Figure::spills) + ", " + changeText(before, now, Figure::scratchBytes));
    if (now.headDim > 128 && before.figures.spills() && grown(before.figures[Figure::spills], now.figures[Figure::spills]))
        worse.push_back(changeText(before, now, Figure::spills));
    if (figure(before, Figure::matrixInstructions) && !figure(now, Figure::matrixInstructions) && !isMatrixKernel(now))
        worse.push_back(changeText(before, now, Figure::matrixInstructions));
    const bool fewerWaves = now.figures[Figure::waves] && figure(now, Figure::waves) < figure(before, Figure::waves);
    if (!fewerWaves && grown(before.figures[Figure::registers], now.figures[Figure::registers]))
        worse.push_back(changeText(before, now, Figure::registers));
    if (fewerWaves) worse.push_back(changeText(before, now, Figure::waves) + " (" + causes(before, now) + ")");
    if (!worse.empty()) result.failures.push_back(now.name() + ": " + join(worse, "; "));
}

} // namespace

std::string CompileRow::problem() const {
    return shape + " " + dtype + (headDim ? " D" + std::to_string(headDim) : "") + (options.empty() ? "" : " " + options);
}

std::string CompileRow::name() const {
    return kernel + ", " + problem() + ", " + shader;
}

std::string compileCsvHeader() {
    std::vector<std::string> names(std::begin(namedColumns), std::end(namedColumns));
    for (size_t n = 0; n < figureCount; ++n) names.emplace_back(columnName(static_cast<Figure>(n)));
    names.emplace_back("matrix_kinds");
    return csvLine(names);
}

std::string compileCsvRow(const Machine &machine, const CompileRow &row) {
    std::vector<std::string> fields = {machine.date, machine.commit, row.device, row.driver,
                                       row.kernel,   row.shape,      row.dtype,  std::to_string(row.headDim),
                                       row.options,  row.shader};
    for (size_t n = 0; n < figureCount; ++n) fields.push_back(optionalText(row.figures[static_cast<Figure>(n)]));
    fields.push_back(row.matrixKinds);
    return csvLine(fields);
}

std::vector<CompileRow> parseCompileTable(const std::string &source, const std::string &text) {
    std::vector<CompileRow> rows;
    size_t lineNumber = 0;
    for (std::string line : split(text, '\n')) {
        ++lineNumber;
        if (!line.empty() && line.back() == '\r') line.pop_back();
        if (line.empty()) continue;
        const auto wrong = [&](const std::string &what) { throw Failure(source + ", line " + std::to_string(lineNumber) + ": " + what); };
        if (lineNumber == 1) {
            if (line + "\n" != compileCsvHeader()) wrong("it is not the header of --compile-report --csv");
            continue;
        }
        const std::vector<std::string> fields = csvFields(line);
        if (fields.size() != fieldCount) wrong(std::to_string(fields.size()) + " fields, expected " + std::to_string(fieldCount));
        CompileRow row{fields[2], fields[3], fields[4], fields[5], fields[6], 0, fields[8], fields[9], {}, fields.back()};
        if (!parseNumber(fields[7], row.headDim)) wrong("head_dim is '" + fields[7] + "', expected a number");
        for (size_t n = 0; n < figureCount; ++n) {
            const std::string &field = fields[namedCount + n];
            if (field.empty()) continue;
            uint64_t value = 0;
            const auto figure = static_cast<Figure>(n);
            if (!parseNumber(field, value)) wrong(std::string(columnName(figure)) + " is '" + field + "', expected a number");
            row.figures[figure] = value;
        }
        rows.push_back(std::move(row));
    }
    if (rows.empty()) throw Failure(source + " has no rows, expected those of --compile-report --csv");
    return rows;
}

CompileComparison compareCompiled(const std::vector<CompileRow> &before, const std::vector<CompileRow> &now,
                                  const std::vector<std::string> &kernels) {
    CompileComparison result;
    std::map<std::string, const CompileRow *> old, left;
    for (const CompileRow &row : before)
        if (!now.empty() && row.device == now.front().device && std::find(kernels.begin(), kernels.end(), row.kernel) != kernels.end())
            old[row.name()] = &row;
    if (old.empty() && !now.empty()) result.notes.push_back("the table has no rows of " + now.front().device);
    left = old;
    size_t added = 0;
    std::string otherDriver;
    for (const CompileRow &row : now) {
        check(row, result);
        const auto found = old.find(row.name());
        if (found == old.end()) {
            ++added;
            continue;
        }
        if (found->second->driver != row.driver) otherDriver = found->second->driver;
        compare(*found->second, row, result);
        left.erase(row.name());
    }
    if (!otherDriver.empty()) result.notes.push_back("the table is of " + otherDriver + ", this is " + now.front().driver);
    if (added && !old.empty()) result.notes.push_back(std::to_string(added) + " pipelines are not in the table");
    if (!left.empty())
        result.notes.push_back(std::to_string(left.size()) + " pipelines of the table are gone, the first: " + left.begin()->first);
    for (const std::string &kernel : kernels) {
        const auto isOf = [&](const CompileRow &row) { return row.kernel == kernel; };
        const bool was = std::any_of(left.begin(), left.end(), [&](const auto &each) { return isOf(*each.second); });
        if (was && std::none_of(now.begin(), now.end(), isOf))
            result.failures.push_back(kernel + ": compiled before, and now the planner refuses all problems");
    }
    return result;
}

} // namespace vkattn::bench
