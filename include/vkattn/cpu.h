/* vkattn/cpu.h: the same problem on the CPU, without Vulkan. C99 and C++. Target vkattn::cpu.
 * A comment lists the errors of its call without the prefix VKATTN_ERROR_. */
#ifndef VKATTN_CPU_H_
#define VKATTN_CPU_H_

#include "vkattn/operations.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Host memory for one role. The layout's offsetElems counts from `data`, which is aligned to the
 * dtype's size. `bytes` may be touched from there. Memory of input roles is never written. */
typedef struct vkattn_operand_memory {
    vkattn_role role;
    void *data;
    size_t bytes;
} vkattn_operand_memory;

/* Checks operands against a problem by the rules of the calls below, and reads no operand's data.
 * Errors: INVALID_ARGUMENT with the reason. */
VKATTN_API vkattn_result vkattnCpuCheckOperands(const vkattn_problem *problem, const vkattn_operand_memory *operands, uint32_t operandCount,
                                                vkattn_diagnostic *why);

/* Computes the problem in fp32 on `threads` threads (0: one per core). The call starts the threads
 * and allocates memory; vkattnCpuRunOn does neither, for repeated calls. Writes OUT, and LSE and
 * WEIGHTS where present; bytes between strided elements are left alone. Every bit of the result is
 * the same for any number of threads. Thread-safe for disjoint outputs.
 * Errors: INVALID_ARGUMENT (bad problem; a role missing, given twice, not part of the problem, too
 * small or misaligned), OUT_OF_HOST_MEMORY. A call that fails writes nothing. */
VKATTN_API vkattn_result vkattnCpuRun(const vkattn_problem *problem, const vkattn_operand_memory *operands, uint32_t operandCount,
                                      uint32_t threads, vkattn_diagnostic *why);

/* Threads that stay between calls. A pool serves one call at a time; several pools may be used at
 * once. */
typedef struct vkattn_cpu_pool_t *vkattn_cpu_pool;

/* Creates a pool of `threads` threads, of which the calling thread is one: 1 starts none. 0: one
 * per core. The pool has fewer threads where the system refuses to start them.
 * Errors: INVALID_ARGUMENT (pool is NULL; over 1024 threads), OUT_OF_HOST_MEMORY. */
VKATTN_API vkattn_result vkattnCpuCreatePool(uint32_t threads, vkattn_cpu_pool *pool, vkattn_diagnostic *why);
/* Destroys a pool that no call is using. NULL is allowed. */
VKATTN_API void vkattnCpuDestroyPool(vkattn_cpu_pool pool);

/* How a problem is computed on this processor. */
typedef struct vkattn_cpu_plan {
    uint32_t structSize;
    uint32_t threads;   /* that compute, at most those of the pool: small problems are the caller's */
    const char *target; /* the instruction set, by Highway's name; a constant */
    /* "tiles": query rows in lanes. "few rows": dims in lanes, for rows that share their keys. A
     * constant. */
    const char *kernel;
    uint32_t vectorLanes; /* floats in a vector */
    uint32_t rowsPerTile; /* query rows, of all heads of a group, that a vector block holds */
    uint32_t keysPerTile; /* keys between two rescalings */
    uint32_t rowsPerUnit; /* most rows that a thread takes at a time, with their keys */
    /* Splits of the keys of a row, computed on their own. Key lengths and sequences may need
     * fewer. */
    uint32_t splits;
    uint64_t workspaceBytes; /* the workspace that vkattnCpuRunOn needs */
} vkattn_cpu_plan;

/* Says how a problem is computed on this processor. `pool` NULL means a pool with one thread per
 * core. Pure: the call looks at the problem and the processor.
 * Errors: INVALID_ARGUMENT. */
VKATTN_API vkattn_result vkattnCpuExplain(const vkattn_problem *problem, vkattn_cpu_pool pool, vkattn_cpu_plan *plan,
                                          vkattn_diagnostic *why);

/* Computes what vkattnCpuRun computes, bit for bit, on the pool's threads and in the caller's
 * memory: the call allocates nothing. `workspace` has at least the workspaceBytes of
 * vkattnCpuExplain with the same problem and pool, at any alignment. The contents of the
 * workspace do not matter and need not be kept.
 * Errors: INVALID_ARGUMENT, also where the workspace is too small. A call that fails writes
 * nothing. */
VKATTN_API vkattn_result vkattnCpuRunOn(vkattn_cpu_pool pool, const vkattn_problem *problem, const vkattn_operand_memory *operands,
                                        uint32_t operandCount, void *workspace, uint64_t workspaceBytes, vkattn_diagnostic *why);

/* Computes the truth: the outputs of vkattnCpuRun in double precision, in plain loops, on the
 * calling thread. Slow: about 1 GFLOP/s. Errors: as vkattnCpuRun. */
VKATTN_API vkattn_result vkattnCpuOracle(const vkattn_problem *problem, const vkattn_operand_memory *operands, uint32_t operandCount,
                                         vkattn_diagnostic *why);

/* Says which keys one query sees, by the rule of the oracle. visible[j] becomes 1 where query
 * `query` of head `head` in batch entry (or sequence) `batch` sees key j, and 0 where the query
 * does not. keyCount is the number of bytes of `visible`, at least the keys that the problem has
 * (k.extent[2], or maxSeqK). All bytes are written: bytes past the entry's own keys with 0, and
 * every byte with 0 where the query lies past the entry's own queries. `operands` are those of
 * vkattnCpuRun; only the data of masks, bias, lengths and ids is read.
 * Errors: INVALID_ARGUMENT (operands as above; batch, head or query out of range; keyCount too
 * small). A call that fails writes nothing. */
VKATTN_API vkattn_result vkattnCpuVisible(const vkattn_problem *problem, const vkattn_operand_memory *operands, uint32_t operandCount,
                                          uint32_t batch, uint32_t head, uint32_t query, unsigned char *visible, uint32_t keyCount,
                                          vkattn_diagnostic *why);

/* Converts `count` numbers between VKATTN_F32 on one side and VKATTN_F16, VKATTN_BF16 or a small type
 * on the other: of VKATTN_Q8_0 and VKATTN_Q4_0 into as many blocks as it takes, of which the last is
 * filled up with zeros; of VKATTN_INT8 one row and its scale. The arrays need no alignment. Widening is exact, the payload of a NaN included.
 * Narrowing rounds to the nearest, ties to even, as every kernel stores its outputs: denormals
 * are kept, values that are too large become infinity, and a NaN stays a NaN of the same sign,
 * quiet. Numbers that are too large for an 8-bit float become its largest one, and infinity stays
 * infinity or, where the type has none, becomes a NaN. A scale is the largest magnitude of its
 * elements over 127 (VKATTN_Q4_0: the element of that magnitude over -8), codes are quotients by the
 * scale before it is rounded, to nearest even; where an element is not finite the scale is NaN.
 * Errors: INVALID_ARGUMENT (other dtypes; a NULL with a count; arrays that overlap),
 * OUT_OF_HOST_MEMORY (a row of VKATTN_INT8). A call that
 * fails writes nothing. */
VKATTN_API vkattn_result vkattnConvert(vkattn_dtype fromType, const void *from, vkattn_dtype toType, void *to, uint64_t count,
                                       vkattn_diagnostic *why);

/* Options of vkattnCpuVerify: which rows are checked, and how exactly the kernel computed them. */
typedef struct vkattn_verify_options {
    uint32_t structSize;
    uint32_t allRows; /* 1: every row, whatever the cost */
    /* With allRows 0: this many rows are drawn by the seed and checked beside the edge rows. Edge
     * rows are the first, second, middle and last two queries of the first and last heads, at most
     * 20. 0: every row below 2 GFLOP of work, else 256 rows and the edge rows. */
    uint64_t rows;
    uint64_t seed; /* decides which rows are drawn */
    /* u_P of docs/numerics.md, from vkattn_requirements, for kernels that round probabilities. 0
     * for other kernels and for the CPU. */
    float probabilityUnit;
    uint32_t threads; /* 0: one per core */
    /* How far the rounding may move a probability, however small it is; from
       vkattn_requirements. */
    float probabilityFloor;
} vkattn_verify_options;

#define VKATTN_VERIFY_BINS 16

/* Result of vkattnCpuVerify. */
typedef struct vkattn_verify_report {
    uint64_t rowsTotal, rowsChecked;
    uint32_t passed; /* 1: every element checked lies within its bound */
    /* The element with the largest error / bound. */
    vkattn_role worstRole;  /* OUT, LSE or WEIGHTS */
    uint32_t worstIndex[4]; /* batch, head, query, and value dim or key */
    double worstError;      /* |got - oracle|; infinity where only one of them is finite */
    double worstBound;      /* the bound of docs/numerics.md */
    double worstGot, worstExpected;
    double maxError; /* largest |out - oracle| over the rows checked */
    /* maxError / largest |v| that a checked row can see; 0 where nothing is visible. */
    double maxErrorRelativeToV;
    /* Number of elements checked, of all outputs, by error / bound: [0] has no error, [n] lies
     * above 2^(n - 15) and up to 2^(n - 14) for n from 1 to 14, [1] holds smaller ones too, and
     * [15] lies above 1. */
    uint64_t histogram[VKATTN_VERIFY_BINS];
} vkattn_verify_report;

/* Compares outputs that something else has computed with the oracle, element by element, by the
 * rule of docs/numerics.md. The outputs (OUT, and LSE and WEIGHTS where present) are those in
 * `operands`. The call writes only `report`, and returns VKATTN_OK whether or not the outputs
 * are right: look at report->passed. `options` may be NULL. */
VKATTN_API vkattn_result vkattnCpuVerify(const vkattn_problem *problem, const vkattn_operand_memory *operands, uint32_t operandCount,
                                         const vkattn_verify_options *options, vkattn_verify_report *report, vkattn_diagnostic *why);

/* The operations of vkattn/operations.h, attention among them, with the life that attention has
 * above. Operands are those of the operation's roles. An output may be the very memory of an input
 * where vkattn/operations.h allows it. */

/* As vkattnCpuCheckOperands. Errors: INVALID_ARGUMENT with the reason. */
VKATTN_API vkattn_result vkattnCpuCheckOperation(const vkattn_operation *operation, const vkattn_operand_memory *operands,
                                                 uint32_t operandCount, vkattn_diagnostic *why);

/* Sets *bytes to the workspace that vkattnCpuRunOperation needs with the same pool; 0: none. Pure: the
 * call looks at the operation and the processor. Errors: INVALID_ARGUMENT. */
VKATTN_API vkattn_result vkattnCpuOperationWorkspace(const vkattn_operation *operation, vkattn_cpu_pool pool, uint64_t *bytes,
                                                     vkattn_diagnostic *why);

/* Computes the operation in fp32 on the pool's threads; pool NULL: on the calling thread alone. The
 * call allocates nothing. Every bit of the result is the same for any number of threads. Writes the
 * operation's outputs and no byte between their elements.
 * Errors: INVALID_ARGUMENT (bad operation; operands as in vkattnCpuRun; the workspace too small). A
 * call that fails writes nothing. */
VKATTN_API vkattn_result vkattnCpuRunOperation(vkattn_cpu_pool pool, const vkattn_operation *operation,
                                               const vkattn_operand_memory *operands, uint32_t operandCount, void *workspace,
                                               uint64_t workspaceBytes, vkattn_diagnostic *why);

/* Computes the truth in double precision, in plain loops, on the calling thread. Errors: as
 * vkattnCpuRun. */
VKATTN_API vkattn_result vkattnCpuOracleOperation(const vkattn_operation *operation, const vkattn_operand_memory *operands,
                                                  uint32_t operandCount, vkattn_diagnostic *why);

/* Compares outputs that something else has computed with the oracle, element by element, by the rules
 * of docs/numerics.md. An operation that ran in place has lost an input: give the input's earlier
 * contents as that role. Fills `report` as vkattnCpuVerify does; worstRole is the output, and rows
 * are those of X. `options` may be NULL. Errors: as vkattnCpuVerify. */
VKATTN_API vkattn_result vkattnCpuVerifyOperation(const vkattn_operation *operation, const vkattn_operand_memory *operands,
                                                  uint32_t operandCount, const vkattn_verify_options *options,
                                                  vkattn_verify_report *report, vkattn_diagnostic *why);

#ifdef __cplusplus
}
#endif
#endif
