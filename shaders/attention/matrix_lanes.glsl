// How the kernels of attention on matrix units (flash/tiles.glsl, gradient/matrices.glsl) lay out a
// workgroup, and how the lanes of a subgroup share what lies in shared memory between two products:
// the extension does not say which lane of a matrix holds which element. Subgroups own rows, and keys
// pass by, tileKeys at a time. (Where the backward pass owns keys, its "keys" here are query rows.)
//
// Included after dropout.glsl. Before it is included: `lockstep`, whether a subgroup is one vector of
// a CPU. All memory is 32-bit words, so that no 16-bit storage is needed.
layout(constant_id = 8) const uint subgroupLanes = 32; // required of the pipeline: gl_SubgroupSize
layout(constant_id = 9) const uint subgroups = 4;      // of the workgroup
layout(constant_id = 10) const uint rowBlocks = 1;     // matrices of rows of a subgroup
// Shapes, or what flexible dims are multiples of: multiples of 8.
layout(constant_id = 11) const uint matrixM = 16;
layout(constant_id = 12) const uint matrixN = 16;
layout(constant_id = 13) const uint matrixK = 16;
// In shared memory: a multiple of matrixN, matrixK, 8 * rowParts; at least 2 * matrixN.
layout(constant_id = 14) const uint tileKeys = 32;
// Head and value dim, up to a multiple of what they are multiplied by: forward matrixK and matrixN,
// backward both.
layout(constant_id = 15) const uint paddedDim = 64;
layout(constant_id = 16) const uint paddedValueDim = 64;

#define Queries coopmat<Input, gl_ScopeSubgroup, matrixM, matrixK, gl_MatrixUseA>
#define Sums coopmat<float, gl_ScopeSubgroup, matrixM, matrixN, gl_MatrixUseAccumulator>

#ifdef VKATTN_BF16
const uint inputType = elementBf16, inputExponent = 0x7f80u;
uint packInputs(float a, float b) { return floatToBfloat16(a) | floatToBfloat16(b) << 16; }
#else
const uint inputType = elementF16, inputExponent = 0x7c00u;
uint packInputs(float a, float b) { return packFloat2x16(f16vec2(a, b)); }
#endif

// What weights are multiplied by before they are rounded to the type of the inputs: f16 then holds
// weights up to 2^5, and as small as 2^-35.
const float weightScale = 2048.0, weightUnscale = 1.0 / 2048.0;
// In the place of a rounded weight: -0, which adds nothing, marks a pair that adds nothing. No other
// pair has it.
const uint hiddenWeight = 0x8000u;

// Rows of a subgroup, and how its lanes share them: lane l has rows l % subgroupRows + n *
// subgroupLanes, and where there are more lanes than rows the (l / subgroupRows)-th of rowParts
// parts of the keys, in groups of 8.
const uint subgroupRows = matrixM * rowBlocks;
const uint laneRows = subgroupRows > subgroupLanes ? subgroupRows / subgroupLanes : 1u;
const uint rowParts = subgroupRows < subgroupLanes ? subgroupLanes / subgroupRows : 1u;
const uint groupsOfLane = tileKeys / 8u / rowParts, keysOfLane = groupsOfLane * 8u;
const uint seenWords = (keysOfLane + 31u) / 32u;

uint lane; // of the subgroup
uint part() { return rowParts > 1u ? lane / subgroupRows : 0u; }
uint tileRowOf(uint r) { return lane % subgroupRows + r * subgroupLanes; }
// The lane's n-th key of the tile.
uint keyOf(uint n) { return (n / 8u * rowParts + part()) * 8u + n % 8u; }

// What lanes of the subgroup wrote to shared memory is there for the others. lavapipe makes a
// barrier of the whole workgroup of one of the subgroup (found 2026-11-22: subgroups that went
// another way were never resumed), and takes seconds to compile each.
void subgroupSync() {
    if (lockstep)
        subgroupMemoryBarrierShared();
    else
        controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
}

bool finiteBits(uint bits) { return (bits & inputExponent) != inputExponent; }
uint finitePair(uint pair) { return (finiteBits(pair) ? pair & 0xffffu : 0u) | (finiteBits(pair >> 16) ? pair & 0xffff0000u : 0u); }
uvec4 finiteEight(uvec4 bits) { return uvec4(finitePair(bits.x), finitePair(bits.y), finitePair(bits.z), finitePair(bits.w)); }

// Loops that hold other loops are not unrolled by compilers: here matrices are picked by comparing
// with constants.
#define PICKED(n, count, picked, call) [[unroll]] for (uint n = 0u; n < (count); ++n) if (n == (picked)) call;
