#include "report/csv.hpp"

#include "failure.hpp"
#include "report/output_file.hpp"
#include "text.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace vkattn::bench {
namespace {

constexpr const char *columns = "date,commit,processor,cores,device,driver,shape,kernel,dtype,repeats,timer,median_ms,min_ms,gflops,gbs,"
                                "share_of_peak,bound,workspace_bytes,verified_error,compile_s";

std::string quoted(const std::string &field) {
    if (field.find_first_of(",\"\n\r") == std::string::npos) return field;
    std::string text(1, '"');
    for (const char c : field) {
        if (c == '"') text += '"';
        text += c == '\n' || c == '\r' ? ' ' : c;
    }
    text += '"';
    return text;
}

std::vector<std::string> lines(const std::string &text) {
    std::vector<std::string> all = split(text, '\n');
    for (std::string &line : all)
        if (!line.empty() && line.back() == '\r') line.pop_back();
    return all;
}

std::string significant(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", value);
    return text;
}

} // namespace

std::string csvHeader() {
    return std::string(columns) + "\n";
}

std::string csvRow(const Machine &machine, const Measurement &m) {
    const bool tuned = !machine.tuning.empty() && machine.tuning != "built-in";
    const std::vector<std::string> fields = {
        machine.date,
        machine.commit,
        machine.processor,
        std::to_string(machine.cores),
        m.device,
        // A row with other tiles must not be compared with others.
        m.driver + (tuned ? ", tuning " + machine.tuning : std::string()),
        m.shape.name,
        m.kernel,
        m.shape.types->name,
        std::to_string(m.repeats),
        m.deviceTimestamps ? "device" : "wall",
        significant(m.medianMs),
        significant(m.minMs),
        significant(m.gflops()),
        significant(m.gbs()),
        m.share ? decimals(m.share->share, 4) : "",
        m.share ? (m.share->byMemory ? "read" : "fma") : "",
        std::to_string(m.workspaceBytes),
        m.verified ? significant(m.verified->maxError) : "",
        decimals(m.compileSeconds, 3),
    };
    return csvLine(fields);
}

std::string csvLine(const std::vector<std::string> &fields) {
    std::string text;
    for (const std::string &field : fields) text.append(&field == fields.data() ? "" : ",").append(quoted(field));
    text += '\n';
    return text;
}

std::vector<std::string> csvFields(const std::string &line) {
    std::vector<std::string> fields(1);
    bool inQuotes = false;
    for (size_t at = 0; at < line.size(); ++at) {
        const char c = line[at];
        const bool doubled = inQuotes && c == '"' && at + 1 < line.size() && line[at + 1] == '"';
        if (doubled) ++at; // a quote within quotes
        if (c == '"' && !doubled) {
            inQuotes = !inQuotes;
        } else if (c == ',' && !inQuotes) {
            fields.emplace_back();
        } else {
            fields.back() += c;
        }
    }
    return fields;
}

CsvFile::CsvFile(std::string path, std::string header) : path_(std::move(path)) {
    checkWritable("--csv", path_);
    const std::string text = std::filesystem::exists(path_) ? readWhole("--csv", path_) : std::string();
    if (text.empty()) {
        before_ = std::move(header);
        return;
    }
    header.pop_back(); // the line end
    if (lines(text).front() != header)
        throw Failure("cannot append to --csv " + path_ + ": its first line is not the header of these rows (" + header +
                      "): choose another file");
    if (text.back() != '\n') before_.push_back('\n');
}

void CsvFile::append(const std::string &row) const {
    appendText("--csv", path_, before_ + row);
    before_.clear();
}

std::vector<RivalRow> parseRivals(const std::string &source, const std::string &text) {
    std::vector<RivalRow> rows;
    const auto wrong = [&](size_t line, const std::string &what) {
        throw Failure(source + ", line " + std::to_string(line) + ": " + what);
    };
    size_t shapeAt = 0, rivalAt = 0, medianAt = 0, deviceAt = 0, count = 0, lineNumber = 0;
    for (const std::string &line : lines(text)) {
        ++lineNumber;
        if (line.empty() || line.front() == '#') continue;
        const std::vector<std::string> fields = csvFields(line);
        if (count == 0) {
            const auto column = [&](const char *name) {
                return static_cast<size_t>(std::find(fields.begin(), fields.end(), name) - fields.begin());
            };
            count = fields.size();
            shapeAt = column("shape"), rivalAt = column("rival"), medianAt = column("median_ms"), deviceAt = column("device");
            if (shapeAt == count || rivalAt == count || medianAt == count)
                wrong(lineNumber, "expected a header with the columns shape,rival,median_ms[,device], not '" + line + "'");
            continue;
        }
        if (fields.size() != count)
            wrong(lineNumber, std::to_string(fields.size()) + " fields, expected " + std::to_string(count) + " as in the header");
        RivalRow row{fields[shapeAt], fields[rivalAt], deviceAt < count ? fields[deviceAt] : "", 0};
        if (row.shape.empty() || row.rival.empty()) wrong(lineNumber, "shape and rival must not be empty");
        if (!parseNumber(fields[medianAt], row.medianMs) || !std::isfinite(row.medianMs) || row.medianMs <= 0)
            wrong(lineNumber, "median_ms is '" + fields[medianAt] + "', expected milliseconds above 0");
        rows.push_back(std::move(row));
    }
    if (rows.empty())
        throw Failure(source + " has no rows, expected a header shape,rival,median_ms[,device] and a row for each measurement");
    return rows;
}

std::vector<RivalRow> readRivals(const std::string &option, const std::string &path) {
    return parseRivals(option + " " + path, readWhole(option, path));
}

} // namespace vkattn::bench
