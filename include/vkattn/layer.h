/* vkattn/layer.h: multi-head attention whole, from X and the weight matrices to the layer's output
 * (Vaswani et al. 2017, section 3.2.2). C99 and C++. This header knows no Vulkan and no pointers to
 * data.
 *
 *     N = norm(X) with VKATTN_NORM_PRE, else X
 *     Q = N W_Q^T + b_Q        K = C W_K^T + b_K        V = C W_V^T + b_V     C: the context, or N
 *     Q and K are then turned by their positions where the layer has tables (Su et al. 2021)
 *     A = attention(Q, K, V, every option of vkattn_problem)
 *     Y = A W_O^T + b_O, and then dropout of Y (vkattn_drop) with outputDropout
 *     Z = norm(X + Y) with VKATTN_NORM_POST (Vaswani et al.), else X + Y; without the residual
 *         norm(Y) and Y
 *
 * A layer is a few operations of vkattn/operations.h and one attention, which vkattnPlanLayer lists
 * in their order with the memory of each. Whoever runs the operations runs the layer:
 * vkattnRecordLayer (vkattn/vkattn.h) into a command buffer, OperationList (vkattn/list.hpp) on a
 * Runtime's device or CPU. Each of them can be verified alone, on the inputs that it really had.
 */
#ifndef VKATTN_LAYER_H_
#define VKATTN_LAYER_H_

#include "vkattn/gradient.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum vkattn_norm_place {
    VKATTN_NORM_NONE = 0,
    VKATTN_NORM_POST = 1, /* Z = norm(X + Y) */
    VKATTN_NORM_PRE = 2,  /* the projections take norm(X) (Xiong et al. 2020); never a context */
    VKATTN_NORM_PLACE_MAX = 0x7fffffff
} vkattn_norm_place;

/* Options of a layer. */
typedef enum vkattn_layer_flag_bits {
    VKATTN_LAYER_RESIDUAL = 1, /* adds X: W_O has as many rows as X has dims */
    /* options->weights is [batch, 1, tokens, key tokens]: the mean over the heads, as
     * torch.nn.MultiheadAttention returns weights by default. The weights of the heads are f32
     * between the steps. Not with a ragged batch, in which some pairs have no weights. */
    VKATTN_LAYER_AVERAGED_WEIGHTS = 2,
    /* What the backward pass (vkattn/layer_gradient.h) reads of the steps goes to the memory of
     * VKATTN_KEPT, vkattn_layer_plan::keptBytes of it: norm(X), Q, K and V as attention reads them, A, the
     * statistics of the rows, and X + Y, which is then rounded to `stored` before its norm. The layer is
     * recorded in one part. The options have no `lse`. */
    VKATTN_LAYER_KEEPS_STEPS = 4,
    VKATTN_LAYER_FLAGS_MAX = 0x7fffffff
} vkattn_layer_flag_bits;

/* What to compute. Zero-initialise the struct, set structSize, then set the fields that you need.
 * Tensors are f32, f16 or bf16 in any mix, of any strides. Weights have a row for each output, as
 * torch.nn.Linear has; a matrix [in, out] is the same memory with swapped strides. head dim =
 * rows of W_Q / heads, value dim = rows of W_V / kvHeads.
 * One packed matrix for Q, K and V (PyTorch's in_proj_weight) is `wq` with wk and wv absent: heads *
 * dim rows for Q, then kvHeads * dim for K and as many for V, which are one product; and bq their
 * biases. A context takes separate matrices.
 * Roles: VKATTN_X, VKATTN_CONTEXT, VKATTN_WQ, VKATTN_WK, VKATTN_WV, VKATTN_WO, VKATTN_BQ, VKATTN_BK,
 * VKATTN_BV, VKATTN_BO, VKATTN_GAMMA, VKATTN_BETA, VKATTN_COS, VKATTN_SIN, VKATTN_POSITIONS,
 * VKATTN_STARTS, VKATTN_Y, VKATTN_KEPT, the roles of the options, and VKATTN_WORKSPACE.
 * Limits: heads lie between 1 and 2^20; batch * tokens * dims of each tensor between steps is at
 * most 2^50; and those of each step. */
typedef struct vkattn_layer {
    uint32_t structSize;
    uint32_t flags; /* vkattn_layer_flag_bits */
    uint32_t heads;
    uint32_t kvHeads; /* divides heads; 0: heads */
    vkattn_norm_place place;
    vkattn_norm_kind norm;
    float epsilon;                /* of the norm: finite, at least 0 */
    vkattn_dtype stored;          /* element type of Q, K, V, A and Y between the steps: f32, f16 or bf16 */
    vkattn_layout x;              /* [batch, 1, tokens, model] */
    vkattn_layout context;        /* optional: [batch, 1, key tokens, its model] */
    vkattn_layout wq;             /* [1, 1, heads * dim, model] */
    vkattn_layout wk;             /* [1, 1, kvHeads * dim, model of the context] */
    vkattn_layout wv;             /* [1, 1, kvHeads * value dim, model of the context] */
    vkattn_layout wo;             /* [1, 1, out, heads * value dim] */
    vkattn_layout bq, bk, bv, bo; /* optional: [1, 1, 1, rows of the matrix] */
    vkattn_layout gamma, beta;    /* with a norm, optional: [1, 1, 1, dims of what is normed] */
    vkattn_layout y;              /* Z: [batch, 1, tokens, out] */
    /* Options of the attention, or NULL: everything of vkattn_problem but structSize and the layouts
     * of q, k, v and out, and sliceCount, which is 0 or 1. The pointer is read during a call and not
     * kept. */
    const vkattn_problem *options;
    /* Rotary position embedding of Q and K, as vkattn_rotary has it, of the first n dims of each
     * head; absent: none. Not with a context, whose tokens have positions of their own. */
    vkattn_layout cos, sin; /* f32 [1, 1, positions, n / 2]: vkattnRotaryTable */
    vkattn_rotary_pairs pairs;
    uint32_t start;        /* the first token's position */
    uint32_t presentRoles; /* bits of VKATTN_PRESENT for POSITIONS and STARTS */
    /* Dropout of Y before the residual, as vkattn_drop has it: planes are the batch entries of x, rows
     * its tokens. Seed and offset are 0 without dropout, and not both those of the options' dropout:
     * each call site has an offset of its own. */
    uint32_t outputDropoutOffset;
    double outputDropout; /* the probability that an element is dropped, 0 to 1; 0: no dropout */
    uint64_t outputDropoutSeed;
} vkattn_layer;

#define VKATTN_LAYER_STEPS 24
#define VKATTN_LAYER_OPERANDS 28

/* One operation of a layer, or of its gradient. */
typedef struct vkattn_layer_step {
    /* Static storage: "norm", "q", "k", "v", "qkv", "q rotary", "k rotary", "qk rotary", "attention",
     * "weights", "out", "drop". */
    const char *name;
    vkattn_operation operation;
    /* The memory of the operation's roles: `from` is a role of the layer, VKATTN_KEPT among them, or
     * VKATTN_WORKSPACE for what lies between steps. Layouts count from the first byte of that memory. */
    struct vkattn_layer_operand {
        vkattn_role role, from;
    } operands[VKATTN_LAYER_OPERANDS];
    uint32_t operandCount;
    /* 1: what the steps before have written must be visible to this one. */
    uint32_t barrierBefore;
} vkattn_layer_step;

/* The operations of a layer, in their order. Steps point into the struct: do not copy the struct. */
typedef struct vkattn_layer_plan {
    uint32_t structSize;
    uint32_t stepCount;
    vkattn_layer_step steps[VKATTN_LAYER_STEPS];
    uint64_t betweenBytes; /* of the workspace, from its first byte: what lies between steps */
    uint64_t keptBytes;    /* of the memory of VKATTN_KEPT, which a layer that keeps its steps writes */
    vkattn_projection projections[9];
    vkattn_norm norms[2];
    vkattn_norm_gradient normGradients[6];
    vkattn_rotary rotaries[2];
    vkattn_append appends[3];
    vkattn_mean mean;
    vkattn_drop drop;
    vkattn_problem attention; /* of a gradient: the forward pass */
    vkattn_attention_gradient attentionGradient;
} vkattn_layer_plan;

/* Checks the layer, and lists its operations. Set plan->structSize first; *plan is written only on
 * VKATTN_OK. Pure; any thread.
 * Errors: INVALID_ARGUMENT with the reason, and the step where the reason is a step's. */
VKATTN_API vkattn_result vkattnPlanLayer(const vkattn_layer *layer, vkattn_layer_plan *plan, vkattn_diagnostic *why);

#ifdef __cplusplus
}
#endif
#endif
