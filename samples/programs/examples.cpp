#include "examples.hpp"

#include <bit>
#include <cassert>
#include <cmath>
#include <fstream>
#include <random>
#include <sstream>

namespace programs {
namespace {

constexpr float cap = 2.5f, most = 1.5f, reach = 9.0f;
constexpr uint32_t prefix = 37, documents = 5;

uint32_t headsOf(const Attention &a) {
    return a.problem.q.extent[1];
}
uint32_t tokensOf(const Attention &a) {
    return a.problem.q.extent[2];
}
float importanceOf(uint32_t key) {
    return 0.25f * static_cast<float>(key % 11) - 0.75f;
}
float temperatureOf(uint32_t head) {
    return 0.5f + 0.375f * static_cast<float>(head);
}
std::vector<float> slopesOf(const Attention &a) {
    std::vector<float> slopes(headsOf(a));
    (void)vkattnAlibiSlopes(headsOf(a), slopes.data(), nullptr);
    return slopes;
}
std::vector<uint32_t> documentsOf(const Attention &a) {
    std::vector<uint32_t> ids;
    for (uint32_t b = 0; b < a.problem.q.extent[0]; ++b)
        for (uint32_t i = 0; i < tokensOf(a); ++i) ids.push_back(i * documents / tokensOf(a) + b);
    return ids;
}
std::vector<float> tableOf(const Attention &a) {
    std::mt19937 random(7);
    std::vector<float> table(size_t{headsOf(a)} * (2 * a.side - 1) * (2 * a.side - 1));
    for (float &each : table) each = std::normal_distribution<float>()(random);
    return table;
}

} // namespace

Attention::Attention(uint32_t batch, uint32_t heads, uint32_t ofSide, uint32_t dim, vkattn_dtype type) : side(ofSide) {
    const uint32_t tokens = side * side;
    const vkattn_layout layout = vkattn::packed(type, batch, heads, tokens, dim);
    problem = vkattn::problem(layout, layout, layout, vkattn::packed(VKATTN_F32, batch, heads, tokens, dim));
    std::mt19937 random(1);
    const size_t elements = size_t{batch} * heads * tokens * dim;
    for (const vkattn_role role : {VKATTN_Q, VKATTN_K, VKATTN_V}) {
        std::vector<float> numbers(elements);
        for (float &each : numbers) each = std::normal_distribution<float>()(random);
        if (type == VKATTN_F32) {
            add(role, numbers);
            continue;
        }
        std::vector<uint32_t> words((elements + 1) / 2);
        [[maybe_unused]] const vkattn_result converted = vkattnConvert(VKATTN_F32, numbers.data(), type, words.data(), elements, nullptr);
        assert(converted == VKATTN_OK);
        add(role, std::move(words));
    }
    out.assign(elements, NAN);
    operands.push_back({VKATTN_OUT, out.data(), 4 * out.size()});
}

void Attention::add(vkattn_role role, std::vector<uint32_t> words) {
    memory_.push_back(std::move(words));
    operands.push_back({role, memory_.back().data(), 4 * memory_.back().size()});
}
void Attention::add(vkattn_role role, const std::vector<float> &numbers) {
    std::vector<uint32_t> words;
    for (const float number : numbers) words.push_back(std::bit_cast<uint32_t>(number));
    add(role, std::move(words));
}

void Attention::scaleQuery(uint32_t head, float factor) {
    assert(problem.q.dtype == VKATTN_F32);
    const uint32_t *e = problem.q.extent;
    for (uint32_t b = 0; b < e[0]; ++b)
        for (size_t n = 0; n < size_t{e[2]} * e[3]; ++n) {
            uint32_t &word = memory_[0][(size_t{b} * e[1] + head) * e[2] * e[3] + n];
            word = std::bit_cast<uint32_t>(std::bit_cast<float>(word) * factor);
        }
}

void Attention::scaleValue(uint32_t key, float factor) {
    assert(problem.v.dtype == VKATTN_F32);
    const uint32_t *e = problem.v.extent;
    for (size_t row = key; row < size_t{e[0]} * e[1] * e[2]; row += e[2])
        for (uint32_t d = 0; d < e[3]; ++d) {
            uint32_t &word = memory_[2][row * e[3] + d];
            word = std::bit_cast<uint32_t>(std::bit_cast<float>(word) * factor);
        }
}

namespace {

void addBuffer(Attention &a, uint32_t number, const std::vector<float> &numbers) {
    a.problem.programBufferWords[number] = static_cast<uint32_t>(numbers.size());
    a.add(static_cast<vkattn_role>(VKATTN_PROGRAM_BUFFER_0 + number), numbers);
}
void setNumber(Attention &a, uint32_t word, float number) {
    a.problem.programWords[word] = std::bit_cast<uint32_t>(number);
}

} // namespace

const std::vector<Example> &examples() {
    static const std::vector<Example> all = {
        {"alibi", "ALiBi slopes", [](Attention &a) { addBuffer(a, 0, slopesOf(a)); },
         [](Attention &a) {
             a.problem.presentRoles |= VKATTN_PRESENT(VKATTN_ALIBI_SLOPES);
             a.add(VKATTN_ALIBI_SLOPES, slopesOf(a));
         }},
        {"softcap", "softcap", [](Attention &a) { setNumber(a, 0, cap); }, [](Attention &a) { a.problem.softcap = cap; }},
        {"documents", "document ids",
         [](Attention &a) {
             a.add(VKATTN_PROGRAM_BUFFER_0, documentsOf(a));
             a.problem.programBufferWords[0] = static_cast<uint32_t>(documentsOf(a).size());
         },
         [](Attention &a) {
             a.problem.presentRoles |= VKATTN_PRESENT(VKATTN_DOC_IDS_Q) | VKATTN_PRESENT(VKATTN_DOC_IDS_K);
             a.add(VKATTN_DOC_IDS_Q, documentsOf(a));
             a.add(VKATTN_DOC_IDS_K, documentsOf(a));
         }},
        {"prefix", "causal and prefix lengths", [](Attention &a) { a.problem.programWords[0] = prefix; },
         [](Attention &a) {
             a.problem.flags |= VKATTN_CAUSAL;
             a.problem.presentRoles |= VKATTN_PRESENT(VKATTN_PREFIX_LENGTHS);
             a.add(VKATTN_PREFIX_LENGTHS, std::vector<uint32_t>(a.problem.q.extent[0], prefix));
         }},
        {"temperature", "q, multiplied before",
         [](Attention &a) {
             std::vector<float> factors;
             for (uint32_t h = 0; h < headsOf(a); ++h) factors.push_back(temperatureOf(h));
             addBuffer(a, 0, factors);
         },
         [](Attention &a) {
             for (uint32_t h = 0; h < headsOf(a); ++h) a.scaleQuery(h, temperatureOf(h));
         }},
        {"importance", "v, multiplied before",
         [](Attention &a) {
             std::vector<float> factors;
             for (uint32_t j = 0; j < tokensOf(a); ++j) factors.push_back(importanceOf(j));
             addBuffer(a, 0, factors);
         },
         [](Attention &a) {
             for (uint32_t j = 0; j < tokensOf(a); ++j) a.scaleValue(j, importanceOf(j));
         }},
        {"tanh_position", "a bias of every pair",
         [](Attention &a) {
             setNumber(a, 0, most);
             setNumber(a, 1, reach);
         },
         [](Attention &a) {
             a.addBias([](uint32_t, uint32_t i, uint32_t j) {
                 return most * std::tanh((static_cast<float>(i) - static_cast<float>(j)) / reach);
             });
         }},
        {"relative_bias", "a bias of every pair",
         [](Attention &a) {
             a.problem.programWords[0] = a.problem.programWords[1] = a.side;
             addBuffer(a, 0, tableOf(a));
         },
         [](Attention &a) {
             const std::vector<float> table = tableOf(a);
             const uint32_t side = a.side, width = 2 * side - 1;
             a.addBias([&](uint32_t h, uint32_t i, uint32_t j) {
                 const uint32_t down = i / side + side - 1 - j / side, across = i % side + side - 1 - j % side;
                 return table[(size_t{h} * width + down) * width + across];
             });
         }},
    };
    return all;
}

std::string textOf(const std::string &folder, const Example &example) {
    std::ifstream file(folder + "/" + example.name + ".glsl", std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return file ? text.str() : std::string();
}

} // namespace programs
