// The Highway targets that the kernels are compiled for. Include this header before any of
// Highway's.
#pragma once

// The vectors of these targets have no size at compile time, and so no place in arrays. Processors
// with such vectors take NEON, or the scalar target.
#if defined(__SANITIZE_ADDRESS__)
// With its checks each target takes GCC minutes more: the widest vectors and none at all are left.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#else
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
