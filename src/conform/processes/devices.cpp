#include "conform/processes/devices.hpp"

#include "conform/processes/follow.hpp"
#include "program/failure.hpp"
#include "program/interruption.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <set>

namespace vkattn::conform {
using namespace program;
namespace {

namespace fs = std::filesystem;

struct Listing {
    DeviceList list;
    Stopped stopped;
};

Listing listIn(const Environment &environment, double patienceSeconds) {
    Listing listing;
    ChildProcess child([&](const ChildProcess::Channel &channel) { listDevices(environment, channel); });
    Watch watch;
    watch.patience = [&] { return patienceSeconds; };
    watch.onMessage = [&](const Message &message) {
        if (message.kind == Message::Kind::noDevice) return listing.list.whyEmpty = message.text, true;
        DeviceTask task;
        task.index = static_cast<uint32_t>(message.index);
        task.environment = environment;
        if (message.kind != Message::Kind::device || !factsFromLine(message.text, task.facts)) return false;
        listing.list.devices.push_back(std::move(task));
        return true;
    };
    listing.stopped = follow(child, watch);
    return listing;
}

std::vector<std::string> parts(const std::string &text, char separator) {
    std::vector<std::string> list;
    for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
        end = text.find(separator, begin);
        if (end != begin && begin < text.size()) list.push_back(text.substr(begin, end - begin));
    }
    return list;
}

// Returns the manifests where the Vulkan loader looks for drivers (its document
// LoaderDriverInterface.md).
std::vector<std::string> driverManifests() {
    for (const char *variable : {"VK_DRIVER_FILES", "VK_ICD_FILENAMES"})
        if (const char *named = std::getenv(variable)) return parts(named, ':');
    std::set<std::string> found; // sorted: the same list each time
    for (const char *folder : {"/usr/local/etc", "/usr/local/share", "/etc", "/usr/share"}) {
        std::error_code error;
        for (const auto &entry : fs::directory_iterator(fs::path(folder) / "vulkan/icd.d", error))
            if (entry.path().extension() == ".json") found.insert(entry.path().string());
    }
    return {found.begin(), found.end()};
}

DeviceTask brokenDriver(const std::string &name, const Stopped &stopped) {
    DeviceTask task;
    task.facts.name = name;
    task.problem = "its devices cannot be listed: " + stopped.why;
    return task;
}

DeviceList listByDriver(const Stopped &together, double patienceSeconds) {
    DeviceList all;
    const std::vector<std::string> manifests = driverManifests();
    if (manifests.size() < 2) {
        all.devices.push_back(brokenDriver(manifests.empty() ? "Vulkan" : fs::path(manifests[0]).filename().string(), together));
        return all;
    }
    for (const std::string &manifest : manifests) {
        Listing one = listIn({{"VK_DRIVER_FILES", manifest}, {"VK_ICD_FILENAMES", manifest}}, patienceSeconds);
        if (interrupted()) break;
        if (one.stopped.how != Stopped::How::end) one.list.devices = {brokenDriver(fs::path(manifest).filename().string(), one.stopped)};
        std::move(one.list.devices.begin(), one.list.devices.end(), std::back_inserter(all.devices));
    }
    return all;
}

std::string lower(std::string text) {
    for (char &c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
}

[[noreturn]] void refuse(const std::string &what, const std::vector<DeviceTask> &devices) {
    std::string list;
    for (const DeviceTask &each : devices)
        list += "\n  " + std::to_string(each.number) + "  " + each.facts.name + (each.problem.empty() ? "" : ": " + each.problem);
    throw Failure("--device: " + what + ":" + list);
}

std::vector<DeviceTask> matching(const std::vector<DeviceTask> &devices, const std::string &wanted) {
    std::vector<DeviceTask> found;
    uint32_t number = 0;
    if (const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), number);
        error == std::errc() && end == wanted.data() + wanted.size()) {
        std::copy_if(devices.begin(), devices.end(), std::back_inserter(found), [&](const DeviceTask &d) { return d.number == number; });
        if (found.empty()) refuse("there is no device " + wanted + "; the devices are", devices);
        return found;
    }
    const std::string name = lower(wanted);
    for (const DeviceTask &each : devices)
        if (lower(each.facts.name) == name) found.push_back(each);
    if (!found.empty()) return found;
    for (const DeviceTask &each : devices)
        if (lower(each.facts.name).find(name) != std::string::npos) found.push_back(each);
    if (found.empty()) refuse("there is no device '" + wanted + "'; the devices are", devices);
    for (const DeviceTask &each : found)
        if (each.facts.name != found[0].facts.name) refuse("'" + wanted + "' fits several devices; name one by its index", devices);
    return found;
}

} // namespace

DeviceList findDevices(double patienceSeconds) {
    Listing together = listIn({}, patienceSeconds);
    DeviceList all = std::move(together.list);
    if (together.stopped.how != Stopped::How::end && !interrupted()) all = listByDriver(together.stopped, patienceSeconds);
    for (uint32_t n = 0; n < all.devices.size(); n++) all.devices[n].number = n;
    return all;
}

std::vector<DeviceTask> chooseDevices(const std::vector<DeviceTask> &devices, const std::vector<std::string> &wanted) {
    if (wanted.empty()) return devices;
    std::vector<DeviceTask> chosen;
    for (const std::string &text : wanted)
        for (const DeviceTask &match : matching(devices, text)) {
            const bool twice = std::any_of(chosen.begin(), chosen.end(), [&](const DeviceTask &d) { return d.number == match.number; });
            if (!twice) chosen.push_back(match);
        }
    return chosen;
}

} // namespace vkattn::conform
