// The case matrix: every option alone, every pair of options, sizes around tile edges, needles,
// extremes.
#include "conform/cases/base_case.hpp"
#include "conform/cases/features.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <string>

namespace vkattn::conform {
namespace {

const std::vector<Variant> &options() {
    static const std::vector<Variant> all = [] {
        std::vector<Variant> list;
        for (const Feature &feature : features()) list.insert(list.end(), feature.variants.begin(), feature.variants.end());
        return list;
    }();
    return all;
}

// Cases of single options at their edges.
template <class Add> void addNamedOptions(const Add &add) {
    for (const uint32_t dim : {1u, 2u, 3u, 33u, 64u, 128u, 256u}) {
        Case &c = add("bf16Dim" + std::to_string(dim));
        c.headDim = c.valueDim = dim;
        c.batch = 1;
        c.q = c.k = c.v = c.out = VKATTN_BF16;
    }
    for (const uint32_t keys : {1u, 31u, 32u, 33u, 63u, 64u, 65u}) {
        Case &c = add("bitMaskKeys" + std::to_string(keys));
        c.keyTokens = keys, c.bitMaskBroadcast = 0, c.lse = c.weights = true;
    }
    // Segments begin inside of steps, and so do the operands of their pairs.
    for (const bool bits : {false, true}) {
        Case &c = add(bits ? "segmentsBesideBits" : "segmentsBesideBias");
        c.segments = 3, c.keyTokens = 141, c.queryTokens = 37;
        (bits ? c.bitMaskBroadcast : c.biasBroadcast) = 0;
    }
    for (const float sink : {-std::numeric_limits<float>::infinity(), 2.0f, 80.0f, -1e9f, 1e9f}) {
        Case &c = add("sink" + std::to_string(static_cast<int>(std::max(sink, -2e9f))));
        c.sinks = true, c.sink = sink, c.lse = c.weights = true;
        Case &hidden = add("sinkAllHidden" + std::to_string(static_cast<int>(std::max(sink, -2e9f))));
        hidden.sinks = true, hidden.sink = sink, hidden.lse = hidden.weights = true;
        hidden.biasBroadcast = 0, hidden.biasHidden = 1;
        Case &noKeys = add("sinkNoKeys" + std::to_string(static_cast<int>(std::max(sink, -2e9f))));
        noKeys.sinks = true, noKeys.sink = sink, noKeys.lse = true, noKeys.keyTokens = 0;
    }
    // Times up to 70 keys of distance.
    for (const float slope : {0.0f, -0.25f, 1.0f, 37.5f, 1000.0f, -1400.0f})
        for (const bool causal : {false, true}) {
            Case &c = add("alibiSlope" + std::to_string(static_cast<int>(slope)) + (causal ? "causal" : slope < 0 ? "away" : ""));
            c.alibi = true, c.alibiSlope = slope, c.causal = causal, c.lse = c.weights = true;
            if (causal) c.queryTokens = 1; // the far end of every distance
        }
    {
        Case &c = add("alibiTopLeftLengths");
        c.alibi = c.topLeft = c.lengths = c.lse = true;
        Case &one = add("raggedOneSequence");
        one.ragged = true, one.raggedGaps = false, one.raggedMax = true, one.sequenceLengths = {{one.queryTokens, one.keyTokens}};
        one.lse = true;
        Case &none = add("raggedWithoutTokens");
        none.ragged = true, none.raggedGaps = false, none.sequenceLengths = {{0, 0}, {0, 0}}, none.lse = true;
        Case &noKeys = add("raggedWithoutKeys");
        noKeys.ragged = true, noKeys.raggedGaps = false, noKeys.sequenceLengths = {{3, 0}, {0, 0}, {2, 0}};
        noKeys.lse = noKeys.sinks = true;
    }
    for (const bool window : {false, true}) {
        Case &nine = add(window ? "raggedNineWindow" : "raggedNineCausal");
        nine.ragged = nine.causal = nine.lse = nine.raggedMax = true;
        nine.sequenceLengths = {{1, 1}, {17, 65}, {0, 9}, {64, 64}, {33, 7}, {5, 0}, {1, 130}, {8, 8}, {31, 33}};
        nine.window = window, nine.left = window ? 11 : -1;
        nine.heads = 4, nine.kvHeads = 2;
        Case &weights = add(window ? "raggedWeightsWindow" : "raggedWeightsMask");
        weights.ragged = weights.weights = weights.lse = true, weights.batch = 3, weights.raggedMax = window;
        weights.window = window, weights.left = 4, weights.right = 2;
        if (!window) weights.bitMaskBroadcast = 2;
        Case &documents = add(window ? "raggedDocumentsRandom" : "raggedDocumentsRuns");
        documents.ragged = documents.causal = documents.lse = true, documents.batch = 4;
        documents.documents = window ? Documents::random : Documents::runs;
    }
    for (const uint32_t needle : {0u, 31u, 32u, 63u, 64u})
        for (const bool bf16 : {false, true}) {
            Case &ragged = add("raggedNeedle" + std::to_string(needle) + (bf16 ? "bf16" : ""));
            ragged.ragged = true, ragged.sequenceLengths = {{9, 65}, {3, 33}, {20, 70}}, ragged.data = Data::needle, ragged.needle = needle;
            if (bf16) ragged.q = ragged.k = ragged.v = ragged.out = VKATTN_BF16;
            Case &sinks = add("sinksAlibiNeedle" + std::to_string(needle) + (bf16 ? "bf16" : ""));
            sinks.sinks = sinks.alibi = sinks.lse = true, sinks.keyTokens = 66, sinks.data = Data::needle, sinks.needle = needle;
            if (bf16) sinks.k = sinks.v = VKATTN_BF16;
        }
}

// Multi-head latent attention: the absorbed form, whose values are dims of the keys, and the naive
// one.
template <class Add> void addLatentAttention(const Add &add) {
    const auto latent = [&](const char *name, uint32_t headDim, uint32_t valueDim, uint32_t heads, uint32_t queries,
                            uint32_t keys) -> Case & {
        Case &c = add(name);
        c.batch = 1, c.heads = heads, c.kvHeads = 1, c.headDim = headDim, c.valueDim = valueDim;
        c.queryTokens = queries, c.keyTokens = keys;
        c.keysHoldValues = true;
        return c;
    };
    latent("latentDecode", 576, 512, 128, 1, 70);
    latent("latentPrefill", 576, 512, 16, 9, 33).causal = true;
    Case &half = latent("latentDecodeBf16", 576, 512, 48, 1, 70);
    half.k = half.v = VKATTN_BF16, half.lengths = half.lse = true;
    Case &other = latent("latentGroups", 40, 24, 4, 7, 41);
    other.kvHeads = 2, other.k = other.v = VKATTN_F16, other.causal = true;
    latent("latentOddDims", 41, 40, 6, 3, 29).lse = true;
    latent("latentAllDims", 33, 33, 2, 5, 31);
    Case &naive = latent("latentNaive", 192, 128, 4, 21, 37);
    naive.kvHeads = 4, naive.causal = true, naive.keysHoldValues = false;
}

} // namespace

Case baseCase(Random &random, std::string name) {
    Case c;
    c.name = std::move(name);
    c.batch = between(random, 1, 3);
    c.heads = c.kvHeads = between(random, 1, 3);
    c.queryTokens = between(random, 1, 40);
    c.keyTokens = between(random, 1, 70);
    c.headDim = c.valueDim = between(random, 1, 40);
    return c;
}

void agreeOnSums(Case &c) {
    if (c.dropout > 0 || (c.lse && c.rowStatistics)) c.prior = false;
    // What has something of every key; where only lengths say where a query stands, none can be told.
    const bool everyKey = c.ragged || c.pageTokens || c.weights || c.scores || c.bitMaskBroadcast || c.grid != Grid::none ||
                          c.blocks != Blocks::none || c.documents != Documents::none || c.globalTokens;
    const bool aligned = (c.causal || c.window || c.alibi || c.hooks != Hooks::none) && !c.topLeft && !c.offsets;
    if (everyKey || (aligned && c.lengths) || !(c.maskBroadcast || c.biasBroadcast)) c.shortMask = false;
    if (c.lse || c.weights || c.sinks || c.prior) c.hooks = withSums(c.hooks);
}

void makeAgree(Case &c) {
    if (c.heads % c.kvHeads) c.kvHeads = 1;
    agreeOnSums(c);
    if (c.ragged) c.lengths = c.hostileLengths = false;
    if (c.ragged || c.scores) dropPages(c);
    if (c.pageTokens || c.ragged || c.valuesInKeys || c.keysHoldValues || c.sharedHeads) c.segments = 0;
    if (c.pageTokens && c.csrPages) c.lengths = c.hostileLengths = false;
    if (c.bitMaskBroadcast) c.maskBroadcast.reset();
    if (c.blocks == Blocks::bigBird && c.ragged) c.blocks = Blocks::lists;
    if (c.blocks == Blocks::bigBird) c.queryTokens = c.keyTokens;
    if (hasScales(c.k)) c.valuesInKeys = false; // V begins behind a scale
    if (c.keysHoldValues) c.v = c.k, c.valuesInKeys = false, c.headDim = std::max(c.headDim, c.valueDim);
    if (c.valuesInKeys) c.v = c.k, c.headDim = std::max(c.headDim, c.valueDim + 1);
    c.name.erase(std::remove(c.name.begin(), c.name.end(), '.'), c.name.end());
}

std::vector<Case> caseMatrix(Random &random, bool full) {
    std::vector<Case> cases;
    const auto add = [&](std::string name, auto... apply) -> Case & {
        Case c = baseCase(random, std::move(name));
        (apply(c, random), ...);
        agreeOnSums(c);
        cases.push_back(c);
        return cases.back();
    };
    add("plain");
    for (const Variant &a : options()) add(a.name, a.draw);
    for (const Variant &a : options())
        for (const Variant &b : options()) {
            if (&b <= &a) continue;
            // Half of the pairs, drawn anew with each seed, where the full matrix is too slow.
            if (!full && random() % 2) continue;
            add(std::string(a.name) + "_" + b.name, a.draw, b.draw);
        }
    for (const Grid kind : {Grid::clamped, Grid::cut, Grid::windows})
        for (const uint32_t planes : {1u, 3u}) {
            Case &c = add((planes > 1 ? "volume" : "grid") + std::string(valueText(kind)));
            c.grid = kind, c.gridPlanes = planes, c.gridRows = 7, c.keyTokens = c.queryTokens = planes * 7 * (planes > 1 ? 5 : 11);
            c.sizePlanes = planes > 1 ? 3 : 1, c.sizeRows = c.sizeColumns = 5, c.gridShift = kind == Grid::windows ? 2 : 0;
        }
    for (const Blocks kind : {Blocks::mask, Blocks::lists, Blocks::indices, Blocks::bigBird})
        for (const bool hostile : {false, true}) {
            if (hostile && kind != Blocks::lists && kind != Blocks::indices) continue;
            Case &c = add("blocks" + std::string(valueText(kind)) + (hostile ? "Hostile" : ""));
            c.blocks = kind, c.blockQueries = c.blockKeys = 16, c.queryTokens = c.keyTokens = 211;
            c.blocksOfHeads = true, c.fullBlocks = hostile, c.hostileBlocks = hostile, c.randomBlocks = kind == Blocks::bigBird ? 3 : 0;
        }
    for (const bool dilated : {false, true}) { // Longformer, more tokens than a word of bits has
        Case &c = add(dilated ? "longformerDilated" : "longformer");
        c.queryTokens = c.keyTokens = 131, c.window = c.globalTokens = true, c.left = c.right = 5;
        if (dilated) c.dilation = 3, c.headDilations = true;
    }
    for (const uint32_t keys : {1u, 2u, 7u, 8u, 9u, 31u, 32u, 33u, 63u, 64u, 65u, 127u, 129u, 257u}) {
        Case &c = add("keys" + std::to_string(keys));
        c.keyTokens = keys;
        c.lse = true;
        add("causalKeys" + std::to_string(keys)).keyTokens = keys;
        cases.back().causal = cases.back().weights = true;
        for (const uint32_t needle : {0u, 7u, 8u, 31u, 32u, 63u, 64u, keys - 1}) {
            if (needle >= keys || (needle == keys - 1 && keys < 66)) continue;
            Case &n = add("needle" + std::to_string(needle) + "of" + std::to_string(keys));
            n.keyTokens = keys, n.needle = needle, n.data = Data::needle;
            if (random() % 2) n.k = n.v = VKATTN_F16;
        }
    }
    for (const uint32_t queries : {1u, 3u, 4u, 7u, 8u, 9u, 31u, 32u, 33u, 64u, 65u})
        add("queries" + std::to_string(queries)).queryTokens = queries;
    for (const uint32_t dim : {1u, 2u, 3u, 31u, 33u, 64u, 128u, 255u, 256u, 1023u, 2048u}) {
        Case &c = add("dim" + std::to_string(dim));
        c.headDim = c.valueDim = dim;
        c.batch = 1;
        Case &half = add("f16Dim" + std::to_string(dim));
        half.headDim = half.valueDim = dim;
        half.batch = 1;
        half.q = half.k = half.v = half.out = VKATTN_F16;
    }
    addNamedOptions(add);
    addLatentAttention(add);
    for (const Data data : {Data::equal, Data::extreme})
        for (const vkattn_dtype dtype : {VKATTN_F32, VKATTN_F16, VKATTN_BF16}) {
            const char *suffix = dtype == VKATTN_F32 ? "" : dtype == VKATTN_F16 ? "F16" : "Bf16";
            Case &c = add(std::string(data == Data::equal ? "equalLogits" : "extremeLogits") + suffix);
            c.data = data;
            c.lse = c.weights = true;
            c.q = c.k = c.v = c.out = dtype;
        }
    for (const float value : {-65504.0f, -1e9f, -3.40282347e38f, 1e4f}) {
        Case &c = add("constantBias" + std::to_string(cases.size()));
        c.biasBroadcast = 0;
        c.biasConstant = value;
        c.lse = true;
    }
    for (const float value : {-1e9f, 1e6f}) { // the log-sum-exp loses the sum of such rows
        Case &c = add("rowStatisticsConstantBias" + std::to_string(cases.size()));
        c.biasBroadcast = 0;
        c.biasConstant = value;
        c.lse = c.rowStatistics = true;
    }
    {
        Case &none = add("rowStatisticsNothingVisible");
        none.lse = none.rowStatistics = none.lengths = none.sinks = true, none.batch = 4;
        Case &apart = add("rowStatisticsApart"); // the sum far from the maximum
        apart.lse = apart.rowStatistics = true, apart.outStyle = Style::dimMajor;
        Case &split = add("rowStatisticsSplit"); // partial results are merged
        split.lse = split.rowStatistics = split.sinks = true, split.queryTokens = 2, split.keyTokens = 3000;
        Case &weights = add("rowStatisticsWeights");
        weights.lse = weights.rowStatistics = weights.weights = true;
    }
    {
        Case &zero = add("zeroScale");
        zero.scale = 0.0f;
        Case &negative = add("negativeScale");
        negative.scale = -0.3f;
        Case &hidden = add("allHidden");
        hidden.biasBroadcast = 0, hidden.biasHidden = 1, hidden.lse = hidden.weights = true;
        Case &noKeys = add("noKeys");
        noKeys.keyTokens = 0, noKeys.lse = true;
        Case &noKeysWeights = add("noKeysWeightsMask");
        noKeysWeights.keyTokens = 0, noKeysWeights.weights = true, noKeysWeights.maskBroadcast = 0;
        Case &noQueries = add("noQueries");
        noQueries.queryTokens = 0, noQueries.lse = true;
        Case &long_ = add("longerContext");
        long_.batch = 1, long_.heads = long_.kvHeads = 2, long_.queryTokens = 70, long_.keyTokens = 1500,
        long_.headDim = long_.valueDim = 64, long_.causal = true;
        // With little workspace, chunks of 3 heads that cross from one group of 4 into the next.
        Case &phase = add("chunksAcrossGroups");
        phase.batch = 1, phase.heads = 12, phase.kvHeads = 3, phase.queryTokens = 1, phase.keyTokens = 800,
        phase.headDim = phase.valueDim = 8;
        Case &many = add("manyHeads");
        many.batch = 3, many.heads = 24, many.kvHeads = 8, many.queryTokens = 9, many.keyTokens = 13;
    }
    for (Case &c : cases) makeAgree(c);
    return cases;
}

std::string pipelineSignature(const Case &c) {
    std::string signature;
    for (const uint32_t part : {c.headDim, c.valueDim, static_cast<uint32_t>(c.q), static_cast<uint32_t>(c.k), static_cast<uint32_t>(c.v),
                                static_cast<uint32_t>(c.out), pipelineTerms(c)})
        signature += std::to_string(part) + " ";
    return signature;
}

Case randomCase(Random &random, uint32_t most) {
    Case c = baseCase(random, "random");
    for (uint32_t n = between(random, 0, most); n > 0; --n) {
        const Variant &option = options()[random() % options().size()];
        option.draw(c, random);
        c.name += std::string("_") + option.name;
    }
    makeAgree(c);
    return c;
}

std::vector<Case> formMatrix(Random &random, size_t pipelines) {
    std::vector<Case> cases, types, dims, others;
    for (Case &c : caseMatrix(random, true)) {
        const bool single = std::any_of(options().begin(), options().end(), [&](const Variant &o) { return c.name == o.name; });
        const bool typed = c.q != VKATTN_F32 || c.k != VKATTN_F32;
        c.writeNoPairs();
        const bool same = c.headDim == c.valueDim;
        c.headDim = 8, c.valueDim = same ? 8 : 5;
        if (hasScales(c.k)) c.valuesInKeys = false;
        if (c.valuesInKeys || c.keysHoldValues) c.v = c.k;
        if (c.name == "oddDims") c.headDim = 5, c.valueDim = 7;
        (!single && c.name != "plain" ? others : typed ? types : cases).push_back(c);
    }
    for (const uint32_t dim : {1u, 64u, 512u, 128u, 577u}) {
        Case c = baseCase(random, "dim" + std::to_string(dim));
        c.headDim = c.valueDim = dim;
        c.batch = 1;
        if (dim == 128) c.q = c.k = c.v = c.out = VKATTN_F16;
        (dim > 100 && dim != 512 ? cases : dims).push_back(c);
    }
    for (std::vector<Case> *some : {&types, &dims}) {
        std::shuffle(some->begin(), some->end(), random);
        some->resize(some == &types ? 2 : 1);
        cases.insert(cases.end(), some->begin(), some->end());
    }
    std::shuffle(others.begin(), others.end(), random);
    std::stable_partition(others.begin(), others.end(), [](const Case &c) { return c.name.find('_') == std::string::npos; });
    std::set<std::string> known;
    for (const Case &c : cases) known.insert(pipelineSignature(c));
    size_t taken = 0;
    for (const Case &c : others) {
        if (pipelines == 0 && !known.contains(pipelineSignature(c))) continue;
        if (known.insert(pipelineSignature(c)).second) --pipelines;
        if (c.name.find('_') != std::string::npos && ++taken > 150) break;
        cases.push_back(c);
    }
    return cases;
}

} // namespace vkattn::conform
