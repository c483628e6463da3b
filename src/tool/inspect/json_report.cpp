#include "program/json_text.hpp"
#include "tool/inspect/report.hpp"

namespace vkattn::tool {
using namespace program;
using namespace analysis;
namespace {

constexpr int schema = 1;

Json numbers(std::span<const double> values) {
    Json json = Json::array();
    for (const double value : values) json.push_back(jsonNumber(value));
    return json;
}

Json toJson(const Spread &spread) {
    return {{"rows", spread.count},
            {"mean", jsonNumber(spread.mean)},
            {"std", jsonNumber(spread.deviation)},
            {"min", jsonNumber(spread.least)},
            {"max", jsonNumber(spread.greatest)}};
}

Json toJson(const RowsOfHead &rows) {
    return {{"rowSum", toJson(rows.sum)},
            {"entropy", toJson(rows.entropy)},
            {"normalizedEntropy", toJson(rows.normalizedEntropy)},
            {"effectiveRange", toJson(rows.effectiveRange)},
            {"effectiveKeys", toJson(rows.effectiveKeys)},
            {"largest", toJson(rows.largest)},
            {"distance", toJson(rows.distance)},
            {"signedDistance", toJson(rows.signedDistance)},
            {"distanceDeviation", toJson(rows.distanceDeviation)},
            {"diagonal", toJson(rows.diagonal)},
            {"locality", toJson(rows.locality)},
            {"firstToken", toJson(rows.firstToken)},
            {"squares", toJson(rows.squares)},
            {"visible", toJson(rows.visible)}};
}

Json toJson(const SpectrumOfHead &spectrum) {
    const SingularValues &s = spectrum.singular;
    Json json = {{"exact", spectrum.exact}, {"singularValues", numbers(s.values)}};
    if (spectrum.exact && !s.values.empty()) {
        json["condition"] = jsonNumber(s.condition);
        json["singular"] = s.singular;
        json["rank"] = s.rank;
        json["stableRank"] = jsonNumber(s.stableRank);
        json["effectiveRank"] = jsonNumber(s.effectiveRank);
    }
    if (spectrum.eigen && !spectrum.eigen->values.empty()) {
        Json values = Json::array();
        for (const auto &value : spectrum.eigen->values) values.push_back({value.real(), value.imag()});
        json["eigenvalues"] = std::move(values);
        json["triangular"] = spectrum.eigen->triangular;
        json["spectralRadius"] = spectrum.eigen->radius;
        json["gap"] = spectrum.eigen->gap;
    }
    if (spectrum.stationary && spectrum.stationary->converged) json["stationary"] = numbers(spectrum.stationary->distribution);
    return json;
}

Json toJson(const Geometry &g) {
    return {{"queryNorm", toJson(g.queryNorm)},
            {"keyNorm", toJson(g.keyNorm)},
            {"angle", toJson(g.angle)},
            {"cosine", toJson(g.cosine)},
            {"normProduct", toJson(g.normProduct)},
            {"angleHistogram", g.angleHistogram},
            {"zeroQueries", g.zeroQueries},
            {"zeroKeys", g.zeroKeys},
            {"notFiniteQueries", g.notFiniteQueries},
            {"notFiniteKeys", g.notFiniteKeys}};
}

// Figures that were not measured are absent.
void addPairs(const PairsOfHead &pairs, const Measured &measured, Json &json) {
    json["mutualInformation"] = pairs.mutualInformation;
    if (measured.density) json["density"] = pairs.density;
    if (measured.topMass) json["topMass"] = toJson(pairs.topMass);
    if (!measured.weights) return;
    json["reach"] = pairs.reach;
    json["relativeDensity"] = pairs.relativeDensity;
    json["distanceHistogram"] = numbers(pairs.distanceHistogram);
    if (measured.sorted) json["keysForMass"] = toJson(pairs.keysForMass);
}

Json toJson(const InspectedHead &head, const Measured &measured) {
    const RowsOfHead &rows = head.measures.overRows;
    Json flows = Json::array();
    for (const FlowOfHead &flow : head.flows)
        flows.push_back({{"mask", flow.mask.name()},
                         {"keptMass", flow.keptMass},
                         {"emptyRows", flow.overRows.empty},
                         {"entropy", flow.overRows.entropy.mean},
                         {"normalizedEntropy", flow.overRows.normalizedEntropy.mean},
                         {"distance", flow.overRows.distance.mean},
                         {"reach", flow.reach}});
    Json json = {{"batch", head.batch},
                 {"head", head.head},
                 {"class", headClassName(head.headClass)},
                 {"queries", head.queries},
                 {"keys", head.keys},
                 {"shift", head.shift},
                 {"rows", rows.rows},
                 {"emptyRows", rows.empty},
                 {"notFiniteRows", rows.notFinite},
                 {"measures", toJson(rows)},
                 {"received", numbers(head.measures.pairs.received)},
                 {"geometry", head.geometry ? toJson(*head.geometry) : Json()}};
    addPairs(head.measures.pairs, measured, json);
    if (measured.spectra) {
        json["spectrum"] = toJson(head.spectrum);
        json["flow"] = std::move(flows);
    }
    return json;
}

Json toJson(const HeadSummary &head, const Measured &measured) {
    Json json = {{"head", head.head},
                 {"class", headClassName(head.headClass)},
                 {"entropy", head.entropy},
                 {"normalizedEntropy", head.figures.normalizedEntropy},
                 {"effectiveRange", head.effectiveRange},
                 {"effectiveKeys", head.effectiveKeys},
                 {"largest", head.largest},
                 {"distance", head.distance},
                 {"signedDistance", head.signedDistance},
                 {"diagonal", head.figures.diagonal},
                 {"locality", head.figures.locality},
                 {"firstToken", head.firstToken},
                 {"squares", head.squares},
                 {"mutualInformation", head.mutualInformation},
                 {"rows", head.rows},
                 {"emptyRows", head.empty},
                 {"notFiniteRows", head.notFinite}};
    if (measured.density) json["density"] = head.density;
    if (measured.topMass) json["topMass"] = head.topMass;
    if (measured.weights) json["reach"] = head.reach, json["relativeDensity"] = head.relativeDensity;
    if (measured.sorted) json["keysForMass"] = head.keysForMass;
    if (head.seed)
        json["seed"] = {{"class", headClassName(head.seed->headClass)},
                        {"diagonal", jsonNumber(head.seed->diagonal)},
                        {"locality", jsonNumber(head.seed->locality)},
                        {"entropy", jsonNumber(head.seed->entropy)},
                        {"density", jsonNumber(head.seed->density)}};
    return json;
}

Json toJson(const Matrix &matrix) {
    Json json = Json::array();
    for (size_t i = 0; i < matrix.rows; i++) json.push_back(numbers(matrix.row(i)));
    return json;
}

} // namespace

std::string inspectionJson(const Inspection &inspection) {
    Json summaries = Json::array(), entries = Json::array(), similarity = Json::array();
    for (const HeadSummary &head : inspection.summaries) summaries.push_back(toJson(head, inspection.measured));
    for (const InspectedHead &head : inspection.entries) entries.push_back(toJson(head, inspection.measured));
    for (const HeadSimilarity &each : inspection.similarity)
        similarity.push_back({{"batch", each.batch},
                              {"rowStride", each.rowStride},
                              {"jensenShannon", toJson(each.jensenShannon)},
                              {"cosine", toJson(each.cosine)}});
    const auto text = [](const std::string &value) { return value.empty() ? Json() : Json(value); };
    const Json json = {{"schema", schema},
                       {"source", inspection.source},
                       {"device", text(inspection.device)},
                       {"kernel", text(inspection.kernel)},
                       {"fallbackReason", text(inspection.fallbackReason)},
                       {"ragged", inspection.ragged},
                       {"visibleFromWeights", inspection.visibleFromWeights},
                       {"withheld", text(inspection.withheld)},
                       {"shape", {inspection.batch, inspection.heads, inspection.queries, inspection.keys}},
                       {"tokens", inspection.tokens},
                       {"options",
                        {{"reachMass", inspection.options.reachMass},
                         {"density", inspection.options.density},
                         {"relativeDensity", inspection.options.relativeDensity},
                         {"topKeys", inspection.options.topKeys},
                         {"coveredMass", inspection.options.coveredMass},
                         {"thresholds",
                          {{"diagonal", inspection.thresholds.diagonal},
                           {"locality", inspection.thresholds.locality},
                           {"normalizedEntropy", inspection.thresholds.normalizedEntropy}}}}},
                       {"heads", std::move(summaries)},
                       {"entries", std::move(entries)},
                       {"similarity", std::move(similarity)}};
    return jsonText(json, -1) + "\n";
}

} // namespace vkattn::tool
