#version 450
// What of it kernels use: reductions, functions of each element, and sums that become a factor (conversion of use).
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix2 : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint rows = 16;
layout(constant_id = 2) const uint columns = 16;
layout(set = 0, binding = 0) buffer Words { float words[]; };

float larger(const in float a, const in float b)
{
    return max(a, b);
}
float scaled(const in uint row, const in uint column, const in float element, const in float by)
{
    return row + column < 8 ? element * by : 0.0;
}

void main()
{
    coopmat<float, gl_ScopeSubgroup, rows, columns, gl_MatrixUseAccumulator> scores, most;
    coopMatLoad(scores, words, 0, 32, gl_CooperativeMatrixLayoutRowMajor);
    coopMatReduceNV(most, scores, gl_CooperativeMatrixReduceRowNV, larger);
    coopMatPerElementNV(scores, scores, scaled, words[0]);
    coopmat<float16_t, gl_ScopeSubgroup, rows, columns, gl_MatrixUseA> weights = coopmat<float16_t, gl_ScopeSubgroup, rows, columns, gl_MatrixUseA>(scores - most);
    coopmat<float16_t, gl_ScopeSubgroup, columns, rows, gl_MatrixUseB> values = coopmat<float16_t, gl_ScopeSubgroup, columns, rows, gl_MatrixUseB>(1.0);
    coopmat<float, gl_ScopeSubgroup, rows, rows, gl_MatrixUseAccumulator> sum = coopmat<float, gl_ScopeSubgroup, rows, rows, gl_MatrixUseAccumulator>(0.0);
    coopMatStore(coopMatMulAdd(weights, values, sum), words, 0, 32, gl_CooperativeMatrixLayoutRowMajor);
}
