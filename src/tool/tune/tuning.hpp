// Which tuning file is in use (docs/tuning.md). The library opens no files: the tool finds them and
// hands over their text.
#pragma once

#include <vkattn/runtime.hpp>

#include <string>

namespace vkattn::tool {

struct Tuning {
    std::string source = "built-in"; // or the file's path
    std::string text;                // empty: the built-in table
};

// ${XDG_CONFIG_HOME:-$HOME/.config}/vkattn/tuning-DEVICE.txt; empty where neither variable says
// where that is.
[[nodiscard]] std::string defaultTuningPath(const std::string &deviceName);

// The file that --tuning names. Throws Failure, with the line and what was expected there.
[[nodiscard]] Tuning readTuning(const std::string &path);

// The device's file in the default place. Where there is none, or a bad one, with a warning:
// built-in.
[[nodiscard]] Tuning findTuning(const std::string &deviceName);

// Tiles that were measured elsewhere are right, but maybe slow.
void warnOfOtherDevice(const Tuning &tuning, const DeviceInfo &device);

// How the file's comments name the device and the driver that it was measured on: on one line,
// whatever a driver calls itself.
inline constexpr const char *deviceComment = "# device: ", *driverComment = "# driver: ";
[[nodiscard]] std::string oneLine(std::string text);

} // namespace vkattn::tool
