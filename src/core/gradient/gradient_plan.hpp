// Gradient x Caps -> GradientPlan: which kernel computes the backward pass of attention, and how the
// problem is cut to meet limits. Pure data and pure functions; no Vulkan call.
#pragma once

#include "core/gradient/tiles.hpp"
#include "core/plan/kernel.hpp"
#include "core/plan/operands.hpp"
#include "core/plan/plan.hpp"
#include "core/plan/slices.hpp"
#include "problem/gradient.hpp"

namespace vkattn {

struct GradientPlan;

// The dispatches of a chunk of rows, in order. Between two that count as work a slice may end.
struct ChunkSteps {
    uint32_t facts, work, arrays;
    [[nodiscard]] uint32_t all() const { return facts + work + arrays; }
};

// A kernel of the backward pass: one row of the table in gradient_plan.cpp.
struct GradientKernel {
    vkattn_gradient_kernel id;
    const char *name;   // in messages and requirements
    const char *zone;   // around all that one call records
    const char *choice; // why AUTO has chosen the kernel
    // Whether AUTO takes the kernel for such a problem, on such a device; NULL: always.
    bool (*suits)(const Gradient &gradient, const PlanLimits &limits);
    // Completes a plan that has its gradient, its kernel and the forward problem. UNSUPPORTED with the
    // reason where the kernel cannot take the problem.
    vkattn_result (*makePlan)(const PlanLimits &limits, GradientPlan &plan, vkattn_diagnostic *why);
    Dispatch (*dispatch)(const GradientPlan &plan, uint32_t index);
    ChunkSteps (*steps)(const GradientPlan &plan);
    // The share of a chunk's work that comes before its step-th dispatch of work.
    double (*shareBefore)(const GradientPlan &plan, uint32_t step);
    PipelineSet (*pipelines)(const GradientPlan &plan);
    uint64_t (*storageDescriptorCount)(const GradientPlan &plan);
    void (*explain)(const GradientPlan &plan, vkattn_explanation &out); // NULL: there is no more to say
    WeightRounding (*rounding)(const GradientPlan &plan);               // as of Kernel; NULL: none
};

// Where things lie in the workspace, in bytes from its start. All but the last begin at multiples of
// the workspace's alignment.
struct GradientWorkspace {
    uint64_t scores, deltas; // staged: of the pairs of a chunk, scores and their gradients
    uint64_t facts;          // of the rows of a chunk (rowFactWords of interop.h)
    uint64_t rowSums;        // what the rows of a chunk add to sums over pairs (rowSumWords)
    uint64_t laneSums;       // of row_sums.comp, from chunk to chunk
    // Staged: the sums of dQ between chunks of keys; and of dV and dK between chunks of rows, where these
    // are not f32: two places in turn. 0 words where nothing waits.
    uint64_t querySums, valueSums, keySums;
    uint64_t end;               // of what a chunk binds as one
    uint64_t biasSums, biasEnd; // of dBias between chunks, where it is not f32
};

struct GradientPlan : Schedule {
    Gradient gradient;
    const GradientKernel *kernel;
    // The forward problem without its weights, its chunks, and the set-up. Its own dispatches are not
    // recorded.
    Plan forward;
    GradientWorkspace at;
    GradientTiles tiles; // tiled, on lanes or on matrix units

    [[nodiscard]] const Problem &problem() const { return forward.problem; }
    // Returns whether more than dV is asked for.
    [[nodiscard]] bool needsDeltas() const;
    // Returns how far P and dz are rounded before they are multiplied; of dz the floor is a share of
    // the largest of a row or key (docs/numerics.md).
    [[nodiscard]] WeightRounding rounding() const { return kernel->rounding ? kernel->rounding(*this) : WeightRounding{}; }
    [[nodiscard]] uint32_t chunkCount() const { return forward.chunkCount(); }
    [[nodiscard]] uint32_t rowChunks() const { return forward.batchChunks * forward.headChunks * forward.queryChunks; }
};
static_assert(sizeof(GradientPlan) < 6144, "plans live on the stack");

// UNSUPPORTED with the reason where the device's limits cannot be met, or where the kernel that was
// asked for cannot take the problem.
[[nodiscard]] vkattn_result planGradient(const Gradient &gradient, const PlanLimits &limits, GradientPlan &out, vkattn_diagnostic *why);
// How slices may cut a plan.
[[nodiscard]] SliceUnits sliceUnits(const GradientPlan &plan);
[[nodiscard]] uint32_t mostSlices(const GradientPlan &plan, const PlanLimits &limits);
// Slices end inside chunks, and what a chunk has in the workspace goes on in the next slice.
[[nodiscard]] inline uint64_t persistentWorkspaceBytes(const GradientPlan &plan) {
    return plan.slices > 1 ? plan.workspaceBytes : 0;
}
// Says what the planner has chosen, and what the choice costs.
void explainGradient(const GradientPlan &plan, const PlanLimits &limits, vkattn_explanation &out);

// The two dispatches that write GradientWorkspace::facts for the rows of a chunk, with a barrier between
// them: number 0 and 1.
constexpr uint32_t rowFactDispatches = 2;
void makeRowFacts(const GradientPlan &plan, const Chunk &c, uint32_t number, Dispatch &d);

// The operands of a chunk of rows or keys; a role of the forward pass is only read.
[[nodiscard]] Operand gradientRows(const GradientPlan &plan, vkattn_role role, const Chunk &c, size_t basePushByte);
[[nodiscard]] Operand gradientKeys(const GradientPlan &plan, vkattn_role role, const Chunk &c, size_t basePushByte);

// Sums over all pairs.
constexpr vkattn_role summedArrays[] = {VKATTN_D_SINKS, VKATTN_D_SLOPES, VKATTN_D_SCALE, VKATTN_D_SOFTCAP};
// Returns how many of them are asked for.
[[nodiscard]] uint32_t arraysOf(const Gradient &g);
// The dispatch that adds up what the rows of a chunk give to the number-th array in use of dSinks,
// dSlopes, dScale and dSoftcap; and the one that looks for infinities and NaN in that array.
void makeRowSums(const GradientPlan &plan, const Chunk &c, uint32_t number, Dispatch &d);
void makeArrayCheck(const GradientPlan &plan, uint32_t number, Dispatch &d);
// The words of GradientWorkspace::laneSums.
[[nodiscard]] uint64_t laneSums(const GradientPlan &plan);

namespace stagedGradient {
[[nodiscard]] vkattn_result makePlan(const PlanLimits &limits, GradientPlan &plan, vkattn_diagnostic *why);
[[nodiscard]] Dispatch dispatch(const GradientPlan &plan, uint32_t index);
[[nodiscard]] PipelineSet pipelines(const GradientPlan &plan);
[[nodiscard]] uint64_t storageDescriptorCount(const GradientPlan &plan);

// Terms of pairs that gradient/pair_deltas.comp applies, and no dispatch of staged/pairs.comp.
constexpr uint32_t termsOfDeltas = termScoreHook | termProbabilityHook;
// What follows what in a chunk of rows.
enum Phase : uint32_t {
    phaseFacts,
    phaseScores,
    phasePairs,
    phaseUpstream, // dP, without dropout and dWeights
    phaseDeltas,   // P and dS in place
    phaseValues,   // dV
    phaseBias,
    phaseDots,    // the scores' place: dot(q, k) once more, for softcap and dScale
    phaseCaps,    // dz in the place of dS
    phaseQueries, // dQ
    phaseKeys,    // dK
    phaseRowSums, // dSinks, dSlopes, dScale, dSoftcap
    phaseCount
};
struct Phases {
    uint32_t count[phaseCount]; // dispatches
    uint32_t checks;            // of stored gradients, for each chunk of rows, behind all chunks
    uint32_t arrayChecks;       // behind these
    [[nodiscard]] uint32_t perRowChunk() const;
};
[[nodiscard]] Phases phasesOf(const GradientPlan &plan);
[[nodiscard]] ChunkSteps steps(const GradientPlan &plan);
[[nodiscard]] double shareBefore(const GradientPlan &plan, uint32_t step);
} // namespace stagedGradient

// Both kernels over tiles: they differ in how a workgroup is laid out and in the pipelines of the passes.
namespace tiledGradient {
[[nodiscard]] bool suits(const Gradient &gradient, const PlanLimits &limits);
[[nodiscard]] vkattn_result makePlan(const PlanLimits &limits, GradientPlan &plan, vkattn_diagnostic *why);
[[nodiscard]] Dispatch dispatch(const GradientPlan &plan, uint32_t index);
[[nodiscard]] PipelineSet pipelines(const GradientPlan &plan);
[[nodiscard]] uint64_t storageDescriptorCount(const GradientPlan &plan);

struct Phases {
    uint32_t rows, keys, arrays; // dispatches of a chunk, behind the facts
    uint32_t arrayChecks;        // behind all chunks
    [[nodiscard]] uint32_t perChunk() const;
};
[[nodiscard]] Phases phasesOf(const GradientPlan &plan);
[[nodiscard]] ChunkSteps steps(const GradientPlan &plan);
[[nodiscard]] double shareBefore(const GradientPlan &plan, uint32_t step);
void explain(const GradientPlan &plan, vkattn_explanation &out);
// Returns whether the rows' pass writes GradientWorkspace::rowSums.
[[nodiscard]] bool sumsRows(const GradientPlan &plan);
} // namespace tiledGradient

// Those on matrix units, where the kernel's id is VKATTN_GRADIENT_COOPMAT.
namespace matrixGradient {
[[nodiscard]] bool suits(const Gradient &gradient, const PlanLimits &limits);
// Lays out both passes of plan.tiles. UNSUPPORTED with the reason.
[[nodiscard]] vkattn_result chooseTiles(const PlanLimits &limits, GradientPlan &plan, vkattn_diagnostic *why);
// Returns the pipeline of the pass that owns keys, or rows; `concepts` with all that is not of matrices.
[[nodiscard]] PipelineKey pipelineKey(const GradientPlan &plan, bool keys, ConceptConstants concepts);
void explain(const GradientPlan &plan, vkattn_explanation &out);
[[nodiscard]] WeightRounding rounding(const GradientPlan &plan);
} // namespace matrixGradient

} // namespace vkattn
