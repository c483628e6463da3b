#include "checkpoint.hpp"

#include "text/binary_file.hpp"

#include "program/failure.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace story {
namespace {

using vkattn::program::Failure;
static_assert(std::endian::native == std::endian::little, "the files are little endian");

constexpr uint32_t headerWords = 7;
// Files of later versions begin with these letters.
constexpr uint32_t laterMagic = 0x616b3432;
// Far above any model of this format, and small enough that no product of them leaves 64 bits.
constexpr uint32_t mostDims = 1u << 16, mostLayers = 1u << 10, mostVocabulary = 1u << 24, mostPositions = 1u << 20;

class Header {
  public:
    Header(const std::string &path, const std::array<int32_t, headerWords> &words) : path_(path), words_(words) {}

    [[nodiscard]] Shape shape() const {
        if (static_cast<uint32_t>(words_[0]) == laterMagic)
            refuse("it is a checkpoint of version 1 or later: export it as version 0 (legacy), which is all float32");
        Shape shape{};
        shape.dims = field(0, "dim", mostDims);
        shape.hidden = field(1, "hidden_dim", mostDims);
        shape.layers = field(2, "n_layers", mostLayers);
        shape.heads = field(3, "n_heads", mostDims);
        shape.kvHeads = field(4, "n_kv_heads", mostDims);
        shape.tied = words_[5] > 0;
        shape.vocabulary = field(5, "vocab_size", mostVocabulary);
        shape.positions = field(6, "seq_len", mostPositions);
        if (shape.vocabulary < 3) refuse("vocab_size is " + std::to_string(shape.vocabulary) + ", expected at least 3: 1 begins a text");
        if (shape.dims % shape.heads != 0 || shape.headDim() % 2 != 0)
            refuse("dim " + std::to_string(shape.dims) + " is not n_heads " + std::to_string(shape.heads) + " times an even number");
        if (shape.heads % shape.kvHeads != 0)
            refuse("n_kv_heads " + std::to_string(shape.kvHeads) + " does not divide n_heads " + std::to_string(shape.heads));
        return shape;
    }
    [[noreturn]] void refuse(const std::string &reason) const { throw Failure("--model " + path_ + ": " + reason); }

  private:
    // A negative vocab_size says that the classifier is not tied.
    [[nodiscard]] uint32_t field(size_t n, const char *name, uint32_t most) const {
        const int64_t value = n == 5 ? std::abs(int64_t{words_[n]}) : int64_t{words_[n]};
        if (value < 1 || value > most)
            refuse(std::string(name) + " is " + std::to_string(words_[n]) + ", expected 1 to " + std::to_string(most) +
                   ": it is no llama2.c checkpoint of version 0");
        return static_cast<uint32_t>(value);
    }
    const std::string &path_;
    const std::array<int32_t, headerWords> &words_;
};

// An array of the file, in the file's order.
struct Array {
    const char *name;
    uint64_t count;
    std::span<const float> Checkpoint::*weights; // NULL: skipped
};

std::vector<Array> arraysOf(const Shape &s) {
    const uint64_t dims = s.dims, layers = s.layers, square = layers * dims * dims, kv = layers * s.kvDims() * dims,
                   wide = layers * s.hidden * dims, table = uint64_t{s.positions} * (s.headDim() / 2), vocabulary = s.vocabulary * dims;
    std::vector<Array> arrays = {{"token embedding", vocabulary, &Checkpoint::embedding},
                                 {"attention norm", layers * dims, &Checkpoint::attentionNorm},
                                 {"wq", square, &Checkpoint::wq},
                                 {"wk", kv, &Checkpoint::wk},
                                 {"wv", kv, &Checkpoint::wv},
                                 {"wo", square, &Checkpoint::wo},
                                 {"feed-forward norm", layers * dims, &Checkpoint::feedForwardNorm},
                                 {"w1", wide, &Checkpoint::w1},
                                 {"w2", wide, &Checkpoint::w2},
                                 {"w3", wide, &Checkpoint::w3},
                                 {"final norm", dims, &Checkpoint::finalNorm},
                                 {"rotary cosines", table, nullptr},
                                 {"rotary sines", table, nullptr}};
    if (!s.tied) arrays.push_back({"classifier", vocabulary, &Checkpoint::classifier});
    return arrays;
}

} // namespace

Checkpoint readCheckpoint(const std::string &path) {
    BinaryFile file("--model", path);
    std::array<int32_t, headerWords> words{};
    if (file.bytes() < sizeof words)
        file.fail("it has " + std::to_string(file.bytes()) + " bytes, expected a llama2.c checkpoint, whose header alone has " +
                  std::to_string(sizeof words));
    file.read(words.data(), sizeof words);
    const Header header(path, words);
    Checkpoint made;
    made.shape = header.shape();
    const std::vector<Array> arrays = arraysOf(made.shape);
    uint64_t count = 0;
    for (const Array &array : arrays) count += array.count;
    const uint64_t expected = sizeof words + count * sizeof(float);
    if (file.bytes() != expected)
        header.refuse("it has " + std::to_string(file.bytes()) + " bytes, and its header says " + std::to_string(expected) + ": " +
                      (file.bytes() < expected ? "the file is cut" : "it is no checkpoint of version 0, or something follows it"));
    made.numbers.resize(count);
    file.read(made.numbers.data(), count * sizeof(float));
    uint64_t at = 0;
    for (const Array &array : arrays) {
        const std::span<const float> part = std::span<const float>(made.numbers).subspan(at, array.count);
        at += array.count;
        if (!array.weights) continue;
        const auto bad = std::find_if(part.begin(), part.end(), [](float each) { return !std::isfinite(each); });
        if (bad != part.end())
            header.refuse("number " + std::to_string(bad - part.begin()) + " of " + array.name +
                          " is not finite, expected trained weights");
        made.*array.weights = part;
    }
    if (made.shape.tied) made.classifier = made.embedding;
    return made;
}

} // namespace story
