// Averages over windows: what attention and the cross-bilateral filter have in common. A picture is
// cut into square tiles of queries, and each tile looks at a square window of keys around it. The
// weight of key j for query i is
//
//     w_ij ~ exp( - pixelPrecision |x_i - x_j|^2 - sum over groups g of  precision_ig |f_ig - f_jg|^2 )
//
// and the weights of a query sum to 1.
#pragma once

#include "picture/image.hpp"

#include <string>
#include <vector>

namespace denoise {

// One head: the features that it compares, and the values that it averages. Queries are pixels;
// keys are pixels or blocks of them.
struct FilterHead {
    // 2: keys are blocks of 2x2 pixels, and the window reaches twice as far for the same work
    int step = 1;
    // 1 / (2 sigma^2): the distance in pixels is a group of its own, the same for all queries
    float pixelPrecision = 0;
    Image queryFeatures; // all groups, one after another
    Image precision;     // one channel a group
    // As queryFeatures, `step` times fewer per axis; empty: the queries' own.
    Image keyFeatures;
    Image values;  // at the resolution of the keys, and so is
    Image visible; // 1 channel: keys at 0 are hidden; empty: none

    [[nodiscard]] const Image &featuresOfKeys() const { return keyFeatures.data.empty() ? queryFeatures : keyFeatures; }
    // Whether the key lies within the picture and is not hidden.
    [[nodiscard]] bool sees(int x, int y) const {
        const Image &features = featuresOfKeys();
        return x >= 0 && y >= 0 && x < features.width && y < features.height && (visible.data.empty() || *visible.at(x, y) > 0);
    }
};

struct TileShape {
    int query = 8;   // pixels along the side of a tile
    int window = 24; // keys along the side of a window
};

struct Tile {
    int x = 0, y = 0; // position of its first pixel
};

// Returns the tiles in which `wanted`, of one channel, is not 0 everywhere.
[[nodiscard]] std::vector<Tile> tilesOf(const Image &wanted, int side);

// Returns the position of the first key that a tile looks at; it may lie outside of the picture.
[[nodiscard]] Tile windowOf(Tile tile, TileShape shape, int step);

class WindowFilter {
  public:
    WindowFilter() = default;
    virtual ~WindowFilter() = default;
    WindowFilter(const WindowFilter &) = delete;
    WindowFilter &operator=(const WindowFilter &) = delete;

    // Filters the picture. All heads have as many feature and value channels; groupSizes says how
    // the features are grouped. Tiles in which `wanted` is 0 everywhere are left out and come back
    // as 0, and so do pixels that see no key. `out` receives an image per head. Returns false on
    // failure; error() says why.
    [[nodiscard]] virtual bool run(const std::vector<FilterHead> &heads, const std::vector<int> &groupSizes, const Image &wanted,
                                   TileShape shape, std::vector<Image> &out) = 0;
    [[nodiscard]] const std::string &error() const { return error_; }

  protected:
    std::string error_;
};

} // namespace denoise
