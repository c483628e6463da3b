// Greedy shrinking: whatever makes a case smaller or plainer is tried, and kept where the case still fails, until nothing helps.
#include "conform/cases/case_text.hpp"
#include "conform/checks/check.hpp"

#include <algorithm>

namespace vkattn::conform {
namespace {

using Edit = std::function<void(Check &)>;

template <class Value> Edit set(Value Case::*member, Value value) {
    return [member, value](Check &check) { check.c.*member = value; };
}

// Plainer: one option less.
std::vector<Edit> plainer() {
    std::vector<Edit> edits = {
        [](Check &check) { check.limits = Limits::full; },
        [](Check &check) { check.c.maskBroadcast.reset(); },
        [](Check &check) { check.c.bitMaskBroadcast.reset(); },
        [](Check &check) { check.c.biasBroadcast.reset(); },
        [](Check &check) { check.c.sequenceLengths.clear(); },
        [](Check &check) { check.c.q = check.c.k = check.c.v = check.c.out = VKATTN_F32; },
        [](Check &check) { check.c.qStyle = check.c.kStyle = check.c.vStyle = check.c.outStyle = Style::packed; },
    };
    for (bool Case::*flag : {&Case::hostileLengths, &Case::lengths, &Case::hostileRagged, &Case::raggedGaps, &Case::raggedMax,
                             &Case::ragged, &Case::sharedHeads, &Case::valuesInKeys, &Case::causal, &Case::topLeft, &Case::window,
                             &Case::alibi, &Case::sinks, &Case::lse, &Case::weights, &Case::deterministic, &Case::poison})
        edits.push_back(set(flag, false));
    for (vkattn_dtype Case::*type : {&Case::q, &Case::k, &Case::v, &Case::out, &Case::biasType, &Case::weightsType})
        edits.push_back(set(type, VKATTN_F32));
    for (Style Case::*style : {&Case::qStyle, &Case::kStyle, &Case::vStyle, &Case::outStyle, &Case::weightsStyle})
        edits.push_back(set(style, Style::packed));
    edits.push_back(set(&Case::documents, Documents::none));
    edits.push_back(set(&Case::scale, std::optional<float>()));
    edits.push_back(set(&Case::softcap, 0.0f));
    edits.push_back(set(&Case::slices, 0u));
    edits.push_back(set(&Case::data, Data::normal));
    return edits;
}

// Smaller: an extent at its least, halved, or less by one.
std::vector<Edit> smaller() {
    std::vector<Edit> edits = {
        [](Check &check) { check.c.heads = check.c.kvHeads = 1; },
        [](Check &check) { check.c.heads /= std::max(check.c.kvHeads, 1u), check.c.kvHeads = 1; },
        [](Check &check) { check.c.heads = check.c.kvHeads; },
        [](Check &check) { check.c.headDim = check.c.valueDim = std::min(check.c.headDim, check.c.valueDim); },
        [](Check &check) { check.c.sequenceLengths.resize(check.c.sequenceLengths.size() / 2); },
    };
    for (uint32_t Case::*extent : {&Case::batch, &Case::queryTokens, &Case::keyTokens, &Case::headDim, &Case::valueDim, &Case::slices}) {
        edits.push_back([extent](Check &check) { check.c.*extent = std::min(check.c.*extent, 1u); });
        edits.push_back([extent](Check &check) { check.c.*extent = (check.c.*extent + 1) / 2; });
        edits.push_back([extent](Check &check) { check.c.*extent -= check.c.*extent > 0; });
    }
    return edits;
}

// What an option that is off says has no meaning: one text for one case.
void dropMeaningless(Case &c) {
    static const Case ordinary;
    if (!c.window) c.left = c.right = -1;
    if (!c.lengths) c.hostileLengths = false;
    if (!c.ragged) c.raggedMax = c.hostileRagged = false, c.raggedGaps = true, c.sequenceLengths.clear();
    if (!c.biasBroadcast) c.biasType = VKATTN_F32, c.biasHidden = ordinary.biasHidden, c.biasConstant.reset();
    if (!c.alibi) c.alibiSlope.reset();
    if (!c.sinks) c.sink.reset();
    if (!c.weights) c.weightsType = VKATTN_F32, c.weightsStyle = Style::packed;
    if (c.data != Data::needle) c.needle = 0;
    c.needle = std::min(c.needle, std::max(c.keyTokens, 1u) - 1);
}

} // namespace

Shrunk shrink(const Check &failing, const std::function<bool(const Check &)> &fails, uint32_t attempts) {
    Shrunk result{failing, 0};
    std::vector<Edit> edits = plainer();
    for (Edit &edit : smaller()) edits.push_back(std::move(edit));
    for (bool progress = true; progress;) {
        progress = false;
        for (const Edit &edit : edits) {
            // The same again while it helps: halving reaches small numbers fast.
            while (result.attempts < attempts) {
                Check candidate = result.check;
                edit(candidate);
                dropMeaningless(candidate.c);
                if (replayText(candidate) == replayText(result.check) || !whyImpossible(candidate.c).empty()) break;
                ++result.attempts;
                if (!fails(candidate)) break;
                result.check = candidate;
                progress = true;
            }
            if (result.attempts >= attempts) return result;
        }
    }
    return result;
}

} // namespace vkattn::conform
