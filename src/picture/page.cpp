#include "picture/page.hpp"

#include "picture/colours.hpp"
#include "picture/page_text.hpp"
#include "picture/raster.hpp"
#include "program/json_text.hpp"
#include "program/legible_text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace vkattn::picture {
namespace {

using analysis::PooledWeights;
using program::Json, program::jsonNumber;

constexpr size_t mostReceivedCells = 256, mostSingularValues = 256;

// Five digits: what a reader sees, in few bytes.
Json shortNumber(double value) {
    if (!std::isfinite(value)) return jsonNumber(value);
    char text[32];
    std::snprintf(text, sizeof text, "%.5g", value);
    return std::strtod(text, nullptr);
}

Json shortNumbers(const std::vector<double> &values) {
    Json list = Json::array();
    for (const double value : values) list.push_back(shortNumber(value));
    return list;
}

// A hidden cell has code 0, one that is not finite 1, others their share of the head's largest. Where each
// cell is one weight there is room for 16 bits.
uint32_t codeOf(const PooledWeights &weights, size_t cell, double largest, uint32_t mostCode) {
    if (weights.cells[cell] == PooledWeights::hidden) return 0;
    if (weights.cells[cell] == PooledWeights::notFinite) return 1;
    const double share = largest > 0 ? std::clamp(static_cast<double>(weights.largest[cell]) / largest, 0.0, 1.0) : 0;
    return 2 + static_cast<uint32_t>(std::lround(share * (mostCode - 2)));
}

uint32_t placeBytes(const PooledWeights &weights) {
    const size_t pairs = weights.blockRows * weights.blockColumns;
    return pairs == 1 ? 0 : pairs <= 256 ? 1 : pairs <= 65536 ? 2 : 4;
}

uint32_t valueBytes(const PooledWeights &weights) {
    return weights.blockRows * weights.blockColumns == 1 ? 2 : 1;
}

// Planes of bytes, the lowest first, which compress better than whole numbers.
void appendPlanes(std::string &bytes, const std::vector<uint32_t> &numbers, uint32_t count) {
    for (uint32_t plane = 0; plane < count; plane++)
        for (const uint32_t number : numbers) bytes += static_cast<char>(number >> 8 * plane & 255);
}

void appendCells(std::string &bytes, const Head &head) {
    const PooledWeights &weights = head.weights;
    const double largest = ownLargest(head);
    std::vector<uint32_t> codes, places;
    for (size_t n = 0; n < weights.cells.size(); n++) {
        codes.push_back(codeOf(weights, n, largest, (1u << 8 * valueBytes(weights)) - 1));
        places.push_back(weights.cells[n] == PooledWeights::visible ? weights.places[n] : 0);
    }
    appendPlanes(bytes, codes, valueBytes(weights));
    appendPlanes(bytes, places, placeBytes(weights));
}

Json receivedJson(const std::vector<double> &received, size_t block) {
    std::vector<double> cells;
    for (size_t j = 0; j < received.size(); j += block)
        cells.push_back(*std::max_element(received.begin() + static_cast<std::ptrdiff_t>(j),
                                          received.begin() + static_cast<std::ptrdiff_t>(std::min(j + block, received.size()))));
    return shortNumbers(cells);
}

Json headJson(const Head &head) {
    const size_t receivedBlock = std::max<size_t>(1, (head.received.size() + mostReceivedCells - 1) / mostReceivedCells);
    Json json = {{"name", head.name},
                 {"kind", head.kind},
                 {"queries", head.weights.queries},
                 {"keys", head.weights.keys},
                 {"shift", head.shift},
                 {"rows", head.weights.rows},
                 {"columns", head.weights.columns},
                 {"block", head.weights.blockRows},
                 {"largest", ownLargest(head)},
                 {"valueBytes", valueBytes(head.weights)},
                 {"placeBytes", placeBytes(head.weights)},
                 {"figures", shortNumbers(head.figures)},
                 {"receivedBlock", receivedBlock},
                 {"received", receivedJson(head.received, receivedBlock)},
                 {"distances", Json::array()},
                 {"flows", Json::array()}};
    for (const DistanceBin &bin : distanceBins(head.distances))
        json["distances"].push_back({{"first", bin.first}, {"last", bin.last}, {"mass", shortNumber(bin.mass)}});
    const size_t singular = std::min(head.singularValues.size(), mostSingularValues);
    json["singular"] = shortNumbers({head.singularValues.begin(), head.singularValues.begin() + static_cast<std::ptrdiff_t>(singular)});
    json["allSingular"] = head.allSingularValues && singular == head.singularValues.size();
    for (const Flow &flow : head.flows)
        json["flows"].push_back({{"mask", flow.mask},
                                 {"kept", shortNumber(flow.kept)},
                                 {"distance", shortNumber(flow.distance)},
                                 {"entropy", shortNumber(flow.entropy)},
                                 {"reach", shortNumber(flow.reach)}});
    return json;
}

std::string mapText(ColourMap map) {
    std::string text;
    for (size_t entry = 0; entry < mapEntries; entry++) text += hexOf(entryOf(map, entry));
    return text;
}

Json dataOf(const Heads &heads) {
    bool notFinite = false;
    for (const Head &head : heads.heads)
        notFinite |= std::count(head.weights.cells.begin(), head.weights.cells.end(), PooledWeights::notFinite) > 0;
    size_t longest = 0;
    for (const Head &head : heads.heads) longest = std::max(longest, head.weights.keys);
    Json json = {{"facts", heads.facts},
                 {"inARow", heads.inARow},
                 {"maps", {{"viridis", mapText(ColourMap::viridis)}, {"Blues", mapText(ColourMap::blues)}}},
                 {"largest", sharedLargest(heads)},
                 {"notFinite", notFinite},
                 {"tokens", Json::array()},
                 {"figures", Json::array()},
                 {"heads", Json::array()},
                 {"likeness", Json::array()}};
    for (size_t n = 0; n < std::min(heads.tokens.size(), longest); n++) json["tokens"].push_back(program::legible(heads.tokens[n]));
    for (const Figure &figure : heads.figures)
        json["figures"].push_back({{"name", figure.name}, {"meaning", figure.meaning}, {"digits", figure.digits}});
    for (const Head &head : heads.heads) json["heads"].push_back(headJson(head));
    for (const Likeness &likeness : heads.likeness)
        json["likeness"].push_back(
            {{"name", likeness.name}, {"heads", likeness.heads}, {"divergence", shortNumbers(likeness.divergence.elements)}});
    return json;
}

} // namespace

std::string scriptText(const std::string &json) {
    std::string text;
    for (const char letter : json) text += letter == '<' ? std::string("\\u003c") : std::string(1, letter);
    return text;
}

std::string base64(const std::string &bytes) {
    constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text;
    text.reserve((bytes.size() + 2) / 3 * 4);
    for (size_t at = 0; at < bytes.size(); at += 3) {
        uint32_t group = 0;
        for (size_t n = 0; n < 3; n++) group = group << 8 | (at + n < bytes.size() ? static_cast<uint8_t>(bytes[at + n]) : 0u);
        for (size_t n = 0; n < 4; n++) text += at + n <= bytes.size() ? letters[group >> (18 - 6 * n) & 63] : '=';
    }
    return text;
}

std::vector<DistanceBin> distanceBins(const std::vector<double> &distances) {
    std::vector<DistanceBin> bins;
    for (size_t first = 0; first < distances.size();) {
        const size_t next = std::min(first < 4 ? first + 1 : 2 * first, distances.size());
        DistanceBin bin{first, next - 1, 0};
        for (size_t r = first; r < next; r++) bin.mass += distances[r];
        bins.push_back(bin);
        first = next;
    }
    return bins;
}

std::string pageOf(const Heads &heads) {
    std::string cells;
    for (const Head &head : heads.heads) appendCells(cells, head);
    return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, "
           "initial-scale=1\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
           "script-src 'unsafe-inline'\">\n<title>" +
           program::escapeMarkup(heads.title) + "</title>\n<style>\n" + pageStyle + "</style>\n</head>\n<body>\n" + pageMarkup +
           "<script type=\"application/json\" id=\"data\">" + scriptText(program::jsonText(dataOf(heads), -1)) +
           "</script>\n<script type=\"text/plain\" id=\"payload\">" + base64(deflated(cells)) + "</script>\n<script>\n" + pageScript +
           "</script>\n</body>\n</html>\n";
}

} // namespace vkattn::picture
