#include "tool/run/projected_tokens.hpp"

#include <algorithm>
#include <cstring>

namespace vkattn::tool {
using namespace program;
namespace {

HostBuffer copyOf(std::span<const std::byte> bytes) {
    HostBuffer buffer(bytes.size());
    if (!bytes.empty()) std::memcpy(buffer.data(), bytes.data(), bytes.size());
    return buffer;
}

Input *inputOf(Job &job, vkattn_role role) {
    const auto found = std::find_if(job.inputs.begin(), job.inputs.end(), [&](const Input &input) { return input.role() == role; });
    return found == job.inputs.end() ? nullptr : &*found;
}

} // namespace

bool isProjected(const Job &job, vkattn_role role) {
    return !job.projections.list.empty() && (role == VKATTN_K || role == VKATTN_V || role == VKATTN_KEY_LENGTHS);
}

std::vector<ReportedProjection> projectTokens(const RunArguments &arguments, const OpenedRuntime &opened, Job &job, HostArrays &arrays,
                                              std::vector<Verification> &verified) {
    std::vector<ReportedProjection> reports;
    std::vector<HostBuffer> matrices;
    HostBuffer lengths;
    for (const TokenProjection &each : job.projections.list) {
        const vkattn_operation operation = vkattn::operation(each.description);
        Input &tokens = *inputOf(job, each.role), &matrix = job.projections.matrices[each.matrix];
        const auto bytesOf = [&](vkattn_role role) { return vkattnOperationBytes(&operation, role); };
        checkMemory({{tokens.path(), bytesOf(VKATTN_W)}, {matrix.path(), 2 * bytesOf(VKATTN_X)}, {each.words(), 2 * bytesOf(VKATTN_Y)}});
        // A file is read once: values may have the matrix of the keys.
        if (each.matrix == matrices.size()) matrices.push_back(matrix.load());
        HostArrays own;
        own.add(VKATTN_X, copyOf(matrices[each.matrix].span()));
        own.add(VKATTN_W, tokens.load());
        own.add(VKATTN_Y, HostBuffer(static_cast<size_t>(bytesOf(VKATTN_Y))));
        if (Input *const input = inputOf(job, VKATTN_KEY_LENGTHS)) {
            if (lengths.bytes() == 0) lengths = input->load(operation);
            own.add(VKATTN_KEY_LENGTHS, copyOf(lengths.span()));
        }
        const RunResult result = compute(arguments, *opened.runtime, operation, own);
        if (arguments.verify) verified.push_back(verify(*arguments.verify, operation, own, result, each.words()));
        arrays.add(each.role, copyOf(own.of(VKATTN_Y)));
        reports.push_back({.words = each.words(),
                           .key = each.role == VKATTN_K ? "k" : "v",
                           .matrix = matrix.text(),
                           .tokens = each.tokens(),
                           .rows = each.rows(),
                           .dtype = each.description.y.dtype,
                           .result = result});
    }
    return reports;
}

} // namespace vkattn::tool
