#include "conform_inputs.hpp"

#include "failure.hpp"

#include "conform/check.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace vkattn::tool {
namespace {

conform::CheckResult checkOf(const std::string &text, const std::string &source) {
    conform::Check check;
    std::string why;
    if (!conform::parseReplay(text, check, why)) throw Failure("--replay " + source + ": " + why);
    return conform::resultFor(check);
}

bool isFile(const std::string &text) {
    std::error_code error;
    return std::filesystem::is_regular_file(text, error);
}

void addFailuresOf(const std::string &path, std::vector<conform::CheckResult> &checks) {
    const Report report = readReport("--replay", path);
    const size_t before = checks.size();
    for (const DeviceReport &device : report.devices)
        for (const conform::CheckResult &check : device.checks)
            if (conform::isFailure(check.outcome.verdict)) {
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

std::vector<conform::CheckResult> readReplays(const std::vector<std::string> &texts) {
    std::vector<conform::CheckResult> checks, unique;
    for (const std::string &text : texts) {
        if (isFile(text))
            addFailuresOf(text, checks);
        else if (text.find(':') == std::string::npos)
            throw Failure("--replay " + text +
                          ": expected SEED:CASE as a report has it, or the file of such a report; there is no such file");
        else
            checks.push_back(checkOf(text, text));
    }
    // Failures of several devices are run on each device once.
    for (const conform::CheckResult &check : checks)
        if (std::none_of(unique.begin(), unique.end(), [&](const conform::CheckResult &one) { return one.replay == check.replay; }))
            unique.push_back(check);
    return unique;
}

} // namespace vkattn::tool
