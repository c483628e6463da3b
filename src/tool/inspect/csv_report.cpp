#include "tool/inspect/report.hpp"

#include <cstdio>

namespace vkattn::tool {

std::string inspectionCsv(const Inspection &inspection) {
    std::string text = "batch,head,class,rows,empty_rows,not_finite_rows,entropy,normalized_entropy,effective_range,effective_keys,largest,"
                       "distance,signed_distance,diagonal,locality,first_token,squares,visible,row_sum_min,row_sum_max,reach,density,"
                       "relative_density,mutual_information,top_mass,keys_for_mass\n";
    for (const InspectedHead &head : inspection.entries) {
        const analysis::RowsOfHead &rows = head.measures.overRows;
        const analysis::PairsOfHead &pairs = head.measures.pairs;
        text += std::to_string(head.batch) + "," + std::to_string(head.head) + "," + analysis::headClassName(head.headClass) + "," +
                std::to_string(rows.rows) + "," + std::to_string(rows.empty) + "," + std::to_string(rows.notFinite);
        for (const double value :
             {rows.entropy.mean,  rows.normalizedEntropy.mean, rows.effectiveRange.mean, rows.effectiveKeys.mean, rows.largest.mean,
              rows.distance.mean, rows.signedDistance.mean,    rows.diagonal.mean,       rows.locality.mean,      rows.firstToken.mean,
              rows.squares.mean,  rows.visible.mean,           rows.sum.least,           rows.sum.greatest,       pairs.reach,
              pairs.density,      pairs.relativeDensity,       pairs.mutualInformation,  pairs.topMass.mean,      pairs.keysForMass.mean}) {
            char number[32];
            std::snprintf(number, sizeof number, ",%.9g", value);
            text += number;
        }
        text += "\n";
    }
    return text;
}

} // namespace vkattn::tool
