// Queries and keys of a model's layers as files that `vkattn run` takes.
#pragma once

#include "program/files/output_file.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace story {

class Transformer;

// What was written where.
struct WrittenArray {
    std::string path;
    std::vector<uint64_t> shape; // float32 [head, token, dim]
};

class Inspection {
  public:
    // Makes sure that the files can be written, before anything is computed. Throws Failure.
    Inspection(const std::string &folder, std::vector<uint32_t> layers, const std::vector<std::string> &inputs);
    // Files of the layers `kept`, from 0 on of what the model keeps. Throws Failure, or ComputeError.
    [[nodiscard]] std::vector<WrittenArray> write(const Transformer &model, uint32_t heads, uint32_t kvHeads, uint32_t headDim);

  private:
    std::vector<uint32_t> layers_;
    std::vector<std::string> paths_; // queries and keys of each layer
    std::vector<vkattn::program::OutputFile> files_;
};

} // namespace story
