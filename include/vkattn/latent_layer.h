/* vkattn/latent_layer.h: multi-head latent attention (MLA) whole, from X and the weight matrices to
 * the layer's output (DeepSeek-V2 2024, section 2.1; DeepSeek-V3). C99 and C++. This header knows no
 * Vulkan and no pointers to data.
 *
 *     c_q = RMS(X W_DQ^T)                  the latent of the queries; without W_DQ: X
 *     [q_n,h ; q_r,h] = c_q W_UQ^T         of each head h; q_r,h is rotated by the token's position
 *     [c ; k_r] = X W_DKV^T                c is RMS-normed; k_r is rotated, and is of all heads
 *     the cache takes [c ; k_r]: latent + rope numbers a token
 *     [k_n,h ; v_h] = c W_UKV^T            of each head
 *     s_h = scale (q_n,h . k_n,h + q_r,h . k_r)
 *     Y = concat over h of (softmax(s_h) v_h) W_O^T (+ X)
 *
 * The two forms compute the same. VKATTN_LATENT_ABSORBED never makes keys and values. With W_UK,h
 * the rows of W_UKV that make k_n,h, and W_UV,h those that make v_h,
 *     s_h = scale [W_UK,h^T q_n,h ; q_r,h] . [c ; k_r]
 *     softmax(s_h) v_h = (softmax(s_h) c) W_UV,h^T
 * which is attention of all heads on one key head, of head dim latent + rope and value dim latent,
 * whose values are the first dims of its keys (VKATTN_VALUES_IN_KEYS). VKATTN_LATENT_NAIVE makes keys
 * of nope + rope dims and values of value dims for each head.
 */
#ifndef VKATTN_LATENT_LAYER_H_
#define VKATTN_LATENT_LAYER_H_

#include "vkattn/layer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum vkattn_latent_form {
    /* The form with fewer multiply-adds: with n tokens, m keys, and the dims of the struct below,
     *     absorbed  n m (2 latent + rope) + n latent (nope + value)
     *     naive     n m (nope + rope + value) + m latent (nope + value)          for each head. */
    VKATTN_LATENT_AUTO = 0,
    VKATTN_LATENT_ABSORBED = 1, /* decode: few tokens, many keys */
    VKATTN_LATENT_NAIVE = 2,    /* prefill: many tokens */
    VKATTN_LATENT_FORM_MAX = 0x7fffffff
} vkattn_latent_form;

/* What to compute. Zero-initialise the struct, set structSize, then set the fields that you need.
 * Tensors are f32, f16 or bf16 in any mix, of any strides; W_UKV has no stride of 0. latent = rows of
 * W_DKV - rope.
 * Without a cache the keys are those of the tokens of X. With a cache its tokens are the keys:
 * tokens of X are appended from `start` on (VKATTN_STARTS u32 [batch] where that is present), and
 * VKATTN_KEY_LENGTHS of the options says how many are there then. Positions are those of
 * vkattn_rotary.
 * f16 may overflow in W_UK,h^T q_n,h, a sum that no softmax scales: prefer bf16 or f32 as `stored`.
 * Roles: VKATTN_X, VKATTN_WDQ, VKATTN_GAMMA_Q, VKATTN_WQ (W_UQ), VKATTN_WDKV, VKATTN_GAMMA,
 * VKATTN_WUKV, VKATTN_WO, VKATTN_COS, VKATTN_SIN, VKATTN_CACHE, VKATTN_Y, VKATTN_POSITIONS,
 * VKATTN_STARTS, the roles of the options, and VKATTN_WORKSPACE.
 * Limits: heads lie between 1 and 2^20; nope, rope and value are at least 1, and rope is even; each
 * tensor between steps has at most 2^50 numbers; and those of each step. */
typedef struct vkattn_latent_layer {
    uint32_t structSize;
    uint32_t flags; /* 0 or VKATTN_LAYER_RESIDUAL */
    uint32_t heads;
    uint32_t nope;  /* dims of a query and key that are not rotated */
    uint32_t rope;  /* dims that are rotated */
    uint32_t value; /* dims of a head's values */
    vkattn_latent_form form;
    vkattn_rotary_pairs pairs; /* DeepSeek's are VKATTN_PAIRS_INTERLEAVED */
    float epsilon;             /* of both RMS norms: finite, at least 0; DeepSeek's is 1e-6 */
    vkattn_dtype stored;       /* element type of what lies between the steps: f32, f16 or bf16 */
    uint32_t start;            /* the first token's position, and its place in the cache */
    uint32_t presentRoles;     /* bits of VKATTN_PRESENT for POSITIONS and STARTS */
    vkattn_layout x;           /* [batch, 1, tokens, model] */
    vkattn_layout wdq;         /* optional: [1, 1, query latent, model] */
    vkattn_layout gammaQ;      /* optional, with wdq: [1, 1, 1, query latent]; absent: 1 */
    vkattn_layout wuq;         /* [1, 1, heads * (nope + rope), query latent or model] */
    vkattn_layout wdkv;        /* [1, 1, latent + rope, model]: c first, as in kv_a_proj_with_mqa */
    vkattn_layout gamma;       /* optional: [1, 1, 1, latent]; absent: 1 */
    /* [1, 1, heads * (nope + value), latent]: of a head k_n first, as in kv_b_proj */
    vkattn_layout wukv;
    vkattn_layout wo;       /* [1, 1, out, heads * value] */
    vkattn_layout cos, sin; /* f32 [1, 1, positions, rope / 2]: vkattnRotaryTable */
    vkattn_layout cache;    /* optional: [batch, 1, cache tokens, latent + rope] */
    vkattn_layout y;        /* [batch, 1, tokens, out] */
    /* Options of the attention, or NULL, as in vkattn_layer. Without VKATTN_SCALE the scale is
     * (nope + rope)^-1/2. The pointer is read during a call and not kept. */
    const vkattn_problem *options;
} vkattn_latent_layer;

/* Checks the layer, and lists its operations: "dq", "q norm", "uq", "dkv", "kv norm", "append", "k
 * rotary", "q rotary", "absorb" or "uk", "spread" and "uv", "attention", "v" where absorbed, and
 * "out". Set plan->structSize first; *plan is written only on VKATTN_OK. Pure; any thread.
 * Errors: INVALID_ARGUMENT with the reason, and the step where the reason is a step's. */
VKATTN_API vkattn_result vkattnPlanLatentLayer(const vkattn_latent_layer *layer, vkattn_layer_plan *plan, vkattn_diagnostic *why);

#ifdef __cplusplus
}
#endif
#endif
