#include "state/checkpoint.hpp"

#include "program/failure.hpp"
#include "program/files/output_file.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <system_error>

namespace train {
namespace {

using vkattn::program::Failure;
namespace fs = std::filesystem;
static_assert(std::endian::native == std::endian::little, "the files are little endian");

constexpr char magic[8] = {'v', 'k', 't', 'r', 'a', 'i', 'n', '1'};
constexpr uint32_t mostSteps = 1u << 20, deviceBytes = 256;

// The start of the file. Every field is a multiple of eight bytes, so that none has a gap behind it.
struct Header {
    char magic[8];
    uint64_t symbols, copied, sequences, dims, heads;
    uint64_t seed;
    double dropout;
    uint64_t weights, steps;
    char device[deviceBytes];
};
static_assert(sizeof(Header) == 8 * 10 + deviceBytes);

uint64_t bytesOf(uint64_t weights, uint64_t steps) {
    return sizeof(Header) + 3 * weights * sizeof(float) + steps * sizeof(StepFigures) + sizeof(uint64_t);
}

// FNV-1a of 64 bits: against damage, not against an adversary.
uint64_t checksumOf(std::span<const std::byte> bytes) {
    uint64_t sum = 0xcbf29ce484222325u;
    for (const std::byte byte : bytes) sum = (sum ^ static_cast<uint64_t>(byte)) * 0x100000001b3u;
    return sum;
}

Header headerOf(const Configuration &c, const State &state) {
    Header h{};
    std::memcpy(h.magic, magic, sizeof magic);
    h.symbols = c.shape.symbols, h.copied = c.shape.copied, h.sequences = c.shape.sequences;
    h.dims = c.shape.dims, h.heads = c.shape.heads;
    h.seed = c.seed, h.dropout = c.dropout;
    h.weights = state.weights.weights.size(), h.steps = state.steps();
    std::memcpy(h.device, state.device.data(), std::min<size_t>(state.device.size(), deviceBytes - 1));
    return h;
}

class Reader {
  public:
    explicit Reader(const std::string &path) : path_(path) {}

    [[noreturn]] void refuse(const std::string &reason) const { throw Failure("--checkpoint " + path_ + ": " + reason); }

    std::vector<std::byte> read() const {
        std::error_code error;
        if (!fs::is_regular_file(path_, error)) refuse("it is not a regular file: name a file, which is made where it is missing");
        const uint64_t bytes = fs::file_size(path_, error);
        if (error) refuse(error.message());
        if (bytes > bytesOf(1u << 24, mostSteps)) refuse("it has " + std::to_string(bytes) + " bytes: it is no checkpoint of this program");
        std::vector<std::byte> content(bytes);
        const std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(path_.c_str(), "rb"), std::fclose);
        if (!file) refuse(std::strerror(errno));
        if (std::fread(content.data(), 1, bytes, file.get()) != bytes) refuse("it could not be read to its end");
        return content;
    }

    // The header of a file that is whole.
    Header check(const std::vector<std::byte> &content) const {
        Header h{};
        if (content.size() >= sizeof h) std::memcpy(&h, content.data(), sizeof h);
        if (std::memcmp(h.magic, magic, sizeof magic) != 0) refuse("it is no checkpoint of this program: name another file, or delete it");
        if (h.weights > content.size() || h.steps > mostSteps || content.size() != bytesOf(h.weights, h.steps))
            refuse("it is damaged: it has " + std::to_string(content.size()) +
                   " bytes, and its header says otherwise: delete it, or name another file");
        uint64_t sum = 0;
        const std::span<const std::byte> all(content);
        std::memcpy(&sum, all.last(sizeof sum).data(), sizeof sum);
        if (sum != checksumOf(all.first(all.size() - sizeof sum)))
            refuse("it is damaged: its checksum does not fit its content: delete it, or name another file");
        return h;
    }

    // Refuses a file of another run.
    void compare(const Header &found, const Header &expected) const {
        const auto differs = [&](const std::string &what, const std::string &has, const std::string &wants, const std::string &advice) {
            refuse("it is of another run: " + what + " is " + has + " there, and " + wants + " here: " + advice + ", or name another file");
        };
        const auto text = [](double number) {
            char digits[32];
            std::snprintf(digits, sizeof digits, "%.17g", number);
            for (int precision = 1; precision < 17; ++precision) { // the shortest that is the number
                char shorter[32];
                std::snprintf(shorter, sizeof shorter, "%.*g", precision, number);
                if (std::strtod(shorter, nullptr) == number) return std::string(shorter);
            }
            return std::string(digits);
        };
        if (found.seed != expected.seed)
            differs("--seed", std::to_string(found.seed), std::to_string(expected.seed), "give --seed " + std::to_string(found.seed));
        if (found.dropout != expected.dropout)
            differs("--dropout", text(found.dropout), text(expected.dropout), "give --dropout " + text(found.dropout));
        const struct {
            const char *name;
            uint64_t has, wants;
        } fields[] = {{"the number of symbols", found.symbols, expected.symbols},
                      {"the number of symbols in a sequence", found.copied, expected.copied},
                      {"the number of sequences in a step", found.sequences, expected.sequences},
                      {"the number of dims", found.dims, expected.dims},
                      {"the number of heads", found.heads, expected.heads},
                      {"the number of weights", found.weights, expected.weights}};
        for (const auto &field : fields)
            if (field.has != field.wants)
                differs(field.name, std::to_string(field.has), std::to_string(field.wants),
                        "use the version of this program that wrote it");
    }

  private:
    const std::string &path_;
};

} // namespace

std::optional<State> readCheckpoint(const std::string &path, const Configuration &configuration) {
    std::error_code error;
    if (!fs::exists(path, error)) return {};
    const Reader reader(path);
    const std::vector<std::byte> content = reader.read();
    const Header header = reader.check(content);
    State state;
    const size_t count = WeightsMap(configuration.shape).count;
    state.weights = {std::vector<float>(count), std::vector<float>(2 * count)};
    reader.compare(header, headerOf(configuration, state));
    state.history.resize(header.steps);
    state.device.assign(header.device, std::find(header.device, header.device + deviceBytes, '\0'));
    size_t at = sizeof header;
    const auto take = [&](void *to, size_t bytes) {
        std::copy_n(content.data() + at, bytes, static_cast<std::byte *>(to)); // a run of no steps has no history to point at
        at += bytes;
    };
    take(state.weights.weights.data(), count * sizeof(float));
    take(state.weights.moments.data(), 2 * count * sizeof(float));
    take(state.history.data(), state.history.size() * sizeof(StepFigures));
    return state;
}

void writeCheckpoint(const std::string &path, const Configuration &configuration, const State &state) {
    const Header header = headerOf(configuration, state);
    std::vector<std::byte> content;
    content.reserve(bytesOf(header.weights, header.steps));
    const auto put = [&](const void *from, size_t bytes) {
        const auto *first = static_cast<const std::byte *>(from);
        content.insert(content.end(), first, first + bytes);
    };
    put(&header, sizeof header);
    put(state.weights.weights.data(), state.weights.weights.size() * sizeof(float));
    put(state.weights.moments.data(), state.weights.moments.size() * sizeof(float));
    put(state.history.data(), state.history.size() * sizeof(StepFigures));
    const uint64_t sum = checksumOf(content);
    put(&sum, sizeof sum);
    vkattn::program::OutputFile file(vkattn::program::checkOutputTarget("--checkpoint", path, {}, {}));
    file.write(content);
    file.close();
    file.publish();
}

} // namespace train
