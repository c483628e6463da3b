#include "conform/processes/messages.hpp"

#include "program/json_text.hpp"

#include <iterator>

namespace vkattn::conform {
using namespace program;
namespace {

constexpr const char *names[] = {"device",    "noDevice", "opened",    "planned", "begin", "result", "compiled",
                                 "shrinking", "smallest", "measuring", "timing",  "lost",  "failed", "end"};
static_assert(std::size(names) == static_cast<size_t>(Message::Kind::end) + 1);

} // namespace

std::string messageToLine(const Message &message) {
    return jsonText({{"message", names[static_cast<size_t>(message.kind)]},
                     {"index", message.index},
                     {"number", message.number},
                     {"text", message.text}},
                    -1);
}

bool messageFromLine(const std::string &line, Message &message) {
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object() || json.size() != 4) return false;
    const auto word = json.find("message"), index = json.find("index"), number = json.find("number"), text = json.find("text");
    if (word == json.end() || index == json.end() || number == json.end() || text == json.end()) return false;
    if (!word->is_string() || !index->is_number_unsigned() || !number->is_number() || !text->is_string()) return false;
    for (size_t n = 0; n < std::size(names); n++)
        if (*word == names[n]) {
            message = {static_cast<Message::Kind>(n), text->get<std::string>(), index->get<uint64_t>(), number->get<double>()};
            return true;
        }
    return false;
}

} // namespace vkattn::conform
