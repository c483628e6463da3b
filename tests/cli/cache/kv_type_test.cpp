// `vkattn run --kv-type`: attention over caches of small types, against the reference with what such a cache holds,
// made here by formulas of the test's own.
#include "cli/run/run_fixture.hpp"

#include <nlohmann/json.hpp>

#include <cmath>

namespace {

struct KvType {
    const char *name;
    double largestStep; // between neighbours of a block's numbers, over the largest of them
};
constexpr KvType kvTypes[] = {{"int8", 1.0 / 127}, {"fp8e4m3", 1.0 / 8}, {"fp8e5m2", 1.0 / 4}, {"q8_0", 1.0 / 127}, {"q4_0", 1.0 / 8}};

float half(float value) { // round to nearest even, of ordinary numbers
    if (value == 0) return 0;
    const float unit = std::ldexp(1.0f, std::max(std::ilogb(value), -14) - 10);
    return unit * std::nearbyint(value / unit);
}
float small(float value, int mantissaBits, int least, float largest) {
    if (value == 0) return 0;
    const float unit = std::ldexp(1.0f, std::max(std::ilogb(value), least) - mantissaBits);
    return std::fmin(std::fmax(unit * std::nearbyint(value / unit), -largest), largest);
}

// What a row of a cache holds, for its dims.
void hold(const std::string &type, double *row, size_t dims) {
    const size_t block = type == "int8" ? dims : 32;
    for (size_t at = 0; at < dims; at += block) {
        const size_t end = std::min(at + block, dims);
        float extreme = 0;
        for (size_t d = at; d < end; d++)
            if (std::fabs(static_cast<float>(row[d])) > std::fabs(extreme)) extreme = static_cast<float>(row[d]);
        const float scale = type == "q4_0" ? extreme / -8 : std::fabs(extreme) / 127;
        for (size_t d = at; d < end; d++) {
            const auto x = static_cast<float>(row[d]);
            if (type == "fp8e4m3")
                row[d] = small(x, 3, -6, 448);
            else if (type == "fp8e5m2")
                row[d] = small(x, 2, -14, 57344);
            else if (type == "q4_0")
                row[d] = half(scale) * std::fmin(std::nearbyint(x / scale), 7.0f);
            else
                row[d] = (type == "q8_0" ? half(scale) : scale) * std::nearbyint(x / scale);
        }
    }
}

class KvTypeRun : public RunTest {
  protected:
    void quantize(const std::string &type) {
        for (Array *const array : {&k, &v}) {
            const size_t dims = array->shape.back();
            for (size_t row = 0; row < array->values.size() / dims; row++) hold(type, array->values.data() + row * dims, dims);
        }
    }
    [[nodiscard]] std::vector<double> written(const Arguments &options) {
        const Outcome outcome = tool(command(options));
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return readNpy(file("o.npy")).values;
    }
    void refused(const Arguments &options, const std::string &text) const {
        const Outcome outcome = tool(command(options));
        EXPECT_EQ(outcome.status, 2) << text;
        EXPECT_NE(outcome.err.find(text), std::string::npos) << outcome.err;
    }
};

TEST_F(KvTypeRun, readsWhatTheCacheHolds) {
    for (const KvType &type : kvTypes)
        for (const size_t dims : {size_t{64}, size_t{40}}) {
            SCOPED_TRACE(type.name);
            given({2, 4, 5, dims}, {2, 2, 21, dims}, {2, 2, 21, dims + 3});
            quantize(type.name);
            reference.causal = true;
            check({"--kv-type", type.name, "--causal", "bottom-right"});
        }
}

TEST_F(KvTypeRun, takesNoQueriesAndNoKeys) {
    for (const KvType &type : kvTypes) {
        SCOPED_TRACE(type.name);
        given({2, 4, 0, 64}, {2, 2, 21, 64}, {2, 2, 21, 64});
        EXPECT_TRUE(written({"--kv-type", type.name}).empty());
        given({2, 4, 3, 64}, {2, 2, 0, 64}, {2, 2, 0, 64});
        EXPECT_EQ(written({"--kv-type", type.name}), std::vector<double>(2 * 4 * 3 * 64));
    }
}

TEST_F(KvTypeRun, saysHowFarTheResultIsFromThatOfTheFiles) {
    wantsWeights = false;
    given({4, 5, 64}, {2, 21, 64}, {2, 21, 64});
    const std::vector<double> exact = written({});
    for (const KvType &type : kvTypes) {
        SCOPED_TRACE(type.name);
        Arguments options = command({"--kv-type", type.name, "--json"});
        const Outcome outcome = tool(options);
        ASSERT_EQ(outcome.status, 0) << outcome.err;
        const nlohmann::json cache = nlohmann::json::parse(outcome.out)["cache"];
        const std::vector<double> got = readNpy(file("o.npy")).values;
        double most = 0, sum = 0;
        for (size_t n = 0; n < got.size(); n++)
            most = std::max(most, std::fabs(got[n] - exact[n])), sum += (got[n] - exact[n]) * (got[n] - exact[n]);
        EXPECT_EQ(cache["dtype"], type.name);
        EXPECT_NEAR(cache["maxError"].get<double>(), most, 1e-6);
        EXPECT_NEAR(cache["rmsError"].get<double>(), std::sqrt(sum / static_cast<double>(got.size())), 1e-6);
        EXPECT_GT(most, 1e-5);
        EXPECT_LT(most, 2 * type.largestStep);
        const std::string name = type.name;
        EXPECT_EQ(cache["bytes"], 2 * 2 * 21 * (name == "q8_0" ? 68 : name == "q4_0" ? 36 : name == "int8" ? 68 : 64));
    }
    const Outcome text = tool(command({"--kv-type", "q8_0"}));
    EXPECT_NE(text.out.find("cache     q8_0, "), std::string::npos) << text.out;
}

TEST_F(KvTypeRun, saysWhatIsWrong) {
    given({4, 5, 64}, {2, 21, 64}, {2, 21, 64});
    refused({"--kv-type", "q5_0"}, "--kv-type takes");
    refused({"--kv-type", "q8_0", "--round-to", "f16"}, "both say of which type keys and values are");
    writeNpy(file("e.npy"), randomArray(random, {8, 21}));
    refused({"--kv-type", "q8_0", "--project-k", "e.npy"}, "the cache holds the keys of the file");
}

} // namespace
