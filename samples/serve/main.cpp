// serve: many requests at once with a llama2.c checkpoint. Where to read on:
//   model/computer.cpp      the device, and the CPU where the device fails
//   model/paged_model.cpp   two lists, recorded once: pages, a shared system prompt, lengths on the device
//   schedule/server.cpp     which requests a step computes: prompts in chunks, eviction, cancellation
#include "arguments.hpp"
#include "report.hpp"
#include "view.hpp"

#include "program/files/output_file.hpp"
#include "program/run_program.hpp"
#include "story/text/tokenizer.hpp"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <optional>
#include <random>

namespace serve {
namespace {

using namespace vkattn::program;

constexpr const char *ownPrompts[] = {"She liked to play in the park with her dog.",
                                      "One day, she found a big red ball.",
                                      "Her friend Tom had a new toy car.",
                                      "She wanted to help her mom bake a cake.",
                                      "In the garden there was a small bird.",
                                      "It was raining and she was sad.",
                                      "She saw a cat up in a tall tree.",
                                      "They went to the beach and built a castle of sand. The waves came closer and closer."};

std::vector<std::string> promptsOf(const Arguments &arguments) {
    if (arguments.prompts.empty()) return {std::begin(ownPrompts), std::end(ownPrompts)};
    std::ifstream file(arguments.prompts);
    if (!file) throw Failure("--prompts " + arguments.prompts + ": it cannot be read");
    std::vector<std::string> prompts;
    for (std::string line; std::getline(file, line);)
        if (!line.empty()) prompts.push_back(line);
    if (prompts.empty()) throw Failure("--prompts " + arguments.prompts + ": no line has a prompt");
    return prompts;
}

// The tokens of a text behind others.
std::vector<uint32_t> continued(const story::Tokenizer &tokenizer, const std::string &text) {
    std::vector<uint32_t> tokens = tokenizer.encode(text);
    tokens.erase(tokens.begin()); // the one that begins every text
    return tokens;
}

// Where a request may go on behind its prompt, it is asked for half to all of the most tokens.
std::vector<Request> drawRequests(const Arguments &arguments, const story::Tokenizer &tokenizer, uint32_t positions) {
    std::mt19937_64 random(arguments.seed);
    const auto upTo = [&](uint64_t most) { return random() % (most + 1); };
    const std::vector<std::string> prompts = promptsOf(arguments);
    std::vector<Request> requests;
    double step = 0;
    for (uint32_t n = 0; n < arguments.requests; ++n) {
        Request r;
        r.number = n;
        const std::string &text = prompts[upTo(prompts.size() - 1)];
        r.promptText = text;
        r.prompt = continued(tokenizer, text);
        if (r.prompt.empty() || r.prompt.size() >= positions)
            throw Failure("a prompt is " + std::to_string(r.prompt.size()) + " tokens behind the system prompt, and the model has " +
                          std::to_string(positions) + " positions for them: expected 1 to " + std::to_string(positions - 1) + " in \"" +
                          text + "\"");
        r.mostTokens = arguments.mostTokens - static_cast<uint32_t>(upTo(arguments.mostTokens / 2));
        // Arrivals that know nothing of each other: the gaps are exponential.
        step += -std::log(1 - static_cast<double>(random() >> 11) * 0x1p-53) * arguments.gap;
        r.arrivalStep = static_cast<uint64_t>(step);
        if (static_cast<double>(random() >> 11) * 0x1p-53 < arguments.cancels) r.cancelAfterSteps = 1 + upTo(arguments.mostTokens + 20);
        requests.push_back(std::move(r));
    }
    return requests;
}

Capacity capacityOf(const Arguments &arguments, uint32_t positions) {
    Capacity capacity = arguments.capacity;
    capacity.slotPages = (positions + capacity.pageTokens - 1) / capacity.pageTokens;
    if (capacity.pages == 0) capacity.pages = std::max(capacity.slots * capacity.slotPages * 3 / 4, capacity.slotPages);
    if (capacity.pages < capacity.slotPages)
        throw Failure("--pages is " + std::to_string(capacity.pages) + ", and a request may need " + std::to_string(capacity.slotPages) +
                      ": give at least as many");
    return capacity;
}

// Finished requests, each with the server to itself: the same tokens, from logits of the same bits. Where the model has moved,
// those alone whose bits are of one place, where the model still is.
void checkAlone(Computer &computer, const Capacity &capacity, const std::vector<Request> &served, Report &report) {
    for (const Request &each : served) {
        if (report.checked == report.arguments.check) return;
        if (each.state != State::finished || each.choseElsewhere || each.chosenAt != computer.moves()) continue;
        Request fresh;
        fresh.prompt = each.prompt, fresh.mostTokens = each.mostTokens;
        std::vector<Request> alone{fresh};
        Server server(computer, capacity, alone);
        while (server.step()) {
        }
        if (alone[0].choseElsewhere || alone[0].chosenAt != each.chosenAt) continue; // the device failed now
        ++report.checked;
        // An evicted request chooses no token twice: its hash is that of one without.
        if (alone[0].tokens != each.tokens || alone[0].logitsHash != each.logitsHash) ++report.different;
    }
}

ExitStatus run(int argc, const char *const *argv) {
    Arguments arguments;
    if (!parseArguments(argc, argv, arguments)) return ExitStatus::success;
    const story::Checkpoint checkpoint = story::readCheckpoint(arguments.model);
    const story::Tokenizer tokenizer(arguments.tokenizer, checkpoint.shape.vocabulary);
    const std::vector<uint32_t> system = tokenizer.encode(arguments.system);
    if (system.size() + 2 > checkpoint.shape.positions)
        throw Failure("--system is " + std::to_string(system.size()) + " tokens, and the model has " +
                      std::to_string(checkpoint.shape.positions) + " positions: shorten it");
    const uint32_t positions = checkpoint.shape.positions - static_cast<uint32_t>(system.size());
    const Capacity capacity = capacityOf(arguments, positions);
    std::vector<Request> requests = drawRequests(arguments, tokenizer, positions);

    std::optional<OutputFile> texts;
    if (!arguments.out.empty())
        texts.emplace(checkOutputTarget("--out", arguments.out,
                                        std::vector<std::string>{arguments.model, arguments.tokenizer, arguments.prompts}, {}));

    Report report{arguments, capacity};
    report.systemTokens = static_cast<uint32_t>(system.size());
    Computer computer(arguments, checkpoint, capacity, system);
    Server server(computer, capacity, requests);
    View view(arguments.quiet || arguments.json);
    const size_t firstRequests = std::min<size_t>(requests.size(), 2 * capacity.slots);
    while (server.step()) {
        view.show(server, requests.size());
        if (report.memoryBefore == 0 && server.counts().finished + server.counts().cancelled >= firstRequests)
            report.memoryBefore = residentMebibytes();
    }
    view.end();
    report.seconds = server.seconds();
    report.counts = server.counts();
    report.pagesHeld = server.pages().held();
    report.memoryAfter = residentMebibytes();
    checkAlone(computer, capacity, requests, report);
    report.device = computer.device(), report.driver = computer.driver(), report.fallbackReason = computer.fallbackReason();
    if (texts) {
        const std::string lines = textsOf(requests, tokenizer);
        texts->write(std::as_bytes(std::span(lines)));
        texts->close();
        texts->publish();
    }
    if (arguments.json)
        std::printf("%s\n", jsonOf(report, requests).c_str());
    else
        printFigures(report, requests);
    std::fflush(stdout);
    if (report.pagesHeld == 0 && report.different == 0) return ExitStatus::success;
    std::fprintf(stderr, "serve: %u requests alone gave something else, %u pages were lost\n", report.different, report.pagesHeld);
    return ExitStatus::verificationFailed;
}

} // namespace
} // namespace serve

int main(int argc, char **argv) {
    return vkattn::program::runProgram("serve", "choose a smaller model, or fewer --pages", [&] { return serve::run(argc, argv); });
}
