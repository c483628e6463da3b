#include "conform/cases/case_text.hpp"

#include "conform/cases/base_case.hpp"
#include "conform/cases/features.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace vkattn::conform {
namespace {

constexpr Member beforeFeatures[] = {
    member<&Case::name>("name"),
    member<&Case::kernel>("kernel"),
    member<&Case::batch>("batch"),
    member<&Case::heads>("heads"),
    member<&Case::kvHeads>("kvHeads"),
    member<&Case::queryTokens>("queryTokens"),
    member<&Case::keyTokens>("keyTokens"),
    member<&Case::headDim>("headDim"),
    member<&Case::valueDim>("valueDim"),
    member<&Case::q>("q"),
    member<&Case::k>("k"),
    member<&Case::v>("v"),
    member<&Case::out>("out"),
    member<&Case::qStyle>("qStyle"),
    member<&Case::kStyle>("kStyle"),
    member<&Case::vStyle>("vStyle"),
    member<&Case::outStyle>("outStyle"),
    member<&Case::sharedHeads>("sharedHeads"),
    member<&Case::valuesInKeys>("valuesInKeys"),
};
constexpr Member afterFeatures[] = {
    member<&Case::data>("data"),
    member<&Case::needle>("needle"),
    member<&Case::poison>("poison"),
};

const std::vector<Member> &members() {
    static const std::vector<Member> list = [] {
        std::vector<Member> all(std::begin(beforeFeatures), std::end(beforeFeatures));
        for (const Feature &feature : features()) all.insert(all.end(), feature.members.begin(), feature.members.end());
        all.insert(all.end(), std::begin(afterFeatures), std::end(afterFeatures));
        return all;
    }();
    return list;
}

} // namespace

std::span<const char *const> memberNames() {
    static const std::vector<const char *> names = [] {
        std::vector<const char *> all;
        for (const Member &m : members()) all.push_back(m.name);
        return all;
    }();
    return names;
}

const char *dtypeNameOf(vkattn_dtype dtype) {
    return Words<vkattn_dtype>::list[dtype];
}

std::string caseText(const Case &c) {
    static const Case ordinary;
    std::string all;
    for (const Member &m : members()) {
        const std::string value = m.get(c);
        if (value == m.get(ordinary)) continue;
        if (!all.empty()) all += ",";
        all += m.name;
        if (!m.flag || value != "1") all += "=" + value;
    }
    return all;
}

bool parseMember(std::string_view given, Case &c, std::string &why) {
    const size_t equals = given.find('=');
    const std::string name(given.substr(0, equals));
    for (const Member &m : members()) {
        if (name != m.name) continue;
        if (equals == std::string_view::npos && !m.flag) {
            why = quoted(name) + " has no value: write " + name + "=...";
            return false;
        }
        const std::string_view value = equals == std::string_view::npos ? "1" : given.substr(equals + 1);
        const char *expected = m.set(value, c);
        if (expected) why = quoted(given) + ": expected " + expected;
        return !expected;
    }
    why = "a case has no member " + quoted(name);
    return false;
}

std::string whyImpossible(const Case &c) {
    const auto above = [](const char *name, uint64_t value, uint64_t most) {
        return value <= most ? std::string()
                             : std::string(name) + " is " + std::to_string(value) + ", expected at most " + std::to_string(most);
    };
    for (const std::string &why :
         {above("batch", c.batch, 1024), above("heads", c.heads, 1024), above("queryTokens", c.queryTokens, 1u << 20),
          above("keyTokens", c.keyTokens, 1u << 20), above("headDim", c.headDim, 2048), above("valueDim", c.valueDim, 2048),
          above("slices", c.slices == UINT32_MAX ? 0 : c.slices, 1u << 20), above("mask", c.maskBroadcast.value_or(0), 15),
          above("bias", c.biasBroadcast.value_or(0), 15), above("bitMask", c.bitMaskBroadcast.value_or(0), 7),
          above("dilation", c.dilation, 1u << 20), above("pageTokens", c.pageTokens, 1u << 16), above("segments", c.segments, 3),
          above("randomBlocks", c.randomBlocks, 64), above("sizePlanes", c.sizePlanes, 1u << 30), above("sizeRows", c.sizeRows, 1u << 30),
          above("sizeColumns", c.sizeColumns, 1u << 30), above("gridPlanes", c.gridPlanes, 1u << 20),
          above("gridRows", c.gridRows, 1u << 20)})
        if (!why.empty()) return why;
    if (c.batch == 0 || c.heads == 0 || c.kvHeads == 0 || c.headDim == 0 || c.valueDim == 0)
        return "batch, heads, kvHeads, headDim and valueDim are at least 1";
    if (c.heads % c.kvHeads) return "heads is " + valueText(c.heads) + ", expected a multiple of kvHeads = " + valueText(c.kvHeads);
    for (const vkattn_dtype type : {c.q, c.out, c.biasType, c.weightsType, c.scoresType})
        if (type > VKATTN_BF16) return "q, out, bias, weights and scores are f32, f16 or bf16";
    for (const vkattn_dtype type : {c.k, c.v})
        if (type == VKATTN_BOOL8 || type == VKATTN_BITS32) return "k and v have types of numbers";
    if (c.valuesInKeys && hasScales(c.k)) return "valuesInKeys: V would begin behind a scale of K's type";
    if (c.valuesInKeys && (c.valueDim >= c.headDim || c.k != c.v))
        return "valuesInKeys: V is a part of K, expected its type and a smaller valueDim than headDim";
    if (c.keysHoldValues && (c.valuesInKeys || c.valueDim > c.headDim || c.k != c.v))
        return "keysHoldValues: V is the first dims of K, expected its type, a valueDim of at most headDim, and no valuesInKeys";
    if (c.maskBroadcast && c.bitMaskBroadcast) return "mask and bitMask are both given, expected one of them";
    if (c.pageTokens && c.ragged) return "pageTokens and ragged are both given, expected one of them";
    if (c.pageTokens && c.scores) return "pageTokens and scores are both given, expected one of them";
    if (c.segments && (c.pageTokens || c.ragged || c.valuesInKeys || c.keysHoldValues || c.sharedHeads))
        return "segments are given beside pageTokens, ragged, valuesInKeys, keysHoldValues or sharedHeads, expected one of them";
    if (c.prior && (c.dropout > 0 || (c.lse && c.rowStatistics)))
        return "prior is given beside dropout or rowStatistics, expected one of them";
    if (c.priorType > VKATTN_BF16) return "priorType is f32, f16 or bf16";
    if (c.csrPages && c.lengths) return "csrPages and lengths are both given, expected one of them";
    if (c.ragged && c.lengths) return "ragged and lengths are both given, expected one of them";
    if (c.softcap != 0 && !(c.softcap >= 0x1p-126f && std::isfinite(c.softcap))) return "softcap is finite and 0 or at least 2^-126";
    if (!(c.dropout >= 0 && c.dropout <= 1)) return "dropout is a probability, 0 to 1";
    if (c.blocks != Blocks::none && (c.blockQueries == 0 || c.blockKeys == 0)) return "blockQueries and blockKeys are at least 1";
    if (c.grid != Grid::none && c.grid != Grid::windows && (c.sizePlanes % 2 == 0 || c.sizeRows % 2 == 0 || c.sizeColumns % 2 == 0))
        return "sizePlanes, sizeRows and sizeColumns are odd, but those of windows";
    if (c.scale && !std::isfinite(*c.scale)) return "scale is finite";
    uint64_t queries = c.queryTokens, keys = c.keyTokens, sequences = c.batch;
    if (c.ragged && !c.sequenceLengths.empty()) {
        queries = keys = 0, sequences = c.sequenceLengths.size();
        for (const SequenceLength &s : c.sequenceLengths) queries += s.queries, keys += s.keys;
    } else if (c.ragged) {
        queries *= c.batch, keys *= c.batch;
    }
    const uint64_t batch = c.ragged ? 1 : c.batch, pairs = queries * keys * batch * c.heads;
    // What the oracle computes in seconds, and makes of it in memory.
    constexpr uint64_t mostElements = 1u << 27;
    if (queries > mostElements || keys > mostElements || (queries && keys > UINT64_MAX / queries / batch / c.heads / 4096) ||
        pairs > (uint64_t{1} << 33) / (c.headDim + c.valueDim))
        return "the case has " + std::to_string(queries) + " x " + std::to_string(keys) +
               " pairs of tokens a head, expected fewer: more than 2^33 multiplications";
    const bool allPairs =
        c.writesPairs() || (c.maskBroadcast && !*c.maskBroadcast) || c.biasBroadcast || c.bitMaskBroadcast || c.maskBroadcast;
    if (std::max(batch * c.heads * queries, batch * c.kvHeads * keys) * std::max(c.headDim, c.valueDim) > mostElements ||
        (allPairs && sequences * c.heads * queries * keys > mostElements))
        return "a tensor of the case has more than 2^27 elements";
    const vkattn_problem problem = descriptionOf(c);
    if (vkattn_diagnostic why{}; vkattnValidateProblem(&problem, &why) != VKATTN_OK)
        return std::string("the case is no problem: ") + why.message;
    return {};
}

} // namespace vkattn::conform
