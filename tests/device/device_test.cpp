#include "environment.hpp"

using namespace vkattn;

TEST(Device, isListed) {
    std::string why;
    const std::vector<DeviceInfo> devices = Runtime::devices(&why);
    ASSERT_FALSE(devices.empty()) << why;
    for (const DeviceInfo &device : devices) {
        std::printf("%u  %s  %s  %s\n", device.index, device.name.c_str(), deviceTypeName(device.type), device.driver.c_str());
        EXPECT_FALSE(device.kernels.empty());
    }
}
