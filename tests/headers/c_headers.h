/* The C headers, alone. */
#include <vkattn/cpu.h>
#include <vkattn/linear.h>
#include <vkattn/linear_gradient.h>
#include <vkattn/operations.h>
#include <vkattn/vkattn.h>
