/* Links vkattn::core and plans a problem for a made-up device: needs no Vulkan on the machine. */
#define VK_NO_PROTOTYPES
#include <vkattn/vkattn.h>

#include <stdio.h>
#include <string.h>

int main(void) {
    vkattn_problem problem;
    vkattn_diagnostic why;
    const vkattn_layout packed = {VKATTN_F32, {1, 2, 16, 8}, {256, 128, 8, 1}, 0};
    memset(&problem, 0, sizeof problem);
    memset(&why, 0, sizeof why);
    problem.structSize = sizeof problem;
    problem.q = problem.k = problem.v = problem.out = packed;
    if (vkattnValidateProblem(&problem, &why) != VKATTN_OK) {
        printf("%s\n", why.message);
        return 1;
    }
    printf("vkattn %u.%u: output of %u bytes\n", (unsigned)(vkattnVersion() >> 22), (unsigned)(vkattnVersion() >> 12 & 1023u),
           (unsigned)vkattnOperandBytes(&problem, VKATTN_OUT));
    return vkattnOperandBytes(&problem, VKATTN_OUT) == 1024 ? 0 : 1;
}
