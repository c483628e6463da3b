// The dispatches of the backward pass of linear attention: the environment; then, of some batch entries at a time, the
// states at the ends, the way out over all spans but the last, the way back over all spans, and dStateIn.
#include "core/kernels/flash.hpp"
#include "core/linear/linear_form.hpp"
#include "core/linear_gradient/linear_gradient_plan.hpp"

#include <algorithm>
#include <cstddef>

namespace vkattn {
namespace {

using linear_gradient::Stage;

enum class Way { ends, outward, back };

// Where a dispatch stands.
struct Place {
    uint32_t batchFirst, batches;
    Way way;
    uint32_t chunkFirst, chunks, span;
};

struct Gathered {
    vkattn_role role, gradient;
    uint32_t what;
};
// By `what`.
constexpr Gathered gathered[] = {
    {VKATTN_K, VKATTN_D_K, linearOfKeys},           {VKATTN_Q, VKATTN_D_Q, linearOfRows},
    {VKATTN_V, VKATTN_D_V, linearOfValues},         {VKATTN_D_OUT, VKATTN_ROLE_LIMIT, linearOfGiven},
    {VKATTN_DECAY, VKATTN_D_DECAY, linearOfDecays}, {VKATTN_WRITE_STRENGTH, VKATTN_D_WRITE_STRENGTH, linearOfStrengths},
};
constexpr const Gathered &gatheredBy(Stage stage) {
    return gathered[static_cast<uint32_t>(stage) - static_cast<uint32_t>(Stage::gatherKeys)];
}
constexpr const Gathered &scatteredBy(Stage stage) {
    constexpr uint32_t order[] = {linearOfRows, linearOfKeys, linearOfValues, linearOfDecays, linearOfStrengths};
    return gathered[order[static_cast<uint32_t>(stage) - static_cast<uint32_t>(Stage::scatterRows)]];
}
constexpr bool gathers(Stage stage) {
    return stage <= Stage::gatherStrengths;
}
constexpr bool scatters(Stage stage) {
    return stage >= Stage::scatterRows;
}

class Maker {
  public:
    Maker(const LinearGradientPlan &plan, const Place &place, Dispatch &d) : plan_(plan), a_(plan.linear()), place_(place), d_(d) {
        d.operandCount = operationSlots;
        const Operand whole{VKATTN_WORKSPACE, 0, plan.workspaceBytes, 0, noPushWord, 4, true};
        std::fill(d.operands, d.operands + operationSlots, standIn(whole));
        d.operands[slotWorkspace] = whole;
        d.groups[1] = a_.stateHeads, d.groups[2] = place.batches;
        push_.chunkFirst = place.chunkFirst, push_.chunks = place.chunks, push_.spanChunks = plan.spanChunks;
        push_.keyTokens = a_.keyTokens, push_.queryTokens = plan.reads() ? a_.queryTokens : 0, push_.keyChunks = plan.keyChunks;
        push_.keyDim = a_.keyDim, push_.valueDim = a_.valueDim, push_.rows = a_.stateRows;
        push_.heads = a_.heads, push_.stateHeads = a_.stateHeads;
        push_.scale = scaleOfRows(a_);
        push_.epsilon = a_.epsilon, push_.lossScale = plan.gradient.lossScale;
        push_.ownHeads = push_.omegaHeads = push_.batches = 1;
        constants_.form = plan.form;
    }
    // The way of the state between the spans.
    void stage(Stage stage) {
        const uint32_t back = (plan_.spans + 1) * plan_.outwardRecord;
        if (gathers(stage)) return gather(gatheredBy(stage));
        if (scatters(stage)) return scatter(scatteredBy(stage));
        const bool goesBack = stage == Stage::rowsBack || stage == Stage::columnsBack || stage == Stage::columnsBackFirst;
        push_.stateFrom = goesBack ? back : place_.span * plan_.outwardRecord;
        push_.stateTo = goesBack ? back : (place_.span + 1) * plan_.outwardRecord;
        if (!goesBack) constants_.form |= formLinearOutward;
        const uint32_t c = plan_.tile.chunkTokens, slots = c * plan_.groupHeads();
        switch (stage) {
        case Stage::maxima:
            push_.what = statesOnly();
            return finish(Module::linearGradientMaxima, plan_.rowPitch);
        case Stage::exponents:
            return finish(Module::linearGradientExponents, place_.chunks * slots);
        case Stage::decays:
            return finish(Module::linearGradientDecays, place_.chunks * plan_.rowPitch);
        case Stage::pairsOfKeys: // with queries too, except on the way out
            return place_.way == Way::outward ? pairs(plan_.groupHeads(), 1) : pairs(0, plan_.groupHeads() + 1);
        case Stage::pairs:
            // Of delta rules pairs of keys were there before what tokens write.
            return a_.isDelta() ? pairs(plan_.groupHeads() + 1, plan_.readHeads()) : pairs(0, plan_.groupHeads() + 1 + plan_.readHeads());
        case Stage::columnsOut:
        case Stage::columnsBackFirst:
        case Stage::columnsBack:
            return scan(Module::linearGradientColumns, Module::linearGradientColumnsSubgroups, a_.valueDim, a_.stateRows, plan_.rowBlocks,
                        plan_.tile.rowsPerBlock, plan_.tile.columnsPerLane);
        case Stage::rowsOut:
        case Stage::rowsBack:
            push_.what = statesOnly();
            return scan(Module::linearGradientRows, Module::linearGradientRowsSubgroups, a_.stateRows, a_.valueDim, plan_.columnBlocks,
                        plan_.tile.columnsPerBlock, plan_.tile.rowsPerLane);
        case Stage::finishRows:
            push_.what = linearFinishRows;
            return finish(Module::linearGradientFinish, place_.chunks * slots);
        case Stage::finishKeys:
            push_.what = linearFinishKeys;
            return finish(Module::linearGradientFinish, place_.chunks * c * plan_.rowPitch);
        case Stage::finishDecays:
        case Stage::finishStrengths:
            push_.what = stage == Stage::finishDecays ? linearFinishDecays : linearFinishStrengths;
            return finish(Module::linearGradientFinish, place_.chunks * c);
        default:
            return;
        }
    }
    // The states before the first token and behind the last.
    void state(bool outward) {
        const vkattn_role role = outward ? VKATTN_STATE_IN : VKATTN_D_STATE_OUT;
        const bool there = plan_.gradient.uses(role);
        if (outward) constants_.form |= formLinearOutward;
        push_.stateFrom = outward ? 0 : (plan_.spans + 1) * plan_.outwardRecord;
        push_.what = there ? linearStateLoad : linearStateZero;
        if (there) bind(slotLinearSource, role, offsetof(LinearGradientPush, sourceBase));
        finish(Module::linearGradientState, (plan_.columnPitch + 2) * plan_.rowPitch);
    }
    void storeState() {
        push_.stateFrom = (plan_.spans + 1) * plan_.outwardRecord;
        push_.what = linearStateStore;
        bind(slotLinearGradient, VKATTN_D_STATE_IN, offsetof(LinearGradientPush, gradientBase));
        bindNonfinite();
        finish(Module::linearGradientState, (plan_.columnPitch + 2) * plan_.rowPitch);
    }

  private:
    [[nodiscard]] uint32_t statesOnly() const { return place_.way == Way::outward ? linearStatesOnly : 0; }

    void gather(const Gathered &of) {
        const Tensor &t = plan_.gradient.tensor(of.role);
        push_.what = of.what;
        const bool ofRows = of.what == linearOfRows || of.what == linearOfGiven,
                   ofColumns = of.what == linearOfValues || of.what == linearOfGiven;
        const uint32_t groups = !ofRows ? 1 : of.what == linearOfGiven ? plan_.readHeads() : plan_.groupHeads();
        const bool one = of.what == linearOfStrengths || (of.what == linearOfDecays && !a_.decaysKeyDims());
        if (t.present() && t.extent[2] && (!ofRows || plan_.reads()))
            bind(slotLinearSource, of.role, offsetof(LinearGradientPush, sourceBase));
        bindOmega(of.what == linearOfKeys || of.what == linearOfRows);
        constants_.elementTypes = static_cast<uint32_t>(t.dtype);
        lines(Module::linearGradientGather, place_.chunks * groups * plan_.tile.chunkTokens,
              one         ? 1
              : ofColumns ? plan_.columnPitch
                          : plan_.rowPitch,
              one || (a_.randomFeatures() && (of.what == linearOfKeys || of.what == linearOfRows)));
    }
    void scatter(const Gathered &of) {
        const Tensor &t = plan_.gradient.tensor(of.gradient), &k = a_.tensor(VKATTN_K);
        push_.what = of.what;
        if (of.what == linearOfKeys && a_.hasMaximum()) {
            constants_.elementTypes = static_cast<uint32_t>(k.dtype);
            bindOnly(slotLinearSource, VKATTN_K, offsetof(LinearGradientPush, sourceBase));
        }
        bindOmega(of.what == linearOfKeys || of.what == linearOfRows);
        bind(slotLinearGradient, of.gradient, offsetof(LinearGradientPush, gradientBase));
        bindNonfinite();
        constants_.elementTypes |= static_cast<uint32_t>(t.dtype) << typesOut;
        d_.groups[1] = t.extent[1];
        if (t.extent[0] == 1) push_.batches = place_.batches, d_.groups[2] = 1;
        lines(Module::linearGradientScatter, place_.chunks * plan_.tile.chunkTokens, t.extent[3],
              t.extent[3] == 1 || (a_.randomFeatures() && of.what != linearOfValues));
    }
    void pairs(uint32_t first, uint32_t kinds) {
        push_.what = first | kinds << 16;
        finish(Module::linearGradientPairs, place_.chunks * kinds * plan_.tile.chunkTokens);
    }
    void scan(Module plain, Module shuffled, uint32_t owned, uint32_t side, uint32_t blocks, uint32_t perBlock, uint32_t ownedPerLane) {
        if (blocks * perBlock == side) constants_.form |= formLinearWholeBlocks;
        d_.groups[0] = blocks * divideUp(owned, plan_.tile.lanes * ownedPerLane);
        make(plan_.tile.shuffleLanes ? shuffled : plain, plan_.tile.lanes,
             {plan_.tile.chunkTokens, plan_.rowBlocks, plan_.columnBlocks, perBlock, ownedPerLane, plan_.tile.shuffleLanes});
    }
    // A stage with a row of elements in each workgroup, or an element in each lane.
    void lines(Module module, uint32_t count, uint32_t elements, bool byElement) {
        if (byElement) return finish(module, count * elements);
        finish(module, count);
        d_.groups[0] = count;
    }
    // A stage with an element in each lane.
    void finish(Module module, uint32_t elements) {
        d_.groups[0] = divideUp(elements, plan_.tile.elementLanes);
        make(module, plan_.tile.elementLanes, {plan_.tile.chunkTokens, plan_.rowBlocks, plan_.columnBlocks});
    }
    void make(Module module, uint32_t lanes, std::initializer_list<uint32_t> own) {
        if (a_.has(VKATTN_KEY_LENGTHS))
            d_.operands[slotLinearGradientLengths] = arrayOperand(VKATTN_KEY_LENGTHS, place_.batchFirst, place_.batches, place_.batchFirst,
                                                                  offsetof(LinearGradientPush, lengthsBase));
        setPush(d_, push_);
        d_.key = pipelineKey(module, lanes, constants_, own);
    }

    void bindOnly(uint32_t slot, vkattn_role role, size_t base) {
        const Tensor &t = plan_.gradient.tensor(role);
        const LinearGradientOperand *const own = findLinearGradientOperand(role);
        const uint32_t *e = t.extent, first = e[0] == 1 ? 0 : place_.batchFirst, count = e[0] == 1 ? 1 : place_.batches;
        if (t.span({{}, {e[0], e[1], e[2], e[3]}}).size() == 0) return;
        d_.operands[slot] =
            tensorOperand(t, role, own && own->output, {{first, 0, 0, 0}, {count, e[1], e[2], e[3]}}, {first, 0, 0, 0}, base);
    }
    void bind(uint32_t slot, vkattn_role role, size_t base) {
        const Tensor &t = plan_.gradient.tensor(role);
        push_.batchStride = t.extent[0] == 1 ? 0 : stride(t, 0), push_.headStride = stride(t, 1), push_.tokenStride = stride(t, 2);
        push_.dimStride = stride(t, 3), push_.ownHeads = std::max(t.extent[1], 1u);
        bindOnly(slot, role, base);
    }
    void bindOmega(bool needed) {
        const Tensor &t = a_.tensor(VKATTN_OMEGA);
        if (!needed || a_.randomFeatures() == 0) return;
        push_.omegaHead = stride(t, 1), push_.omegaToken = stride(t, 2), push_.omegaDim = stride(t, 3), push_.omegaHeads = t.extent[1];
        bindOnly(slotLinearOmega, VKATTN_OMEGA, offsetof(LinearGradientPush, omegaBase));
    }
    void bindNonfinite() {
        if (!plan_.gradient.has(VKATTN_NONFINITE)) return;
        Operand word = arrayOperand(VKATTN_NONFINITE, 0, 1, 0, offsetof(LinearGradientPush, nonfiniteBase));
        word.writes = true;
        d_.operands[slotLinearNonfinite] = word;
        constants_.form |= formLinearNonfinite;
    }

    const LinearGradientPlan &plan_;
    const LinearAttention &a_;
    const Place place_;
    Dispatch &d_;
    LinearGradientPush push_{};
    ConceptConstants constants_{};
};

void makeSetUp(const LinearGradientPlan &plan, uint32_t number, Dispatch &d) {
    const Operand whole{VKATTN_WORKSPACE, 0, 4ull * linearGradientEnvironmentWords, 0, noPushWord, 4, true};
    flash::makeWords(whole, plan.words, Module::environment, number, d);
    d.barrierBefore = number > 0;
}

} // namespace

linear_gradient::StageList linear_gradient::stagesOf(const LinearGradientPlan &plan, bool outward) {
    const LinearGradient &g = plan.gradient;
    const LinearAttention &a = g.forward;
    StageList list;
    const auto add = [&](Stage stage, bool needed = true) {
        if (needed) list.stages[list.count++] = stage;
    };
    const bool delta = a.isDelta(), rowsBack = !outward && plan.needsRows();
    const bool states = rowsBack && (a.isGated() || delta); // the way back needs what the way out reads
    add(Stage::gatherKeys);
    add(Stage::gatherRows, !outward);
    add(Stage::gatherValues);
    add(Stage::gatherGiven, !outward);
    add(Stage::gatherDecays, a.isGated());
    add(Stage::gatherStrengths, delta);
    add(Stage::maxima, a.hasMaximum());
    add(Stage::exponents, !outward && a.hasMaximum());
    add(Stage::decays, plan.rowFactors());
    add(Stage::pairsOfKeys, delta);
    add(Stage::columnsOut, delta);
    add(Stage::columnsBackFirst, !outward && delta);
    add(Stage::pairs, !outward);
    add(Stage::rowsOut, outward || g.uses(VKATTN_D_Q) || plan.mapped() || states);
    add(Stage::finishRows, !outward && plan.mapped());
    add(Stage::columnsBack, !outward && !delta && plan.needsColumns());
    add(Stage::rowsBack, rowsBack);
    add(Stage::finishKeys, !outward && plan.mapped() && g.uses(VKATTN_D_K));
    add(Stage::finishDecays, g.uses(VKATTN_D_DECAY) && !outward && !a.decaysKeyDims());
    add(Stage::finishStrengths, !outward && g.uses(VKATTN_D_WRITE_STRENGTH));
    for (uint32_t n = static_cast<uint32_t>(Stage::scatterRows); n < static_cast<uint32_t>(Stage::count) && !outward; ++n) {
        const vkattn_role role = scatteredBy(static_cast<Stage>(n)).gradient;
        add(static_cast<Stage>(n), g.uses(role) && g.tensor(role).extent[2] != 0);
    }
    return list;
}

Dispatch linear_gradient::dispatch(const LinearGradientPlan &plan, uint32_t index) {
    Dispatch d;
    if (index < setUpDispatches) {
        makeSetUp(plan, index, d);
        return d;
    }
    uint32_t within = (index - setUpDispatches) % plan.perStep();
    const uint32_t step = (index - setUpDispatches) / plan.perStep();
    Place place{};
    place.batchFirst = step * plan.batches;
    place.batches = std::min(plan.batches, plan.linear().batch - place.batchFirst);
    d.barrierBefore = true; // all of them bind the whole workspace
    if (within < 2) {
        Maker(plan, place, d).state(within == 0);
        return d;
    }
    within -= 2;
    const uint32_t ofOut = (plan.spans - 1) * plan.outwardStages, ofBack = plan.spans * plan.backStages;
    if (within == ofOut + ofBack) {
        Maker(plan, place, d).storeState();
        return d;
    }
    const bool outward = within < ofOut;
    place.way = outward ? Way::outward : Way::back;
    const uint32_t perSpan = outward ? plan.outwardStages : plan.backStages, number = outward ? within : within - ofOut;
    place.span = outward ? number / perSpan : plan.spans - 1 - number / perSpan;
    place.chunkFirst = place.span * plan.spanChunks;
    place.chunks = std::min(plan.spanChunks, plan.chunks - place.chunkFirst);
    const StageList list = stagesOf(plan, outward);
    Maker(plan, place, d).stage(list.stages[number % perSpan]);
    return d;
}

uint32_t linear_gradient::mainDispatch(const LinearGradientPlan &plan) {
    const StageList list = stagesOf(plan, false);
    uint32_t n = 0;
    while (n + 1 < list.count && list.stages[n] != Stage::rowsOut && list.stages[n] != Stage::columnsBack &&
           list.stages[n] != Stage::columnsBackFirst)
        ++n;
    return setUpDispatches + 2 + (plan.spans - 1) * plan.outwardStages + n;
}

PipelineSet linear_gradient::pipelines(const LinearGradientPlan &plan) {
    PipelineSet set;
    if (plan.dispatchCount == 0) return set;
    // Spans are alike, but for the last, which is what the way back begins with, and so are steps.
    const uint32_t first = setUpDispatches + 2, ofOut = (plan.spans - 1) * plan.outwardStages;
    for (uint32_t n = 0; n < first + (plan.spans > 1 ? plan.outwardStages : 0); ++n) set.add(dispatch(plan, n).key);
    for (uint32_t n = 0; n < plan.backStages; ++n) set.add(dispatch(plan, first + ofOut + n).key);
    if (plan.gradient.uses(VKATTN_D_STATE_IN)) set.add(dispatch(plan, setUpDispatches + plan.perStep() - 1).key);
    return set;
}

} // namespace vkattn
