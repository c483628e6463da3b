/* vkattn/statistics.h: what attention does, in numbers: statistics of the weights of every row, the keys
 * that have the largest weights, and what every key receives, without the weights in memory. C99 and C++.
 * This header knows no Vulkan and no pointers to data.
 *
 * The formulas continue those of vkattn/problem.h, for batch entry b and query head h. Sinks and dropout
 * take no part: the weights are shares of what the row gives to keys.
 *
 *     p_ij = exp(s_ij) / sum over visible j' of exp(s_ij')       0 where the pair is hidden
 *
 * Statistics of row i, in the columns of vkattn_statistic:
 *
 *     ENTROPY           - sum over j of p_ij ln p_ij, in nats; 0 ln 0 = 0
 *     LARGEST           the largest p_ij
 *     LARGEST_KEY       its j, as a number; of equal scores the lowest j
 *     DISTANCE          sum over j of p_ij |j - i'|    (Vig and Belinkov 2019)
 *     DIAGONAL          p_ij at j = i'; 0 where that key is hidden or is no key
 *     FIRST             p_i0: the share of the first token (Xiao et al. 2023)
 *     SQUARES           sum over j of p_ij^2; its inverse is the number of keys that take part
 *     VISIBLE           the number of keys that the row sees
 *     LOCALITY          (p_ij at j = i' - 1 + p_ij at j = i' + 1) / how many of the two the row sees; -1
 *                       where the row sees neither
 *     SIGNED_DISTANCE   sum over j of p_ij (j - i')
 *     SQUARED_DISTANCE  sum over j of p_ij (j - i')^2
 *     DENSITY           the share of the visible keys with p_ij > densityThreshold; 0 where
 *                       densityThreshold is 0
 *
 * received_j = the mean of p_ij over the rows i of the query head that see a key; 0 where no row does.
 * topKeys_i are the keys with the k largest p_ij, largest first, of equal scores the lowest key first;
 * topWeights_i are their p_ij. A score of -infinity is a visible key of weight 0, and no top key. Where the
 * row sees fewer than k keys with higher scores the rest is 0, and the key -1 (0xffffffff).
 *
 * A row that sees nothing has zeros, the key -1 and the locality -1. A row that sees a score of NaN or
 * +infinity, or nothing but -infinity, has NaN in all columns and in topWeights, and the keys -1; NaN is
 * then what the keys that the row sees receive. What a pair hides never influences a result, whatever q
 * and k hold. Numbers are f32: keys and counts are exact up to 2^24. Sums are fp32 or wider, in a fixed
 * order without atomics: the bits are the same run after run (docs/numerics.md).
 *
 * Ragged batches: `statistics` and `topWeights` lie as `out` does, `received` as k does; tokens that
 * belong to no sequence keep the bytes that they had.
 */
#ifndef VKATTN_STATISTICS_H_
#define VKATTN_STATISTICS_H_

#include "vkattn/operations.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The columns of `statistics`. */
typedef enum vkattn_statistic {
    VKATTN_STATISTIC_ENTROPY = 0,
    VKATTN_STATISTIC_LARGEST = 1,
    VKATTN_STATISTIC_LARGEST_KEY = 2,
    VKATTN_STATISTIC_DISTANCE = 3,
    VKATTN_STATISTIC_DIAGONAL = 4,
    VKATTN_STATISTIC_FIRST = 5,
    VKATTN_STATISTIC_SQUARES = 6,
    VKATTN_STATISTIC_VISIBLE = 7,
    VKATTN_STATISTIC_LOCALITY = 8,
    VKATTN_STATISTIC_SIGNED_DISTANCE = 9,
    VKATTN_STATISTIC_SQUARED_DISTANCE = 10,
    VKATTN_STATISTIC_DENSITY = 11,
    VKATTN_STATISTIC_COUNT = 12, /* the extent of `statistics`; not a column */
    VKATTN_STATISTIC_MAX = 0x7fffffff
} vkattn_statistic;

/* The most keys of a row that topKeys may have. */
#define VKATTN_MAX_TOP_KEYS 16

/* What to compute. Zero-initialise the struct, set structSize, then set the fields that you need. At
 * least one output is asked for.
 * Roles: those of `attention` that decide scores (q, k, bias, masks, lengths, documents, slopes), all
 * read; VKATTN_STATISTICS, VKATTN_RECEIVED, VKATTN_TOP_WEIGHTS, VKATTN_TOP_KEYS, written. No output
 * overlaps an input or another output.
 * `attention` may be the description of the forward pass as it is. Its v, out, lse, weights, scores,
 * sinks, dropout, kernel, and the flags that belong to these, count for nothing; v and out may be absent.
 * With a sliceCount the statistics are recorded in as many slices (see "Slices" in vkattn.h), and the
 * whole workspace keeps its contents from the first slice to the last; the bits are those of one piece.
 * Workspace: two numbers a row, one a head, and some hundred bytes. */
typedef struct vkattn_attention_statistics {
    uint32_t structSize;
    uint32_t flags;                  /* 0 */
    const vkattn_problem *attention; /* read during a call and not kept */
    vkattn_layout statistics;        /* optional: f32 [batch, heads, queryTokens, VKATTN_STATISTIC_COUNT] */
    vkattn_layout received;          /* optional: f32 [batch, heads, keyTokens, 1]; heads: query heads */
    /* optional: f32 [batch, heads, queryTokens, k], k at most VKATTN_MAX_TOP_KEYS; with topKeys */
    vkattn_layout topWeights;
    vkattn_layout topKeys; /* optional: bits32, the extents of topWeights; with topWeights */
    /* At least 0, below 1. Above 0 and at most 1 / VKATTN_MAX_TOP_KEYS it takes another pass over the
     * keys, on the device; above that where keys are cut into chunks or slices. */
    float densityThreshold;
    uint32_t reserved; /* 0 */
} vkattn_attention_statistics;

#ifdef __cplusplus
}
#endif
#endif
