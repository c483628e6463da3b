#include "rotary_fixture.hpp"

#include <algorithm>
#include <cmath>

namespace {

// The turned pair of dims, and how far a float32 result may be from it: the rounding of cosine,
// sine and products, and of an angle in double.
struct Turned {
    double first, second, allowed;
};

Turned turned(double x0, double x1, double c, double s, double position) {
    const double size = std::abs(x0) + std::abs(x1);
    return {x0 * c - x1 * s, x0 * s + x1 * c, size * (0x1p-22 + position * 0x1p-52)};
}

} // namespace

void RotaryTest::given(const std::vector<size_t> &shape, const NpyOptions &options) {
    writeNpy(file("x.npy"), x = randomArray(random, shape), options);
}

void RotaryTest::givenPositions(const std::vector<size_t> &shape, const std::vector<double> &positions, const NpyOptions &options) {
    rotation.positions = positions;
    writeNpy(file("p.npy"), Array{shape, positions}, options);
}

void RotaryTest::givenTables(Array cos, Array sin, const NpyOptions &options) {
    writeNpy(file("c.npy"), cos, options);
    writeNpy(file("s.npy"), sin, options);
    rotation.cos = std::move(cos), rotation.sin = std::move(sin);
}

Arguments RotaryTest::command(const Arguments &more) const {
    Arguments arguments = {"rotary", "--x", "x.npy", "--out", "o.npy"};
    arguments.insert(arguments.end(), where.begin(), where.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
}

void RotaryTest::expectRotated(const ReadArray &got, size_t row, size_t position) const {
    const size_t width = x.shape.back(), dims = rotation.dims > 0 ? rotation.dims : width, half = dims / 2;
    const double *from = x.values.data() + row * width, *to = got.values.data() + row * width;
    for (size_t i = 0; i < half; i++) {
        const size_t a = rotation.interleaved ? 2 * i : i, b = rotation.interleaved ? 2 * i + 1 : i + half;
        const double p = rotation.positions.empty() ? rotation.start + static_cast<double>(position) : rotation.positions[position];
        const double angle = p * std::exp(-2.0 * static_cast<double>(i) / static_cast<double>(dims) * std::log(rotation.base));
        const size_t at = static_cast<size_t>(p) * half + i;
        const Turned expected = turned(from[a], from[b], rotation.cos ? rotation.cos->values[at] : std::cos(angle),
                                       rotation.sin ? rotation.sin->values[at] : std::sin(angle), rotation.cos ? 0 : p);
        // Half a unit in the last place; denormals of f16 are 2^-24 apart.
        const auto rounding = [&](double value) {
            return got.descr == "<f2" ? std::max(std::abs(value) * 0x1p-11, 0x1p-25) : std::abs(value) * 0x1p-24;
        };
        ASSERT_NEAR(to[a], expected.first, expected.allowed + rounding(expected.first)) << "row " << row << ", dim " << a;
        ASSERT_NEAR(to[b], expected.second, expected.allowed + rounding(expected.second)) << "row " << row << ", dim " << b;
    }
    for (size_t d = dims; d < width; d++) ASSERT_EQ(to[d], from[d]) << "row " << row << ", dim " << d << ", which is copied";
}

Outcome RotaryTest::check(const Arguments &options, const std::string &descr) {
    Arguments arguments = command(options);
    arguments.emplace_back("--verify=all");
    Outcome outcome = tool(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
    if (outcome.status != 0) return outcome;
    const ReadArray got = readNpy(file("o.npy"));
    EXPECT_EQ(got.descr, descr);
    EXPECT_EQ(got.shape, x.shape);
    const size_t rank = x.shape.size(), tokens = x.shape[rank - 2], heads = rank > 2 ? x.shape[rank - 3] : 1;
    if (got.values.size() != x.values.size()) return outcome;
    for (size_t row = 0; row < x.values.size() / x.shape.back() && !testing::Test::HasFatalFailure(); row++) {
        const size_t entry = row / (heads * tokens), token = row % tokens;
        expectRotated(got, row, rotation.positions.empty() ? token : entry * tokens + token);
    }
    return outcome;
}

std::string RotaryTest::bytesOf(const Arguments &options) const {
    const Outcome outcome = tool(command(options));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.status == 0 ? readBytes(file("o.npy")) : "";
}
