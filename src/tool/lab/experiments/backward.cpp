#include "program/pictures/chart.hpp"
#include "tool/lab/computation.hpp"
#include "tool/lab/experiment.hpp"
#include "tool/lab/formulas.hpp"

namespace vkattn::tool::lab {
namespace {

constexpr uint32_t draws = 200;

struct Size {
    uint32_t tokens, dim;
};

// The gradients of one draw, in double, from dS: [query, key].
struct Exact {
    Row dQ, dK;
    Exact(const Row &dS, const float *q, const float *k, const Size &size, double scale)
        : dQ(size_t{size.tokens} * size.dim), dK(dQ.size()) {
        for (size_t i = 0; i < size.tokens; ++i)
            for (size_t j = 0; j < size.tokens; ++j)
                for (size_t d = 0; d < size.dim; ++d) {
                    dQ[i * size.dim + d] += scale * dS[i * size.tokens + j] * static_cast<double>(k[j * size.dim + d]);
                    dK[j * size.dim + d] += scale * dS[i * size.tokens + j] * static_cast<double>(q[i * size.dim + d]);
                }
    }
};

template <class A, class B> double cosineOf(const A &a, const B &b, size_t count) {
    double dot = 0, aa = 0, bb = 0;
    for (size_t n = 0; n < count; ++n) {
        const auto x = static_cast<double>(a[n]), y = static_cast<double>(b[n]);
        dot += x * y, aa += x * x, bb += y * y;
    }
    return dot / std::sqrt(aa * bb);
}

// The notes' gradient beside the right one, over the draws.
struct Comparison {
    Row ratios, exactRatios, cosines;
    void add(const Row &wrong, const float *right, const Row &exact) {
        const Row device(right, right + wrong.size());
        ratios.push_back(lengthOf(wrong) / lengthOf(device));
        exactRatios.push_back(lengthOf(wrong) / lengthOf(exact));
        cosines.push_back(cosineOf(wrong, device, wrong.size()));
    }
};

} // namespace

Findings backward(const Setting &setting) {
    Findings found{.sizes = "q, k, v and the result's gradient from N(0, 1), 200 draws; the notes' gradient beside vkattn's backward pass",
                   .table = Table({{"n", "n", "%.0f"},
                                   {"d", "d", "%.0f"},
                                   {"gradient", "gradient"},
                                   {"ratio", "times as long", "%.2f"},
                                   {"ratio_double", "in double", "%.2f"},
                                   {"cosine", "cosine", "%.3f"},
                                   {"cosine_error", "+-", "%.3f"},
                                   {"cosine_10", "of 80%: from", "%.2f"},
                                   {"cosine_90", "to", "%.2f"}})};
    program::Plot plot{.x = {.label = "angle between the notes' dQ and the right one, in degrees", .least = 0, .most = 90},
                       .y = {.label = "share of the draws below that angle", .least = 0, .most = 1}};
    for (const Size size : {Size{8, 16}, Size{32, 64}}) {
        program::Random random = setting.random(size.tokens);
        const size_t each = size_t{size.tokens} * size.dim;
        const double scale = 1 / std::sqrt(size.dim);
        Attention attention{.batch = draws,
                            .queries = size.tokens,
                            .keys = size.tokens,
                            .dim = size.dim,
                            .valueDim = size.dim,
                            .q = normals(random, draws * each),
                            .k = normals(random, draws * each),
                            .v = normals(random, draws * each),
                            .scale = static_cast<float>(scale)};
        const Numbers dOut = normals(random, draws * each);
        const Gradients right = gradientsOf(setting.runtime, attention, dOut);
        Comparison ofQueries, ofKeys, ofValues;
        for (size_t n = 0; n < draws; ++n) {
            const size_t at = n * each;
            const float *const q = attention.q.data() + at, *const k = attention.k.data() + at;
            const Row scores = dotsOf(q, size.tokens, k, size.tokens, size.dim);
            const Row dP = dotsOf(dOut.data() + at, size.tokens, attention.v.data() + at, size.tokens, size.dim);
            Row dS, dV(each);
            for (size_t i = 0; i < size.tokens; ++i) {
                const Row p = softmaxOf(scores.data() + i * size.tokens, size.tokens, scale);
                const auto row = dP.begin() + static_cast<ptrdiff_t>(i * size.tokens);
                for (const double term : softmaxGradient(p, Row(row, row + size.tokens))) dS.push_back(term);
                for (size_t j = 0; j < size.tokens; ++j)
                    for (size_t d = 0; d < size.dim; ++d) dV[j * size.dim + d] += p[j] * static_cast<double>(dOut[at + i * size.dim + d]);
            }
            const Exact wrong(dP, q, k, size, scale), exact(dS, q, k, size, scale);
            ofQueries.add(wrong.dQ, right.dQ.data() + at, exact.dQ);
            ofKeys.add(wrong.dK, right.dK.data() + at, exact.dK);
            ofValues.add(dV, right.dV.data() + at, dV);
        }
        const auto row = [&](const char *name, const Comparison &all) {
            const Spread cosine = spreadOf(all.cosines);
            found.table.add({double(size.tokens), double(size.dim), name, spreadOf(all.ratios).mean, spreadOf(all.exactRatios).mean,
                             cosine.mean, cosine.deviation, quantileOf(all.cosines, 0.1), quantileOf(all.cosines, 0.9)});
        };
        row("dQ", ofQueries), row("dK", ofKeys), row("dV", ofValues);
        program::Curve curve{.label = "n " + std::to_string(size.tokens) + ", d " + std::to_string(size.dim), .marks = false};
        for (size_t n = 0; n <= 100; ++n)
            curve.points.emplace_back(std::acos(quantileOf(ofQueries.cosines, 1 - static_cast<double>(n) / 100)) * 57.29577951308232,
                                      static_cast<double>(n) / 100);
        plot.curves.push_back(std::move(curve));
    }
    found.theory = {
        "dS = P o (dP - rowsum(P o dP)): with dP alone the weights P, of about 1/n, are missing, so that the result is about n times",
        "too long, and so is the mean, so that it points elsewhere: to scores that all rise together, which change nothing"};
    found.mistakes = {"the backward pass has dS = dP: the softmax's Jacobian is missing, and so are mask and dropout. dV is right."};
    found.picture = program::svgText({"The notes' backward pass points elsewhere", "200 draws of q, k, v and dOut from N(0, 1)", {plot}});
    return found;
}

} // namespace vkattn::tool::lab
