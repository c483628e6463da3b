#include "conform/checks/selection.hpp"

#include "conform/cases/features.hpp"

#include <algorithm>

namespace vkattn::conform {
namespace {

// Pipelines take long to compile and are kept: so many checks in a row draw from the same few.
constexpr uint64_t checksPerPalette = 200;

struct Palette {
    vkattn_kernel kernel;
    const TestLayout *testLayout;
    Limits limits;
    vkattn_dtype q, k, v, out;
    uint32_t headDim, valueDim, terms;
};

vkattn_dtype anyType(Random &random) {
    return static_cast<vkattn_dtype>(random() % 3);
}

Palette paletteOf(const DeviceInfo &device, const Selection &options, uint64_t number) {
    Random random = randomFor(options.seed, "palette" + std::to_string(number / checksPerPalette * 4 + number % 4));
    std::vector<vkattn_kernel> kernels;
    const auto wanted = [&asked = options.kernels](vkattn_kernel kernel) {
        return asked.empty() || std::find(asked.begin(), asked.end(), kernel) != asked.end();
    };
    if (wanted(VKATTN_KERNEL_AUTO)) kernels.push_back(VKATTN_KERNEL_AUTO);
    for (const vkattn_kernel kernel : KernelList())
        if (wanted(kernel) && device.support(kernel)->available) kernels.push_back(kernel);
    // The check says that the device has it not.
    if (kernels.empty()) kernels.push_back(options.kernels.front());
    Palette p{};
    p.kernel = kernels[random() % kernels.size()];
    std::vector<const TestLayout *> testLayout;
    const bool fused = p.kernel > VKATTN_KERNEL_STAGED;
    if (!fused || device.type != DeviceType::cpu) testLayout.push_back(&testLayouts()[0]);
    for (const TestLayout &each : testLayouts())
        if (fused && each.kernel == p.kernel) testLayout.push_back(&each);
    p.testLayout = testLayout[random() % testLayout.size()];
    const uint64_t limits = random() % 4;
    p.limits = limits == 0 ? Limits::tight : limits == 1 && !fused ? Limits::weak : Limits::full;
    // The planner's choice of full tiles takes software drivers seconds to compile.
    if (p.kernel == VKATTN_KERNEL_AUTO && device.type == DeviceType::cpu) p.limits = Limits::weak;
    p.q = anyType(random);
    p.k = random() % 2 ? p.q : anyType(random);
    p.v = random() % 2 ? p.k : anyType(random);
    p.out = random() % 2 ? p.q : anyType(random);
    if ((vkattnKernelTraits(p.kernel) & VKATTN_KERNEL_TRAIT_MATRIX_UNITS) && device.caps.matrixShapeCount)
        p.q = p.k = p.v = device.caps.matrixShapes[random() % device.caps.matrixShapeCount].inputs;
    constexpr uint32_t dims[] = {1, 3, 8, 16, 31, 64};
    p.headDim = dims[random() % std::size(dims)];
    p.valueDim = random() % 2 ? p.headDim : dims[random() % std::size(dims)];
    p.terms = static_cast<uint32_t>(random()) & pairTerms;
    return p;
}

} // namespace

Check soakCheck(const DeviceInfo &device, const Selection &options, uint64_t number) {
    const Palette p = paletteOf(device, options, number);
    Random random = randomFor(options.seed, "soak" + std::to_string(number));
    Case c = randomCase(random, 6);
    c.kernel = p.kernel, c.q = p.q, c.k = p.k, c.v = p.v, c.out = p.out, c.headDim = p.headDim, c.valueDim = p.valueDim;
    for (const Feature &feature : features())
        if (feature.pipelineTerm & pairTerms & ~p.terms) drop(feature, c);
    c.valuesInKeys = c.valuesInKeys && c.valueDim < c.headDim;
    if (c.valuesInKeys) c.v = c.k;
    c.keysHoldValues = c.keysHoldValues && c.valueDim <= c.headDim && c.k == c.v;
    if (p.kernel > VKATTN_KERNEL_STAGED) c.writeNoPairs();
    if (random() % 16 == 0) c.queryTokens = between(random, 0, 200);
    if (random() % 16 == 0) c.keyTokens = between(random, 0, 3000);
    if (random() % 4 == 0) c.slices = between(random, 1, 9);
    const Data data[] = {Data::normal, Data::normal, Data::normal, Data::needle, Data::equal, Data::extreme, Data::denormal};
    c.data = data[random() % std::size(data)];
    c.needle = c.keyTokens ? static_cast<uint32_t>(random() % c.keyTokens) : 0;
    const uint64_t draw = random() % 20;
    const bool shared = c.sharedHeads || c.valuesInKeys;
    const char *kind = draw == 0   ? "repeat"
                       : shared    ? "matrix"
                       : draw == 1 ? "hidden"
                       : draw == 2 ? "nonfinite"
                       : draw == 3 ? "split"
                                   : "matrix";
    if (draw == 1 && !shared) c.poison = false, c.keyTokens = std::min(c.keyTokens, 70u), c.data = Data::normal;
    if (draw == 2 && !shared) c.poison = false, c.data = Data::normal;
    c.name = "soak" + std::to_string(number);
    Check check{nullptr, p.testLayout, p.limits, c, seedFor(options.seed, c.name) % 1000000000ull};
    for (const Kind &each : checkKinds())
        if (std::string_view(kind) == each.name) check.kind = &each;
    return check;
}

} // namespace vkattn::conform
