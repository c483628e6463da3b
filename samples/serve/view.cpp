#include "view.hpp"

#include <algorithm>
#include <cstdio>

#include <unistd.h>

namespace serve {
namespace {

constexpr uint32_t barWidth = 32;

std::string bar(double share, char full) {
    const auto filled = static_cast<size_t>(std::clamp(share, 0.0, 1.0) * barWidth + 0.5);
    return std::string(filled, full) + std::string(barWidth - filled, '.');
}

} // namespace

std::string drawing(const Server &server, size_t requests) {
    const Counts &c = server.counts();
    std::string text;
    char line[160];
    for (size_t n = 0; n < server.slots().size(); ++n) {
        const Request *const r = server.slots()[n];
        if (!r)
            std::snprintf(line, sizeof line, "slot %2zu  %s\n", n, std::string(barWidth, ' ').c_str());
        else if (r->state == State::prefill)
            std::snprintf(line, sizeof line, "slot %2zu  %s request %u, prompt %u of %u\n", n,
                          bar(static_cast<double>(r->computed) / std::max(r->promptTokens(), 1u), '=').c_str(), r->number, r->computed,
                          r->promptTokens());
        else
            std::snprintf(line, sizeof line, "slot %2zu  %s request %u, token %zu of %u, %zu pages\n", n,
                          bar(static_cast<double>(r->tokens.size()) / std::max(r->mostTokens, 1u), '#').c_str(), r->number,
                          r->tokens.size(), r->mostTokens, r->pages.size());
        text += line;
    }
    const FreePages &pages = server.pages();
    std::snprintf(line, sizeof line, "pages    %s %u of %u\n",
                  bar(static_cast<double>(pages.held()) / std::max(pages.total(), 1u), '#').c_str(), pages.held(), pages.total());
    text += line;
    std::snprintf(line, sizeof line, "%u of %zu requests finished, %u cancelled, %zu waiting, %u evictions; %llu tokens, %.0f a second\n",
                  c.finished, requests, c.cancelled, server.waiting(), c.evictions, static_cast<unsigned long long>(c.generatedTokens),
                  static_cast<double>(c.generatedTokens) / std::max(server.seconds(), 1e-3));
    return text + line;
}

View::View(bool quiet) : quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0) {}

void View::show(const Server &server, size_t requests) {
    if (quiet_ || server.seconds() < next_) return;
    next_ = server.seconds() + (terminal_ ? 0.1 : 5);
    std::string text = drawing(server, requests);
    if (!terminal_) { // the last line alone
        text.pop_back();
        std::fprintf(stderr, "%s\n", text.substr(text.rfind('\n') + 1).c_str());
        return;
    }
    if (lines_) std::fprintf(stderr, "\x1b[%dA", lines_);
    lines_ = static_cast<int>(std::count(text.begin(), text.end(), '\n'));
    std::string cleared;
    for (const char c : text) cleared += c == '\n' ? std::string("\x1b[K\n") : std::string(1, c);
    std::fputs(cleared.c_str(), stderr);
}

void View::end() {
    lines_ = 0;
}

} // namespace serve
