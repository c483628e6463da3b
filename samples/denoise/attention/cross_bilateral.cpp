#include "attention/cross_bilateral.hpp"

#include <atomic>
#include <thread>

namespace denoise {
namespace {

// Keys of a smaller share of the largest weight change no bit of an average.
constexpr float leastExponent = -25;

// The keys that a tile sees, channel by channel, so that loops over keys become vector code.
class Window {
  public:
    Window(const FilterHead &head, TileShape shape, Tile tile) : head_(head) {
        const Tile first = windowOf(tile, shape, head.step);
        const Image &features = head.featuresOfKeys();
        const auto step = static_cast<float>(head.step);
        features_.resize(static_cast<size_t>(features.channels));
        for (int y = first.y; y < first.y + shape.window; ++y) {
            for (int x = first.x; x < first.x + shape.window; ++x) {
                if (!head.sees(x, y)) continue;
                x_.push_back((static_cast<float>(x) + 0.5f) * step);
                y_.push_back((static_cast<float>(y) + 0.5f) * step);
                for (size_t c = 0; c < features_.size(); ++c) features_[c].push_back(features.at(x, y)[c]);
                values_.push_back(head.values.at(x, y));
            }
        }
        exponent_.resize(x_.size());
    }

    void average(int x, int y, const std::vector<int> &groupSizes, float *out) {
        if (exponent_.empty()) return;
        const float px = static_cast<float>(x) + 0.5f, py = static_cast<float>(y) + 0.5f;
        for (size_t j = 0; j < exponent_.size(); ++j)
            exponent_[j] = -head_.pixelPrecision * ((x_[j] - px) * (x_[j] - px) + (y_[j] - py) * (y_[j] - py));
        size_t channel = 0;
        for (size_t group = 0; group < groupSizes.size(); ++group) {
            const float precision = head_.precision.at(x, y)[group];
            for (int c = 0; c < groupSizes[group]; ++c, ++channel) {
                const float own = head_.queryFeatures.at(x, y)[channel];
                const float *theirs = features_[channel].data();
                for (size_t j = 0; j < exponent_.size(); ++j) exponent_[j] -= precision * (theirs[j] - own) * (theirs[j] - own);
            }
        }
        const float largest = *std::max_element(exponent_.begin(), exponent_.end());
        float sum = 0;
        for (size_t j = 0; j < exponent_.size(); ++j) {
            const float exponent = exponent_[j] - largest;
            if (exponent < leastExponent) continue;
            const float weight = std::exp(exponent);
            sum += weight;
            for (int c = 0; c < head_.values.channels; ++c) out[c] += weight * values_[j][c];
        }
        for (int c = 0; c < head_.values.channels; ++c) out[c] /= sum;
    }

  private:
    const FilterHead &head_;
    std::vector<float> x_, y_;
    std::vector<std::vector<float>> features_;
    std::vector<const float *> values_;
    std::vector<float> exponent_;
};

} // namespace

bool CrossBilateral::run(const std::vector<FilterHead> &heads, const std::vector<int> &groupSizes, const Image &wanted, TileShape shape,
                         std::vector<Image> &out) {
    out.clear();
    for (const FilterHead &head : heads) out.emplace_back(wanted.width, wanted.height, head.values.channels);
    const std::vector<Tile> tiles = tilesOf(wanted, shape.query);
    std::atomic<size_t> next{0};
    const auto work = [&] {
        for (size_t i = next++; i < tiles.size() * heads.size(); i = next++) {
            const Tile tile = tiles[i / heads.size()];
            Image &image = out[i % heads.size()];
            Window window(heads[i % heads.size()], shape, tile);
            for (int y = tile.y; y < std::min(tile.y + shape.query, image.height); ++y)
                for (int x = tile.x; x < std::min(tile.x + shape.query, image.width); ++x) window.average(x, y, groupSizes, image.at(x, y));
        }
    };
    std::vector<std::thread> helpers;
    for (unsigned i = 1; i < threads_; ++i) helpers.emplace_back(work);
    work();
    for (std::thread &helper : helpers) helper.join();
    return true;
}

} // namespace denoise
