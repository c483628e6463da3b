// story: continues a text with a llama2.c checkpoint, everything on the device. Where to read on:
//   model/transformer.cpp    the model as lists of operations, recorded once
//   model/layer_steps.cpp    the steps of a layer but its attention, which samples/serve has too
//   model/shader_steps.cpp   what the library lacks, as compute shaders of this program
//   text/tokenizer.cpp       text to tokens and back
#include "arguments.hpp"
#include "inspection.hpp"
#include "model/transformer.hpp"
#include "report.hpp"
#include "text/tokenizer.hpp"

#include "program/note.hpp"
#include "program/run_program.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <numeric>

namespace story {
namespace {

using namespace vkattn::program;

double millisecondsSince(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// The model on the device that was asked for, or from the first error on, where that is allowed, on
// the CPU.
class Computer {
  public:
    Computer(const Arguments &arguments, const Checkpoint &checkpoint, const std::vector<uint32_t> &kept)
        : arguments_(arguments), checkpoint_(checkpoint), kept_(kept), runtime_(openRuntime(runtimeOptions(arguments))) {}

    // Writes the logits behind all the tokens so far. Throws Failure.
    void compute(const std::vector<uint32_t> &tokens, std::span<float> logits) {
        try {
            attempt(tokens, logits);
        } catch (const ComputeError &error) {
            if (!runtime_->device() || error.result == VKATTN_ERROR_INVALID_ARGUMENT) throw Failure(error.what());
            if (!arguments_.allowFallback) throw Failure(error.what() + std::string(adviseFallback), ExitStatus::deviceUnusable);
            moveToCpu(error.what());
            compute(tokens, logits);
        }
    }
    [[nodiscard]] const Transformer &model() const { return *model_; }

    void sign(Report &report) const {
        const vkattn::DeviceInfo *const device = runtime_->device();
        report.device = device ? device->name : "cpu";
        report.driver = device ? device->driver : "vkattn cpu fallback";
        report.fallbackReason = fallbackReason_.empty() ? runtime_->fallbackReason() : fallbackReason_;
        if (arguments_.verify) report.verification = model_->verification();
        report.cacheError = model_->cacheError();
        report.cacheBytesPerToken = model_->bytesPerToken();
    }

  private:
    void attempt(const std::vector<uint32_t> &tokens, std::span<float> logits) {
        if (!model_) {
            TransformerOptions options{kept_, {}, arguments_.kvType, arguments_.hadamard};
            if (arguments_.verify) options.verify = verifyOptions(*arguments_.verify);
            model_.emplace(*runtime_, checkpoint_, options);
        }
        model_->compute(std::span(tokens).subspan(model_->computed()), logits);
    }
    void moveToCpu(const std::string &reason) {
        fallbackReason_ = runtime_->device()->name + ": " + reason;
        model_.reset();
        vkattn::RuntimeOptions cpu;
        cpu.device = "cpu";
        runtime_ = openRuntime(cpu);
    }

    const Arguments &arguments_;
    const Checkpoint &checkpoint_;
    const std::vector<uint32_t> &kept_;
    std::unique_ptr<vkattn::Runtime> runtime_;
    std::optional<Transformer> model_;
    std::string fallbackReason_;
};

uint32_t stepsOf(const Arguments &arguments, const Shape &shape) {
    if (arguments.steps > shape.positions)
        throw Failure("--steps is " + std::to_string(arguments.steps) + ", and the model has " + std::to_string(shape.positions) +
                      " positions: give at most as many");
    return arguments.steps ? arguments.steps : shape.positions;
}

std::vector<uint32_t> encodePrompt(const Arguments &arguments, const Tokenizer &tokenizer, uint32_t steps) {
    const std::string advice = ", and --steps is " + std::to_string(steps) + ": shorten it, or give more --steps";
    if (arguments.prompt.size() / tokenizer.longestPiece() > steps)
        throw Failure("--prompt has " + std::to_string(arguments.prompt.size()) + " bytes" + advice);
    std::vector<uint32_t> tokens = tokenizer.encode(arguments.prompt);
    if (tokens.size() > steps)
        throw Failure("--prompt is " + std::to_string(tokens.size()) + " tokens, with the one that begins every text" + advice);
    return tokens;
}

std::vector<uint32_t> keptLayers(const Arguments &arguments, const Shape &shape) {
    std::vector<uint32_t> layers = arguments.layers;
    if (arguments.inspect.empty()) return layers;
    if (layers.empty()) {
        layers.resize(shape.layers);
        std::iota(layers.begin(), layers.end(), 0u);
    }
    for (const uint32_t layer : layers)
        if (layer >= shape.layers)
            throw Failure("--layers names layer " + std::to_string(layer) + ", and the model has " + std::to_string(shape.layers) +
                          ": the last is " + std::to_string(shape.layers - 1));
    return layers;
}

// The text as it comes, and as a whole.
class Writer {
  public:
    Writer(const Tokenizer &tokenizer, Report &report, bool show) : tokenizer_(tokenizer), report_(report), show_(show) {}
    void add(uint32_t token) {
        const std::string piece = tokenizer_.decode(report_.tokens.empty() ? beginToken : report_.tokens.back(), token);
        report_.tokens.push_back(token);
        report_.pieces.push_back(piece);
        if (report_.tokens.size() == 1) return; // the token that begins every text
        report_.text += piece;
        if (!show_) return;
        std::fwrite(piece.data(), 1, piece.size(), stdout);
        std::fflush(stdout);
    }

  private:
    const Tokenizer &tokenizer_;
    Report &report_;
    bool show_;
};

// Returns how far the largest number is above the next.
float leadOf(std::span<const float> numbers) {
    const auto largest = std::max_element(numbers.begin(), numbers.end());
    float next = -std::numeric_limits<float>::infinity();
    for (auto each = numbers.begin(); each != numbers.end(); ++each)
        if (each != largest) next = std::max(next, *each);
    return *largest - next;
}

void generate(const Arguments &arguments, const std::vector<uint32_t> &prompt, Computer &computer, Writer &writer, Report &report) {
    std::vector<float> logits(report.shape.vocabulary);
    Sampler sampler(arguments.sampling);
    for (const uint32_t token : prompt) writer.add(token);
    uint32_t computed = 0, passes = 0;
    while (computed < report.steps) {
        const auto start = std::chrono::steady_clock::now();
        computer.compute(report.tokens, logits);
        const double recording = computer.model().secondsOfRecording() * 1e3, milliseconds = millisecondsSince(start) - recording;
        report.recordingMilliseconds += recording;
        computed = static_cast<uint32_t>(report.tokens.size());
        if (passes == 0) report.prefillMilliseconds = milliseconds;
        if (passes > 1) report.decodeMilliseconds += milliseconds, ++report.decodedTokens;
        ++passes;
        report.leads.push_back(leadOf(logits));
        const uint32_t next = sampler.choose(logits);
        if ((report.ended = next == beginToken)) return;
        writer.add(next);
    }
}

ExitStatus run(int argc, const char *const *argv) {
    Arguments arguments;
    if (!parseArguments(argc, argv, arguments)) return ExitStatus::success;

    // Everything that can be wrong with the input is found before any work is done.
    const Checkpoint checkpoint = readCheckpoint(arguments.model);
    const Shape &shape = checkpoint.shape;
    const Tokenizer tokenizer(arguments.tokenizer, shape.vocabulary);
    Report report{arguments, shape};
    report.steps = stepsOf(arguments, shape);
    const std::vector<uint32_t> prompt = encodePrompt(arguments, tokenizer, report.steps), kept = keptLayers(arguments, shape);
    report.promptTokens = static_cast<uint32_t>(prompt.size());
    std::optional<Inspection> inspection;
    if (!arguments.inspect.empty())
        inspection.emplace(arguments.inspect, kept, std::vector<std::string>{arguments.model, arguments.tokenizer});

    Computer computer(arguments, checkpoint, kept);
    Writer writer(tokenizer, report, !arguments.json);
    generate(arguments, prompt, computer, writer, report);
    computer.sign(report);
    if (inspection) {
        try {
            report.written = inspection->write(computer.model(), shape.heads, shape.kvHeads, shape.headDim(), report.pieces);
        } catch (const ComputeError &error) {
            throw Failure(error.what(), ExitStatus::deviceUnusable);
        }
    }
    if (arguments.json)
        std::printf("%s\n", jsonOf(report).c_str());
    else
        std::putchar('\n'), printFigures(report);
    std::fflush(stdout);
    if (!report.verification || report.verification->passed) return ExitStatus::success;
    std::fprintf(stderr, "story: verification failed: worst %s\n", worstText(*report.verification).c_str());
    return ExitStatus::verificationFailed;
}

} // namespace
} // namespace story

int main(int argc, char **argv) {
    return vkattn::program::runProgram("story", "choose a smaller model", [&] { return story::run(argc, argv); });
}
