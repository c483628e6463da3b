/* vkattn/layer_gradient.h: the backward pass of a layer whole (vkattn/layer.h): the gradients of a loss
 * with respect to X, the context and all that the layer learns. C99 and C++. This header knows no
 * Vulkan and no pointers to data.
 *
 * dT is the gradient of the loss with respect to T; the layer's Y is the result of its product, and Z
 * what it returns. Sums run over the tokens of all batch entries.
 *
 *     dS          = gradient of the norm, from dZ           with VKATTN_NORM_POST; S = X + Y, or Y
 *     dY          = dS with VKATTN_NORM_POST, else dZ; of it what the layer's dropout of Y kept, times
 *                   the factor of that
 *     dA          = dY W_O          dW_O = dY^T A          db_O = sum of dY
 *     dQ, dK, dV  = gradient of attention, from dA (vkattn/gradient.h)
 *     dQ and dK are then turned back by their positions where the layer has tables
 *     dW_Q = dQ^T N        dW_K = dK^T C        dW_V = dV^T C          C: the context, or N
 *     db_Q = sum of dQ     db_K = sum of dK     db_V = sum of dV
 *     dN          = dQ W_Q + dK W_K + dV W_V      with a context dN = dQ W_Q, and
 *     dC          = dK W_K + dV W_V
 *     dX          = gradient of the norm, from dN           with VKATTN_NORM_PRE, else dN;
 *                   plus dZ with the residual, or dS where the norm is VKATTN_NORM_POST
 *
 * A gradient is a few operations of vkattn/operations.h and one of vkattn/gradient.h, which
 * vkattnPlanLayerGradient lists as vkattnPlanLayer lists those of a layer; steps that no gradient needs
 * that is asked for are left out. The steps read what the layer kept (VKATTN_LAYER_KEEPS_STEPS). No sum
 * is taken by atomics, and the bits are the same run after run. Gradients are linear in dZ: with a loss
 * scale (Micikevicius et al. 2018) the host multiplies dZ, and divides all of them where it uses them.
 */
#ifndef VKATTN_LAYER_GRADIENT_H_
#define VKATTN_LAYER_GRADIENT_H_

#include "vkattn/layer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What to compute. Zero-initialise the struct, set structSize, then set the fields that you need. At
 * least one gradient is asked for. Tensors are f32, f16 or bf16 in any mix, of any strides. W_Q, b_Q and
 * their gradients are those of Q, K and V where they are packed. The gradient of a weight or bias has
 * the layer's own extents of it.
 * Roles: VKATTN_D_Y (dZ) and VKATTN_KEPT (read); of the layer VKATTN_X, VKATTN_CONTEXT, VKATTN_WQ,
 * VKATTN_WK, VKATTN_WV, VKATTN_WO, VKATTN_GAMMA, VKATTN_COS, VKATTN_SIN, VKATTN_POSITIONS,
 * VKATTN_STARTS and the roles of its options where a step reads them, which hold what they held then;
 * VKATTN_D_X, VKATTN_D_CONTEXT, VKATTN_D_WQ, VKATTN_D_WK, VKATTN_D_WV, VKATTN_D_WO, VKATTN_D_BQ,
 * VKATTN_D_BK, VKATTN_D_BV, VKATTN_D_BO, VKATTN_D_GAMMA, VKATTN_D_BETA, VKATTN_D_BIAS, VKATTN_D_SINKS,
 * VKATTN_D_SLOPES, VKATTN_D_SCALE, VKATTN_D_SOFTCAP (written), and VKATTN_WORKSPACE. No output overlaps
 * an input or another output.
 * Limits: the layer has VKATTN_LAYER_KEEPS_STEPS and no ragged batch, because a token outside of every
 * sequence has no gradient (documents separate sequences as well); batch * tokens is at least 1 and, for
 * the gradient of a matrix, at most 2^19; and those of each step. */
typedef struct vkattn_layer_gradient {
    uint32_t structSize;
    uint32_t flags;              /* 0 */
    const vkattn_layer *forward; /* read during a call and not kept */
    vkattn_layout dY;            /* dZ: the extents of forward->y */
    vkattn_layout dX;            /* optional, as all that follow: the extents of forward->x */
    vkattn_layout dContext;      /* of forward->context */
    vkattn_layout dWq, dWk, dWv, dWo;
    vkattn_layout dBq, dBk, dBv, dBo;
    vkattn_layout dGamma, dBeta;
    vkattn_layout dBias; /* of forward->options->bias */
    /* VKATTN_PRESENT of VKATTN_D_SINKS, VKATTN_D_SLOPES, VKATTN_D_SCALE and VKATTN_D_SOFTCAP, as
     * vkattn_attention_gradient has them. */
    uint32_t presentRoles;
    vkattn_gradient_kernel kernel; /* of attention */
    /* Element type of dS, dA, dQ, dK, dV and dN between the steps: f32, f16 or bf16. Small gradients
     * vanish in f16: prefer f32 or bf16, or a loss scale. */
    vkattn_dtype stored;
    uint32_t reserved; /* 0 */
} vkattn_layer_gradient;

/* Checks the gradient and its layer, and lists the operations: "norm gradient", "drop", "da", "dwo",
 * "dbo", "attention gradient", "q rotary", "k rotary", "qk rotary", "dwq", "dbq", "dwk", "dbk", "dwv",
 * "dbv", "q dx", "k dx", "v dx" or, with one packed W_Q, "qkv dx", "k dcontext", "v dcontext"; and "x",
 * "context" or "dy", a copy where strides of entries and tokens are not those of one matrix. Set
 * plan->structSize first; *plan is written only on VKATTN_OK. Pure; any thread.
 * Errors: INVALID_ARGUMENT with the reason, and the step where the reason is a step's. */
VKATTN_API vkattn_result vkattnPlanLayerGradient(const vkattn_layer_gradient *gradient, vkattn_layer_plan *plan, vkattn_diagnostic *why);

#ifdef __cplusplus
}
#endif
#endif
