// The text of `conform --replay`: refused with a reason, or a check that its own text describes
// again, of a size that a machine can hold. Checks of small cases are made, and their problems pass
// the validator.
#include "conform/cases/case_text.hpp"
#include "conform/checks/check.hpp"
#include "fuzz/shared/fuzz.hpp"

#include <algorithm>
#include <array>
#include <string>

using namespace vkattn;
using namespace vkattn::conform;
using namespace vkattn::test;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace {

// At most so many elements has the largest tensor of the case.
double elementsOf(const Case &c) {
    double queries = c.queryTokens, keys = c.keyTokens, batch = c.batch;
    if (c.ragged && !c.sequenceLengths.empty()) {
        queries = keys = 0, batch = static_cast<double>(c.sequenceLengths.size());
        for (const SequenceLength &s : c.sequenceLengths) queries += s.queries, keys += s.keys;
    } else if (c.ragged) {
        queries *= batch, keys *= batch;
    }
    const double sequences = batch;
    if (c.ragged) batch = 1;
    double most = batch * std::max(c.heads * queries, c.kvHeads * keys) * std::max(c.headDim, c.valueDim);
    if (c.writesPairs() || c.maskBroadcast || c.bitMaskBroadcast || c.biasBroadcast)
        most = std::max(most, sequences * c.heads * queries * keys);
    return most;
}

void checkAccepted(const Check &check) {
    require(check.kind && check.testLayout);
    const std::string text = replayText(check);
    Check again;
    std::string why;
    require(parseReplay(text, again, why));
    require(replayText(again) == text && again.seed == check.seed && again.kind == check.kind && again.testLayout == check.testLayout &&
            again.limits == check.limits && checkId(again) == checkId(check) && featuresOf(again) == featuresOf(check));
    require(elementsOf(check.c) <= 0x1p27);
    if (elementsOf(check.c) > 30000) return; // as slow as it is large
    Random random(check.seed);
    const auto in = makeCaseData(check.c, random);
    vkattn_diagnostic diagnostic{};
    if (vkattnValidateProblem(&in->problem, &diagnostic)) {
        std::fprintf(stderr, "%s: %s\n", text.c_str(), diagnostic.message);
        std::abort();
    }
    require(vkattnCpuCheckOperands(&in->problem, in->operands.data(), static_cast<uint32_t>(in->operands.size()), nullptr) == VKATTN_OK);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Check check;
    std::string why;
    if (parseReplay({reinterpret_cast<const char *>(data), size}, check, why))
        checkAccepted(check);
    else
        require(!why.empty());
    return 0;
}

// Adds a member with a value that some member takes.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t maxSize, unsigned seed) {
    static constexpr std::array values = {"0",          "1",          "2",       "7",    "64",    "-1",  "2048",
                                          "1048576",    "4294967295", "0.5",     "nan",  "-inf",  "f16", "padded",
                                          "tokenMajor", "1x2:5x9:0",  "extreme", "runs", "flash", "none"};
    if (seed % 3 == 0) return LLVMFuzzerMutate(data, size, maxSize);
    const auto names = memberNames();
    const std::string added = std::string(",") + names[seed / 3 % names.size()] + "=" + values[seed / 3 / names.size() % values.size()];
    if (size + added.size() > maxSize) return LLVMFuzzerMutate(data, size, maxSize);
    std::copy(added.begin(), added.end(), data + size);
    return size + added.size();
}
