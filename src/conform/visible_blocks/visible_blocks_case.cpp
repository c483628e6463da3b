#include "conform/visible_blocks/visible_blocks_case.hpp"

#include "conform/cases/case_text.hpp"
#include "conform/cases/operation_case.hpp"

#include <algorithm>
#include <cstdio>

namespace vkattn::conform {
namespace {

constexpr size_t canaries = 8; // words at each end
constexpr vkattn_role listRoles[] = {VKATTN_BLOCK_COUNTS, VKATTN_BLOCK_INDICES, VKATTN_FULL_BLOCK_COUNTS, VKATTN_FULL_BLOCK_INDICES};
constexpr const char *listNames[] = {"counts", "indices", "full counts", "full indices"};

const char *nameOfList(vkattn_role role) {
    return role >= VKATTN_BLOCK_COUNTS && role <= VKATTN_FULL_BLOCK_INDICES ? listNames[role - VKATTN_BLOCK_COUNTS] : "?";
}

std::vector<vkattn_operand_memory> memoryOf(std::vector<uint32_t> (&lists)[4]) {
    std::vector<vkattn_operand_memory> all;
    for (size_t n = 0; n < 4; ++n)
        if (!lists[n].empty()) all.push_back({listRoles[n], lists[n].data() + canaries, 4 * (lists[n].size() - 2 * canaries)});
    return all;
}

} // namespace

VisibleBlocksCase &VisibleBlocksCase::operator=(const VisibleBlocksCase &other) {
    if (this == &other) return *this;
    data = std::make_unique<CaseData>(*other.data);
    data->collectOperands();
    attention = other.attention;
    blocks = other.blocks;
    blocks.attention = &attention;
    std::copy(std::begin(other.lists), std::end(other.lists), lists);
    return *this;
}

std::vector<vkattn_operand_memory> VisibleBlocksCase::operands() {
    data->collectOperands();
    const vkattn_operation own = operation();
    std::vector<vkattn_operand_use> uses(VKATTN_ROLE_LIMIT);
    uses.resize(vkattnOperandUses(&own, uses.data(), VKATTN_ROLE_LIMIT));
    std::vector<vkattn_operand_memory> all = memoryOf(lists);
    for (const vkattn_operand_memory &each : data->operands)
        if (std::any_of(uses.begin(), uses.end(), [&](const auto &use) { return use.role == each.role && !use.writes; }))
            all.push_back(each);
    return all;
}

vkattn_problem VisibleBlocksCase::listed() const {
    vkattn_problem p = data->problem;
    p.blocks = blocks.blocks;
    return p;
}

std::vector<vkattn_operand_memory> VisibleBlocksCase::listedOperands() {
    data->collectOperands();
    std::vector<vkattn_operand_memory> all = data->operands;
    for (const vkattn_operand_memory &list : memoryOf(lists)) all.push_back(list);
    return all;
}

std::string VisibleBlocksCase::text() const {
    const vkattn_blocks &b = blocks.blocks;
    char words[160];
    std::snprintf(words, sizeof words, "; lists of %u x %u pairs, batches=%u heads=%u full=%u", b.queries, b.keys, b.batches, b.heads,
                  b.full);
    return caseText(data->c) + words;
}

std::string VisibleBlocksCase::wrong(const VisibleBlocksCase &before) {
    const OperationOutcome outcome = verifyOutputs(operation(), operands(), nameOfList);
    if (!outcome.wrong.empty()) return outcome.wrong;
    for (size_t n = 0; n < 4; ++n) {
        const std::vector<uint32_t> &now = lists[n], &then = before.lists[n];
        const bool indices = n % 2 == 1;
        const std::vector<uint32_t> &counts = lists[n - n % 2];
        const size_t rows = counts.size() - std::min(counts.size(), 2 * canaries), words = now.size() - std::min(now.size(), 2 * canaries);
        const size_t ofRow = rows ? words / rows : 0;
        for (size_t at = 0; at < now.size(); ++at) {
            bool mayChange = at >= canaries && at < now.size() - canaries;
            if (mayChange && indices) mayChange = (at - canaries) % ofRow < counts[canaries + (at - canaries) / ofRow];
            if (!mayChange && now[at] != then[at]) return std::string(listNames[n]) + ": word " + std::to_string(at) + " changed";
        }
    }
    return {};
}

VisibleBlocksCase drawVisibleBlocks(Random &random, const Case &given) {
    VisibleBlocksCase v;
    Case c = given;
    c.slices = 0;
    c.kernel = VKATTN_KERNEL_AUTO;
    c.blocks = Blocks::none; // the lists take their place
    c.shortMask = false;     // they are of every key
    v.data = makeCaseData(c, random);
    v.attention = v.data->problem;
    constexpr uint32_t sizes[] = {1, 2, 5, 8, 16, 33, 64, 200};
    const auto size = [&] { return sizes[random() % std::size(sizes)]; };
    v.blocks = visibleBlocks(v.attention, size(), size());
    v.blocks.blocks.full = random() % 3 != 0;
    // Shared lists, where nothing is given for each batch entry or head; a program may ask for either.
    const auto share = [&](uint32_t &count) {
        const uint32_t all = count;
        count = random() % 2;
        const vkattn_operation own = v.operation();
        if (c.hooks != Hooks::none || vkattnValidateOperation(&own, nullptr) != VKATTN_OK) count = all;
    };
    share(v.blocks.blocks.batches);
    share(v.blocks.blocks.heads);
    const vkattn_operation own = v.operation();
    for (size_t n = 0; n < 4; ++n) {
        if (n >= 2 && !v.blocks.blocks.full) continue;
        v.lists[n].resize(vkattnOperationBytes(&own, listRoles[n]) / 4 + 2 * canaries);
        for (uint32_t &word : v.lists[n]) word = static_cast<uint32_t>(random());
    }
    return v;
}

} // namespace vkattn::conform
