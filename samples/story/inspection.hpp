// Queries and keys of a model's layers as files that `vkattn run` and `vkattn inspect` take.
#pragma once

#include "program/files/output_file.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace story {

class Transformer;

// What was written where.
struct WrittenArray {
    std::string path;
    std::vector<uint64_t> shape; // float32 [head, token, dim], with the layers before in what holds all; empty: text
};

class Inspection {
  public:
    // Makes sure that the files can be written, before anything is computed. Throws Failure.
    Inspection(const std::string &folder, std::vector<uint32_t> layers, const std::vector<std::string> &inputs);
    // Files of each of the layers that the model keeps, of all of them together, and the texts of the
    // tokens, a line each. Throws Failure, or ComputeError.
    [[nodiscard]] std::vector<WrittenArray> write(const Transformer &model, uint32_t heads, uint32_t kvHeads, uint32_t headDim,
                                                  std::span<const std::string> tokens);

  private:
    void writeArray(size_t file, const std::vector<uint64_t> &shape, const std::vector<float> &numbers, std::vector<WrittenArray> &written);

    std::vector<uint32_t> layers_;
    std::vector<std::string> paths_; // queries and keys of each layer, then of all layers, then the tokens
    std::vector<vkattn::program::OutputFile> files_;
};

} // namespace story
