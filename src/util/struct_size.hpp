// structSize, the first field of public structs. A caller that was compiled with earlier headers
// has a shorter struct: the fields that it lacks count as zero, which is the default of every
// field, and are not written. A longer struct is one of later headers, whose fields this library
// does not know, so that it is refused.
#pragma once

#include "util/diagnostic.hpp"

#include <cstddef>
#include <cstring>

namespace vkattn {

// `name` is the argument as the caller knows it, and `type` is the type of the struct. A size that no sizeof gives
// would end in the middle of a field: half a pointer points anywhere.
template <class Struct>
[[nodiscard]] vkattn_result checkStructSize(const Struct &struct_, const char *name, const char *type, vkattn_diagnostic *why) {
    const uint32_t given = struct_.structSize;
    constexpr size_t known = sizeof(Struct);
    if (given > known)
        return fail(why, VKATTN_ERROR_INVALID_ARGUMENT,
                    "%s: structSize is %u, and sizeof(%s) is %zu in this library: the headers that the caller was compiled with are newer",
                    name, given, type, known);
    if (given == 0 || given % alignof(Struct))
        return fail(why, VKATTN_ERROR_INVALID_ARGUMENT, "%s: structSize is %u, expected sizeof(%s) = %zu; set it before the call", name,
                    given, type, known);
    return VKATTN_OK;
}

// Returns `given`, or, where `given` is shorter, a copy of it in `room` that is completed with
// zeros.
template <class Struct> [[nodiscard]] const Struct &completed(const Struct &given, Struct &room) {
    if (given.structSize == sizeof given) return given;
    const size_t bytes = given.structSize;
    std::memset(&room, 0, sizeof room);
    std::memcpy(&room, &given, bytes);
    return room;
}

// Writes as much as the caller's struct holds, and leaves its structSize alone.
template <class Struct> void writeStruct(Struct &to, const Struct &from) {
    constexpr size_t first = sizeof to.structSize;
    std::memcpy(reinterpret_cast<char *>(&to) + first, reinterpret_cast<const char *>(&from) + first, to.structSize - first);
}

} // namespace vkattn
