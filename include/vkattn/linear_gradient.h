/* vkattn/linear_gradient.h: the backward pass of linear attention: the gradients of a loss with respect to
 * all that went into a vkattn_linear_attention. C99 and C++. This header knows no Vulkan and no pointers to
 * data.
 *
 * The formulas continue those of vkattn/linear.h, for a batch entry and a state head. dX is the gradient of
 * the loss with respect to X. dS begins as dStateOut, or as 0 without it, and goes back from the last token
 * to the first; f_t is exp(g_t), or 1 without a decay, and R_t = f_t S_(t-1):
 *
 *     at each token t, first of all for the rows i that read after it (p = t), of all heads of out:
 *         recurrent rules       dq_i = scale S_t dOut_i             dS = dS + scale q_i dOut_i^T
 *         features              N_i = dOut_i / D_i,  E_i = - dot(dOut_i, out_i) / D_i,  D_i = z_t^T phi(q_i)
 *                               dphi(q_i) = S_t N_i + z_t E_i       dS = dS + phi(q_i) N_i^T
 *                                                                   dz = dz + phi(q_i) E_i
 *     and then for the token itself:
 *         VKATTN_LINEAR_PLAIN, GATED        dv_t = dS^T k_t    dk_t = dS v_t    dR = dS
 *         VKATTN_LINEAR_FEATURES            dv_t = dS^T phi(k_t)    dphi(k_t) = dS v_t + dz    dR = dS
 *         VKATTN_LINEAR_DELTA, GATED_DELTA  e_t = v_t - R_t^T k_t    u_t = beta_t e_t    du_t = dS^T k_t
 *                                           dv_t = beta_t du_t       dbeta_t = dot(du_t, e_t)
 *                                           dk_t = dS u_t - beta_t R_t du_t
 *                                           dR = dS - beta_t k_t du_t^T
 *         dg_td = sum over the columns of dR_d R_td, summed over d where decay has one number for a head
 *         dS = f_t dR
 *     dStateIn = dS behind the first token
 *
 * Feature maps, with x' as there:
 *
 *     ELU1    dx_r = dphi_r where x_r > 0, exp(x_r) dphi_r elsewhere
 *     RELU    dx = sum over r with omega_r . x > 0 of dphi_r omega_r / sqrt(m); without omega where x_r > 0
 *     FAVOR   dx' = sum over r of w_r (omega_r - x'),  w_r = phi_r dphi_r
 *     FAVOR2  likewise with (- omega_r - x') for the other m features; dx = sqrt(|scale|) dx', of a negative
 *             scale with the other sign for queries
 *
 * omega, scale and epsilon are constants. So is M, the running maximum of FAVOR: it is a scale of what lies
 * beside it, out does not depend on it, and every number here is relative to it, so that none leaves the
 * range of floats. The column of M in dStateOut is not read, and that in dStateIn is 0. A gradient of the
 * state that one call writes as dStateIn is the dStateOut of the call before.
 *
 * A row that sees nothing, or whose denominator is 0, has a dq of exactly 0, and dOut of a row that sees
 * nothing is not read. Tokens from n on have gradients of exactly 0, whatever they hold. What a row does not
 * see never influences its dq, and what does not see a token never influences the token's gradients.
 * Gradients of an operand with fewer heads, or of a decay or write strength that broadcasts, are summed over
 * what shares it, heads of out or of the state in ascending order, batch entries likewise. No sum is taken
 * by atomics: the bits are the same run after run, and at any number of threads.
 *
 * Nothing that the forward pass has computed is read: states are computed anew, from states that are kept
 * now and then, so that memory grows with the square root of the tokens.
 *
 * Mixed precision: as in vkattn/gradient.h. All sums are fp32 or wider; every gradient is divided by
 * lossScale before it is rounded and stored, and the word of VKATTN_NONFINITE becomes 1 where a stored
 * gradient is infinite or NaN.
 */
#ifndef VKATTN_LINEAR_GRADIENT_H_
#define VKATTN_LINEAR_GRADIENT_H_

#include "vkattn/linear.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What to compute. Zero-initialise the struct, set structSize, then set the fields that you need. At least
 * one gradient is asked for.
 * Roles: VKATTN_Q, VKATTN_K, VKATTN_V, VKATTN_DECAY, VKATTN_WRITE_STRENGTH, VKATTN_OMEGA, VKATTN_STATE_IN
 * and VKATTN_KEY_LENGTHS of `forward`, which hold what they held then (stateIn in memory of its own);
 * VKATTN_D_OUT, VKATTN_D_STATE_OUT (read); VKATTN_D_Q, VKATTN_D_K, VKATTN_D_V, VKATTN_D_DECAY,
 * VKATTN_D_WRITE_STRENGTH, VKATTN_D_STATE_IN (written), VKATTN_NONFINITE. No output overlaps an input or
 * another output.
 * Limits: those of vkattn_linear_attention. A decay that does not depend on the token has a gradient for
 * each token, which the host sums up.
 * Vulkan: one slice, whatever forward->sliceCount is. UNSUPPORTED with the reason on a device with fewer than 6 storage
 * buffers a stage, for delta rules with more than 256 key dims, and where a batch entry of an operand or a chunk of all
 * heads is larger than a binding (docs/linear.md); the runtime then falls back to the CPU. */
typedef struct vkattn_linear_gradient {
    uint32_t structSize;
    uint32_t flags;                         /* 0 */
    const vkattn_linear_attention *forward; /* read during a call and not kept */
    vkattn_layout dOut;           /* where forward has out: the extents of out; f32, f16 or bf16 */
    vkattn_layout dStateOut;      /* f32 [batch, stateHeads, rows, columns]; optional where forward has out */
    vkattn_layout dQ;             /* optional, as all that follow: the extents of q; f32, f16 or bf16 */
    vkattn_layout dK;             /* the extents of k */
    vkattn_layout dV;             /* the extents of v */
    vkattn_layout dDecay;         /* the extents of decay */
    vkattn_layout dWriteStrength; /* the extents of writeStrength */
    vkattn_layout dStateIn;       /* f32, the extents of stateIn, which forward has */
    uint32_t presentRoles;        /* VKATTN_PRESENT(VKATTN_NONFINITE), or 0 */
    float lossScale;              /* finite and above 0; 0: 1 */
    uint32_t reserved[2];         /* 0 */
} vkattn_linear_gradient;

#ifdef __cplusplus
}
#endif
#endif
