// Attention of one unit, query rows in lanes, for one Highway target.
//
// Scores are computed transposed: a panel of rows fills two vectors (one where that is enough), and
// each key is a broadcast. So K and V need no transposing, dims of any number need no padding, and
// the softmax of a row never leaves its lane: no sums across lanes, and nothing of one row can
// reach another.
#if defined(VKATTN_CPU_TILES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef VKATTN_CPU_TILES_INL_HPP
#undef VKATTN_CPU_TILES_INL_HPP
#else
#define VKATTN_CPU_TILES_INL_HPP
#endif

#include "cpu/attention.hpp"

#include "cpu/finish-inl.hpp"
#include "cpu/key_values-inl.hpp"
#include "cpu/pair_rules-inl.hpp"
#include "cpu/vectors-inl.hpp"

#include <span>

HWY_BEFORE_NAMESPACE();
namespace vkattn {
namespace HWY_NAMESPACE {

const KernelShape &kernelShape();

// Computes scores[key][row] = scale * sum_d keys[key][d] query[d][row] for `count` keys.
template <size_t count, size_t vectors>
HWY_INLINE void scoreBlock(TileRows keys, const float *HWY_RESTRICT query, size_t dims, float scale, float *HWY_RESTRICT scores) {
    const Floats f;
    Vector sum[count][vectors];
    VKATTN_UNROLL for (size_t n = 0; n < count; ++n) {
        VKATTN_UNROLL for (size_t v = 0; v < vectors; ++v) sum[n][v] = hn::Zero(f);
    }
    HWY_UNROLL(4) for (size_t d = 0; d < dims; ++d, query += vectors * lanes) {
        Vector q[vectors];
        VKATTN_UNROLL for (size_t v = 0; v < vectors; ++v) q[v] = hn::Load(f, query + v * lanes);
        VKATTN_UNROLL for (size_t n = 0; n < count; ++n) {
            const auto k = hn::Set(f, keys.data[static_cast<ptrdiff_t>(n) * keys.stride + static_cast<ptrdiff_t>(d)]);
            VKATTN_UNROLL for (size_t v = 0; v < vectors; ++v) sum[n][v] = hn::MulAdd(k, q[v], sum[n][v]);
        }
    }
    const auto factor = hn::Set(f, scale);
    VKATTN_UNROLL for (size_t n = 0; n < count; ++n) {
        VKATTN_UNROLL for (size_t v = 0; v < vectors; ++v) hn::Store(hn::Mul(sum[n][v], factor), f, scores + (n * vectors + v) * lanes);
    }
}

// Rows that lie one after another; a tile may have several such runs.
struct TileRun {
    TileRows rows;
    uint32_t count;
};

// Computes out[dim][row] = out[dim][row] * rescale[row] + sum_key values[key][dim]
// weights[key][row] for `count` dims from `dim` on.
template <size_t count, size_t vectors>
HWY_INLINE void valueBlock(std::span<const TileRun> runs, size_t dim, const float *HWY_RESTRICT weights, const float *HWY_RESTRICT rescale,
                           float *HWY_RESTRICT out) {
    const Floats f;
    Vector sum[count][vectors];
    VKATTN_UNROLL for (size_t n = 0; n < count; ++n) {
        VKATTN_UNROLL for (size_t v = 0; v < vectors; ++v) sum[n][v] =
            hn::Mul(hn::Load(f, out + (n * vectors + v) * lanes), hn::Load(f, rescale + v * lanes));
    }
    for (const TileRun &run : runs) {
        const float *HWY_RESTRICT value = run.rows.data + dim;
        HWY_UNROLL(4) for (size_t key = 0; key < run.count; ++key, value += run.rows.stride, weights += vectors * lanes) {
            Vector w[vectors];
            VKATTN_UNROLL for (size_t v = 0; v < vectors; ++v) w[v] = hn::Load(f, weights + v * lanes);
            VKATTN_UNROLL for (size_t n = 0; n < count; ++n) {
                const auto x = hn::Set(f, value[n]);
                VKATTN_UNROLL for (size_t v = 0; v < vectors; ++v) sum[n][v] = hn::MulAdd(x, w[v], sum[n][v]);
            }
        }
    }
    VKATTN_UNROLL for (size_t n = 0; n < count; ++n) {
        VKATTN_UNROLL for (size_t v = 0; v < vectors; ++v) hn::Store(sum[n][v], f, out + (n * vectors + v) * lanes);
    }
}

// Calls visit<n>(done) for blocks of n that make up `count`.
template <size_t most, class Visit> HWY_INLINE void forBlocks(size_t count, const Visit &visit) {
    for (size_t done = 0, n; done < count; done += n) {
        n = nextBlock<most>(count - done);
        if (n == most)
            visit.template operator()<most>(done);
        else if (n == most * 2 / 3)
            visit.template operator()<most * 2 / 3>(done);
        else if (n == most / 3)
            visit.template operator()<most / 3>(done);
        else
            visit.template operator()<1>(done);
    }
}

template <size_t vectors>
HWY_NOINLINE void scoreTile(TileRows keys, size_t count, const float *query, size_t dims, float scale, float *scores) {
    forBlocks<blockSize<vectors>>(count, [&]<size_t n>(size_t done) {
        scoreBlock<n, vectors>(keys.from(done), query, dims, scale, scores + done * vectors * lanes);
    });
}
template <size_t vectors>
HWY_NOINLINE void addTile(std::span<const TileRun> values, size_t dims, const float *weights, const float *rescale, float *out) {
    forBlocks<blockSize<vectors>>(
        dims, [&]<size_t n>(size_t done) { valueBlock<n, vectors>(values, done, weights, rescale, out + done * vectors * lanes); });
}
template <size_t vectors>
HWY_INLINE void addTile(TileRows values, size_t dims, size_t keys, const float *weights, const float *rescale, float *out) {
    const TileRun run{values, static_cast<uint32_t>(keys)};
    addTile<vectors>(std::span(&run, 1), dims, weights, rescale, out);
}

HWY_INLINE bool isFinite(const float *row, size_t dims) {
    const Words u;
    const auto exponent = hn::Set(u, 0x7f800000u);
    size_t d = 0;
    auto found = hn::Zero(u);
    for (; d + lanes <= dims; d += lanes) {
        const auto bits = hn::And(hn::BitCast(u, loadFloats(row + d)), exponent);
        found = hn::Or(found, hn::VecFromMask(u, hn::Eq(bits, exponent)));
    }
    if (!hn::AllFalse(u, hn::Ne(found, hn::Zero(u)))) return false;
    for (; d < dims; ++d)
        if ((std::bit_cast<uint32_t>(row[d]) & 0x7f800000u) == 0x7f800000u) return false;
    return true;
}

// The values of one tile as rows in which every element is finite, and the rows that zeros had to
// replace for that. 0 * NaN is NaN, so a hidden value must not be multiplied at all. Only tiles
// that are hidden from some row are looked at.
struct FiniteValues {
    static constexpr uint32_t most = 128; // keys of a tile
    TileRows rows{};
    uint32_t replaced[most];
    uint32_t count = 0;
    bool known = false;

    void find(TileRows values, uint32_t keys, uint32_t dims, float *copy) {
        if (known) return;
        known = true;
        rows = values;
        for (uint32_t j = 0; j < keys; ++j)
            if (!isFinite(values.row(j), dims)) replaced[count++] = j;
        if (count == 0) return;
        uint32_t next = 0;
        for (uint32_t j = 0; j < keys; ++j) {
            float *to = copy + size_t{j} * dims;
            const float *from = values.row(j);
            if (next < count && replaced[next] == j) {
                std::fill(to, to + dims, 0.0f);
                ++next;
            } else {
                std::copy(from, from + dims, to);
            }
        }
        rows = {copy, static_cast<ptrdiff_t>(dims)};
    }
};

template <size_t vectors> class TileAttention {
  public:
    TileAttention(const Call &call, const Unit &unit, float *scratch)
        : call_(call), p_(call.p), unit_(unit), at_(scratchLayout(p_, call.tiling, kernelShape())), scratch_(scratch) {}

    void attend() {
        const bool shared = sharesRuns();
        if (shared) lookUpRules(false);
        const uint32_t panels = (unit_.rows + panelRows - 1) / panelRows;
        const bool placed = !hasPlainScores(p_) || rulesLookedUp_ || drops_; // what follows asks for the rows of a panel
        const bool unrestricted = !placed && p_.sameReach();
        uint32_t begin = unit_.keyEnd, end = unit_.keyBegin;
        for (uint32_t panel = 0; panel < panels; ++panel) {
            loadQueries(panel);
            const Reach reach = reaches()[panel] = unrestricted ? Reach{0, unit_.s->keys, 0, unit_.s->keys} : place(panel);
            begin = std::min(begin, reach.begin);
            end = std::max(end, reach.end);
        }
        begin = std::max(begin, unit_.keyBegin);
        end = std::min(end, unit_.keyEnd);
        const uint32_t tileKeys = call_.tiling.tileKeys;
        if (shared) {
            const RowRules rules = rulesOf(call_, *unit_.s, unit_.b, placeOfRow(0));
            for (KeyRun run = rules.next(begin, end); run.begin < end; run = rules.next(run.end, end))
                for (uint32_t at = run.begin; at < run.end; at += tileKeys) takeTile(at, std::min(at + tileKeys, run.end), placed);
        } else {
            for (uint32_t at = begin / tileKeys * tileKeys; at < end; at += tileKeys) {
                const uint32_t seen = firstSeen(std::max(at, begin), end);
                if (seen >= end) break;
                at = seen / tileKeys * tileKeys;
                takeTile(std::max(at, begin), std::min(at + tileKeys, end), placed);
            }
        }
        lookUpRules(rules_);
        for (uint32_t panel = 0; panel < panels; ++panel) finish(panel);
    }

    // A patch of a grid. In each row of the grid, what a query sees is a range, and becomes the query's reach.
    void attendPatch() {
        place(0);
        loadQueries(0);
        lookUpRules(false);
        // Hidden pairs have a weight of 0, and 0 * NaN is NaN: values that are not finite show in the results, and patches that see none
        // need not look for them.
        const bool takesBands = !lookUps_ && !drops_ && !weighs_ && !p_.program.sumless() && !p_.keysLieInPieces();
        takePatch(takesBands);
        if (takesBands && !isFinite(out(0), size_t{panelRows} * p_.valueDim)) {
            beginRows(0);
            takePatch(false);
        }
        lookUpRules(rules_);
        finish(0);
    }

  private:
    static constexpr uint32_t panelRows = static_cast<uint32_t>(vectors * lanes);

    void takePatch(bool takesBands) {
        const GridPatch &patch = unit_.patch;
        const vkattn_grid &grid = p_.rules.grid;
        const uint32_t columns = grid.extent[2], rows = grid.extent[1], tileKeys = call_.tiling.tileKeys;
        KeyRun ofRow[panelRows] = {}, ofColumn[panelRows] = {};
        for (uint32_t r = 0; r < unit_.rows; ++r) {
            ofRow[r] = axisRange(grid, 1, patch.row + r / patch.columns);
            ofColumn[r] = axisRange(grid, 2, patch.column + r % patch.columns);
        }
        const KeyRun planes = axisRange(grid, 0, patch.plane);
        Band band;
        for (uint32_t z = planes.begin; z < planes.end; ++z)
            for (uint32_t y = ofRow[0].begin; y < ofRow[unit_.rows - 1].end; ++y) {
                const uint32_t at = (z * rows + y) * columns;
                KeyRun all{unit_.s->keys, 0};
                bool same = true; // all rows see all of it
                for (uint32_t r = 0; r < panelRows; ++r) {
                    const uint32_t own = std::min(r, unit_.rows - 1);
                    const RowPlace &row = rows_.places[own];
                    const bool crosses = y >= ofRow[own].begin && y < ofRow[own].end;
                    const uint32_t begin = std::max(row.begin, at + ofColumn[own].begin);
                    const uint32_t end = crosses ? std::max(begin, std::min(row.end, at + ofColumn[own].end)) : begin;
                    rows_.begin[r] = static_cast<int32_t>(begin), rows_.end[r] = static_cast<int32_t>(end);
                    same = same && (r == 0 || (begin == all.begin && end == all.end));
                    if (begin < end) all = {std::min(all.begin, begin), std::max(all.end, end)};
                }
                if (takesBands && all.begin < all.end && addToBand(band, all, !same)) continue;
                takeBand(band);
                // Tiles count from the row's first key: which keys share one depends on the grid alone.
                for (uint32_t next = all.begin; next < all.end;) {
                    const uint32_t last = std::min(at + ((next - at) / tileKeys + 1) * tileKeys, all.end);
                    Tile tile{next, last};
                    takeKeys(0, tile, next, last, !same);
                    next = last;
                }
            }
        takeBand(band);
    }

    // The keys that some row of a panel can reach, and the keys that all rows can reach.
    struct Reach {
        uint32_t begin, end, commonBegin, commonEnd;
    };

    // Keys [first, last), loaded once some panel sees one.
    struct Tile {
        uint32_t first, last;
        bool loaded = false;
        TileRows keys{}, values{};
        FiniteValues finite{};
    };

    // What a patch sees of rows of the grid that are taken together: one tile of several runs.
    struct Band {
        static constexpr uint32_t most = 8;
        TileRun values[most];
        uint32_t runs = 0, keys = 0;
    };
    // Adds keys of one row of the grid, which begin and end where rows_ says. Returns false, and adds none, where they fill a tile by
    // themselves.
    bool addToBand(Band &band, KeyRun run, bool hides) {
        const uint32_t keys = run.end - run.begin, tileKeys = call_.tiling.tileKeys;
        if (keys > tileKeys / 2) return false;
        if (band.runs == Band::most || band.keys + keys > tileKeys) takeBand(band);
        const auto tile = [&](vkattn_role role, float *copies, uint32_t dims) {
            return tileRows(rowsOf(call_, role, *unit_.s, unit_.kvHead, run.begin), keys, false, copies + band.keys * packedStride(dims));
        };
        const TileRows values = tile(VKATTN_V, part(at_.values), p_.valueDim);
        float *const scores = part(at_.scores) + size_t{band.keys} * panelRows;
        scoreTile<vectors>(tile(VKATTN_K, part(at_.keys), p_.headDim), keys, query(0), p_.headDim, p_.scale, scores);
        Vector tops[vectors], seenNow[vectors]; // of the band so far
        for (size_t v = 0; v < vectors; ++v) {
            tops[v] = band.keys ? tops_[v] : hn::Set(Floats(), minusInfinity);
            seenNow[v] = band.keys ? seenNow_[v] : hn::Zero(Floats());
        }
        if (plain_ && !hides)
            maximumOfPlain(keys, scores);
        else
            applyOptions(run.begin, run.end, hides, scores);
        for (size_t v = 0; v < vectors; ++v)
            tops_[v] = hn::Max(tops_[v], tops[v]), seenNow_[v] = hn::Max(seenNow_[v], seenNow[v]);
        band.values[band.runs++] = {values, keys};
        band.keys += keys;
        return true;
    }
    void takeBand(Band &band) {
        if (band.keys == 0) return;
        weigh(0, band.keys);
        addTile<vectors>(std::span(band.values, band.runs), p_.valueDim, part(at_.scores), rescale(0), out(0));
        band.runs = band.keys = 0;
    }

    // Whether the only rule is one of blocks, which shows all rows of the unit the same runs of keys: they are looked up once, and
    // tiles begin where they begin. Not where bits must be those of tiles that skip nothing, nor where runs are short.
    bool sharesRuns() const {
        constexpr uint32_t worthATile = 16;
        const vkattn_blocks &blocks = p_.rules.blocks;
        if (!rules_ || p_.deterministic || p_.rules.local() || p_.rules.grid.rule != VKATTN_GRID_NONE || blocks.keys < worthATile)
            return false;
        return (blocks.heads == 1 || p_.groupSize() == 1) &&
               placeOfRow(0).query / blocks.queries == placeOfRow(unit_.rows - 1).query / blocks.queries;
    }

    // Adds the keys [first, last) to all panels. `placed`: what takes keys asks for the rows of a panel.
    void takeTile(uint32_t first, uint32_t last, bool placed) {
        const uint32_t panels = (unit_.rows + panelRows - 1) / panelRows;
        Tile tile{first, last};
        for (uint32_t panel = 0; panel < panels; ++panel) {
            const Reach reach = reaches()[panel];
            uint32_t from = std::max(tile.first, reach.begin), to = std::min(tile.last, reach.end);
            if (from >= to) continue;
            const bool partial = from < reach.commonBegin || to > reach.commonEnd;
            if ((partial || placed) && panels > 1) place(panel);
            if (rulesLookedUp_) { // hidden keys at both ends add nothing
                const KeyRun shown = shownRange(call_, *unit_.s, unit_.b, rows_.places, rowCount(panel), from, to);
                if (shown.begin >= shown.end) continue;
                from = shown.begin, to = shown.end;
            }
            takeKeys(panel, tile, from, to, partial);
        }
    }

    // Adds the keys [from, to) of a tile to a panel, whose rows are placed where some may not see all of
    // them.
    void takeKeys(uint32_t panel, Tile &tile, uint32_t from, uint32_t to, bool partial) {
        Pairs pairs = Pairs::allVisible;
        if (lookUps_) pairs = lookUp(panel, from, to);
        if (pairs == Pairs::noneVisible) return;
        if (!tile.loaded) {
            tile.loaded = true;
            tile.keys = tileOf(VKATTN_K, tile.first, tile.last, part(at_.keys));
            tile.values = tileOf(VKATTN_V, tile.first, tile.last, part(at_.values));
        }
        const uint32_t skipped = from - tile.first;
        scoreTile<vectors>(tile.keys.from(skipped), to - from, query(panel), p_.headDim, p_.scale, part(at_.scores));
        const bool hides = partial || pairs == Pairs::someVisible;
        if (plain_ && !hides)
            maximumOfPlain(to - from, part(at_.scores));
        else
            applyOptions(from, to, hides, part(at_.scores));
        if (p_.program.sumless())
            weighWithoutSums(panel, to - from);
        else
            weigh(panel, to - from);
        if (weighs_) weighWeights(from, to);
        if (drops_) dropWeights(from, to);
        if (!hides && !drops_) {
            addTile<vectors>(tile.values.from(skipped), p_.valueDim, to - from, part(at_.scores), rescale(panel), out(panel));
            return;
        }
        FiniteValues &finite = tile.finite;
        finite.find(tile.values, tile.last - tile.first, p_.valueDim, part(at_.finite));
        addTile<vectors>(finite.rows.from(skipped), p_.valueDim, to - from, part(at_.scores), rescale(panel), out(panel));
        for (uint32_t n = 0; n < finite.count; ++n) {
            const uint32_t j = tile.first + finite.replaced[n];
            if (j >= from && j < to) addWhereSeen(panel, tile.values.row(j - tile.first), j, from);
        }
    }

    float *part(size_t at) const { return scratch_ + at; }
    uint32_t rowCount(uint32_t panel) const { return std::min(panelRows, unit_.rows - panel * panelRows); }
    float *query(uint32_t panel) const { return part(at_.query) + size_t{panel} * panelRows * p_.headDim; }
    float *out(uint32_t panel) const { return part(at_.out) + size_t{panel} * panelRows * p_.valueDim; }
    float *stat(uint32_t panel, uint32_t which) const { return part(at_.stats) + (size_t{panel} * statsPerRow + which) * panelRows; }
    float *maximum(uint32_t panel) const { return stat(panel, 0); }
    float *sum(uint32_t panel) const { return stat(panel, 1); }
    float *seen(uint32_t panel) const { return stat(panel, 2); }
    float *rescale(uint32_t panel) const { return stat(panel, 3); }
    Reach *reaches() const { return reinterpret_cast<Reach *>(part(at_.reaches)); }
    TileRows tileOf(vkattn_role role, uint32_t begin, uint32_t end, float *copy) const {
        const bool reused = unit_.rows > panelRows;
        if (p_.keysLieInPieces()) return tileOfPieces(call_, role, *unit_.s, unit_.kvHead, begin, end, reused, copy);
        return tileRows(rowsOf(call_, role, *unit_.s, unit_.kvHead, begin), end - begin, reused, copy);
    }

    // Number of a row of the unit among those that share the key/value head.
    uint64_t rowOf(uint32_t r) const {
        const GridPatch &patch = unit_.patch;
        if (!patch.columns) return unit_.firstRow + r;
        const vkattn_grid &grid = p_.rules.grid;
        const uint64_t y = patch.row + r / patch.columns, x = patch.column + r % patch.columns;
        return ((uint64_t{patch.plane} * grid.extent[1] + y) * grid.extent[2] + x) * p_.groupSize() + patch.headOfGroup;
    }
    RowPlace placeOfRow(uint32_t r) const { return placeOf(p_, *unit_.s, unit_.kvHead, rowOf(r)); }
    // The same, where the panel of a patch has been placed.
    RowPlace placeOfPlacedRow(uint32_t r) const { return unit_.patch.columns ? rows_.places[r] : placeOfRow(r); }
    // Whether what rules show is looked up, or is the reach of rows_ already.
    void lookUpRules(bool looksUp) {
        rulesLookedUp_ = looksUp;
        lookUps_ = looksUp || hasPairLookUps(p_);
    }
    Pairs lookUp(uint32_t panel, uint32_t from, uint32_t to) {
        return lookUpPairs(call_, *unit_.s, unit_.b, rows_.places, rowCount(panel), from, to, part(at_.pairs), panelRows, rulesLookedUp_);
    }

    // Returns the first key from `from` on that the rules show to some row of the unit; `end` where none is.
    uint32_t firstSeen(uint32_t from, uint32_t end) {
        if (!rules_) return from;
        uint32_t seen = end;
        ShownBefore before;
        for (uint32_t r = 0; r < unit_.rows && seen > from; ++r)
            seen = firstShown(call_, *unit_.s, unit_.b, placeOfRow(r), from, seen, quiet_, before);
        return seen;
    }

    // Puts rows into lanes. Lanes without a row compute with zeros.
    void loadQueries(uint32_t panel) {
        const Tensor &t = p_.tensor(VKATTN_Q);
        const uint32_t rows = rowCount(panel), dims = p_.headDim;
        constexpr uint32_t together = panelRows < 4 ? 1 : 4;
        for (uint32_t r = 0; r < panelRows; r += together) {
            const float *from[4];
            for (uint32_t n = 0; n < together; ++n) {
                float *copy = part(at_.keys) + size_t{n} * dims;
                from[n] = copy;
                if (r + n >= rows) {
                    std::fill(copy, copy + dims, 0.0f);
                    continue;
                }
                const RowPlace own = placeOfPlacedRow(panel * panelRows + r + n);
                const StoredRows row = storedRows(t, call_.operands.data[VKATTN_Q], unit_.s->batch, own.head, unit_.s->query(own.query));
                if (areFloats(row))
                    from[n] = whereTheyLie(row).data;
                else
                    copyRows(row, 1, copy, dims);
            }
            float *to = query(panel) + r;
            if constexpr (together == 4)
                transposeFour(from, dims, to, panelRows);
            else
                for (uint32_t d = 0; d < dims; ++d) to[size_t{d} * panelRows] = from[0][d];
        }
        beginRows(panel);
    }
    void beginRows(uint32_t panel) {
        std::fill(out(panel), out(panel) + size_t{panelRows} * p_.valueDim, 0.0f);
        std::fill(maximum(panel), maximum(panel) + panelRows, minusInfinity);
        std::fill(sum(panel), sum(panel) + panelRows, 0.0f);
        std::fill(seen(panel), seen(panel) + panelRows, 0.0f);
    }

    // Sets rows_ to the rows of the panel, and returns their reach.
    Reach place(uint32_t panel) {
        Reach reach = {unit_.s->keys, 0, 0, unit_.s->keys};
        for (uint32_t r = 0; r < panelRows; ++r) {
            if (r < rowCount(panel)) {
                rows_.places[r] = placeOfRow(panel * panelRows + r);
                reach.begin = std::min(reach.begin, rows_.places[r].begin);
                reach.end = std::max(reach.end, rows_.places[r].end);
                reach.commonBegin = std::max(reach.commonBegin, rows_.places[r].begin);
                reach.commonEnd = std::min(reach.commonEnd, rows_.places[r].end);
            }
            rows_.set(r, call_, unit_.b, rows_.places[std::min(r, rowCount(panel) - 1)]);
        }
        return reach;
    }

    // Returns the result of lookUpPairs for key j and the rows in vector v; NULL without look-ups.
    HWY_INLINE const float *lookedUp(uint32_t j, uint32_t from, size_t v) const {
        return lookUps_ ? part(at_.pairs) + size_t{j - from} * panelRows + v * lanes : nullptr;
    }

    void maximumOfPlain(uint32_t keys, const float *scores) {
        const Floats f;
        for (size_t v = 0; v < vectors; ++v) {
            auto top = hn::Set(f, minusInfinity);
            const float *score = scores + v * lanes;
            for (uint32_t j = 0; j < keys; ++j, score += panelRows) top = hn::Max(top, hn::Load(f, score));
            tops_[v] = top;
            seenNow_[v] = hn::Set(f, 1.0f);
        }
    }

    // Turns scale * dot into scores with every option, and hidden scores into minus infinity.
    void applyOptions(uint32_t from, uint32_t to, bool hides, float *scores) {
        const Floats f;
        for (size_t v = 0; v < vectors; ++v) {
            const LanePairs pair(p_, rows_, v);
            auto top = hn::Set(f, minusInfinity);
            auto saw = hn::Zero(f);
            const auto one = hn::Set(f, 1.0f);
            for (uint32_t j = from; j < to; ++j) {
                float *score = scores + size_t{j - from} * panelRows + v * lanes;
                auto s = pair.score(hn::Load(f, score), j, lookedUp(j, from, v));
                if (hides) {
                    const auto shown = pair.visible(j, lookedUp(j, from, v));
                    s = hn::IfThenElse(shown, s, hn::Set(f, minusInfinity));
                    saw = hn::IfThenElse(shown, one, saw);
                }
                hn::Store(s, f, score);
                top = hn::Max(top, s);
            }
            tops_[v] = top;
            seenNow_[v] = hides ? saw : one;
        }
    }

    // Turns scores into weights, and updates maximum, sum and rescaling of the panel.
    void weigh(uint32_t panel, uint32_t keys) {
        const Floats f;
        for (size_t v = 0; v < vectors; ++v) {
            float *maximumOf = maximum(panel) + v * lanes, *sumOf = sum(panel) + v * lanes, *seenOf = seen(panel) + v * lanes;
            const auto before = hn::Load(f, maximumOf), now = hn::Max(before, tops_[v]);
            const Exponent weight(now);
            auto added = hn::Zero(f);
            float *score = part(at_.scores) + v * lanes;
            for (uint32_t j = 0; j < keys; ++j, score += panelRows) {
                const auto w = weight(hn::Load(f, score));
                hn::Store(w, f, score);
                added = hn::Add(added, w);
            }
            const auto factor = weight(before);
            hn::Store(factor, f, rescale(panel) + v * lanes);
            hn::Store(now, f, maximumOf);
            hn::Store(hn::MulAdd(hn::Load(f, sumOf), factor, added), f, sumOf);
            hn::Store(hn::Max(hn::Load(f, seenOf), seenNow_[v]), f, seenOf);
        }
    }

    // Turns scores into weights that are no shares of a sum.
    void weighWithoutSums(uint32_t panel, uint32_t keys) {
        const auto &program = *p_.program.program;
        for (size_t n = 0; n < size_t{keys} * panelRows; ++n) {
            float &each = part(at_.scores)[n];
            const auto score = static_cast<double>(each);
            each = !(score < std::numeric_limits<double>::infinity()) ? std::numeric_limits<float>::quiet_NaN()
                   : std::isinf(score)                                ? 0.0f // hidden pairs too
                                                                      : static_cast<float>(program.row(score));
            if (each == 0) each = 0; // no -0, which dropped pairs have
        }
        const Floats f;
        for (size_t v = 0; v < vectors; ++v) {
            const size_t at = v * lanes;
            hn::Store(hn::Set(f, 1.0f), f, rescale(panel) + at);
            hn::Store(hn::Zero(f), f, maximum(panel) + at);
            hn::Store(hn::Set(f, 1.0f), f, sum(panel) + at);
            hn::Store(hn::Max(hn::Load(f, seen(panel) + at), seenNow_[v]), f, seen(panel) + at);
        }
    }

    // Multiplies weights of the panel that was placed last with what a program makes of them. Their sum has
    // been taken.
    void weighWeights(uint32_t from, uint32_t to) {
        const Floats f;
        for (size_t v = 0; v < vectors; ++v) {
            const LanePairs pair(p_, rows_, v);
            for (uint32_t j = from; j < to; ++j) {
                float *const weight = part(at_.scores) + size_t{j - from} * panelRows + v * lanes;
                const auto given = hn::Load(f, weight), weighed = hn::Mul(given, pair.weighing(j)), zero = hn::Zero(f);
                // Hidden pairs stay 0 whatever the program says of them, and none becomes the -0 of dropped ones.
                hn::Store(hn::IfThenElse(hn::Or(hn::Eq(given, zero), hn::Eq(weighed, zero)), zero, weighed), f, weight);
            }
        }
    }

    // The weight of a dropped pair: -0, which adds nothing and which no other pair has.
    static constexpr uint32_t droppedBits = 0x80000000u;

    // Drops weights of the panel that was placed last. Their sum has been taken.
    void dropWeights(uint32_t from, uint32_t to) {
        const Floats f;
        const auto dropped = hn::BitCast(f, hn::Set(Words(), droppedBits));
        forDrawnKeys(from, to, [&](size_t at, LaneMask kept) {
            hn::Store(hn::IfThenElse(kept, hn::Load(f, part(at_.scores) + at), dropped), f, part(at_.scores) + at);
        });
    }
    // Calls visit(place among the scores, rows that keep the key) for the keys [from, to).
    template <class Visit> HWY_INLINE void forDrawnKeys(uint32_t from, uint32_t to, const Visit &visit) {
        for (size_t v = 0; v < vectors; ++v) {
            LaneDropout dropout(p_, rows_, v);
            for (uint32_t j = from; j < to; ++j) {
                if (j == from || j % 4 == 0) dropout.draw(j / 4);
                visit(size_t{j - from} * panelRows + v * lanes, dropout.keeps(j));
            }
        }
    }

    // Adds a key whose values are not finite to the rows that see and keep the key.
    void addWhereSeen(uint32_t panel, const float *value, uint32_t j, uint32_t from) {
        const Floats f;
        for (size_t v = 0; v < vectors; ++v) {
            const auto weight = hn::Load(f, part(at_.scores) + size_t{j - from} * panelRows + v * lanes);
            const auto kept = hn::RebindMask(f, hn::Ne(hn::BitCast(Words(), weight), hn::Set(Words(), droppedBits)));
            const auto shown = hn::And(LanePairs(p_, rows_, v).visible(j, lookedUp(j, from, v)), kept);
            float *to = out(panel) + v * lanes;
            for (uint32_t d = 0; d < p_.valueDim; ++d, to += panelRows) {
                const auto old = hn::Load(f, to);
                hn::Store(hn::IfThenElse(shown, hn::MulAdd(weight, hn::Set(f, value[d]), old), old), f, to);
            }
        }
    }

    void finish(uint32_t panel) {
        const uint32_t dims = p_.valueDim;
        for (uint32_t first = 0; first < rowCount(panel); first += 4) {
            const uint32_t rows = std::min(4u, rowCount(panel) - first);
            float *copies = part(at_.row);
            if constexpr (panelRows >= 4) {
                size_t d = 0;
                for (; d + 4 <= dims; d += 4) {
                    const float *from[4];
                    for (size_t n = 0; n < 4; ++n) from[n] = out(panel) + (d + n) * panelRows + first;
                    transposeFour(from, 4, copies + d, dims);
                }
                for (; d < dims; ++d)
                    for (uint32_t n = 0; n < rows; ++n) copies[n * dims + d] = out(panel)[d * panelRows + first + n];
            } else {
                for (size_t d = 0; d < dims; ++d)
                    for (uint32_t n = 0; n < rows; ++n) copies[n * dims + d] = out(panel)[d * panelRows + first + n];
            }
            for (uint32_t n = 0; n < rows; ++n) {
                const uint32_t r = first + n, row = panel * panelRows + r;
                const float *own = copies + size_t{n} * dims;
                if (unit_.partial) {
                    float *to = unit_.partial + row * call_.partialFloats();
                    std::copy(own, own + dims, to);
                    to[dims] = maximum(panel)[r];
                    to[dims + 1] = sum(panel)[r];
                    to[dims + 2] = seen(panel)[r];
                } else {
                    finishRow(call_, *unit_.s, placeOfPlacedRow(row), own, maximum(panel)[r], sum(panel)[r], seen(panel)[r] != 0);
                }
            }
        }
        if (!unit_.partial && p_.tensor(VKATTN_WEIGHTS).present()) writeWeights(panel);
        if (!unit_.partial && p_.tensor(VKATTN_SCORES).present()) writeScores(panel);
    }

    // Of a panel's rows, `value` for keys [from, to).
    void fillPairs(vkattn_role role, uint32_t panel, uint32_t from, uint32_t to, float value) {
        const Tensor &t = p_.tensor(role);
        for (uint32_t r = 0; r < rowCount(panel); ++r) {
            uint64_t at = t.index(unit_.b, rows_.places[r].head, rows_.places[r].query, from);
            for (uint32_t j = from; j < to; ++j, at += static_cast<uint64_t>(t.stride[3]))
                storeElement(call_.operands.data[role], t.dtype, at, value);
        }
    }
    // Of a panel's rows, what a tile of keys [from, to) has.
    void storePairs(vkattn_role role, uint32_t panel, uint32_t from, uint32_t to) {
        const Tensor &t = p_.tensor(role);
        for (uint32_t r = 0; r < rowCount(panel); ++r) {
            uint64_t at = t.index(unit_.b, rows_.places[r].head, rows_.places[r].query, from);
            for (uint32_t j = from; j < to; ++j, at += static_cast<uint64_t>(t.stride[3]))
                storeElement(call_.operands.data[role], t.dtype, at, part(at_.scores)[size_t{j - from} * panelRows + r]);
        }
    }
    // Keys that a panel's tensors over pairs have; those outside a sequence belong to nobody.
    uint32_t storedKeys() const { return p_.ragged() ? unit_.s->keys : p_.keyTokens; }

    // The scores once more, of all pairs where no stage hides any.
    void writeScores(uint32_t panel) {
        const Floats f;
        const bool final = p_.scoresStage == VKATTN_SCORES_FINAL;
        const Reach reach = place(panel);
        const uint32_t begin = final ? reach.begin : 0, end = final ? reach.end : unit_.s->keys;
        fillPairs(VKATTN_SCORES, panel, 0, storedKeys(), final ? minusInfinity : 0.0f);
        for (uint32_t from = begin; from < end; from += call_.tiling.tileKeys) {
            const uint32_t to = std::min(from + call_.tiling.tileKeys, end);
            if (final && lookUps_ && lookUp(panel, from, to) == Pairs::noneVisible) continue;
            scoreTile<vectors>(tileOf(VKATTN_K, from, to, part(at_.keys)), to - from, query(panel), p_.headDim,
                               p_.scoresStage == VKATTN_SCORES_RAW ? 1 : p_.scale, part(at_.scores));
            if (final) {
                applyOptions(from, to, true, part(at_.scores));
            } else if (p_.scoresStage == VKATTN_SCORES_CAPPED) {
                for (size_t v = 0; v < vectors; ++v) {
                    const LanePairs pair(p_, rows_, v);
                    for (uint32_t j = from; j < to; ++j) {
                        float *const score = part(at_.scores) + size_t{j - from} * panelRows + v * lanes;
                        hn::Store(pair.capped(hn::Load(f, score)), f, score);
                    }
                }
            }
            storePairs(VKATTN_SCORES, panel, from, to);
        }
    }

    // Computes the scores once more, now that the rows' maxima and sums are known.
    void writeWeights(uint32_t panel) {
        const Floats f;
        const Reach reach = place(panel);
        fillPairs(VKATTN_WEIGHTS, panel, 0, storedKeys(), 0); // past a key length they stay 0
        for (uint32_t from = reach.begin; from < reach.end; from += call_.tiling.tileKeys) {
            const uint32_t to = std::min(from + call_.tiling.tileKeys, reach.end);
            if (lookUps_ && lookUp(panel, from, to) == Pairs::noneVisible) continue;
            scoreTile<vectors>(tileOf(VKATTN_K, from, to, part(at_.keys)), to - from, query(panel), p_.headDim, p_.scale, part(at_.scores));
            applyOptions(from, to, true, part(at_.scores));
            for (size_t v = 0; v < vectors; ++v) {
                const LanePairs pair(p_, rows_, v);
                const Exponent weight(hn::Load(f, maximum(panel) + v * lanes));
                const auto total = hn::Load(f, sum(panel) + v * lanes);
                for (uint32_t j = from; j < to; ++j) {
                    float *score = part(at_.scores) + size_t{j - from} * panelRows + v * lanes;
                    const auto shown = pair.visible(j, lookedUp(j, from, v));
                    hn::Store(hn::IfThenElseZero(shown, hn::Div(weight(hn::Load(f, score)), total)), f, score);
                }
            }
            if (drops_ && p_.weightsDropped) { // a row that is NaN drops nothing
                const auto factor = hn::Set(f, static_cast<float>(dropoutFactor(p_.dropoutThreshold)));
                forDrawnKeys(from, to, [&](size_t at, LaneMask kept) {
                    const auto w = hn::Load(f, part(at_.scores) + at);
                    hn::Store(hn::IfThenElseZero(hn::Or(kept, hn::IsNaN(w)), hn::Mul(w, factor)), f, part(at_.scores) + at);
                });
            }
            storePairs(VKATTN_WEIGHTS, panel, from, to);
        }
    }

    const Call &call_;
    const Problem &p_;
    const Unit &unit_;
    const ScratchLayout at_;
    float *scratch_;
    const bool rules_ = p_.rules.showRuns(), plain_ = hasPlainScores(p_), drops_ = p_.drops(), weighs_ = p_.program.weighs();
    bool rulesLookedUp_ = rules_, lookUps_ = hasLookUps(p_);
    QuietKeys quiet_;
    PanelRows<vectors> rows_;
    Vector tops_[vectors], seenNow_[vectors];
};

} // namespace HWY_NAMESPACE
} // namespace vkattn
HWY_AFTER_NAMESPACE();
#endif
