#include "tool/lab/lab_command.hpp"

#include "program/files/output_file.hpp"
#include "program/legible_text.hpp"
#include "tool/lab/experiment.hpp"

#include <algorithm>
#include <iostream>
#include <numeric>

namespace vkattn::tool {
using namespace program;
using namespace lab;
namespace {

// Insertions, deletions and replacements that make one word of the other (Levenshtein 1966).
size_t distance(const std::string &a, const std::string &b) {
    std::vector<size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t i = 1; i <= a.size(); ++i) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.size(); ++j) {
            const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
        }
    }
    return row[b.size()];
}

[[noreturn]] void refuseName(const std::string &name) {
    std::string nearest, names;
    size_t least = SIZE_MAX;
    const std::string shown = legibleLine(name, 64);
    for (const Experiment &each : experiments()) {
        names += std::string(each.name) + ", ";
        if (const size_t far = distance(shown, each.name); far < least) least = far, nearest = each.name;
    }
    throw Failure("there is no experiment '" + shown + "'" + (least <= 4 ? " (did you mean " + nearest + "?)" : "") + ": expected one of " +
                  names + "or all: vkattn lab --list says what each asks");
}

std::vector<const Experiment *> chosen(const std::string &name) {
    std::vector<const Experiment *> list;
    for (const Experiment &each : experiments())
        if (name == "all" || name == each.name) list.push_back(&each);
    if (list.empty()) refuseName(name);
    return list;
}

void list() {
    size_t width = 0;
    for (const Experiment &each : experiments()) width = std::max(width, std::string(each.name).size());
    for (const Experiment &each : experiments())
        std::cout << each.name << std::string(width + 2 - std::string(each.name).size(), ' ') << each.question << "\n";
}

// The files of an experiment, made before anything is computed.
class Files {
  public:
    explicit Files(const std::string &folder) : folder_(folder) {}
    void make(const std::string &name) {
        if (!folder_.empty()) targets_.push_back(checkOutputTarget("--out", folder_ + "/" + name, {}, targets_));
    }
    void open() {
        for (const OutputTarget &target : targets_) files_.emplace_back(target);
    }
    void write(const std::string &text) {
        if (folder_.empty()) return;
        files_[written_].write(std::as_bytes(std::span(text)));
        files_[written_++].close();
    }
    void publish() {
        for (size_t n = 0; n < written_; ++n) {
            files_[n].publish();
            std::cout << "  wrote   " << targets_[n].path << "\n";
        }
    }

  private:
    std::string folder_;
    std::vector<OutputTarget> targets_;
    std::vector<OutputFile> files_;
    size_t written_ = 0;
};

void printLines(const char *label, const std::vector<std::string> &lines) {
    for (const std::string &line : lines) {
        std::cout << "  " << label << std::string(8 - std::string(label).size(), ' ') << line << "\n";
        label = "";
    }
}

Files openFiles(const Experiment &experiment, const std::string &folder) {
    Files files(folder);
    files.make(std::string(experiment.name) + ".csv");
    files.make(std::string(experiment.name) + ".svg");
    for (const char *const name : experiment.moreTables) files.make(std::string(experiment.name) + "-" + name + ".csv");
    files.open();
    return files;
}

void perform(const Experiment &experiment, const LabArguments &arguments, Runtime &runtime, Files &files) {
    const uint64_t seed = arguments.seed.value_or(experiment.seed);
    const Findings findings = experiment.run({runtime, seed, experiment.number});
    std::cout << experiment.name << ": " << experiment.question << "\n";
    std::cout << "  seed    " << seed << "; " << findings.sizes << "\n" << findings.table.text("  ");
    printLines("theory", findings.theory);
    printLines("notes", findings.mistakes);
    files.write(findings.table.csv());
    files.write(findings.picture);
    for (const Table &table : findings.more) files.write(table.csv());
    files.publish();
    std::cout.flush();
}

} // namespace

ExitStatus labCommand(const LabArguments &arguments) {
    if (arguments.name.empty()) {
        list();
        return ExitStatus::success;
    }
    const std::vector<const Experiment *> performed = chosen(arguments.name);
    if (!arguments.out.empty())
        if (const std::error_code error = makeFolder(arguments.out))
            throw Failure("cannot make the folder --out " + arguments.out + ": " + error.message() + ": name one that can be written to");
    std::vector<Files> files;
    for (const Experiment *each : performed) files.push_back(openFiles(*each, arguments.out));
    const std::unique_ptr<Runtime> runtime = openRuntime(runtimeOptions(arguments));
    std::cout << "device    " << (runtime->device() ? legibleLine(runtime->device()->name) : "cpu") << "\n";
    if (!runtime->fallbackReason().empty()) std::cout << "fallback  " << legibleLine(runtime->fallbackReason()) << "\n";
    for (size_t n = 0; n < performed.size(); ++n) {
        std::cout << "\n";
        perform(*performed[n], arguments, *runtime, files[n]);
    }
    return ExitStatus::success;
}

} // namespace vkattn::tool
