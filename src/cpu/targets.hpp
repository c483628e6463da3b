// Which of Highway's targets the kernels are compiled for: to be included before anything of
// Highway's.
#pragma once

// The vectors of these have no size at compile time, and so no place in arrays: such processors
// take NEON, or the scalar target.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
