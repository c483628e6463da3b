// The figures of the notes' experiments, which were computed with other random numbers: within 20%.
#include "lab_fixture.hpp"

#include <cmath>

namespace {

TEST_F(LabTest, scalingFactor) {
    const std::vector<CsvRow> rows = figures("scaling-factor");
    const double unscaled[] = {7.0e-4, 4.3e-4, 1.7e-4, 6.0e-5, 5.0e-5};
    ASSERT_EQ(rows.size(), 5u);
    for (size_t n = 0; n < 5; ++n) {
        expectFigure(rows[n], "unscaled", unscaled[n]);
        expectFigure(rows[n], "scaled", 1.3e-4);
        EXPECT_NEAR(numberOf(rows[n], "unscaled") / numberOf(rows[n], "unscaled_double"), 1, 1e-3);
        EXPECT_NEAR(numberOf(rows[n], "scaled") / numberOf(rows[n], "scaled_double"), 1, 1e-3);
    }
    EXPECT_EQ(rows[4].at("d"), "8192");
}

TEST_F(LabTest, scalingEffect) {
    const std::vector<CsvRow> rows = figures("scaling-effect");
    const double deviations[] = {8, 22.6, 45.3};
    ASSERT_EQ(rows.size(), 3u);
    for (size_t n = 0; n < 3; ++n) {
        expectFigure(rows[n], "std", deviations[n]);
        expectFigure(rows[n], "scaled_std", 1);
        EXPECT_NEAR(numberOf(rows[n], "mean"), 0, 0.02 * deviations[n]);
        EXPECT_NEAR(numberOf(rows[n], "std"), numberOf(rows[n], "std_double"), 1e-4 * deviations[n]);
    }
}

TEST_F(LabTest, stability) {
    const std::vector<CsvRow> rows = figures("stability");
    ASSERT_EQ(rows.size(), 8u);
    for (const CsvRow &row : rows) {
        expectFigure(row, "max", 0.55);
        expectFigure(row, "min", 0.0085);
        expectFigure(row, "std", 0.115);
        expectFigure(row, "entropy", 1.725);
        EXPECT_NEAR(numberOf(row, "mean"), 0.125, 1e-7);
        EXPECT_EQ(numberOf(row, "not_finite"), 0);
        EXPECT_NEAR(numberOf(row, "entropy"), numberOf(row, "entropy_double"), 1e-5);
    }
}

TEST_F(LabTest, temperature) {
    const std::vector<CsvRow> rows = figures("temperature");
    const double expected[][3] = {{.1, .42, .84}, {.5, 2.66, .30}, {1, 3.68, .107}, {2, 4.04, .046}, {5, 4.14, .025}};
    size_t found = 0;
    for (const CsvRow &row : rows)
        for (const auto &[t, entropy, largest] : expected) {
            if (numberOf(row, "temperature") != t) continue;
            expectFigure(row, "entropy", entropy);
            expectFigure(row, "max", largest);
            ++found;
        }
    EXPECT_EQ(found, 5u);
}

TEST_F(LabTest, scales) {
    const std::vector<CsvRow> rows = figures("scales");
    struct Expected {
        const char *scale;
        double norm, deviation, ratio, entropy, median;
    };
    const Expected expected[] = {{"1/d", 2.06, .037, 1.47, 6.907, .71},
                                 {"1/sqrt(d)", 76, .054, 6e3, 6.41, 1.11},
                                 {"1", 9316, .949, INFINITY, .29, .108},
                                 {"sqrt(d)", 77780, 1.01, INFINITY, .015, 5e-44}};
    size_t found = 0;
    for (const CsvRow &row : rows) {
        EXPECT_NEAR(numberOf(row, "norm_dq") / numberOf(row, "norm_dq_double"), 1, 1e-3);
        for (const Expected &each : expected) {
            if (row.at("scale") != each.scale || row.at("rows") != "100") continue;
            expectFigure(row, "norm_dq", each.norm);
            expectFigure(row, "std_out", each.deviation);
            expectFigure(row, "max_over_min", each.ratio);
            expectFigure(row, "entropy", each.entropy);
            expectFigure(row, "median_ds", each.median);
            if (std::string(each.scale) == "1") expectFigure(row, "tenth_ds", 1.5e-6);
            ++found;
        }
    }
    EXPECT_EQ(found, 4u);
}

TEST_F(LabTest, convergence) {
    const std::vector<CsvRow> rows = figures("convergence");
    ASSERT_EQ(rows.size(), 2u);
    const double lasts[] = {20, 26}, reductions[] = {84, 81}, gains[] = {15, 5.5};
    for (size_t n = 0; n < 2; ++n) {
        expectFigure(rows[n], "first_loss", 135);
        expectFigure(rows[n], "last_loss", lasts[n]);
        expectFigure(rows[n], "reduction_percent", reductions[n]);
        expectFigure(rows[n], "last_ten_percent", gains[n]);
        EXPECT_NEAR(numberOf(rows[n], "mean_diagonal"), 0.99, 0.005);
        EXPECT_NEAR(numberOf(rows[n], "last_loss"), numberOf(rows[n], "last_loss_double"), 0.01);
        EXPECT_EQ(rows[n].at("converged"), "no");
    }
    EXPECT_EQ(contents("out/convergence-epochs.csv").rfind("epoch,loss,loss_double,dropout_loss,dropout_loss_double\n1,", 0), 0u);
}

TEST_F(LabTest, gradientFlow) {
    const std::vector<CsvRow> rows = figures("gradient-flow");
    ASSERT_EQ(rows.size(), 12u);
    for (const CsvRow &row : rows) EXPECT_GT(numberOf(row, "with_residual"), 5 * numberOf(row, "without_residual"));
    EXPECT_GT(numberOf(rows[0], "ratio"), 10 * numberOf(rows[11], "ratio"));
}

TEST_F(LabTest, backward) {
    size_t found = 0;
    for (const CsvRow &row : figures("backward")) {
        const bool small = row.at("n") == "8";
        EXPECT_NEAR(numberOf(row, "ratio") / numberOf(row, "ratio_double"), 1, 1e-4);
        if (row.at("gradient") == "dV") {
            EXPECT_NEAR(numberOf(row, "ratio"), 1, 1e-5);
            EXPECT_NEAR(numberOf(row, "cosine"), 1, 1e-6);
            continue;
        }
        expectFigure(row, "ratio", small ? 7.9 : 23);
        expectFigure(row, "cosine", small ? 0.795 : 0.68);
        ++found;
    }
    EXPECT_EQ(found, 4u);
}

TEST_F(LabTest, masks) {
    std::map<std::string, CsvRow> masks;
    for (const CsvRow &row : figures("masks")) masks[row.at("mask")] = row;
    EXPECT_NEAR(numberOf(masks["causal"], "density"), 0.55, 1e-12);
    EXPECT_NEAR(numberOf(masks["band 3"], "density"), 0.58, 1e-12);
    EXPECT_NEAR(numberOf(masks["band 3"], "mean"), 5.8, 1e-12);
    EXPECT_EQ(numberOf(masks["band 3"], "largest"), 7);
    EXPECT_EQ(numberOf(masks["band 3"], "least"), 4);
    for (const auto &[name, row] : masks) EXPECT_EQ(numberOf(row, "differing"), 0) << name;
}

TEST_F(LabTest, causalEntropy) {
    for (const CsvRow &row : figures("causal-entropy")) {
        const double n = numberOf(row, "n");
        if (n == 8 || n == 64) {
            EXPECT_NEAR(numberOf(row, "share"), n == 8 ? 0.64 : 0.77, 0.005);
        }
        EXPECT_EQ(row.at("global"), n < 131 ? "no" : "yes") << n;
        EXPECT_NEAR(numberOf(row, "normalised"), 1, 1e-5);
    }
}

TEST_F(LabTest, aSeedGivesTheSameNumbers) {
    const std::vector<CsvRow> once = figures("temperature", {"--seed", "7"});
    EXPECT_EQ(figures("temperature", {"--seed", "7"}), once);
    EXPECT_NE(figures("temperature", {"--seed", "8"}), once);
}

TEST_F(LabTest, aDeviceFindsTheSame) {
    if (!hasTestedDevice()) return;
    const Outcome outcome = tool({"lab", "backward", "--out", "device", "--no-fallback"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.out.find("device    cpu"), std::string::npos);
    const std::vector<CsvRow> cpu = figures("backward"), device = rowsOf("device/backward.csv");
    ASSERT_EQ(device.size(), cpu.size());
    for (size_t n = 0; n < cpu.size(); ++n)
        for (const char *const key : {"ratio", "cosine"})
            EXPECT_NEAR(numberOf(device[n], key), numberOf(cpu[n], key), 1e-4 * numberOf(cpu[n], key));
}

} // namespace
