/* The public C headers compile as C99 on their own, without prototypes. */
#define VK_NO_PROTOTYPES
#include "vkattn/cpu.h"
#include "vkattn/problem.h"
#include "vkattn/vkattn.h"

uint32_t versionSeenFromC(void) {
    return vkattnVersion();
}
int zeroedProblemIsRejectedFromC(void) {
    vkattn_problem problem = {0};
    vkattn_diagnostic why = {0};
    return vkattnValidateProblem(&problem, &why) == VKATTN_ERROR_INVALID_ARGUMENT && why.message[0] != 0;
}
