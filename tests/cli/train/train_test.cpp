// samples/train against a plain model in double precision: the gradients that its lists compute, and
// the way of its loss.
#include "plain_model.hpp"

#include "cli/harness.hpp"
#include "model/network.hpp"
#include "program/failure.hpp"
#include "state/checkpoint.hpp"

#include <algorithm>
#include <cmath>

namespace {

using namespace train;

class Train : public CliTest {
  protected:
    const Shape shape;
    const PlainSizes sizes{shape.symbols, shape.copied, shape.sequences, shape.dims, shape.heads};

    // After a step the first moments are a tenth of the gradients.
    void learnsAsThePlainModel(vkattn::Runtime &runtime, uint32_t steps) const {
        const Weights start = initialWeights(shape, 11);
        PlainModel plain(sizes, start.weights);
        Network network(runtime, shape, 0, 11, {});
        network.load(start);
        for (uint32_t step = 1; step <= steps; step++) {
            const Batch batch = drawBatch(shape, 11, Purpose::training, step);
            const double expected = plain.train(batch.tokens, batch.targets, step);
            const Figures figures = network.train(batch, step);
            ASSERT_NEAR(figures.loss, expected, 1e-3 * expected) << "step " << step;
            if (step > 1) continue;
            const std::vector<float> moments = network.read().moments;
            double largest = 0;
            for (const double each : plain.gradients()) largest = std::max(largest, std::abs(each));
            for (size_t n = 0; n < plain.gradients().size(); n++)
                ASSERT_NEAR(10 * static_cast<double>(moments[n]), plain.gradients()[n], 1e-5 * largest) << "weight " << n;
        }
    }
};

TEST_F(Train, learnsAsThePlainModelDoes) {
    vkattn::RuntimeOptions options;
    options.device = "cpu";
    const auto runtime = vkattn::Runtime::open(options, nullptr, nullptr);
    learnsAsThePlainModel(*runtime, 40);
}

TEST_F(Train, sequencesAreThoseOfTheTask) {
    for (const uint32_t step : {0u, 1u, 1000u}) {
        const Batch batch = drawBatch(shape, 3, Purpose::training, step);
        ASSERT_EQ(batch.tokens.size(), shape.rows());
        for (uint32_t row = 0; row < shape.rows(); row++) {
            const bool blank = row % shape.positions() >= shape.copied;
            ASSERT_EQ(batch.tokens[row] == shape.symbols, blank);
            ASSERT_EQ(batch.targets[row], blank ? batch.tokens[row - shape.copied] : noTarget);
        }
    }
    const auto tokens = [&](uint64_t seed, Purpose purpose, uint32_t step) { return drawBatch(shape, seed, purpose, step).tokens; };
    const std::vector<uint32_t> one = tokens(3, Purpose::training, 1);
    EXPECT_EQ(tokens(3, Purpose::training, 1), one);
    EXPECT_NE(tokens(3, Purpose::training, 2), one);
    EXPECT_NE(tokens(3, Purpose::evaluation, 1), one);
    EXPECT_NE(tokens(4, Purpose::training, 1), one);
    EXPECT_NE(tokens(uint64_t{3} << 32, Purpose::training, 1), one);
    // Every symbol occurs.
    std::vector<bool> seen(shape.symbols + 1);
    for (const uint32_t token : one) seen[token] = true;
    EXPECT_EQ(std::count(seen.begin(), seen.end(), true), static_cast<ptrdiff_t>(shape.symbols + 1));
}

TEST_F(Train, checkpointsComeBackBitForBit) {
    const Configuration configuration{shape, 5, 0.1};
    State state;
    state.weights = initialWeights(shape, 5);
    state.weights.weights[7] = -0.0f, state.weights.moments[8] = INFINITY;
    state.history = {{3.25f, 0.04f}, {2.5f, 0.5f}};
    state.device = "some device";
    const std::string path = file("saved").string();
    EXPECT_FALSE(readCheckpoint(path, configuration));
    writeCheckpoint(path, configuration, state);
    const std::optional<State> back = readCheckpoint(path, configuration);
    ASSERT_TRUE(back);
    const auto bits = [](const std::vector<float> &numbers) {
        return std::string(reinterpret_cast<const char *>(numbers.data()), numbers.size() * 4);
    };
    EXPECT_EQ(bits(back->weights.weights), bits(state.weights.weights));
    EXPECT_EQ(bits(back->weights.moments), bits(state.weights.moments));
    EXPECT_EQ(back->device, state.device);
    ASSERT_EQ(back->steps(), 2u);
    EXPECT_EQ(back->history[1].loss, 2.5f);
    EXPECT_EQ(back->history[1].accuracy, 0.5f);
}

// What a run leaves that was interrupted before its first step.
TEST_F(Train, checkpointsOfNoStepsComeBack) {
    const Configuration configuration{shape, 5, 0};
    State state;
    state.weights = initialWeights(shape, 5);
    const std::string path = file("saved").string();
    writeCheckpoint(path, configuration, state);
    const std::optional<State> back = readCheckpoint(path, configuration);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->steps(), 0u);
    EXPECT_TRUE(std::ranges::equal(back->weights.weights, state.weights.weights));
}

TEST_F(Train, checkpointsCutOrChangedAnywhereAreRefused) {
    const Configuration configuration{shape, 5, 0};
    State state;
    state.weights = initialWeights(shape, 5);
    state.history.resize(3);
    const std::string path = file("saved").string();
    writeCheckpoint(path, configuration, state);
    const std::string whole = readBytes(path);
    const auto refuses = [&](const std::string &bytes) {
        writeBytes(path, bytes);
        try {
            (void)readCheckpoint(path, configuration);
        } catch (const vkattn::program::Failure &failure) {
            EXPECT_NE(std::string(failure.what()).find("--checkpoint " + path + ": "), std::string::npos) << failure.what();
            return true;
        }
        return false;
    };
    EXPECT_FALSE(refuses(whole));
    for (size_t n = 0; n < 100; n++) {
        EXPECT_TRUE(refuses(whole.substr(0, whole.size() * n / 100))) << "cut after " << n << " percent";
        std::string changed = whole;
        changed[whole.size() * n / 100] ^= 4;
        EXPECT_TRUE(refuses(changed)) << "changed after " << n << " percent";
    }
    EXPECT_TRUE(refuses(whole + '\0'));
    EXPECT_TRUE(refuses(""));
}

class TrainOnDriver : public Train {};
TEST_F(TrainOnDriver, learnsAsThePlainModelDoes) {
    if (!hasTestedDevice()) return;
    vkattn::RuntimeOptions options;
    options.device = "0";
    options.allowFallback = false;
    std::string why;
    const auto runtime = vkattn::Runtime::open(options, nullptr, &why);
    ASSERT_TRUE(runtime) << why;
    learnsAsThePlainModel(*runtime, 10);
}

} // namespace
