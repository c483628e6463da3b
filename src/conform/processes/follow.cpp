#include "conform/processes/follow.hpp"

#include "conform/processes/own_time.hpp"
#include "program/interruption.hpp"

#include <cstdio>
#include <utility>

namespace vkattn::conform {
using namespace program;
namespace {

using How = Stopped::How;

constexpr auto betweenTicks = std::chrono::milliseconds(100);
constexpr size_t shownGarbage = 80;

// Returns nothing for messages that are not the last word.
std::optional<How> lastWord(Message::Kind kind) {
    if (kind == Message::Kind::end) return How::end;
    if (kind == Message::Kind::lost) return How::lost;
    if (kind == Message::Kind::failed) return How::failed;
    return std::nullopt;
}

std::string printable(const std::string &text) {
    std::string shown = text.substr(0, shownGarbage);
    for (char &c : shown)
        if (c < ' ' || c > '~') c = '?';
    return shown;
}

Stopped giveUp(ChildProcess &child, How how, std::string why) {
    Stopped stopped{how, std::move(why), !child.kill()};
    const bool driversFault = how == How::crash || how == How::hang;
    if (stopped.stuck) stopped.why += "; the process cannot be ended";
    if (const std::string printed = child.lastOutput(); driversFault && !printed.empty()) stopped.why += "; its last output: " + printed;
    return stopped;
}

} // namespace

std::string secondsText(double seconds) {
    char text[40];
    std::snprintf(text, sizeof text, "%.3g s", seconds);
    return text;
}

Stopped follow(ChildProcess &child, const Watch &watch) {
    std::optional<OwnTime> silence;
    std::optional<Stopped> last;
    for (;;) {
        const auto now = Watch::Clock::now();
        if (interrupted()) return giveUp(child, How::interrupted, "interrupted");
        if (watch.deadline && now >= *watch.deadline) return giveUp(child, How::late, "time was up");
        std::string line;
        switch (child.next(betweenTicks, line)) {
        case ChildProcess::Event::line: {
            silence.reset();
            Message message;
            if (!messageFromLine(line, message))
                return giveUp(child, How::crash, "the process sent a line that is no message: " + printable(line));
            if (const std::optional<How> how = lastWord(message.kind))
                last = Stopped{*how, message.text, false};
            else if (!watch.onMessage(message))
                return giveUp(child, How::crash, "the process sent a message that makes no sense there: " + printable(line));
            break;
        }
        case ChildProcess::Event::ended:
            if (!last) return giveUp(child, How::crash, "the driver ended the process: " + child.ending());
            if (child.ending() == "exit status 0") return *last;
            return giveUp(child, How::crash, "the driver ended the process while the device was closed: " + child.ending());
        case ChildProcess::Event::nothing:
            if (!silence) silence.emplace(child.process());
            if (const double patience = watch.patience(); silence->seconds() > patience)
                return giveUp(child, How::hang, "the driver did not come back within " + secondsText(patience));
        }
        if (watch.tick) watch.tick();
    }
}

} // namespace vkattn::conform
