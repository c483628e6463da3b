/* The C headers, alone. */
#include <vkattn/cpu.h>
#include <vkattn/operations.h>
#include <vkattn/vkattn.h>
