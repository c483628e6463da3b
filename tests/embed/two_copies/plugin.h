/* What a plugin offers: attention by its own copy of vkattn. */
#include "attention.h"

struct copy {
    int (*create)(struct attention *attention, struct gpu *gpu, unsigned seed);
    int (*record)(struct attention *attention);
    int (*check)(const struct attention *attention);
    void (*destroy)(struct attention *attention);
    /* Its vkattnRecord */
    vkattn_result (*library)(vkattn_context, const vkattn_problem *, const vkattn_record *, vkattn_diagnostic *);
};
