#version 450
// What of it kernels use: reductions, functions of each element, and sums that become a factor
// (conversion of use).
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

#define MATRIX(type, r, c, use) coopmat<type, gl_ScopeSubgroup, r, c, use>

void main()
{
    MATRIX(float, rows, columns, gl_MatrixUseAccumulator) scores, most;
    coopMatLoad(scores, words, 0, 32, gl_CooperativeMatrixLayoutRowMajor);
    coopMatReduceNV(most, scores, gl_CooperativeMatrixReduceRowNV, larger);
    coopMatPerElementNV(scores, scores, scaled, words[0]);
    MATRIX(float16_t, rows, columns, gl_MatrixUseA) weights = MATRIX(float16_t, rows, columns, gl_MatrixUseA)(scores - most);
    MATRIX(float16_t, columns, rows, gl_MatrixUseB) values = MATRIX(float16_t, columns, rows, gl_MatrixUseB)(1.0);
    MATRIX(float, rows, rows, gl_MatrixUseAccumulator) sum = MATRIX(float, rows, rows, gl_MatrixUseAccumulator)(0.0);
    coopMatStore(coopMatMulAdd(weights, values, sum), words, 0, 32, gl_CooperativeMatrixLayoutRowMajor);
}
