#version 450
// Matrices in f16, sums in f32, one subgroup a matrix.
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint rows = 16;
layout(constant_id = 2) const uint columns = 16;
layout(constant_id = 3) const uint depth = 16;
layout(set = 0, binding = 0) buffer Words { float words[]; };
shared float16_t tile[1024];

void main()
{
    tile[gl_LocalInvocationIndex] = float16_t(words[gl_LocalInvocationIndex]);
    barrier();
    coopmat<float16_t, gl_ScopeSubgroup, rows, depth, gl_MatrixUseA> a;
    coopmat<float16_t, gl_ScopeSubgroup, depth, columns, gl_MatrixUseB> b;
    coopMatLoad(a, tile, 0, 32, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(b, tile, 0, 32, gl_CooperativeMatrixLayoutColumnMajor);
    coopmat<float, gl_ScopeSubgroup, rows, columns, gl_MatrixUseAccumulator> sum;
    coopMatLoad(sum, words, 0, 32, gl_CooperativeMatrixLayoutRowMajor);
    sum = coopMatMulAdd(a, b, sum);
    for (int i = 0; i < sum.length(); ++i)
        sum[i] *= 2.0;
    coopMatStore(sum, words, 0, 32, gl_CooperativeMatrixLayoutRowMajor);
}
