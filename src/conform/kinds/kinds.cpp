#include "conform/kinds/kinds.hpp"

#include <algorithm>
#include <cstring>

namespace vkattn::conform {

std::span<const Kind> checkKinds() {
    static constexpr Kind kinds[] = {
        {"matrix", "each element against the oracle in double precision; nothing else is written; NaN and infinity wherever no row looks",
         checkMatrix},
        {"hidden", "NaN and infinity in one key: rows that do not see it keep every bit, rows that do show it", checkHidden},
        {"nonfinite", "NaN and infinity in what is visible reach their row, and no other", checkNonFinite},
        {"repeat", "the same bits, run after run", checkRepeat},
        {"split", "deterministic: the same bits whatever the batch, the slices and the chunks", checkSplit},
        {"needles", "one dominating key at every place of a step, and at both sides of the edges of splits", checkNeedles},
        {"accuracy", "ordinary f32 inputs: within 2e-6 of the largest |v|", checkAccuracy},
        {"projection",
         "Y = X W^T with bias, residual and lengths of the inner dim, drawn: each element against the oracle, nothing else written, the "
         "same bits again",
         checkProjection, Subject::operation},
        {"norm", "layer norm and RMS norm with residual, likewise", checkNorm, Subject::operation},
        {"rotary", "rotary embedding and rotated tokens into a cache, likewise", checkRotary, Subject::operation},
        {"append", "tokens into a cache, likewise", checkAppend, Subject::operation},
        {"advance", "counters that move on, likewise, and every difference is wrong", checkAdvance, Subject::operation},
        {"mean", "the mean over groups, likewise", checkMean, Subject::operation},
        {"merge", "parts of attention put together by their log-sum-exps, likewise", checkMerge, Subject::operation},
        {"hadamard", "rows times the Hadamard matrix, likewise", checkHadamard, Subject::operation},
        {"keep", "the bits of what dropout keeps, likewise, and every difference is wrong", checkKeep, Subject::operation},
        {"drop", "dropout of a layer's output, with its residual, likewise", checkDrop, Subject::operation},
        {"normGradient", "the gradients of layer norm and RMS norm, likewise", checkNormGradient, Subject::operation},
        {"gradient", "gradients of attention with its options after a forward pass, likewise; NaN wherever nothing looks", checkGradient,
         Subject::operation},
        {"statistics", "statistics of attention with its options, largest weights and what keys receive, likewise", checkStatistics,
         Subject::operation},
        {"visibleBlocks",
         "lists of the blocks of pairs that are visible, likewise, and every difference is wrong; attention that reads them",
         checkVisibleBlocks, Subject::operation},
        {"linear",
         "linear attention by features and by recurrent rules, with its states, likewise; the same in slices, bit for bit; and gradients, "
         "twice",
         checkLinear, Subject::operation},
        {"layer",
         "multi-head attention from X to the output, drawn: each step against the oracle, the whole against its formulas, the same "
         "bits recorded at once",
         checkLayer, Subject::layer},
        {"latentLayer", "multi-head latent attention with its cache, in both forms, likewise", checkLatentLayer, Subject::layer},
        {"layerGradient",
         "the backward pass of multi-head attention whole, drawn: each step against the oracle, the gradients against central differences "
         "of the formulas, the same bits recorded at once",
         checkLayerGradient, Subject::layer},
    };
    return kinds;
}

Finding run(DeviceUnderTest &device, const Check &check) {
    return check.kind->run(device, check);
}

namespace {

// Returns the bytes of the least part of a tensor that a plan binds: a row, or all tokens of a head.
uint64_t leastBytes(const vkattn_layout &t, bool ofHead) {
    const auto reach = [&](int axis) {
        return (std::max(t.extent[axis], 1u) - 1ull) * static_cast<uint64_t>(std::abs(t.strideElems[axis]));
    };
    const uint64_t elements = 1 + (ofHead ? reach(2) : 0) + reach(3), ofBlock = elementsOfBlock(t.dtype);
    return (elements + ofBlock - 1) / ofBlock * bytesOfBlock(t.dtype);
}

} // namespace

bool isForRoom(Limits limits, const std::string &words) {
    constexpr const char *room[] = {"over the device's maxStorageBufferRange", "bind at a time", "binds at a time", "in one binding",
                                    "takes more than the device's limits allow"};
    return makeChunks(limits) &&
           std::any_of(std::begin(room), std::end(room), [&](const char *part) { return words.find(part) != std::string::npos; });
}

bool isForBuffers(Limits limits, const vkattn_caps &device, uint32_t needed, const std::string &words) {
    return (areMinimum(limits) || device.maxStorageBuffersPerStage < needed) && words.find("storage buffers a stage") != std::string::npos;
}

bool isOverBindings(Limits limits, const CaseData &in, std::span<const vkattn_layout> others) {
    if (!makeChunks(limits)) return false;
    constexpr uint64_t room = bindingBytesOfChunks - 512; // a binding begins where the device's alignment has it
    const auto over = [&](const vkattn_layout &t) { return leastBytes(t, in.c.ragged) > room; };
    const auto isOver = [&](const HostTensor &t) { return over(t.layout); };
    for (const HostTensor *t :
         {&in.q, &in.k, &in.v, &in.out, &in.lse, &in.weights, &in.scores, &in.mask, &in.bias, &in.bitMask, &in.priorOut, &in.priorLse})
        if (isOver(*t)) return true;
    if (std::any_of(std::begin(in.segments), std::end(in.segments), isOver) || std::any_of(others.begin(), others.end(), over)) return true;
    const auto bytes = [&](uint32_t role) { return vkattnOperandBytes(&in.problem, static_cast<vkattn_role>(role)); };
    // Arrays of blocks are read whole.
    for (uint32_t role = VKATTN_BLOCK_MASK; role <= VKATTN_FULL_BLOCK_INDICES; ++role)
        if (bytes(role) > room) return true;
    // One binding holds a head of a pool of pages.
    return in.c.pageTokens && std::max(bytes(VKATTN_K), bytes(VKATTN_V)) > room;
}

std::vector<std::string> allowedRefusals(const Check &check, const CaseData &in, const vkattn_caps &caps) {
    const Case &c = in.c;
    std::vector<std::string> allowed;
    const auto allow = [&](bool holds, const std::string &words) {
        if (holds) allowed.push_back(words);
    };
    allow(isOverBindings(check.limits, in), "maxStorageBufferRange");
    if (c.kernel == VKATTN_KERNEL_AUTO || c.kernel == VKATTN_KERNEL_STAGED) return allowed;
    const uint32_t traits = vkattnKernelTraits(c.kernel);
    allow(areMinimum(check.limits), "storage buffers a stage");
    // Which keys share a split must not depend on segments.
    allow(c.deterministic && c.segments, "segments that begin at multiples of");
    allow(c.writesPairs() && !(traits & VKATTN_KERNEL_TRAIT_WEIGHTS), "only the staged kernel writes them");
    const bool matrix = traits & VKATTN_KERNEL_TRAIT_MATRIX_UNITS;
    const vkattn_matrix_shape *end = caps.matrixShapes + caps.matrixShapeCount;
    allow(matrix &&
              (c.q != c.k || c.k != c.v || std::none_of(caps.matrixShapes, end, [&](const auto &shape) { return shape.inputs == c.q; })),
          "f16");
    const uint32_t dims = matrix ? 256 : caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU && !caps.subgroupShuffle ? 128 : 576;
    allow(std::max(c.headDim, c.valueDim) > dims, "dims up to " + std::to_string(dims));
    // Four lanes share so many dims that one row of them is too much.
    allow(!matrix && caps.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU && caps.subgroupSize < 8 && std::max(c.headDim, c.valueDim) > 336,
          "too long to compile");
    const uint32_t keys = mostKeys(in.problem);
    allow(in.problem.q.extent[2] != 0 && keys == 0, "nothing to do without keys");
    return allowed;
}

Errors errorsOf(const vkattn_verify_report &report) {
    Errors errors;
    std::copy_n(report.histogram, VKATTN_VERIFY_BINS, errors.histogram);
    errors.worstError = report.worstError, errors.worstBound = report.worstBound;
    // A bound of 0: infinity.
    errors.worstRatio = report.worstError == 0 ? 0 : report.worstError / report.worstBound;
    return errors;
}

Finder::Finder(DeviceUnderTest &device, const Check &check) : device_(device), check_(check) {}

bool Finder::unsupported(const std::string &reason) {
    finding.outcome = Outcome::unsupported;
    finding.reason = reason;
    return false;
}

bool Finder::require(bool holds, const std::string &wrong) {
    if (!holds) finding.outcome = Outcome::fail, finding.reason = wrong;
    return holds;
}

bool Finder::open(Limits limits) {
    std::string why;
    runtime = device_.runtime(*check_.testLayout, limits, why);
    if (runtime) {
        const vkattn_kernel kernel = check_.c.kernel;
        if (kernel == VKATTN_KERNEL_AUTO) return true;
        const KernelSupport *support = runtime->device()->support(kernel);
        return support->available || unsupported(support->reason);
    }
    if (!device_.failure().empty()) return require(false, "the device cannot be opened: " + device_.failure());
    return unsupported(why);
}

bool Finder::accept(const RunResult &result, const CaseData &in, const std::string &what) {
    finding.deviceMilliseconds += result.milliseconds;
    const std::string where = what.empty() ? "" : what + ": ";
    if (result.status == VKATTN_ERROR_UNSUPPORTED) {
        for (const std::string &words : allowedRefusals(check_, in, runtime->device()->caps))
            if (result.message.find(words) != std::string::npos) return unsupported(result.message);
        return require(false, where + "refused, though the kernel must take it: " + result.message);
    }
    return require(result.status == VKATTN_OK, where + "run: " + result.message) &&
           require(result.fallbackReason.empty(), where + "fell back to the CPU: " + result.fallbackReason);
}

bool Finder::compute(const vkattn_problem &problem, std::span<const vkattn_operand_memory> operands, CaseData &in,
                     const std::string &what) {
    return accept(runtime->run(problem, operands), in, what);
}

bool Finder::compute(CaseData &in, const std::string &what) {
    return compute(in.problem, in.operands, in, what);
}

bool Finder::verify(CaseData &in, const std::string &what) {
    const Ran ran = runAndVerify(*runtime, in);
    if (!accept(ran.result, in, what)) return false;
    Errors errors = errorsOf(ran.report);
    errors.relativeToV = ran.report.maxErrorRelativeToV;
    if (!finding.errors) finding.errors.emplace();
    finding.errors->merge(errors);
    return require(ran.wrong.empty(), what.empty() ? ran.wrong : what + ": " + ran.wrong);
}

bool sameBytes(const HostTensor &a, const HostTensor &b) {
    return a.layout.extent[0] == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

bool sameBytes(const Outputs &a, const CaseData &b) {
    return sameBytes(a.out, b.out) && (!b.c.lse || sameBytes(a.lse, b.lse)) && (!b.c.weights || sameBytes(a.weights, b.weights)) &&
           (!b.c.scores || sameBytes(a.scores, b.scores));
}

bool sameRow(const HostTensor &a, const HostTensor &b, uint32_t batch, uint32_t head, uint32_t row) {
    for (uint32_t d = 0; d < a.layout.extent[3]; ++d) {
        const float x = a.get(batch, head, row, d), y = b.get(batch, head, row, d);
        if (std::memcmp(&x, &y, sizeof x) != 0) return false;
    }
    return true;
}

Finding checkMatrix(DeviceUnderTest &device, const Check &check) {
    Finder find(device, check);
    if (find.open(check.limits)) (void)find.verify(*caseDataOf(check), "");
    return find.finding;
}

Finding checkRepeat(DeviceUnderTest &device, const Check &check) {
    Finder find(device, check);
    if (!find.open(check.limits)) return find.finding;
    const auto in = caseDataOf(check);
    if (!find.verify(*in, "")) return find.finding;
    const Outputs first = in->outputs();
    for (int again = 2; again <= 3; ++again)
        if (!find.compute(*in, "run again") ||
            !find.require(sameBytes(first, *in), "run " + std::to_string(again) + " gave other bits than the first"))
            break;
    return find.finding;
}

Finding checkNeedles(DeviceUnderTest &device, const Check &check) {
    Finder find(device, check);
    if (!find.open(check.limits)) return find.finding;
    // Splits of deterministic problems are of so many keys.
    constexpr uint32_t dense = 64, split = 1024;
    Check one = check;
    one.c.data = Data::needle;
    for (uint32_t key = 0; key < check.c.keyTokens; ++key) {
        const uint32_t near = key % split;
        const bool edge = near < 2 || near >= split - 2 || key + 1 == check.c.keyTokens;
        if (check.c.keyTokens > dense && !edge) continue;
        one.c.needle = key;
        if (!find.verify(*caseDataOf(one), "needle at key " + std::to_string(key))) break;
    }
    return find.finding;
}

Finding checkAccuracy(DeviceUnderTest &device, const Check &check) {
    Finder find(device, check);
    if (!find.open(check.limits) || !find.verify(*caseDataOf(check), "")) return find.finding;
    constexpr double stated = 2e-6;
    char wrong[120];
    std::snprintf(wrong, sizeof wrong, "the largest error is %.3g of the largest |v|, expected at most %.3g",
                  find.finding.errors->relativeToV, stated);
    (void)find.require(find.finding.errors->relativeToV <= stated, wrong);
    return find.finding;
}

} // namespace vkattn::conform
