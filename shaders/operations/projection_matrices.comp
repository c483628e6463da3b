#version 450
// Y = X W^T on matrix units, plus up to two addends. Subgroups have matrixM * rowBlocks rows each and
// share the columns of the tile; blocks of the inner dim of X and W lie in shared memory. Sums are
// f32. Rows and columns past the end repeat the last one and are not stored; inner dims past the end
// are 0.
//
// Defines: lib/matrices.glsl; operations/projection.glsl.
#define VKATTN_STAGE_PROJECTION
#include "lib/platform.glsl"
#include "lib/matrices.glsl"

layout(constant_id = 8) const uint subgroupLanes = 32; // required of the pipeline: gl_SubgroupSize
layout(constant_id = 9) const uint subgroups = 4;      // of the workgroup
layout(constant_id = 10) const uint rowBlocks = 2;     // matrices of rows of a subgroup
layout(constant_id = 11) const uint columnBlocks = 4;  // matrices of columns of the tile
layout(constant_id = 12) const uint matrixM = 16;      // multiples of 8
layout(constant_id = 13) const uint matrixN = 16;
layout(constant_id = 14) const uint matrixK = 16;
layout(constant_id = 15) const uint blockInner = 32; // inner dims at a time, a multiple of matrixK

#include "operations/projection.glsl"

const bool wholeWords = (form & formInnerWords) != 0u, lockstep = (form & formOneVector) != 0u;
const uint lanes = subgroupLanes * subgroups, tileRows = subgroups * rowBlocks * matrixM, tileColumns = columnBlocks * matrixN;

// Shared memory in pieces of 16 bytes, to which matrices are aligned; one more at the end of each
// row spreads rows over banks.
const uint pieces = blockInner / 8u, pitch = pieces + 1u, outPitch = matrixN / 4u + 1u;
shared uvec4 xTile[tileRows * pitch];
shared uvec4 wTile[tileColumns * pitch];
shared uvec4 outTile[subgroups * matrixM * outPitch]; // f32, one matrix of each subgroup

#define Rows coopmat<Input, gl_ScopeSubgroup, matrixM, matrixK, gl_MatrixUseA>
#define Columns coopmat<Input, gl_ScopeSubgroup, matrixK, matrixN, gl_MatrixUseB>
#define Sums coopmat<float, gl_ScopeSubgroup, matrixM, matrixN, gl_MatrixUseAccumulator>

Sums sums[rowBlocks * columnBlocks];
uint lane, subgroup, tileRow, tileColumn;

void stage(uint block) {
    [[dont_unroll]] for (uint n = lane; n < tileRows * pieces; n += lanes) {
        const uint at = xAt + min(tileRow + n / pieces, rows - 1u) * xStrides.row;
        xTile[n / pieces * pitch + n % pieces] = EIGHT_BITS(xWords, at, block + n % pieces * 8u, xStrides.column, innerEnd);
    }
    [[dont_unroll]] for (uint n = lane; n < tileColumns * pieces; n += lanes) {
        const uint at = wAt + min(tileColumn + n / pieces, columns - 1u) * wStrides.row;
        wTile[n / pieces * pitch + n % pieces] = EIGHT_BITS(wWords, at, block + n % pieces * 8u, wStrides.column, innerEnd);
    }
}

void multiplyColumns(uint n, uint k, const Rows x[rowBlocks]) {
    Columns w;
    coopMatLoad(w, wTile, n * matrixN * pitch + k * (matrixK / 8u), pitch, gl_CooperativeMatrixLayoutColumnMajor);
    [[unroll]] for (uint b = 0u; b < rowBlocks; ++b)
        sums[b * columnBlocks + n] = coopMatMulAdd(x[b], w, sums[b * columnBlocks + n]);
}
void multiply(uint k) {
    Rows x[rowBlocks];
    [[unroll]] for (uint b = 0u; b < rowBlocks; ++b)
        coopMatLoad(x[b], xTile, (subgroup * rowBlocks + b) * matrixM * pitch + k * (matrixK / 8u), pitch,
                    gl_CooperativeMatrixLayoutRowMajor);
    EACH_BLOCK(n, columnBlocks, multiplyColumns(n, k, x))
}

void storeSums(uint n, uint outAt) {
    coopMatStore(sums[n], outTile, outAt, outPitch, gl_CooperativeMatrixLayoutRowMajor);
}
// Compilers do not unroll a loop around another loop, and matrices under an index that is no
// constant would go to private memory (NVK): the index is looked for among constants.
void store(uint n) {
    const uint outAt = subgroup * matrixM * outPitch, b = n / columnBlocks, c = n % columnBlocks;
    barrier();
    if (lockstep)
        storeSums(n, outAt);
    else
        [[unroll]] for (uint constant = 0u; constant < rowBlocks * columnBlocks; ++constant)
            if (constant == n) storeSums(constant, outAt);
    barrier();
    [[dont_unroll]] for (uint e = lane % subgroupLanes; e < matrixM * matrixN; e += subgroupLanes) {
        const uint row = e / matrixN, column = e % matrixN;
        finish(tileRow + (subgroup * rowBlocks + b) * matrixM + row, tileColumn + c * matrixN + column,
               uintBitsToFloat(outTile[outAt + row * outPitch + column / 4u][column % 4u]));
    }
}

void main() {
    lane = gl_LocalInvocationID.x;
    subgroup = lane / subgroupLanes;
    tileRow = gl_WorkGroupID.y * tileRows;
    tileColumn = gl_WorkGroupID.x * tileColumns;
    beginCase();
    EACH_BLOCK(n, rowBlocks * columnBlocks, sums[n] = Sums(0.0))
    [[dont_unroll]] for (uint block = 0u; block < innerEnd; block += blockInner) {
        barrier();
        stage(block);
        barrier();
        EACH_BLOCK(k, blockInner / matrixK, multiply(k))
    }
    [[dont_unroll]] for (uint n = 0u; n < rowBlocks * columnBlocks; ++n) store(n);
}
