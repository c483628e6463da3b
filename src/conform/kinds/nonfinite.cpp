// A visible NaN or infinity reaches its row and no other row (docs/numerics.md 4).
#include "conform/kinds/kinds.hpp"

#include <cmath>
#include <limits>

namespace vkattn::conform {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

std::string name(float value) {
    return std::isnan(value) ? "NaN" : value > 0 ? "infinity" : "-infinity";
}

// Runs with what was spoilt, compares with the oracle, and all rows that `touched` does not name
// with what they were.
template <class Touched> bool compare(Finder &find, CaseData &in, const Outputs &clean, const std::string &what, const Touched &touched) {
    in.collectOperands();
    if (!find.verify(in, what)) return false;
    for (uint32_t b = 0; b < in.out.layout.extent[0]; ++b)
        for (uint32_t h = 0; h < in.c.heads; ++h)
            for (uint32_t i = 0; i < in.out.layout.extent[2]; ++i)
                if (!touched(b, h, i) && !find.require(sameRow(in.out, clean.out, b, h, i),
                                                       what + " changes query " + std::to_string(i) + " of head " + std::to_string(h)))
                    return false;
    return true;
}

bool spoilQueries(Finder &find, CaseData &in, const Outputs &clean) {
    const uint32_t row = in.q.layout.extent[2] / 3, head = in.c.heads - 1;
    const float before = in.q.get(0, head, row, 0);
    for (const float value : {nan, infinity, -infinity}) {
        in.q.set(0, head, row, 0, value);
        if (!compare(find, in, clean, name(value) + " in q",
                     [&](uint32_t b, uint32_t h, uint32_t i) { return b == 0 && h == head && i == row; }))
            return false;
    }
    in.q.set(0, head, row, 0, before);
    return true;
}

bool spoilBias(Finder &find, CaseData &in, const Outputs &clean) {
    const uint32_t *e = in.bias.layout.extent;
    const uint32_t row = e[2] / 3, head = e[1] - 1, key = e[3] / 2;
    const float before = in.bias.get(0, head, row, key);
    for (const float value : {nan, infinity}) { // -infinity hides
        in.bias.set(0, head, row, key, value);
        if (!compare(find, in, clean, name(value) + " in bias", [&](uint32_t b, uint32_t h, uint32_t i) {
                return (e[1] == 1 || h == head) && (in.c.ragged || ((e[0] == 1 || b == 0) && (e[2] == 1 || i == row)));
            }))
            return false;
    }
    in.bias.set(0, head, row, key, before);
    return true;
}

bool spoilHead(Finder &find, CaseData &in, const Outputs &clean, std::vector<float> &values, const char *what) {
    const uint32_t head = in.c.heads - 1;
    const float before = values[head];
    for (const float value : {nan, infinity, -infinity}) {
        values[head] = value;
        if (!compare(find, in, clean, name(value) + " in " + what, [&](uint32_t, uint32_t h, uint32_t) { return h == head; })) return false;
    }
    values[head] = before;
    return true;
}

// Scores of -infinity that come from K: rows that see nothing else have no softmax, and with a sink
// are all sink.
bool spoilFirstKeys(Finder &find, CaseData &in) {
    for (uint32_t b = 0; b < in.q.layout.extent[0]; ++b)
        for (uint32_t h = 0; h < in.c.heads; ++h)
            for (uint32_t i = 0; i < in.q.layout.extent[2]; ++i)
                for (uint32_t d = 0; d < in.c.headDim; ++d) in.q.set(b, h, i, d, std::abs(in.q.get(b, h, i, d)) + 0.1f);
    for (uint32_t b = 0; b < in.k.layout.extent[0]; ++b)
        for (uint32_t h = 0; h < in.c.kvHeads; ++h)
            for (uint32_t t = 0; t < in.k.layout.extent[2] / 3; ++t)
                for (uint32_t d = 0; d < in.c.headDim; ++d) in.k.set(b, h, t, d, -infinity);
    return compare(find, in, in.outputs(), "-infinity in k", [](uint32_t, uint32_t, uint32_t) { return true; });
}

} // namespace

Finding checkNonFinite(DeviceUnderTest &device, const Check &check) {
    Finder find(device, check);
    if (!find.open(check.limits)) return find.finding;
    if (!find.runtime->device()->caps.floatControlsNan) {
        find.unsupported("the device does not promise NaN (shaderSignedZeroInfNanPreserveFloat32)");
        return find.finding;
    }
    Check own = check;
    dropPages(own.c);    // the first keys are spoilt as they lie in k
    own.c.prior = false; // rows that see nothing else are looked for
    const auto in = caseDataOf(own);
    const Case &c = in->c;
    if (!find.verify(*in, "before")) return find.finding;
    const Outputs clean = in->outputs();
    if (in->q.layout.extent[2] == 0) return find.finding;
    bool going = spoilQueries(find, *in, clean) && (!c.biasBroadcast || spoilBias(find, *in, clean));
    for (const auto &[name, values] : in->headArrays()) going = going && spoilHead(find, *in, clean, *values, name);
    if (going) (void)spoilFirstKeys(find, *in);
    return find.finding;
}

} // namespace vkattn::conform
