// `vkattn run` over random sizes, dtypes, orders and options, on the CPU and on every driver.
#include "run_fixture.hpp"
#include "support/extent.hpp"

#include <cmath>
#include <cstdlib>
#include <fstream>

namespace {

class RandomRun : public RunTest {
  protected:
    Arguments options;
    // The extents of the case; batch and tokens are those of masks and biases.
    size_t batch = 0, heads = 0, queries = 0, keys = 0;

    void checkCombinations(int count, size_t largest);

  private:
    void add(const std::string &option, const std::string &value) { options.insert(options.end(), {option, value}); }
    std::string drawArrays(size_t largest); // the dtype of the result
    void drawPositions();
    void drawMaskAndBias();
    void drawArraysOfNumbers();
    void checkOnAKernel(const std::string &descr);
};

// Sizes, ragged or not, dtypes, orders.
std::string RandomRun::drawArrays(size_t largest) {
    const auto npy = [&] { return NpyOptions{.descr = chance(3) ? "<f2" : "<f4", .fortran = chance(3), .version = chance(4) ? 2 : 1}; };
    const bool ragged = chance(3);
    const size_t kvHeads = extent(3), dim = extent(largest), valueDim = extent(largest);
    const NpyOptions qNpy = npy();
    batch = ragged ? 1 : extent(3);
    heads = kvHeads * extent(3);
    queries = extent(largest), keys = extent(largest);
    given({batch, heads, queries, dim}, {batch, kvHeads, keys, dim}, {batch, kvHeads, keys, valueDim}, qNpy, npy(), npy());
    reference = {};
    outUnit = 0;
    if (chance(4)) {
        givenDocuments({batch, queries}, {batch, keys}, {.descr = chance(2) ? "<i8" : "<u4", .fortran = chance(2)});
        add("--doc-ids-q", "dq.npy"), add("--doc-ids-k", "dk.npy");
    }
    if (ragged) {
        const size_t sequences = extent(4);
        givenOffsets(randomOffsets(sequences, queries), randomOffsets(sequences, keys), chance(2) ? "<i4" : "<i8");
        add("--cu-seqlens-q", "cq.npy"), add("--cu-seqlens-k", "ck.npy");
        // From here on batch and tokens count what masks and biases see.
        batch = sequences, queries = keys = 1;
        for (size_t n = 0; n < sequences; n++) {
            queries = std::max(queries, static_cast<size_t>(reference.cuQ[n + 1] - reference.cuQ[n]));
            keys = std::max(keys, static_cast<size_t>(reference.cuK[n + 1] - reference.cuK[n]));
        }
    } else if (chance(3)) {
        Array lengths{{batch}, {}};
        for (size_t b = 0; b < batch; b++) reference.keyLengths.push_back(static_cast<long>(random() % (keys + 1)));
        for (const long length : reference.keyLengths) lengths.values.push_back(static_cast<double>(length));
        writeNpy(file("n.npy"), lengths, {.descr = chance(2) ? "<i4" : "<i8"});
        add("--kv-lengths", "n.npy");
    }
    std::string descr = qNpy.descr;
    if (chance(3)) {
        const bool half = chance(2);
        add("--round-to", half ? "f16" : "bf16");
        for (Array *array : {&q, &k, &v}) *array = half ? rounded(*array, {.descr = "<f2"}) : roundedToBfloat16(*array);
    }
    if (chance(3)) {
        const std::string dtype = std::vector<std::string>{"f32", "f16", "bf16"}[random() % 3];
        add("--out-dtype", dtype);
        descr = dtype == "f16" ? "<f2" : "<f4";
        if (dtype == "bf16") outUnit = 0x1p-8;
    }
    return descr;
}

void RandomRun::drawPositions() {
    const bool topLeft = chance(2);
    if (chance(2)) reference.causal = true, add("--causal", topLeft ? "top-left" : "bottom-right");
    if (chance(2)) {
        reference.window = true, reference.left = static_cast<long>(random() % 9) - 1,
        reference.right = static_cast<long>(random() % 6) - 1;
        add("--window", std::to_string(reference.left) + "," + std::to_string(reference.right));
    }
    if (chance(3)) givenAlibi(heads, chance(2) ? "<f2" : "<f4"), add("--alibi", "alibi.npy");
    const bool positions = reference.window || !reference.alibi.empty();
    if (positions && !reference.causal && topLeft) add("--align", "top-left");
    reference.topLeft = topLeft && (reference.causal || positions);
}

void RandomRun::drawMaskAndBias() {
    const auto rows = [&] { return std::vector<size_t>{chance(2) ? 1 : batch, chance(2) ? 1 : heads, chance(4) ? 1 : queries}; };
    const auto broadcast = [&] {
        std::vector<size_t> shape = rows();
        shape.push_back(chance(4) ? 1 : keys);
        return shape;
    };
    if (chance(3)) {
        const std::vector<size_t> shape = broadcast();
        reference.mask = Array{shape, std::vector<double>(Array::count(shape))};
        for (double &value : reference.mask->values) value = chance(4) ? 0 : 1;
        writeNpy(file("m.npy"), *reference.mask, {.descr = "|b1", .fortran = chance(2)});
        add("--mask", "m.npy");
    } else if (chance(2)) {
        givenBits(rows(), keys, {.descr = "<u4", .fortran = chance(2)});
        add("--bitmask", "bits.npy");
    }
    if (chance(2)) {
        reference.bias = randomArray(random, broadcast());
        for (double &value : reference.bias->values) value = chance(6) ? -INFINITY : value;
        writeNpy(file("b.npy"), *reference.bias, {.descr = chance(2) ? "<f2" : "<f4", .fortran = chance(2)});
        add("--bias", "b.npy");
    }
}

void RandomRun::drawArraysOfNumbers() {
    if (chance(3)) reference.scale = 0.375, add("--scale", "0.375");
    if (chance(3)) reference.softcap = 2.5, add("--softcap", "2.5");
    if (chance(3)) givenSinks(heads, chance(2) ? "<f2" : "<f4"), add("--sinks", "sinks.npy");
    if (chance(4)) options.push_back("--deterministic");
}

// A kernel that was asked for may refuse a problem on this device. Then the kernel of the planner's
// choice computes the problem.
void RandomRun::checkOnAKernel(const std::string &descr) {
    const std::string kernel = std::vector<std::string>{"auto", "staged", "flash", "decode"}[random() % 4];
    Arguments named = options;
    named.insert(named.end(), {"--kernel", kernel});
    if (const uint64_t slices = random() % 6; slices > 1) named.insert(named.end(), {"--slices", std::to_string(slices * slices)});
    const Outcome outcome = tool(command(named));
    if (outcome.status == 3 && kernel != "auto") {
        EXPECT_NE(outcome.err.find(kernel), std::string::npos) << "a refusal that does not name the kernel: " << outcome.err;
        check(options, descr);
        return;
    }
    EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
    if (outcome.status != 0) return;
    if (kernel != "auto" && where[1] != "cpu") {
        EXPECT_NE(outcome.out.find("\nkernel    " + kernel), std::string::npos) << outcome.out;
    }
    compare(descr);
}

// The first failure ends the test and says which case it is.
void RandomRun::checkCombinations(int count, size_t largest) {
    for (int n = 0; n < count && !HasFailure(); n++) {
        options = {};
        const std::string descr = drawArrays(largest);
        drawPositions();
        drawMaskAndBias();
        drawArraysOfNumbers();
        wantsWeights = chance(3), wantsScores = chance(4); // only the staged kernel has them
        reference.scoresStage = std::vector<std::string>{"raw", "scaled", "capped", "final"}[random() % 4];
        std::string text = "case " + std::to_string(n) + ":";
        for (const std::string &word : options) text += " " + word;
        SCOPED_TRACE(text);
        checkOnAKernel(descr);
    }
}

TEST_F(RandomRun, combinations) {
    checkCombinations(80, 20);
}

// More keys than a word of a bit mask has.
TEST_F(RandomRun, combinationsOfMoreKeys) {
    checkCombinations(20, 80);
}

// The same test on the first Vulkan device, which must not fall back. tests/device/CMakeLists.txt
// runs it on every driver.
class RunOnDriver : public RandomRun {};
TEST_F(RunOnDriver, randomCombinations) {
    if (!hasTestedDevice()) return;
    // Each case compiles shaders of its own. A software driver needs seconds for those of full
    // tiles: the tiles here are small.
    std::ofstream(file("small.txt")) << "vkattn-tuning 1\n"
                                        "flash maxDim=512 rowLanes=8 rowsPerLane=1 keysPerLane=1\n"
                                        "decode maxDim=512 dimLanes=4 keyLanes=2 rowsPerLane=1 keysPerLane=1\n";
    where = {"--device", "0", "--no-fallback", "--tuning", file("small.txt").string()};
    checkCombinations(vkattn::test::fullExtent() ? 100 : 25, 40);
}

} // namespace
