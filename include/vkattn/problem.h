/* vkattn/problem.h: what to compute. No Vulkan and no pointers, so that the planner, the CPU and
 * any host's own rendering layer share one description. C99 and C++.
 *
 * With query q, key k, value v, for batch entry b, query head h and query token i (numerics:
 * docs/numerics.md):
 *
 *     i'      = i                                      VKATTN_ALIGN_TOP_LEFT
 *     i'      = i + keyTokens - queryTokens            otherwise: the last query sees the last key (FlashAttention's rule)
 *     s_ij    = scale * dot(q_i, k_j)
 *     s_ij    = softcap * tanh(s_ij / softcap)         where softcap > 0
 *     s_ij    = s_ij + bias_ij                         where a bias is given
 *     s_ij    = s_ij - slope_h * |j - i'|              where ALiBi slopes are given (Press et al. 2021)
 *     visible : j <= i'                                VKATTN_CAUSAL
 *               i' - windowLeft <= j <= i' + windowRight   VKATTN_WINDOW
 *               mask_ij != 0, bit mask_ij = 1, bias_ij != -inf, document of i = document of j, j < keyTokens
 *     D_i     = sum over visible j of exp(s_ij)  + exp(sink_h) where attention sinks are given
 *     out_i   = sum over visible j of exp(s_ij) / D_i v_j    (exactly 0 where nothing is visible)
 *     lse_i   = ln D_i                                       (where nothing is visible: the sink, or -inf without one)
 *     weights_ij = exp(s_ij) / D_i, exactly 0 where hidden
 *
 * (computed with the row's maximum, sink included, subtracted from every exponent).
 *
 * queryTokens is q.extent[2]; keyTokens is k.extent[2], or the entry of VKATTN_KEY_LENGTHS for that
 * batch, clamped to it. Keys and values that are hidden from a query never influence it, whatever
 * they hold (NaN and infinity included). All sums are fp32 or wider.
 *
 * Ragged batches (VKATTN_CU_SEQ_Q and VKATTN_CU_SEQ_K present, as FlashAttention's varlen calls):
 * sequences of different lengths lie one after the other in q, k, v, out and lse, whose batch
 * extent is 1 and whose token extents are the totals. Sequence b has queries cuQ[b] <= t <
 * cuQ[b + 1] and keys cuK[b] <= t < cuK[b + 1]; i and j count from its start, and queryTokens and
 * keyTokens in the formulas are its own. Wherever this header says batch, read sequence: bias,
 * masks and weights are [sequences, heads, maxSeqQ, maxSeqK] (weights of pairs outside a sequence
 * are left as they were, and so is any row of out and lse that belongs to no sequence). The arrays
 * are data on the device and never trusted: each entry counts as the largest up to and including
 * it, clamped to the total, and a sequence longer than maxSeqQ or maxSeqK counts as cut off there.
 */
#ifndef VKATTN_PROBLEM_H_
#define VKATTN_PROBLEM_H_

#include <stdint.h>

/* VKATTN_SHARED is defined for shared libraries and for whoever links them (the CMake package
 * and pkg-config do that), VKATTN_BUILDING only while they are compiled. A static library is
 * exported from nothing that it is linked into: two plugins with a copy each do not meet. */
#ifndef VKATTN_API
#if !defined(VKATTN_SHARED)
#define VKATTN_API
#elif !defined(_WIN32)
#define VKATTN_API __attribute__((visibility("default")))
#elif defined(VKATTN_BUILDING)
#define VKATTN_API __declspec(dllexport)
#else
#define VKATTN_API __declspec(dllimport)
#endif
#endif

/* Marks what is experimental: its interface may change in any version, and it has been tested
 * less widely than the rest. Define it before these headers are included, as
 * __attribute__((deprecated)) or [[deprecated]] say, and the compiler names every use. */
#ifndef VKATTN_EXPERIMENTAL
#define VKATTN_EXPERIMENTAL
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* As in VkResult, values below zero are errors. */
typedef enum vkattn_result {
    VKATTN_OK = 0,
    /* A pipeline is not compiled yet and compiling was not allowed: prewarm. */
    VKATTN_NOT_READY = 1,
    /* Of another library, device or driver, or damaged; the diagnostic says which: go on without
       it. */
    VKATTN_CACHE_REJECTED = 2,
    VKATTN_ERROR_INVALID_ARGUMENT = -1, /* the call breaks a rule stated in these headers */
    /* Valid, but not on this device; the diagnostic says which limit or feature. */
    VKATTN_ERROR_UNSUPPORTED = -2,
    VKATTN_ERROR_OUT_OF_HOST_MEMORY = -3,
    VKATTN_ERROR_OUT_OF_DEVICE_MEMORY = -4,
    VKATTN_ERROR_DEVICE_LOST = -5,
    VKATTN_ERROR_VULKAN = -6, /* another Vulkan error: diagnostic.vkResult has it */
    VKATTN_RESULT_MAX = 0x7fffffff
} vkattn_result;

/* Why a call failed. Owned by the caller; a pointer to one may always be NULL. Written when a
 * call returns anything but VKATTN_OK, and where the call's own comment says so. */
typedef struct vkattn_diagnostic {
    int32_t vkResult;  /* the VkResult behind the failure, 0 where there was none */
    char message[508]; /* UTF-8, zero-terminated: what was wrong, what was expected, what to do */
} vkattn_diagnostic;

typedef enum vkattn_dtype {
    VKATTN_F32 = 0,
    VKATTN_F16 = 1,   /* IEEE binary16 */
    VKATTN_BF16 = 2,  /* the upper half of an f32; stored with round to nearest even */
    VKATTN_BOOL8 = 3, /* one byte; 0 is false, anything else true; masks only */
    /* 32 keys in a 32-bit word, the first in its lowest bit; 1 is visible; bit masks only */
    VKATTN_BITS32 = 4,
    VKATTN_DTYPE_MAX = 0x7fffffff
} vkattn_dtype;

/* A tensor [batch, head, token, dim] in some memory. Element (b, h, t, d) lies
 *     offsetElems + b*strideElems[0] + h*strideElems[1] + t*strideElems[2] + d*strideElems[3]
 * elements after the start of what is bound to its role. Strides count elements and may be zero
 * (inputs only) or negative. An all-zero layout means that the tensor is absent. The stride of
 * an extent of 1 is ignored. */
typedef struct vkattn_layout {
    vkattn_dtype dtype;
    uint32_t extent[4];
    int64_t strideElems[4];
    uint64_t offsetElems;
} vkattn_layout;

/* Every operand has one role; bindings are given by role, in any order. Tensors have the values
 * from 0 to 31, small arrays those from 32 to 63, so that a new operand renumbers none. */
typedef enum vkattn_role {
    VKATTN_Q = 0,        /* read   [batch, heads, queryTokens, headDim] */
    VKATTN_K = 1,        /* read   [batch, kvHeads, keyTokens, headDim]; kvHeads divides heads */
    VKATTN_V = 2,        /* read   [batch, kvHeads, keyTokens, valueDim] */
    VKATTN_OUT = 3,      /* write  [batch, heads, queryTokens, valueDim] */
    VKATTN_LSE = 4,      /* write  f32 [batch, heads, queryTokens, 1]; optional */
    VKATTN_WEIGHTS = 5,  /* write  [batch, heads, queryTokens, keyTokens]; optional */
    VKATTN_BIAS = 6,     /* read   f32, f16 or bf16, each extent that of the weights or 1; -inf hides; optional */
    VKATTN_MASK = 7,     /* read   bool8, each extent that of the weights or 1; 0 hides; optional */
    VKATTN_BIT_MASK = 8, /* read   bits32 [batch, heads, queryTokens, ceil(keyTokens / 32)], the first three broadcast where 1; optional,
                            and not together with VKATTN_MASK; strides count words, bits past keyTokens are ignored */
    /* Small arrays, tightly packed, without a layout: VKATTN_PRESENT(role) in presentRoles where
       they will be bound. */
    VKATTN_KEY_LENGTHS = 32,  /* read   u32[batch]; clamped to keyTokens; not with ragged batches */
    VKATTN_CU_SEQ_Q = 33,     /* read   u32[sequences + 1]; together with VKATTN_CU_SEQ_K */
    VKATTN_CU_SEQ_K = 34,     /* read   u32[sequences + 1] */
    VKATTN_DOC_IDS_Q = 35,    /* read   u32[batch][queryTokens], ragged: u32[q.extent[2]]; together with VKATTN_DOC_IDS_K: a query sees
                                 only keys of its own document */
    VKATTN_DOC_IDS_K = 36,    /* read   u32[batch][keyTokens], ragged: u32[k.extent[2]] */
    VKATTN_SINKS = 37,        /* read   f32[heads]: a logit that takes part in the softmax and has no value; -inf is none */
    VKATTN_ALIBI_SLOPES = 38, /* read   f32[heads] */
    VKATTN_WORKSPACE = 64,    /* Vulkan only: scratch memory, read and written */
    /* Every role is less: the length of an array by role, whatever operands are added. */
    VKATTN_ROLE_LIMIT = 65,
    VKATTN_ROLE_MAX = 0x7fffffff
} vkattn_role;

/* The bit of a small array in vkattn_problem::presentRoles. */
#define VKATTN_PRESENT(role) (1u << ((uint32_t)(role) - (uint32_t)VKATTN_KEY_LENGTHS))

typedef enum vkattn_flag_bits {
    VKATTN_CAUSAL = 1, /* hide keys after the query's own position i' */
    /* i' = i instead of bottom-right; matters only with CAUSAL or WINDOW */
    VKATTN_ALIGN_TOP_LEFT = 2,
    VKATTN_WINDOW = 4, /* hide keys outside [i' - windowLeft, i' + windowRight] */
    /* `scale` is taken literally (0 is then 0); otherwise it must be 0 and means 1/sqrt(headDim) */
    VKATTN_SCALE = 8,
    /* Bitwise the same result whatever the batch size and however the work is split, on one
       device and kernel; without it results are bitwise repeatable only for the same problem
       (docs/numerics.md 7). */
    VKATTN_DETERMINISTIC = 16,
    VKATTN_FLAGS_MAX = 0x7fffffff
} vkattn_flag_bits;

/* Which Vulkan kernel computes. Part of no result; the CPU ignores it. For comparison, tests and
 * measurement. Values are less than 16; which of them are kernels, the Vulkan library says
 * (vkattnKernels in vkattn.h). */
typedef enum vkattn_kernel {
    VKATTN_KERNEL_AUTO = 0, /* the planner chooses; vkattnExplain says why */
    /* Scores, softmax and values as separate dispatches; the only one that writes weights. */
    VKATTN_KERNEL_STAGED = 1,
    /* Online softmax, tiles of query rows, nothing of size queries x keys in memory (Dao et al.
       2022). */
    VKATTN_KERNEL_FLASH = 2,
    /* The same with lanes along keys, split over keys, for few query rows (Dao et al. 2023,
       flash-decoding). */
    VKATTN_KERNEL_DECODE = 3,
    /* Flash on matrix units, VK_KHR_cooperative_matrix; q, k and v all f16 or all bf16.
       Probabilities are rounded to that type for the second product (docs/numerics.md, u_P). */
    VKATTN_KERNEL_FLASH_COOPMAT = 4,
    /* The same with VK_NV_cooperative_matrix2: the softmax stays in the matrices. */
    VKATTN_KERNEL_FLASH_COOPMAT2 VKATTN_EXPERIMENTAL = 5,
    VKATTN_KERNEL_MAX = 0x7fffffff
} vkattn_kernel;

/* What to compute. Zero-initialise, set structSize, then what you need: zero is the default
 * everywhere. Limits: 1 <= batch; 1 <= heads; kvHeads divides heads; 1 <= headDim, valueDim <=
 * 2048; queryTokens and keyTokens lie between 0 and 2^30 (0 is ordinary input); batch * heads *
 * queryTokens * keyTokens is at most 2^50; a tensor spans less than 2^60 elements. Output
 * tensors must not overlap themselves: sorted by size, each stride is at least the span of the
 * smaller ones. */
typedef struct vkattn_problem {
    uint32_t structSize; /* sizeof(vkattn_problem); see "Structs" in vkattn.h */
    uint32_t flags;      /* vkattn_flag_bits */
    vkattn_layout q, k, v, out;
    vkattn_layout lse, weights, bias, mask, bitMask; /* optional: absent where all zero */
    float scale;                                     /* finite; see VKATTN_SCALE */
    float softcap;                                   /* 0 = none; else finite and at least 2^-126 */
    /* With VKATTN_WINDOW: >= -1; -1 = open on that side; otherwise 0. */
    int32_t windowLeft;
    int32_t windowRight;
    uint32_t presentRoles; /* VKATTN_PRESENT(role) of each small array that will be bound */
    uint32_t sequences;    /* ragged batches: how many; otherwise 0 */
    /* Ragged batches: most queries and keys that a sequence has, at most the totals; 0 = the
       totals. */
    uint32_t maxSeqQ;
    uint32_t maxSeqK;
    vkattn_kernel kernel; /* VKATTN_KERNEL_AUTO but for comparisons */
    /* Vulkan: pieces that the problem is recorded in (vkattn.h, Slices); 0 and 1 = whole. The
       CPU ignores it. */
    uint32_t sliceCount;
} vkattn_problem;

/* Checks `problem` against every rule above. Pure; any thread. VKATTN_OK or
 * VKATTN_ERROR_INVALID_ARGUMENT with the reason. */
VKATTN_API vkattn_result vkattnValidateProblem(const vkattn_problem *problem, vkattn_diagnostic *why);

/* Bytes that must exist from the start of what is bound to `role`: the end of its last element.
 * 0 for a role that the problem does not use, for the workspace and for an invalid problem.
 * Pure; any thread. */
VKATTN_API uint64_t vkattnOperandBytes(const vkattn_problem *problem, vkattn_role role);

#ifdef __cplusplus
}
#endif
#endif
