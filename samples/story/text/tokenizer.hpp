// llama2.c tokenizers: pieces of text with scores. Encoding merges the pair of neighbours whose
// merged piece has the highest score until none is left (byte-pair encoding, Sennrich et al. 2016).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace story {

inline constexpr uint32_t beginToken = 1; // begins a text; where it is generated the text ends

class Tokenizer {
  public:
    // Reads as many tokens as the model has. Throws Failure, which names the file.
    Tokenizer(const std::string &path, uint32_t vocabulary);

    // Returns the tokens of the text behind beginToken. A text begins with a space that is not in
    // it, unless it is empty. A character without a piece becomes its bytes. Throws Failure where a
    // byte has no token.
    [[nodiscard]] std::vector<uint32_t> encode(std::string_view text) const;
    // Returns the text of a token: behind beginToken without its leading space. Pieces such as <0x0A>
    // are that byte. A single control character that is no white space is left out.
    [[nodiscard]] std::string decode(uint32_t before, uint32_t token) const;
    [[nodiscard]] uint32_t longestPiece() const { return longest_; } // bytes

  private:
    struct Piece {
        std::string text;
        float score;
    };
    std::vector<Piece> pieces_;
    std::unordered_map<std::string, uint32_t> ids_; // the first of equal pieces
    uint32_t longest_ = 0;
};

} // namespace story
