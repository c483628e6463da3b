// The Highway targets that the kernels are compiled for. Include this header before any of
// Highway's.
#pragma once

// With the checks of AddressSanitizer each target takes GCC minutes more: the widest vectors and none
// at all are left.
#if defined(__SANITIZE_ADDRESS__)
#define VKATTN_TARGETS_LEFT_OUT (HWY_SSSE3 | HWY_SSE4)
#else
#define VKATTN_TARGETS_LEFT_OUT 0
#endif

// The vectors of these targets have no size at compile time, and so no place in arrays. Processors
// with such vectors take NEON, or the scalar target.
#define HWY_DISABLED_TARGETS (VKATTN_TARGETS_LEFT_OUT | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
