#include "filling.hpp"

#include <algorithm>
#include <cmath>

namespace neighbourhood {

using denoise::Image;

namespace {

// A token has the pixels of its patch, its place, and two dims that make the score -|a - b|^2 up to a number that is the same for all
// keys of a row: q = (2 f, 1), k = (f, -|f|^2).
struct Tokens {
    std::vector<float> q, k, v;
    uint32_t dims = 0;
};

Tokens tokensOf(const Image &image, const Settings &settings) {
    Tokens tokens;
    const int half = static_cast<int>(settings.patch / 2);
    const uint32_t features = settings.patch * settings.patch * 3 + 2;
    tokens.dims = features + 1;
    // The middle of a patch counts more than its rim.
    std::vector<float> shares;
    float sum = 0;
    for (int y = -half; y <= half; ++y)
        for (int x = -half; x <= half; ++x) {
            shares.push_back(std::exp(-static_cast<float>(x * x + y * y) / static_cast<float>(half * half + 1)));
            sum += shares.back();
        }
    std::vector<float> feature(features);
    for (int y = 0; y < image.height; ++y)
        for (int x = 0; x < image.width; ++x) {
            size_t n = 0;
            for (int dy = -half; dy <= half; ++dy)
                for (int dx = -half; dx <= half; ++dx) {
                    const size_t place = n / 3;
                    const float factor = std::sqrt(shares[place] / (3 * sum)) / settings.likeness;
                    for (int c = 0; c < 3; ++c) feature[n++] = factor * image.clamped(x + dx, y + dy)[c];
                }
            feature[n++] = static_cast<float>(x) / settings.distance;
            feature[n++] = static_cast<float>(y) / settings.distance;
            float squares = 0;
            for (const float f : feature) squares += f * f;
            for (const float f : feature) tokens.q.push_back(2 * f), tokens.k.push_back(f);
            tokens.q.push_back(1);
            tokens.k.push_back(-squares);
            tokens.v.insert(tokens.v.end(), image.at(x, y), image.at(x, y) + 3);
        }
    return tokens;
}

} // namespace

Image interpolated(const Image &damaged, const Known &known) {
    Image result = damaged;
    for (int y = 0; y < damaged.height; ++y)
        for (int x = 0; x < damaged.width; ++x) {
            if (known[static_cast<size_t>(y) * damaged.width + x]) continue;
            for (int reach = 2;; reach *= 2) {
                double sum[3] = {}, weights = 0;
                for (int dy = -reach; dy <= reach; ++dy)
                    for (int dx = -reach; dx <= reach; ++dx) {
                        const int atX = x + dx, atY = y + dy;
                        if (atX < 0 || atY < 0 || atX >= damaged.width || atY >= damaged.height) continue;
                        if (!known[static_cast<size_t>(atY) * damaged.width + atX]) continue;
                        const double weight = std::exp(-2.0 * (dx * dx + dy * dy) / (reach * reach));
                        for (int c = 0; c < 3; ++c) sum[c] += weight * static_cast<double>(damaged.at(atX, atY)[c]);
                        weights += weight;
                    }
                if (weights < 0.5 && reach < damaged.width + damaged.height) continue;
                for (int c = 0; c < 3; ++c) result.at(x, y)[c] = weights > 0 ? static_cast<float>(sum[c] / weights) : 0.5f;
                break;
            }
        }
    return result;
}

Image filled(vkattn::Runtime &runtime, const Image &start, const Known &known, const Settings &settings, double &milliseconds,
             std::string &error) {
    Image image = start;
    const auto tokens = static_cast<uint32_t>(start.width * start.height);
    milliseconds = 0;
    for (uint32_t round = 0; round < settings.rounds; ++round) {
        // Patches are first made of guesses: they decide more and more.
        Settings own = settings;
        own.likeness *= 1.0f + 2.0f * static_cast<float>(settings.rounds - 1 - round) / static_cast<float>(settings.rounds);
        Tokens made = tokensOf(image, own);
        std::vector<float> out(size_t{tokens} * 3);
        vkattn_problem problem =
            vkattn::problem(vkattn::packed(VKATTN_F32, 1, 1, tokens, made.dims), vkattn::packed(VKATTN_F32, 1, 1, tokens, made.dims),
                            vkattn::packed(VKATTN_F32, 1, 1, tokens, 3), vkattn::packed(VKATTN_F32, 1, 1, tokens, 3));
        problem.flags = VKATTN_SCALE;
        problem.scale = 1;
        problem.grid.rule = VKATTN_GRID_CLAMPED;
        problem.grid.extent[1] = static_cast<uint32_t>(start.height);
        problem.grid.extent[2] = static_cast<uint32_t>(start.width);
        problem.grid.size[1] = problem.grid.size[2] = settings.size;
        // Missing pixels are nobody's keys: one row of a mask, for all queries.
        problem.mask = vkattn::packed(VKATTN_BOOL8, 1, 1, 1, tokens);
        const vkattn_operand_memory operands[] = {{VKATTN_Q, made.q.data(), 4 * made.q.size()},
                                                  {VKATTN_K, made.k.data(), 4 * made.k.size()},
                                                  {VKATTN_V, made.v.data(), 4 * made.v.size()},
                                                  {VKATTN_MASK, const_cast<uint8_t *>(known.data()), known.size()},
                                                  {VKATTN_OUT, out.data(), 4 * out.size()}};
        const vkattn::RunResult result = runtime.run(problem, operands);
        if (result.status != VKATTN_OK) {
            error = result.message;
            return {};
        }
        milliseconds += result.milliseconds;
        for (uint32_t n = 0; n < tokens; ++n) {
            const float *const pixel = out.data() + size_t{n} * 3;
            // A neighbourhood without a known pixel: 0, and what was there stays.
            const bool empty = pixel[0] == 0 && pixel[1] == 0 && pixel[2] == 0;
            if (!known[n] && !empty) std::copy_n(pixel, 3, image.data.data() + size_t{n} * 3);
        }
    }
    return image;
}

} // namespace neighbourhood
