#include "measure/sweep.hpp"

#include <algorithm>
#include <cmath>

namespace vkattn::bench {

std::optional<PowerFit> fitPower(const std::vector<double> &tokens, const std::vector<double> &values) {
    std::vector<double> x, y;
    for (size_t n = 0; n < tokens.size(); ++n) {
        if (!(tokens[n] > 0) || !(values[n] > 0)) continue;
        x.push_back(std::log(tokens[n]));
        y.push_back(std::log(values[n]));
    }
    const auto count = static_cast<double>(x.size());
    double meanX = 0, meanY = 0, xx = 0, xy = 0, yy = 0;
    for (size_t n = 0; n < x.size(); ++n) meanX += x[n] / count, meanY += y[n] / count;
    for (size_t n = 0; n < x.size(); ++n) {
        xx += (x[n] - meanX) * (x[n] - meanX);
        xy += (x[n] - meanX) * (y[n] - meanY);
        yy += (y[n] - meanY) * (y[n] - meanY);
    }
    if (!(xx > 1e-12)) return {};
    return PowerFit{xy / xx, yy > 1e-12 ? xy * xy / (xx * yy) : 1};
}

std::vector<SweepSeries> sweepSeries(const std::vector<Measurement> &measurements) {
    std::vector<SweepSeries> all;
    std::vector<std::string> asked; // points of each series
    for (const Measurement &m : measurements) {
        if (!m.failure.empty()) continue;
        size_t at = 0;
        while (at < all.size() && (all[at].family != m.shape.family || asked[at] != m.askedKernel)) ++at;
        if (at == all.size()) {
            all.push_back({m.shape.family, m.kernel, {}});
            asked.push_back(m.askedKernel);
        }
        // auto has chosen another kernel on the way.
        if (all[at].kernel != m.kernel) all[at].kernel = m.askedKernel;
        all[at].points.push_back(m);
    }
    for (SweepSeries &series : all) {
        std::vector<double> tokens, works, times, workspaces;
        for (const Measurement &m : series.points) {
            tokens.push_back(m.shape.swept);
            works.push_back(m.shape.visiblePairs());
            times.push_back(m.medianMs);
            workspaces.push_back(static_cast<double>(m.workspaceBytes));
        }
        series.work = fitPower(tokens, works);
        series.time = fitPower(tokens, times);
        series.workspace = fitPower(tokens, workspaces);
    }
    return all;
}

} // namespace vkattn::bench
