// Weights from a file.
#include "program/failure.hpp"
#include "program/files/npy.hpp"
#include "tool/arrays/convert.hpp"
#include "tool/arrays/memory.hpp"
#include "tool/inspect/head_source.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace vkattn::tool {
using namespace program;
namespace {

constexpr size_t chunkItems = 65536;

class WeightsSource : public HeadSource {
  public:
    explicit WeightsSource(const InspectArguments &arguments) : arguments_(arguments), path_(arguments.weights), file_(open()) {
        const NpyHeader &header = file_.header();
        const NpyType type = header.type;
        if (type != npyFloat16 && type != npyFloat32 && type != npyFloat64)
            fail("it holds " + npyTypeName(type) +
                 ", but --weights takes float16, float32 or float64: convert with array.astype(np.float32)");
        const std::vector<uint64_t> &shape = header.shape;
        if (shape.size() < 2 || shape.size() > 4)
            fail("shape " + npyShapeText(shape) + " has " + std::to_string(shape.size()) +
                 (shape.size() == 1 ? " dimension" : " dimensions") +
                 ", expected 2 to 4: [query, key], [head, query, key] or [batch, head, query, key]");
        for (const uint64_t extent : shape)
            if (extent == 0 || extent > std::numeric_limits<uint32_t>::max())
                fail("shape " + npyShapeText(shape) + " has a dimension of " + std::to_string(extent) +
                     ", expected at least one of each and at most 4294967295");
        uint64_t extents[4] = {1, 1, 1, 1};
        std::copy(shape.begin(), shape.end(), extents + 4 - shape.size());
        facts_.text = path_;
        facts_.inputs = {path_};
        facts_.visibleFromWeights = !arguments.zerosVisible;
        facts_.batch = static_cast<uint32_t>(extents[0]), facts_.heads = static_cast<uint32_t>(extents[1]);
        facts_.queries = static_cast<uint32_t>(extents[2]), facts_.keys = static_cast<uint32_t>(extents[3]);
        facts_.rowShape.assign(shape.begin(), shape.end() - 1);
        facts_.keyShape.assign(shape.begin(), shape.end() - 2);
        facts_.keyShape.push_back(extents[3]);
        const uint64_t pairs = extents[2] * extents[3], kept = header.fortranOrder ? header.dataBytes / type.itemBytes : pairs;
        checkMemory({{path_ + " as doubles", kept * sizeof(double)}, {"one head", pairs * (sizeof(double) + 1)}});
    }
    [[nodiscard]] const SourceFacts &facts() const override { return facts_; }

    void start() override {
        if (!file_.header().fortranOrder) return;
        whole_.resize(static_cast<size_t>(file_.header().dataBytes / file_.header().type.itemBytes));
        read(whole_);
    }

    [[nodiscard]] std::optional<HeadStatistics> statistics(uint32_t, uint32_t, const StatisticsRequest &) override { return {}; }
    [[nodiscard]] analysis::HeadWeights head(uint32_t batch, uint32_t head) override {
        analysis::Matrix weights(facts_.queries, facts_.keys);
        if (whole_.empty())
            read(weights.elements);
        else
            for (size_t i = 0; i < weights.rows; i++)
                for (size_t j = 0; j < weights.columns; j++)
                    weights(i, j) = whole_[batch + size_t{facts_.batch} * (head + facts_.heads * (i + weights.rows * j))];
        const auto negative = std::find_if(weights.elements.begin(), weights.elements.end(), [](double weight) { return weight < 0; });
        if (negative != weights.elements.end()) {
            const auto at = static_cast<size_t>(negative - weights.elements.begin());
            fail("the weight of batch entry " + std::to_string(batch) + ", head " + std::to_string(head) + ", query " +
                 std::to_string(at / weights.columns) + ", key " + std::to_string(at % weights.columns) + " is " +
                 std::to_string(*negative) + ", expected weights of 0 or more: give what softmax returns, not scores");
        }
        analysis::HeadWeights found = analysis::fromWeights(std::move(weights));
        if (arguments_.topLeft) found.shift = 0;
        if (arguments_.zerosVisible) showZeros(found);
        return found;
    }
    [[nodiscard]] std::optional<analysis::Geometry> geometry(const analysis::HeadWeights &) const override { return {}; }
    [[nodiscard]] SourceDevice device() const override { return {}; }
    [[nodiscard]] uint64_t firstRow(uint32_t batch, uint32_t head) const override {
        return (uint64_t{batch} * facts_.heads + head) * facts_.queries;
    }
    [[nodiscard]] uint64_t firstKey(uint32_t batch, uint32_t head) const override {
        return (uint64_t{batch} * facts_.heads + head) * facts_.keys;
    }

  private:
    [[noreturn]] void fail(const std::string &reason) const { throw Failure(path_ + ": " + reason); }
    NpyFile open() const {
        std::string why;
        std::optional<NpyFile> file = NpyFile::open(path_, why);
        if (!file) fail(why);
        return std::move(*file);
    }

    // Hidden is what the positions say, and nothing else.
    void showZeros(analysis::HeadWeights &head) const {
        const bool window = (arguments_.flags & VKATTN_WINDOW) != 0, causal = (arguments_.flags & VKATTN_CAUSAL) != 0;
        constexpr int64_t open = std::numeric_limits<int64_t>::max();
        const int64_t left = window && arguments_.windowLeft >= 0 ? arguments_.windowLeft : open;
        const int64_t right = causal ? 0 : window && arguments_.windowRight >= 0 ? arguments_.windowRight : open;
        for (size_t i = 0; i < head.queries(); i++)
            for (size_t j = 0; j < head.keys(); j++) {
                const int64_t offset = static_cast<int64_t>(j) - head.position(i);
                head.visible[i * head.keys() + j] = -offset <= left && offset <= right ? 1 : 0;
            }
    }

    // The next weights of the file.
    void read(std::span<double> into) {
        const uint32_t itemBytes = file_.header().type.itemBytes;
        std::vector<std::byte> bytes(std::min(into.size(), chunkItems) * itemBytes);
        std::vector<float> floats(std::min(into.size(), chunkItems));
        std::string why;
        for (size_t begin = 0; begin < into.size(); begin += chunkItems) {
            const size_t count = std::min(chunkItems, into.size() - begin);
            if (!file_.read(std::span(bytes).first(count * itemBytes), why)) fail(why);
            if (itemBytes == sizeof(double)) {
                std::memcpy(into.data() + begin, bytes.data(), count * sizeof(double));
                continue;
            }
            if (itemBytes == sizeof(float))
                std::memcpy(floats.data(), bytes.data(), count * sizeof(float));
            else
                convert(VKATTN_F16, bytes.data(), VKATTN_F32, floats.data(), count);
            std::copy_n(floats.begin(), count, into.begin() + static_cast<ptrdiff_t>(begin));
        }
    }

    const InspectArguments &arguments_;
    std::string path_;
    NpyFile file_;
    SourceFacts facts_;
    std::vector<double> whole_; // of a file in Fortran order
};

} // namespace

std::unique_ptr<HeadSource> weightsSource(const InspectArguments &arguments) {
    return std::make_unique<WeightsSource>(arguments);
}

} // namespace vkattn::tool
