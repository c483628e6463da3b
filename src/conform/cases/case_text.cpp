#include "conform/cases/case_text.hpp"

#include <charconv>
#include <cmath>
#include <functional>
#include <system_error>

namespace vkattn::conform {
namespace {

// The words of an enumeration, by value.
template <class Enum> struct Words;
template <> struct Words<vkattn_dtype> { static constexpr const char *list[] = {"f32", "f16", "bf16"}; };
template <> struct Words<Style> { static constexpr const char *list[] = {"packed", "tokenMajor", "padded", "dimMajor", "reversed"}; };
template <> struct Words<Data> { static constexpr const char *list[] = {"normal", "needle", "equal", "extreme", "denormal"}; };
template <> struct Words<Documents> { static constexpr const char *list[] = {"none", "runs", "random"}; };

template <class Number> std::string numberText(Number value) {
    char text[32];
    const auto [end, error] = std::to_chars(text, text + sizeof text, value);
    return {text, end};
}
template <class Number> bool numberOf(std::string_view text, Number &value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
}

std::string text(uint32_t value) {
    return numberText(value);
}
std::string text(int32_t value) {
    return numberText(value);
}
std::string text(float value) {
    return numberText(value);
}
std::string text(bool value) {
    return value ? "1" : "0";
}
template <class Value> std::string text(const std::optional<Value> &value) {
    return value ? text(*value) : "none";
}
template <class Enum>
requires std::is_enum_v<Enum> std::string text(Enum value) {
    return Words<Enum>::list[static_cast<size_t>(value)];
}
std::string text(vkattn_kernel kernel) {
    return vkattnKernelName(kernel);
}
std::string text(const std::string &value) {
    return value;
}
// "5x1100:0x9"
std::string text(const std::vector<SequenceLength> &lengths) {
    std::string all;
    for (const SequenceLength &s : lengths) all.append(all.empty() ? "" : ":").append(text(s.queries)).append("x").append(text(s.keys));
    return all;
}

// Each returns what was expected where the text is none of it.
const char *parse(std::string_view from, uint32_t &value) {
    return numberOf(from, value) ? nullptr : "a whole number of 0 or more";
}
const char *parse(std::string_view from, int32_t &value) {
    return numberOf(from, value) && value >= -1 ? nullptr : "a whole number of -1 or more";
}
const char *parse(std::string_view from, float &value) {
    return numberOf(from, value) ? nullptr : "a number, inf or nan";
}
const char *parse(std::string_view from, bool &value) {
    value = from != "0";
    return from == "0" || from == "1" ? nullptr : "0 or 1";
}
template <class Value> const char *parse(std::string_view from, std::optional<Value> &value) {
    if (from == "none") return value.reset(), nullptr;
    return parse(from, value.emplace());
}
template <class Enum>
requires std::is_enum_v<Enum>
const char *parse(std::string_view from, Enum &value) {
    static const std::string expected = [] {
        std::string all;
        for (const char *word : Words<Enum>::list) all.append(all.empty() ? "" : ", ").append(word);
        return "one of " + all;
    }();
    for (size_t n = 0; n < std::size(Words<Enum>::list); ++n)
        if (from == Words<Enum>::list[n]) return value = static_cast<Enum>(n), nullptr;
    return expected.c_str();
}
const char *parse(std::string_view from, vkattn_kernel &kernel) {
    static const std::string expected = [] {
        std::string all = "one of auto";
        for (const vkattn_kernel each : KernelList()) all.append(", ").append(vkattnKernelName(each));
        return all;
    }();
    if (from == vkattnKernelName(VKATTN_KERNEL_AUTO)) return kernel = VKATTN_KERNEL_AUTO, nullptr;
    for (const vkattn_kernel each : KernelList())
        if (from == vkattnKernelName(each)) return kernel = each, nullptr;
    return expected.c_str();
}
const char *parse(std::string_view from, std::string &value) {
    value = from;
    for (const char c : from)
        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') && c != '_' && c != '-')
            return "letters, digits, _ and -";
    return from.size() <= 200 ? nullptr : "at most 200 letters";
}
const char *parse(std::string_view from, std::vector<SequenceLength> &lengths) {
    static constexpr const char *expected = "up to 64 lengths QUERIESxKEYS like 5x11:0x9";
    lengths.clear();
    while (!from.empty()) {
        const std::string_view one = from.substr(0, from.find(':'));
        from.remove_prefix(std::min(from.size(), one.size() + 1));
        const size_t x = one.find('x');
        SequenceLength s{};
        if (x == std::string_view::npos || lengths.size() == 64 || !numberOf(one.substr(0, x), s.queries) ||
            !numberOf(one.substr(x + 1), s.keys))
            return expected;
        lengths.push_back(s);
    }
    return nullptr;
}

struct Member {
    const char *name;
    bool flag; // its name alone means 1
    std::function<std::string(const Case &)> get;
    std::function<const char *(std::string_view, Case &)> set;
};

template <class Value> Member member(const char *name, Value Case::*at) {
    return {name, std::is_same_v<Value, bool>, [at](const Case &c) { return text(c.*at); },
            [at](std::string_view from, Case &c) { return parse(from, c.*at); }};
}

const std::vector<Member> &members() {
    static const std::vector<Member> list = {
        member("name", &Case::name),
        member("kernel", &Case::kernel),
        member("batch", &Case::batch),
        member("heads", &Case::heads),
        member("kvHeads", &Case::kvHeads),
        member("queryTokens", &Case::queryTokens),
        member("keyTokens", &Case::keyTokens),
        member("headDim", &Case::headDim),
        member("valueDim", &Case::valueDim),
        member("q", &Case::q),
        member("k", &Case::k),
        member("v", &Case::v),
        member("out", &Case::out),
        member("qStyle", &Case::qStyle),
        member("kStyle", &Case::kStyle),
        member("vStyle", &Case::vStyle),
        member("outStyle", &Case::outStyle),
        member("sharedHeads", &Case::sharedHeads),
        member("valuesInKeys", &Case::valuesInKeys),
        member("causal", &Case::causal),
        member("topLeft", &Case::topLeft),
        member("window", &Case::window),
        member("left", &Case::left),
        member("right", &Case::right),
        member("scale", &Case::scale),
        member("softcap", &Case::softcap),
        member("mask", &Case::maskBroadcast),
        member("bitMask", &Case::bitMaskBroadcast),
        member("bias", &Case::biasBroadcast),
        member("biasType", &Case::biasType),
        member("biasHidden", &Case::biasHidden),
        member("biasConstant", &Case::biasConstant),
        member("alibi", &Case::alibi),
        member("alibiSlope", &Case::alibiSlope),
        member("sinks", &Case::sinks),
        member("sink", &Case::sink),
        member("lengths", &Case::lengths),
        member("hostileLengths", &Case::hostileLengths),
        member("ragged", &Case::ragged),
        member("sequences", &Case::sequenceLengths),
        member("raggedGaps", &Case::raggedGaps),
        member("raggedMax", &Case::raggedMax),
        member("hostileRagged", &Case::hostileRagged),
        member("documents", &Case::documents),
        member("lse", &Case::lse),
        member("weights", &Case::weights),
        member("weightsType", &Case::weightsType),
        member("weightsStyle", &Case::weightsStyle),
        member("deterministic", &Case::deterministic),
        member("slices", &Case::slices),
        member("data", &Case::data),
        member("needle", &Case::needle),
        member("poison", &Case::poison),
    };
    return list;
}

} // namespace

std::span<const char *const> memberNames() {
    static const std::vector<const char *> names = [] {
        std::vector<const char *> all;
        for (const Member &m : members()) all.push_back(m.name);
        return all;
    }();
    return names;
}

const char *dtypeNameOf(vkattn_dtype dtype) {
    return Words<vkattn_dtype>::list[dtype];
}

std::string caseText(const Case &c) {
    static const Case ordinary;
    std::string all;
    for (const Member &m : members()) {
        const std::string value = m.get(c);
        if (value == m.get(ordinary)) continue;
        if (!all.empty()) all += ",";
        all += m.name;
        if (!m.flag || value != "1") all += "=" + value;
    }
    return all;
}

bool parseMember(std::string_view given, Case &c, std::string &why) {
    const size_t equals = given.find('=');
    const std::string name(given.substr(0, equals));
    for (const Member &m : members()) {
        if (name != m.name) continue;
        if (equals == std::string_view::npos && !m.flag) {
            why = quoted(name) + " has no value: write " + name + "=...";
            return false;
        }
        const std::string_view value = equals == std::string_view::npos ? "1" : given.substr(equals + 1);
        const char *expected = m.set(value, c);
        if (expected) why = quoted(given) + ": expected " + expected;
        return !expected;
    }
    why = "a case has no member " + quoted(name);
    return false;
}

std::string whyImpossible(const Case &c) {
    const auto above = [](const char *name, uint64_t value, uint64_t most) {
        return value <= most ? std::string()
                             : std::string(name) + " is " + std::to_string(value) + ", expected at most " + std::to_string(most);
    };
    for (const std::string &why :
         {above("batch", c.batch, 1024), above("heads", c.heads, 1024), above("queryTokens", c.queryTokens, 1u << 20),
          above("keyTokens", c.keyTokens, 1u << 20), above("headDim", c.headDim, 2048), above("valueDim", c.valueDim, 2048),
          above("slices", c.slices == UINT32_MAX ? 0 : c.slices, 1u << 20), above("mask", c.maskBroadcast.value_or(0), 15),
          above("bias", c.biasBroadcast.value_or(0), 15), above("bitMask", c.bitMaskBroadcast.value_or(0), 7)})
        if (!why.empty()) return why;
    if (c.batch == 0 || c.heads == 0 || c.kvHeads == 0 || c.headDim == 0 || c.valueDim == 0)
        return "batch, heads, kvHeads, headDim and valueDim are at least 1";
    if (c.heads % c.kvHeads) return "heads is " + text(c.heads) + ", expected a multiple of kvHeads = " + text(c.kvHeads);
    if (c.valuesInKeys && (c.valueDim >= c.headDim || c.k != c.v))
        return "valuesInKeys: V is a part of K, expected its type and a smaller valueDim than headDim";
    if (c.maskBroadcast && c.bitMaskBroadcast) return "mask and bitMask are both given, expected one of them";
    if (c.ragged && c.lengths) return "ragged and lengths are both given, expected one of them";
    if (c.softcap != 0 && !(c.softcap >= 0x1p-126f && std::isfinite(c.softcap))) return "softcap is finite and 0 or at least 2^-126";
    if (c.scale && !std::isfinite(*c.scale)) return "scale is finite";
    uint64_t queries = c.queryTokens, keys = c.keyTokens, sequences = c.batch;
    if (c.ragged && !c.sequenceLengths.empty()) {
        queries = keys = 0, sequences = c.sequenceLengths.size();
        for (const SequenceLength &s : c.sequenceLengths) queries += s.queries, keys += s.keys;
    } else if (c.ragged) {
        queries *= c.batch, keys *= c.batch;
    }
    const uint64_t batch = c.ragged ? 1 : c.batch, pairs = queries * keys * batch * c.heads;
    // What the oracle computes in seconds, and makes of it in memory.
    constexpr uint64_t mostElements = 1u << 27;
    if (queries > mostElements || keys > mostElements || (queries && keys > UINT64_MAX / queries / batch / c.heads / 4096) ||
        pairs > (uint64_t{1} << 33) / (c.headDim + c.valueDim))
        return "the case has " + std::to_string(queries) + " x " + std::to_string(keys) +
               " pairs of tokens a head, expected fewer: more than 2^33 multiplications";
    const bool allPairs = c.weights || (c.maskBroadcast && !*c.maskBroadcast) || c.biasBroadcast || c.bitMaskBroadcast || c.maskBroadcast;
    if (std::max(batch * c.heads * queries, batch * c.kvHeads * keys) * std::max(c.headDim, c.valueDim) > mostElements ||
        (allPairs && sequences * c.heads * queries * keys > mostElements))
        return "a tensor of the case has more than 2^27 elements";
    return {};
}

} // namespace vkattn::conform
