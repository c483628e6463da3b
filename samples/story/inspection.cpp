#include "inspection.hpp"

#include "model/transformer.hpp"
#include "program/failure.hpp"
#include "program/files/npy.hpp"

#include <filesystem>

namespace story {

using namespace vkattn::program;

Inspection::Inspection(const std::string &folder, std::vector<uint32_t> layers, const std::vector<std::string> &inputs)
    : layers_(std::move(layers)) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (!std::filesystem::is_directory(folder))
        throw Failure("--inspect " + folder + ": it cannot be made a folder" + (error ? " (" + error.message() + ")" : ""));
    std::vector<OutputTarget> targets;
    for (const uint32_t layer : layers_)
        for (const char *what : {"q", "k"}) {
            const std::string name = "layer" + std::to_string(layer) + "_" + what + ".npy";
            paths_.push_back((std::filesystem::path(folder) / name).string());
            targets.push_back(checkOutputTarget("--inspect", paths_.back(), inputs, targets));
        }
    files_.reserve(targets.size());
    for (OutputTarget &target : targets) files_.emplace_back(std::move(target));
}

std::vector<WrittenArray> Inspection::write(const Transformer &model, uint32_t heads, uint32_t kvHeads, uint32_t headDim) {
    std::vector<WrittenArray> written;
    for (size_t n = 0; n < files_.size(); ++n) {
        const bool queries = n % 2 == 0;
        const std::vector<uint64_t> shape = {queries ? heads : kvHeads, model.computed(), headDim};
        const std::string header = npyHeaderBytes(npyFloat32, shape);
        const std::vector<float> numbers = queries ? model.queries(n / 2) : model.keys(n / 2);
        files_[n].write(std::as_bytes(std::span(header)));
        files_[n].write(std::as_bytes(std::span(numbers)));
        files_[n].close();
        written.push_back({paths_[n], shape});
    }
    for (OutputFile &file : files_) file.publish();
    return written;
}

} // namespace story
