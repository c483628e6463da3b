#include "sequence/tolerance_search.hpp"

#include <cstdio>

namespace denoise {
namespace {

struct Knob {
    const char *name;
    float HeadSettings::*setting;
};
constexpr Knob knobs[] = {{"reachPixels", &HeadSettings::reachPixels},
                          {"depthTolerance", &HeadSettings::depthTolerance},
                          {"normalTolerance", &HeadSettings::normalTolerance},
                          {"noiseTolerance", &HeadSettings::noiseTolerance},
                          {"guideFloor", &HeadSettings::guideFloor}};

struct Light {
    const char *name;
    HeadSettings FilterPass::*head;
};
constexpr Light lights[] = {{"direct", &FilterPass::direct}, {"indirect", &FilterPass::indirect}};

constexpr double factors[] = {2, 1.4, 1.2};

// Below this a gain is not worth another try.
constexpr double leastGain = 0.002;

// Returns false where no pass has such a tolerance: it is 0.
bool scale(FrameFilter &filter, const Light &light, const Knob &knob, float factor) {
    bool any = false;
    for (FilterPass &pass : filter.passes) {
        float &setting = (pass.*light.head).*knob.setting;
        any = any || setting > 0;
        setting *= factor;
    }
    return any;
}

std::string valuesOf(const FrameFilter &filter, const Light &light, const Knob &knob) {
    std::string text = std::string(light.name) + " " + knob.name + " =";
    for (const FilterPass &pass : filter.passes) {
        char number[32];
        std::snprintf(number, sizeof number, " %.4g", static_cast<double>((pass.*light.head).*knob.setting));
        text += number;
    }
    return text;
}

} // namespace

FrameFilter searchTolerances(const FrameFilter &start, const std::function<double(const FrameFilter &)> &score,
                             const std::function<void(const SearchStep &)> &found) {
    FrameFilter best = start;
    double highest = score(best);
    found({best, highest, "start"});
    for (const double factor : factors) {
        for (const Light &light : lights) {
            for (const Knob &knob : knobs) {
                for (const double direction : {factor, 1 / factor}) {
                    bool gained = false;
                    for (;;) {
                        FrameFilter tried = best;
                        if (!scale(tried, light, knob, static_cast<float>(direction))) break;
                        const double reached = score(tried);
                        if (!(reached > highest + leastGain)) break;
                        best = tried, highest = reached, gained = true;
                        found({best, highest, valuesOf(best, light, knob)});
                    }
                    if (gained) break; // the other direction is where it came from
                }
            }
        }
    }
    return best;
}

std::vector<std::string> describe(const FrameFilter &filter) {
    std::vector<std::string> lines;
    FrameFilter copy = filter;
    for (const Light &light : lights)
        for (const Knob &knob : knobs)
            if (scale(copy, light, knob, 1)) lines.push_back(valuesOf(filter, light, knob));
    return lines;
}

} // namespace denoise
