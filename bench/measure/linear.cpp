#include "measure/linear.hpp"

#include "failure.hpp"
#include "shapes/operands.hpp"
#include "text.hpp"

#include <vkattn/operations.hpp>
#include <vkattn/traits.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace vkattn::bench {
namespace {

constexpr uint32_t favorRows = 256;

// The operands of one operation, in host memory.
class HostOperands {
  public:
    // Numbers evenly from -1.73 to 1.73, times `scale`, plus `shift`.
    void add(vkattn_role role, const vkattn_layout &layout, uint64_t seed, float scale = 1, float shift = 0) {
        std::vector<float> values(size_t{layout.extent[0]} * layout.extent[1] * layout.extent[2] * layout.extent[3]);
        fillOperand(reinterpret_cast<std::byte *>(values.data()), values.size() * sizeof(float), VKATTN_F32, seed);
        for (float &each : values) each = each * scale + shift;
        std::vector<std::byte> bytes(values.size() * sizeOf(layout.dtype));
        vkattn_diagnostic why{};
        if (layout.dtype == VKATTN_F32)
            std::memcpy(bytes.data(), values.data(), bytes.size());
        else if (vkattnConvert(VKATTN_F32, values.data(), layout.dtype, bytes.data(), values.size(), &why) != VKATTN_OK)
            throw Failure(std::string("cannot draw numbers: ") + why.message);
        memory_.push_back(std::move(bytes));
        list.push_back({role, memory_.back().data(), memory_.back().size()});
    }
    std::vector<vkattn_operand_memory> list;

  private:
    std::vector<std::vector<std::byte>> memory_;
};

uint32_t stateRows(const LinearShape &s) {
    return s.omegaRows ? s.omegaRows : s.keyDim;
}

struct LinearJob {
    vkattn_linear_attention linear{};
    HostOperands operands;

    LinearJob(const LinearShape &s, uint64_t seed) {
        const auto rows = [&](uint32_t dims) { return packed(s.dtype, 1, s.heads, s.tokens, dims); };
        linear = linearAttention(rows(s.keyDim), rows(s.keyDim), rows(s.valueDim), rows(s.valueDim));
        linear.rule = s.rule;
        linear.features = s.features;
        operands.add(VKATTN_Q, linear.q, seed);
        // Keys of norm 1, about: those of a delta rule must not grow the state.
        const float shorter = 1 / std::sqrt(static_cast<float>(s.keyDim));
        operands.add(VKATTN_K, linear.k, seed + 1, shorter);
        operands.add(VKATTN_V, linear.v, seed + 2);
        operands.add(VKATTN_OUT, linear.out, seed + 3);
        if (isGated(s.rule)) {
            linear.decay = packed(VKATTN_F32, 1, s.heads, s.tokens, 1);
            operands.add(VKATTN_DECAY, linear.decay, seed + 4, 0.02f, -0.05f);
        }
        if (isDelta(s.rule)) {
            linear.writeStrength = packed(VKATTN_F32, 1, s.heads, s.tokens, 1);
            operands.add(VKATTN_WRITE_STRENGTH, linear.writeStrength, seed + 5, 0.25f, 0.5f);
        }
        if (s.omegaRows) {
            linear.omega = packed(VKATTN_F32, 1, 1, s.omegaRows, s.keyDim);
            operands.add(VKATTN_OMEGA, linear.omega, seed + 6);
        }
        if (s.rule == VKATTN_LINEAR_FEATURES) return;
        // A decode loop and the next part of a prompt carry the state.
        linear.stateIn = linear.stateOut = packed(VKATTN_F32, 1, s.heads, s.keyDim, s.valueDim);
        operands.add(VKATTN_STATE_IN, linear.stateIn, seed + 7, 0.1f);
        operands.add(VKATTN_STATE_OUT, linear.stateOut, seed + 8);
    }
};

struct Pass {
    LinearTime time;
    vkattn_operation operation{};
    const HostOperands *operands = nullptr;
    std::vector<double> samples{};
};

bool runOnce(Runtime &runtime, Pass &pass, uint32_t threads) {
    RunOptions run;
    run.cpuThreads = threads;
    const RunResult result = runtime.run(pass.operation, pass.operands->list, run);
    if (result.status != VKATTN_OK)
        pass.time.failure = result.message;
    else if (!result.fallbackReason.empty())
        pass.time.failure = result.fallbackReason;
    else
        pass.samples.push_back(result.milliseconds);
    return pass.time.failure.empty();
}

void verify(Pass &pass, const MeasureOptions &options) {
    vkattn_verify_options check{};
    check.structSize = sizeof check;
    check.rows = options.verify.value_or(false) ? 0 : 64;
    check.seed = options.seed;
    check.threads = options.threads;
    vkattn_diagnostic why{};
    const auto count = static_cast<uint32_t>(pass.operands->list.size());
    if (vkattnCpuVerifyOperation(&pass.operation, pass.operands->list.data(), count, &check, &pass.time.verified, &why) != VKATTN_OK)
        pass.time.failure = std::string("cannot be verified: ") + why.message;
    else if (!pass.time.verified.passed)
        pass.time.failure = "verification failed: error " + shortNumber(pass.time.verified.worstError) + " where " +
                            shortNumber(pass.time.verified.worstBound) + " is allowed";
}

} // namespace

double LinearShape::flops() const {
    const double products = isDelta(rule) ? 3 : 2;
    return 2.0 * products * heads * tokens * stateRows(*this) * valueDim;
}
std::string LinearShape::sizeText() const {
    return std::to_string(heads) + "x" + std::to_string(tokens) + " " + std::to_string(stateRows(*this)) + "x" + std::to_string(valueDim);
}

const std::vector<LinearShape> &linearTable() {
    static const std::vector<LinearShape> table = {
        {"elu1-d64", VKATTN_LINEAR_FEATURES, VKATTN_FEATURES_ELU1, 8, 4096, 64, 64},
        {"favor-d64", VKATTN_LINEAR_FEATURES, VKATTN_FEATURES_FAVOR, 8, 4096, 64, 64, favorRows},
        {"gated-d64", VKATTN_LINEAR_GATED, {}, 8, 4096, 64, 64},
        {"delta-d64", VKATTN_LINEAR_DELTA, {}, 8, 4096, 64, 64},
        {"gated-delta-d64", VKATTN_LINEAR_GATED_DELTA, {}, 8, 4096, 64, 64},
        {"gated-delta-d128", VKATTN_LINEAR_GATED_DELTA, {}, 8, 4096, 128, 128},
        {"gated-delta-d128-f16", VKATTN_LINEAR_GATED_DELTA, {}, 8, 4096, 128, 128, 0, VKATTN_F16},
        // A token of a decode loop, and a guess of eight.
        {"gated-delta-token", VKATTN_LINEAR_GATED_DELTA, {}, 32, 1, 128, 128},
        {"gated-delta-guess", VKATTN_LINEAR_GATED_DELTA, {}, 32, 8, 128, 128},
    };
    return table;
}

LinearShape linearShapeNamed(const std::string &name) {
    std::vector<std::string> names;
    for (const LinearShape &each : linearTable()) {
        names.push_back(each.name);
        if (each.name == name) {
            LinearShape shape = each;
            shape.family = name;
            return shape;
        }
    }
    throw Failure("--linear: there is no shape '" + name + "', expected " + join(names, ", "));
}

LinearShape withTokens(const LinearShape &shape, uint32_t tokens) {
    LinearShape other = shape;
    other.tokens = tokens;
    other.name = shape.family + "@" + std::to_string(tokens);
    return other;
}

std::vector<LinearTime> LinearMeter::measure(const LinearShape &shape) {
    std::vector<Pass> passes;
    const auto add = [&](const char *name) -> Pass & {
        passes.push_back({.time = {.shape = shape, .pass = name}});
        return passes.back();
    };
    passes.reserve(3);
    LinearJob recurrent(shape, options_.seed), chunked(shape, options_.seed);
    recurrent.linear.form = VKATTN_LINEAR_FORM_RECURRENT, chunked.linear.form = VKATTN_LINEAR_FORM_CHUNKED;
    for (const auto &[name, job] : {std::pair{"recurrent", &recurrent}, {"chunked", &chunked}}) {
        Pass &pass = add(name);
        pass.operation = operation(job->linear), pass.operands = &job->operands;
    }
    Shape softmax = customShape("heads=" + std::to_string(shape.heads) + ",q=" + std::to_string(shape.tokens) +
                                ",k=" + std::to_string(shape.tokens) + ",d=" + std::to_string(shape.keyDim) + ",causal");
    softmax.types = &*std::find_if(elementTypes().begin(), elementTypes().end(),
                                   [&](const ElementTypes &t) { return t.queries == shape.dtype && t.keys == shape.dtype; });
    const vkattn_problem problem = softmax.problem(VKATTN_KERNEL_AUTO);
    HostOperands softmaxOperands;
    const auto known = secondsOfPair_.find(shape.keyDim);
    // A single token's softmax is decode, whose keys this shape does not say.
    const bool compares = shape.tokens >= 64;
    if (compares) {
        Pass &pass = add("softmax");
        if (known != secondsOfPair_.end() && known->second * softmax.visiblePairs() * (options_.repeat + 1) > options_.budgetSeconds) {
            pass.time.leftOut = true;
            pass.time.failure = "would take longer than --budget";
        } else {
            uint64_t seed = options_.seed;
            for (const vkattn_role role : {VKATTN_Q, VKATTN_K, VKATTN_V, VKATTN_OUT}) softmaxOperands.add(role, problem.q, seed++);
            pass.operation = operation(problem), pass.operands = &softmaxOperands;
        }
    }
    // Round 0 compiles, and gives what is verified.
    for (uint32_t round = 0; round <= options_.repeat; ++round)
        for (Pass &pass : passes) {
            if (!pass.time.failure.empty() || !runOnce(runtime_, pass, options_.threads) || round > 0) continue;
            if (options_.verify.value_or(true)) verify(pass, options_);
            pass.samples.clear();
        }
    std::vector<LinearTime> times;
    for (Pass &pass : passes) {
        LinearTime &time = pass.time;
        if (time.failure.empty()) {
            time.repeats = static_cast<uint32_t>(pass.samples.size());
            time.medianMs = medianOf(pass.samples);
            time.minMs = *std::min_element(pass.samples.begin(), pass.samples.end());
            if (time.pass == "softmax") secondsOfPair_[shape.keyDim] = time.medianMs * 1e-3 / softmax.visiblePairs();
        }
        times.push_back(std::move(time));
    }
    return times;
}

} // namespace vkattn::bench
