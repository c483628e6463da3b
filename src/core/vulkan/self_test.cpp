#include "core/vulkan/self_test.hpp"

#include "core/plan/kernel.hpp"
#include "core/vulkan/record.hpp"
#include "util/diagnostic.hpp"
#include "util/half.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace vkattn {
namespace {

constexpr vkattn_result unsupported = VKATTN_ERROR_UNSUPPORTED;
constexpr uint32_t heads = 2, kvHeads = 1;

// The problems to compare. Each goes wrong in its own way where a fragment's layout, a ragged edge
// or a hidden pair is computed wrong.
struct Trial {
    const char *name;
    uint32_t queries, keys, headDim, valueDim;
    uint32_t flags;
    float queryScale; // q lies within this, k within 1: powers of two
    bool masked;      // hidden pairs, hidden rows, and keys hidden from all with NaN in K and V
    bool lse;
};
constexpr Trial trials[] = {
    {"whole tiles", 64, 128, 64, 64, 0, 2, false, false},
    {"causal, ragged edges", 37, 130, 64, 64, VKATTN_CAUSAL, 2, false, true},
    // The first 25 rows see nothing.
    {"causal, more queries than keys", 70, 45, 40, 40, VKATTN_CAUSAL, 2, false, true},
    {"one query", 1, 97, 64, 64, 0, 2, false, false},
    {"large logits", 17, 129, 128, 128, 0, 64, false, true}, // scores up to about +-70
    {"masked, NaN in hidden values", 50, 77, 64, 64, 0, 2, true, true},
    {"other value dim", 20, 66, 128, 64, VKATTN_CAUSAL, 2, false, false},
};
constexpr uint32_t hiddenRow = 3;

bool hiddenKey(const Trial &trial, uint32_t key) { // hidden from every query
    return trial.masked && key % 5 == 3;
}
uint32_t mixed(uint32_t a, uint32_t b) {
    uint32_t h = a * 0x9e3779b9u ^ (b + 0x7f4a7c15u) * 0x85ebca6bu;
    h = (h ^ h >> 15) * 0x2c1b3c6du;
    return h ^ h >> 13;
}
bool visible(const Trial &trial, uint32_t query, uint32_t key) { // visible by the mask
    return query != hiddenRow && !hiddenKey(trial, key) && mixed(query, key) % 4 != 0;
}

// Offsets from the start of the buffer. Everything that is no input holds 0xff: an output element
// that nobody wrote is NaN, and the bytes between the regions show whether somebody wrote there.
struct Places {
    // [0] the kernel's outputs, [1] the staged kernel's.
    uint64_t q, k, v, mask, out[2], lse[2], end;
};
constexpr uint64_t placeAlignment = 256, gapBytes = 256;

uint64_t outElements(const Trial &trial) {
    return uint64_t{heads} * trial.queries * trial.valueDim;
}
uint64_t rows(const Trial &trial) {
    return uint64_t{heads} * trial.queries;
}

Places place(const Trial &trial, vkattn_dtype dtype, uint64_t begin) {
    Places places{};
    uint64_t at = begin;
    const auto take = [&](uint64_t elements, uint32_t size) {
        const uint64_t first = (at + gapBytes + placeAlignment - 1) / placeAlignment * placeAlignment;
        at = first + elements * size;
        return first;
    };
    const uint32_t size = elementBytes(dtype);
    places.q = take(rows(trial) * trial.headDim, size);
    places.k = take(uint64_t{kvHeads} * trial.keys * trial.headDim, size);
    places.v = take(uint64_t{kvHeads} * trial.keys * trial.valueDim, size);
    if (trial.masked) places.mask = take(uint64_t{trial.queries} * trial.keys, 1);
    for (int n = 0; n < 2; ++n) {
        places.out[n] = take(outElements(trial), 4);
        if (trial.lse) places.lse[n] = take(rows(trial), 4);
    }
    places.end = (at + gapBytes + placeAlignment - 1) / placeAlignment * placeAlignment;
    return places;
}

vkattn_layout packed(vkattn_dtype dtype, uint32_t h, uint32_t tokens, uint32_t dims) {
    vkattn_layout layout{};
    layout.dtype = dtype;
    const uint32_t extent[4] = {1, h, tokens, dims};
    int64_t stride = 1;
    for (int d = 3; d >= 0; --d) {
        layout.extent[d] = extent[d];
        layout.strideElems[d] = stride;
        stride *= extent[d];
    }
    return layout;
}

vkattn_result describe(const Trial &trial, vkattn_dtype dtype, Problem &problem, vkattn_diagnostic *why) {
    vkattn_problem p{};
    p.structSize = sizeof p;
    p.flags = trial.flags;
    p.q = packed(dtype, heads, trial.queries, trial.headDim);
    p.k = packed(dtype, kvHeads, trial.keys, trial.headDim);
    p.v = packed(dtype, kvHeads, trial.keys, trial.valueDim);
    p.out = packed(VKATTN_F32, heads, trial.queries, trial.valueDim);
    if (trial.lse) p.lse = packed(VKATTN_F32, heads, trial.queries, 1);
    if (trial.masked) p.mask = packed(VKATTN_BOOL8, 1, trial.queries, trial.keys);
    return makeProblem(&p, problem, why);
}

struct Case {
    const Trial &trial;
    vkattn_dtype dtype;
    Places places;
    Plan plans[2]; // the kernel's, and the staged kernel's
};

// Calls each(const Case &) for every trial that the kernel can run on the device, and sets `end` to
// the end of the regions. Returns UNSUPPORTED, with the first reason, where the kernel can run no
// trial.
template <class Each>
vkattn_result forEachCase(const DeviceContext &context, const Kernel &kernel, uint64_t &end, vkattn_diagnostic *why, Each each) {
    PlanLimits limits = context.limits();
    // A test under way goes on where another thread's test of the kernel has failed meanwhile.
    limits.caps.wrongKernels &= ~(1u << kernel.id);
    const bool matrices = kernel.onMatrixUnits();
    // Software drivers need minutes to compile the pipelines of wide heads.
    const uint32_t widest = limits.caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU ? 64 : maxDim;
    vkattn_diagnostic first{};
    end = 0;
    for (const vkattn_dtype dtype : {VKATTN_F32, VKATTN_F16, VKATTN_BF16}) {
        if (matrices == (dtype == VKATTN_F32)) continue;
        for (const Trial &trial : trials) {
            if (trial.headDim > widest) continue;
            Case test = {trial, dtype, place(trial, dtype, end), {}};
            Problem problem;
            if (const auto r = describe(trial, dtype, problem, why)) return r;
            problem.kernel = kernel.id;
            vkattn_diagnostic reason{};
            if (makePlanFor(kernel, problem, limits, test.plans[0], &reason) != VKATTN_OK) {
                if (!first.message[0]) first = reason;
                continue;
            }
            problem.kernel = baseline().id;
            if (const auto r = makePlanFor(baseline(), problem, limits, test.plans[1], why)) return r;
            end = test.places.end;
            if (const auto r = each(test)) return r;
        }
    }
    if (end) return VKATTN_OK;
    if (why) *why = first;
    return unsupported;
}

// Totals over both kernels of all trials. The kernels take turns with one workspace, at the end.
struct Totals {
    uint64_t workspaceAt = 0, workspaceBytes = 0, alignment = placeAlignment, sets = 0, descriptors = 0;
    [[nodiscard]] uint64_t bufferBytes() const { return workspaceAt + (workspaceBytes + 3) / 4 * 4; }
};

vkattn_result measure(const DeviceContext &context, const Kernel &kernel, Totals &totals, vkattn_diagnostic *why) {
    uint64_t end = 0;
    totals = {};
    const vkattn_result result = forEachCase(context, kernel, end, why, [&](const Case &test) {
        for (const Plan &plan : test.plans) {
            totals.workspaceBytes = std::max(totals.workspaceBytes, plan.workspaceBytes);
            totals.alignment = std::max<uint64_t>(totals.alignment, plan.workspaceAlignment);
            totals.sets += plan.dispatchCount;
            totals.descriptors += plan.storageDescriptorCount();
        }
        return VKATTN_OK;
    });
    totals.alignment = std::max<uint64_t>(totals.alignment, context.limits().caps.minStorageBufferOffsetAlignment);
    totals.workspaceAt = (end + totals.alignment - 1) / totals.alignment * totals.alignment;
    return result;
}

// Stores a value that both kernels read exactly: it has few significant bits, and is exact in every
// dtype.
void store(unsigned char *at, vkattn_dtype dtype, float value) {
    if (dtype == VKATTN_F32) {
        std::memcpy(at, &value, sizeof value);
        return;
    }
    const uint16_t half = dtype == VKATTN_F16 ? floatToHalf(value) : floatToBfloat16(value);
    std::memcpy(at, &half, sizeof half);
}

// Returns a value in [-1, 1]. The values are 64ths apart, so that rows differ and no sum is 0 by
// symmetry.
float wave(uint32_t role, uint32_t index) {
    return static_cast<float>(mixed(role, index) % 129) / 64.0f - 1.0f;
}
// Returns a value of size 1/2 to 1: the effect of a wrong weight shows, and sum_j w_j |v_j| is near
// max |v|.
float away(uint32_t role, uint32_t index) {
    const uint32_t h = mixed(role, index);
    return static_cast<float>(32 + h % 33) / (h & 0x8000u ? -64.0f : 64.0f);
}

void fill(const Case &test, unsigned char *bytes) {
    const Trial &trial = test.trial;
    const uint32_t size = elementBytes(test.dtype);
    for (uint32_t n = 0; n < rows(trial) * trial.headDim; ++n)
        store(bytes + test.places.q + n * size, test.dtype, trial.queryScale * wave(1, n));
    for (uint32_t key = 0; key < trial.keys; ++key) {
        if (hiddenKey(trial, key)) continue; // stays NaN
        for (uint32_t d = 0; d < trial.headDim; ++d) {
            const uint32_t n = key * trial.headDim + d;
            store(bytes + test.places.k + n * size, test.dtype, wave(2, n));
        }
        for (uint32_t d = 0; d < trial.valueDim; ++d) {
            const uint32_t n = key * trial.valueDim + d;
            store(bytes + test.places.v + n * size, test.dtype, away(3, n));
        }
    }
    for (uint32_t i = 0; trial.masked && i < trial.queries; ++i)
        for (uint32_t j = 0; j < trial.keys; ++j) bytes[test.places.mask + i * trial.keys + j] = visible(trial, i, j);
}

void computeBarrier(DeviceContext &context, VkCommandBuffer commands, VkAccessFlags access, VkPipelineStageFlags stage) {
    VkMemoryBarrier memory{};
    memory.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    memory.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
    memory.dstAccessMask = access;
    context.table().CmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, stage, 0, 1, &memory, 0, nullptr, 0, nullptr);
}

// Returns how far the two kernels' results may be apart. The staged kernel is exact to about 1e-6
// (docs/numerics.md, Tolerance, with w_j <= 1 and |v| <= 1). Rounding the probabilities changes
// each weight by a share of u_P at most, and their sum by as much. fp32 sums on matrix units may be
// truncated instead of rounded, which 2^-20 of the largest sum of products covers. 1e-4 are for the
// rest.
double tolerance(const Case &test) {
    const auto unit = static_cast<double>(test.plans[0].kernel->weightRounding(test.plans[0]).unit);
    const double products =
        static_cast<double>(test.plans[0].problem.scale) * test.trial.headDim * static_cast<double>(test.trial.queryScale);
    return 2 * unit + 1e-4 + 0x1p-20 * products;
}

float floatAt(const unsigned char *bytes, uint64_t at) {
    float value;
    std::memcpy(&value, bytes + at, sizeof value);
    return value;
}

// Finds the first difference in one trial and writes it into `why`.
class Comparison {
  public:
    Comparison(const Case &test, const unsigned char *bytes, vkattn_diagnostic *why)
        : test_(test), bytes_(bytes), allowed_(tolerance(test)), why_(why) {}
    [[nodiscard]] bool differs() const {
        const Trial &trial = test_.trial;
        for (uint32_t row = 0; row < rows(trial); ++row) {
            if (trial.lse && differs("lse", test_.places.lse, row, row, 0)) return true;
            for (uint32_t d = 0; d < trial.valueDim; ++d)
                if (differs("out", test_.places.out, row * trial.valueDim + d, row, d)) return true;
        }
        for (int n = 0; n < 2; ++n)
            if (touched(test_.places.out[n], outElements(trial)) || (trial.lse && touched(test_.places.lse[n], rows(trial)))) return true;
        return false;
    }

  private:
    bool differs(const char *tensor, const uint64_t (&at)[2], uint32_t element, uint32_t row, uint32_t dim) const {
        const double a = static_cast<double>(floatAt(bytes_, at[0] + element * uint64_t{4})),
                     b = static_cast<double>(floatAt(bytes_, at[1] + element * uint64_t{4}));
        // A row that sees nothing is exactly 0, and its lse -inf, in both kernels. NaN is right in
        // neither kernel; elements that nobody wrote are NaN.
        if (std::isfinite(b) ? b == 0 ? a == 0 : std::abs(a - b) <= allowed_ : std::isinf(b) && a == b) return false;
        (void)fail(why_, VKATTN_OK, "%s, %s, head dim %u: %s of head %u, query %u, dim %u is %g, and the staged kernel's is %g (+-%.2g)",
                   test_.trial.name, dtypeName(), test_.trial.headDim, tensor, row / test_.trial.queries, row % test_.trial.queries, dim, a,
                   b, allowed_);
        return true;
    }
    bool touched(uint64_t at, uint64_t elements) const {
        const auto kept = [this](uint64_t from, uint64_t count) {
            return std::all_of(bytes_ + from, bytes_ + from + count, [](unsigned char byte) { return byte == 0xff; });
        };
        const uint64_t end = at + 4 * elements;
        if (kept(at - gapBytes, gapBytes) && kept(end, gapBytes)) return false;
        (void)fail(why_, VKATTN_OK, "%s, %s, head dim %u: memory before or after an output was written", test_.trial.name, dtypeName(),
                   test_.trial.headDim);
        return true;
    }
    [[nodiscard]] const char *dtypeName() const { return test_.dtype == VKATTN_F32 ? "f32" : test_.dtype == VKATTN_F16 ? "f16" : "bf16"; }

    const Case &test_;
    const unsigned char *bytes_;
    double allowed_;
    vkattn_diagnostic *why_;
};

} // namespace

vkattn_result querySelfTest(const DeviceContext &context, const Kernel &kernel, vkattn_self_test &out, vkattn_diagnostic *why) {
    std::optional<PlanLimits> room;
    const Caps &caps = context.planLimits(room).caps;
    if (const auto r = checkAvailable(kernel, caps, why)) return r;
    Totals totals;
    if (const auto r = measure(context, kernel, totals, why)) return r;
    const bool pool = caps.pushDescriptors == 0;
    out.descriptorSetCount = pool ? static_cast<uint32_t>(totals.sets) : 0;
    out.storageDescriptorCount = pool ? static_cast<uint32_t>(totals.descriptors) : 0;
    out.bufferBytes = totals.bufferBytes();
    out.bufferAlignment = totals.alignment;
    return VKATTN_OK;
}

vkattn_result fillSelfTest(const DeviceContext &context, const Kernel &kernel, void *mapped, vkattn_diagnostic *why) {
    Totals totals;
    if (const auto r = measure(context, kernel, totals, why)) return r;
    std::memset(mapped, 0xff, static_cast<size_t>(totals.bufferBytes()));
    uint64_t end = 0;
    return forEachCase(context, kernel, end, why, [&](const Case &test) {
        fill(test, static_cast<unsigned char *>(mapped));
        return VKATTN_OK;
    });
}

vkattn_result recordSelfTest(DeviceContext &context, const Kernel &kernel, const SelfTestTarget &target, vkattn_diagnostic *why) {
    Totals totals;
    if (const auto r = measure(context, kernel, totals, why)) return r;
    if (target.offset % totals.alignment)
        return fail(why, VKATTN_ERROR_INVALID_ARGUMENT, "offset is %llu, expected a multiple of bufferAlignment = %llu",
                    static_cast<unsigned long long>(target.offset), static_cast<unsigned long long>(totals.alignment));
    uint64_t end = 0;
    bool first = true;
    const vkattn_result result = forEachCase(context, kernel, end, why, [&](const Case &test) {
        for (int n = 0; n < 2; ++n) {
            vkattn_binding bindings[VKATTN_ROLE_LIMIT];
            vkattn_record record{};
            record.structSize = sizeof record;
            record.allowCompile = 1;
            record.commandBuffer = target.commandBuffer;
            record.descriptorPool = target.descriptorPool;
            record.bindings = bindings;
            const Plan &plan = test.plans[n];
            const auto bind = [&](vkattn_role role, uint64_t at, uint64_t bytes) {
                if (bytes) bindings[record.bindingCount++] = {role, target.buffer, target.offset + at, bytes};
            };
            const auto bindTensor = [&](vkattn_role role, uint64_t at) { bind(role, at, plan.problem.bytesNeeded(role)); };
            bindTensor(VKATTN_Q, test.places.q);
            bindTensor(VKATTN_K, test.places.k);
            bindTensor(VKATTN_V, test.places.v);
            bindTensor(VKATTN_MASK, test.places.mask);
            bindTensor(VKATTN_OUT, test.places.out[n]);
            bindTensor(VKATTN_LSE, test.places.lse[n]);
            bind(VKATTN_WORKSPACE, totals.workspaceAt, plan.workspaceBytes);
            if (!first) // the workspace is shared
                computeBarrier(context, target.commandBuffer, VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT,
                               VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT);
            first = false;
            if (const auto r = recordSchedule(context, plan, record, why)) return r;
        }
        return VKATTN_OK;
    });
    if (result == VKATTN_OK) computeBarrier(context, target.commandBuffer, VK_ACCESS_HOST_READ_BIT, VK_PIPELINE_STAGE_HOST_BIT);
    return result;
}

vkattn_result judgeSelfTest(DeviceContext &context, const Kernel &kernel, const void *mapped, vkattn_verdict &verdict,
                            vkattn_diagnostic *why) {
    uint64_t end = 0;
    bool wrong = false;
    const vkattn_result result = forEachCase(context, kernel, end, why, [&](const Case &test) {
        wrong = wrong || Comparison(test, static_cast<const unsigned char *>(mapped), why).differs();
        return VKATTN_OK;
    });
    if (result != VKATTN_OK) return result;
    verdict = wrong ? VKATTN_VERDICT_WRONG : VKATTN_VERDICT_TRUSTED;
    if (wrong) context.setVerdict(kernel, verdict);
    return VKATTN_OK;
}

} // namespace vkattn
