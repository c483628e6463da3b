/* vkattn/linear.h: attention whose cost is linear in the tokens: by feature maps, and by a state that
 * every token decays, writes and reads. C99 and C++. This header knows no Vulkan and no pointers to data.
 *
 * Both are a scan over the keys of a batch entry and a state head, with one matrix S as its memory. The
 * formulas are for key tokens t = 0, 1, ..., n - 1, keys k_t, values v_t and the query q_i of row i:
 *
 *     VKATTN_LINEAR_PLAIN        S_t = S_(t-1) + k_t v_t^T
 *     VKATTN_LINEAR_GATED        S_t = exp(g_t) S_(t-1) + k_t v_t^T
 *     VKATTN_LINEAR_DELTA        S_t = S_(t-1) + k_t u_t^T,         u_t = beta_t (v_t - S_(t-1)^T k_t)
 *     VKATTN_LINEAR_GATED_DELTA  R_t = exp(g_t) S_(t-1),  S_t = R_t + k_t u_t^T,
 *                                                              u_t = beta_t (v_t - R_t^T k_t)
 *         out_i = scale S_p^T q_i: after token p is written
 *
 *     VKATTN_LINEAR_FEATURES     S_t = S_(t-1) + phi(k_t) v_t^T,    z_t = z_(t-1) + phi(k_t)
 *         out_i = S_p^T phi(q_i) / z_p^T phi(q_i); 0 where the denominator is 0
 *
 * S has a row for each key dim, or feature, and a column for each value dim. S_(-1) and z_(-1) are those of
 * stateIn, and 0 without it. exp(g_t) multiplies the whole state, or row d by exp(g_td) where decay has a
 * number for each key dim; g_t of -infinity forgets everything. n is k.extent[2], or the batch entry's
 * value in VKATTN_KEY_LENGTHS, clamped to k.extent[2]. p says which token row i reads after:
 *
 *     i' = i                       with VKATTN_ALIGN_TOP_LEFT
 *     i' = i + n - queryTokens     otherwise: the last query stands at the last key
 *     p  = min(i', n - 1)          the recurrent rules, and features with VKATTN_CAUSAL
 *     p  = n - 1                   features otherwise: every query sees every key
 *
 * A row with i' < 0, and every row where there is neither a key nor stateIn, sees nothing: out is exactly 0,
 * and q is not read. Keys, values, decays and write strengths of tokens from n on, and of tokens after p,
 * never influence a row, whatever they hold.
 * A NaN that a token writes reaches the later rows of its batch entry and state head, and nothing else.
 *
 * Feature maps phi, with x' = sqrt(|scale|) x for FAVOR (of a negative scale the queries take the sign):
 *
 *     ELU1    phi_r(x) = x_r + 1 where x_r > 0, exp(x_r) elsewhere          (Katharopoulos et al. 2020)
 *     RELU    phi_r(x) = max(omega_r . x / sqrt(m), 0) + epsilon            (Choromanski et al. 2021)
 *             phi_r(x) = max(x_r, 0) + epsilon                              without omega
 *     FAVOR   phi_r(x) = exp(omega_r . x' - |x'|^2 / 2) / sqrt(m)           (FAVOR+, the same paper)
 *             E[phi(q) . phi(k)] = exp(scale q . k) for rows omega_r of normal numbers
 *     FAVOR2  phi has both exp(omega_r . x' - ...) and, m features later, exp(-omega_r . x' - ...):
 *             2 m features, / sqrt(2 m); a smaller variance
 *
 * Factors that all features of a row of out share cancel, and are never computed. No exponent overflows:
 * each feature r of the state has a running maximum M_r of omega_r . k' - |k'|^2 / 2 over the keys so
 * far, by which its row of S and its z are scaled, as in online softmax. docs/linear.md says how exact
 * these estimates of a softmax are, and when they are worse than none.
 *
 * The state as it is stored, f32 [batch, stateHeads, rows, columns]:
 *     recurrent rules    [keyDim, valueDim]         S
 *     ELU1, RELU         [features, valueDim + 1]   S, then z
 *     FAVOR, FAVOR2      [features, valueDim + 2]   exp(-M_r) S, exp(-M_r) z, then M; without sqrt(m)
 * Zeros are the state before the first token; where z_r is 0, M_r counts for nothing.
 *
 * Heads. stateHeads is the largest one of the heads of k, v and omega, and out has as many heads as the larger
 * one of stateHeads and the heads of q; each number divides the larger ones, and omega has stateHeads or 1. Of an operand with m heads, head
 * h of a larger number n takes floor(h / (n / m)), or h mod m with VKATTN_HEADS_MODULO: the state heads of
 * k and v, and the heads of out of q and the states.
 *
 * Named layers are parameters of this operation: vkattnLinearPresets lists them with their papers.
 */
#ifndef VKATTN_LINEAR_H_
#define VKATTN_LINEAR_H_

#include "vkattn/operations.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum vkattn_linear_rule {
    VKATTN_LINEAR_FEATURES = 0, /* a softmax's kernel by features, with its normaliser */
    /* The recurrent rules: "linear", "gated", "delta" and "gated_delta" of ONNX's LinearAttention. */
    VKATTN_LINEAR_PLAIN = 1,
    VKATTN_LINEAR_GATED = 2,
    VKATTN_LINEAR_DELTA = 3,
    VKATTN_LINEAR_GATED_DELTA = 4,
    VKATTN_LINEAR_RULE_MAX = 0x7fffffff
} vkattn_linear_rule;

typedef enum vkattn_feature_map {
    VKATTN_FEATURES_ELU1 = 0,
    VKATTN_FEATURES_RELU = 1,
    VKATTN_FEATURES_FAVOR = 2,
    VKATTN_FEATURES_FAVOR2 = 3,
    VKATTN_FEATURE_MAP_MAX = 0x7fffffff
} vkattn_feature_map;

/* How the scan is computed, for comparison, tests and measurement. The choice is part of no result but
 * its last bits. */
typedef enum vkattn_linear_form {
    VKATTN_LINEAR_FORM_AUTO = 0,      /* chunked where there are more than a few tokens */
    VKATTN_LINEAR_FORM_RECURRENT = 1, /* token by token */
    /* Chunks of tokens, as products of matrices; for the delta rules in WY form, with one unit lower
     * triangular system a chunk (Yang et al. 2024). */
    VKATTN_LINEAR_FORM_CHUNKED = 2,
    VKATTN_LINEAR_FORM_MAX = 0x7fffffff
} vkattn_linear_form;

/* Which head of an operand with fewer heads belongs to a head. */
typedef enum vkattn_head_mapping {
    VKATTN_HEADS_DIVIDED = 0, /* neighbours share a head: grouped-query attention, ONNX */
    VKATTN_HEADS_MODULO = 1,  /* heads repeat as a whole: ggml's gated_delta_net */
    VKATTN_HEAD_MAPPING_MAX = 0x7fffffff
} vkattn_head_mapping;

/* What to compute. Zero-initialise the struct, set structSize, then set the fields that you need: zero is
 * the default of every field. At least one of out, stateOut and snapshots is asked for; q and out are both
 * given or both absent.
 * Roles: VKATTN_Q, VKATTN_K, VKATTN_V, VKATTN_DECAY, VKATTN_WRITE_STRENGTH, VKATTN_OMEGA, VKATTN_STATE_IN,
 * VKATTN_KEY_LENGTHS, read; VKATTN_OUT, VKATTN_STATE_OUT, VKATTN_SNAPSHOTS, written. The memory of stateOut
 * may be that of stateIn with the same layout; no other overlap of an output is allowed.
 * Limits: keyDim and valueDim lie between 1 and 2048, rows of omega between 1 and 4096; batch times heads of
 * out is less than 2^32; tokens are at most 2^30, and 0 tokens are ordinary input.
 * Vulkan: UNSUPPORTED on a device with fewer than 11 storage buffers a stage, where one batch entry of an operand
 * is larger than a binding, and with more features than a shader may loop over (docs/linear.md); the runtime then
 * falls back to the CPU. */
typedef struct vkattn_linear_attention {
    uint32_t structSize;
    uint32_t flags; /* VKATTN_CAUSAL (the recurrent rules are causal without it), ALIGN_TOP_LEFT, SCALE */
    vkattn_linear_rule rule;
    vkattn_feature_map features; /* of VKATTN_LINEAR_FEATURES; otherwise 0 */
    vkattn_linear_form form;
    vkattn_head_mapping headMapping;
    vkattn_layout q;   /* [batch, heads, queryTokens, keyDim]: f32, f16 or bf16, as k, v and out */
    vkattn_layout k;   /* [batch, keyHeads, keyTokens, keyDim] */
    vkattn_layout v;   /* [batch, valueHeads, keyTokens, valueDim] */
    vkattn_layout out; /* [batch, heads of out, queryTokens, valueDim] */
    /* Of the gated rules: g, the logarithm of what is kept; f32, f16 or bf16 [batch, stateHeads,
     * keyTokens, 1 or keyDim], the first two 1 where they broadcast. A decay that does not depend on the
     * token has a stride of 0. */
    vkattn_layout decay;
    /* Of the delta rules: beta; f32, f16 or bf16 [batch, stateHeads, keyTokens, 1], the first two 1 where
     * they broadcast. */
    vkattn_layout writeStrength;
    /* Of FAVOR and FAVOR2, optional with RELU: f32 [1, stateHeads or 1, m, keyDim]. vkattnRandomFeatures
     * makes it. */
    vkattn_layout omega;
    vkattn_layout stateIn;  /* optional: f32 [batch, stateHeads, rows, columns], as above */
    vkattn_layout stateOut; /* optional: f32, the extents of stateIn: the state after n tokens */
    /* optional: f32 [batch, stateHeads, count * rows, columns] with count = floor(keyTokens /
     * snapshotTokens): snapshot c, from row c * rows on, is the state after min((c + 1) * snapshotTokens, n)
     * tokens. A decoder that guesses tokens returns to one of them. */
    vkattn_layout snapshots;
    uint32_t snapshotTokens; /* at least 1 with snapshots; otherwise 0 */
    /* Finite. Without VKATTN_SCALE it is 0 and means 1/sqrt(keyDim). With the flag it is taken literally,
     * but the recurrent rules take 0 for 1/sqrt(keyDim) as ONNX does. ELU1 and RELU ignore it. */
    float scale;
    float epsilon;         /* of RELU: finite, at least 0; 0: 1e-3. Otherwise 0 */
    uint32_t presentRoles; /* VKATTN_PRESENT(VKATTN_KEY_LENGTHS), or 0 */
    /* Vulkan: the number of slices that the scan is recorded in (see "Slices" in vkattn.h). 0 and 1: all
     * at once. The CPU ignores the field. */
    uint32_t sliceCount;
    uint32_t reserved; /* 0 */
} vkattn_linear_attention;

/* How long the rows of omega are; their directions are the same. */
typedef enum vkattn_feature_lengths {
    VKATTN_LENGTHS_CHI = 0,  /* independent, of the chi distribution with keyDim degrees: unbiased */
    VKATTN_LENGTHS_ROOT = 1, /* all sqrt(keyDim): regularised, a smaller variance and a bias */
    VKATTN_FEATURE_LENGTHS_MAX = 0x7fffffff
} vkattn_feature_lengths;

/* Writes orthogonal random features (Choromanski et al. 2021), omega [m, dims]: each block of `dims` rows is
 * orthogonal, and different blocks are independent. The directions are those of the Q of a QR decomposition
 * of normal numbers, by rows. Computed in double precision, from Philox4x32-10 with the key (low, high word
 * of seed): normal numbers 4 n to 4 n + 3 of row r are two Box-Muller pairs of the words of the counter
 * (n, r, head, 0), and (n, r, head, 1) for a row's length. Another head, or another seed, draws others.
 * Errors: INVALID_ARGUMENT (m 0 or over 4096; dims 0 or over 2048; lengths no vkattn_feature_lengths; a
 * NULL), OUT_OF_HOST_MEMORY. Allocates at most 8 dims^2 bytes. Any thread. */
VKATTN_API vkattn_result vkattnRandomFeatures(uint32_t m, uint32_t dims, vkattn_feature_lengths lengths, uint64_t seed, uint32_t head,
                                              float *omega, vkattn_diagnostic *why);

/* A layer of the literature as parameters of vkattn_linear_attention. */
typedef struct vkattn_linear_preset {
    const char *name;  /* "RetNet" */
    const char *paper; /* authors, year, arXiv number */
    vkattn_linear_rule rule;
    vkattn_feature_map features;
    uint32_t decaysKeyDims; /* 1: decay has a number for each key dim, 0: one for each head, or there is none */
    float scale;            /* with VKATTN_SCALE; 0: without the flag, 1/sqrt(keyDim) */
    const char *inputs;     /* what q, k, v, decay and beta are in the paper's words */
} vkattn_linear_preset;

/* Returns the presets, in static storage, and sets *count. */
VKATTN_API const vkattn_linear_preset *vkattnLinearPresets(uint32_t *count);

#ifdef __cplusplus
}
#endif
#endif
