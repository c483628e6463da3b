/* vkattn/problem.h: what to compute. C99 and C++. This header knows no Vulkan and no pointers to
 * operands, so that the planner, the CPU and any host's own rendering layer share one description.
 *
 * The formulas are for batch entry b, query head h, query token i, query q, key k and value v
 * (docs/numerics.md has the numerics):
 *
 *     i'      = i                                  with VKATTN_ALIGN_TOP_LEFT
 *     i'      = i + keyTokens - queryTokens        otherwise: the last query sees the last key
 *                                                  (FlashAttention's rule)
 *     i'      = i + queryOffset_b - keyOffset_b    where an offset is given, whatever the flag
 *                                                  says (vkattn_offset)
 *     s_ij    = scale * dot(q_i, k_j)
 *     s_ij    = softcap * tanh(s_ij / softcap)     where softcap > 0
 *     s_ij    = s_ij + bias_ij                     where a bias is given
 *     s_ij    = s_ij - slope_h * |j - i'|          where ALiBi slopes are given
 *                                                  (Press et al. 2021)
 *     s_ij    = score(s_ij, b, h, i, j)            where a program has that hook (vkattn_program)
 *     visible : j < keyTokens
 *               j <= i', or j < prefix_b where prefix lengths are given   with VKATTN_CAUSAL
 *               local_ij or global_ij                      with VKATTN_WINDOW
 *               key j lies in the box of token i'          with a grid (vkattn_grid)
 *               the block of i and j is listed             with blocks (vkattn_blocks)
 *               mask_ij != 0, bit mask_ij = 1, bias_ij != -inf,
 *               document of i = document of j              where each of them is given
 *               visible(b, h, i, j)                        where a program has that hook
 *     local   : i' - windowLeft d_h <= j <= i' + windowRight d_h, and d_h divides j - i'; the dilation
 *               d_h is 1 where none is given (Longformer, Beltagy et al. 2020)
 *     global  : where global tokens are given: token j is global, or token i' is, with
 *               0 <= i' < keyTokens
 *     D_i     = sum over visible j of exp(s_ij)  + exp(sink_h) where attention sinks are given
 *     v_jd    = k_jd                     with VKATTN_VALUES_IN_KEYS, for d < valueDim
 *     w_ij    = 0 where dropout drops the pair, r where dropout keeps the pair; 1 without dropout
 *     out_i   = sum over visible j of w_ij exp(s_ij) / D_i v_j
 *                                                      exactly 0 where nothing is visible
 *     lse_i   = ln D_i               where nothing is visible: the sink, or -inf without a sink
 *     weights_ij = exp(s_ij) / D_i   exactly 0 where the pair is hidden; times w_ij with
 *                                    VKATTN_WEIGHTS_DROPPED
 *
 * Every exponent has the row's maximum subtracted; the maximum includes the sink. All sums are fp32
 * or wider. queryTokens is q.extent[2]. keyTokens is k.extent[2], or the batch entry's value in
 * VKATTN_KEY_LENGTHS, clamped to k.extent[2]. Keys and values that are hidden from a query never
 * influence its result, whatever they hold, NaN and infinity included.
 *
 * Dropout (Srivastava et al. 2014), of probability p. With T = round(p 2^32), r is
 * 2^32 / (2^32 - T), and a pair is dropped where its random word is below T. The word is word j mod 4
 * of Philox4x32-10 (Salmon et al. 2011) with the key (low, high word of dropoutSeed) and the counter
 * (floor(j / 4), i, b * heads + h, dropoutOffset). Nothing else decides: every kernel, device, chunk
 * and slice, the CPU and the backward pass drop the same pairs (vkattnDropoutKeeps). Sums, sinks and
 * lse are those without dropout. A dropped value never influences the result, whatever it holds. With
 * p = 0 no random number is drawn and every bit is that of the problem without dropout; with p = 1
 * out is 0. A row whose scores or sink make lse NaN is NaN with dropout too: nothing is dropped in
 * the row, from weights neither.
 *
 * Ragged batches. A problem with VKATTN_CU_SEQ_Q and VKATTN_CU_SEQ_K is ragged, as in
 * FlashAttention's varlen calls: sequences of different lengths lie one after the other in q, k, v,
 * out and lse, whose batch extent is 1 and whose token extents are the totals. Sequence b has the
 * queries cuQ[b] <= t < cuQ[b + 1] and the keys cuK[b] <= t < cuK[b + 1]. In the formulas i and j
 * count from the start of the sequence, and queryTokens and keyTokens are those of the sequence.
 * Wherever this header says batch, read sequence: bias, masks and weights have the extents
 * [sequences, heads, maxSeqQ, maxSeqK]. Weights of pairs outside a sequence keep the bytes that
 * they had, and so do rows of out and lse that belong to no sequence. The arrays are data on the
 * device and are never trusted: each entry counts as the largest one up to and including itself,
 * clamped to the total, and a sequence longer than maxSeqQ or maxSeqK counts as cut off there.
 */
#ifndef VKATTN_PROBLEM_H_
#define VKATTN_PROBLEM_H_

#include <stdint.h>

/* VKATTN_SHARED is defined for shared libraries and for everything that links them; the CMake
 * package and pkg-config define it. VKATTN_BUILDING is defined only while the libraries are
 * compiled. A binary that links the static library exports none of its symbols: two plugins with a
 * copy each do not meet. */
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

/* Marks experimental interfaces: they may change in any version, and they are tested less widely
 * than the rest. Define VKATTN_EXPERIMENTAL as __attribute__((deprecated)) or [[deprecated]] before
 * these headers are included, and the compiler names every use. */
#ifndef VKATTN_EXPERIMENTAL
#define VKATTN_EXPERIMENTAL
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Result of a call. Values below zero are errors, as in VkResult. */
typedef enum vkattn_result {
    VKATTN_OK = 0,
    /* A pipeline is not compiled yet, and the call was not allowed to compile: call
       vkattnPrewarm. */
    VKATTN_NOT_READY = 1,
    /* A cache blob is damaged, or comes from another library, device or driver. The diagnostic says
     * which; the program can go on without the blob. */
    VKATTN_CACHE_REJECTED = 2,
    VKATTN_ERROR_INVALID_ARGUMENT = -1, /* the call breaks a rule stated in these headers */
    /* The call is valid, but this device cannot do it. The diagnostic names the limit or
       feature. */
    VKATTN_ERROR_UNSUPPORTED = -2,
    VKATTN_ERROR_OUT_OF_HOST_MEMORY = -3,
    VKATTN_ERROR_OUT_OF_DEVICE_MEMORY = -4,
    VKATTN_ERROR_DEVICE_LOST = -5,
    VKATTN_ERROR_VULKAN = -6, /* another Vulkan error: diagnostic.vkResult has the code */
    VKATTN_RESULT_MAX = 0x7fffffff
} vkattn_result;

/* The reason why a call failed. The caller owns the struct, and may always pass NULL instead. A
 * call writes the diagnostic when it returns anything but VKATTN_OK, and where its comment says
 * so. */
typedef struct vkattn_diagnostic {
    int32_t vkResult;  /* the VkResult behind the failure; 0 where Vulkan was not the cause */
    char message[508]; /* UTF-8, zero-terminated: what was wrong, what was expected, what to do */
} vkattn_diagnostic;

/* Element type of a tensor. */
typedef enum vkattn_dtype {
    VKATTN_F32 = 0,
    VKATTN_F16 = 1,   /* IEEE binary16 */
    VKATTN_BF16 = 2,  /* the upper half of an f32; stores round to nearest even */
    VKATTN_BOOL8 = 3, /* one byte: 0 is false, anything else is true; masks only */
    /* a word. Bit masks: 32 keys, the first in its lowest bit; 1: visible. Advance: a u32 */
    VKATTN_BITS32 = 4,
    /* K and V of attention, and caches that are appended to. 8-bit floats (OCP): a sign, exponent bits and mantissa bits */
    VKATTN_FP8_E4M3 = 5, /* no infinity ("e4m3fn"); largest 448 */
    VKATTN_FP8_E5M2 = 6, /* the upper half of a binary16; largest 57344 */
    /* ggml's blocks of 32 neighbouring dims: a binary16 scale and the codes. Rows are padded to whole
     * blocks: offset and strides of other dimensions are multiples of 32 elements, that of the dims is 1. */
    VKATTN_Q8_0 = 7, /* 34 bytes: the scale, 32 signed bytes; scale * code */
    VKATTN_Q4_0 = 8, /* 18 bytes: the scale, 16 bytes, whose lower halves are dims 0 to 15; scale * (code - 8) */
    /* Rows of signed bytes, an f32 scale before each row; scale * code. Elements are bytes: dim d lies 4 + d bytes
     * after the row's beginning. Offset and strides of other dimensions are multiples of 4, that of the dims is 1. */
    VKATTN_INT8 = 9,
    VKATTN_DTYPE_MAX = 0x7fffffff
} vkattn_dtype;

/* A tensor [batch, head, token, dim] in some memory. Element (b, h, t, d) lies
 *     offsetElems + b*strideElems[0] + h*strideElems[1] + t*strideElems[2] + d*strideElems[3]
 * elements after the start of the memory that is bound to the tensor's role. Strides count
 * elements; they may be negative, and for inputs zero. The stride of an extent of 1 is ignored.
 * A layout whose fields are all zero means that the tensor is absent. */
typedef struct vkattn_layout {
    vkattn_dtype dtype;
    uint32_t extent[4];
    int64_t strideElems[4];
    uint64_t offsetElems;
} vkattn_layout;

/* The role of an operand in the formulas. Every operand has one role, and bindings name their
 * role, in any order. Tensors have the values from 0 to 31 and small arrays those from 32 to 63,
 * so that a new operand renumbers no other. */
typedef enum vkattn_role {
    VKATTN_Q = 0, /* read:  [batch, heads, queryTokens, headDim] */
    VKATTN_K = 1, /* read:  [batch, kvHeads, keyTokens, headDim]; kvHeads divides heads */
    /* read: [batch, kvHeads, keyTokens, valueDim]; not bound with VKATTN_VALUES_IN_KEYS */
    VKATTN_V = 2,
    VKATTN_OUT = 3, /* write: [batch, heads, queryTokens, valueDim] */
    /* Optional tensors. "Broadcast" means that an extent is that of the weights, or 1. */
    /* write: f32 [batch, heads, queryTokens, 1]; with VKATTN_ROW_STATISTICS the last extent is 2 */
    VKATTN_LSE = 4,
    VKATTN_WEIGHTS = 5, /* write: [batch, heads, queryTokens, keyTokens] */
    /* A bias or a mask may have fewer keys than there are, and more than 1: the keys behind them are hidden and
     * count for the alignment, as ONNX Attention has it. Not beside weights, scores, a bit mask, blocks, a grid, document
     * ids, global tokens, pages and ragged batches. */
    VKATTN_BIAS = 6, /* read:  f32, f16 or bf16, each extent broadcast; -inf hides a pair */
    VKATTN_MASK = 7, /* read:  bool8, each extent broadcast; 0 hides a pair */
    /* read: bits32 [batch, heads, queryTokens, ceil(keyTokens / 32)], the first three extents
     * broadcast. Strides count words. Bits past keyTokens are ignored. A problem has a mask or a
     * bit mask, not both. */
    VKATTN_BIT_MASK = 8,
    /* The gradients of a norm (vkattn/operations.h): D_X is the gradient of the loss with respect to
     * X. */
    VKATTN_D_X = 9,      /* write */
    VKATTN_D_GAMMA = 10, /* write */
    VKATTN_D_BETA = 11,  /* write */
    VKATTN_D_Y = 12,     /* read */
    VKATTN_SCORES = 13,  /* write: [batch, heads, queryTokens, keyTokens]; vkattn_score_stage */
    /* Statistics of attention (vkattn/statistics.h), written. */
    VKATTN_STATISTICS = 14,
    VKATTN_RECEIVED = 15,
    /* Gradients of attention (vkattn/gradient.h). */
    VKATTN_D_OUT = 25,     /* read */
    VKATTN_D_LSE = 26,     /* read */
    VKATTN_D_WEIGHTS = 27, /* read */
    VKATTN_D_Q = 28,       /* write */
    VKATTN_D_K = 29,       /* write */
    VKATTN_D_V = 30,       /* write */
    VKATTN_D_BIAS = 31,    /* write */
    /* Tensors of the other operations (vkattn/operations.h). The bias of a projection has the role
     * VKATTN_BIAS. */
    VKATTN_X = 16,        /* read:  what an operation is applied to */
    VKATTN_Y = 17,        /* write: its result */
    VKATTN_W = 18,        /* read:  the matrix of a projection, [out, in] */
    VKATTN_RESIDUAL = 19, /* read:  added to the result of a projection or of dropout, or to X before a norm */
    VKATTN_GAMMA = 20,    /* read:  the scale of a norm */
    VKATTN_BETA = 21,     /* read:  the shift of a layer norm */
    VKATTN_SUM = 22,      /* write: X + residual, which a norm is taken of */
    VKATTN_COS = 23,      /* read:  tables of rotary embedding */
    VKATTN_SIN = 24,      /* read */
    /* Small arrays: tightly packed, without a layout. A problem that will have one bound sets
     * VKATTN_PRESENT(role) in presentRoles. */
    VKATTN_KEY_LENGTHS = 32, /* read: u32[batch], clamped to keyTokens; not in ragged batches */
    VKATTN_CU_SEQ_Q = 33,    /* read: u32[sequences + 1]; needs VKATTN_CU_SEQ_K */
    VKATTN_CU_SEQ_K = 34,    /* read: u32[sequences + 1]; needs VKATTN_CU_SEQ_Q */
    /* Document ids: a query sees only keys of its own document. A problem has both arrays or
     * neither. */
    VKATTN_DOC_IDS_Q = 35, /* read: u32[batch][queryTokens]; in ragged batches u32[q.extent[2]] */
    VKATTN_DOC_IDS_K = 36, /* read: u32[batch][keyTokens]; in ragged batches u32[k.extent[2]] */
    /* read: f32[heads]: a logit that takes part in the softmax and has no value; -inf: no sink. */
    VKATTN_SINKS = 37,
    VKATTN_ALIBI_SLOPES = 38, /* read: f32[heads] */
    VKATTN_POSITIONS = 39,    /* read: u32[batch][tokens]: positions of rotary embedding */
    VKATTN_STARTS = 40,       /* read: u32[batch]: where new tokens begin (vkattn/operations.h) */
    /* Gradients (vkattn/gradient.h). */
    VKATTN_D_SINKS = 41,   /* write: f32[heads] */
    VKATTN_D_SLOPES = 42,  /* write: f32[heads] */
    VKATTN_D_SCALE = 43,   /* write: f32[1] */
    VKATTN_D_SOFTCAP = 44, /* write: f32[1] */
    VKATTN_NONFINITE = 45, /* read and written: u32[1] */
    /* Rules of visibility, read. */
    /* u32[batch][ceil(keyTokens / 32)]: bit j of a row is token j, the first in the lowest bit; 1: the
     * token is global. Needs VKATTN_WINDOW. Bits from the key length on are ignored. */
    VKATTN_GLOBAL_TOKENS = 46,
    /* u32[batch]: every query sees the keys before it. Needs VKATTN_CAUSAL. */
    VKATTN_PREFIX_LENGTHS = 47,
    /* Of a layer (vkattn/layer.h), read; its other roles are those above. */
    VKATTN_WQ = 48,
    VKATTN_WK = 49,
    VKATTN_WV = 50,
    VKATTN_WO = 51,
    VKATTN_BQ = 52,
    VKATTN_BK = 53,
    VKATTN_BV = 54,
    VKATTN_BO = 55,
    VKATTN_CONTEXT = 56,
    /* Of a latent layer (vkattn/latent_layer.h); read but for the cache. */
    VKATTN_WDQ = 57,
    VKATTN_WDKV = 58,
    VKATTN_WUKV = 59,
    VKATTN_GAMMA_Q = 60,
    VKATTN_CACHE = 61,     /* read and written */
    /* read: u32[heads]: dilations of the window. 0 counts as 1, and what is above vkattn_problem::dilation
     * counts as that. Needs VKATTN_WINDOW. */
    VKATTN_DILATIONS = 62,
    /* read: i32[batch][pages]: where the pages of a sequence lie in a pool (vkattn/operations.h). An entry that is
     * negative, or no page of the pool, is an absent page. */
    VKATTN_PAGE_TABLE = 63,
    VKATTN_WORKSPACE = 64, /* Vulkan only: scratch memory, read and written */
    /* What a layer keeps for its backward pass (VKATTN_LAYER_KEEPS_STEPS): written by the layer, read
     * by vkattn/layer_gradient.h. */
    VKATTN_KEPT = 65,
    /* The gradients of a layer (vkattn/layer_gradient.h), written; its other roles are those above. */
    VKATTN_D_CONTEXT = 66,
    VKATTN_D_WQ = 67,
    VKATTN_D_WK = 68,
    VKATTN_D_WV = 69,
    VKATTN_D_WO = 70,
    VKATTN_D_BQ = 71,
    VKATTN_D_BK = 72,
    VKATTN_D_BV = 73,
    VKATTN_D_BO = 74,
    VKATTN_TOP_WEIGHTS = 75, /* statistics of attention, written */
    VKATTN_TOP_KEYS = 76,
    /* Blocks of pairs (vkattn_blocks), read: tightly packed, without a layout. `kind` says which of
     * them a problem has, and presentRoles knows none. rows: ceil(queryTokens / blocks.queries);
     * columns: ceil(keyTokens / blocks.keys). */
    VKATTN_BLOCK_MASK = 77,         /* bytes [batches][heads][rows][columns]; 0 hides a block */
    VKATTN_BLOCK_ROWS = 78,         /* u32[batches][heads][rows + 1] */
    VKATTN_BLOCK_COLUMNS = 79,      /* u32[blocks.entries] */
    VKATTN_BLOCK_COUNTS = 80,       /* u32[batches][heads][rows] */
    VKATTN_BLOCK_INDICES = 81,      /* u32[batches][heads][rows][blocks.entries] */
    VKATTN_FULL_BLOCK_COUNTS = 82,  /* as VKATTN_BLOCK_COUNTS */
    VKATTN_FULL_BLOCK_INDICES = 83, /* as VKATTN_BLOCK_INDICES */
    /* What a program reads (vkattn_problem::programBufferWords), read: u32[words], tightly packed. */
    VKATTN_PROGRAM_BUFFER_0 = 84,
    VKATTN_PROGRAM_BUFFER_1 = 85,
    VKATTN_PROGRAM_BUFFER_2 = 86,
    VKATTN_PROGRAM_BUFFER_3 = 87,
    VKATTN_X_LSE = 88, /* read: the log-sum-exp of what a merge is applied to (vkattn/operations.h) */
    VKATTN_QUERY_OFFSETS = 89, /* read: i32[batch] (vkattn_offset) */
    VKATTN_KEY_OFFSETS = 90,   /* read: i32[batch] */
    /* Pages in CSR (vkattn_problem::pageIndices), read: FlashInfer's kv_indptr, kv_indices and kv_last_page_len. */
    VKATTN_PAGE_INDPTR = 91,       /* i32[batch + 1] */
    VKATTN_PAGE_INDICES = 92,      /* i32[pageIndices] */
    VKATTN_LAST_PAGE_LENGTHS = 93, /* i32[batch]: the tokens in an entry's last page, 1 to page tokens */
    /* Linear attention (vkattn/linear.h); its other roles are Q, K, V, OUT and KEY_LENGTHS. */
    VKATTN_DECAY = 96,          /* read */
    VKATTN_WRITE_STRENGTH = 97, /* read */
    VKATTN_OMEGA = 98,          /* read */
    VKATTN_STATE_IN = 99,       /* read */
    VKATTN_STATE_OUT = 100,     /* write */
    VKATTN_SNAPSHOTS = 101,     /* write */
    /* Its gradients (vkattn/linear_gradient.h); the others are D_OUT, D_Q, D_K and D_V. */
    VKATTN_D_STATE_OUT = 102,      /* read */
    VKATTN_D_DECAY = 103,          /* write */
    VKATTN_D_WRITE_STRENGTH = 104, /* write */
    VKATTN_D_STATE_IN = 105,       /* write */
    /* Further segments of K and V (vkattn_problem::k1), read. */
    VKATTN_K_1 = 106,
    VKATTN_V_1 = 107,
    VKATTN_K_2 = 108,
    VKATTN_V_2 = 109,
    VKATTN_K_3 = 110,
    VKATTN_V_3 = 111,
    /* Attention over other keys, which a problem goes on from (vkattn_problem::priorOut), read. */
    VKATTN_PRIOR_OUT = 112,
    VKATTN_PRIOR_LSE = 113,
    VKATTN_ROLE_LIMIT = 114, /* greater than every role: the length of an array indexed by role */
    VKATTN_ROLE_MAX = 0x7fffffff
} vkattn_role;

/* The bit of a small array in vkattn_problem::presentRoles. */
#define VKATTN_PRESENT(role) (1u << ((uint32_t)(role) - (uint32_t)VKATTN_KEY_LENGTHS))

/* Options of a problem. */
typedef enum vkattn_flag_bits {
    VKATTN_CAUSAL = 1, /* hides keys after the query's own position i' */
    /* i' = i instead of the bottom-right rule. Matters only with CAUSAL, WINDOW or ALiBi. */
    VKATTN_ALIGN_TOP_LEFT = 2,
    VKATTN_WINDOW = 4, /* hides keys outside [i' - windowLeft, i' + windowRight] */
    /* `scale` is taken literally: 0 is 0. Without the flag `scale` must be 0 and means
     * 1/sqrt(headDim). */
    VKATTN_SCALE = 8,
    /* The result is bitwise the same whatever the batch size and however the work is split, on one
     * device with one kernel. Without the flag results are bitwise repeatable only for the same
     * problem (docs/numerics.md 7). */
    VKATTN_DETERMINISTIC = 16,
    /* v_j is the first valueDim elements of k_j, in K's own memory, as the absorbed form of
     * multi-head latent attention has it (DeepSeek-V2 2024). `v` stays zero, nothing is bound to
     * VKATTN_V, and valueDim is out.extent[3], at most headDim. Kernels then load each key once for
     * both products. */
    VKATTN_VALUES_IN_KEYS = 128, /* 32 and 64: vkattn_operation_flag_bits */
    /* `lse` receives two numbers a row in place of the log-sum-exp: the maximum of the row's scores
     * and its sink, and the sum of exp(score - maximum), with the sink's. A row that sees nothing has
     * -inf and 0, or its sink and 1; a row that is NaN has NaN twice. lse = maximum + ln(sum) loses
     * ln(sum) where scores are large, and a backward pass needs the sum (vkattn/gradient.h). */
    VKATTN_ROW_STATISTICS = 256,
    VKATTN_WEIGHTS_DROPPED = 512, /* `weights` are those after dropout: w_ij exp(s_ij) / D_i */
    VKATTN_FLAGS_MAX = 0x7fffffff
} vkattn_flag_bits;

/* Where the queries and the keys of a problem stand in a longer sequence: query i at i + queryOffset_b and
 * key j at j + keyOffset_b, so that the query's position among these keys, i' of the formulas, is
 * i + queryOffset_b - keyOffset_b. A decode step over a cache whose capacity is more than what is filled has
 * the number of tokens before it; a prompt in chunks, the tokens of the chunks before. Both stand in place of
 * the two alignments. Rows of negative positions see what the rules leave them: nothing with VKATTN_CAUSAL. */
#define VKATTN_MAX_OFFSET (1 << 28)

typedef enum vkattn_offset_kind {
    VKATTN_OFFSET_NONE = 0,   /* 0; without any offset VKATTN_ALIGN_TOP_LEFT decides. `tokens` is 0 */
    VKATTN_OFFSET_NUMBER = 1, /* `tokens` */
    /* `tokens` more than the batch entry's number in VKATTN_QUERY_OFFSETS or VKATTN_KEY_OFFSETS, which is
     * data on the device: read when the commands run, never trusted. Such a number, an offset, and the
     * difference of the two offsets each count as at most VKATTN_MAX_OFFSET to either side. */
    VKATTN_OFFSET_ARRAY = 2,
    VKATTN_OFFSET_KIND_MAX = 0x7fffffff
} vkattn_offset_kind;

typedef struct vkattn_offset {
    vkattn_offset_kind kind;
    int32_t tokens; /* -VKATTN_MAX_OFFSET to VKATTN_MAX_OFFSET */
} vkattn_offset;

/* What `scores` holds of a pair, by the formulas above. Every pair of a row and a key is there up to
 * FINAL, also those that causal, window, documents or masks hide: keys and queries are then read where
 * nothing else reads them. A key past a key length has 0. Pairs outside of a sequence of a ragged batch
 * keep the bytes that they had. */
typedef enum vkattn_score_stage {
    VKATTN_SCORES_RAW = 0,    /* dot(q_i, k_j) */
    VKATTN_SCORES_SCALED = 1, /* scale * dot(q_i, k_j) */
    VKATTN_SCORES_CAPPED = 2, /* after softcap, where there is one */
    /* s_ij, after bias, ALiBi and a program; -inf where hidden, past a key length too */
    VKATTN_SCORES_FINAL = 3,
    VKATTN_SCORE_STAGE_MAX = 0x7fffffff
} vkattn_score_stage;

/* The Vulkan kernel that computes a problem, for comparison, tests and measurement. The choice is
 * part of no result, and the CPU ignores it. Values are less than 16; vkattnKernels in vkattn.h
 * lists those that a library has. */
typedef enum vkattn_kernel {
    VKATTN_KERNEL_AUTO = 0, /* the planner chooses; vkattnExplain says why */
    /* Scores, softmax and values as separate dispatches. The only kernel that writes weights and
     * scores. */
    VKATTN_KERNEL_STAGED = 1,
    /* Online softmax over tiles of query rows; nothing of size queries x keys is in memory
     * (Dao et al. 2022). */
    VKATTN_KERNEL_FLASH = 2,
    /* Flash for few query rows: lanes along keys, and the keys split over workgroups
     * (flash-decoding, Dao et al. 2023). */
    VKATTN_KERNEL_DECODE = 3,
    /* Flash on matrix units (VK_KHR_cooperative_matrix), for q, k and v all f16 or all bf16; k and v
     * may be of an fp8 type beside either. The kernel rounds probabilities to q's type for the second
     * product (docs/numerics.md, u_P). */
    VKATTN_KERNEL_FLASH_COOPMAT = 4,
    /* Flash on matrix units with VK_NV_cooperative_matrix2: the softmax stays in the matrices. */
    VKATTN_KERNEL_FLASH_COOPMAT2 VKATTN_EXPERIMENTAL = 5,
    VKATTN_KERNEL_MAX = 0x7fffffff
} vkattn_kernel;

/* Which keys a token of a grid sees: those of a box around the token, on each axis for itself. Token
 * (z * extent[1] + y) * extent[2] + x lies at plane z, row y and column x; a query is token i'. A query
 * with i' < 0 sees nothing. */
typedef enum vkattn_grid_rule {
    VKATTN_GRID_NONE = 0,
    /* Neighbourhoods that are moved inwards at borders, so that all have the same size: from
     * clamp(c - floor(size / 2), 0, extent - size) on, `size` long (Hassani et al. 2023). */
    VKATTN_GRID_CLAMPED = 1,
    VKATTN_GRID_CUT = 2, /* neighbourhoods that are cut at borders: |distance| <= floor(size / 2) */
    /* Windows side by side, the first of which ends at `shift`, or at `size` where that is 0: the
     * tokens of its own window (Liu et al. 2021, shifted windows). */
    VKATTN_GRID_WINDOWS = 3,
    VKATTN_GRID_RULE_MAX = 0x7fffffff
} vkattn_grid_rule;
typedef struct vkattn_grid {
    vkattn_grid_rule rule; /* NONE: all of it is zero */
    /* Planes, rows and columns; 0 counts as 1. Their product is k.extent[2], or maxSeqK in ragged
     * batches: each sequence is a grid. */
    uint32_t extent[3];
    /* Of a neighbourhood, odd, and with CLAMPED at most the extent; or of a window. 0 counts as 1. */
    uint32_t size[3];
    uint32_t shift[3]; /* WINDOWS: below the size; otherwise 0 */
} vkattn_grid;

/* Which blocks of pairs are visible: `queries` x `keys` pairs each, the last ones short. Query i lies in
 * row floor(i / queries) of blocks, and key j in column floor(j / keys). The arrays are data on the
 * device and are never trusted: what names no block is ignored, the order of a row's columns does not
 * matter, and a block that is named twice counts once. */
typedef enum vkattn_block_kind {
    VKATTN_BLOCKS_NONE = 0,
    VKATTN_BLOCKS_MASK = 1, /* VKATTN_BLOCK_MASK */
    /* Compressed rows: row r has the columns from entry VKATTN_BLOCK_ROWS[r] of VKATTN_BLOCK_COLUMNS up
     * to entry VKATTN_BLOCK_ROWS[r + 1]. Entries past the last one do not exist. */
    VKATTN_BLOCKS_LISTS = 2,
    /* As FlexAttention's BlockMask has them: row r has the first VKATTN_BLOCK_COUNTS[r] entries of its
     * row of VKATTN_BLOCK_INDICES (kv_num_blocks and kv_indices) and, with `full`, likewise those of
     * VKATTN_FULL_BLOCK_COUNTS and VKATTN_FULL_BLOCK_INDICES. Entries past the count may hold
     * anything. */
    VKATTN_BLOCKS_INDICES = 3,
    /* BigBird (Zaheer et al. 2020), of n blocks a side: all blocks of the first and the last row, the
     * first and the last column, the diagonal and its neighbours, and `random` of the other blocks of
     * each row, or all where there are no more. Row a of head h draws from the columns c_0 < c_1 < ...
     * of 1 to n - 2 without a - 1, a and a + 1: draw t swaps c_t with
     * c_(t + floor(u (count - t) / 2^32)) and takes c_t. u is word 0 of Philox4x32-10 with the key (low,
     * high word of seed) and the counter (t, a, h, 0). All batch entries have the same blocks. */
    VKATTN_BLOCKS_BIGBIRD = 4,
    VKATTN_BLOCK_KIND_MAX = 0x7fffffff
} vkattn_block_kind;
typedef struct vkattn_blocks {
    vkattn_block_kind kind; /* NONE: all of it is zero */
    uint32_t queries;       /* of a block; BIGBIRD: tokens of a block, of queries and of keys */
    uint32_t keys;          /* of a block; BIGBIRD: 0, or the same */
    /* Of the arrays: 1 (or 0) for all, or as many as the problem has. BIGBIRD: 0. */
    uint32_t batches;
    uint32_t heads;   /* query heads */
    uint32_t entries; /* LISTS: of VKATTN_BLOCK_COLUMNS. INDICES: of a row; 0: as many as there are columns */
    uint32_t full;    /* INDICES: 1 with the roles of full blocks */
    uint32_t random;  /* BIGBIRD: at most 64 */
    uint64_t seed;    /* BIGBIRD */
} vkattn_blocks;

/* The hooks of a program: functions of its text, in GLSL. batch, head (of queries), query i and key j
 * count from 0 in the whole problem, in ragged batches from the start of the sequence. */
typedef enum vkattn_hook_bits {
    /* float vkattnScore(float score, uint batch, uint head, uint query, uint key): the score that the
     * softmax takes, from the score with everything else that the problem asks for. */
    VKATTN_HOOK_SCORE = 1,
    /* bool vkattnVisible(uint batch, uint head, uint query, uint key): false hides the pair. */
    VKATTN_HOOK_VISIBLE = 2,
    /* float vkattnScoreSlope(float score, uint batch, uint head, uint query, uint key): the derivative of
     * vkattnScore with respect to its score; a backward pass with vkattnScore needs the hook. */
    VKATTN_HOOK_SCORE_SLOPE = 4,
    /* float vkattnProbability(float p, uint batch, uint head, uint query, uint key): what the pair's
     * probability becomes before its value is added up; the row's sum stays as it is. Linear in p: the
     * kernels ask once for p = 1, and multiply. FlexAttention's prob_mod. Not seen by the weights, the
     * log-sum-exp and statistics. */
    VKATTN_HOOK_PROBABILITY = 8,
    /* float vkattnRow(float score): the pair's weight, in place of its share of the row's sum, as in
     * sigmoid attention (Ramapuram et al. 2024): out_i = sum over visible j of vkattnRow(s_ij) v_j. A score
     * of -infinity has weight 0, and one of NaN or +infinity makes the row NaN. There is no sum: neither
     * lse, weights, sinks, statistics nor a backward pass. */
    VKATTN_HOOK_ROW = 16,
    VKATTN_HOOK_MAX = 0x7fffffff
} vkattn_hook_bits;

/* One module of the kernels with the hooks in it. The first SPIR-V of each is plain, and the second
 * declares SignedZeroInfNanPreserve. NULL: not compiled (yet). */
typedef struct vkattn_program_module {
    const char *name; /* as in vkattn_dispatch::name */
    const uint32_t *words[2];
    uint64_t bytes[2];
} vkattn_program_module;

/* The pair that a hook on the processor is asked about, and what the hook may read: what
 * vkattnWord, vkattnBuffer, vkattnPosition and the others return in GLSL (docs/programs.md). */
typedef struct vkattn_program_pair {
    uint32_t batch, head, query, key;
    int64_t position;                 /* i' */
    uint32_t queryTokens, keyTokens;  /* of the batch entry */
    const uint32_t *words;            /* 16 */
    const uint32_t *buffers[4];       /* NULL where a buffer has no words */
    uint32_t bufferWords[4];
} vkattn_program_pair;

/* Hooks in GLSL, compiled with the kernels they are to run in. Made by vkattn::Program
 * (vkattn/program.hpp) at run time, or by the CMake function vkattn_compile_program at build time.
 * Nothing is copied: the program outlives every context that has seen the program. Immutable but for
 * what vkattn::Program::prepare adds. */
typedef struct vkattn_program {
    uint32_t structSize;
    uint32_t hooks;      /* vkattn_hook_bits, at least one other than SCORE_SLOPE */
    const char *name;    /* in messages */
    uint64_t hash;       /* not 0: of the text and of the compiler. Pipelines of programs are told apart by it */
    uint64_t shaderHash; /* of the GLSL of the kernels that the program was compiled with: that of the library */
    const vkattn_program_module *modules; /* those that the compiler can make */
    uint32_t moduleCount;
    /* The same hooks for the processor: the CPU path, the oracle and the verifier. NULL: the program has
     * no such form, and the CPU returns UNSUPPORTED. Pure; called from several threads. */
    double (*score)(double score, const vkattn_program_pair *pair);
    double (*scoreSlope)(double score, const vkattn_program_pair *pair);
    uint32_t (*visible)(const vkattn_program_pair *pair);
    double (*probability)(double p, const vkattn_program_pair *pair);
    double (*row)(double score);
} vkattn_program;

/* What to compute. Zero-initialise the struct, set structSize, then set the fields that you need:
 * zero is the default of every field.
 * Limits:
 *   - batch and heads are at least 1; kvHeads divides heads
 *   - headDim and valueDim lie between 1 and 2048
 *   - queryTokens and keyTokens lie between 0 and 2^30; 0 is ordinary input
 *   - batch * heads * queryTokens * keyTokens is at most 2^50
 *   - with dropout, batch * heads is less than 2^32
 *   - a tensor spans less than 2^60 elements
 *   - an output tensor does not overlap itself: with the dims sorted by stride, each stride is at
 *     least the span of the smaller ones */
typedef struct vkattn_problem {
    uint32_t structSize; /* sizeof(vkattn_problem); see "Structs" in vkattn.h */
    uint32_t flags;      /* vkattn_flag_bits */
    vkattn_layout q, k, v, out;
    vkattn_layout lse, weights, bias, mask, bitMask; /* optional: absent where all zero */
    float scale;                                     /* finite; see VKATTN_SCALE */
    float softcap;                                   /* 0: none; else finite, at least 2^-126 */
    /* With VKATTN_WINDOW both are at least -1, and -1 leaves that side open. Otherwise both are
       0. */
    int32_t windowLeft;
    int32_t windowRight;
    uint32_t presentRoles; /* VKATTN_PRESENT(role) of each small array that will be bound */
    uint32_t sequences;    /* ragged batches: the number of sequences; otherwise 0 */
    /* Ragged batches: the most queries and keys that a sequence has, at most the totals. 0: the
     * totals. */
    uint32_t maxSeqQ;
    uint32_t maxSeqK;
    vkattn_kernel kernel; /* VKATTN_KERNEL_AUTO, except for comparisons */
    /* Vulkan: the number of slices that the problem is recorded in (see "Slices" in vkattn.h).
     * 0 and 1: the whole problem at once. The CPU ignores the field. */
    uint32_t sliceCount;
    double dropout;         /* the probability that a pair is dropped, 0 to 1; 0: no dropout */
    uint64_t dropoutSeed;   /* 0 without dropout, as dropoutOffset */
    uint32_t dropoutOffset; /* another one for each call site and each step of training */
    vkattn_score_stage scoresStage; /* of `scores`; 0 without them */
    vkattn_layout scores;           /* optional: f32, f16 or bf16 */
    /* With VKATTN_WINDOW: keys of the window lie so far apart, at most 2^20; 0 and 1: neighbours. With
     * VKATTN_DILATIONS the most that a head may have, at least 1. */
    uint32_t dilation;
    vkattn_grid grid;     /* optional */
    vkattn_blocks blocks; /* optional; BIGBIRD: as many queries as keys */
    const vkattn_program *program; /* optional: NULL, and the two below are zero */
    uint32_t programWords[16];     /* what vkattnWord returns */
    uint32_t programBufferWords[4]; /* words of VKATTN_PROGRAM_BUFFER_0 to 3; 0: not bound */
    vkattn_offset queryOffset, keyOffset; /* optional; at most VKATTN_MAX_OFFSET queries and keys */
    /* With VKATTN_PAGE_TABLE in presentRoles: the pages of each batch entry in the table. k and v are then pools
     * of pages that all batch entries share, [pages, kvHeads, page tokens, dim], and keyTokens is tablePages *
     * page tokens: [page, token, head, dim] (NHD) and [page, head, token, dim] (HND) are strides. Key j of batch
     * entry b lies in page table[b][j / page tokens], at its token j modulo page tokens. The keys of an absent
     * page are hidden, and nothing is read outside of the pool. Page tables are data on the device, read when the
     * commands run, as VKATTN_KEY_LENGTHS is, which says how many keys an entry has. No pages: 0. */
    uint32_t tablePages;
    /* In place of a page table, pages in CSR: batch entry b has the pages indices[indptr[b]] to
     * indices[indptr[b + 1] - 1], at most tablePages of them, and all their keys but those past the last page's
     * length. The field is the number of indices; VKATTN_PAGE_INDPTR, VKATTN_PAGE_INDICES and
     * VKATTN_LAST_PAGE_LENGTHS are bound, and no key lengths. Arrays are never trusted: what leads past the indices is
     * cut off, and a length counts as at least 1 and at most page tokens. No CSR: 0. */
    uint32_t pageIndices;
    /* Optional: K and V in up to four segments, as of a cache and new tokens, or a ring from its oldest token on. The
     * keys of k come first, those of k1, k2 and k3 follow, each segment with as many in v, v1, v2 and v3: the result is
     * that of their concatenation, keyTokens is the sum, and everything else counts keys from the first of k. Segments
     * have the batch, the heads, the dims, the types and the stride between dims of k and v, and any other strides. A
     * segment follows the one before it, and has at least one key. Not with pages, ragged batches and
     * VKATTN_VALUES_IN_KEYS. With VKATTN_DETERMINISTIC the result is bitwise that of the same kernel for the
     * concatenation. */
    vkattn_layout k1, v1, k2, v2, k3, v3;
    /* Optional, both or none: out and lse of the same queries over other keys, [batch, heads, queryTokens, valueDim]
     * and f32 [batch, heads, queryTokens, 1]. The result is that of all keys together: the sum of exponents goes on
     * from exp(priorLse). A row whose priorLse is -infinity has seen nothing, and its priorOut is not read; one of NaN
     * or +infinity makes the row NaN. Weights, sinks and lse are those of the whole sum. priorOut may lie in the memory
     * of out, and priorLse in that of lse, with the same layout. Not with dropout, VKATTN_ROW_STATISTICS and vkattnRow.
     * Merging by log-sum-exp: Dao et al. 2023 (flash-decoding), as in cascades of shared prefixes (Ye et al. 2025,
     * FlashInfer) and in ring attention (Liu et al. 2023). */
    vkattn_layout priorOut, priorLse;
} vkattn_problem;

/* Checks `problem` against every rule of this header. Returns VKATTN_OK, or
 * VKATTN_ERROR_INVALID_ARGUMENT with the reason in *why. Pure; any thread. */
VKATTN_API vkattn_result vkattnValidateProblem(const vkattn_problem *problem, vkattn_diagnostic *why);

/* Returns the bytes that must exist from the start of the memory bound to `role` to the end of its
 * last element. Returns 0 for a role that the problem does not use, for the workspace, and for an
 * invalid problem. Pure; any thread. */
VKATTN_API uint64_t vkattnOperandBytes(const vkattn_problem *problem, vkattn_role role);

/* Writes the ALiBi slopes of `heads` heads (Press et al. 2021): 2^(-8 (h + 1) / heads) where heads is
 * a power of two; otherwise those of the next lower power of two, then every other one of twice as
 * many heads.
 * Errors: INVALID_ARGUMENT (heads 0; a NULL). Pure; any thread. */
VKATTN_API vkattn_result vkattnAlibiSlopes(uint32_t heads, float *out, vkattn_diagnostic *why);

/* Returns the bucket, 0 to buckets - 1, of relative position `key - query` in T5 (Raffel et al.
 * 2020): exact near 0, then logarithmic up to maxDistance. bidirectional 1: half of the buckets for
 * keys after the query; 0: keys after the query fall into bucket 0. `buckets` is a multiple of 4 and
 * at least 4; maxDistance is above buckets / 2. Returns 0 where these rules are broken. T5 has 32
 * buckets, distance 128, and scale 1. Pure; any thread. */
VKATTN_API uint32_t vkattnT5Bucket(int32_t relative, uint32_t bidirectional, uint32_t buckets, uint32_t maxDistance);

/* Returns 1 where dropout of the probability keeps the pair of query i and key j, and 0 where dropout
 * drops the pair. `plane` is b * heads + h, of the whole problem. In the dropout of a layer's output
 * the plane is the batch entry, i the token and j the feature. Returns 0 where the probability is not
 * within 0 to 1. Pure; any thread. */
VKATTN_API uint32_t vkattnDropoutKeeps(double probability, uint64_t seed, uint32_t offset, uint32_t plane, uint32_t i, uint32_t j);

#ifdef __cplusplus
}
#endif
#endif
