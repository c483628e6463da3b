/* volk as one translation unit. */
#include <volk.c>
