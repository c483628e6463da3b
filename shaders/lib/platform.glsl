// What every stage begins with.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef VKATTN_FLOAT_CONTROLS
// SignedZeroInfNanPreserve for 32-bit floats: without it Vulkan promises nothing about NaN and
// infinity.
#extension GL_EXT_spirv_intrinsics : require
spirv_execution_mode(extensions = ["SPV_KHR_float_controls"], capabilities = [4466], 4461, 32);
#endif

#include "lib/interop.h"

layout(local_size_x_id = 0) in; // specialization constant 0: invocations per workgroup

bool isNanBits(uint bits) { return (bits & 0x7fffffffu) > 0x7f800000u; }
bool isFiniteBits(uint bits) { return (bits & 0x7f800000u) != 0x7f800000u; }
uint scoreBits(float score) {
    const uint bits = floatBitsToUint(score);
    return isNanBits(bits) ? canonicalNanBits : bits;
}
