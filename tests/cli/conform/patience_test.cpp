// The rule by which a child process counts as hanging: it sleeps or computes without end, and is
// not merely held up by the machine.
#include "conform/checks/cost.hpp"
#include "conform/processes/follow.hpp"
#include "conform/processes/own_time.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <ctime>
#include <thread>
#include <unistd.h>

#if defined(__linux__)
#include <sched.h>
#include <sys/resource.h>
#endif

namespace {

using namespace vkattn::conform;

double cpuSeconds() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Runs in a child: computes for so long by its own clock, and says that it is done.
void computeFor(double seconds, const ChildProcess::Channel &channel) {
    for (const double end = cpuSeconds() + seconds; cpuSeconds() < end;) {
    }
    channel.send(messageToLine({Message::Kind::end, {}}));
}

Stopped followWith(ChildProcess &child, double patienceSeconds) {
    Watch watch;
    watch.onMessage = [](const Message &) { return false; };
    watch.patience = [=] { return patienceSeconds; };
    return follow(child, watch);
}

TEST(ConformPatience, endsAProcessThatSleeps) {
    ChildProcess child([](const ChildProcess::Channel &) {
        for (;;) pause();
    });
    const Stopped stopped = followWith(child, 0.5);
    EXPECT_EQ(stopped.how, Stopped::How::hang) << stopped.why;
    EXPECT_NE(stopped.why.find("did not come back within 0.5 s"), std::string::npos) << stopped.why;
}

TEST(ConformPatience, endsAProcessThatComputesWithoutEnd) {
    ChildProcess child([](const ChildProcess::Channel &channel) { computeFor(1e9, channel); });
    EXPECT_EQ(followWith(child, 0.2).how, Stopped::How::hang);
}

#if defined(__linux__)

TEST(ConformPatience, bearsWithAProcessThatIsStoppedMostOfTheTime) {
    ChildProcess child([](const ChildProcess::Channel &channel) { computeFor(0.1, channel); });
    const int process = child.process();
    std::atomic<bool> done{false};
    std::thread stopper([&] { // more than a second in all, where the patience is for half of one
        while (!done) {
            kill(process, SIGSTOP);
            std::this_thread::sleep_for(std::chrono::milliseconds(550));
            kill(process, SIGCONT);
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
    });
    const Stopped stopped = followWith(child, 0.5);
    done = true;
    stopper.join();
    EXPECT_EQ(stopped.how, Stopped::How::end) << stopped.why;
}

TEST(ConformPatience, bearsWithAProcessThatOthersLeaveNoProcessor) {
    cpu_set_t all, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (int processor = 0; processor < CPU_SETSIZE && CPU_COUNT(&one) == 0; processor++)
        if (CPU_ISSET(processor, &all)) CPU_SET(processor, &one);
    const auto shareIt = [&] { return sched_setaffinity(0, sizeof one, &one) == 0; };
    ChildProcess greedy([&](const ChildProcess::Channel &channel) {
        if (shareIt()) computeFor(1e9, channel);
    });
    // The lowest priority gets a seventieth of a processor that another process computes on.
    ChildProcess child([&](const ChildProcess::Channel &channel) {
        if (shareIt() && setpriority(PRIO_PROCESS, 0, 19) == 0) computeFor(0.02, channel);
    });
    const Stopped stopped = followWith(child, 0.4);
    EXPECT_EQ(stopped.how, Stopped::How::end) << stopped.why;
}

#endif

TEST(ConformPatience, ownTimeIsWhatTheProcessRanOrSlept) {
    const ProcessTime before{{{1, {2.0, 3.0}}, {2, {1.0, 0.0}}}, false};
    const auto after = [](ThreadTime first, ThreadTime second, bool awake = false) {
        return ProcessTime{{{1, first}, {2, second}}, awake};
    };
    EXPECT_DOUBLE_EQ(ownSeconds(before, before, 0.5), 0.5) << "asleep";
    EXPECT_DOUBLE_EQ(ownSeconds(before, after({2.5, 3.0}, {1.0, 0.0}), 0.5), 0.5) << "one thread runs";
    EXPECT_DOUBLE_EQ(ownSeconds(before, after({2.5, 3.0}, {1.5, 0.0}), 0.5), 0.5) << "two threads run";
    EXPECT_DOUBLE_EQ(ownSeconds(before, after({2.125, 3.375}, {1.0, 0.0}), 0.5), 0.125) << "others run three quarters of the time";
    EXPECT_DOUBLE_EQ(ownSeconds(before, after({2.125, 3.125}, {1.0, 0.0}), 0.5), 0.375) << "asleep half of the time";
    EXPECT_DOUBLE_EQ(ownSeconds(before, after({2.0, 3.0}, {1.0, 0.0}, true), 0.5), 0) << "stopped";
    EXPECT_DOUBLE_EQ(ownSeconds(before, after({2.125, 3.0}, {1.0, 0.0}, true), 0.5), 0.125) << "waits since it ran";
    EXPECT_DOUBLE_EQ(ownSeconds({}, after({0.125, 0.0}, {0.0, 0.375}), 0.5), 0.125) << "new threads";
}

// By what the planner says of the pipeline, and where it says nothing, as on a device that nobody
// described, as of a small one.
TEST(ConformPatience, growsWithTheCostOfACheck) {
    vkattn::DeviceInfo device;
    device.type = vkattn::DeviceType::cpu;
    Check check{&checkKinds()[0], testLayoutOf("flashDirect"), Limits::full, Case{}, 1};
    check.c.kernel = VKATTN_KERNEL_FLASH;
    check.c.headDim = check.c.valueDim = 512;
    EXPECT_EQ(patienceFor(costOf(check, device)), 1);
    device.caps.structSize = sizeof device.caps;
    ASSERT_EQ(vkattnMinimumCaps(&device.caps, nullptr), VKATTN_OK);
    device.caps.deviceType = 4; // VK_PHYSICAL_DEVICE_TYPE_CPU
    device.caps.maxStorageBuffersPerStage = 32;
    device.caps.subgroupSize = 8, device.caps.subgroupShuffle = 1;
    const double wide = patienceFor(costOf(check, device));
    EXPECT_GT(wide, 10) << "one lane has all dims";
    check.testLayout = &testLayouts()[0];
    const double own = patienceFor(costOf(check, device));
    EXPECT_GE(own, 1);
    EXPECT_LT(own, 10) << "the planner takes no tile that takes long";
    check.c.headDim = check.c.valueDim = 16;
    EXPECT_EQ(patienceFor(costOf(check, device)), 1);
    check.c.headDim = check.c.valueDim = 512, check.testLayout = testLayoutOf("flashDirect");
    device.type = vkattn::DeviceType::discrete;
    EXPECT_EQ(patienceFor(costOf(check, device)), 1);
}

} // namespace
