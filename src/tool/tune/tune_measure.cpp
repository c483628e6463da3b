#include "tool/tune/tune_measure.hpp"

#include "tool/arrays/memory.hpp"
#include "tool/device.hpp"

#include <vkattn/cpu.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>

namespace vkattn::tool {
using namespace program;
namespace {

constexpr double enoughMilliseconds = 20; // of one measurement
// seconds, for a software device to compile and run a tile for the first time
constexpr double patience = 3;
constexpr double worthIt = 1.03; // how much faster than the built-in row a tile has to be
constexpr size_t mostFinalists = 4;
constexpr uint32_t fewestRounds = 3, mostRounds = 9;

// Compiling keeps one thread busy: where the machine has other work too, the processor's time is
// less than the clock's.
class Stopwatch {
  public:
    [[nodiscard]] double seconds() const {
        const double passed = std::chrono::duration<double>(TuneClock::now() - start_).count();
        return std::min(passed, static_cast<double>(std::clock() - startProcessor_) / CLOCKS_PER_SEC);
    }

  private:
    TuneClock::time_point start_ = TuneClock::now();
    std::clock_t startProcessor_ = std::clock();
};

// Splitmix64 (Steele et al. 2014), evenly from -1.73 to 1.73: variance 1, so that scores are spread
// as in a model.
void fill(const HostBuffer &buffer, uint64_t seed) {
    for (size_t at = 0; at + sizeof(float) <= buffer.bytes(); at += sizeof(float)) {
        uint64_t z = seed += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        const float value = static_cast<float>(static_cast<int32_t>((z ^ (z >> 31)) >> 32)) * (1.7320508f / 2147483648.0f);
        std::memcpy(buffer.data() + at, &value, sizeof value);
    }
}

struct Sizes {
    uint32_t heads, queries, keys, dim;
};
constexpr uint32_t kvHeads = 8;

struct TuneProblem {
    vkattn_problem problem{};
    std::vector<HostBuffer> buffers; // q, k, v, out
    std::vector<vkattn_operand_memory> operands;

    TuneProblem(vkattn_kernel kernel, const Sizes &s, uint32_t flags) {
        const vkattn_layout q = packed(VKATTN_F32, 1, s.heads, s.queries, s.dim), k = packed(VKATTN_F32, 1, kvHeads, s.keys, s.dim);
        problem = vkattn::problem(q, k, k, q);
        problem.kernel = kernel;
        problem.flags = flags;
        for (const vkattn_role role : {VKATTN_Q, VKATTN_K, VKATTN_V, VKATTN_OUT}) {
            buffers.emplace_back(static_cast<size_t>(vkattnOperandBytes(&problem, role)));
            fill(buffers.back(), 1 + static_cast<uint64_t>(role) * 1000);
            operands.push_back({role, buffers.back().data(), buffers.back().bytes()});
        }
    }
    [[nodiscard]] double flops() const {
        return 4.0 * problem.q.extent[1] * problem.q.extent[2] * problem.k.extent[2] * problem.q.extent[3];
    }
    [[nodiscard]] std::string text() const {
        const vkattn_layout &q = problem.q;
        std::string text = "1x" + std::to_string(q.extent[1]);
        if (q.extent[1] != kvHeads) text.append("/").append(std::to_string(kvHeads));
        for (const uint32_t tokens : {q.extent[2], problem.k.extent[2]}) text.append("x").append(std::to_string(tokens));
        return text.append(" D").append(std::to_string(q.extent[3])).append(" f32");
    }
};

// One row of tiles, or the built-in ones, on a device of its own.
struct Trial {
    size_t result = 0; // index in the report
    std::unique_ptr<Runtime> runtime;
    std::vector<std::vector<double>> samples; // of each problem, milliseconds

    [[nodiscard]] double milliseconds() const {
        double sum = 0;
        for (std::vector<double> values : samples) {
            std::sort(values.begin(), values.end());
            const size_t middle = values.size() / 2;
            sum += values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
        }
        return sum;
    }
};

class Measurer {
  public:
    Measurer(const DeviceInfo &device, const TuneCase &of, TuneClock::time_point deadline,
             const std::function<void(const std::string &)> &progress)
        : device_(device), start_(TuneClock::now()), deadline_(deadline), progress_(progress),
          software_(device.caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU) {
        report_.of = of;
    }

    TuneReport measure() {
        if (!findProblems()) return std::move(report_);
        tryCandidates();
        runFinal();
        choose();
        return std::move(report_);
    }

  private:
    [[nodiscard]] std::unique_ptr<Runtime> open(const std::string &tuning) const {
        RuntimeOptions options;
        options.device = std::to_string(device_.index);
        options.allowFallback = false;
        options.tuning = tuning;
        return program::openRuntime(options, "");
    }
    [[nodiscard]] static std::string fileText(const TuneCase &of, const TuneTile &tile) {
        return "vkattn-tuning 1\n" + rowText(of, tile) + "\n";
    }
    // What the planner says; empty where the kernel can compute the problem so.
    [[nodiscard]] std::string refusal(const vkattn_problem &problem, const std::string &tuning, vkattn_explanation &plan) const {
        vkattn_diagnostic why{};
        return vkattn::explain(device_.caps, problem, plan, planOptions(0, tuning), &why) == VKATTN_OK ? "" : why.message;
    }

    // Milliseconds; below 0 with the reason where it does not run.
    static double run(Runtime &runtime, TuneProblem &problem, uint32_t repeat, std::string &why) {
        const RunResult result = runtime.run(problem.problem, problem.operands, {.repeat = repeat});
        if (result.status == VKATTN_OK) return std::max(result.milliseconds, 1e-6);
        why = result.message;
        return -1;
    }
    // The same after outputs were spoiled, checked at some rows.
    static double runChecked(Runtime &runtime, TuneProblem &problem, std::string &why) {
        std::memset(problem.buffers.back().data(), 0xff, problem.buffers.back().bytes());
        const double milliseconds = run(runtime, problem, 1, why);
        if (milliseconds < 0) return -1;
        vkattn_verify_options options{};
        options.structSize = sizeof options;
        options.rows = 4; // and the edges
        options.seed = 1;
        vkattn_verify_report report{};
        vkattn_diagnostic diagnostic{};
        if (vkattnCpuVerify(&problem.problem, problem.operands.data(), static_cast<uint32_t>(problem.operands.size()), &options, &report,
                            &diagnostic) != VKATTN_OK)
            why = std::string("cannot verify: ") + diagnostic.message;
        else if (report.passed == 0)
            why = "wrong result: error " + std::to_string(report.worstError) + " at query " + std::to_string(report.worstIndex[2]);
        return why.empty() ? milliseconds : -1;
    }

    [[nodiscard]] uint32_t repeats(size_t problem) const { return repeats_[problem]; }

    // Sizes problems for the built-in row to take long enough, and measures it. False where it
    // cannot run them.
    bool findProblems() {
        const bool decode = report_.of.kernel == VKATTN_KERNEL_DECODE;
        Trial builtIn;
        const uint64_t mostBytes = software_ ? 64u << 20 : 256u << 20;
        for (const uint32_t group : decode ? std::vector<uint32_t>{1, 4} : std::vector<uint32_t>{1}) {
            double milliseconds = 0;
            for (uint32_t tokens = decode ? 2048 : 256;; tokens *= 2) {
                const Sizes sizes = {kvHeads * group, decode ? 1 : tokens, tokens, report_.of.maxDim};
                TuneProblem problem(report_.of.kernel, sizes, 0);
                vkattn_explanation plan{};
                if (report_.skipped = refusal(problem.problem, "", plan); !report_.skipped.empty()) return false;
                progress_("sizing " + problem.text());
                if (!builtIn.runtime) builtIn.runtime = open("");
                std::string why;
                const Stopwatch start;
                if (runChecked(*builtIn.runtime, problem, why) < 0)
                    throw Failure("the built-in tiles, " + report_.of.text() + ": " + why, ExitStatus::verificationFailed);
                const double first = start.seconds();
                if (milliseconds = run(*builtIn.runtime, problem, 1, why); milliseconds < 0)
                    throw Failure("the built-in tiles, " + report_.of.text() + ": " + why, ExitStatus::deviceUnusable);
                const uint64_t bytes = problem.buffers[0].bytes() + problem.buffers[1].bytes();
                const bool enough = milliseconds >= enoughMilliseconds || bytes * 4 > mostBytes;
                if (report_.results.empty()) report_.results.push_back({.compileSeconds = std::max(first - milliseconds * 1e-3, 0.0)});
                if (!enough) continue;
                describe(plan, problem);
                problems_.push_back(std::move(problem));
                break;
            }
            repeats_.push_back(static_cast<uint32_t>(std::clamp(enoughMilliseconds / milliseconds, 1.0, 64.0)));
            builtIn.samples.push_back({milliseconds});
        }
        trials_.push_back(std::move(builtIn));
        return true;
    }
    void describe(const vkattn_explanation &plan, const TuneProblem &problem) {
        report_.builtIn = std::string(plan.form) + ", " + std::to_string(plan.rowsPerWorkgroup) + " rows a workgroup, " +
                          std::to_string(plan.keysPerStep) + " keys a step";
        report_.problems += (report_.problems.empty() ? "" : " and ") + problem.text();
        report_.flops += problem.flops();
    }

    // Compiles, checks and times once; the reason where that does not work.
    std::string screen(Trial &trial, const TuneTile &tile, TuneResult &result) {
        vkattn_explanation plan{};
        const std::string tuning = fileText(report_.of, tile);
        std::string why = refusal(problems_[0].problem, tuning, plan);
        if (!why.empty()) return why;
        trial.runtime = open(tuning);
        for (size_t n = 0; n < problems_.size(); n++) {
            const Stopwatch start;
            if (runChecked(*trial.runtime, problems_[n], why) < 0) return why;
            const double first = start.seconds();
            if (software_ && first > patience) {
                char text[64];
                std::snprintf(text, sizeof text, "%.1f s to compile and run once, over %.0f s", first, patience);
                return text;
            }
            const double milliseconds = run(*trial.runtime, problems_[n], repeats(n), why);
            if (milliseconds < 0) return why;
            if (n == 0) result.compileSeconds = std::max(first - milliseconds * 1e-3, 0.0);
            trial.samples.push_back({milliseconds});
        }
        return "";
    }

    // Software drivers may compile a tile for a minute, and nothing can stop them: what lighter
    // tiles took says which to leave out.
    struct Compiled {
        // The heaviest that was quick, the lightest that was not.
        uint32_t weight = 0, tooSlow = UINT32_MAX;
        double seconds = 0;
        [[nodiscard]] bool leaveOut(uint32_t other) const {
            // A guess, and so a generous one.
            return other >= tooSlow || (weight > 0 && seconds * other / weight > 3 * patience);
        }
    };
    void lightestFirst(std::vector<TuneTile> &tiles) const {
        size_t front = 0;
        for (const uint32_t source : {0u, 1u, 2u}) {
            auto lightest = tiles.end();
            for (auto tile = tiles.begin(); tile != tiles.end(); ++tile)
                if (tile->source == source && (lightest == tiles.end() || weight(*tile) < weight(*lightest))) lightest = tile;
            if (lightest != tiles.end()) std::rotate(tiles.begin() + static_cast<ptrdiff_t>(front++), lightest, lightest + 1);
        }
    }
    [[nodiscard]] uint32_t weight(const TuneTile &tile) const { return tile.weight(report_.of.maxDim); }

    void tryCandidates() {
        std::vector<TuneTile> tiles = tuneCandidates(device_.caps, report_.of);
        if (software_) lightestFirst(tiles);
        const auto screenUntil = start_ + (deadline_ - start_) * 2 / 3;
        Compiled compiled[3]; // by source
        for (size_t n = 0; n < tiles.size(); n++) {
            if (TuneClock::now() >= screenUntil) {
                report_.untried = tiles.size() - n;
                return;
            }
            const TuneTile &tile = tiles[n];
            Compiled &known = compiled[tile.source];
            if (software_ && known.leaveOut(weight(tile))) {
                report_.tooSlow++;
                continue;
            }
            progress_("candidate " + std::to_string(n + 1) + " of " + std::to_string(tiles.size()));
            TuneResult result{.tile = tile};
            Trial trial;
            const Stopwatch start;
            try {
                result.discarded = screen(trial, tile, result);
            } catch (const Failure &failure) {
                result.discarded = failure.what();
            }
            if (!result.discarded.empty() && start.seconds() > patience)
                known.tooSlow = std::min(known.tooSlow, weight(tile));
            else if (result.discarded.empty() && weight(tile) > known.weight)
                known.weight = weight(tile), known.seconds = result.compileSeconds;
            trial.result = report_.results.size();
            if (result.discarded.empty()) {
                result.milliseconds = trial.milliseconds();
                result.samples = 1;
                keep(std::move(trial));
            }
            report_.results.push_back(std::move(result));
        }
    }
    // The built-in row stays first; of the others the fastest do.
    void keep(Trial trial) {
        const auto at = std::find_if(trials_.begin() + 1, trials_.end(),
                                     [&](const Trial &other) { return trial.milliseconds() < other.milliseconds(); });
        trials_.insert(at, std::move(trial));
        if (trials_.size() > 1 + mostFinalists) trials_.pop_back();
    }

    // By turns, so that whatever else the machine does meets all of them.
    void runFinal() {
        for (uint32_t round = 0; round < mostRounds && (round < fewestRounds || TuneClock::now() < deadline_); round++)
            for (Trial &trial : trials_) {
                TuneResult &result = report_.results[trial.result];
                if (!result.discarded.empty()) continue;
                progress_("round " + std::to_string(round + 1) + " of the " + std::to_string(trials_.size()) + " best");
                for (size_t n = 0; n < problems_.size() && result.discarded.empty(); n++) {
                    // What was not measured by turns does not count.
                    if (round == 0) trial.samples[n].clear();
                    const double milliseconds = run(*trial.runtime, problems_[n], repeats(n), result.discarded);
                    if (milliseconds >= 0) trial.samples[n].push_back(milliseconds);
                }
            }
        if (!report_.results[0].discarded.empty())
            throw Failure("the built-in tiles, " + report_.of.text() + ": " + report_.results[0].discarded, ExitStatus::deviceUnusable);
        for (const Trial &trial : trials_) {
            TuneResult &result = report_.results[trial.result];
            if (!result.discarded.empty()) continue;
            result.milliseconds = trial.milliseconds();
            result.samples = static_cast<uint32_t>(trial.samples[0].size());
        }
    }

    // A tile that is to be used for other dims and with hidden keys has to be right there too.
    std::string checkElsewhere(Runtime &runtime) {
        const bool decode = report_.of.kernel == VKATTN_KERNEL_DECODE;
        const uint32_t odd = std::max(report_.of.minDim, report_.of.maxDim - std::min(report_.of.maxDim - 1, 3u));
        std::string why;
        for (const uint32_t dim : {odd, report_.of.maxDim}) {
            TuneProblem problem(report_.of.kernel, {kvHeads * 2, decode ? 2u : 67u, 131, dim}, VKATTN_CAUSAL);
            if (runChecked(runtime, problem, why) < 0) return "head dim " + std::to_string(dim) + ", causal: " + why;
        }
        return "";
    }

    // A busy machine makes medians differ that are of the same tile: it has to win nearly every
    // round, too.
    [[nodiscard]] bool fasterByTurns(const Trial &trial) const {
        const size_t rounds = std::min(trial.samples[0].size(), trials_[0].samples[0].size());
        size_t won = 0;
        for (size_t round = 0; round < rounds; round++) {
            double ours = 0, builtIn = 0;
            for (size_t n = 0; n < problems_.size(); n++) ours += trial.samples[n][round], builtIn += trials_[0].samples[n][round];
            won += ours < builtIn ? 1 : 0;
        }
        return won * 5 >= rounds * 4;
    }

    void choose() {
        std::vector<Trial *> order;
        for (Trial &trial : trials_)
            if (report_.results[trial.result].discarded.empty()) order.push_back(&trial);
        std::sort(order.begin(), order.end(), [&](const Trial *a, const Trial *b) {
            return report_.results[a->result].milliseconds < report_.results[b->result].milliseconds;
        });
        for (Trial *trial : order) {
            TuneResult &result = report_.results[trial->result];
            if (trial->result == 0 || result.milliseconds * worthIt > report_.results[0].milliseconds) break;
            if (!fasterByTurns(*trial)) continue;
            progress_("checking the best");
            result.discarded = checkElsewhere(*trial->runtime);
            if (!result.discarded.empty()) continue;
            result.chosen = true;
            return;
        }
        report_.results[0].chosen = true;
    }

    const DeviceInfo &device_;
    TuneClock::time_point start_, deadline_;
    const std::function<void(const std::string &)> &progress_;
    bool software_;
    TuneReport report_;
    std::vector<TuneProblem> problems_;
    std::vector<uint32_t> repeats_; // runs of each problem in one measurement
    std::vector<Trial> trials_;     // the built-in row's, and the best, fastest first
};

} // namespace

const TuneResult &TuneReport::chosen() const {
    return *std::find_if(results.begin(), results.end(), [](const TuneResult &result) { return result.chosen; });
}

TuneReport measureTiles(const DeviceInfo &device, const TuneCase &of, TuneClock::time_point deadline,
                        const std::function<void(const std::string &)> &progress) {
    return Measurer(device, of, deadline, progress).measure();
}

} // namespace vkattn::tool
