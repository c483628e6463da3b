// What a check is called, as text and back, and what it covers.
#include "conform/checks/check.hpp"

#include "conform/cases/case_text.hpp"
#include "conform/cases/features.hpp"

#include <algorithm>
#include <charconv>

namespace vkattn::conform {
namespace {

constexpr const char *limitsNames[] = {"full", "weak", "tight", "tiny"};

template <size_t size> std::string listOf(const char *const (&words)[size]) {
    std::string all;
    for (const char *word : words) all.append(all.empty() ? "" : ", ").append(word);
    return all;
}

bool parseSpecial(std::string_view name, std::string_view value, Check &check, std::string &why) {
    if (name == "tiles") {
        check.testLayout = testLayoutOf(value);
        if (check.testLayout) return true;
        why = quoted(value) + " names no tiles: expected";
        for (const TestLayout &each : testLayouts()) why += std::string(" ") + each.name;
        return false;
    }
    for (const Limits limits : {Limits::full, Limits::weak, Limits::tight, Limits::tiny})
        if (value == limitsName(limits)) return check.limits = limits, true;
    why = quoted(value) + " is no room: expected " + listOf(limitsNames);
    return false;
}

} // namespace

const char *limitsName(Limits limits) {
    return limitsNames[static_cast<size_t>(limits)];
}

std::string replayText(const Check &check) {
    const std::string members = caseText(check.c);
    return std::to_string(check.seed) + ":" + check.kind->name +
           (check.testLayout == &testLayouts()[0] ? "" : std::string(",tiles=") + check.testLayout->name) +
           (check.limits == Limits::full ? "" : std::string(",room=") + limitsName(check.limits)) + (members.empty() ? "" : "," + members);
}

bool parseReplay(std::string_view given, Check &check, std::string &why) {
    check = {};
    check.testLayout = &testLayouts()[0];
    const size_t colon = given.find(':');
    const auto [end, error] = std::from_chars(given.data(), given.data() + std::min(colon, given.size()), check.seed);
    if (colon == std::string_view::npos || error != std::errc() || end != given.data() + colon) {
        why = "expected SEED:CASE as a report prints it, like 81234:matrix,kernel=flash,causal";
        return false;
    }
    std::string_view rest = given.substr(colon + 1);
    const auto next = [&] {
        const std::string_view one = rest.substr(0, rest.find(','));
        rest.remove_prefix(std::min(rest.size(), one.size() + 1));
        return one;
    };
    const std::string_view kind = next();
    for (const Kind &each : checkKinds())
        if (kind == each.name) check.kind = &each;
    if (!check.kind) {
        why = quoted(kind) + " is no check: expected one of";
        for (const Kind &each : checkKinds()) why += std::string(" ") + each.name;
        return false;
    }
    std::vector<std::string_view> seen;
    for (bool more = kind.size() + colon + 1 < given.size(); more;) {
        more = rest.find(',') != std::string_view::npos;
        const std::string_view member = next(), name = member.substr(0, member.find('='));
        if (std::find(seen.begin(), seen.end(), name) != seen.end()) {
            why = quoted(name) + " is given twice";
            return false;
        }
        seen.push_back(name);
        const bool special = name == "tiles" || name == "room";
        if (special && name.size() == member.size()) {
            why = quoted(name) + " has no value";
            return false;
        }
        if (check.kind->drawnBySeed() && name != "room" && name != "name") {
            why = std::string(kind) + " draws all but its room from the seed, expected no " + quoted(name);
            return false;
        }
        if (special ? !parseSpecial(name, member.substr(name.size() + 1), check, why) : !parseMember(member, check.c, why)) return false;
    }
    why = whyImpossible(check.c);
    if (why.empty() && check.testLayout->kernel != VKATTN_KERNEL_AUTO && check.testLayout->kernel != check.c.kernel)
        why = std::string("tiles=") + check.testLayout->name + " are those of kernel=" + vkattnKernelName(check.testLayout->kernel) +
              ", and kernel is " + vkattnKernelName(check.c.kernel);
    if (why.empty() && (check.c.sharedHeads || check.c.valuesInKeys) && kind != "matrix" && kind != "repeat")
        why = std::string(kind) + " spoils single keys or computes parts, expected a case without sharedHeads and valuesInKeys";
    return why.empty();
}

std::string checkId(const Check &check) {
    return std::string(check.kind->name) + "/" + vkattnKernelName(check.c.kernel) + "/" + check.testLayout->name + "/" +
           limitsName(check.limits) + "/" + (check.c.name.empty() ? "plain" : check.c.name);
}

CheckResult resultFor(const Check &check) {
    CheckResult result;
    result.id = checkId(check);
    result.kind = check.kind->name;
    result.kernel = vkattnKernelName(check.c.kernel);
    result.testLayout = check.testLayout->name;
    result.limits = limitsName(check.limits);
    result.dtype = dtypeNameOf(check.c.out);
    result.features = featuresOf(check);
    result.replay = replayText(check);
    return result;
}

std::vector<std::string> featuresOf(const Check &check) {
    const std::string_view kind = check.kind->name;
    std::vector<std::string> found;
    const auto has = [&](const char *feature, bool present) {
        if (present) found.emplace_back(feature);
    };
    for (const Feature &feature : features())
        if (feature.name) has(feature.name, feature.isOn(check.c) || (kind == "needles" && feature.name == kind));
    has("hidden NaN", kind == "hidden");
    has("visible NaN", kind == "nonfinite");
    has("same bits", kind == "repeat" || kind == "split");
    if (check.kind->subject == Subject::operation) found = {"operations"};
    if (check.kind->subject == Subject::layer) found = {"layers"};
    if (found.empty()) found.emplace_back("plain");
    has("chunks", makeChunks(check.limits));
    has("weak limits", areMinimum(check.limits));
    return found;
}

} // namespace vkattn::conform
