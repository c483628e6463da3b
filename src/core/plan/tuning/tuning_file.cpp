// Reading a tuning file: text, one row of the tuning table a line (docs/tuning.md).
#include "core/plan/tuning/tuning.hpp"
#include "lib/interop.h"
#include "util/diagnostic.hpp"

#include <cstring>

namespace vkattn {
namespace {

class Words {
  public:
    Words(const char *begin, const char *end) : at_(begin), end_(end) {}
    // The next word, empty at the end of the line.
    [[nodiscard]] bool next(const char *&word, size_t &length) {
        while (at_ < end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r')) ++at_;
        word = at_;
        while (at_ < end_ && *at_ != ' ' && *at_ != '\t' && *at_ != '\r') ++at_;
        length = static_cast<size_t>(at_ - word);
        return length != 0;
    }

  private:
    const char *at_, *end_;
};

bool is(const char *word, size_t length, const char *expected) {
    return length == std::strlen(expected) && std::memcmp(word, expected, length) == 0;
}

// A word of the file as a message may show it: any bytes may come, and messages are UTF-8.
struct Shown {
    char text[41] = {};
    Shown(const char *word, size_t length) {
        for (size_t n = 0; n < length && n + 1 < sizeof text; ++n) text[n] = word[n] >= 0x20 && word[n] < 0x7f ? word[n] : '?';
    }
};

template <class Row> struct Field {
    const char *name;
    uint32_t Row::*member;
    uint32_t least, most;
};
constexpr Field<FlashTile> tileFields[] = {
    {"minDim", &FlashTile::minDim, 1, 2048},         {"maxDim", &FlashTile::maxDim, 1, 2048},
    {"dimLanes", &FlashTile::dimLanes, 1, 64},       {"keyLanes", &FlashTile::keyLanes, 1, 1024},
    {"rowLanes", &FlashTile::rowLanes, 1, 1024},     {"rowsPerLane", &FlashTile::rowsPerLane, 1, 16},
    {"keysPerLane", &FlashTile::keysPerLane, 1, 16}, {"source", &FlashTile::source, 0, 2},
    {"tileKeys", &FlashTile::tileKeys, 1, 1024},     {"subgroups", &FlashTile::subgroups, 0, 1},
    {"wholeRuns", &FlashTile::wholeRuns, 0, 1},      {"rolledEdges", &FlashTile::rolledEdges, 0, 1},
};

constexpr Field<MatrixTile> matrixFields[] = {{"minDim", &MatrixTile::minDim, 1, 256},
                                              {"maxDim", &MatrixTile::maxDim, 1, 256},
                                              {"subgroups", &MatrixTile::subgroups, 1, 32},
                                              {"rowBlocks", &MatrixTile::rowBlocks, 1, 8},
                                              {"tileKeys", &MatrixTile::tileKeys, 8, 256}};

// The first word of a line says which list the row is for.
constexpr uint32_t lists = 3, flashList = uint32_t(TileList::flash), decodeList = uint32_t(TileList::decode),
                   matrixList = uint32_t(TileList::matrix);
bool listOf(const char *word, size_t length, uint32_t &list) {
    constexpr const char *names[lists] = {"flash", "decode", "flash_coopmat"};
    for (uint32_t n = 0; n < lists; ++n)
        if (is(word, length, names[n])) return list = n, true;
    return false;
}

using Rate = FlashTuning::Rate;
constexpr Field<Rate> rateFields[] = {
    {"minDim", &Rate::minDim, 1, 2048}, {"maxDim", &Rate::maxDim, 1, 2048}, {"mflops", &Rate::mflops, 1, 2'000'000'000}};

// The fields of a line into `out`.
template <class Row, size_t count>
vkattn_result readFields(Words words, uint32_t line, const Field<Row> (&known)[count], Row &out, vkattn_diagnostic *why) {
    const char *word;
    size_t length;
    while (words.next(word, length)) {
        const auto *equals = static_cast<const char *>(std::memchr(word, '=', length));
        const Field<Row> *field = nullptr;
        for (const Field<Row> &each : known)
            if (equals && is(word, static_cast<size_t>(equals - word), each.name)) field = &each;
        if (!field)
            return fail(why, invalid, "tuning line %u: '%s', expected name=number with a name such as %s (docs/tuning.md)", line,
                        Shown(word, length).text, known[count - 1].name);
        uint64_t value = 0;
        bool digits = equals + 1 < word + length;
        for (const char *c = equals + 1; c < word + length; ++c) {
            digits = digits && *c >= '0' && *c <= '9' && value < 1'000'000'000;
            if (digits) value = value * 10 + static_cast<uint64_t>(*c - '0');
        }
        if (!digits || value < field->least || value > field->most)
            return fail(why, invalid, "tuning line %u: %s is '%s', expected %u to %u", line, field->name,
                        Shown(equals + 1, static_cast<size_t>(word + length - equals - 1)).text, field->least, field->most);
        out.*field->member = static_cast<uint32_t>(value);
    }
    if (out.maxDim == 0) return fail(why, invalid, "tuning line %u has no maxDim", line);
    if (out.minDim > out.maxDim)
        return fail(why, invalid, "tuning line %u: minDim is %u, expected at most maxDim %u", line, out.minDim, out.maxDim);
    return VKATTN_OK;
}

vkattn_result readRate(Words words, uint32_t line, FlashTuning &tuning, uint32_t (&counts)[lists], vkattn_diagnostic *why) {
    const char *word = "";
    size_t length = 0;
    uint32_t list = 0;
    if (!words.next(word, length) || !listOf(word, length, list))
        return fail(why, invalid, "tuning line %u: rate '%s', expected flash, decode or flash_coopmat", line, Shown(word, length).text);
    if (counts[list] == FlashTuning::maxFileTiles)
        return fail(why, invalid, "tuning line %u: more than %u rates of one kernel", line, FlashTuning::maxFileTiles);
    Rate *const rates[lists] = {tuning.flashRates, tuning.decodeRates, tuning.matrixRates};
    Rate &rate = rates[list][counts[list]++];
    rate = {1, 0, 0};
    if (const auto r = readFields(words, line, rateFields, rate, why)) return r;
    return rate.mflops ? VKATTN_OK : fail(why, invalid, "tuning line %u has no mflops", line);
}

vkattn_result readTile(Words words, uint32_t line, FlashTile &tile, vkattn_diagnostic *why) {
    tile = {0, 1, 1, 1, 1, 1, interop::sourceDirect, 1, 0, 0, 0, 1, true};
    if (const auto r = readFields(words, line, tileFields, tile, why)) return r;
    const auto powerOfTwo = [](uint32_t n) { return (n & (n - 1)) == 0; };
    if (!powerOfTwo(tile.dimLanes))
        return fail(why, invalid, "tuning line %u: dimLanes is %u, expected a power of two", line, tile.dimLanes);
    if (tile.rowsPerLane * tile.keysPerLane > 32)
        return fail(why, invalid, "tuning line %u: rowsPerLane %u times keysPerLane %u is over 32", line, tile.rowsPerLane,
                    tile.keysPerLane);
    if (tile.source == interop::sourceShared && (tile.keyLanes > 1 || (tile.dimLanes > 1 && !tile.subgroups)))
        return fail(why, invalid, "tuning line %u: source 1 needs keyLanes=1, and dimLanes=1 or subgroups=1", line);
    if (tile.source == interop::sourceShuffled && (tile.dimLanes > 1 || tile.keyLanes > 1))
        return fail(why, invalid, "tuning line %u: source 2 needs dimLanes=1 and keyLanes=1", line);
    if (tile.source == interop::sourceShared && tile.tileKeys % tile.step() != 0)
        return fail(why, invalid, "tuning line %u: tileKeys %u is no multiple of keysPerLane %u", line, tile.tileKeys, tile.keysPerLane);
    if (tile.source == interop::sourceShuffled && !tile.subgroups)
        return fail(why, invalid, "tuning line %u: source 2 needs subgroups=1", line);
    return VKATTN_OK;
}

vkattn_result readMatrixTile(Words words, uint32_t line, MatrixTile &tile, vkattn_diagnostic *why) {
    tile = {0, 1, 1, 32, 1};
    if (const auto r = readFields(words, line, matrixFields, tile, why)) return r;
    if (tile.tileKeys % 8)
        return fail(why, invalid, "tuning line %u: tileKeys is %u, expected a multiple of 8, and of the device's matrices", line,
                    tile.tileKeys);
    if (tile.rowBlocks & (tile.rowBlocks - 1))
        return fail(why, invalid, "tuning line %u: rowBlocks is %u, expected a power of two", line, tile.rowBlocks);
    return VKATTN_OK;
}

// The table's rows after `count` rows of a file: they take the dims that the file says nothing
// about.
template <class Tile> void addBuiltIn(Tile (&tiles)[FlashTuning::maxTiles], uint32_t count, const Tile (&builtIn)[FlashTuning::maxTiles]) {
    for (uint32_t n = 0; count < FlashTuning::maxTiles; ++count) tiles[count] = builtIn[n++];
}

} // namespace

vkattn_result readTuning(const void *bytes, size_t size, FlashTuning &tuning, vkattn_diagnostic *why) {
    if (size == 0) return VKATTN_OK;
    const char *at = static_cast<const char *>(bytes), *end = at + size;
    FlashTuning given = tuning; // but for the tiles
    uint32_t counts[lists] = {}, rates[lists] = {};
    for (uint32_t line = 1; at < end; ++line) {
        const auto *newline = static_cast<const char *>(std::memchr(at, '\n', static_cast<size_t>(end - at)));
        const char *lineEnd = newline ? newline : end;
        Words words(at, lineEnd);
        at = newline ? newline + 1 : end;
        const char *word;
        size_t length;
        if (!words.next(word, length)) {
            if (line == 1) return fail(why, invalid, "a tuning file begins with the line 'vkattn-tuning 1'");
            continue;
        }
        if (line == 1) {
            if (!is(word, length, "vkattn-tuning") || !words.next(word, length) || !is(word, length, "1"))
                return fail(why, invalid, "a tuning file begins with the line 'vkattn-tuning 1'; make a new one with `vkattn tune`");
            continue;
        }
        if (*word == '#') continue;
        if (is(word, length, "rate")) {
            if (const auto r = readRate(words, line, given, rates, why)) return r;
            continue;
        }
        uint32_t list = 0;
        if (!listOf(word, length, list))
            return fail(why, invalid, "tuning line %u begins with '%s', expected flash, decode, flash_coopmat, rate or #", line,
                        Shown(word, length).text);
        if (counts[list] == FlashTuning::maxFileTiles)
            return fail(why, invalid, "tuning line %u: more than %u rows of one kernel", line, FlashTuning::maxFileTiles);
        const uint32_t row = counts[list]++;
        if (const auto r = list == matrixList   ? readMatrixTile(words, line, given.matrix[row], why)
                           : list == decodeList ? readTile(words, line, given.decode[row], why)
                                                : readTile(words, line, given.flash[row], why))
            return r;
    }
    addBuiltIn(given.flash, counts[flashList], tuning.flash);
    addBuiltIn(given.decode, counts[decodeList], tuning.decode);
    addBuiltIn(given.matrix, counts[matrixList], tuning.matrix);
    tuning = given;
    return VKATTN_OK;
}

} // namespace vkattn
