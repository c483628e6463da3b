// `vkattn conform --compare`: the changes from one report to another.
#include "conform/report/summary.hpp"
#include "program/legible_text.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

namespace vkattn::conform {
using namespace program;
namespace {

constexpr double errorFactor = 2, timingFactor = 1.3;
// Where both errors are below a hundredth of the bound, their factor means nothing.
constexpr double smallRatio = 0.01;

// Differences under a heading. The heading is printed only where there is a difference.
class Section {
  public:
    explicit Section(std::string heading) : heading_(std::move(heading)) {}
    void add(const std::string &line) { lines_.append("  ").append(legibleLine(line)).append("\n"); }
    [[nodiscard]] std::string text() const { return lines_.empty() ? "" : heading_ + "\n" + lines_; }

  private:
    std::string heading_, lines_;
};

struct Pair {
    const DeviceReport *a, *b;
};

// Pairs devices by name and driver, then by name, then those that are left alone on both sides.
struct Pairing {
    std::vector<Pair> pairs;
    std::vector<const DeviceReport *> onlyA, onlyB;

    Pairing(const Report &a, const Report &b) {
        for (const DeviceReport &device : a.devices) onlyA.push_back(&device);
        for (const DeviceReport &device : b.devices) onlyB.push_back(&device);
        take([](const DeviceFacts &x, const DeviceFacts &y) { return x.name == y.name && x.driver == y.driver; });
        take([](const DeviceFacts &x, const DeviceFacts &y) { return x.name == y.name; });
        if (onlyA.size() == 1 && onlyB.size() == 1) take([](const DeviceFacts &, const DeviceFacts &) { return true; });
    }

  private:
    template <class Same> void take(Same same) {
        for (auto left = onlyA.begin(); left != onlyA.end();) {
            const auto right =
                std::find_if(onlyB.begin(), onlyB.end(), [&](const DeviceReport *other) { return same((*left)->facts, other->facts); });
            if (right == onlyB.end()) {
                ++left;
                continue;
            }
            pairs.push_back({*left, *right});
            left = onlyA.erase(left);
            onlyB.erase(right);
        }
    }
};

class Differences {
  public:
    Differences(const DeviceReport &a, const DeviceReport &b) : a_(a), b_(b) {
        compareFacts();
        compareKernels();
        compareChecks();
        compareErrors();
        compareTimings();
    }
    [[nodiscard]] bool worse() const { return worse_; }
    [[nodiscard]] std::string text() const {
        std::string text;
        for (const Section *section : {&facts_, &kernels_, &broken_, &repaired_, &changed_, &only_, &errors_, &timings_})
            text += section->text();
        return text;
    }

  private:
    void compareFacts() {
        const std::vector<FactRow> before = factRows(a_.facts), after = factRows(b_.facts);
        for (size_t n = 0; n < before.size(); n++) addChange(facts_, before[n].label, before[n].value, after[n].value);
        addChange(facts_, "problem", a_.problem, b_.problem);
        worse_ = worse_ || (a_.problem.empty() && !b_.problem.empty());
    }

    static void addChange(Section &section, const std::string &what, const std::string &before, const std::string &after) {
        const auto shown = [](const std::string &value) { return value.empty() ? "none" : value; };
        if (before != after) section.add(what + ": " + shown(before) + " -> " + shown(after));
    }

    void compareKernels() {
        for (const DeviceFacts::Kernel &before : a_.facts.kernels) {
            const DeviceFacts::Kernel *after = factsOfKernel(b_.facts, before.name);
            const bool stays = after != nullptr && after->available;
            if (before.available && !stays) {
                kernels_.add(before.name + ": lost: " + (after == nullptr ? "the second report does not name it" : after->reason));
                worse_ = true;
            } else if (!before.available && stays) {
                kernels_.add(before.name + ": gained; it was not available: " + before.reason);
            } else {
                addChange(kernels_, before.name, before.reason, after == nullptr ? "" : after->reason);
            }
        }
        for (const DeviceFacts::Kernel &after : b_.facts.kernels)
            if (after.available && factsOfKernel(a_.facts, after.name) == nullptr) kernels_.add(after.name + ": gained");
    }

    void compareChecks() {
        std::map<std::string_view, const CheckResult *> before;
        for (const CheckResult &check : a_.checks) before.emplace(check.id, &check);
        uint64_t onlyB = 0;
        for (const CheckResult &after : b_.checks) {
            const auto found = before.find(after.id);
            const CheckResult *was = found == before.end() ? nullptr : found->second;
            if (was == nullptr)
                onlyB++;
            else
                before.erase(found);
            compareCheck(was, after);
        }
        if (!before.empty())
            only_.add(countText(before.size()) + " in the first report only, such as " + std::string(before.begin()->first));
        if (onlyB > 0) only_.add(countText(onlyB) + " in the second report only");
    }

    void compareCheck(const CheckResult *was, const CheckResult &after) {
        const Outcome now = after.finding.outcome;
        const bool failed = was != nullptr && isFailure(was->finding.outcome);
        if (was != nullptr && was->finding.outcome == now) return;
        const std::string line = after.id + ": " + (was == nullptr ? "new" : outcomeName(was->finding.outcome)) + " -> " +
                                 outcomeName(now) + (after.finding.reason.empty() ? "" : ": " + after.finding.reason);
        if (isFailure(now) && !failed) {
            broken_.add(line);
            const std::string replay = replayCommand(b_, after.smallest ? after.smallest->replay : after.replay);
            if (!replay.empty()) broken_.add("  " + replay);
            worse_ = true;
        } else if (failed && now == Outcome::pass) {
            repaired_.add(line);
        } else if (was != nullptr) {
            changed_.add(line);
        }
    }

    void compareErrors() {
        const std::vector<KernelErrors> before = errorsOf(a_);
        for (const KernelErrors &after : errorsOf(b_)) {
            const auto was = std::find_if(before.begin(), before.end(), [&](const KernelErrors &each) {
                return each.kernel == after.kernel && each.dtype == after.dtype;
            });
            if (was == before.end()) continue;
            const double x = comparable(was->errors.worstRatio), y = comparable(after.errors.worstRatio);
            if (x == y || (x < smallRatio && y < smallRatio)) continue;
            const bool grew = y > errorFactor * x, shrank = x > errorFactor * y;
            if (!grew && !shrank) continue;
            errors_.add(after.kernel + " " + after.dtype + ": " + numberText(was->errors.worstRatio) + " -> " +
                        numberText(after.errors.worstRatio) + " of the bound (" + (grew ? after.worstId : was->worstId) + ")");
            worse_ = worse_ || grew;
        }
    }

    static double comparable(double ratio) { return std::isnan(ratio) ? INFINITY : ratio; }

    void compareTimings() {
        using KernelAndShape = std::pair<std::string_view, std::string_view>;
        std::map<KernelAndShape, const Timing *> before;
        for (const Timing &timing : a_.timings) before.emplace(KernelAndShape(timing.kernel, timing.shape), &timing);
        for (const Timing &after : b_.timings) {
            const auto found = before.find(KernelAndShape(after.kernel, after.shape));
            if (found == before.end()) continue;
            const double x = found->second->milliseconds, y = after.milliseconds;
            if (!(x > 0 && y > 0) || std::max(x, y) <= timingFactor * std::min(x, y)) continue;
            timings_.add(after.kernel + ", " + after.shape + ": " + numberText(x) + " -> " + numberText(y) + " ms (" +
                         (y > x ? numberText(y / x) + " times slower)" : numberText(x / y) + " times faster)"));
        }
    }

    const DeviceReport &a_, &b_;
    Section facts_{"facts"}, kernels_{"kernels"}, broken_{"fails now"}, repaired_{"passes now"}, changed_{"other verdicts"},
        only_{"checks of one report only"}, errors_{"worst errors, by more than a factor of 2"},
        timings_{"timings, by more than a factor of 1.3, for information"};
    bool worse_ = false;
};

bool anyKernel(const DeviceReport &device) {
    return std::any_of(device.facts.kernels.begin(), device.facts.kernels.end(), [](const auto &kernel) { return kernel.available; });
}

std::string runDifferences(const Report &a, const Report &b) {
    Section section("runs");
    const auto add = [&](const std::string &what, const std::string &before, const std::string &after) {
        if (before != after) section.add(what + ": " + (before.empty() ? "none" : before) + " -> " + (after.empty() ? "none" : after));
    };
    add("library", a.library, b.library);
    add("shader hash", a.shaderHash, b.shaderHash);
    add("machine", a.machine, b.machine);
    add("extent", a.extent, b.extent);
    add("problem", a.problem, b.problem);
    if (a.seed != b.seed)
        section.add("seed: " + std::to_string(a.seed) + " -> " + std::to_string(b.seed) +
                    ": checks of the same id had other data, so that errors differ somewhat (--seed " + std::to_string(a.seed) +
                    " repeats the first run's data)");
    return section.text();
}

} // namespace

Comparison compareReports(const Report &a, const Report &b, const std::string &nameOfA, const std::string &nameOfB) {
    Comparison comparison;
    const Pairing pairing(a, b);
    std::string text = runDifferences(a, b);
    const auto addDevice = [&](const std::string &name, const std::string &what) {
        text.append("\n").append(legibleLine(name)).append(what);
    };
    for (const Pair &pair : pairing.pairs) {
        const Differences differences(*pair.a, *pair.b);
        comparison.worse = comparison.worse || differences.worse();
        const std::string found = differences.text();
        const std::string &before = pair.a->facts.name, &after = pair.b->facts.name;
        if (!found.empty()) addDevice(before == after ? before : before + " against " + after, "\n" + found);
    }
    for (const DeviceReport *device : pairing.onlyA) {
        addDevice(device->facts.name, ": in the first report only\n");
        comparison.worse = comparison.worse || anyKernel(*device);
    }
    for (const DeviceReport *device : pairing.onlyB) {
        addDevice(device->facts.name, ": in the second report only: " + sentenceOf(tallyOf(*device)) + "\n");
        comparison.worse = comparison.worse || tallyOf(*device).failures() > 0;
    }
    const auto heading = [](const char *which, const std::string &name, const Report &report) {
        return which + legibleLine(name) + ", " + legibleLine(report.started) + ", " + sentenceOf(tallyOf(report)) + "\n";
    };
    comparison.text = heading("first:  ", nameOfA, a) + heading("second: ", nameOfB, b) + "\n" + (text.empty() ? "no differences\n" : text);
    return comparison;
}

} // namespace vkattn::conform
