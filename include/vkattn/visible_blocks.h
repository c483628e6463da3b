/* vkattn/visible_blocks.h: which blocks of pairs attention visits, made on the device from whatever says
 * what is visible: rules, masks, documents, lengths and the program of a problem. C99 and C++. This header
 * knows no Vulkan and no pointers to data.
 *
 * A program's vkattnVisible hides pairs one by one, and a mask is read pair by pair: kernels visit every
 * block all the same. The lists that this operation writes, given to attention as blocks of the kind
 * VKATTN_BLOCKS_INDICES, name the blocks that have anything to see; kernels skip the others. Lists are made
 * once and serve every later call whose visibility is the same: all layers and steps. They are those of
 * FlexAttention's create_block_mask: kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices.
 *
 * Of row r of blocks of batch entry b and query head h, a column c is listed where some query i of
 * [r * queries, (r + 1) * queries) sees some key j of [c * keys, (c + 1) * keys), by the formulas of
 * vkattn/problem.h. Columns ascend. With `full`, columns of which every such query sees every such key are
 * in the lists of full blocks instead. Queries past the end of a sequence do not count, keys past a key
 * length or the end of a sequence are hidden, and tokens past queryTokens and keyTokens do not exist.
 * The result is exact, and the same run after run.
 */
#ifndef VKATTN_VISIBLE_BLOCKS_H_
#define VKATTN_VISIBLE_BLOCKS_H_

#include "vkattn/operations.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What to compute. Zero-initialise the struct, set structSize, then set the fields that you need.
 * Roles, read: those of `attention` that decide what is visible (bias, masks, lengths, documents, rules,
 * buffers of the program). Written, tightly packed: VKATTN_BLOCK_COUNTS, VKATTN_BLOCK_INDICES and, with
 * `full`, VKATTN_FULL_BLOCK_COUNTS and VKATTN_FULL_BLOCK_INDICES, as vkattn/problem.h has them; entries past
 * a count keep the bytes that they had. No output overlaps an input or another output.
 * `attention` is the description of the attention that is to follow, without the lists: its q and k say
 * which tokens there are, and neither they, v, out nor any other tensor but bias and masks is bound.
 * `blocks` is the member of the attention that follows: kind VKATTN_BLOCKS_INDICES, entries 0 (or as many
 * as there are columns). With batches or heads of 1 (or 0) the lists are those of batch entry 0 or head 0
 * and stand for all: the program must not ask for the other one, and nothing else may differ (a length for
 * each batch entry, a mask for each head), which is refused.
 * Cost: a test of each pair that position and rules do not rule out; no product of q and k is computed. */
typedef struct vkattn_visible_blocks {
    uint32_t structSize;
    uint32_t flags;                  /* 0 */
    const vkattn_problem *attention; /* read during a call and not kept; without blocks */
    vkattn_blocks blocks;
} vkattn_visible_blocks;

#ifdef __cplusplus
}
#endif
#endif
