#include "tool/run/visible_blocks.hpp"

#include "tool/arrays/program_file.hpp"

#include <vkattn/operations.hpp>

#include <algorithm>
#include <cstring>

namespace vkattn::tool {
using namespace program;
namespace {

constexpr vkattn_role listRoles[] = {VKATTN_BLOCK_COUNTS, VKATTN_BLOCK_INDICES, VKATTN_FULL_BLOCK_COUNTS, VKATTN_FULL_BLOCK_INDICES};

double sumOf(std::span<const std::byte> words) {
    double sum = 0;
    for (size_t at = 0; at < words.size(); at += 4) {
        uint32_t word;
        std::memcpy(&word, words.data() + at, 4);
        sum += word;
    }
    return sum;
}

} // namespace

ReportedBlocks makeVisibleBlocks(const RunArguments &arguments, const OpenedRuntime &opened, vkattn_problem &listed, HostArrays &arrays) {
    const vkattn_problem attention = listed;
    vkattn_visible_blocks lists = visibleBlocks(attention, arguments.rules.lists.queries, arguments.rules.lists.keys);
    const vkattn_operation operation = vkattn::operation(lists);
    vkattn_diagnostic why{};
    if (vkattnValidateOperation(&operation, &why) != VKATTN_OK) throw Failure(std::string("--visible-blocks: ") + why.message);
    for (const vkattn_role role : listRoles) {
        const uint64_t bytes = vkattnOperationBytes(&operation, role);
        checkMemory({{"the lists of --visible-blocks", bytes}});
        arrays.add(role, HostBuffer(static_cast<size_t>(bytes)));
    }
    prepareProgram(arguments, opened, operation);
    ReportedBlocks report;
    report.queries = lists.blocks.queries, report.keys = lists.blocks.keys;
    report.result = compute(arguments, *opened.runtime, operation, arrays);
    report.full = sumOf(arrays.of(VKATTN_FULL_BLOCK_COUNTS));
    report.listed = report.full + sumOf(arrays.of(VKATTN_BLOCK_COUNTS));
    report.blocks = static_cast<double>(arrays.of(VKATTN_BLOCK_INDICES).size() / 4);
    listed.blocks = lists.blocks;
    return report;
}

} // namespace vkattn::tool
