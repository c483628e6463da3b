// Hidden means unread (docs/numerics.md 3): NaN and infinity in K and V exactly where some rows see
// them and others do not.
#include "conform/kinds/kinds.hpp"

#include <cmath>
#include <limits>

namespace vkattn::conform {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

std::string describe(uint32_t b, uint32_t h, uint32_t i, uint32_t key, const char *does) {
    return "query " + std::to_string(i) + " of head " + std::to_string(h) + ", batch entry " + std::to_string(b) + " " + does + " key " +
           std::to_string(key);
}

// One key of the first key head is spoilt: with pages it may be that of several keys. Every row is compared with
// what it was before.
bool comparePoisoned(Finder &find, CaseData &in, const Outputs &clean, CaseData::KeyPlace spoilt, bool inKeys, float value) {
    const Case &c = in.c;
    const vkattn_problem &p = in.problem;
    const bool promised = find.runtime->device()->caps.floatControlsNan && (std::isnan(value) || !inKeys);
    const std::string what = std::string(std::isnan(value) ? "NaN" : "infinity") + " in " + (inKeys ? "k: " : "v: ");
    for (uint32_t n = 0; n < c.batch * c.heads; ++n) {
        const uint32_t b = n / c.heads, h = n % c.heads;
        const Span &s = in.spans[b];
        for (uint32_t i = 0; i < s.queries; ++i) {
            const std::vector<unsigned char> visible = in.visibleKeys(b, h, i);
            bool sees = false;
            uint32_t t = 0;
            for (uint32_t key = 0; key < s.keys && h < c.heads / c.kvHeads && !sees; ++key) {
                const auto at = in.placeOf(s, key);
                if (!at || at->batch != spoilt.batch || at->token != spoilt.token) continue;
                t = key;
                sees = visible[key] && (inKeys || vkattnDropoutKeeps(p.dropout, p.dropoutSeed, p.dropoutOffset, n, i, key));
            }
            const uint32_t row = s.firstQuery + i;
            if (!sees) {
                if (!find.require(sameRow(in.out, clean.out, s.batch, h, row) && (!c.lse || sameRow(in.lse, clean.lse, s.batch, h, row)),
                                  what + describe(b, h, i, t, "changes with hidden")))
                    return false;
                continue;
            }
            for (uint32_t d = 0; promised && d < c.valueDim; ++d)
                if (!find.require(!std::isfinite(in.out.get(s.batch, h, row, d)), what + describe(b, h, i, t, "does not show visible")))
                    return false;
        }
    }
    return true;
}

} // namespace

Finding checkHidden(DeviceUnderTest &device, const Check &check) {
    Finder find(device, check);
    if (!find.open(check.limits)) return find.finding;
    const auto in = caseDataOf(check);
    if (!find.verify(*in, "without poison")) return find.finding;
    const Outputs clean = in->outputs();
    const uint32_t tokens = in->k.layout.extent[2];
    // A page that somebody has, where there is one.
    uint32_t held = 0;
    for (const uint32_t page : in->pages)
        if (page < in->k.layout.extent[0]) held = page;
    for (const bool inKeys : {false, true}) {
        if (!inKeys && check.c.keysHoldValues) continue; // keys that are spoilt spoil their values
        for (const float value : {nan, infinity})
            // Dense at the start, then every few keys.
            for (uint32_t t = 0; t < tokens; t += 1 + t / 8) {
                HostTensor &poisoned = inKeys ? in->k : in->v;
                const HostTensor before = poisoned;
                for (uint32_t d = 0; d < poisoned.layout.extent[3]; ++d) poisoned.set(held, 0, t, d, value);
                in->collectOperands();
                if (!find.compute(*in, "poisoned") || !comparePoisoned(find, *in, clean, {held, t}, inKeys, value)) return find.finding;
                poisoned = before;
            }
    }
    return find.finding;
}

} // namespace vkattn::conform
