/* vkattn-cpu by pkg-config, linked by a C compiler: no Vulkan in the program at all. */
#include <vkattn/cpu.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#ifdef VULKAN_CORE_H_
#error "vkattn/cpu.h includes Vulkan"
#endif

int main(void) {
    enum { TOKENS = 16, DIM = 4 };
    float q[TOKENS * DIM], k[TOKENS * DIM], v[TOKENS * DIM], out[TOKENS * DIM];
    const vkattn_layout packed = {VKATTN_F32, {1, 1, TOKENS, DIM}, {TOKENS * DIM, TOKENS * DIM, DIM, 1}, 0};
    const vkattn_operand_memory operands[] = {
        {VKATTN_Q, q, sizeof q}, {VKATTN_K, k, sizeof k}, {VKATTN_V, v, sizeof v}, {VKATTN_OUT, out, sizeof out}};
    vkattn_problem problem;
    vkattn_verify_report report;
    vkattn_diagnostic why = {0, ""};
    int n;
    for (n = 0; n < TOKENS * DIM; ++n) q[n] = k[n] = v[n] = (float)sin(n);
    memset(&problem, 0, sizeof problem);
    memset(&report, 0, sizeof report);
    problem.structSize = sizeof problem;
    problem.q = problem.k = problem.v = problem.out = packed;
    if (vkattnCpuRun(&problem, operands, 4, 0, &why) || vkattnCpuVerify(&problem, operands, 4, NULL, &report, &why))
        return printf("%s\n", why.message), 1;
    printf("largest error %g\n", report.maxError);
    return report.passed ? 0 : 1;
}
