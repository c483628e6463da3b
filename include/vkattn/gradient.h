/* vkattn/gradient.h: the backward pass of attention: the gradients of a loss with respect to all that
 * went into a vkattn_problem. C99 and C++. This header knows no Vulkan and no pointers to data.
 *
 * The formulas continue those of vkattn/problem.h, for a pair that is visible. dX is the gradient of
 * the loss with respect to X, z_ij = scale * dot(q_i, k_j), t_ij is the score after softcap and before
 * the bias, and m_i and l_i are the row's statistics (VKATTN_ROW_STATISTICS):
 *
 *     P_ij   = exp(s_ij - m_i) / l_i
 *     dP_ij  = w_ij dot(dOut_i, v_j) + dWeights_ij     w_ij dWeights_ij with VKATTN_WEIGHTS_DROPPED
 *     D_i    = dot(dOut_i, out_i) + sum over j of P_ij dWeights_ij    likewise with w_ij
 *     dS_ij  = P_ij (dP_ij - D_i + dLse_i)
 *     dV_j   = sum over i of w_ij P_ij dOut_i
 *     dz_ij  = dS_ij (1 - (t_ij / softcap)^2)          dS_ij without softcap
 *     dQ_i   = scale * sum over j of dz_ij k_j
 *     dK_j   = scale * sum over i of dz_ij q_i
 *     dBias      = dS_ij, summed over every extent that the bias broadcasts
 *     dSlopes_h  = - sum over the pairs of head h of |j - i'| dS_ij
 *     dSinks_h   = sum over the rows of head h of exp(sink_h - m_i) / l_i (dLse_i - D_i)
 *     dScale     = sum over all pairs of dz_ij dot(q_i, k_j)
 *     dSoftcap   = sum over all pairs of dS_ij (tanh x - x (1 - tanh^2 x)),  x = z_ij / softcap
 *
 * A program (vkattn_program) multiplies dS_ij by vkattnScoreSlope of the score before vkattnScore.
 * What its vkattnProbability makes of 1 stands beside w_ij in dV_j, and in dP_ij before
 * dot(dOut_i, v_j) alone: weights are those before that hook.
 *
 * Sums over i run over the rows of every query head of the key head's group. The recomputing form is
 * that of FlashAttention (Dao et al. 2022, algorithm 4; Dao 2023); here no sum is taken by atomics,
 * and the bits are the same run after run.
 *
 * A row that sees nothing has a dQ of exactly 0 and D_i = 0, and its dOut is never read; with a sink
 * its dLse still reaches dSinks. A key that no row sees has a dK and dV of exactly 0, whatever k and v
 * hold; keys past a key length are such keys. What a pair hides never influences a gradient. A NaN in
 * row i reaches dQ_i and the dK and dV of the keys that row i sees, and dBias, dSlopes, dSinks, dScale
 * and dSoftcap where they sum up row i; nothing else. A dropped pair's dot(dOut_i, v_j) counts as 0,
 * whatever v_j holds. In ragged batches tokens that belong to no sequence keep the bytes that they had
 * in dQ, dK and dV; dBias has zeros for pairs outside a sequence.
 *
 * Mixed precision (Micikevicius et al. 2018). All sums are fp32 or wider. The host multiplies dOut,
 * dLse and dWeights by a loss scale, and sets `lossScale`: every gradient is divided by it before it is
 * rounded and stored. The word of VKATTN_NONFINITE becomes 1 where a stored gradient is infinite or
 * NaN, and otherwise stays as it was.
 */
#ifndef VKATTN_GRADIENT_H_
#define VKATTN_GRADIENT_H_

#include "vkattn/operations.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The Vulkan routine that computes gradients, for comparison, tests and measurement. The CPU ignores
 * the choice. */
typedef enum vkattn_gradient_kernel {
    VKATTN_GRADIENT_AUTO = 0, /* the planner chooses */
    /* Scores and their gradients in the workspace, and a dispatch for each product: four storage
     * buffers. */
    VKATTN_GRADIENT_STAGED = 1,
    /* Two passes over tiles: one owns query rows, one owns keys. Nothing of size queries x keys is in
     * memory. */
    VKATTN_GRADIENT_TILES = 2,
    VKATTN_GRADIENT_COOPMAT = 3, /* likewise, on matrix units, for q, k, v and dOut all f16 or all bf16 */
    VKATTN_GRADIENT_KERNEL_MAX = 0x7fffffff
} vkattn_gradient_kernel;

/* What to compute. Zero-initialise the struct, set structSize, then set the fields that you need. At
 * least one gradient is asked for.
 * Roles: those of `forward`, of which VKATTN_OUT and VKATTN_LSE are read: what the forward pass has
 * stored; VKATTN_WEIGHTS is not bound. VKATTN_D_OUT, VKATTN_D_LSE, VKATTN_D_WEIGHTS (read), VKATTN_D_Q,
 * VKATTN_D_K, VKATTN_D_V, VKATTN_D_BIAS, VKATTN_D_SINKS, VKATTN_D_SLOPES, VKATTN_D_SCALE,
 * VKATTN_D_SOFTCAP (written), VKATTN_NONFINITE. No output overlaps an input or another output.
 * Limits: those of vkattn_problem. `forward` has `out`, has `lse` with VKATTN_ROW_STATISTICS, and has
 * no VKATTN_VALUES_IN_KEYS (give v a layout, bind K's memory to both, and add dV to the first dims of
 * dK). With a sliceCount the backward pass is recorded in as many slices (see "Slices" in vkattn.h),
 * whatever the sliceCount of the forward pass was, and has the bits that it has in one piece. The whole
 * workspace then keeps its contents from the first slice to the last. */
typedef struct vkattn_attention_gradient {
    uint32_t structSize;
    uint32_t flags;                /* 0 */
    const vkattn_problem *forward; /* read during a call and not kept */
    vkattn_layout dOut;            /* the extents of out: f32, f16 or bf16, as all others but dLse */
    vkattn_layout dLse;            /* optional: f32 [batch, heads, queryTokens, 1] */
    vkattn_layout dWeights;        /* optional: [batch, heads, queryTokens, keyTokens] */
    vkattn_layout dQ;              /* optional: the extents of q */
    vkattn_layout dK;              /* optional: the extents of k */
    vkattn_layout dV;              /* optional: the extents of v */
    vkattn_layout dBias;           /* optional: the extents of forward->bias */
    /* VKATTN_PRESENT of VKATTN_D_SINKS, VKATTN_D_SLOPES, VKATTN_D_SCALE, VKATTN_D_SOFTCAP and
     * VKATTN_NONFINITE, where these will be bound. The first two need the arrays in `forward`, and
     * VKATTN_D_SOFTCAP a softcap. */
    uint32_t presentRoles;
    vkattn_gradient_kernel kernel;
    float lossScale;   /* finite and above 0; 0: 1 */
    uint32_t reserved; /* 0 */
} vkattn_attention_gradient;

#ifdef __cplusplus
}
#endif
#endif
