// A vkGetInstanceProcAddr that returns wrappers of every function that the library calls. This
// Vulkan fails on demand, by a function's name or at the n-th call of all, with every error that
// the specification lets the function return, and with garbage in what a failed call leaves
// undefined. The wrappers count objects that live, and objects that are used or destroyed although
// they do not. Calls come from any thread; faults are set and the ledger is read while none is under
// way.
#pragma once

#include <vulkan/vulkan_core.h>

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <typeindex>
#include <vector>

namespace vkattn::test {

struct Fault {
    std::string function; // which Vulkan function answers `result`; empty: none
    VkResult result = VK_SUCCESS;
    int calls = 1; // how often; negative: always
    int skip = 0;  // calls that pass first
    bool dropBarriers = false;
    // once, when next a fence was waited for: words of the memory that was allocated last, if it is
    // mapped
    bool corrupt = false;
    bool hidePushDescriptors = false; // as if the driver had no VK_KHR_push_descriptor
    // Devices of type CPU or integrated say that they are discrete: memory is fed through a staging
    // buffer.
    bool pretendDiscrete = false;
    // The driver is given a shader that does nothing and compiles in no time, for tests that submit
    // nothing.
    bool emptyShaders = false;
};
extern Fault fault; // what happens next

// Returns the errors that the specification lets a function return; empty: the function cannot
// fail.
[[nodiscard]] std::span<const VkResult> errorsOf(const std::string &function);
[[nodiscard]] const char *errorName(VkResult error);

// The calls that have passed through since reset().
struct Ledger {
    struct Call {
        const char *function;
        std::string phase;
    };
    std::vector<Call> calls; // that can fail, in order
    // The call of this number (from 0) answers failWith. Once a call has answered
    // VK_ERROR_DEVICE_LOST, all those do that may.
    uint64_t failAt = UINT64_MAX;
    VkResult failWith = VK_SUCCESS;
    bool struck = false, lost = false;
    // The test's current phase, copied into `calls`.
    std::string phase;
    std::vector<std::string> errors; // what no valid program does
    // Functions that were asked for and have no wrapper.
    std::set<std::string> unwrapped;
    // Objects, and the function that made them.
    std::map<std::pair<std::type_index, uint64_t>, const char *> live;
    uint64_t made = 0;
    // The room of the descriptor pool that was made or reset last. Sets and descriptors beyond it
    // are an error.
    uint32_t setsTaken = 0, descriptorsTaken = 0;

    [[nodiscard]] std::string leaks() const; // empty: all objects were destroyed
    void reset();
};
extern Ledger ledger;

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL faultyGetInstanceProcAddr(VkInstance instance, const char *name);

} // namespace vkattn::test
