#include "attention/tile_attention.hpp"

namespace denoise {
namespace {

// With 576 keys and 2 heads, 192 tiles gather 14 MiB of keys and values: enough to keep a GPU busy,
// and a large picture needs no more.
constexpr size_t tilesAtOnce = 192;
constexpr uint64_t rowsVerified = 64; // in the middle of the picture, for each run

// Writes the query and key vectors of one head of one tile. Pixel distance counts from the tile's
// centre, and features count from those of the pixel there. Only differences matter, and small
// numbers keep fp32 exact where |f|^2 is subtracted from a dot product.
class TileWriter {
  public:
    TileWriter(const FilterHead &head, const std::vector<int> &groupSizes, TileShape shape, Tile tile)
        : head_(head), groupSizes_(groupSizes), shape_(shape), tile_(tile),
          centreX_(static_cast<float>(tile.x) + 0.5f * static_cast<float>(shape.query)),
          centreY_(static_cast<float>(tile.y) + 0.5f * static_cast<float>(shape.query)),
          origin_(head.queryFeatures.clamped(tile.x + shape.query / 2, tile.y + shape.query / 2)) {}

    void queries(float *q) const {
        const float pixelPrecision = head_.pixelPrecision;
        for (int y = tile_.y; y < tile_.y + shape_.query; ++y) {
            for (int x = tile_.x; x < tile_.x + shape_.query; ++x) {
                *q++ = 2 * pixelPrecision * (static_cast<float>(x) + 0.5f - centreX_);
                *q++ = 2 * pixelPrecision * (static_cast<float>(y) + 0.5f - centreY_);
                *q++ = -pixelPrecision;
                const float *feature = head_.queryFeatures.clamped(x, y), *origin = origin_;
                const float *precision = head_.precision.clamped(x, y);
                for (const int size : groupSizes_) {
                    for (int c = 0; c < size; ++c) *q++ = 2 * *precision * (*feature++ - *origin++);
                    *q++ = -*precision++;
                }
            }
        }
    }

    void keys(float *k, float *v, uint8_t *mask) const {
        const Image &features = head_.featuresOfKeys();
        const Tile first = windowOf(tile_, shape_, head_.step);
        const auto step = static_cast<float>(head_.step);
        for (int y = first.y; y < first.y + shape_.window; ++y) {
            for (int x = first.x; x < first.x + shape_.window; ++x) {
                *mask++ = head_.sees(x, y);
                const float dx = (static_cast<float>(x) + 0.5f) * step - centreX_, dy = (static_cast<float>(y) + 0.5f) * step - centreY_;
                *k++ = dx, *k++ = dy, *k++ = dx * dx + dy * dy;
                const float *feature = features.clamped(x, y), *origin = origin_;
                for (const int size : groupSizes_) {
                    float squares = 0;
                    for (int c = 0; c < size; ++c) {
                        const float difference = *feature++ - *origin++;
                        squares += difference * difference;
                        *k++ = difference;
                    }
                    *k++ = squares;
                }
                const float *value = head_.values.clamped(x, y);
                v = std::copy(value, value + head_.values.channels, v);
            }
        }
    }

  private:
    const FilterHead &head_;
    const std::vector<int> &groupSizes_;
    TileShape shape_;
    Tile tile_;
    float centreX_, centreY_;
    const float *origin_;
};

void readTile(const float *o, TileShape shape, Tile tile, Image &out) {
    for (int dy = 0; dy < shape.query; ++dy) {
        for (int dx = 0; dx < shape.query; ++dx, o += out.channels)
            if (tile.x + dx < out.width && tile.y + dy < out.height) std::copy(o, o + out.channels, out.at(tile.x + dx, tile.y + dy));
    }
}

template <class T> vkattn_operand_memory operand(vkattn_role role, std::vector<T> &data) {
    return {role, data.data(), data.size() * sizeof(T)};
}

} // namespace

bool TileAttention::run(const std::vector<FilterHead> &heads, const std::vector<int> &groupSizes, const Image &wanted, TileShape shape,
                        std::vector<Image> &out) {
    const std::vector<Tile> tiles = tilesOf(wanted, shape.query);
    const size_t headCount = heads.size();
    const size_t queryTokens = static_cast<size_t>(shape.query) * static_cast<size_t>(shape.query),
                 keyTokens = static_cast<size_t>(shape.window) * static_cast<size_t>(shape.window);
    size_t headDim = 3; // pixel distance
    for (const int size : groupSizes) headDim += static_cast<size_t>(size) + 1;
    const auto valueDim = static_cast<size_t>(heads[0].values.channels);
    out.assign(headCount, Image(wanted.width, wanted.height, heads[0].values.channels));

    const size_t batchMax = std::min(tiles.size(), tilesAtOnce);
    std::vector<float> q(batchMax * headCount * queryTokens * headDim), k(batchMax * headCount * keyTokens * headDim);
    std::vector<float> v(batchMax * headCount * keyTokens * valueDim), o(batchMax * headCount * queryTokens * valueDim);
    std::vector<uint8_t> mask(batchMax * headCount * keyTokens);

    for (size_t first = 0; first < tiles.size(); first += tilesAtOnce) {
        const size_t batch = std::min(tilesAtOnce, tiles.size() - first);
        for (size_t i = 0; i < batch * headCount; ++i) {
            const TileWriter writer(heads[i % headCount], groupSizes, shape, tiles[first + i / headCount]);
            writer.queries(q.data() + i * queryTokens * headDim);
            writer.keys(k.data() + i * keyTokens * headDim, v.data() + i * keyTokens * valueDim, mask.data() + i * keyTokens);
        }

        const auto layout = [&](vkattn_dtype dtype, size_t tokens, size_t dim) {
            return vkattn::packed(dtype, static_cast<uint32_t>(batch), static_cast<uint32_t>(headCount), static_cast<uint32_t>(tokens),
                                  static_cast<uint32_t>(dim));
        };
        vkattn_problem problem = vkattn::problem(layout(VKATTN_F32, queryTokens, headDim), layout(VKATTN_F32, keyTokens, headDim),
                                                 layout(VKATTN_F32, keyTokens, valueDim), layout(VKATTN_F32, queryTokens, valueDim));
        problem.flags = VKATTN_SCALE;
        problem.scale = 1;
        // The mask is the same for every query of a tile: an extent of 1 is broadcast.
        problem.mask = layout(VKATTN_BOOL8, 1, keyTokens);
        const std::vector<vkattn_operand_memory> operands = {operand(VKATTN_Q, q), operand(VKATTN_K, k), operand(VKATTN_V, v),
                                                             operand(VKATTN_OUT, o), operand(VKATTN_MASK, mask)};
        if (!compute(problem, operands)) return false;
        report_.gigaflops += 2e-9 * static_cast<double>(batch * headCount * queryTokens * keyTokens * (headDim + valueDim));
        const size_t middle = tiles.size() / 2;
        if (verifies && first <= middle && middle < first + batch && !verify(problem, operands)) return false;

        for (size_t i = 0; i < batch * headCount; ++i)
            readTile(o.data() + i * queryTokens * valueDim, shape, tiles[first + i / headCount], out[i % headCount]);
        if (progress) progress((finishedRuns_ + static_cast<double>(first + batch) / static_cast<double>(tiles.size())) / expectedRuns_);
    }
    ++finishedRuns_;
    return true;
}

bool TileAttention::compute(const vkattn_problem &problem, const std::vector<vkattn_operand_memory> &operands) {
    vkattn::RunOptions options;
    options.cpuThreads = threads_;
    const vkattn::RunResult result = runtime_.run(problem, operands, options);
    if (result.status != VKATTN_OK) {
        error_ = result.message;
        return false;
    }
    report_.device = result.device;
    report_.driver = result.driver;
    report_.kernel = result.kernel;
    if (!result.fallbackReason.empty()) report_.fallbackReason = result.fallbackReason;
    report_.milliseconds += result.milliseconds;
    ++report_.runs;
    return true;
}

bool TileAttention::verify(const vkattn_problem &problem, const std::vector<vkattn_operand_memory> &operands) {
    vkattn_verify_options options{};
    options.structSize = sizeof options;
    options.rows = rowsVerified;
    options.seed = seed_;
    options.threads = threads_;
    vkattn_verify_report report{};
    vkattn_diagnostic why{};
    if (vkattnCpuVerify(&problem, operands.data(), static_cast<uint32_t>(operands.size()), &options, &report, &why) != VKATTN_OK) {
        error_ = why.message;
        return false;
    }
    report_.rowsChecked += report.rowsChecked;
    report_.passed = report_.passed && report.passed != 0;
    if (report_.worstBound <= 0 || report.worstError * report_.worstBound > report_.worstError * report.worstBound) {
        report_.worstError = report.worstError;
        report_.worstBound = report.worstBound;
    }
    return true;
}

} // namespace denoise
