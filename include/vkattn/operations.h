/* vkattn/operations.h: what surrounds attention in a layer, and attention itself, as operations of
 * one pattern. C99 and C++. This header knows no Vulkan and no pointers to data.
 *
 *     projection   Y = X W^T + bias + residual
 *     norm         Y = layer norm or RMS norm of X + residual
 *     norm gradient  dX, dGamma and dBeta of a norm, from dY
 *     rotary       Y = X with pairs of dims rotated by the token's position
 *     append       Y[start + t] = X[t]: new keys and values into a cache, which may have a small type
 *     merge        Y = attention over all keys, from attention over disjoint parts of them
 *     hadamard     Y = X times a Hadamard matrix, in blocks: rows that a small type holds better
 *     mean         Y = the mean of X over its groups: of the weights of all heads, say
 *     advance      Y = min(X + by, limit): counters of a loop move on, on the device
 *     keep         Y = which elements dropout keeps, as bits
 *     drop         Y = dropout of X + residual: of a layer's output, and its gradient
 *     attention    vkattn/problem.h; its gradients: vkattn/gradient.h; its statistics: vkattn/statistics.h;
 *                  the blocks that it visits: vkattn/visible_blocks.h
 *     linear attention  vkattn/linear.h: feature maps, and states that are read and written token by token
 *                  its gradients: vkattn/linear_gradient.h
 *
 * Every operation has a struct that describes the operation, and the same life: validate, query,
 * prewarm, record, list and explain (vkattn/vkattn.h), run, oracle and verify (vkattn/cpu.h). Each
 * of these calls takes a vkattn_operation, which names the struct. Tensors have four dimensions,
 * strides and an offset as in vkattn/problem.h; dimension 3 is the innermost of the formulas, and
 * dimensions 0 and 1 are a batch of independent cases. All sums are fp32 or wider. Values are
 * converted to f32 on load and rounded to nearest even on store, so that element types mix freely.
 * NaN and infinity in one row of X reach that row of Y and no other row. Words are integers.
 *
 * In place. Y may be the very memory of X (norm, rotary without append, advance, hadamard, drop) or of the
 * residual (projection, norm, drop), and the sum of a norm that of X or the residual, each with the
 * same layout: bind both roles to the same bytes. The outputs of a merge may be its first part. No other
 * overlap of an output is allowed.
 */
#ifndef VKATTN_OPERATIONS_H_
#define VKATTN_OPERATIONS_H_

#include "vkattn/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The Vulkan routine that computes a projection, for comparison, tests and measurement. The CPU
 * ignores the choice. */
typedef enum vkattn_projection_kernel {
    VKATTN_PROJECTION_AUTO = 0,     /* the planner chooses */
    VKATTN_PROJECTION_SHARED = 1,   /* tiles of X and W in shared memory */
    VKATTN_PROJECTION_SHUFFLED = 2, /* rows in lanes, W through subgroup shuffles: CPU devices */
    VKATTN_PROJECTION_FEW = 3,      /* inner dims in lanes: few rows */
    /* Matrix units (VK_KHR_cooperative_matrix), for X and W both f16 or both bf16. AUTO takes them
     * where neither verdict nor measurement speaks against VKATTN_KERNEL_FLASH_COOPMAT. */
    VKATTN_PROJECTION_COOPMAT = 4,
    VKATTN_PROJECTION_MAX = 0x7fffffff
} vkattn_projection_kernel;

/* Y[b, g, m, n] = sum over k of X[b, g, m, k] * W[b, g, n, k]  + bias[b, g, n]
 *                                                              + residual[b, g, m, n]
 * W has a row for each output, as torch.nn.Linear has; a matrix [in, out] is the same memory with
 * swapped strides. One product for each (b, g): batched by stride.
 * Lengths: where VKATTN_KEY_LENGTHS u32 [batch] is present, the sum of batch entry b takes the k below
 * its entry, clamped to `in`. Elements of X and W past that are left out by selection, so that NaN there
 * does not matter; of length 0 the sum is 0. Keys and values whose tokens a matrix projects
 * (Linformer) have their key lengths here: W is a view of them with swapped strides.
 * Roles: VKATTN_X, VKATTN_W, VKATTN_BIAS, VKATTN_RESIDUAL, VKATTN_Y, VKATTN_KEY_LENGTHS.
 * Limits: in and out are at least 1; in is at most 2^19 and out at most 2^24; rows are at most 2^30,
 * and 0 rows are ordinary input; batch * groups * rows * in * out is at most 2^60. */
typedef struct vkattn_projection {
    uint32_t structSize;
    uint32_t flags;         /* VKATTN_DETERMINISTIC: the bits do not depend on the number of rows */
    vkattn_layout x;        /* [batch, groups, rows, in]: f32, f16 or bf16, as all others here */
    vkattn_layout w;        /* [batch or 1, groups or 1, out, in] */
    vkattn_layout bias;     /* optional: [batch or 1, groups or 1, 1, out] */
    vkattn_layout residual; /* optional: [batch, groups, rows, out] */
    vkattn_layout y;        /* [batch, groups, rows, out] */
    vkattn_projection_kernel kernel;
    uint32_t presentRoles; /* the bit of VKATTN_PRESENT for KEY_LENGTHS */
} vkattn_projection;

typedef enum vkattn_norm_kind {
    /* (s - mean) / sqrt(variance + epsilon) * gamma + beta, the variance divided by the number of
     * dims (Ba et al. 2016). */
    VKATTN_LAYER_NORM = 0,
    /* s / sqrt(mean of s^2 + epsilon) * gamma + beta (Zhang and Sennrich 2019). */
    VKATTN_RMS_NORM = 1,
    VKATTN_NORM_KIND_MAX = 0x7fffffff
} vkattn_norm_kind;

/* s = X + residual, rounded to the type of `sum` where that is given; Y = the norm of s over
 * dimension 3. Mean and variance take two passes: E[s^2] - E[s]^2 is never computed, because it
 * cancels where |mean| is large.
 * Roles: VKATTN_X, VKATTN_RESIDUAL, VKATTN_GAMMA, VKATTN_BETA, VKATTN_SUM, VKATTN_Y.
 * Limits: dims lie between 1 and 2^20; rows are at most 2^30, and 0 rows are ordinary input. */
typedef struct vkattn_norm {
    uint32_t structSize;
    uint32_t flags; /* 0 */
    vkattn_norm_kind kind;
    float epsilon;          /* finite, at least 0; 0 is 0. PyTorch's default is 1e-5 */
    vkattn_layout x;        /* [batch, groups, rows, dims] */
    vkattn_layout residual; /* optional: the extents of x */
    vkattn_layout gamma;    /* optional: [1, 1, 1, dims]; absent: 1 */
    vkattn_layout beta;     /* optional: [1, 1, 1, dims]; absent: 0 */
    vkattn_layout sum;      /* optional output: s; the extents of x */
    vkattn_layout y;        /* the extents of x */
} vkattn_norm;

/* The gradients of a norm, whose gradient dY with respect to Y is given. S is what the norm was taken
 * of: X + residual, which vkattn_norm stores as `sum`, or X. For each row, with mean and variance over
 * its dims, sigma = sqrt(variance + epsilon), z = (s - mean) / sigma and g = dY * gamma:
 *     dX = (g - mean(g) - z * mean(g * z)) / sigma        layer norm
 *     dX = (g - z * mean(g * z)) / sigma                  RMS norm: mean is 0, the variance is the mean of s^2
 *     dGamma = sum of dY * z        dBeta = sum of dY     over the rows of all batch entries and groups
 * dX is the gradient with respect to X and to the norm's residual alike. `residual` is added to dX: the
 * gradient that comes past the norm, of a layer Z = X + f(norm(X)). The sums over rows are taken in a
 * fixed order: the bits are the same run after run. A NaN in a row of S or dY reaches that row of dX,
 * dGamma, and of dBeta the dims that have it; one in `residual` its element of dX.
 * Roles: VKATTN_X (S), VKATTN_GAMMA, VKATTN_D_Y, VKATTN_RESIDUAL, VKATTN_D_X, VKATTN_D_GAMMA,
 * VKATTN_D_BETA.
 * Limits: at least one gradient is asked for; a residual needs dX; dims lie between 1 and 2^20, rows
 * between 1 and 2^30. */
typedef struct vkattn_norm_gradient {
    uint32_t structSize;
    uint32_t flags; /* 0 */
    vkattn_norm_kind kind;
    float epsilon;        /* as of the norm */
    vkattn_layout x;      /* S: [batch, groups, rows, dims]; f32, f16 or bf16, as all others here */
    vkattn_layout gamma;  /* optional: [1, 1, 1, dims]; absent: 1 */
    vkattn_layout dY;     /* the extents of x */
    vkattn_layout dX;     /* optional output: the extents of x */
    vkattn_layout dGamma; /* optional output: [1, 1, 1, dims] */
    vkattn_layout dBeta;  /* optional output: [1, 1, 1, dims] */
    /* optional: the extents of x; added to dX, after dX is rounded where that is f16 or bf16 */
    vkattn_layout residual;
} vkattn_norm_gradient;

typedef enum vkattn_rotary_pairs {
    VKATTN_PAIRS_HALF = 0,        /* dims t and t + n/2: GPT-NeoX, Llama in Hugging Face */
    VKATTN_PAIRS_INTERLEAVED = 1, /* dims 2t and 2t + 1: the paper, GPT-J, DeepSeek, llama2.c */
    VKATTN_PAIRS_MAX = 0x7fffffff
} vkattn_rotary_pairs;

/* Options of operations, beside those of vkattn_flag_bits; no value is in both. */
typedef enum vkattn_operation_flag_bits {
    /* Rotary: tokens are also appended. Y is a cache, and token t goes to token start + t. */
    VKATTN_ROTARY_APPEND = 32,
    /* Rotary: turns by the negative angle, which undoes a rotation and is its gradient. */
    VKATTN_ROTARY_INVERSE = 64,
    /* Append: the cache is a ring, whose first token follows its last one. */
    VKATTN_APPEND_RING = 1024,
    VKATTN_OPERATION_FLAGS_MAX = 0x7fffffff
} vkattn_operation_flag_bits;

/* Rotary position embedding (Su et al. 2021). With p the position of token t of batch entry b, c =
 * cos[p, i], s = sin[p, i], and (x0, x1) the pair i of a token:
 *     (x0, x1) -> (x0 c - x1 s, x0 s + x1 c)
 * cos and sin have n/2 columns; the first n dims are rotated, and the rest is copied.
 * Positions: VKATTN_POSITIONS u32 [batch][tokens] where that is present; otherwise start + t, where
 * start is the entry of VKATTN_STARTS u32 [batch] where that is present, and otherwise `start`. A
 * position past the table counts as the table's last row: what a device array says is never
 * trusted. vkattnRotaryTable makes tables.
 * Roles: VKATTN_X, VKATTN_COS, VKATTN_SIN, VKATTN_Y, VKATTN_POSITIONS, VKATTN_STARTS.
 * Limits: dims lie between 2 and 2^16; tokens are at most 2^30. */
typedef struct vkattn_rotary {
    uint32_t structSize;
    uint32_t flags; /* vkattn_operation_flag_bits */
    vkattn_rotary_pairs pairs;
    uint32_t start;
    uint32_t presentRoles; /* bits of VKATTN_PRESENT for POSITIONS and STARTS */
    uint32_t reserved;     /* 0 */
    vkattn_layout x;       /* [batch, heads, tokens, dims] */
    vkattn_layout cos;     /* f32 [1, 1, positions, n/2], at least one position */
    vkattn_layout sin;     /* f32 [1, 1, positions, n/2] */
    /* [batch, heads, tokens, dims]; with ROTARY_APPEND [batch, heads, cache tokens, dims] */
    vkattn_layout y;
} vkattn_rotary;

/* Y[b, h, start + t, d] = X[b, h, t, d], converted to the type of Y. start is the entry of
 * VKATTN_STARTS u32 [batch] where that is present, and otherwise `start`. Tokens past the end of the
 * cache are not written; nor is any other element of Y.
 * Rings. With VKATTN_APPEND_RING token t goes to (start + t) modulo the capacity, which is the tokens of the cache.
 * Of more tokens than that, the last ones are there afterwards. A start from 2^31 on has no place for any token, as
 * without a ring: read as i32 it is negative.
 * Pages. With VKATTN_PAGE_TABLE, Y is a pool of pages that all batch entries share, and the capacity of each is
 * tablePages * page tokens. Token p of batch entry b lies in page table[b][p / page tokens], at its token p modulo
 * page tokens. Where that entry is negative or no page of the pool, nothing is written. [page, token, head, dim]
 * (NHD) and [page, head, token, dim] (HND) are strides of y. Where tokens of one call go to one place, because the
 * table has a page more than once, each element there is that of one of them.
 * Roles: VKATTN_X, VKATTN_Y, VKATTN_STARTS, VKATTN_PAGE_TABLE.
 * Limits: dims lie between 1 and 2^20; tokens are at most 2^30, and 0 tokens are ordinary input; tablePages * page
 * tokens is at most 2^30. */
typedef struct vkattn_append {
    uint32_t structSize;
    uint32_t flags; /* 0 or VKATTN_APPEND_RING */
    uint32_t start;
    uint32_t presentRoles; /* bits of VKATTN_PRESENT for STARTS and PAGE_TABLE */
    vkattn_layout x;       /* [batch, heads, tokens, dims] */
    /* the cache: [batch, heads, cache tokens, dims]; with a page table [pages, heads, page tokens, dims] */
    vkattn_layout y;
    uint32_t tablePages; /* of each batch entry; 0 without a page table */
    uint32_t reserved;   /* 0 */
} vkattn_append;

/* Y[i] = min(X[i] + by, limit), of unsigned 32-bit words. Nothing wraps: a sum past 2^32 gives the
 * limit, as does an X above the limit. A command buffer that is recorded once moves its own lengths,
 * starts and positions on with each replay, so that a decode loop needs no host between its tokens.
 * The result is exact.
 * Roles: VKATTN_X, VKATTN_Y.
 * Limits: there are at most 2^30 words, and 0 words are ordinary input. */
typedef struct vkattn_advance {
    uint32_t structSize;
    uint32_t flags; /* 0 */
    uint32_t by;
    uint32_t limit;  /* 0xffffffff: none */
    vkattn_layout x; /* VKATTN_BITS32 [1, 1, 1, words] */
    vkattn_layout y; /* VKATTN_BITS32 [1, 1, 1, words] */
} vkattn_advance;

/* Y[b, 0, r, d] = (1/G) sum over g of X[b, g, r, d], with G groups: what torch.nn.MultiheadAttention
 * returns for weights with average_attn_weights. Values are divided before they are summed up, in the
 * order of g and 32 at a time, so that the sum of finite values stays finite and the bits do not
 * depend on anything else.
 * Roles: VKATTN_X, VKATTN_Y.
 * Limits: groups and dims are at most 2^20, rows at most 2^30; 0 rows and 0 dims are ordinary
 * input. */
typedef struct vkattn_mean {
    uint32_t structSize;
    uint32_t flags;  /* 0 */
    vkattn_layout x; /* [batch, groups, rows, dims]: f32, f16 or bf16, as y */
    vkattn_layout y; /* [batch, 1, rows, dims] */
} vkattn_mean;

/* Y: which elements dropout keeps. Bit j mod 32 (0 is the lowest) of word floor(j / 32) of row i of
 * batch entry b and group h is vkattnDropoutKeeps(probability, seed, offset, b * groups + h, i, j), and
 * 0 where j is no column. So Y is the bit mask (VKATTN_BIT_MASK) of the pairs that attention with this
 * dropout keeps, with a group for each query head, a row for each query and a column for each key; and
 * what the dropout of a layer's output keeps, with one group and a column for each feature. A test or
 * another framework takes the library's dropout from here. The result is exact.
 * Roles: VKATTN_Y.
 * Limits: rows and columns are at most 2^30, and 0 of either are ordinary input; batch * groups is less
 * than 2^32. */
typedef struct vkattn_keep {
    uint32_t structSize;
    uint32_t flags;     /* 0 */
    double probability; /* that an element is dropped, 0 to 1: vkattn_problem::dropout */
    uint64_t seed;      /* vkattn_problem::dropoutSeed */
    uint32_t offset;    /* vkattn_problem::dropoutOffset */
    uint32_t columns;   /* keys, or features */
    vkattn_layout y;    /* VKATTN_BITS32 [batch, groups, rows, ceil(columns / 32)] */
} vkattn_keep;

/* Inverted dropout of a layer's output (Srivastava et al. 2014; Vaswani et al. 2017, section 5.4):
 *     Y[b, g, i, j] = residual[b, g, i, j] + w X[b, g, i, j]
 * w is r where vkattnDropoutKeeps(probability, seed, offset, plane, firstRow + i, j) with plane =
 * firstPlane + b * groups + g, and 0 elsewhere. r = 2^32 / (2^32 - T), T = round(probability * 2^32).
 * An element is dropped by selection: its NaN or infinity does not reach Y. Of probability 0, Y is X,
 * or the sum of both, and no random number is drawn; of probability 1, Y is 0, or the residual.
 * The operation is its own backward pass: the gradient with respect to X is this operation of the
 * gradient with respect to Y, without the residual and with the same probability, seed and offset.
 * The gradient with respect to the residual is that with respect to Y itself.
 * A part of a tensor draws what the whole draws there: firstPlane and firstRow say where it lies.
 * Roles: VKATTN_X, VKATTN_RESIDUAL, VKATTN_Y.
 * Limits: columns are at most 2^20, rows and firstRow at most 2^30, and 0 rows or columns are
 * ordinary input; firstPlane + batch * groups is less than 2^32. */
typedef struct vkattn_drop {
    uint32_t structSize;
    uint32_t flags;         /* 0 */
    double probability;     /* that an element is dropped, 0 to 1 */
    uint64_t seed;          /* as vkattn_problem::dropoutSeed */
    uint32_t offset;        /* another one for each call site and each step of training */
    uint32_t firstRow;      /* of x in the tensor that x is a part of */
    uint32_t firstPlane;    /* likewise, of its first batch entry and group: b * groups + g there */
    uint32_t reserved;      /* 0 */
    vkattn_layout x;        /* [batch, groups, rows, columns]: f32, f16 or bf16, as the others here */
    vkattn_layout residual; /* optional: the extents of x */
    vkattn_layout y;        /* the extents of x */
} vkattn_drop;

/* Attention over disjoint parts of the keys, put together: with T parts, each with out_t and lse_t (VKATTN_OUT and
 * VKATTN_LSE of its attention), for each row
 *     m    = max over t of lse_t
 *     w_t  = exp(lse_t - m)
 *     Y    = sum over t of w_t out_t / sum over t of w_t
 *     lse  = m + ln(sum over t of w_t)
 * which is attention over the keys of all parts. A part whose lse is -inf saw nothing: it is ignored, whatever its
 * out holds. Where all are, Y is 0 and lse -inf. An lse that is NaN or +inf makes its row NaN, Y and lse, and no
 * other row. A sink may take part in one of the parts only, and dropout in all of them. That no key is in two parts
 * is the caller's duty.
 * Logarithms are natural, as those of VKATTN_LSE and of FlexAttention. FlashInfer's are base 2: multiply those by
 * ln 2 first.
 * Parts lie one after the other in X as batch entries do: entry t * batch + b of X and of X_LSE is batch entry b of
 * part t. Attention writes a part there where its out and lse are bound at the part's offset. Where the batch is 1,
 * the stride of dimension 0 is the distance of two parts, of which other dims may lie between: FlashInfer's [token,
 * part, head, dim] is a matter of strides.
 * Y may be part 0 of X, and lse part 0 of X_LSE, with the same strides: bind both roles to the same bytes. Two
 * parts that take turns with attention are a running result, as ring attention has it.
 * On Vulkan a merge is one dispatch where one row of all parts fits in maxStorageBufferRange; where it does not, the
 * device is unsupported: merge fewer parts at a time.
 * Roles: VKATTN_X, VKATTN_X_LSE, VKATTN_Y, VKATTN_LSE.
 * Limits: parts lie between 1 and 256, dims between 1 and 2^16; rows are at most 2^30, and 0 rows are ordinary
 * input. */
typedef struct vkattn_merge {
    uint32_t structSize;
    uint32_t flags; /* 0 */
    uint32_t parts;
    uint32_t reserved;   /* 0 */
    vkattn_layout x;     /* [parts * batch, heads, tokens, dims]: f32, f16 or bf16, as y */
    vkattn_layout xLse;  /* f32 [parts * batch, heads, tokens, 1] */
    vkattn_layout y;     /* [batch, heads, tokens, dims] */
    vkattn_layout lse;   /* optional output: f32 [batch, heads, tokens, 1] */
} vkattn_merge;

/* Y = X H: each block of neighbouring dims of a row times the Hadamard matrix of its size, over the root of the size:
 *     Y[.., n + i] = block^(-1/2) sum over j < block of (-1)^(bits that i and j share) X[.., n + j]
 * for n = 0, block, 2 block, ... (Sylvester's order). H is orthogonal and its own inverse. So scores are as before where
 * both queries and keys are rotated, and the values of a rotated cache come back where the result of attention is rotated
 * once more. What an outlier was is then spread over its block, which small types of caches hold better (QuaRot, Ashkboos
 * et al. 2024): rotate new keys and values on their way to vkattn_append, the queries before attention and out behind it.
 * A block that holds NaN or infinity becomes one of them throughout.
 * Y may be the very memory of X. Roles: VKATTN_X, VKATTN_Y.
 * Limits: dims lie between 2 and 2^16 and are even; rows are at most 2^30, and 0 rows are ordinary input. */
typedef struct vkattn_hadamard {
    uint32_t structSize;
    uint32_t flags;    /* 0 */
    uint32_t block;    /* a power of two from 2 to 1024 that divides the dims; 0: the largest */
    uint32_t reserved; /* 0 */
    vkattn_layout x;   /* [batch, groups, rows, dims]: f32, f16 or bf16, as y */
    vkattn_layout y;   /* the extents of x */
} vkattn_hadamard;

typedef enum vkattn_operation_kind {
    VKATTN_ATTENTION = 0,
    VKATTN_PROJECTION = 1,
    VKATTN_NORM = 2,
    VKATTN_ROTARY = 3,
    VKATTN_APPEND = 4,
    VKATTN_ADVANCE = 5,
    VKATTN_MEAN = 6,
    VKATTN_KEEP = 7,
    VKATTN_ATTENTION_GRADIENT = 8, /* vkattn/gradient.h */
    VKATTN_NORM_GRADIENT = 9,
    VKATTN_DROP = 10,
    VKATTN_ATTENTION_STATISTICS = 11, /* vkattn/statistics.h */
    VKATTN_VISIBLE_BLOCKS = 12,       /* vkattn/visible_blocks.h */
    VKATTN_LINEAR_ATTENTION = 13,     /* vkattn/linear.h */
    VKATTN_LINEAR_ATTENTION_GRADIENT = 14, /* vkattn/linear_gradient.h */
    VKATTN_MERGE = 15,
    VKATTN_HADAMARD = 16,
    VKATTN_OPERATION_KIND_MAX = 0x7fffffff
} vkattn_operation_kind;

/* Names the description of one operation. The pointer is read during a call and not kept. */
typedef struct vkattn_operation {
    vkattn_operation_kind kind;
    union {
        const vkattn_problem *attention;
        const vkattn_projection *projection;
        const vkattn_norm *norm;
        const vkattn_rotary *rotary;
        const vkattn_append *append;
        const vkattn_advance *advance;
        const vkattn_mean *mean;
        const vkattn_keep *keep;
        const struct vkattn_attention_gradient *attentionGradient;
        const vkattn_norm_gradient *normGradient;
        const vkattn_drop *drop;
        const struct vkattn_attention_statistics *attentionStatistics;
        const struct vkattn_visible_blocks *visibleBlocks;
        const struct vkattn_linear_attention *linearAttention;
        const struct vkattn_linear_gradient *linearGradient;
        const vkattn_merge *merge;
        const vkattn_hadamard *hadamard;
    } of;
} vkattn_operation;

/* Returns "attention", "projection", ..., in static storage; NULL for a value that is no kind. */
VKATTN_API const char *vkattnOperationName(vkattn_operation_kind kind);

/* Checks `operation` against every rule of this header, or of vkattn/problem.h. Returns VKATTN_OK,
 * or VKATTN_ERROR_INVALID_ARGUMENT with the reason in *why. Pure; any thread. */
VKATTN_API vkattn_result vkattnValidateOperation(const vkattn_operation *operation, vkattn_diagnostic *why);

/* As vkattnOperandBytes: the bytes that must exist from the start of the memory bound to `role` to
 * the end of its last element; 0 for a role that the operation does not use, and for an invalid
 * operation. Pure; any thread. */
VKATTN_API uint64_t vkattnOperationBytes(const vkattn_operation *operation, vkattn_role role);

/* What an operation does with the memory of one role. */
typedef struct vkattn_operand_use {
    vkattn_role role;
    uint32_t writes; /* 1: an output; 0: only read */
    /* The bytes from the first element to the end of the last, from the start of the role's memory.
     * Equal where the operand has no element. */
    uint64_t beginBytes, endBytes;
} vkattn_operand_use;

/* Lists the roles that the operation uses, without the workspace, in no particular order: what a
 * host needs that places barriers of its own. Writes at most `capacity` of them to `out`, and returns
 * how many there are, at most VKATTN_ROLE_LIMIT; 0 for an invalid operation. Pure; any thread. */
VKATTN_API uint32_t vkattnOperandUses(const vkattn_operation *operation, vkattn_operand_use *out, uint32_t capacity);

/* Writes the tables of rotary embedding: cosine and sine of p * base^(-2i/n) for 0 <= p < positions
 * and 0 <= i < n/2, [positions][n/2] each, computed in double precision. fp32 would be off by 1e-3
 * at position 100,000. Position 0 is the identity, and frequencies fall from 1.
 * Errors: INVALID_ARGUMENT (n odd, 0 or over 2^16; base not finite or not above 0; positions over
 * 2^30; a NULL). Pure; any thread. */
VKATTN_API vkattn_result vkattnRotaryTable(uint32_t positions, uint32_t n, double base, float *cos, float *sin, vkattn_diagnostic *why);

/* Writes sinusoidal position encodings (Vaswani et al. 2017) of positions start to start + count -
 * 1, [count][dims]: sin(p * base^(-2i/dims)) at dim 2i and the cosine of the same at dim 2i + 1.
 * Errors: INVALID_ARGUMENT (dims 0 or over 2^20; base as above; a NULL). Pure; any thread. */
VKATTN_API vkattn_result vkattnSinusoids(uint32_t start, uint32_t count, uint32_t dims, double base, float *out, vkattn_diagnostic *why);

#ifdef __cplusplus
}
#endif
#endif
