#include "conform/processes/alone.hpp"

#include "conform/checks/cost.hpp"

#include <algorithm>

namespace vkattn::conform {
namespace {

using How = Stopped::How;

constexpr uint32_t attempts = 64;         // each attempt starts a process and opens a device
constexpr double longestPatience = 10;    // seconds; attempts are smaller than the case that hangs
constexpr double secondsForOneCheck = 60; // seconds; the first check must not take all the time

struct Lone {
    Finding finding;
    bool ran = false; // the check ran to its end, or to a crash or hang
};

Lone runAlone(const LoneChecks &lone, const std::string &replay, double patienceSeconds) {
    WorkerOrders orders;
    orders.device = lone.task.index;
    orders.name = lone.task.facts.name;
    orders.environment = lone.task.environment;
    orders.plan = lone.plan;
    orders.what = WorkerOrders::What::replays;
    orders.replays = {replay};
    ChildProcess child([&](const ChildProcess::Channel &channel) { work(orders, channel); });
    Lone result;
    bool began = false;
    double cost = 0;
    Watch watch;
    watch.patience = [&] { return patienceSeconds * patienceFor(cost); };
    watch.tick = lone.tick;
    watch.deadline = lone.deadline;
    watch.onMessage = [&](const Message &message) {
        if (message.kind == Message::Kind::begin) began = true, cost = message.number;
        if (message.kind != Message::Kind::result) return true;
        CheckResult check;
        if (!checkFromLine(message.text, check)) return false;
        result = {check.finding, true};
        return true;
    };
    const Stopped stopped = follow(child, watch);
    if (!result.ran && began && (stopped.how == How::crash || stopped.how == How::hang))
        result = {{stopped.how == How::hang ? Outcome::hang : Outcome::crash, stopped.why, {}, 0}, true};
    return result;
}

} // namespace

void shrinkInProcesses(const LoneChecks &lone, CheckResult &check) {
    Check failing;
    std::string ignored;
    if (!parseReplay(check.replay, failing, ignored)) return;
    const auto start = Watch::Clock::now();
    const double seconds = std::min(lone.secondsLeft, secondsForOneCheck);
    const double patience = std::min(lone.patienceSeconds, longestPatience);
    const Lone first = runAlone(lone, check.replay, patience);
    if (!first.ran) return;
    const auto same = [&](const Lone &tried) { return tried.ran && tried.finding.outcome == check.finding.outcome; };
    if (!same(first)) {
        check.finding.reason += "; the check did not fail again alone, in a process of its own: earlier checks matter";
        return;
    }
    std::string reason = first.finding.reason;
    const auto fails = [&](const Check &candidate) {
        if (std::chrono::duration<double>(Watch::Clock::now() - start).count() > seconds) return false;
        const Lone tried = runAlone(lone, replayText(candidate), patience);
        if (!same(tried)) return false;
        reason = tried.finding.reason;
        return true;
    };
    const Shrunk shrunk = shrink(failing, fails, attempts);
    check.smallest = Smallest{replayText(shrunk.check), reason, shrunk.attempts};
}

} // namespace vkattn::conform
