#include "tool/inspect/inspection.hpp"

#include "analysis/similarity.hpp"
#include "analysis/spectra/randomized.hpp"
#include "program/legible_text.hpp"
#include "tool/inspect/head_source.hpp"
#include "tool/inspect/streamed.hpp"

#include <algorithm>
#include <cmath>
#include <future>

namespace vkattn::tool {
using namespace analysis;
namespace {

constexpr size_t leadingValues = 16;
constexpr uint64_t mostComparedElements = uint64_t{1} << 24; // of the rows of all heads that are compared: 128 MiB

// Masks for what attention would be with less: of an eighth of the keys, and of every second key of a quarter.
std::vector<FlowMask> flowMasks(uint64_t keys) {
    return {{FlowMask::Kind::causal},
            {FlowMask::Kind::band, std::max<uint64_t>(1, keys / 8)},
            {FlowMask::Kind::dilated, std::max<uint64_t>(2, keys / 4), 2}};
}

SpectrumOfHead spectrumOf(const HeadWeights &head, size_t mostExact) {
    SpectrumOfHead spectrum;
    if (head.queries() == 0 || head.keys() == 0) return spectrum;
    const Matrix p = normalized(head);
    spectrum.exact = std::max(p.rows, p.columns) <= mostExact;
    if (spectrum.exact)
        spectrum.singular = singularValues(p);
    else
        spectrum.singular.values = leadingSingular(mapOf(p), leadingValues).values;
    if (p.rows != p.columns) return spectrum;
    if (spectrum.exact || isTriangular(p)) spectrum.eigen = eigenvalues(p);
    if (spectrum.exact) spectrum.stationary = stationaryDistribution(p);
    return spectrum;
}

std::vector<FlowOfHead> flowsOf(const HeadWeights &head) {
    std::vector<FlowOfHead> flows;
    // What is asked of the masked head needs no sorting of rows.
    const MeasureOptions options{.topKeys = 0, .coveredMass = 0};
    for (const FlowMask &mask : flowMasks(head.keys())) {
        HeadMeasures measures = measureHead(masked(head, mask), options);
        flows.push_back({mask, keptMass(head, mask), measures.overRows, measures.pairs.reach});
    }
    return flows;
}

// Means over the batch entries in which there are ordinary rows.
HeadSummary summaryOf(const Inspection &inspection, uint32_t head) {
    HeadSummary summary{.head = head};
    double entries = 0;
    for (uint32_t b = 0; b < inspection.batch; b++) {
        const RowsOfHead &rows = inspection.entry(b, head).measures.overRows;
        summary.rows += rows.rows, summary.empty += rows.empty, summary.notFinite += rows.notFinite;
        entries += rows.entropy.count > 0;
    }
    for (uint32_t b = 0; b < inspection.batch; b++) {
        const HeadMeasures &m = inspection.entry(b, head).measures;
        if (m.overRows.entropy.count == 0) continue;
        const ClassFigures figures = classFigures(m.overRows);
        const auto add = [&](double &mean, double value) { mean += value / entries; };
        add(summary.figures.diagonal, figures.diagonal);
        add(summary.figures.locality, figures.locality);
        add(summary.figures.normalizedEntropy, figures.normalizedEntropy);
        add(summary.entropy, m.overRows.entropy.mean);
        add(summary.effectiveRange, m.overRows.effectiveRange.mean);
        add(summary.effectiveKeys, m.overRows.effectiveKeys.mean);
        add(summary.largest, m.overRows.largest.mean);
        add(summary.distance, m.overRows.distance.mean);
        add(summary.signedDistance, m.overRows.signedDistance.mean);
        add(summary.firstToken, m.overRows.firstToken.mean);
        add(summary.squares, m.overRows.squares.mean);
        add(summary.reach, m.pairs.reach);
        add(summary.density, m.pairs.density);
        add(summary.relativeDensity, m.pairs.relativeDensity);
        add(summary.mutualInformation, m.pairs.mutualInformation);
        add(summary.topMass, m.pairs.topMass.mean);
        add(summary.keysForMass, m.pairs.keysForMass.mean);
    }
    summary.headClass = classify(summary.figures, inspection.thresholds);
    return summary;
}

// What outputs show, as far as weights are taken.
Measured measuredFor(const InspectArguments &arguments, const SourceFacts &facts) {
    const bool figures = !arguments.jsonFile.empty() || !arguments.csv.empty();
    Measured measured;
    measured.weights = facts.withheld.empty();
    measured.topMass = figures;
    measured.sorted = measured.weights && figures;
    measured.density = figures || arguments.density || !arguments.html.empty() || !arguments.png.empty();
    measured.spectra = measured.weights && (!arguments.jsonFile.empty() || !arguments.html.empty());
    measured.topKeys = arguments.topKeys.empty() && arguments.topWeights.empty() ? 0 : arguments.topCount;
    measured.keptRows = !arguments.stats.empty();
    return measured;
}

// The first `kept` of the `found` largest keys of each row.
void keepLargest(const HeadStatistics &statistics, size_t found, size_t kept, InspectedHead &entry) {
    for (size_t i = 0; i < statistics.queries; i++)
        for (size_t n = 0; n < kept; n++) {
            const float weight = statistics.topWeights[i * found + n];
            entry.topKeys.push_back(statistics.topKeys[i * found + n]);
            entry.topWeights.push_back(std::isnan(weight) ? 0 : weight);
        }
}
void keepLargest(const HeadWeights &head, size_t kept, InspectedHead &entry) {
    std::vector<double> p(head.keys()), weights(kept);
    std::vector<int64_t> keys(kept);
    for (size_t i = 0; i < head.queries(); i++) {
        const NormalizedRow row = normalize(head, i, p);
        largestKeys(row, p, head.visibleOf(i), keys, weights);
        for (size_t n = 0; n < kept; n++) {
            entry.topKeys.push_back(static_cast<int32_t>(keys[n]));
            entry.topWeights.push_back(static_cast<float>(weights[n]));
        }
    }
}

// What statistics tell of a head comes from them, and the rest from its weights, where those are taken. Returns
// the weights.
std::optional<HeadWeights> measure(HeadSource &source, const Inspection &inspection, InspectedHead &entry) {
    const Measured &measured = inspection.measured;
    MeasureOptions options = inspection.options;
    StatisticsRequest request{.density = measured.density ? options.density : 0, .topKeys = measured.topKeys};
    if (measured.topMass) request.topKeys = std::max(request.topKeys, static_cast<uint32_t>(options.topKeys));
    const std::optional<HeadStatistics> statistics = source.statistics(entry.batch, entry.head, request);
    std::optional<HeadWeights> weights;
    if (measured.weights) weights = source.head(entry.batch, entry.head);
    if (weights) {
        entry.queries = static_cast<uint32_t>(weights->queries()), entry.keys = static_cast<uint32_t>(weights->keys());
        entry.shift = weights->shift;
        if (!measured.sorted) options.topKeys = 0, options.coveredMass = 0;
        entry.measures = measureHead(*weights, options);
    }
    if (statistics) {
        entry.queries = static_cast<uint32_t>(statistics->queries), entry.keys = static_cast<uint32_t>(statistics->keys);
        entry.shift = statistics->shift;
        takeStatistics(*statistics, request, options, entry.measures);
    }
    if (measured.topKeys > 0 && statistics)
        keepLargest(*statistics, request.topKeys, measured.topKeys, entry);
    else if (measured.topKeys > 0 && weights)
        keepLargest(*weights, measured.topKeys, entry);
    if (!measured.keptRows) entry.measures.rows = {};
    return weights;
}

} // namespace

Inspection inspect(HeadSource &source, const InspectArguments &arguments, std::vector<std::string> tokens, size_t cells) {
    const SourceFacts &facts = source.facts();
    Inspection found;
    found.source = facts.text;
    found.ragged = facts.ragged;
    found.visibleFromWeights = facts.visibleFromWeights;
    found.batch = facts.batch, found.heads = facts.heads, found.queries = facts.queries, found.keys = facts.keys;
    found.thresholds = {arguments.thresholds[0], arguments.thresholds[1], arguments.thresholds[2]};
    found.tokens = std::move(tokens);
    found.batchName = !arguments.batchName.empty() ? arguments.batchName : facts.ragged ? "sequence" : "batch";
    found.withheld = facts.withheld;
    found.measured = measuredFor(arguments, facts);
    if (arguments.density) found.options.density = *arguments.density;
    const bool compares = found.measured.spectra && facts.heads > 1;
    const uint64_t elements = uint64_t{facts.heads} * facts.queries * facts.keys;
    const auto stride = static_cast<size_t>(std::max<uint64_t>(1, (elements + mostComparedElements - 1) / mostComparedElements));
    std::vector<SeedBatch> seeds(arguments.seedClasses ? facts.heads : 0);
    for (uint32_t b = 0; b < facts.batch; b++) {
        std::vector<HeadRows> compared;
        for (uint32_t h = 0; h < facts.heads; h++) {
            InspectedHead &entry = found.entries.emplace_back();
            entry.batch = b, entry.head = h;
            const std::optional<HeadWeights> weights = measure(source, found, entry);
            entry.headClass = classify(classFigures(entry.measures.overRows), found.thresholds);
            if (!weights) continue;
            if (found.measured.spectra) {
                std::future<std::vector<FlowOfHead>> flows = std::async([&] { return flowsOf(*weights); });
                entry.spectrum = spectrumOf(*weights, arguments.exactSpectrum);
                entry.geometry = source.geometry(*weights);
                entry.flows = flows.get();
                if (compares) compared.push_back(headRows(*weights, stride));
            }
            if (cells > 0) entry.weights = pool(*weights, cells);
            if (arguments.seedClasses) seeds[h].add(*weights);
        }
        if (compares) found.similarity.push_back({b, stride, jensenShannon(compared), cosine(compared)});
    }
    for (uint32_t h = 0; h < facts.heads; h++) {
        found.summaries.push_back(summaryOf(found, h));
        if (arguments.seedClasses) found.summaries.back().seed = seeds[h].figures(found.thresholds);
    }
    const SourceDevice device = source.device();
    found.device = device.device, found.kernel = device.kernel, found.fallbackReason = device.fallbackReason;
    return found;
}

std::string keyName(const Inspection &inspection, uint64_t key) {
    if (key >= inspection.tokens.size()) return std::to_string(key);
    return std::to_string(key) + " \"" + program::legibleLine(inspection.tokens[key], 24) + "\"";
}

} // namespace vkattn::tool
