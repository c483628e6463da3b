#include "core/device/device_table.hpp"

#include "util/diagnostic.hpp"

namespace vkattn {
namespace {

template <class Function> Function instanceFunction(PFN_vkGetInstanceProcAddr get, VkInstance instance, const char *name) {
    return reinterpret_cast<Function>(get(instance, name));
}

} // namespace

vkattn_result DeviceTable::load(const vkattn_host &host, bool pushDescriptors, vkattn_diagnostic *why) {
    const auto getDeviceProcAddr =
        instanceFunction<PFN_vkGetDeviceProcAddr>(host.getInstanceProcAddr, host.instance, "vkGetDeviceProcAddr");
    if (!getDeviceProcAddr) return fail(why, VKATTN_ERROR_INVALID_ARGUMENT, "host.getInstanceProcAddr does not know vkGetDeviceProcAddr");
#define VKATTN_LOAD(name)                                                                                                                  \
    name = reinterpret_cast<PFN_vk##name>(getDeviceProcAddr(host.device, "vk" #name));                                                     \
    if (!name) return fail(why, VKATTN_ERROR_INVALID_ARGUMENT, "the device does not know vk" #name);
    VKATTN_DEVICE_FUNCTIONS(VKATTN_LOAD)
#undef VKATTN_LOAD
    if (pushDescriptors)
        CmdPushDescriptorSet = reinterpret_cast<PFN_vkCmdPushDescriptorSetKHR>(getDeviceProcAddr(host.device, "vkCmdPushDescriptorSetKHR"));
    if (host.debugLabels) { // the extension belongs to the instance, where its functions are found
#define VKATTN_LOAD_LABEL(name) name = instanceFunction<PFN_vk##name##EXT>(host.getInstanceProcAddr, host.instance, "vk" #name "EXT");
        VKATTN_LOAD_LABEL(CmdBeginDebugUtilsLabel)
        VKATTN_LOAD_LABEL(CmdEndDebugUtilsLabel)
        VKATTN_LOAD_LABEL(SetDebugUtilsObjectName)
#undef VKATTN_LOAD_LABEL
        if (!CmdEndDebugUtilsLabel) CmdBeginDebugUtilsLabel = nullptr; // both functions, or neither
    }
    return VKATTN_OK;
}

} // namespace vkattn
