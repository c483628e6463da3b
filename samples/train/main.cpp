// train: a model of one attention layer learns to copy sequences, everything on the device. Where to
// read on:
//   model/network.cpp        forward, backward and Adam as lists of operations
//   model/shader_steps.cpp   what the library lacks, as compute shaders of this program
//   model/copy_task.cpp      the sequences
//   state/checkpoint.cpp     the file that a run goes on from
#include "arguments.hpp"
#include "report/curve.hpp"
#include "report/report.hpp"
#include "state/checkpoint.hpp"

#include "program/files/output_file.hpp"
#include "program/interruption.hpp"
#include "program/note.hpp"
#include "program/progress.hpp"
#include "program/run_program.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <new>

namespace train {
namespace {

using namespace vkattn::program;

constexpr uint32_t evaluationBatches = 16;

// The model on the device that was asked for, or from the first error on, where that is allowed, on
// the CPU.
class Computer {
  public:
    Computer(const Arguments &arguments, const Configuration &configuration)
        : arguments_(arguments), configuration_(configuration), runtime_(openRuntime(runtimeOptions(arguments))) {}

    [[nodiscard]] std::string device() const { return runtime_->device() ? runtime_->device()->name : "cpu"; }

    // Calls work(network), with the weights of the state where the network is new. Returns false where
    // the device failed: then the CPU goes on from the state at the next call.
    template <class Work> [[nodiscard]] bool attempt(const State &state, const Work &work) {
        try {
            if (!network_) {
                std::optional<vkattn_verify_options> verify;
                if (arguments_.verify) verify = verifyOptions(*arguments_.verify);
                network_.emplace(*runtime_, configuration_.shape, configuration_.dropout, configuration_.seed, verify);
                network_->load(state.weights);
            }
            work(*network_);
            return true;
        } catch (const ComputeError &error) {
            if (!runtime_->device() || error.result == VKATTN_ERROR_INVALID_ARGUMENT) throw Failure(error.what());
            if (!arguments_.allowFallback) throw Failure(error.what() + std::string(adviseFallback), ExitStatus::deviceUnusable);
            fallbackReason_ = runtime_->device()->name + ": " + error.what();
            network_.reset();
            vkattn::RuntimeOptions cpu;
            cpu.device = "cpu";
            runtime_ = openRuntime(cpu);
            return false;
        }
    }

    void sign(Report &report) const {
        const vkattn::DeviceInfo *const device = runtime_->device();
        report.device = device ? device->name : "cpu";
        report.driver = device ? device->driver : "vkattn cpu fallback";
        report.fallbackReason = fallbackReason_.empty() ? runtime_->fallbackReason() : fallbackReason_;
        if (arguments_.verify && network_) report.verification = network_->verification();
    }

  private:
    const Arguments &arguments_;
    const Configuration &configuration_;
    std::unique_ptr<vkattn::Runtime> runtime_;
    std::optional<Network> network_;
    std::string fallbackReason_;
};

State openState(const Arguments &arguments, const Configuration &configuration) {
    if (!arguments.checkpoint.empty()) {
        if (std::optional<State> found = readCheckpoint(arguments.checkpoint, configuration)) {
            if (found->steps() > arguments.steps)
                throw Failure("--checkpoint " + arguments.checkpoint + ": it has " + std::to_string(found->steps()) +
                              " steps, and --steps is " + std::to_string(arguments.steps) +
                              ": give at least as many, or name another file");
            return std::move(*found);
        }
    }
    State fresh;
    fresh.weights = initialWeights(configuration.shape, configuration.seed);
    return fresh;
}

// Brings what the device holds to the host, and writes the checkpoint.
bool save(const Arguments &arguments, const Configuration &configuration, Computer &computer, const std::vector<StepFigures> &history,
          State &state) {
    if (!computer.attempt(state, [&](Network &network) { state.weights = network.read(); })) return false;
    state.history = history;
    state.device = computer.device();
    if (!arguments.checkpoint.empty()) writeCheckpoint(arguments.checkpoint, configuration, state);
    return true;
}

// Trains until all steps are done, or until an interruption. The state is that of the last step.
void trainSteps(const Arguments &arguments, const Configuration &configuration, Computer &computer, State &state) {
    Progress progress("training");
    const uint32_t from = state.steps();
    std::vector<StepFigures> history = state.history; // ahead of the state, between two checkpoints
    while (true) {
        const auto done = static_cast<uint32_t>(history.size());
        const bool ends = done == arguments.steps || interrupted();
        const bool due = done > state.steps() && (ends || (!arguments.checkpoint.empty() && done % arguments.every == 0));
        // A device that failed has lost what is not in the state.
        if (due && !save(arguments, configuration, computer, history, state)) {
            history = state.history;
            continue;
        }
        if (ends) break;
        const uint32_t step = done + 1;
        const Batch batch = drawBatch(configuration.shape, configuration.seed, Purpose::training, step);
        Figures figures;
        if (!computer.attempt(state, [&](Network &network) { figures = network.train(batch, step); })) {
            history = state.history;
            continue;
        }
        if (!std::isfinite(figures.loss))
            throw Failure("the loss of step " + std::to_string(step) + " is not finite: with another --seed training may not diverge");
        history.push_back({static_cast<float>(figures.loss), static_cast<float>(figures.accuracy)});
        char note[32];
        std::snprintf(note, sizeof note, "loss %.4f", figures.loss);
        progress.set(static_cast<double>(step - from) / (arguments.steps - from), note);
    }
    progress.stop();
}

std::string lettersOf(const std::vector<uint32_t> &symbols, size_t first, size_t count) {
    std::string letters;
    for (size_t n = first; n < first + count; ++n) letters += static_cast<char>('a' + symbols[n]);
    return letters;
}

void evaluate(const Configuration &configuration, Computer &computer, const State &state, Report &report) {
    const Shape &shape = configuration.shape;
    const auto all = [&](Network &network) {
        Figures sum;
        for (uint32_t n = 0; n < evaluationBatches; ++n) {
            const Batch batch = drawBatch(shape, configuration.seed, Purpose::evaluation, n);
            const Figures each = network.evaluate(batch);
            sum.loss += each.loss / evaluationBatches, sum.accuracy += each.accuracy / evaluationBatches;
            if (n > 0) continue;
            report.example = lettersOf(batch.tokens, 0, shape.copied);
            report.answer = lettersOf(network.answers(), 0, shape.copied);
        }
        report.evaluation = sum;
        report.evaluatedSequences = evaluationBatches * shape.sequences;
    };
    while (!computer.attempt(state, all)) continue;
}

std::string titleOf(const Configuration &configuration, const Report &report) {
    const Shape &s = configuration.shape;
    std::string title = "sequences of " + std::to_string(s.copied) + " letters, " + std::to_string(s.sequences) + " in a step; seed ";
    title += std::to_string(configuration.seed);
    if (configuration.dropout > 0) {
        char text[32];
        std::snprintf(text, sizeof text, ", dropout %g", configuration.dropout);
        title += text;
    }
    return title + "; on " + report.device;
}

ExitStatus run(int argc, const char *const *argv) {
    Arguments arguments;
    if (!parseArguments(argc, argv, arguments)) return ExitStatus::success;

    // Everything that can be wrong with files is found before any work is done.
    const Configuration configuration{{}, arguments.seed, arguments.dropout};
    State state = openState(arguments, configuration);
    Report report{arguments};
    report.resumedFrom = state.steps();
    std::vector<OutputTarget> targets;
    if (!arguments.checkpoint.empty()) targets.push_back(checkOutputTarget("--checkpoint", arguments.checkpoint, {}, {}));
    std::optional<OutputFile> curve;
    if (!arguments.curve.empty()) curve.emplace(checkOutputTarget("--curve", arguments.curve, {}, targets));
    Computer computer(arguments, configuration);
    if (!arguments.checkpoint.empty()) {
        if (!state.device.empty() && state.device != computer.device())
            std::fprintf(stderr, "train: note: %s was written on %s; from here on %s computes, whose bits may differ\n",
                         arguments.checkpoint.c_str(), state.device.c_str(), computer.device().c_str());
        writeCheckpoint(arguments.checkpoint, configuration, state);
    }
    noteInterruptions(); // the files have been made, and have handlers of their own

    const auto start = std::chrono::steady_clock::now();
    trainSteps(arguments, configuration, computer, state);
    report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    report.steps = state.steps();
    report.interrupted = report.steps < arguments.steps;
    if (!state.history.empty())
        report.last = {static_cast<double>(state.history.back().loss), static_cast<double>(state.history.back().accuracy)};
    if (!report.interrupted) evaluate(configuration, computer, state, report);
    computer.sign(report);
    if (curve) {
        const std::string svg = drawCurve(configuration, state, titleOf(configuration, report));
        curve->write(std::as_bytes(std::span(svg)));
        curve->close();
        curve->publish();
    }
    if (arguments.json)
        std::printf("%s\n", jsonOf(report).c_str());
    else
        printReport(report);
    std::fflush(stdout);
    if (report.interrupted) {
        std::fprintf(stderr, "train: interrupted after step %u: %s\n", report.steps,
                     arguments.checkpoint.empty() ? "without --checkpoint the next run begins anew"
                                                  : "the same command goes on from there");
        return ExitStatus::interrupted;
    }
    if (report.verification && !report.verification->passed) {
        std::fprintf(stderr, "train: verification failed: worst %s\n", worstText(*report.verification).c_str());
        return ExitStatus::verificationFailed;
    }
    if (arguments.minAccuracy && 100 * report.evaluation->accuracy < *arguments.minAccuracy) {
        std::fprintf(stderr, "train: %.2f%% of the symbols are right, expected at least %g%%: train for more --steps\n",
                     100 * report.evaluation->accuracy, *arguments.minAccuracy);
        return ExitStatus::verificationFailed;
    }
    return ExitStatus::success;
}

} // namespace
} // namespace train

int main(int argc, char **argv) {
    return vkattn::program::runProgram("train", "the model is small: end other programs", [&] { return train::run(argc, argv); });
}
