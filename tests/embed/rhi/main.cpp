// An engine that issues all commands through a layer of its own (rhi.hpp) computes attention from
// vkattnListDispatches alone: no context, no Vulkan handle given away. Every result is compared
// with the double-precision oracle, under the validation layer where it is installed. Exit status:
// 0, 1 where something was wrong, 77 where there is no device to test on.
#include "rhi.hpp"

#include <vkattn/cpu.h>
#include <vkattn/vkattn.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

int failures = 0;

void check(bool fine, const std::string &what) {
    if (fine) return;
    ++failures;
    std::printf("FAILED: %s\n", what.c_str());
}

// The engine's side of vkattn: about a page.
class Attention {
  public:
    explicit Attention(rhi::Device &device) : device_(device) {
        vkattn_diagnostic why{};
        const vkattn_physical_device asked =
            vkattn::physicalDevice(vkGetInstanceProcAddr, device.instance(), device.physicalDevice(), device.apiVersion());
        if (vkattn::physicalDeviceCaps(asked, device.extensions(), device.features(), caps, &why) != VKATTN_OK)
            throw rhi::Failure{why.message};
    }

    // Adds the problem to the frame. `roles`: where in the engine's memory each operand lies.
    void dispatch(const vkattn_problem &problem, const rhi::Range (&roles)[VKATTN_ROLE_LIMIT]) {
        for (const vkattn_dispatch &d : dispatchesOf(problem)) {
            rhi::Dispatch own;
            own.pipeline = pipelineOf(d);
            for (uint32_t n = 0; n < d.operandCount; ++n) {
                const vkattn_operand &operand = d.operands[n];
                own.bindings.push_back({roles[operand.role].offset + operand.offsetBytes, operand.sizeBytes});
            }
            own.push = d.pushConstants;
            own.groups = {d.groups[0], d.groups[1], d.groups[2]};
            if (d.barrierBefore && !forgetBarriers) device_.computeBarrier();
            device_.dispatch(own);
            ++dispatched;
        }
    }
    [[nodiscard]] uint64_t workspaceBytes(const vkattn_problem &problem) {
        vkattn_dispatch_list list{};
        vkattn_diagnostic why{};
        if (vkattn::measureDispatches(caps, problem, list, vkattn::planOptions(maxWorkspaceBytes), &why) != VKATTN_OK)
            throw rhi::Failure{why.message};
        return list.workspaceBytes;
    }
    [[nodiscard]] uint64_t alignment() const { return std::max(caps.minStorageBufferOffsetAlignment, 4u); }

    vkattn_caps caps{};
    uint64_t maxWorkspaceBytes = 0;
    bool forgetBarriers = false; // the positive control
    uint32_t dispatched = 0;
    [[nodiscard]] size_t pipelineCount() const { return pipelines_.size(); }

  private:
    std::span<const vkattn_dispatch> dispatchesOf(const vkattn_problem &problem) {
        vkattn_diagnostic why{};
        const vkattn_plan_options options = vkattn::planOptions(maxWorkspaceBytes);
        vkattn_dispatch_list list{};
        vkattn_result r = vkattn::measureDispatches(caps, problem, list, options, &why);
        if (r == VKATTN_OK) {
            scratch_.resize(list.scratchBytes);
            r = vkattnListDispatches(&caps, &options, &problem, scratch_.data(), scratch_.size(), &list, &why);
        }
        if (r != VKATTN_OK) throw rhi::Failure{why.message};
        return {list.dispatches, list.dispatches ? list.dispatchCount : 0};
    }
    rhi::PipelineId pipelineOf(const vkattn_dispatch &d) {
        const auto known = pipelines_.find(d.pipelineKey);
        if (known != pipelines_.end()) return known->second;
        const rhi::PipelineId made = device_.makePipeline({d.name, d.spirv, d.spirvBytes, d.specialization, d.operandCount,
                                                           d.pushConstantBytes, d.requireFullSubgroups != 0, d.requiredSubgroupSize});
        return pipelines_[d.pipelineKey] = made;
    }

    rhi::Device &device_;
    std::vector<std::byte> scratch_; // kept between frames
    std::map<uint64_t, rhi::PipelineId> pipelines_;
};

// Values from -2 to 2, exact in every type; never NaN.
class Numbers {
  public:
    void fill(unsigned char *to, uint64_t bytes, vkattn_dtype dtype) {
        for (uint64_t at = 0; at + 2 <= bytes; at += dtype == VKATTN_F32 ? 4 : 2) {
            const uint32_t draw = next();
            const auto half = static_cast<uint16_t>((draw & 0x8000u) | (12u + (draw >> 16) % 4) << 10 | (draw & 0x3ffu));
            const auto bits16 = static_cast<uint16_t>((draw & 0x8000u) | (124u + (draw >> 16) % 4) << 7 | (draw & 0x7fu));
            const uint32_t single = static_cast<uint32_t>(bits16) << 16;
            if (dtype == VKATTN_F32)
                std::memcpy(to + at, &single, 4);
            else
                std::memcpy(to + at, dtype == VKATTN_F16 ? &half : &bits16, 2);
        }
    }

  private:
    uint32_t next() {
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;
        return static_cast<uint32_t>(state_ >> 32);
    }
    uint64_t state_ = 42;
};

struct Case {
    std::string name;
    vkattn_problem problem;
    std::vector<uint32_t> cuQ{}, cuK{}; // ragged
};

std::vector<Case> cases() {
    std::vector<Case> list;
    const auto add = [&](const char *name, vkattn_dtype dtype, uint32_t heads, uint32_t kvHeads, uint32_t queries, uint32_t keys,
                         uint32_t dim, vkattn_kernel kernel) -> Case & {
        const vkattn_layout q = vkattn::packed(dtype, 1, heads, queries, dim), k = vkattn::packed(dtype, 1, kvHeads, keys, dim);
        vkattn_problem p = vkattn::problem(q, k, k, q);
        p.kernel = kernel;
        return list.emplace_back(Case{name, p});
    };
    add("staged", VKATTN_F32, 2, 2, 37, 53, 16, VKATTN_KERNEL_STAGED).problem.flags = VKATTN_CAUSAL;
    add("flash", VKATTN_F32, 2, 2, 70, 90, 32, VKATTN_KERNEL_FLASH).problem.flags = VKATTN_CAUSAL;
    add("decode", VKATTN_F32, 4, 2, 1, 700, 32, VKATTN_KERNEL_DECODE);
    Case &lse = add("flash with lse", VKATTN_F32, 2, 1, 33, 41, 32, VKATTN_KERNEL_FLASH);
    lse.problem.lse = vkattn::packed(VKATTN_F32, 1, 2, 33, 1);
    add("f16, odd rows, staged", VKATTN_F16, 3, 3, 7, 9, 5, VKATTN_KERNEL_STAGED);
    add("f16, odd rows, flash", VKATTN_F16, 3, 3, 19, 9, 5, VKATTN_KERNEL_FLASH);
    add("bf16, odd rows, decode", VKATTN_BF16, 6, 3, 1, 65, 7, VKATTN_KERNEL_DECODE);
    for (const vkattn_kernel kernel : {VKATTN_KERNEL_STAGED, VKATTN_KERNEL_FLASH}) {
        Case &ragged = add(kernel == VKATTN_KERNEL_STAGED ? "ragged, staged" : "ragged, flash", VKATTN_F32, 2, 2, 40, 60, 16, kernel);
        ragged.problem.presentRoles = VKATTN_PRESENT(VKATTN_CU_SEQ_Q) | VKATTN_PRESENT(VKATTN_CU_SEQ_K);
        ragged.problem.sequences = 3;
        ragged.problem.flags = VKATTN_CAUSAL;
        ragged.cuQ = {0, 17, 17, 40};
        ragged.cuK = {0, 20, 29, 60};
    }
    return list;
}

constexpr unsigned char untouched = 0xc5;
constexpr uint64_t gap = 64; // between two operands: nobody's

void run(rhi::Device &device, Attention &attention, const Case &c, const std::string &name) {
    device.reset();
    rhi::Range roles[VKATTN_ROLE_LIMIT], gaps[VKATTN_ROLE_LIMIT];
    std::vector<vkattn_operand_memory> memory;
    Numbers numbers;
    for (uint32_t n = 0; n < VKATTN_ROLE_LIMIT; ++n) {
        const auto role = static_cast<vkattn_role>(n);
        const uint64_t bytes = role == VKATTN_WORKSPACE ? attention.workspaceBytes(c.problem) : vkattnOperandBytes(&c.problem, role);
        if (!bytes) continue;
        roles[n] = device.allocate((bytes + 3) / 4 * 4, attention.alignment());
        gaps[n] = device.allocate(gap, 1);
        unsigned char *data = device.data(roles[n]);
        std::fill_n(data, roles[n].bytes + gap, untouched);
        if (role <= VKATTN_V) numbers.fill(data, bytes, c.problem.q.dtype);
        if (role == VKATTN_CU_SEQ_Q) std::memcpy(data, c.cuQ.data(), bytes);
        if (role == VKATTN_CU_SEQ_K) std::memcpy(data, c.cuK.data(), bytes);
        if (role != VKATTN_WORKSPACE) memory.push_back({role, data, bytes});
    }
    attention.dispatched = 0;
    device.beginFrame();
    attention.dispatch(c.problem, roles);
    device.endFrame();

    vkattn_verify_report report{};
    vkattn_diagnostic why{};
    const vkattn_result r = vkattnCpuVerify(&c.problem, memory.data(), static_cast<uint32_t>(memory.size()), nullptr, &report, &why);
    check(r == VKATTN_OK, name + ": " + why.message);
    check(attention.forgetBarriers || report.passed,
          name + " is wrong: error " + std::to_string(report.worstError) + ", allowed " + std::to_string(report.worstBound));
    for (uint32_t n = 0; n < VKATTN_ROLE_LIMIT; ++n) {
        const unsigned char *after = device.data(gaps[n]);
        check(std::all_of(after, after + gaps[n].bytes, [](unsigned char b) { return b == untouched; }), name + " wrote behind an operand");
    }
    std::printf("%-28s %2u dispatches, error %.1e, %llu rows\n", name.c_str(), attention.dispatched, report.maxError,
                static_cast<unsigned long long>(report.rowsChecked));
}

bool runAll() { // false: skipped
    rhi::Device device;
    std::printf("%s, %s\n", device.name().c_str(), device.validated() ? "validated" : "without the validation layer");
    if (std::getenv("VKATTN_TEST_SKIP_CPU_DEVICES") && device.isCpu()) {
        std::printf("skipped: a device of type CPU\n");
        return false;
    }
    Attention attention(device);
    const std::vector<Case> list = cases();

    // The positive control: a layer that does not see missing barriers would prove nothing.
    if (device.validated()) {
        attention.forgetBarriers = true;
        run(device, attention, list[0], "without barriers");
        attention.forgetBarriers = false;
        const auto &messages = device.messages();
        check(
            std::any_of(messages.begin(), messages.end(), [](const std::string &m) { return m.find("SYNC-HAZARD") != std::string::npos; }),
            "the validation layer does not see a deliberate hazard: this run would prove nothing");
        device.forgetMessages();
    }
    const vkattn_caps whole = attention.caps;
    uint32_t mostDispatches = 0;
    // cut into chunks: many dispatches, barriers between them, offsets inside operands
    for (const bool cut : {false, true}) {
        attention.caps = whole;
        if (cut) attention.caps.maxStorageBufferRange = 16384, attention.caps.minStorageBufferOffsetAlignment = 256;
        attention.maxWorkspaceBytes = cut ? 4096 : 0;
        for (const Case &c : list) {
            run(device, attention, c, c.name + (cut ? ", cut" : ""));
            mostDispatches = std::max(mostDispatches, attention.dispatched);
            for (const std::string &message : device.messages()) check(false, c.name + ": " + message);
            device.forgetMessages();
        }
    }
    check(mostDispatches > 9, "nothing was cut into chunks");
    std::printf("%zu pipelines\n", attention.pipelineCount());
    return true;
}

} // namespace

int main() {
    try {
        if (!runAll()) return 77;
    } catch (const rhi::Failure &failure) {
        check(false, failure.message);
    }
    return failures ? 1 : 0;
}
