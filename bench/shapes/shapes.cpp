#include "shapes/shapes.hpp"

#include "failure.hpp"
#include "text.hpp"

#include <algorithm>

namespace vkattn::bench {
namespace {

constexpr ElementTypes types[] = {
    {"f32", VKATTN_F32, VKATTN_F32},
    {"f16", VKATTN_F16, VKATTN_F16},
    {"bf16", VKATTN_BF16, VKATTN_BF16},
    {"f16kv", VKATTN_F32, VKATTN_F16},
    {"bf16kv", VKATTN_F32, VKATTN_BF16},
    {"q8kv", VKATTN_F32, VKATTN_Q8_0},
    {"q4kv", VKATTN_F32, VKATTN_Q4_0},
    {"int8kv", VKATTN_F32, VKATTN_INT8},
    {"fp8e4m3kv", VKATTN_F32, VKATTN_FP8_E4M3},
    {"fp8e5m2kv", VKATTN_F32, VKATTN_FP8_E5M2},
};
constexpr const ElementTypes *f32 = &types[0], *f16 = &types[1], *bf16 = &types[2], *f16kv = &types[3], *bf16kv = &types[4];

constexpr bool quick = true;

// clang-format off
// One row = one shape. Names are for ever: result rows and rivals' rows refer to them.
const std::vector<Shape> table = {
    // name                     group     stands for                                     batch heads kv  queries  keys    dim  types  causal window
    {"prefill-d64",             "prefill", "a prompt, 8 heads",                              1,  8,  8,  4096,   4096,  64, f32},
    {"prefill-d128",            "prefill", "a prompt, 8 wide heads",                         1,  8,  8,  4096,   4096, 128, f32},
    {"prefill-d64-f16kv",       "prefill", "the same with a half-precision cache",           1,  8,  8,  4096,   4096,  64, f16kv},
    {"prefill-d128-f16kv",      "prefill", "the same with a half-precision cache",           1,  8,  8,  4096,   4096, 128, f16kv},
    {"prefill-d64-small",       "prefill", "prefill-d64 for slow devices",                   1,  8,  8,  1024,   1024,  64, f32,   false, 0, quick},
    {"prefill-d128-small",      "prefill", "prefill-d128 for slow devices",                  1,  8,  8,  1024,   1024, 128, f32},
    {"prefill-d64-f16-small",   "prefill", "all half precision",                             1,  8,  8,  1024,   1024,  64, f16,   false, 0, quick},
    {"prefill-d64-bf16-small",  "prefill", "all bfloat16",                                   1,  8,  8,  1024,   1024,  64, bf16},
    {"prefill-d64-f16kv-small", "prefill", "prefill-d64-f16kv for slow devices",             1,  8,  8,  1024,   1024,  64, f16kv},
    {"causal-d64",              "causal",  "a prompt of a language model",                   1,  8,  8,  4096,   4096,  64, f32,   true},
    {"causal-d128",             "causal",  "the same, wide heads",                           1,  8,  8,  4096,   4096, 128, f32,   true},
    {"causal-d64-small",        "causal",  "causal-d64 for slow devices",                    1,  8,  8,  1024,   1024,  64, f32,   true, 0, quick},
    {"gqa-d64",                 "gqa",     "grouped queries, 32 heads on 8",                 1, 32,  8,  4096,   4096,  64, f16kv, true},
    {"gqa-d128",                "gqa",     "an 8-billion-parameter language model",          1, 32,  8,  4096,   4096, 128, f16kv, true},
    {"gqa-d64-small",           "gqa",     "gqa-d64 for slow devices",                       1, 32,  8,  1024,   1024,  64, f16kv, true},
    {"decode-d64",              "decode",  "one new token, 8 heads",                         1,  8,  8,     1,   4096,  64, f32,   false, 0, quick},
    {"decode-d128",             "decode",  "one new token, 8 wide heads",                    1,  8,  8,     1,   4096, 128, f32},
    {"decode-d64-f16kv",        "decode",  "one new token, half-precision cache",            1,  8,  8,     1,   4096,  64, f16kv},
    {"decode-d128-f16kv",       "decode",  "one new token, half-precision cache",            1,  8,  8,     1,   4096, 128, f16kv},
    {"decode-gqa-d64",          "decode",  "one new token, 32 heads on 8",                   1, 32,  8,     1,   4096,  64, f32},
    {"decode-gqa-d64-f16kv",    "decode",  "one new token, 32 heads on 8",                   1, 32,  8,     1,   4096,  64, f16kv, false, 0, quick},
    {"decode-h32-d128",         "decode",  "one new token, 32 heads of their own",           1, 32, 32,     1,   4096, 128, f32},
    {"decode-h32-d128-f16kv",   "decode",  "one new token, 32 heads of their own",           1, 32, 32,     1,   4096, 128, f16kv},
    {"decode-gqa-d64-small",    "decode",  "decode-gqa-d64 for slow devices",                1, 32,  8,     1,   1024,  64, f32},
    {"cross-d64",               "cross",   "an image that looks at a text: 4096 on 77",      1,  8,  8,  4096,     77,  64, f32},
    {"cross-d64-long",          "cross",   "a short text that looks at a long one",          1,  8,  8,   256,   8192,  64, f32},
    {"cross-d64-small",         "cross",   "cross-d64 for slow devices: 1024 on 77",         1,  8,  8,  1024,     77,  64, f32,   false, 0, quick},
    {"window-d64",              "window",  "local attention, 256 of 16384 tokens",           1,  8,  8, 16384,  16384,  64, f32,   true, 256},
    {"window-d64-small",        "window",  "window-d64 for slow devices",                    1,  8,  8,  1024,   1024,  64, f32,   true, 256},
    {"long-decode-d64",         "long",    "one new token after 131072",                     1,  8,  8,     1, 131072,  64, f16kv},
    {"long-decode-gqa-d128",    "long",    "the same, 32 heads on 8",                        1, 32,  8,     1, 131072, 128, f16kv},
    // The absorbed form of multi-head latent attention (DeepSeek-V2): values are the first 512 dims of the keys.
    {"latent-decode",           "latent",  "one new token, 128 heads on a latent cache",     1, 128, 1,    1,   4096, 576, f32,   false, 0, false, 0, {}, 512},
    {"latent-decode-bf16kv",    "latent",  "the same, the cache in bfloat16",                1, 128, 1,    1,   4096, 576, bf16kv, false, 0, false, 0, {}, 512},
    {"latent-decode-f16kv",     "latent",  "the same, the cache in half precision",          1, 128, 1,    1,   4096, 576, f16kv, false, 0, false, 0, {}, 512},
    {"latent-prefill-small",    "latent",  "64 tokens at the end of 1024",                   1,  16, 1,   64,   1024, 576, f32,   true,  0, false, 0, {}, 512},
    // Rules of visibility, of one head, so that software devices can take long sequences. full-d64 hides nothing.
    {"longformer-d64",          "rules",   "a window of 513 keys, 32 global tokens",         1,  1,  1, 16384,  16384,  64, f32,   false, 0, false, 0, {}, 0, {RuleKind::window, 256, 32}},
    {"window169-d64",           "rules",   "as many keys as neighbourhood-d64 sees",         1,  1,  1, 16384,  16384,  64, f32,   false, 0, false, 0, {}, 0, {RuleKind::window, 84}},
    {"neighbourhood-d64",       "rules",   "13x13 of an image's tokens, 256x256",            1,  1,  1, 65536,  65536,  64, f32,   false, 0, false, 0, {}, 0, {RuleKind::neighbourhood, 13}},
    {"blocks15-d64",            "rules",   "15% of blocks of 128x128, and the diagonal",     1,  1,  1,  8192,   8192,  64, f32,   false, 0, false, 0, {}, 0, {RuleKind::blockMask, 128, 15}},
    {"bigbird-d64",             "rules",   "BigBird, blocks of 64, 3 of a row at random",    1,  1,  1,  4096,   4096,  64, f32,   false, 0, false, 0, {}, 0, {RuleKind::bigBird, 64, 3}},
    {"full-d64",                "rules",   "without a rule, to compare with",                1,  1,  1,  8192,   8192,  64, f32},
    {"game-d32",                "game",    "many tiny sequences, as a game has them",       64,  4,  4,    64,     64,  32, f32,   false, 0, quick},
    {"game-d32-f16",            "game",    "the same in half precision",                    64,  4,  4,    64,     64,  32, f16},
    // Large enough to fill a GPU: batch * tokens is 16384, as papers on attention kernels measure.
    {"gpu-1k-d64",              "gpu",     "16 sequences of 1024",                          16, 16, 16,  1024,   1024,  64, f16},
    {"gpu-4k-d64",              "gpu",     "4 sequences of 4096",                            4, 16, 16,  4096,   4096,  64, f16},
    {"gpu-4k-d128",             "gpu",     "4 sequences of 4096, wide heads",                4, 16, 16,  4096,   4096, 128, f16},
    {"gpu-4k-d128-bf16",        "gpu",     "the same in bfloat16",                           4, 16, 16,  4096,   4096, 128, bf16},
    {"gpu-4k-d256",             "gpu",     "4 sequences of 4096, widest heads",              4, 16, 16,  4096,   4096, 256, f16},
    {"gpu-16k-d128",            "gpu",     "one sequence of 16384",                          1, 16, 16, 16384,  16384, 128, f16},
    {"gpu-4k-d64-causal",       "gpu",     "gpu-4k-d64, causal",                             4, 16, 16,  4096,   4096,  64, f16,   true},
    {"gpu-4k-d128-causal",      "gpu",     "gpu-4k-d128, causal",                            4, 16, 16,  4096,   4096, 128, f16,   true},
    {"gpu-16k-d128-causal",     "gpu",     "gpu-16k-d128, causal",                           1, 16, 16, 16384,  16384, 128, f16,   true},
    {"gpu-decode-8k",           "gpu",     "8 new tokens, 32 heads on 4, 8192 keys",         8, 32,  4,     1,   8192, 128, f16},
    {"gpu-decode-128k",         "gpu",     "8 new tokens, 32 heads on 4, 131072 keys",       8, 32,  4,     1, 131072, 128, f16},
    {"gpu-decode-8k-q16",       "gpu",     "16 tokens guessed ahead, 8192 keys",             8, 32,  4,    16,   8192, 128, f16},
};
// clang-format on

// Returns the sum over the queries: each sees one key more than the query before, from `first` on,
// between 0 and `limit` keys.
double rampSum(double first, double count, double limit) {
    // queries before the limit is reached
    const double rising = std::clamp(limit - first, 0.0, count);
    // The queries among these that see nothing.
    const double skipped = std::clamp(-first, 0.0, rising);
    const double from = first + skipped, n = rising - skipped;
    return n * from + n * (n - 1) / 2 + (count - rising) * limit;
}

[[noreturn]] void unknown(const char *what, const std::string &name, const std::vector<std::string> &known) {
    throw Failure(std::string("there is no ") + what + " '" + name + "', expected one of: " + join(known, ", ") + " (see --list)");
}

std::vector<std::string> shapeNames() {
    std::vector<std::string> names;
    for (const Shape &shape : table) names.push_back(shape.name);
    return names;
}

// Throws Failure where the library would not take the problem.
void validate(const Shape &shape) {
    const vkattn_problem problem = shape.problem(VKATTN_KERNEL_AUTO);
    vkattn_diagnostic why{};
    if (vkattnValidateProblem(&problem, &why) != VKATTN_OK) throw Failure("shape " + shape.name + " is not valid: " + why.message);
}

} // namespace

std::span<const ElementTypes> elementTypes() {
    return types;
}

const std::vector<Shape> &shapeTable() {
    return table;
}

vkattn_problem Shape::problem(vkattn_kernel kernel) const {
    const vkattn_layout q = packed(types->queries, batch, heads, queries, headDim);
    const uint32_t pages = pageTokens ? keys / pageTokens : 0;
    const vkattn_layout kv = packed(types->keys, pages ? batch * pages : batch, kvHeads, pages ? pageTokens : keys, headDim);
    vkattn_problem p = vkattn::problem(q, kv, kv, packed(types->queries, batch, heads, queries, valueDim()));
    if (valuesInKeys) p.v = {}, p.flags |= VKATTN_VALUES_IN_KEYS;
    if (pages) p.presentRoles = VKATTN_PRESENT(VKATTN_PAGE_TABLE), p.tablePages = pages;
    p.kernel = kernel;
    if (causal) p.flags |= VKATTN_CAUSAL;
    if (window) {
        p.flags |= VKATTN_WINDOW;
        p.windowLeft = static_cast<int32_t>(window) - 1;
        p.windowRight = 0;
    }
    describeRule(rule, keys, p);
    return p;
}

std::string Shape::sizeText() const {
    std::string text = std::to_string(batch) + "x" + std::to_string(heads);
    if (kvHeads != heads) text.append("/").append(std::to_string(kvHeads));
    return text + "x" + std::to_string(queries) + "x" + std::to_string(keys) + " D" + std::to_string(headDim);
}

std::string Shape::optionsText() const {
    std::string text = causal ? "causal" : "";
    if (window) text.append(text.empty() ? "window=" : " window=").append(std::to_string(window));
    if (pageTokens) text.append(text.empty() ? "pages=" : " pages=").append(std::to_string(pageTokens));
    return text + ruleText(rule, keys); // a shape with a rule has neither of the others
}

double Shape::visiblePairs() const {
    const double perHead = static_cast<double>(batch) * heads, n = queries;
    if (rule.kind != RuleKind::none) return perHead * rulePairs(rule, keys);
    if (!causal && !window) return perHead * n * keys;
    // Query i sees keys up to its own position i' = i + keys - queries (a window here always ends
    // there), and of these the last `window` keys.
    const double end = 1.0 + keys - n; // the position of the first query
    double pairs = rampSum(end, n, keys);
    if (window) pairs -= rampSum(end - window, n, keys);
    return perHead * pairs;
}

double Shape::flops() const {
    return 2.0 * (headDim + valueDim()) * visiblePairs();
}

uint64_t Shape::keyValueBytes() const {
    return (valuesInKeys ? uint64_t{1} : 2) * batch * kvHeads * keys * static_cast<uint64_t>(rowBytes(types->keys, headDim));
}

uint64_t Shape::bytes() const {
    return keyValueBytes() + uint64_t{batch} * heads * queries * static_cast<uint64_t>(rowBytes(types->queries, headDim + valueDim()));
}

std::vector<std::string> groupNames() {
    std::vector<std::string> names;
    for (const Shape &shape : table)
        if (std::find(names.begin(), names.end(), shape.group) == names.end()) names.push_back(shape.group);
    names.insert(names.end(), {"quick", "all"});
    return names;
}

Shape shapeNamed(const std::string &name) {
    const size_t at = name.find('@');
    const std::string family = name.substr(0, at);
    const auto found = std::find_if(table.begin(), table.end(), [&](const Shape &shape) { return shape.name == family; });
    if (found == table.end()) unknown("shape", family, shapeNames());
    if (at == std::string::npos) return *found;
    uint32_t tokens = 0;
    if (!parseNumber(std::string_view(name).substr(at + 1), tokens) || tokens == 0)
        throw Failure("shape '" + name + "': after @ a number of tokens is expected, like " + family + "@1024");
    return withTokens(*found, tokens);
}

std::vector<Shape> shapesOfGroup(const std::string &group) {
    std::vector<Shape> shapes;
    for (const Shape &shape : table)
        if (group == "all" || group == shape.group || (group == "quick" && shape.quick)) shapes.push_back(shape);
    if (shapes.empty()) unknown("group", group, groupNames());
    return shapes;
}

Shape withTokens(const Shape &shape, uint32_t tokens) {
    Shape other = shape;
    other.family = shape.name;
    other.name = shape.name + "@" + std::to_string(tokens);
    other.swept = tokens;
    if (shape.queries == shape.keys) other.queries = tokens;
    other.keys = tokens;
    validate(other);
    return other;
}

Shape customShape(const std::string &text) {
    Shape shape;
    shape.group = "custom";
    shape.standsFor = "given on the command line";
    shape.types = f32;
    bool kvGiven = false, keysGiven = false;
    std::vector<std::string> seen;
    for (const std::string &part : split(text, ',')) {
        const size_t equals = part.find('=');
        const std::string key = part.substr(0, equals), value = equals == std::string::npos ? "" : part.substr(equals + 1);
        const auto fail = [&](const std::string &expected) {
            throw Failure("--custom: '" + part + "' " + expected + ", like --custom heads=8,kv=8,q=4096,k=4096,d=64,type=f16kv,causal");
        };
        if (std::find(seen.begin(), seen.end(), key) != seen.end()) fail("is given twice, expected each key once");
        seen.push_back(key);
        const auto number = [&](uint32_t &target) {
            if (!parseNumber(value, target) || target == 0) fail("needs a whole number of 1 or more");
        };
        if (key == "batch") {
            number(shape.batch);
        } else if (key == "heads") {
            number(shape.heads);
        } else if (key == "kv") {
            number(shape.kvHeads);
            kvGiven = true;
        } else if (key == "q") {
            number(shape.queries);
        } else if (key == "k") {
            number(shape.keys);
            keysGiven = true;
        } else if (key == "d") {
            number(shape.headDim);
        } else if (key == "vk") {
            number(shape.valuesInKeys);
        } else if (key == "pages") {
            number(shape.pageTokens);
        } else if (key == "window") {
            number(shape.window);
            if (shape.window > INT32_MAX) fail("is more than a window can be (2147483647)");
        } else if (key == "name") {
            if (value.empty() || value.find_first_of("@\" \t\n") != std::string::npos) fail("needs a name without blanks, quotes and @");
            if (std::any_of(table.begin(), table.end(), [&](const Shape &other) { return other.name == value; }))
                fail("is a shape of the table already: choose another name");
            shape.name = value;
        } else if (key == "type") {
            const auto found = std::find_if(std::begin(types), std::end(types), [&](const ElementTypes &t) { return value == t.name; });
            if (found == std::end(types)) {
                std::string names;
                for (const ElementTypes &t : types)
                    names.append(names.empty() ? "" : &t == std::end(types) - 1 ? " or " : ", ").append(t.name);
                fail("is no type, expected " + names);
            }
            shape.types = &*found;
        } else if (part == "causal") {
            shape.causal = true;
        } else {
            fail("is not known, expected batch=, heads=, kv=, q=, k=, d=, vk=, type=, window=, pages=, name= or causal");
        }
    }
    if (!kvGiven) shape.kvHeads = shape.heads;
    if (!keysGiven) shape.keys = shape.queries;
    if (shape.pageTokens && shape.keys % shape.pageTokens)
        throw Failure("--custom has " + std::to_string(shape.keys) + " keys in pages of " + std::to_string(shape.pageTokens) +
                      ", expected whole pages");
    if (shape.name.empty()) {
        const auto add = [&](const char *letter, uint32_t value) { shape.name.append(letter).append(std::to_string(value)); };
        add("b", shape.batch), add("-h", shape.heads), add("-kv", shape.kvHeads);
        add("-q", shape.queries), add("-k", shape.keys), add("-d", shape.headDim);
        shape.name.append("-").append(shape.types->name);
        if (shape.valuesInKeys) shape.name += "-vk" + std::to_string(shape.valuesInKeys);
        if (shape.pageTokens) shape.name += "-pages" + std::to_string(shape.pageTokens);
        if (shape.causal) shape.name += "-causal";
        if (shape.window) shape.name += "-window" + std::to_string(shape.window);
    }
    validate(shape);
    return shape;
}

} // namespace vkattn::bench
