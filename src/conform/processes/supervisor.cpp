#include "conform/processes/supervisor.hpp"

#include "conform/checks/cost.hpp"
#include "conform/processes/alone.hpp"
#include "conform/processes/follow.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

namespace vkattn::conform {
namespace {

using Clock = Watch::Clock;
using How = Stopped::How;

// Seconds of shrinking for all failures of a device together.
constexpr double quickShrinkSeconds = 30, normalShrinkSeconds = 120;
// The patience for timing, as a multiple of that for a check: all kernels are timed in one go.
constexpr double timingPatience = 5;
constexpr const char *failedFast = "--fail-fast: a check before it failed";

double secondsSince(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

Clock::duration duration(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

class DeviceRun {
  public:
    DeviceRun(const DeviceTask &task, const RunSettings &settings, const std::string &label, Progress &progress)
        : task_(task), settings_(settings), progress_(progress) {
        report_.facts = task.facts;
        for (const CheckResult &check : settings.replays) plan(check, 1);
        state_.device = label + ": " + task.facts.name;
        shrinkSecondsLeft_ = settings.plan.extent == Extent::quick ? quickShrinkSeconds : normalShrinkSeconds;
        if (const auto &limit = settings.limitSeconds()) deadline_ = start_ + duration(*limit);
    }

    DeviceReport run(WorkerOrders::What what) {
        WorkerOrders orders;
        orders.device = task_.index;
        orders.name = task_.facts.name;
        orders.environment = task_.environment;
        orders.plan = settings_.plan;
        orders.what = what;
        orders.failFast = settings_.failFast;
        orders.time = what == WorkerOrders::What::checks && settings_.plan.kernels.empty();
        report_.problem = task_.problem;
        if (report_.problem.empty())
            while (runOnce(orders)) {
                report_.restarts++;
                orders.first = *current_ + 1;
                if (orders.what == WorkerOrders::What::checks) orders.what = WorkerOrders::What::replays;
            }
        for (CheckResult &check : report_.checks)
            if (check.finding.outcome == Outcome::notRun && check.finding.reason.empty())
                check.finding.reason = whyNotRun_.empty() ? report_.problem : whyNotRun_;
        report_.seconds = secondsSince(start_);
        return std::move(report_);
    }

  private:
    enum class Phase { opening, checking, between, shrinking, measuring };

    // Returns true where another process shall go on after the check current_.
    bool runOnce(WorkerOrders &orders) {
        orders.shrinkSeconds = shrinkSecondsLeft_;
        orders.replays.clear();
        for (const CheckResult &check : report_.checks) orders.replays.push_back(check.replay);
        phase_ = Phase::opening;
        compiledPipelines_ = 0, compiledSeconds_ = 0;
        Stopped stopped;
        {
            ChildProcess child([&](const ChildProcess::Channel &channel) { work(orders, channel); });
            Watch watch;
            watch.onMessage = [this](const Message &message) { return take(message); };
            watch.patience = [this] { return patience(); };
            watch.tick = [this] { show(); };
            watch.deadline = deadline_;
            stopped = follow(child, watch);
        }
        report_.pipelines += compiledPipelines_;
        report_.compileSeconds += compiledSeconds_;
        return answer(stopped);
    }

    [[nodiscard]] double patience() const {
        if (phase_ == Phase::measuring) return settings_.caseTimeoutSeconds * timingPatience;
        const bool ofACheck = phase_ == Phase::checking || phase_ == Phase::shrinking;
        return settings_.caseTimeoutSeconds * (ofACheck ? patienceFor(cost_) : 1);
    }

    bool answer(const Stopped &stopped) {
        switch (stopped.how) {
        case How::end:
            if (settings_.failFast) whyNotRun_ = failedFast;
            return false;
        case How::interrupted:
            whyNotRun_ = "interrupted";
            forgetUnfinished();
            return false;
        case How::late:
            whyNotRun_ = "the time limit of " + secondsText(settings_.timeLimitSeconds.value_or(0)) + " came first";
            forgetUnfinished();
            return false;
        case How::failed:
            report_.problem = stopped.why;
            return false;
        case How::lost:
            shrinkAlone(report_.checks[*current_]);
            break;
        case How::crash:
        case How::hang:
            if (!recordBreak(stopped)) return false;
        }
        return mayRestart(stopped);
    }

    // A soak has no plan that would miss its last check.
    void forgetUnfinished() {
        if (settings_.soakSeconds && phase_ == Phase::checking) report_.checks.pop_back();
    }

    // Returns false where the process stopped outside any check.
    bool recordBreak(const Stopped &stopped) {
        const bool hang = stopped.how == How::hang;
        switch (phase_) {
        case Phase::opening:
            report_.problem = "while the device was opened: " + stopped.why;
            return false;
        case Phase::measuring:
            report_.problem = "while the kernels were timed: " + stopped.why;
            return false;
        case Phase::between:
            report_.problem = "between checks: " + stopped.why;
            return false;
        case Phase::shrinking: {
            CheckResult &check = report_.checks[*current_];
            check.smallest = Smallest{candidate_, (hang ? "hang: " : "crash: ") + stopped.why, 1};
            shrinkSecondsLeft_ -= secondsSince(since_);
            return true;
        }
        case Phase::checking:
            break;
        }
        CheckResult &check = report_.checks[*current_];
        check.finding = {hang ? Outcome::hang : Outcome::crash, stopped.why, {}, 0};
        check.seconds = secondsSince(since_);
        count(*current_);
        if (!stopped.stuck) shrinkAlone(check);
        return true;
    }

    bool mayRestart(const Stopped &stopped) {
        const bool more = settings_.soakSeconds || *current_ + 1 < report_.checks.size();
        if (settings_.failFast) {
            whyNotRun_ = failedFast;
            return false;
        }
        if (!more) return false;
        if (stopped.stuck) {
            report_.problem = "a process that hangs on the device cannot be ended: restart the machine before this device is used again";
            return false;
        }
        if (report_.restarts == maxRestarts) {
            report_.problem =
                "the driver crashed, hung or lost the device " + std::to_string(maxRestarts + 1) + " times: nothing more was tried";
            return false;
        }
        return true;
    }

    void plan(const CheckResult &check, double cost) {
        add(check);
        costs_.push_back(cost);
        state_.costAll += cost;
        state_.all++;
    }

    bool take(const Message &message) {
        switch (message.kind) {
        case Message::Kind::opened:
            return factsFromLine(message.text, report_.facts);
        case Message::Kind::planned: {
            CheckResult check;
            if (message.index != report_.checks.size() || !checkFromLine(message.text, check)) return false;
            plan(check, message.number);
            return true;
        }
        case Message::Kind::begin:
            return takeBegin(message);
        case Message::Kind::result:
            return phase_ == Phase::checking && takeResult(message) && (count(message.index), phase_ = Phase::between, true);
        case Message::Kind::compiled:
            compiledPipelines_ = static_cast<uint32_t>(message.index), compiledSeconds_ = message.number;
            return true;
        case Message::Kind::shrinking:
            if (phase_ == Phase::between) since_ = Clock::now();
            phase_ = Phase::shrinking;
            candidate_ = message.text;
            return current_.has_value();
        case Message::Kind::smallest:
            shrinkSecondsLeft_ -= phase_ == Phase::shrinking ? secondsSince(since_) : 0;
            phase_ = Phase::between;
            return takeResult(message);
        case Message::Kind::measuring:
            phase_ = Phase::measuring;
            return true;
        case Message::Kind::timing:
            report_.timings.emplace_back();
            return timingFromLine(message.text, report_.timings.back());
        default:
            return false;
        }
    }

    bool takeBegin(const Message &message) {
        CheckResult check;
        if (!checkFromLine(message.text, check)) return false;
        if (settings_.soakSeconds && message.index == report_.checks.size()) add(std::move(check));
        if (message.index >= report_.checks.size()) return false;
        if (!checksBegan_) checksBegan_ = Clock::now();
        current_ = message.index;
        cost_ = message.number;
        since_ = Clock::now();
        phase_ = Phase::checking;
        return true;
    }

    // An earlier message told what the check is: a replay text has no name for it.
    bool takeResult(const Message &message) {
        CheckResult told;
        if (!current_ || message.index != *current_ || !checkFromLine(message.text, told)) return false;
        CheckResult &check = report_.checks[message.index];
        check.finding = std::move(told.finding);
        check.seconds = told.seconds;
        check.smallest = std::move(told.smallest);
        return true;
    }

    void add(CheckResult check) {
        check.finding.outcome = Outcome::notRun;
        const uint32_t times = ++ids_[check.id];
        // Reports tell checks apart by their id.
        if (times > 1) check.id.append("#").append(std::to_string(times));
        report_.checks.push_back(std::move(check));
    }

    void count(uint64_t index) {
        state_.done++;
        if (index < costs_.size()) state_.costDone += costs_[index];
        const CheckResult &check = report_.checks[index];
        if (!isFailure(check.finding.outcome)) return;
        state_.failures++;
        std::string word = outcomeName(check.finding.outcome);
        for (char &c : word) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
        progress_.print(word + " " + check.id + ": " + check.finding.reason + "\n     vkattn conform --device " +
                        std::to_string(task_.number) + " --replay " + check.replay);
    }

    void shrinkAlone(CheckResult &check) {
        if (shrinkSecondsLeft_ <= 0) return;
        const auto began = Clock::now();
        LoneChecks lone{
            task_, settings_.plan, std::min(settings_.caseTimeoutSeconds, shrinkSecondsLeft_), shrinkSecondsLeft_, deadline_, [this] {
                state_.doing = "looking for the smallest case";
                show();
            }};
        shrinkInProcesses(lone, check);
        state_.doing.clear();
        shrinkSecondsLeft_ -= secondsSince(began);
    }

    void show() {
        ProgressState state = state_;
        if (state.doing.empty() && phase_ == Phase::opening) state.doing = "opening the device";
        if (state.doing.empty() && phase_ == Phase::measuring) state.doing = "timing the kernels";
        state.seconds = secondsSince(start_);
        state.checkSeconds = checksBegan_ ? secondsSince(*checksBegan_) : 0;
        if (deadline_) state.secondsAtMost = std::chrono::duration<double>(*deadline_ - Clock::now()).count();
        progress_.show(state);
    }

    const DeviceTask &task_;
    const RunSettings &settings_;
    Progress &progress_;
    DeviceReport report_;
    std::map<std::string, uint32_t> ids_; // how often each id was told
    std::vector<double> costs_;           // costs of the planned checks
    ProgressState state_;
    const Clock::time_point start_ = Clock::now();
    std::optional<Clock::time_point> deadline_, checksBegan_;
    Phase phase_ = Phase::opening;
    std::optional<uint64_t> current_;
    double cost_ = 0;         // cost of that check
    Clock::time_point since_; // when the check, or the shrinking, began
    std::string candidate_, whyNotRun_;
    double shrinkSecondsLeft_ = 0, compiledSeconds_ = 0;
    uint32_t compiledPipelines_ = 0;
};

} // namespace

DeviceReport testDevice(const DeviceTask &task, const RunSettings &settings, const std::string &label, Progress &progress) {
    const WorkerOrders::What what = settings.soakSeconds       ? WorkerOrders::What::soak
                                    : settings.replays.empty() ? WorkerOrders::What::checks
                                                               : WorkerOrders::What::replays;
    return DeviceRun(task, settings, label, progress).run(what);
}

DeviceReport planDevice(const DeviceTask &task, const RunSettings &settings, Progress &progress) {
    return DeviceRun(task, settings, "planning", progress).run(WorkerOrders::What::plan);
}

} // namespace vkattn::conform
