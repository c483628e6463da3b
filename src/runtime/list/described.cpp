// The operations that are described by their tensors.
#include "vkattn/list.hpp"

namespace vkattn {
namespace {

// The roles that have a tensor. Arrays set their bit in `present`.
class Given {
  public:
    explicit Given(uint32_t *present = nullptr) : present_(present) {}
    // Sets the operand's layout in the description.
    void add(vkattn_role role, const DeviceTensor &tensor, vkattn_layout &layout) {
        if (tensor) require(role, tensor, layout);
    }
    // A required operand, which the description may not lack.
    void require(vkattn_role role, const DeviceTensor &tensor, vkattn_layout &layout) {
        layout = tensor.layout();
        list_[count_++] = {role, tensor};
    }
    void addArray(vkattn_role role, const DeviceTensor &tensor) {
        if (!tensor) return;
        *present_ |= VKATTN_PRESENT(role);
        list_[count_++] = {role, tensor};
    }
    // An array that the description says to be there by a kind of its own.
    void addOffsets(vkattn_role role, const DeviceTensor &tensor, vkattn_offset &offset) {
        if (!tensor) return;
        offset.kind = VKATTN_OFFSET_ARRAY;
        list_[count_++] = {role, tensor};
    }
    // Arrays that follow set their bit there.
    void presentIn(uint32_t &present) { present_ = &present; }
    [[nodiscard]] span<const ListOperand> operands() const { return {list_.data(), count_}; }

  private:
    std::array<ListOperand, 64> list_{};
    size_t count_ = 0;
    uint32_t *present_;
};

vkattn_problem optionsOf(const AttentionOf &a) {
    vkattn_problem description = a.options;
    description.structSize = sizeof description;
    description.presentRoles = 0;
    description.lse = description.weights = description.scores = description.bias = description.mask = description.bitMask = {};
    description.k1 = description.v1 = description.k2 = description.v2 = description.k3 = description.v3 = {};
    description.priorOut = description.priorLse = {};
    return description;
}
// What an attention has beside q, k, v and out.
void giveOptions(const AttentionOf &a, Given &given, vkattn_problem &description) {
    given.add(VKATTN_LSE, a.lse, description.lse);
    given.add(VKATTN_WEIGHTS, a.weights, description.weights);
    given.add(VKATTN_SCORES, a.scores, description.scores);
    given.add(VKATTN_BIAS, a.bias, description.bias);
    given.add(VKATTN_MASK, a.mask, description.mask);
    given.add(VKATTN_BIT_MASK, a.bitMask, description.bitMask);
    given.addArray(VKATTN_KEY_LENGTHS, a.keyLengths);
    given.addArray(VKATTN_CU_SEQ_Q, a.cuSeqQ);
    given.addArray(VKATTN_CU_SEQ_K, a.cuSeqK);
    given.addArray(VKATTN_DOC_IDS_Q, a.docIdsQ);
    given.addArray(VKATTN_DOC_IDS_K, a.docIdsK);
    given.addArray(VKATTN_SINKS, a.sinks);
    given.addArray(VKATTN_ALIBI_SLOPES, a.slopes);
}
void giveAttention(const AttentionOf &a, Given &given, vkattn_problem &description) {
    given.require(VKATTN_Q, a.q, description.q);
    given.require(VKATTN_K, a.k, description.k);
    // A tensor that is given all the same is refused.
    if (description.flags & VKATTN_VALUES_IN_KEYS)
        description.v = {}, given.add(VKATTN_V, a.v, description.v);
    else
        given.require(VKATTN_V, a.v, description.v);
    given.require(VKATTN_OUT, a.out, description.out);
    given.add(VKATTN_K_1, a.k1, description.k1), given.add(VKATTN_V_1, a.v1, description.v1);
    given.add(VKATTN_K_2, a.k2, description.k2), given.add(VKATTN_V_2, a.v2, description.v2);
    given.add(VKATTN_K_3, a.k3, description.k3), given.add(VKATTN_V_3, a.v3, description.v3);
    given.add(VKATTN_PRIOR_OUT, a.priorOut, description.priorOut);
    given.add(VKATTN_PRIOR_LSE, a.priorLse, description.priorLse);
    given.addArray(VKATTN_PAGE_TABLE, a.pageTable);
    if (a.pageTable && description.q.extent[0]) description.tablePages = a.pageTable.layout().extent[3] / description.q.extent[0];
    given.addOffsets(VKATTN_QUERY_OFFSETS, a.queryOffsets, description.queryOffset);
    given.addOffsets(VKATTN_KEY_OFFSETS, a.keyOffsets, description.keyOffset);
    giveOptions(a, given, description);
}

} // namespace

vkattn_result OperationList::add(const ProjectionOf &p, std::string *why) {
    vkattn_projection description{};
    description.structSize = sizeof description;
    description.flags = p.flags;
    description.kernel = p.kernel;
    Given given(&description.presentRoles);
    given.require(VKATTN_X, p.x, description.x);
    given.require(VKATTN_W, p.w, description.w);
    given.add(VKATTN_BIAS, p.bias, description.bias);
    given.add(VKATTN_RESIDUAL, p.residual, description.residual);
    given.require(VKATTN_Y, p.y, description.y);
    given.addArray(VKATTN_KEY_LENGTHS, p.keyLengths);
    return add(operation(description), given.operands(), why);
}

vkattn_result OperationList::add(const NormOf &n, std::string *why) {
    vkattn_norm description{};
    description.structSize = sizeof description;
    description.kind = n.kind;
    description.epsilon = n.epsilon;
    Given given;
    given.require(VKATTN_X, n.x, description.x);
    given.add(VKATTN_RESIDUAL, n.residual, description.residual);
    given.add(VKATTN_GAMMA, n.gamma, description.gamma);
    given.add(VKATTN_BETA, n.beta, description.beta);
    given.add(VKATTN_SUM, n.sum, description.sum);
    given.require(VKATTN_Y, n.y, description.y);
    return add(operation(description), given.operands(), why);
}

vkattn_result OperationList::add(const RotaryOf &r, std::string *why) {
    vkattn_rotary description{};
    description.structSize = sizeof description;
    description.flags = r.flags;
    description.pairs = r.pairs;
    description.start = r.start;
    Given given(&description.presentRoles);
    given.require(VKATTN_X, r.x, description.x);
    given.require(VKATTN_COS, r.cos, description.cos);
    given.require(VKATTN_SIN, r.sin, description.sin);
    given.require(VKATTN_Y, r.y, description.y);
    given.addArray(VKATTN_POSITIONS, r.positions);
    given.addArray(VKATTN_STARTS, r.starts);
    return add(operation(description), given.operands(), why);
}

vkattn_result OperationList::add(const AppendOf &a, std::string *why) {
    vkattn_append description{};
    description.structSize = sizeof description;
    description.start = a.start;
    Given given(&description.presentRoles);
    given.require(VKATTN_X, a.x, description.x);
    given.require(VKATTN_Y, a.cache, description.y);
    given.addArray(VKATTN_STARTS, a.starts);
    given.addArray(VKATTN_PAGE_TABLE, a.pageTable);
    if (a.ring) description.flags = VKATTN_APPEND_RING;
    if (description.presentRoles & VKATTN_PRESENT(VKATTN_PAGE_TABLE) && description.x.extent[0])
        description.tablePages = a.pageTable.layout().extent[3] / description.x.extent[0];
    return add(operation(description), given.operands(), why);
}

vkattn_result OperationList::add(const AdvanceOf &a, std::string *why) {
    vkattn_advance description{};
    description.structSize = sizeof description;
    description.by = a.by;
    description.limit = a.limit;
    Given given;
    given.require(VKATTN_X, a.x, description.x);
    given.require(VKATTN_Y, a.y, description.y);
    return add(operation(description), given.operands(), why);
}

vkattn_result OperationList::add(const MeanOf &m, std::string *why) {
    vkattn_mean description{};
    description.structSize = sizeof description;
    Given given;
    given.require(VKATTN_X, m.x, description.x);
    given.require(VKATTN_Y, m.y, description.y);
    return add(operation(description), given.operands(), why);
}

vkattn_result OperationList::add(const HadamardOf &h, std::string *why) {
    vkattn_hadamard description{};
    description.structSize = sizeof description;
    description.block = h.block;
    Given given;
    given.require(VKATTN_X, h.x, description.x);
    given.require(VKATTN_Y, h.y, description.y);
    return add(operation(description), given.operands(), why);
}

vkattn_result OperationList::add(const MergeOf &m, std::string *why) {
    vkattn_merge description{};
    description.structSize = sizeof description;
    description.parts = m.parts;
    Given given;
    given.require(VKATTN_X, m.x, description.x);
    given.require(VKATTN_X_LSE, m.xLse, description.xLse);
    given.require(VKATTN_Y, m.y, description.y);
    given.add(VKATTN_LSE, m.lse, description.lse);
    return add(operation(description), given.operands(), why);
}

vkattn_result OperationList::add(const KeepOf &k, std::string *why) {
    vkattn_keep description{};
    description.structSize = sizeof description;
    description.probability = k.probability;
    description.seed = k.seed;
    description.offset = k.offset;
    description.columns = k.columns;
    Given given;
    given.require(VKATTN_Y, k.y, description.y);
    return add(operation(description), given.operands(), why);
}

vkattn_result OperationList::add(const DropOf &d, std::string *why) {
    vkattn_drop description{};
    description.structSize = sizeof description;
    description.probability = d.probability;
    description.seed = d.seed;
    description.offset = d.offset;
    Given given;
    given.require(VKATTN_X, d.x, description.x);
    given.add(VKATTN_RESIDUAL, d.residual, description.residual);
    given.require(VKATTN_Y, d.y, description.y);
    return add(operation(description), given.operands(), why);
}

vkattn_result OperationList::add(const NormGradientOf &n, std::string *why) {
    vkattn_norm_gradient description{};
    description.structSize = sizeof description;
    description.kind = n.kind;
    description.epsilon = n.epsilon;
    Given given;
    given.require(VKATTN_X, n.x, description.x);
    given.add(VKATTN_GAMMA, n.gamma, description.gamma);
    given.require(VKATTN_D_Y, n.dY, description.dY);
    given.add(VKATTN_RESIDUAL, n.residual, description.residual);
    given.add(VKATTN_D_X, n.dX, description.dX);
    given.add(VKATTN_D_GAMMA, n.dGamma, description.dGamma);
    given.add(VKATTN_D_BETA, n.dBeta, description.dBeta);
    return add(operation(description), given.operands(), why);
}

vkattn_result OperationList::add(const AttentionOf &a, std::string *why) {
    vkattn_problem description = optionsOf(a);
    Given given(&description.presentRoles);
    giveAttention(a, given, description);
    return add(operation(description), given.operands(), why);
}

vkattn_result OperationList::add(const AttentionGradientOf &g, std::string *why) {
    AttentionOf attention = g.forward;
    attention.weights = attention.scores = {};
    attention.options.scoresStage = VKATTN_SCORES_RAW;
    vkattn_problem forward = optionsOf(attention);
    vkattn_attention_gradient description{};
    description.structSize = sizeof description;
    description.forward = &forward;
    description.kernel = g.kernel;
    description.lossScale = g.lossScale;
    Given given(&forward.presentRoles);
    giveAttention(attention, given, forward);
    if (forward.flags & VKATTN_WEIGHTS_DROPPED) forward.weights = g.forward.weights.layout();
    given.presentIn(description.presentRoles);
    given.require(VKATTN_D_OUT, g.dOut, description.dOut);
    given.add(VKATTN_D_LSE, g.dLse, description.dLse);
    given.add(VKATTN_D_WEIGHTS, g.dWeights, description.dWeights);
    given.add(VKATTN_D_Q, g.dQ, description.dQ);
    given.add(VKATTN_D_K, g.dK, description.dK);
    given.add(VKATTN_D_V, g.dV, description.dV);
    given.add(VKATTN_D_BIAS, g.dBias, description.dBias);
    given.addArray(VKATTN_D_SINKS, g.dSinks);
    given.addArray(VKATTN_D_SLOPES, g.dSlopes);
    given.addArray(VKATTN_D_SCALE, g.dScale);
    given.addArray(VKATTN_D_SOFTCAP, g.dSoftcap);
    given.addArray(VKATTN_NONFINITE, g.nonfinite);
    return add(operation(description), given.operands(), why);
}

vkattn_result OperationList::add(const AttentionStatisticsOf &s, std::string *why) {
    vkattn_problem attention = optionsOf(s.attention);
    vkattn_attention_statistics description{};
    description.structSize = sizeof description;
    description.attention = &attention;
    description.densityThreshold = s.densityThreshold;
    AttentionOf scores = s.attention; // what decides scores
    scores.lse = scores.weights = scores.scores = scores.sinks = {};
    attention.flags &= ~uint32_t{VKATTN_VALUES_IN_KEYS | VKATTN_ROW_STATISTICS | VKATTN_WEIGHTS_DROPPED};
    Given given(&attention.presentRoles);
    given.require(VKATTN_Q, scores.q, attention.q);
    given.require(VKATTN_K, scores.k, attention.k);
    giveOptions(scores, given, attention);
    given.add(VKATTN_STATISTICS, s.statistics, description.statistics);
    given.add(VKATTN_RECEIVED, s.received, description.received);
    given.add(VKATTN_TOP_WEIGHTS, s.topWeights, description.topWeights);
    given.add(VKATTN_TOP_KEYS, s.topKeys, description.topKeys);
    return add(operation(description), given.operands(), why);
}

namespace {

// The description points at its options: it stays where it is.
struct DescribedLayer {
    vkattn_problem options{};
    vkattn_layer layer{};

    // Without the memory of what the layer keeps.
    DescribedLayer(const LayerOf &l, Given &given) : options(optionsOf(l.attention)) {
        layer.structSize = sizeof layer;
        layer.flags =
            (l.residual ? uint32_t{VKATTN_LAYER_RESIDUAL} : 0) | (l.averagedWeights ? uint32_t{VKATTN_LAYER_AVERAGED_WEIGHTS} : 0);
        layer.heads = l.heads;
        layer.kvHeads = l.kvHeads;
        layer.place = l.place;
        layer.norm = l.norm;
        layer.epsilon = l.epsilon;
        layer.stored = l.stored;
        layer.pairs = l.pairs;
        layer.start = l.start;
        layer.outputDropout = l.outputDropout;
        layer.outputDropoutSeed = l.outputDropoutSeed;
        layer.outputDropoutOffset = l.outputDropoutOffset;
        layer.options = &options;
        given.presentIn(layer.presentRoles);
        given.require(VKATTN_X, l.x, layer.x);
        given.add(VKATTN_CONTEXT, l.context, layer.context);
        given.require(VKATTN_WQ, l.wq, layer.wq);
        given.add(VKATTN_WK, l.wk, layer.wk);
        given.add(VKATTN_WV, l.wv, layer.wv);
        given.require(VKATTN_WO, l.wo, layer.wo);
        given.add(VKATTN_BQ, l.bq, layer.bq);
        given.add(VKATTN_BK, l.bk, layer.bk);
        given.add(VKATTN_BV, l.bv, layer.bv);
        given.add(VKATTN_BO, l.bo, layer.bo);
        given.add(VKATTN_GAMMA, l.gamma, layer.gamma);
        given.add(VKATTN_BETA, l.beta, layer.beta);
        given.add(VKATTN_COS, l.cos, layer.cos);
        given.add(VKATTN_SIN, l.sin, layer.sin);
        given.require(VKATTN_Y, l.y, layer.y);
        given.addArray(VKATTN_POSITIONS, l.positions);
        given.addArray(VKATTN_STARTS, l.starts);
        given.presentIn(options.presentRoles);
        giveOptions(l.attention, given, options);
    }
    DescribedLayer(const DescribedLayer &) = delete;
    DescribedLayer &operator=(const DescribedLayer &) = delete;

    void keep(const LayerOf &l, Given &given) {
        layer.flags |= VKATTN_LAYER_KEEPS_STEPS;
        vkattn_layout ignored;
        given.require(VKATTN_KEPT, l.kept, ignored);
    }
};

} // namespace

DeviceTensor Runtime::allocateKept(const LayerOf &layer, std::string *why) {
    Given given;
    DescribedLayer described(layer, given);
    described.keep(layer, given);
    vkattn_layer_plan plan{};
    plan.structSize = sizeof plan;
    vkattn_diagnostic diagnostic{};
    if (vkattnPlanLayer(&described.layer, &plan, &diagnostic) != VKATTN_OK) {
        if (why) *why = diagnostic.message;
        return {};
    }
    // In rows: more than 2^32 words have no one extent.
    constexpr uint32_t rowBytes = 256;
    return allocate(packed(VKATTN_BITS32, 1, 1, static_cast<uint32_t>((plan.keptBytes + rowBytes - 1) / rowBytes), rowBytes / 4), why);
}

vkattn_result OperationList::add(const LayerOf &l, std::string *why) {
    Given given;
    DescribedLayer described(l, given);
    if (l.kept) described.keep(l, given);
    return add(described.layer, given.operands(), why);
}

vkattn_result OperationList::add(const LayerGradientOf &g, std::string *why) {
    if (!g.forward.kept) {
        if (why) *why = "forward.kept is no tensor: allocate it with Runtime::allocateKept(forward), and add the layer with it";
        return VKATTN_ERROR_INVALID_ARGUMENT;
    }
    Given given;
    DescribedLayer described(g.forward, given);
    described.keep(g.forward, given);
    vkattn_layer_gradient description{};
    description.structSize = sizeof description;
    description.forward = &described.layer;
    description.kernel = g.kernel;
    description.stored = g.stored;
    given.presentIn(description.presentRoles);
    given.require(VKATTN_D_Y, g.dY, description.dY);
    given.add(VKATTN_D_X, g.dX, description.dX);
    given.add(VKATTN_D_CONTEXT, g.dContext, description.dContext);
    given.add(VKATTN_D_WQ, g.dWq, description.dWq);
    given.add(VKATTN_D_WK, g.dWk, description.dWk);
    given.add(VKATTN_D_WV, g.dWv, description.dWv);
    given.add(VKATTN_D_WO, g.dWo, description.dWo);
    given.add(VKATTN_D_BQ, g.dBq, description.dBq);
    given.add(VKATTN_D_BK, g.dBk, description.dBk);
    given.add(VKATTN_D_BV, g.dBv, description.dBv);
    given.add(VKATTN_D_BO, g.dBo, description.dBo);
    given.add(VKATTN_D_GAMMA, g.dGamma, description.dGamma);
    given.add(VKATTN_D_BETA, g.dBeta, description.dBeta);
    given.add(VKATTN_D_BIAS, g.dBias, description.dBias);
    given.addArray(VKATTN_D_SINKS, g.dSinks);
    given.addArray(VKATTN_D_SLOPES, g.dSlopes);
    given.addArray(VKATTN_D_SCALE, g.dScale);
    given.addArray(VKATTN_D_SOFTCAP, g.dSoftcap);
    return add(description, given.operands(), why);
}

vkattn_result OperationList::add(const LatentLayerOf &l, std::string *why) {
    vkattn_problem options = optionsOf(l.attention);
    vkattn_latent_layer description{};
    description.structSize = sizeof description;
    description.flags = l.residual ? uint32_t{VKATTN_LAYER_RESIDUAL} : 0;
    description.heads = l.heads;
    description.nope = l.nope, description.rope = l.rope, description.value = l.value;
    description.form = l.form;
    description.pairs = l.pairs;
    description.epsilon = l.epsilon;
    description.stored = l.stored;
    description.start = l.start;
    description.options = &options;
    Given given(&description.presentRoles);
    given.require(VKATTN_X, l.x, description.x);
    given.add(VKATTN_WDQ, l.wdq, description.wdq);
    given.add(VKATTN_GAMMA_Q, l.gammaQ, description.gammaQ);
    given.require(VKATTN_WQ, l.wuq, description.wuq);
    given.require(VKATTN_WDKV, l.wdkv, description.wdkv);
    given.add(VKATTN_GAMMA, l.gamma, description.gamma);
    given.require(VKATTN_WUKV, l.wukv, description.wukv);
    given.require(VKATTN_WO, l.wo, description.wo);
    given.require(VKATTN_COS, l.cos, description.cos);
    given.require(VKATTN_SIN, l.sin, description.sin);
    given.add(VKATTN_CACHE, l.cache, description.cache);
    given.require(VKATTN_Y, l.y, description.y);
    given.addArray(VKATTN_POSITIONS, l.positions);
    given.addArray(VKATTN_STARTS, l.starts);
    given.presentIn(options.presentRoles);
    giveOptions(l.attention, given, options);
    return add(description, given.operands(), why);
}

} // namespace vkattn
