// Host memory of a context, from the host's allocation callbacks or else from malloc. Core uses no
// operator new (tests/symbols.cmake).
#pragma once

#include "vkattn/vkattn.h"

#include <cstddef>
#include <cstdlib>

namespace vkattn {

[[nodiscard]] inline void *hostAllocate(const VkAllocationCallbacks *allocator, size_t bytes, size_t alignment) {
    return allocator ? allocator->pfnAllocation(allocator->pUserData, bytes, alignment, VK_SYSTEM_ALLOCATION_SCOPE_DEVICE)
                     : std::malloc(bytes);
}

inline void hostFree(const VkAllocationCallbacks *allocator, void *memory) {
    if (allocator)
        allocator->pfnFree(allocator->pUserData, memory);
    else
        std::free(memory);
}

} // namespace vkattn
