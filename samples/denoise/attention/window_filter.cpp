#include "attention/window_filter.hpp"

namespace denoise {

std::vector<Tile> tilesOf(const Image &wanted, int side) {
    std::vector<Tile> tiles;
    for (int y = 0; y < wanted.height; y += side) {
        for (int x = 0; x < wanted.width; x += side) {
            bool any = false;
            for (int dy = 0; dy < side && y + dy < wanted.height; ++dy)
                for (int dx = 0; dx < side && x + dx < wanted.width; ++dx) any = any || *wanted.at(x + dx, y + dy) > 0;
            if (any) tiles.push_back({x, y});
        }
    }
    return tiles;
}

Tile windowOf(Tile tile, TileShape shape, int step) {
    const int margin = (shape.window - shape.query / step) / 2;
    return {tile.x / step - margin, tile.y / step - margin};
}

} // namespace denoise
