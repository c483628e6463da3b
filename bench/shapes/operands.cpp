#include "shapes/operands.hpp"

#include "failure.hpp"
#include "shapes/random.hpp"
#include "text.hpp"

#include <bit>
#include <cstring>
#include <numeric>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

namespace vkattn::bench {
namespace {

float uniform(uint64_t bits) {
    return static_cast<float>(static_cast<int32_t>(bits >> 32)) * (1.7320508f / 2147483648.0f);
}

// Converts values below 65504 in magnitude. Values too small for a normal half become 0, which
// keeps denormals out of the timing.
uint16_t toHalf(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffffu;
    const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1);
    if (magnitude < 0x38800000u) return 0;
    return static_cast<uint16_t>((bits >> 16 & 0x8000u) | ((rounded - 0x38000000u) >> 13));
}

uint16_t toBfloat(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

// Returns the RAM of this machine; 0 = unknown. Linux promises more memory than there is, and kills
// the process when the memory is touched.
uint64_t memoryBytes() {
#if defined(_SC_PHYS_PAGES) && defined(_SC_PAGESIZE)
    const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    if (pages > 0 && size > 0) return static_cast<uint64_t>(pages) * static_cast<uint64_t>(size);
#endif
    return 0;
}

} // namespace

void fillOperand(std::byte *data, size_t bytes, vkattn_dtype type, uint64_t seed) {
    if (type == VKATTN_F32) {
        for (size_t at = 0; at < bytes; at += 4) {
            const float value = uniform(nextRandom(seed));
            std::memcpy(data + at, &value, 4);
        }
        return;
    }
    for (size_t at = 0; at < bytes; at += 2) {
        const float value = uniform(nextRandom(seed));
        const uint16_t bits = type == VKATTN_F16 ? toHalf(value) : toBfloat(value);
        std::memcpy(data + at, &bits, 2);
    }
}

const char *nameOf(vkattn_dtype dtype) {
    constexpr const char *names[] = {"f32", "f16", "bf16", "bool8", "bits32", "fp8e4m3", "fp8e5m2", "q8_0", "q4_0", "int8"};
    return names[dtype];
}

bool verifySteps(OperationList &list, uint32_t rows, uint64_t seed, uint32_t threads, vkattn_verify_report &report, std::string &why) {
    vkattn_verify_options verify{};
    verify.structSize = sizeof verify;
    verify.rows = rows;
    verify.seed = seed;
    verify.threads = threads;
    std::vector<StepCheck> checks;
    if (list.verify(checks, &verify, &why) != VKATTN_OK) return false;
    for (const StepCheck &check : checks) {
        report = check.report;
        if (report.passed) continue;
        why = "verification of " + check.operation + " failed: error " + shortNumber(report.worstError) + " where " +
              shortNumber(report.worstBound) + " is allowed";
        return false;
    }
    return true;
}

namespace {

// Of small types: rows of the same numbers.
void fillRows(std::byte *data, size_t bytes, const vkattn_layout &layout, uint64_t seed) {
    if (layout.dtype < VKATTN_FP8_E4M3) return fillOperand(data, bytes, layout.dtype, seed);
    const size_t rows = size_t{layout.extent[0]} * layout.extent[1] * layout.extent[2], rowBytes = bytes / rows;
    std::vector<float> row(layout.extent[3]);
    for (size_t n = 0; n < rows; ++n) {
        for (float &x : row) x = uniform(nextRandom(seed));
        vkattn_diagnostic why{};
        if (vkattnConvert(VKATTN_F32, row.data(), layout.dtype, data + n * rowBytes, row.size(), &why) != VKATTN_OK)
            throw Failure(why.message);
    }
}

} // namespace

Operands::Operands(const Shape &shape, uint64_t seed) {
    const vkattn_problem problem = shape.problem(VKATTN_KERNEL_AUTO);
    uint64_t wanted = shape.bytes();
    for (const vkattn_role role : ruleRoles) wanted += vkattnOperandBytes(&problem, role);
    const uint64_t have = memoryBytes();
    // A software device holds a copy of everything in the same memory.
    if (have && wanted > have / 2)
        throw Failure("shape " + shape.name + " has " + byteText(wanted) + " of data and this machine " + byteText(have) +
                      " of memory: choose a shape of at most half of that");
    for (const vkattn_role role : {VKATTN_Q, VKATTN_K, VKATTN_V, VKATTN_OUT}) {
        if (role == VKATTN_V && shape.valuesInKeys) continue;
        std::byte *data = add(role, problem);
        if (role != VKATTN_OUT) fillRows(data, list_.back().bytes, role == VKATTN_Q ? problem.q : problem.k, seed + role * 0x1000u);
    }
    if (shape.pageTokens) { // a stride that shares no factor with their number visits all
        std::byte *data = add(VKATTN_PAGE_TABLE, problem);
        const uint64_t pages = list_.back().bytes / 4;
        uint64_t stride = pages * 5 / 8 | 1;
        while (std::gcd(stride, pages) != 1) stride += 2;
        for (uint64_t n = 0; n < pages; ++n) {
            const auto page = static_cast<uint32_t>(n * stride % pages);
            std::memcpy(data + 4 * n, &page, 4);
        }
    }
    for (const vkattn_role role : ruleRoles)
        if (vkattnOperandBytes(&problem, role)) {
            std::byte *data = add(role, problem);
            fillRule(shape.rule, shape.keys, role, data, list_.back().bytes);
        }
}

std::byte *Operands::add(vkattn_role role, const vkattn_problem &problem) {
    const auto bytes = static_cast<size_t>(vkattnOperandBytes(&problem, role));
    // The memory is zeroed: an output left unwritten must not hold an earlier, right one. The
    // memory begins on a cache line, where hosts' tensors begin. The allocator would put large
    // tensors 16 bytes past a line, and half of the vectors across two lines.
    constexpr size_t line = 64;
    auto buffer = std::make_unique<std::byte[]>(bytes + line);
    std::byte *data = buffer.get() + (line - reinterpret_cast<uintptr_t>(buffer.get()) % line) % line;
    list_.push_back({role, data, bytes});
    buffers_.push_back(std::move(buffer));
    return data;
}

} // namespace vkattn::bench
