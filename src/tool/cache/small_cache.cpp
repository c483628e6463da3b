#include "tool/cache/small_cache.hpp"

#include "tool/arrays/convert.hpp"

#include <vkattn/operations.hpp>
#include <vkattn/vkattn.hpp>

#include <algorithm>
#include <cmath>

namespace vkattn::tool {
using namespace program;
namespace {

Input *inputOf(Job &job, vkattn_role role) {
    const auto found = std::find_if(job.inputs.begin(), job.inputs.end(), [&](const Input &input) { return input.role() == role; });
    return found == job.inputs.end() ? nullptr : &*found;
}
const vkattn_layout &cacheOf(const Job &job, vkattn_role role) {
    return role == VKATTN_K ? job.problem.k : job.problem.v;
}

uint64_t elementOf(const vkattn_layout &layout, uint32_t b, uint32_t h, uint32_t t) {
    const uint32_t index[3] = {b, h, t};
    int64_t at = static_cast<int64_t>(layout.offsetElems);
    for (int d = 0; d < 3; ++d)
        if (layout.extent[d] > 1) at += index[d] * layout.strideElems[d];
    return static_cast<uint64_t>(at);
}
// Returns the bytes before an element that begins a row.
uint64_t bytesBefore(vkattn_dtype type, uint64_t element) {
    return element / elementsOfBlock(type) * bytesOfBlock(type);
}

HostBuffer narrowed(const float *from, const vkattn_layout &fromLayout, const vkattn_layout &toLayout, uint64_t bytes) {
    HostBuffer cache(static_cast<size_t>(bytes));
    const uint32_t *e = toLayout.extent;
    std::vector<float> row(e[dim]);
    for (uint32_t b = 0; b < e[batch]; ++b)
        for (uint32_t h = 0; h < e[head]; ++h)
            for (uint32_t t = 0; t < e[token]; ++t) {
                const float *own = from + elementOf(fromLayout, b, h, t);
                for (uint32_t d = 0; d < e[dim]; ++d)
                    row[d] = own[static_cast<int64_t>(d) * (e[dim] > 1 ? fromLayout.strideElems[dim] : 0)];
                convert(VKATTN_F32, row.data(), toLayout.dtype, cache.data() + bytesBefore(toLayout.dtype, elementOf(toLayout, b, h, t)),
                        row.size());
            }
    return cache;
}

std::vector<double> numbers(std::span<const std::byte> bytes, vkattn_dtype dtype) {
    std::vector<float> floats(bytes.size() / itemBytes(dtype));
    if (dtype == VKATTN_F32)
        std::ranges::copy(bytes, reinterpret_cast<std::byte *>(floats.data())); // of no queries there are no bytes
    else
        convert(dtype, bytes.data(), VKATTN_F32, floats.data(), floats.size());
    return {floats.begin(), floats.end()};
}

} // namespace

bool isInCache(const Job &job, vkattn_role role) {
    return (role == VKATTN_K || role == VKATTN_V) && job.ofFiles[0].layout.extent[0] != 0;
}

void addSmallCache(Job &job, HostArrays &arrays) {
    for (const vkattn_role role : {VKATTN_K, VKATTN_V}) {
        Input *const input = inputOf(job, role);
        if (!input) continue; // values that are dims of the keys
        HostBuffer &floats = job.ofFiles[role - VKATTN_K].floats = input->load();
        const vkattn_operation attention = operation(job.problem);
        arrays.add(role, narrowed(reinterpret_cast<const float *>(floats.data()), job.ofFiles[role - VKATTN_K].layout, cacheOf(job, role),
                                  vkattnOperationBytes(&attention, role)));
    }
}

ReportedCache compareWithFiles(const RunArguments &arguments, const OpenedRuntime &opened, Job &job, const HostArrays &arrays) {
    vkattn_problem exact = job.problem;
    exact.k = job.ofFiles[0].layout;
    if (arguments.valuesInKeys == 0) exact.v = job.ofFiles[1].layout;
    exact.kernel = VKATTN_KERNEL_AUTO;
    exact.out.dtype = VKATTN_F32;
    exact.lse = exact.weights = exact.scores = {};
    const vkattn_operation attention = operation(exact);
    HostBuffer out(static_cast<size_t>(vkattnOperationBytes(&attention, VKATTN_OUT)));
    std::vector<vkattn_operand_memory> operands = arrays.operandsOf(attention);
    ReportedCache report{.dtype = *arguments.kvType};
    for (vkattn_operand_memory &operand : operands) {
        const HostBuffer *const own = operand.role == VKATTN_OUT ? &out
                                      : operand.role == VKATTN_K ? &job.ofFiles[0].floats
                                      : operand.role == VKATTN_V ? &job.ofFiles[1].floats
                                                                 : nullptr;
        if (operand.role == VKATTN_K || operand.role == VKATTN_V) report.bytes += operand.bytes;
        if (own) operand.data = own->data(), operand.bytes = own->bytes();
    }
    const RunResult result = opened.runtime->run(attention, operands, RunOptions{});
    throwWhereFailed(arguments, *opened.runtime, result);
    const std::vector<double> got = numbers(arrays.of(VKATTN_OUT), job.problem.out.dtype), expected = numbers(out.span(), VKATTN_F32);
    double errors = 0, sizes = 0;
    for (size_t n = 0; n < got.size(); ++n) {
        const double error = std::abs(got[n] - expected[n]);
        report.maxError = error > report.maxError || std::isnan(error) ? error : report.maxError;
        errors += error * error, sizes += expected[n] * expected[n];
    }
    const auto count = static_cast<double>(std::max<size_t>(got.size(), 1));
    report.rmsError = std::sqrt(errors / count), report.rmsOfOut = std::sqrt(sizes / count);
    return report;
}

} // namespace vkattn::tool
