#include "conform/report/inputs.hpp"

#include "program/failure.hpp"

#include "conform/checks/check.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace vkattn::conform {
using namespace program;
namespace {

CheckResult checkOf(const std::string &text, const std::string &source) {
    Check check;
    std::string why;
    if (!parseReplay(text, check, why)) throw Failure("--replay " + source + ": " + why);
    return resultFor(check);
}

bool isFile(const std::string &text) {
    std::error_code error;
    return std::filesystem::is_regular_file(text, error);
}

void addFailuresOf(const std::string &path, std::vector<CheckResult> &checks) {
    const Report report = readReport("--replay", path);
    const size_t before = checks.size();
    for (const DeviceReport &device : report.devices)
        for (const CheckResult &check : device.checks)
            if (isFailure(check.finding.outcome)) {
                checks.push_back(checkOf(check.replay, path + ": " + check.id));
                checks.back().id = check.id;
            }
    if (checks.size() == before)
        throw Failure("--replay " + path + ": the report has no failed check, so there is nothing to run again",
                      ExitStatus::deviceUnusable);
}

} // namespace

Report readReport(const std::string &option, const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    if (std::filesystem::is_directory(path)) throw Failure("cannot read " + option + " " + path + ": it is a directory, expected a report");
    if (!file || !(text << file.rdbuf()))
        throw Failure("cannot read " + option + " " + path + ": " + (file ? "it is empty" : std::strerror(errno)) +
                      ": expected a report that `vkattn conform --json` has written");
    return reportFromJson(text.str(), path);
}

std::vector<CheckResult> readReplays(const std::vector<std::string> &texts) {
    std::vector<CheckResult> checks, unique;
    for (const std::string &text : texts) {
        if (isFile(text))
            addFailuresOf(text, checks);
        else if (text.find(':') == std::string::npos)
            throw Failure("--replay " + text +
                          ": expected SEED:CASE as a report has it, or the file of such a report; there is no such file");
        else
            checks.push_back(checkOf(text, text));
    }
    // Failures of several devices run on each device once.
    for (const CheckResult &check : checks)
        if (std::none_of(unique.begin(), unique.end(), [&](const CheckResult &one) { return one.replay == check.replay; }))
            unique.push_back(check);
    return unique;
}

} // namespace vkattn::conform
