#include "tool/inspect/report.hpp"

#include <cstdio>

namespace vkattn::tool {

std::string inspectionCsv(const Inspection &inspection) {
    std::string text = "batch,head,class,rows,empty_rows,not_finite_rows,entropy,normalized_entropy,effective_range,effective_keys,largest,"
                       "distance,signed_distance,diagonal,locality,first_token,squares,visible,row_sum_min,row_sum_max,reach,density,"
                       "relative_density,mutual_information,top_mass,keys_for_mass\n";
    const Measured &measured = inspection.measured;
    for (const InspectedHead &head : inspection.entries) {
        const analysis::RowsOfHead &rows = head.measures.overRows;
        const analysis::PairsOfHead &pairs = head.measures.pairs;
        text += std::to_string(head.batch) + "," + std::to_string(head.head) + "," + analysis::headClassName(head.headClass) + "," +
                std::to_string(rows.rows) + "," + std::to_string(rows.empty) + "," + std::to_string(rows.notFinite);
        const auto add = [&](double value, bool known = true) {
            char number[32] = ",";
            if (known) std::snprintf(number, sizeof number, ",%.9g", value);
            text += number;
        };
        for (const double value : {rows.entropy.mean, rows.normalizedEntropy.mean, rows.effectiveRange.mean, rows.effectiveKeys.mean,
                                   rows.largest.mean, rows.distance.mean, rows.signedDistance.mean, rows.diagonal.mean, rows.locality.mean,
                                   rows.firstToken.mean, rows.squares.mean, rows.visible.mean, rows.sum.least, rows.sum.greatest})
            add(value);
        add(pairs.reach, measured.weights);
        add(pairs.density, measured.density);
        add(pairs.relativeDensity, measured.weights);
        add(pairs.mutualInformation);
        add(pairs.topMass.mean, measured.topMass);
        add(pairs.keysForMass.mean, measured.sorted);
        text += "\n";
    }
    return text;
}

} // namespace vkattn::tool
