#include "inspection.hpp"

#include "model/transformer.hpp"
#include "program/failure.hpp"
#include "program/files/npy.hpp"
#include "program/legible_text.hpp"

#include <filesystem>

namespace story {

using namespace vkattn::program;

Inspection::Inspection(const std::string &folder, std::vector<uint32_t> layers, const std::vector<std::string> &inputs)
    : layers_(std::move(layers)) {
    if (const std::error_code error = makeFolder(folder))
        throw Failure("--inspect " + folder + ": it cannot be made a folder (" + error.message() + ")");
    std::vector<OutputTarget> targets;
    const auto add = [&](const std::string &name) {
        paths_.push_back((std::filesystem::path(folder) / name).string());
        targets.push_back(checkOutputTarget("--inspect", paths_.back(), inputs, targets));
    };
    for (const uint32_t layer : layers_)
        for (const char *what : {"q", "k"}) add("layer" + std::to_string(layer) + "_" + what + ".npy");
    for (const char *name : {"layers_q.npy", "layers_k.npy", "tokens.txt"}) add(name);
    files_.reserve(targets.size());
    for (OutputTarget &target : targets) files_.emplace_back(std::move(target));
}

void Inspection::writeArray(size_t file, const std::vector<uint64_t> &shape, const std::vector<float> &numbers,
                            std::vector<WrittenArray> &written) {
    const std::string bytes = npyBytes(shape, numbers);
    files_[file].write(std::as_bytes(std::span(bytes)));
    files_[file].close();
    written.push_back({paths_[file], shape});
}

std::vector<WrittenArray> Inspection::write(const Transformer &model, uint32_t heads, uint32_t kvHeads, uint32_t headDim,
                                            std::span<const std::string> tokens) {
    std::vector<WrittenArray> written;
    std::vector<float> all[2]; // queries and keys
    const size_t layers = layers_.size();
    for (size_t n = 0; n < 2 * layers; ++n) {
        const bool queries = n % 2 == 0;
        const std::vector<float> numbers = queries ? model.queries(n / 2) : model.keys(n / 2);
        all[n % 2].insert(all[n % 2].end(), numbers.begin(), numbers.end());
        writeArray(n, {queries ? heads : kvHeads, model.computed(), headDim}, numbers, written);
    }
    for (size_t n = 0; n < 2; ++n)
        writeArray(2 * layers + n, {layers, n == 0 ? heads : kvHeads, model.computed(), headDim}, all[n], written);
    std::string lines;
    for (const std::string &token : tokens.first(model.computed())) lines += legibleLine(token) + "\n";
    files_.back().write(std::as_bytes(std::span(lines)));
    files_.back().close();
    written.push_back({paths_.back(), {}});
    for (OutputFile &file : files_) file.publish();
    return written;
}

} // namespace story
