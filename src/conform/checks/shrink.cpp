// Greedy shrinking: whatever makes a case smaller or plainer is tried, and kept where the case
// still fails, until nothing helps.
#include "conform/cases/case_text.hpp"
#include "conform/cases/features.hpp"
#include "conform/checks/check.hpp"

#include <algorithm>

namespace vkattn::conform {
namespace {

using Edit = std::function<void(Check &)>;

template <class Value> Edit set(Value Case::*member, Value value) {
    return [member, value](Check &check) { check.c.*member = value; };
}

// Plainer: a feature less, then a member that is as in an ordinary case.
std::vector<Edit> plainer() {
    std::vector<Edit> edits = {
        [](Check &check) { check.limits = Limits::full; },
        [](Check &check) { check.c.q = check.c.k = check.c.v = check.c.out = VKATTN_F32; },
        [](Check &check) { check.c.qStyle = check.c.kStyle = check.c.vStyle = check.c.outStyle = Style::packed; },
    };
    for (const Feature &feature : features())
        if (!feature.members.empty()) edits.push_back([&feature](Check &check) { drop(feature, check.c); });
    for (const Feature &feature : features())
        for (const Member &member : feature.members) edits.push_back([&member](Check &check) { member.reset(check.c); });
    for (bool Case::*flag : {&Case::sharedHeads, &Case::valuesInKeys, &Case::raggedGaps, &Case::poison}) edits.push_back(set(flag, false));
    for (vkattn_dtype Case::*type : {&Case::q, &Case::k, &Case::v, &Case::out}) edits.push_back(set(type, VKATTN_F32));
    for (Style Case::*style : {&Case::qStyle, &Case::kStyle, &Case::vStyle, &Case::outStyle}) edits.push_back(set(style, Style::packed));
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

} // namespace

Shrunk shrink(const Check &failing, const std::function<bool(const Check &)> &fails, uint32_t attempts) {
    Shrunk result{failing, 0};
    if (failing.kind->drawnBySeed()) return result; // the seed draws the case
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
