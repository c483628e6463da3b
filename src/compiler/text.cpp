#include "compiler/text.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace vkattn::compiler {
namespace {

struct Token {
    std::string_view text; // a word, or one character; empty at the end
    uint32_t line;
};

bool startsWord(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool continuesWord(char c) {
    return startsWord(c) || (c >= '0' && c <= '9');
}

struct Failure {
    uint32_t line;
    std::string message;
};

// Splits a text into words and other characters, without comments.
std::vector<Token> tokensOf(std::string_view text) {
    if (const size_t zero = text.find('\0'); zero != std::string_view::npos) // in a comment too: compilers may end the text there
        throw Failure{1 + static_cast<uint32_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(zero), '\n')),
                      "a zero byte, expected GLSL as text"};
    std::vector<Token> tokens;
    uint32_t line = 1;
    for (size_t at = 0; at < text.size();) {
        const char c = text[at];
        if (c == '\n') ++line;
        if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
            ++at;
        } else if (text.substr(at, 2) == "//") {
            at = std::min(text.find('\n', at), text.size());
        } else if (text.substr(at, 2) == "/*") {
            const size_t end = text.find("*/", at + 2);
            if (end == std::string_view::npos) throw Failure{line, "a comment /* that does not end; add */"};
            line += static_cast<uint32_t>(
                std::count(text.begin() + static_cast<ptrdiff_t>(at), text.begin() + static_cast<ptrdiff_t>(end), '\n'));
            at = end + 2;
        } else if (c == '#') {
            const size_t end = std::min(text.find_first_of("\r\n", at), text.size());
            throw Failure{line, "'" + std::string(text.substr(at, std::min<size_t>(end - at, 60))) +
                                    "': a program has no preprocessor lines, expected functions and constants alone; #version and "
                                    "defines come with the kernels"};
        } else if (c == '\\') {
            throw Failure{line, "a backslash, which GLSL has no use for outside preprocessor lines; remove it"};
        } else {
            size_t end = at + 1;
            if (startsWord(c))
                while (end < text.size() && continuesWord(text[end])) ++end;
            tokens.push_back({text.substr(at, end - at), line});
            at = end;
        }
    }
    tokens.push_back({{}, line});
    return tokens;
}

const Hook *hookNamed(std::string_view name) {
    const Hook *const found = std::find_if(std::begin(hooks), std::end(hooks), [&](const Hook &hook) { return name == hook.name; });
    return found == std::end(hooks) ? nullptr : found;
}

bool isQualifier(std::string_view word) {
    constexpr std::string_view known[] = {"in", "const", "highp", "mediump", "lowp"};
    return std::find(std::begin(known), std::end(known), word) != std::end(known);
}

// The types of parameters from tokens[at], behind "(", on: "float, uint". `at` is then behind ")".
std::string parameterTypes(const std::vector<Token> &tokens, size_t &at) {
    std::string types;
    bool typed = false;
    for (; !tokens[at].text.empty() && tokens[at].text != ")"; ++at) {
        const std::string_view word = tokens[at].text;
        if (word == ",") {
            types.append(", ");
            typed = false;
        } else if (!isQualifier(word) && !typed) {
            types += word;
            typed = true;
        } else if (word == "[" || word == "out" || word == "inout") {
            types.append(1, ' ').append(word);
        }
    }
    if (!tokens[at].text.empty()) ++at;
    return types;
}

// What a program may say at no place, or outside functions.
void checkWord(const Token &token, bool outside, bool called) {
    const auto isOne = [&](std::initializer_list<std::string_view> words) {
        return std::find(words.begin(), words.end(), token.text) != words.end();
    };
    if (outside && isOne({"layout", "uniform", "buffer", "shared"}))
        throw Failure{token.line, "'" + std::string(token.text) +
                                      "': a program has no memory of its own, expected functions and constants; buffers are read by "
                                      "vkattnBuffer(buffer, index), words by vkattnWord(index)"};
    if (outside && called && token.text == "main")
        throw Failure{token.line, "main belongs to the kernels; a program has hooks, and what they call"};
    if (called &&
        isOne({"barrier", "memoryBarrier", "memoryBarrierShared", "memoryBarrierBuffer", "memoryBarrierImage", "groupMemoryBarrier"}))
        throw Failure{token.line, "'" + std::string(token.text) +
                                      "': the lanes of a workgroup do not all call a hook, and a barrier would hang the device; remove it"};
}

uint32_t scan(const std::vector<Token> &tokens) {
    uint32_t found = 0, depth = 0;
    for (size_t at = 0; !tokens[at].text.empty();) {
        const Token &token = tokens[at];
        const bool called = tokens[at + 1].text == "(";
        checkWord(token, depth == 0, called);
        if (token.text == "{") ++depth;
        if (token.text == "}") {
            if (depth == 0) throw Failure{token.line, "a '}' without its '{'"};
            --depth;
        }
        const bool isDeclared = depth == 0 && called && at > 0 && startsWord(tokens[at - 1].text.empty() ? ' ' : tokens[at - 1].text[0]) &&
                                token.text.substr(0, 6) == "vkattn";
        ++at;
        if (!isDeclared) continue;
        const Hook *const hook = hookNamed(token.text);
        if (!hook)
            throw Failure{token.line,
                          "there is no hook '" + std::string(token.text) +
                              "'; expected vkattnScore, vkattnVisible, vkattnProbability, vkattnRow or vkattnScoreSlope, or a name of your "
                              "own that does not begin with vkattn"};
        const std::string_view returns = tokens[at - 2].text;
        ++at; // (
        const std::string types = parameterTypes(tokens, at);
        if (returns != hook->returns || types != hook->parameters)
            throw Failure{token.line,
                          std::string(returns) + " " + std::string(token.text) + "(" + types + "), expected " + hook->signature};
        if (tokens[at].text != "{") continue; // a prototype
        if (found & hook->bit) throw Failure{token.line, std::string(token.text) + " is defined a second time"};
        found |= hook->bit;
    }
    if (depth) throw Failure{tokens[tokens.size() - 2].line, "the text ends inside a '{'; add '}'"};
    return found;
}

} // namespace

uint32_t hooksOf(std::string_view text, std::string_view name, std::string &error) {
    try {
        const std::vector<Token> tokens = tokensOf(text);
        const uint32_t found = scan(tokens);
        if (!(found & hooksThatStandAlone))
            throw Failure{1, found ? "vkattnScoreSlope without vkattnScore, whose derivative it is; add vkattnScore"
                                   : "no hook, expected vkattnScore, vkattnVisible, vkattnProbability or vkattnRow, such as " +
                                         std::string(hooks[0].signature) + " { return score; }"};
        if (found & 4 && !(found & 1)) throw Failure{1, "vkattnScoreSlope without vkattnScore, whose derivative it is; add vkattnScore"};
        return found;
    } catch (const Failure &failure) {
        error = std::string(name) + ":" + std::to_string(failure.line) + ": " + failure.message;
        return 0;
    }
}

} // namespace vkattn::compiler
