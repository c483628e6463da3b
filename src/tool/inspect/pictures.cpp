#include "tool/inspect/pictures.hpp"

#include "picture/heat_map.hpp"

namespace vkattn::tool {
namespace {

std::string headName(const Inspection &inspection, const InspectedHead &head) {
    const std::string own = "head " + std::to_string(head.head);
    if (inspection.batch < 2) return own;
    return inspection.batchName + " " + std::to_string(head.batch) + ", " + own;
}

picture::Head headOf(const Inspection &inspection, const InspectedHead &from) {
    const analysis::RowsOfHead &rows = from.measures.overRows;
    const analysis::PairsOfHead &pairs = from.measures.pairs;
    picture::Head head;
    head.name = headName(inspection, from);
    head.kind = analysis::headClassName(from.headClass);
    head.shift = from.shift;
    head.weights = from.weights;
    head.figures = {rows.entropy.mean,           rows.diagonal.mean,       rows.largest.greatest,  pairs.density,
                    rows.normalizedEntropy.mean, rows.effectiveRange.mean, rows.distance.mean,     pairs.reach,
                    rows.locality.mean,          rows.firstToken.mean,     pairs.mutualInformation};
    head.distances = pairs.distanceHistogram;
    head.received = pairs.received;
    head.singularValues = from.spectrum.singular.values;
    head.allSingularValues = from.spectrum.exact;
    for (const FlowOfHead &flow : from.flows)
        head.flows.push_back({flow.mask.name(), flow.keptMass, flow.overRows.distance.mean, flow.overRows.entropy.mean, flow.reach});
    return head;
}

} // namespace

picture::Heads headsOf(const Inspection &inspection) {
    picture::Heads heads;
    heads.title = "Attention heads of " + inspection.source;
    heads.facts.push_back(std::to_string(inspection.entries.size()) + (inspection.entries.size() == 1 ? " head, " : " heads, ") +
                          std::to_string(inspection.queries) + " queries and " + std::to_string(inspection.keys) + " keys.");
    if (!inspection.device.empty()) heads.facts.push_back("Weights computed on " + inspection.device + ".");
    if (inspection.visibleFromWeights) heads.facts.push_back("Weights of exactly 0 count as hidden.");
    heads.tokens = inspection.tokens;
    heads.figures = {{"entropy", "mean over rows, in nats", 2},
                     {"diagonal", "mean weight of a query on its own position", 3},
                     {"max", "the largest weight", 3},
                     {"density", "share of visible keys with a weight above 0.1", 3},
                     {"normalised entropy", "entropy over ln of the visible keys: 1 is uniform", 3},
                     {"effective range", "mean exp of the entropy, in keys", 1},
                     {"distance", "mean distance between query and key", 1},
                     {"reach", "least distance beyond which little weight lies", 0},
                     {"locality", "mean weight on a visible neighbour", 3},
                     {"first token", "mean weight on the first key", 3},
                     {"mutual information", "entropy of what keys receive less the mean entropy", 3}};
    for (const InspectedHead &entry : inspection.entries) heads.heads.push_back(headOf(inspection, entry));
    for (const HeadSimilarity &similarity : inspection.similarity) {
        picture::Likeness likeness;
        if (inspection.batch > 1) likeness.name = inspection.batchName + " " + std::to_string(similarity.batch);
        for (size_t h = 0; h < inspection.heads; h++) likeness.heads.push_back(similarity.batch * size_t{inspection.heads} + h);
        likeness.divergence = similarity.jensenShannon;
        heads.likeness.push_back(std::move(likeness));
    }
    heads.inARow = inspection.heads;
    return heads;
}

std::vector<std::string> pictureNames(uint32_t batch, uint32_t heads) {
    std::vector<std::string> names = {"heads.png"};
    for (uint32_t b = 0; b < batch; b++)
        for (uint32_t h = 0; h < heads; h++) names.push_back("batch" + std::to_string(b) + "_head" + std::to_string(h) + ".png");
    return names;
}

std::string pictureBytes(const picture::Heads &heads, size_t place) {
    return picture::pngOf(place == 0 ? picture::sheet(heads) : picture::heatMap(heads, place - 1));
}

} // namespace vkattn::tool
