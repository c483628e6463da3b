// What shaders on matrix units begin with (VK_KHR_cooperative_matrix).
//
// Defines: VKATTN_BF16: inputs are bf16, not f16. VKATTN_COOPMAT2: VK_NV_cooperative_matrix2 too.
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#ifdef VKATTN_COOPMAT2
#extension GL_NV_cooperative_matrix2 : require
#endif
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_vote : require
#ifdef VKATTN_BF16
#extension GL_EXT_bfloat16 : require
#define Input bfloat16_t
#else
#define Input float16_t
#endif

// A call for each of some matrices. Where they are kept in registers the loop is unrolled, so that
// indices are constants; compilers of CPU devices take a second for each product, and keep matrices
// in memory.
#define EACH_BLOCK(n, count, call)                                                                                                         \
    if (lockstep) {                                                                                                                        \
        [[dont_unroll]] for (uint n = 0u; n < (count); ++n) call;                                                                          \
    } else {                                                                                                                               \
        [[unroll]] for (uint n = 0u; n < (count); ++n) call;                                                                               \
    }
// The same, and rolled where the call takes no matrix by its index.
#define EACH_BLOCK_OR_ROLLED(rolled, n, count, call)                                                                                       \
    if (lockstep || (rolled)) {                                                                                                            \
        [[dont_unroll]] for (uint n = 0u; n < (count); ++n) call;                                                                          \
    } else {                                                                                                                               \
        [[unroll]] for (uint n = 0u; n < (count); ++n) call;                                                                               \
    }
