#include "conform/processes/worker.hpp"

#include "conform/checks/cost.hpp"
#include "conform/processes/messages.hpp"
#include "conform/report/facts.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <new>

namespace vkattn::conform {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t shrinkAttempts = 64; // attempts for one failure
constexpr double shrinkSeconds = 20;    // seconds for one failure
// A soak draws new pipelines all the time, and a device keeps what it has compiled.
constexpr uint64_t checksPerBench = 2000;

double secondsSince(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

void apply(const Environment &environment) {
#if !defined(_WIN32)
    for (const auto &[name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
#else
    static_cast<void>(environment);
#endif
}

class Worker {
  public:
    Worker(const WorkerOrders &orders, const ChildProcess::Channel &channel)
        : orders_(orders), channel_(channel), device_(optionsOf(orders)), shrinkSecondsLeft_(orders.shrinkSeconds) {}

    void run() {
        const DeviceInfo *opened = device_.device();
        if (opened == nullptr) return send({Message::Kind::failed, "the device cannot be opened: " + device_.failure()});
        const DeviceInfo device = *opened; // a copy, because reopen() ends the original
        if (device.name != orders_.name)
            return send({Message::Kind::failed,
                         "device " + std::to_string(orders_.device) + " is " + device.name + " now, and was " + orders_.name});
        send({Message::Kind::opened, factsToLine(factsOf(device))});
        if (!runChecks(device)) return;
        if (orders_.time) {
            send({Message::Kind::measuring, {}});
            for (const Timing &timing : timeKernels(device_, orders_.plan.extent)) send({Message::Kind::timing, timingToLine(timing)});
            sendCompiled();
        }
        send({Message::Kind::end, {}});
    }

  private:
    static RuntimeOptions optionsOf(const WorkerOrders &orders) {
        RuntimeOptions options;
        options.device = std::to_string(orders.device);
        return options;
    }
    void send(const Message &message) const { channel_.send(messageToLine(message)); }
    [[nodiscard]] Runtime::CompileStatistics compiled() const {
        const Runtime::CompileStatistics now = device_.compileStatistics();
        return {compiledBefore_.pipelines + now.pipelines, compiledBefore_.seconds + now.seconds};
    }
    void sendCompiled() const { send({Message::Kind::compiled, {}, compiled().pipelines, compiled().seconds}); }
    void reopen() {
        compiledBefore_ = compiled();
        device_ = DeviceUnderTest(optionsOf(orders_));
    }

    // Returns false where this process can run no more checks.
    bool runChecks(const DeviceInfo &device) {
        if (orders_.what == WorkerOrders::What::soak) {
            for (uint64_t number = orders_.first;; number++) {
                if (number % checksPerBench == checksPerBench - 1) reopen();
                const Check check = soakCheck(device, orders_.plan, number);
                if (!runOne(number, check, device)) return false;
            }
        }
        const std::vector<Check> checks = orders_.what == WorkerOrders::What::replays ? replayed() : planned(device);
        if (orders_.what == WorkerOrders::What::plan) return true;
        for (uint64_t index = orders_.first; index < checks.size(); index++)
            if (!runOne(index, checks[index], device)) return false;
        return true;
    }

    std::vector<Check> planned(const DeviceInfo &device) const {
        std::vector<Check> checks;
        for (const Planned &each : planChecks(device, orders_.plan)) {
            send({Message::Kind::planned, checkToLine(resultFor(each.check)), checks.size(), each.cost});
            checks.push_back(each.check);
        }
        return checks;
    }
    std::vector<Check> replayed() const {
        std::vector<Check> checks(orders_.replays.size());
        std::string why; // these texts have been read before
        for (size_t n = 0; n < checks.size(); n++) static_cast<void>(parseReplay(orders_.replays[n], checks[n], why));
        return checks;
    }

    [[nodiscard]] Finding findingOf(const Check &check) {
        try {
            return conform::run(device_, check);
        } catch (const std::bad_alloc &) {
            return {Outcome::fail, "out of host memory", {}, 0};
        }
    }

    bool runOne(uint64_t index, const Check &check, const DeviceInfo &device) {
        CheckResult result = resultFor(check);
        send({Message::Kind::begin, checkToLine(result), index, costOf(check, device)});
        const auto start = Clock::now();
        result.finding = findingOf(check);
        result.seconds = secondsSince(start);
        send({Message::Kind::result, checkToLine(result), index});
        sendCompiled();
        if (!isFailure(result.finding.outcome)) return true;
        if (hasLostDevice(result.finding)) return send({Message::Kind::lost, {}, index}), false;
        if (shrinkSecondsLeft_ > 0) {
            if (!shrink(check, result)) return send({Message::Kind::lost, {}, index}), false;
            send({Message::Kind::smallest, checkToLine(result), index});
        }
        return !orders_.failFast || (send({Message::Kind::end, {}}), false);
    }

    // Returns false where the device was lost on the way.
    bool shrink(const Check &check, CheckResult &result) {
        const auto start = Clock::now();
        const double patience = std::min(shrinkSeconds, shrinkSecondsLeft_);
        bool lost = false;
        std::string reason = result.finding.reason;
        const auto fails = [&](const Check &candidate) {
            if (lost || secondsSince(start) > patience) return false;
            send({Message::Kind::shrinking, replayText(candidate)});
            const Finding finding = findingOf(candidate);
            lost = hasLostDevice(finding);
            if (lost || !isFailure(finding.outcome)) return false;
            reason = finding.reason;
            return true;
        };
        const Shrunk shrunk = conform::shrink(check, fails, shrinkAttempts);
        shrinkSecondsLeft_ -= secondsSince(start);
        result.smallest = Smallest{replayText(shrunk.check), reason, shrunk.attempts};
        return !lost;
    }

    const WorkerOrders &orders_;
    const ChildProcess::Channel &channel_;
    DeviceUnderTest device_;
    Runtime::CompileStatistics compiledBefore_; // statistics of benches before this one
    double shrinkSecondsLeft_;
};

} // namespace

void listDevices(const Environment &environment, const ChildProcess::Channel &channel) {
    apply(environment);
    std::string whyEmpty;
    for (const DeviceInfo &device : Runtime::devices(&whyEmpty))
        channel.send(messageToLine({Message::Kind::device, factsToLine(factsOf(device)), device.index}));
    if (!whyEmpty.empty()) channel.send(messageToLine({Message::Kind::noDevice, whyEmpty}));
    channel.send(messageToLine({Message::Kind::end, {}}));
}

void work(const WorkerOrders &orders, const ChildProcess::Channel &channel) {
    apply(orders.environment);
    Worker(orders, channel).run();
}

bool hasLostDevice(const Finding &finding) {
    // The reason quotes the runtime: a lost device stays lost for a process (docs/embedding.md).
    return isFailure(finding.outcome) && finding.reason.find("the device was lost") != std::string::npos;
}

} // namespace vkattn::conform
