#include "tokenizer.hpp"

#include "binary_file.hpp"

#include <cctype>
#include <cmath>
#include <optional>

namespace story {
namespace {

constexpr uint32_t mostPieceBytes = 1u << 16;

// "<0x0A>" is the byte 10.
std::optional<unsigned char> byteOf(const std::string &piece) {
    if (piece.size() != 6 || piece.compare(0, 3, "<0x") != 0 || piece[5] != '>') return std::nullopt;
    const auto digit = [](char c) {
        return std::isxdigit(static_cast<unsigned char>(c)) ? (c <= '9' ? c - '0' : (c | 32) - 'a' + 10) : -1;
    };
    const int high = digit(piece[3]), low = digit(piece[4]);
    if (high < 0 || low < 0) return std::nullopt;
    return static_cast<unsigned char>(high * 16 + low);
}

std::string pieceOf(unsigned char byte) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", byte);
    return text;
}

bool continuesCharacter(char c) {
    return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

} // namespace

Tokenizer::Tokenizer(const std::string &path, uint32_t vocabulary) {
    BinaryFile file("--tokenizer", path);
    const std::string expected = ", expected the tokenizer of a model of " + std::to_string(vocabulary) + " tokens";
    uint64_t left = file.bytes();
    const auto read = [&](void *into, uint64_t bytes, const std::string &within) {
        if (bytes > left) file.fail("it ends within " + within + expected + ": the file is cut, or another model's");
        file.read(into, bytes);
        left -= bytes;
    };
    int32_t longest = 0;
    read(&longest, sizeof longest, "the length of the longest token");
    if (longest < 1 || longest > static_cast<int32_t>(mostPieceBytes))
        file.fail("its longest token has " + std::to_string(longest) + " bytes" + expected);
    longest_ = static_cast<uint32_t>(longest);
    for (uint32_t n = 0; n < vocabulary; ++n) {
        const std::string token = "token " + std::to_string(n);
        Piece piece{};
        int32_t bytes = 0;
        read(&piece.score, sizeof piece.score, token);
        read(&bytes, sizeof bytes, token);
        if (!std::isfinite(piece.score)) file.fail("the score of " + token + " is not finite" + expected);
        if (bytes < 0 || bytes > longest)
            file.fail(token + " has " + std::to_string(bytes) + " bytes, and the longest " + std::to_string(longest) + expected);
        piece.text.resize(static_cast<size_t>(bytes));
        read(piece.text.data(), piece.text.size(), token);
        ids_.emplace(piece.text, n);
        pieces_.push_back(std::move(piece));
    }
    if (left > 0)
        file.fail("it goes on for " + std::to_string(left) + " bytes behind token " + std::to_string(vocabulary - 1) + expected +
                  ": it is another model's");
}

std::vector<uint32_t> Tokenizer::encode(std::string_view text) const {
    std::vector<uint32_t> tokens = {beginToken};
    const auto add = [&](const std::string &character) {
        if (const auto found = ids_.find(character); found != ids_.end()) return tokens.push_back(found->second);
        for (const char c : character) {
            const std::string piece = pieceOf(static_cast<unsigned char>(c));
            const auto byte = ids_.find(piece);
            if (byte == ids_.end())
                throw vkattn::program::Failure("--prompt: the tokenizer has neither '" + character + "' nor its byte " + piece +
                                               ": leave the character out");
            tokens.push_back(byte->second);
        }
    };
    if (!text.empty()) add(" ");
    for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
        end = begin + 1;
        while (end < text.size() && end - begin < 4 && continuesCharacter(text[end])) ++end;
        add(std::string(text.substr(begin, end - begin)));
    }
    for (;;) {
        size_t best = 0;
        uint32_t merged = 0;
        for (size_t n = 1; n + 1 < tokens.size(); ++n) { // the first token begins the text
            const auto found = ids_.find(pieces_[tokens[n]].text + pieces_[tokens[n + 1]].text);
            if (found == ids_.end() || (best > 0 && !(pieces_[found->second].score > pieces_[merged].score))) continue;
            best = n, merged = found->second;
        }
        if (best == 0) return tokens;
        tokens[best] = merged;
        tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
}

std::string Tokenizer::decode(uint32_t before, uint32_t token) const {
    std::string text = pieces_[token].text;
    if (before == beginToken && text.starts_with(' ')) text.erase(0, 1);
    if (const auto byte = byteOf(text)) text.assign(1, static_cast<char>(*byte));
    const auto first = static_cast<unsigned char>(text.empty() ? ' ' : text[0]);
    if (text.size() == 1 && std::iscntrl(first) && !std::isspace(first)) text.clear();
    return text;
}

} // namespace story
