// The shader modules: shaders/modules.txt, as CMake writes it down for C++
// (cmake/VkattnModules.cmake).
#pragma once

#include <cstdint>

namespace vkattn {

// Storage buffers of a module's descriptor set. Vulkan 1.0 guarantees the first number; sets of the
// others exist only where the device has as many.
constexpr uint32_t plainSlots = 4, operationSlots = 6, fullSlots = 11, gradientSlots = 14;
inline constexpr uint32_t slotCounts[] = {plainSlots, operationSlots, fullSlots, gradientSlots};

enum class Subgroups : uint32_t {
    none,
    shuffle, // lanes shuffle among neighbours
    lanes    // each subgroup has a part of the tile
};

enum class Module : uint32_t {
#define VKATTN_MODULE(identifier, name, slots, subgroups, main, hooks) identifier,
#include "vkattn_modules.inc"
#undef VKATTN_MODULE
};

struct ModuleInfo {
    const char *name;
    uint32_t slots;
    Subgroups subgroups;
    bool main;  // computes the scores
    bool hooks; // programs have a module of their own in its place (vkattn_program)
};

inline constexpr ModuleInfo moduleTable[] = {
#define VKATTN_MODULE(identifier, name, slots, subgroups, main, hooks) {name, slots, Subgroups::subgroups, main, hooks},
#include "vkattn_modules.inc"
#undef VKATTN_MODULE
};
constexpr uint32_t moduleCount = sizeof moduleTable / sizeof moduleTable[0];

[[nodiscard]] constexpr const ModuleInfo &infoOf(Module module) {
    return moduleTable[static_cast<uint32_t>(module)];
}

} // namespace vkattn
