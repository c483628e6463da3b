#version 450
// Matrices in bf16, sums in f32.
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_bfloat16 : require
layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0) buffer Words { float words[]; };
shared bfloat16_t tile[1024];

void main()
{
    tile[gl_LocalInvocationIndex] = bfloat16_t(words[gl_LocalInvocationIndex]);
    barrier();
    coopmat<bfloat16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> a;
    coopmat<bfloat16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> b;
    coopMatLoad(a, tile, 0, 32, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(b, tile, 0, 32, gl_CooperativeMatrixLayoutColumnMajor);
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> sum;
    coopMatLoad(sum, words, 0, 32, gl_CooperativeMatrixLayoutRowMajor);
    coopMatStore(coopMatMulAdd(a, b, sum), words, 0, 32, gl_CooperativeMatrixLayoutRowMajor);
}
