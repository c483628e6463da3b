#include "conform/cases/operation_case.hpp"
#include "conform/layers/layer_case.hpp"

#include <algorithm>
#include <cmath>

namespace vkattn::conform {

void LatentCase::fill(Random &random) {
    fill(random, [](uint32_t entries, uint32_t rows, uint32_t dims) { return packed(VKATTN_F32, entries, 1, rows, dims); });
}

void LatentCase::fill(Random &random, const std::function<vkattn_layout(uint32_t, uint32_t, uint32_t)> &layoutOf) {
    const auto draw = [&](vkattn_role role, uint32_t entries, uint32_t rows, uint32_t dims, float scale = 1) {
        drawValues(random, arrays[role], layoutOf(entries, rows, dims), scale);
    };
    const auto drawMatrix = [&](vkattn_role role, uint32_t rows, uint32_t in) {
        draw(role, 1, rows, in, 1 / std::sqrt(static_cast<float>(in)));
    };
    draw(VKATTN_X, batch, tokens, model);
    if (queryLatent) drawMatrix(VKATTN_WDQ, queryLatent, model);
    if (queryLatent) draw(VKATTN_GAMMA_Q, 1, 1, queryLatent);
    drawMatrix(VKATTN_WQ, heads * (nope + rope), queryLatent ? queryLatent : model);
    drawMatrix(VKATTN_WDKV, latent + rope, model);
    draw(VKATTN_GAMMA, 1, 1, latent);
    drawMatrix(VKATTN_WUKV, heads * (nope + value), latent);
    drawMatrix(VKATTN_WO, out, heads * value);
    if (cacheTokens) draw(VKATTN_CACHE, batch, cacheTokens, latent + rope);
    y = layoutOf(batch, tokens, out);
    makeTables(matrix(VKATTN_F32, past + tokens, rope / 2));
}

LatentLayerOf LatentCase::on(Runtime &runtime, std::string *why) const {
    LatentLayerOf l{};
    l.heads = heads, l.nope = nope, l.rope = rope, l.value = value;
    l.form = form, l.pairs = pairs, l.residual = residual, l.stored = stored;
    const struct {
        vkattn_role role;
        DeviceTensor &tensor;
    } tensors[] = {{VKATTN_X, l.x},         {VKATTN_WDQ, l.wdq},     {VKATTN_GAMMA_Q, l.gammaQ}, {VKATTN_WQ, l.wuq},
                   {VKATTN_WDKV, l.wdkv},   {VKATTN_GAMMA, l.gamma}, {VKATTN_WUKV, l.wukv},      {VKATTN_WO, l.wo},
                   {VKATTN_CACHE, l.cache}, {VKATTN_COS, l.cos},     {VKATTN_SIN, l.sin}};
    for (const auto &[role, tensor] : tensors)
        if (has(role)) tensor = tensorOf(runtime, arrays.at(role), why);
    l.y = runtime.allocate(y, why);
    if (causal) l.attention.options.flags = VKATTN_CAUSAL;
    if (!cacheTokens) return l;
    l.starts = tensorOf(runtime, std::vector<uint32_t>(batch, past), why);
    l.attention.keyLengths = tensorOf(runtime, std::vector<uint32_t>(batch, past + tokens), why);
    return l;
}

vkattn_result LatentCase::addTo(Runtime &runtime, OperationList &list, DeviceTensor &written, std::string *why) {
    const LatentLayerOf layer = on(runtime, why);
    written = layer.y;
    return list.add(layer, why);
}

BoundedRows LatentCase::output() const {
    const auto kept = [&](BoundedRows rows) { return rounded(std::move(rows), stored); };
    const auto projected = [&](const BoundedRows &rows, vkattn_role w) {
        const std::vector<float> &values = *valuesOf(w);
        return kept(product(rows, {values, 0, arrays.at(w).layout.extent[2]}));
    };
    const auto normed = [&](const BoundedRows &rows, vkattn_role gamma) {
        return kept(norm(rows, VKATTN_RMS_NORM, 1e-6f, valuesOf(gamma), nullptr));
    };
    BoundedRows all;
    for (uint32_t b = 0; b < batch; ++b) {
        const BoundedRows x = rowsOf(VKATTN_X, b);
        const BoundedRows q = projected(queryLatent ? normed(projected(x, VKATTN_WDQ), VKATTN_GAMMA_Q) : x, VKATTN_WQ),
                          down = projected(x, VKATTN_WDKV);
        BoundedRows keys;
        if (cacheTokens) keys = rowsOf(VKATTN_CACHE, b);
        keys.resize(past);
        for (uint32_t t = 0; t < tokens; ++t) {
            BoundedRow row = normed({BoundedRow(down[t].begin(), down[t].begin() + latent)}, VKATTN_GAMMA)[0];
            const BoundedRow turned = rotated({down[t].begin() + latent, down[t].end()}, pairs, past + t);
            row.insert(row.end(), turned.begin(), turned.end());
            for (Bounded &each : row) each = rounded(each, cacheTokens ? arrays.at(VKATTN_CACHE).layout.dtype : stored);
            keys.push_back(row);
        }
        BoundedRows values(tokens);
        for (uint32_t t = 0; t < tokens; ++t)
            for (uint32_t h = 0; h < heads; ++h) {
                const BoundedRow head = attended(q[t], t, h, keys);
                values[t].insert(values[t].end(), head.begin(), head.end());
            }
        BoundedRows rows = product(kept(std::move(values)), {*valuesOf(VKATTN_WO), 0, out});
        if (residual) rows = sum(std::move(rows), x);
        rows = rounded(std::move(rows), y.dtype);
        all.insert(all.end(), rows.begin(), rows.end());
    }
    return all;
}

// One head of one token. W_UKV's products with the latents are stored in the naive form, and those
// with queries and sums in the absorbed one: the bound has room for either.
BoundedRow LatentCase::attended(const BoundedRow &queries, uint32_t token, uint32_t head, const BoundedRows &kept) const {
    const auto first = queries.begin() + head * (nope + rope);
    const BoundedRow q(first, first + nope);
    BoundedRow turned = rotated({first + nope, first + nope + rope}, pairs, past + token);
    for (Bounded &each : turned) each = rounded(each, stored);
    const Rounding rounding = roundingOf(stored);
    const float *const up = valuesOf(VKATTN_WUKV)->data() + uint64_t{head} * (nope + value) * latent;
    // Row n of W_UKV times a latent.
    const auto timesLatent = [&](const BoundedRow &c, uint32_t n) {
        double sum = 0, magnitude = 0, error = 0, weights = 0;
        for (uint32_t d = 0; d < latent; ++d) {
            const auto weight = static_cast<double>(up[uint64_t{n} * latent + d]);
            sum += weight * c[d].value;
            magnitude += std::abs(weight * c[d].value);
            error += std::abs(weight) * c[d].error;
            weights += std::abs(weight);
        }
        return std::pair(
            Bounded{sum, error + (2 * rounding.unit + unitOfSum(latent + nope)) * (magnitude + error) + rounding.floor * (1 + weights)},
            magnitude);
    };
    const double scale = 1 / std::sqrt(static_cast<double>(nope + rope));
    BoundedRow scores;
    for (size_t j = 0; j < (causal ? past + token + 1 : kept.size()); ++j) {
        BoundedSum score;
        for (const Bounded &each : kept[j]) score.error += rounding.floor * std::abs(each.value);
        for (uint32_t n = 0; n < nope; ++n) {
            const auto [key, magnitudeOfKey] = timesLatent(kept[j], n);
            score.add(q[n], key, magnitudeOfKey);
        }
        for (uint32_t r = 0; r < rope; ++r) score.add(turned[r], kept[j][latent + r]);
        scores.push_back({score.value * scale, (score.error + unitOfSum(latent + nope + rope) * score.magnitude) * scale});
    }
    BoundedRows values;
    for (size_t j = 0; j < scores.size(); ++j) {
        BoundedRow &row = values.emplace_back();
        for (uint32_t v = 0; v < value; ++v) {
            auto [each, magnitude] = timesLatent(kept[j], nope + v);
            each.error += unitOfSum(scores.size()) * magnitude; // of the sums over latents
            row.push_back(each);
        }
    }
    return attend(
        scores, value, [&](size_t j, size_t d) { return values[j][d]; }, stored);
}

std::string LatentCase::text() const {
    return "latent layer of " + std::to_string(heads) + " heads, dims " + std::to_string(nope) + " + " + std::to_string(rope) + " and " +
           std::to_string(value) + ", latent " + std::to_string(latent) + ", queries' " + std::to_string(queryLatent) + ", form " +
           std::to_string(form) + ", pairs " + std::to_string(pairs) + ", stored " + std::to_string(stored) + ", past " +
           std::to_string(past) + ", cache " + std::to_string(cacheTokens) + (residual ? ", residual" : "") + (causal ? ", causal" : "") +
           ", y dtype " + std::to_string(y.dtype) + arraysText();
}

std::unique_ptr<LatentCase> drawLatent(Random &random, bool cached) {
    auto made = std::make_unique<LatentCase>();
    LatentCase &l = *made;
    const auto yes = [&] { return between(random, 0, 1) == 1; };
    l.batch = between(random, 1, 2), l.tokens = between(random, 1, 9), l.model = between(random, 1, 30);
    if (yes()) l.queryLatent = between(random, 1, 20);
    l.latent = between(random, 1, 20), l.heads = between(random, 1, 5);
    l.nope = between(random, 1, 9), l.rope = 2 * between(random, 1, 4), l.value = between(random, 1, 9);
    if (yes() || cached) l.past = between(random, cached ? 1 : 0, 12), l.cacheTokens = l.past + l.tokens + between(random, 0, 5);
    l.residual = yes(), l.causal = yes();
    l.pairs = yes() ? VKATTN_PAIRS_INTERLEAVED : VKATTN_PAIRS_HALF;
    l.form = static_cast<vkattn_latent_form>(between(random, 0, 2));
    l.stored = cached ? VKATTN_F32 : drawType(random);
    l.out = l.residual ? l.model : between(random, 1, 30);
    l.fill(random, [&](uint32_t entries, uint32_t rows, uint32_t dims) {
        return drawLayout(random, cached ? VKATTN_F32 : drawType(random), true, {entries, 1, rows, dims});
    });
    return made;
}

} // namespace vkattn::conform
