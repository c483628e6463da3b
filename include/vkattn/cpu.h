/* vkattn/cpu.h: the same problem on the CPU. No Vulkan at all. C99 and C++. Target vkattn::cpu. */
#ifndef VKATTN_CPU_H_
#define VKATTN_CPU_H_

#include "vkattn/problem.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Host memory for one role. `data` is where element 0 of the layout's offsetElems counts from
 * and must be aligned to the dtype's size; `bytes` is what may be touched from there. Input
 * roles are never written. */
typedef struct vkattn_operand_memory {
    vkattn_role role;
    void *data;
    size_t bytes;
} vkattn_operand_memory;

/* Checks operands against a problem as the calls below do: VKATTN_OK, or INVALID_ARGUMENT with
 * the reason. Reads no operand's data. */
VKATTN_API vkattn_result vkattnCpuCheckOperands(const vkattn_problem *problem, const vkattn_operand_memory *operands, uint32_t operandCount,
                                                vkattn_diagnostic *why);

/* Computes the problem in fp32 on `threads` threads (0 = one per core), which it starts, with
 * memory that it allocates: for repeated calls see vkattnCpuRunOn. Writes OUT, and LSE and
 * WEIGHTS where present; bytes between strided elements are left alone. Every bit of the result
 * is the same for any number of threads. Thread-safe for disjoint outputs.
 * Errors: INVALID_ARGUMENT (bad problem; a role missing, given twice, not part of the problem,
 * too small or misaligned), OUT_OF_HOST_MEMORY. Nothing is written when it fails. */
VKATTN_API vkattn_result vkattnCpuRun(const vkattn_problem *problem, const vkattn_operand_memory *operands, uint32_t operandCount,
                                      uint32_t threads, vkattn_diagnostic *why);

/* Threads that stay between calls. One call at a time on a pool; several pools may be used at
 * once. */
typedef struct vkattn_cpu_pool_t *vkattn_cpu_pool;

/* `threads` in all, the one that calls counted: none are started for 1; 0 = one per core. Where
 * the system refuses, the pool has fewer.
 * Errors: INVALID_ARGUMENT (pool is NULL; over 1024 threads), OUT_OF_HOST_MEMORY. */
VKATTN_API vkattn_result vkattnCpuCreatePool(uint32_t threads, vkattn_cpu_pool *pool, vkattn_diagnostic *why);
/* NULL is allowed. No call may be using the pool. */
VKATTN_API void vkattnCpuDestroyPool(vkattn_cpu_pool pool);

/* How a problem is computed on this processor. */
typedef struct vkattn_cpu_plan {
    uint32_t structSize;
    uint32_t threads;   /* that there is work for, at most those of the pool */
    const char *target; /* the instruction set, by Highway's name; a constant */
    /* "tiles": query rows in lanes; "few rows": dims in lanes, for rows that share their keys; a
       constant */
    const char *kernel;
    uint32_t vectorLanes; /* floats in a vector */
    uint32_t rowsPerTile; /* query rows (of all heads of a group) that a vector block holds */
    uint32_t keysPerTile; /* keys between two rescalings */
    uint32_t rowsPerUnit; /* most rows that a thread takes at a time, with their keys */
    /* Pieces of the keys of a row, computed on their own; key lengths and sequences may need
       fewer. */
    uint32_t splits;
    uint64_t workspaceBytes; /* that vkattnCpuRunOn needs */
} vkattn_cpu_plan;

/* Pure: looks at the problem and the processor. `pool` may be NULL: as if it had one thread per
 * core. Errors: INVALID_ARGUMENT. */
VKATTN_API vkattn_result vkattnCpuExplain(const vkattn_problem *problem, vkattn_cpu_pool pool, vkattn_cpu_plan *plan,
                                          vkattn_diagnostic *why);

/* As vkattnCpuRun, on the pool's threads and in the caller's memory: allocates nothing.
 * `workspace` has workspaceBytes of vkattnCpuExplain with the same problem and pool at least, at
 * any alignment; its contents need not be kept and do not matter. Same result as vkattnCpuRun.
 * Errors: INVALID_ARGUMENT, workspace too small included. Nothing is written then. */
VKATTN_API vkattn_result vkattnCpuRunOn(vkattn_cpu_pool pool, const vkattn_problem *problem, const vkattn_operand_memory *operands,
                                        uint32_t operandCount, void *workspace, uint64_t workspaceBytes, vkattn_diagnostic *why);

/* The truth: as vkattnCpuRun, in double precision, in plain loops, on the calling thread. Slow
 * (about 1 GFLOP/s). */
VKATTN_API vkattn_result vkattnCpuOracle(const vkattn_problem *problem, const vkattn_operand_memory *operands, uint32_t operandCount,
                                         vkattn_diagnostic *why);

/* Which keys one query sees, by the rule of the oracle: visible[j] becomes 1 where query `query`
 * of head `head` in batch entry (or sequence) `batch` sees key j, and 0 where it does not.
 * keyCount is the number of bytes of `visible`, at least the keys that the problem has
 * (k.extent[2], or maxSeqK). All of them are written: those past the entry's own keys with 0,
 * and so is every byte where the query lies past the entry's own queries. `operands` are those
 * of vkattnCpuRun. Of their data only masks, bias, lengths and ids are read.
 * Errors: INVALID_ARGUMENT (operands as above; batch, head or query out of range; keyCount too
 * small). Nothing is written then. */
VKATTN_API vkattn_result vkattnCpuVisible(const vkattn_problem *problem, const vkattn_operand_memory *operands, uint32_t operandCount,
                                          uint32_t batch, uint32_t head, uint32_t query, unsigned char *visible, uint32_t keyCount,
                                          vkattn_diagnostic *why);

/* Converts `count` numbers from `from` to `to`, whose dtypes are VKATTN_F32 on one side and
 * VKATTN_F16 or VKATTN_BF16 on the other. Neither needs an alignment. Widening is exact, the
 * payload of a NaN included. Narrowing rounds to the nearest, ties to even, as every kernel
 * stores its outputs: denormals are kept, what is too large becomes infinity, and a NaN stays a
 * NaN of the same sign, quiet.
 * Errors: INVALID_ARGUMENT (other dtypes; a NULL with a count; arrays that overlap). Nothing is
 * written then. */
VKATTN_API vkattn_result vkattnConvert(vkattn_dtype fromType, const void *from, vkattn_dtype toType, void *to, uint64_t count,
                                       vkattn_diagnostic *why);

/* Which rows vkattnCpuVerify looks at. */
typedef struct vkattn_verify_options {
    uint32_t structSize;
    uint32_t allRows; /* 1: every row, whatever it costs */
    /* With allRows 0: this many seeded rows, and the edge rows (first, second, middle and last
     * two queries of the first and last heads: at most 20 more). 0 = every row below 2 GFLOP of
     * work, else 256 and the edge rows. */
    uint64_t rows;
    uint64_t seed; /* which rows are drawn */
    /* u_P of docs/numerics.md, for kernels that round probabilities (vkattn_requirements); 0 for
       the others and the CPU */
    float probabilityUnit;
    uint32_t threads; /* 0 = one per core */
    /* Likewise: what the rounding may move a probability by, however small it is. */
    float probabilityFloor;
} vkattn_verify_options;

#define VKATTN_VERIFY_BINS 16

typedef struct vkattn_verify_report {
    uint64_t rowsTotal, rowsChecked;
    uint32_t passed;        /* 1: every element checked lies within its bound */
    vkattn_role worstRole;  /* OUT, LSE or WEIGHTS: where error / bound is largest */
    uint32_t worstIndex[4]; /* batch, head, query, and value dim or key */
    double worstError;      /* |got - oracle| there; infinity where one is finite and the other is not */
    double worstBound;      /* what docs/numerics.md allows there */
    double worstGot, worstExpected;
    double maxError; /* largest |out - oracle| over the rows checked */
    /* maxError / largest |v| that a checked row can see; 0 where nothing is visible */
    double maxErrorRelativeToV;
    /* Elements checked, of all outputs, by error / bound: [0] no error; [n] above 2^(n - 15) and
     * up to 2^(n - 14), for n from 1 (which has the smaller ones too) to 14; [15] above 1. */
    uint64_t histogram[VKATTN_VERIFY_BINS];
} vkattn_verify_report;

/* Compares outputs that something else has computed (OUT, and LSE and WEIGHTS where present,
 * taken from `operands`) with the oracle, element by element, by the rule of docs/numerics.md.
 * Writes only `report`. Returns VKATTN_OK whether or not the outputs are right: look at
 * report->passed. `options` may be NULL. */
VKATTN_API vkattn_result vkattnCpuVerify(const vkattn_problem *problem, const vkattn_operand_memory *operands, uint32_t operandCount,
                                         const vkattn_verify_options *options, vkattn_verify_report *report, vkattn_diagnostic *why);

#ifdef __cplusplus
}
#endif
#endif
