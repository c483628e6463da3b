// The benchmark's own arithmetic and parsing.
#include "compile/operations.hpp"
#include "compile/table.hpp"
#include "failure.hpp"
#include "machine/peaks.hpp"
#include "measure/sweep.hpp"
#include "report/csv.hpp"
#include "report/report.hpp"
#include "shapes/operands.hpp"
#include "shapes/shapes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

namespace vkattn::bench {
namespace {

// By the formulas of vkattn/problem.h, pair by pair.
double countedPairs(const Shape &shape) {
    const vkattn_problem p = shape.problem(VKATTN_KERNEL_AUTO);
    uint64_t pairs = 0;
    for (int64_t i = 0; i < shape.queries; ++i)
        for (int64_t j = 0; j < shape.keys; ++j) {
            const int64_t position = i + shape.keys - shape.queries;
            const bool causal = !(p.flags & VKATTN_CAUSAL) || j <= position;
            const bool window = !(p.flags & VKATTN_WINDOW) || (position - p.windowLeft <= j && j <= position + p.windowRight);
            pairs += causal && window;
        }
    return static_cast<double>(pairs * shape.batch * shape.heads);
}

TEST(Shapes, visiblePairsAreCounted) {
    for (const char *queries : {"1", "5", "16", "40"})
        for (const char *keys : {"1", "7", "16", "33"})
            for (const char *options : {"", ",causal", ",window=1", ",window=6", ",window=100", ",causal,window=6"}) {
                const Shape shape = customShape(std::string("batch=2,heads=3,d=4,q=") + queries + ",k=" + keys + options);
                EXPECT_DOUBLE_EQ(shape.visiblePairs(), countedPairs(shape)) << shape.name;
            }
}

TEST(Shapes, workFollowsTheConventions) {
    const Shape shape = customShape("heads=8,kv=2,q=10,k=20,d=16,type=f16kv");
    EXPECT_DOUBLE_EQ(shape.flops(), 4.0 * 16 * 8 * 10 * 20);
    EXPECT_EQ(shape.keyValueBytes(), 2u * 2 * 20 * 16 * 2);
    EXPECT_EQ(shape.bytes(), shape.keyValueBytes() + 2u * 8 * 10 * 16 * 4);
    EXPECT_EQ(shape.name, "b1-h8-kv2-q10-k20-d16-f16kv");
}

TEST(Shapes, tableIsValidAndItsNamesDiffer) {
    std::set<std::string> names;
    for (const Shape &shape : shapeTable()) {
        const vkattn_problem problem = shape.problem(VKATTN_KERNEL_AUTO);
        vkattn_diagnostic why{};
        EXPECT_EQ(vkattnValidateProblem(&problem, &why), VKATTN_OK) << shape.name << ": " << why.message;
        EXPECT_TRUE(names.insert(shape.name).second) << shape.name;
        EXPECT_EQ(shape.name.find_first_of("@, \""), std::string::npos) << shape.name;
    }
    for (const std::string &group : groupNames()) EXPECT_FALSE(shapesOfGroup(group).empty()) << group;
}

TEST(Shapes, sweepSetsQueriesOnlyWhereTheyAreAsManyAsKeys) {
    const Shape prefill = shapeNamed("prefill-d64@512"), decode = shapeNamed("decode-d64@512");
    EXPECT_EQ(prefill.queries, 512u);
    EXPECT_EQ(prefill.keys, 512u);
    EXPECT_EQ(prefill.family, "prefill-d64");
    EXPECT_EQ(decode.queries, 1u);
    EXPECT_EQ(decode.keys, 512u);
}

// By the oracle, from the problem and the arrays that the library gets.
double shownPairs(const Shape &shape) {
    const vkattn_problem p = shape.problem(VKATTN_KERNEL_AUTO);
    const Operands operands(shape, 1);
    uint64_t pairs = 0;
    std::vector<unsigned char> shown(shape.keys);
    for (uint32_t b = 0; b < shape.batch; ++b)
        for (uint32_t h = 0; h < shape.heads; ++h)
            for (uint32_t i = 0; i < shape.queries; ++i) {
                vkattn_diagnostic why{};
                EXPECT_EQ(vkattnCpuVisible(&p, operands.list().data(), static_cast<uint32_t>(operands.list().size()), b, h, i, shown.data(),
                                           shape.keys, &why),
                          VKATTN_OK)
                    << shape.name << ": " << why.message;
                pairs += static_cast<uint64_t>(std::count(shown.begin(), shown.end(), 1));
            }
    return static_cast<double>(pairs);
}

// Lengths with less than a window, a block or the global tokens, with short last blocks, and with
// much more.
TEST(Rules, visiblePairsAreThoseOfTheOracle) {
    for (const Shape &base : shapesOfGroup("rules"))
        for (const uint32_t tokens : {1u, 31u, 64u, 65u, 130u, 169u, 200u, 221u, 384u, 600u, 1000u}) {
            // A clamped neighbourhood needs 13 rows and 13 columns.
            if (base.name == "neighbourhood-d64" && (tokens < 169 || tokens == 200)) continue;
            Shape shape = withTokens(base, tokens);
            EXPECT_DOUBLE_EQ(shape.visiblePairs(), shownPairs(shape)) << shape.name;
            if (tokens != 384) continue;
            shape.batch = shape.heads = 2; // on one head of keys
            EXPECT_DOUBLE_EQ(shape.visiblePairs(), shownPairs(shape)) << shape.name << ", two heads of two batch entries";
        }
}

TEST(Rules, optionsNameThem) {
    const auto text = [](const char *name) { return shapeNamed(name).optionsText(); };
    EXPECT_EQ(text("longformer-d64"), "window=256,256 global=32");
    EXPECT_EQ(text("window169-d64"), "window=84,84");
    EXPECT_EQ(text("blocks15-d64"), "block-mask=15% of 128x128");
    EXPECT_EQ(text("bigbird-d64"), "bigbird=64,3,1");
    EXPECT_EQ(text("full-d64"), "");
    // As square as the tokens allow; no grid where they allow less than the neighbourhood.
    EXPECT_EQ(text("neighbourhood-d64"), "neighbourhood=256x256:13");
    EXPECT_EQ(text("neighbourhood-d64@32768"), "neighbourhood=128x256:13");
    EXPECT_EQ(text("neighbourhood-d64@221"), "neighbourhood=13x17:13");
    EXPECT_THROW(static_cast<void>(shapeNamed("neighbourhood-d64@1009")), Failure);
}

TEST(Rules, masksOfLongerSequencesContinueThoseOfShorterOnes) {
    const auto mask = [](const char *name) {
        const Operands operands(shapeNamed(name), 1);
        const vkattn_operand_memory &last = operands.list().back();
        EXPECT_EQ(last.role, VKATTN_BLOCK_MASK);
        const auto *bytes = static_cast<const unsigned char *>(last.data);
        return std::vector<unsigned char>(bytes, bytes + last.bytes);
    };
    const std::vector<unsigned char> shorter = mask("blocks15-d64"), longer = mask("blocks15-d64@16384");
    ASSERT_EQ(shorter.size(), 64u * 64);
    ASSERT_EQ(longer.size(), 128u * 128);
    for (size_t row = 0; row < 64; ++row) {
        EXPECT_EQ(shorter[row * 64 + row], 1);
        for (size_t column = 0; column < 64; ++column) EXPECT_EQ(shorter[row * 64 + column], longer[row * 128 + column]);
    }
    // 15% of what is not the diagonal, within four standard deviations.
    const auto shown = static_cast<double>(std::count(longer.begin(), longer.end(), 1));
    EXPECT_NEAR((shown - 128) / (128 * 127), 0.15, 0.012);
}

TEST(Rules, otherShapesHaveNone) {
    for (const Shape &shape : {customShape("heads=2,q=16,d=8,window=4"), shapeNamed("window-d64-small"), shapeNamed("full-d64@64")}) {
        const vkattn_problem p = shape.problem(VKATTN_KERNEL_AUTO);
        EXPECT_EQ(p.presentRoles, 0u) << shape.name;
        EXPECT_EQ(p.grid.rule, VKATTN_GRID_NONE) << shape.name;
        EXPECT_EQ(p.blocks.kind, VKATTN_BLOCKS_NONE) << shape.name;
        EXPECT_EQ(Operands(shape, 1).list().size(), 4u) << shape.name; // q, k, v and out
    }
}

TEST(Sweep, fitFindsThePower) {
    std::vector<double> tokens, values;
    for (const double n : {128.0, 256.0, 1024.0, 4096.0}) {
        tokens.push_back(n);
        values.push_back(3 * std::pow(n, 1.7));
    }
    const auto fit = fitPower(tokens, values);
    ASSERT_TRUE(fit);
    EXPECT_NEAR(fit->exponent, 1.7, 1e-9);
    EXPECT_NEAR(fit->determination, 1, 1e-9);
    EXPECT_FALSE(fitPower({1024, 2048}, {0, 0})); // no workspace
    EXPECT_FALSE(fitPower({1024, 1024}, {1, 2})); // no line through one length
    EXPECT_NEAR(fitPower({1, 2}, {5, 5})->exponent, 0, 1e-12);
}

TEST(Sweep, curvesOfTimesSayHowTheyGrow) {
    std::vector<Measurement> measurements;
    for (const uint32_t tokens : {256u, 512u, 1024u}) {
        Measurement m{.shape = withTokens(shapeNamed("longformer-d64"), tokens), .askedKernel = "flash"};
        m.kernel = "flash";
        m.medianMs = 1e-3 * std::pow(tokens, 1.07);
        measurements.push_back(m);
    }
    const std::vector<SweepSeries> series = sweepSeries(measurements);
    const auto label = [&](PlotValue value) { return sweepChart({}, value, series, {}, {}).plots.at(0).curves.at(0).label; };
    EXPECT_EQ(label(PlotValue::milliseconds), "longformer-d64 flash, time ~ n^1.07");
    EXPECT_EQ(label(PlotValue::gflops), "vkattn flash, longformer-d64");
    EXPECT_EQ(label(PlotValue::gbs), "vkattn flash, longformer-d64");
}

TEST(Csv, fieldsSurviveQuoting) {
    Machine machine{"2026-01-31", "abc", "a \"fast\", new one", 2, "gpu", "driver"};
    Measurement m{.shape = shapeNamed("prefill-d64")};
    m.device = "x,y";
    m.medianMs = m.minMs = 2;
    const std::string header = csvHeader(), row = csvRow(machine, m);
    const std::vector<std::string> names = csvFields(header.substr(0, header.size() - 1)),
                                   fields = csvFields(row.substr(0, row.size() - 1));
    ASSERT_EQ(names.size(), fields.size());
    EXPECT_EQ(fields[2], machine.processor);
    EXPECT_EQ(fields[4], m.device);
    EXPECT_EQ(fields[6], "prefill-d64");
}

TEST(Csv, rivalsColumnsMayComeInAnyOrder) {
    const auto rows = parseRivals("test", "# made by hand\r\nmedian_ms,notes,shape,rival\r\n1.5,\"a, b\",game-d32,Other\r\n\r\n2e1,,x,y\n");
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_EQ(rows[0].shape, "game-d32");
    EXPECT_EQ(rows[0].label(), "Other");
    EXPECT_DOUBLE_EQ(rows[0].medianMs, 1.5);
    EXPECT_DOUBLE_EQ(rows[1].medianMs, 20);
    for (const char *bad : {"", "shape,rival\n", "shape,rival,median_ms\n", "shape,rival,median_ms\na,b,-1\n",
                            "shape,rival,median_ms\na,b,nan\n", "shape,rival,median_ms\na,,1\n", "shape,rival,median_ms\na,b,1,2\n"})
        EXPECT_THROW(static_cast<void>(parseRivals("test", bad)), Failure) << bad;
}

TEST(Compile, figuresHaveOneNameForAllDrivers) {
    const Statistic radv[] = {{"", "VGPRs", "", "96", 96},
                              {"", "Spilled VGPRs", "", "0", 0},
                              {"", "Scratch size", "", "0", 0},
                              {"", "Subgroups per SIMD", "", "16", 16},
                              {"", "Early preamble", "", "true", {}}};
    const Figures figures = figuresOf(radv);
    EXPECT_EQ(figures[Figure::registers], 96u);
    EXPECT_EQ(figures[Figure::waves], 16u);
    EXPECT_FALSE(figures[Figure::sharedBytes]);
    EXPECT_FALSE(figures.spills());
    const Statistic nvk[] = {{"", "Number of GPRs", "", "255", 255}, {"", "SLM size", "", "128", 128}};
    EXPECT_TRUE(figuresOf(nvk).spills());
    const Statistic two[] = {
        {"a", "Code size", "", "10", 10}, {"b", "Code size", "", "20", 20}, {"a", "VGPRs", "", "7", 7}, {"b", "VGPRs", "", "5", 5}};
    EXPECT_EQ(figuresOf(two)[Figure::codeBytes], 30u);
    EXPECT_EQ(figuresOf(two)[Figure::registers], 7u);
}

TEST(Compile, matrixInstructionsAreCounted) {
    const MatrixCounts counts = matrixInstructions("\tv_wmma_f32_16x16x16_f16 v[0:7], v[8:15]\n v_fma_f32 v1\nHMMA.16816.F32 R4, R8\n"
                                                   "  r4 = hmma.m16n8k16.f32 r8\n v_wmma_f32_16x16x16_f16 v[0:7]\n not_hmma imma");
    EXPECT_EQ(total(counts), 5u);
    EXPECT_EQ(counts.at("v_wmma_f32_16x16x16_f16"), 2u);
    EXPECT_EQ(counts.count("imma"), 1u);
}

CompileRow compiledRow(const char *kernel, uint32_t dim, uint64_t registers, uint64_t spills, uint64_t waves, uint64_t matrix) {
    CompileRow row{"a, device", "driver 1", kernel, "prefill", "f16", dim, "causal", kernel, {}, matrix ? "hmmax1" : ""};
    row.figures[Figure::registers] = registers;
    row.figures[Figure::spills] = spills;
    row.figures[Figure::waves] = waves;
    row.figures[Figure::matrixInstructions] = matrix;
    return row;
}

TEST(Compile, tableIsReadAsItWasWritten) {
    const CompileRow row = compiledRow("flash_coopmat", 128, 200, 0, 8, 64);
    const std::string text = compileCsvHeader() + compileCsvRow({"2026-01-31", "abc", "", 2, "", ""}, row);
    const std::vector<CompileRow> rows = parseCompileTable("test", text);
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0].name(), "flash_coopmat, prefill f16 D128 causal, flash_coopmat");
    EXPECT_EQ(rows[0].device, "a, device");
    EXPECT_EQ(rows[0].figures[Figure::registers], 200u);
    EXPECT_FALSE(rows[0].figures[Figure::sharedBytes]);
    EXPECT_EQ(rows[0].matrixKinds, "hmmax1");
    for (const std::string &bad : {std::string(), std::string("a,b\n"), compileCsvHeader(), compileCsvHeader() + "1,2\n"})
        EXPECT_THROW(static_cast<void>(parseCompileTable("test", bad)), Failure) << bad;
}

TEST(Compile, rowsOfOperationsHaveNoHeadDim) {
    const std::vector<std::string> kernels = {"projection_coopmat"};
    CompileRow row = compiledRow("projection_coopmat", 0, 100, 0, 10, 32);
    row.shader = "projection_coopmat_f16";
    EXPECT_EQ(row.name(), "projection_coopmat, prefill f16 causal, projection_coopmat_f16");
    EXPECT_TRUE(compareCompiled({row}, {row}, kernels).failures.empty());
    CompileRow worse = row;
    worse.figures[Figure::spills] = 1;
    EXPECT_EQ(compareCompiled({row}, {worse}, kernels).failures.size(), 1u);
    worse = row;
    worse.figures[Figure::matrixInstructions] = 0;
    EXPECT_EQ(compareCompiled({row}, {worse}, kernels).failures.size(), 1u);
}

// Every operation is described as the library takes it, under a name of the list.
TEST(Compile, operationsAreValid) {
    const std::vector<std::string> names = namesOfOperations();
    std::set<std::string> seen;
    visitOperations([&](const OperationToCompile &each, const vkattn_operation &description) {
        vkattn_diagnostic why{};
        EXPECT_EQ(vkattnValidateOperation(&description, &why), VKATTN_OK) << each.name << ": " << why.message;
        EXPECT_NE(std::find(names.begin(), names.end(), each.name), names.end()) << each.name;
        EXPECT_TRUE(seen.insert(each.name + each.shape + each.dtype + std::to_string(each.headDim) + each.options).second)
            << each.name << " twice";
    });
    EXPECT_EQ(seen.size(), 2u * 3u * (3 + 2 + 2 + 1 + 2 * 2 + 1 + 2) * 2 + 2u * 3u + 2 + 1 + 1);
}

TEST(Compile, comparisonFindsWhatIsWorse) {
    const std::vector<std::string> kernels = {"flash", "flash_coopmat"};
    const auto worse = [&](const CompileRow &before, const CompileRow &now) {
        return compareCompiled({before}, {now}, kernels).failures.size();
    };
    const CompileRow good = compiledRow("flash", 256, 100, 0, 10, 0);
    EXPECT_EQ(worse(good, good), 0u);
    EXPECT_EQ(worse(good, compiledRow("flash", 256, 112, 0, 10, 0)), 0u); // an eighth
    EXPECT_EQ(worse(good, compiledRow("flash", 256, 113, 0, 10, 0)), 1u);
    EXPECT_EQ(worse(good, compiledRow("flash", 256, 101, 0, 9, 0)), 1u);
    EXPECT_EQ(worse(good, compiledRow("flash", 256, 100, 3, 10, 0)), 1u);
    EXPECT_EQ(worse(compiledRow("flash", 256, 100, 3, 10, 0), compiledRow("flash", 256, 100, 4, 10, 0)), 0u);
    const CompileRow spilling = compiledRow("flash", 128, 100, 3, 10, 0);
    EXPECT_EQ(worse(spilling, spilling), 1u); // whatever the table says
    const CompileRow matrix = compiledRow("flash_coopmat", 64, 100, 0, 10, 32);
    EXPECT_EQ(worse(matrix, matrix), 0u);
    EXPECT_EQ(worse(matrix, compiledRow("flash_coopmat", 64, 100, 0, 10, 0)), 1u);
    EXPECT_EQ(worse(matrix, good), 1u); // all of a kernel gone
    const CompileComparison empty = compareCompiled({}, {good}, kernels);
    EXPECT_TRUE(empty.failures.empty());
    EXPECT_EQ(empty.notes.size(), 1u);
}

TEST(Peaks, shareIsTheNearerLimit) {
    struct Fixed : PeakMeter {
        double flopsPerSecond(std::string &) override { return 100e9; }
        double bytesPerSecond(uint64_t bytes, std::string &) override { return bytes > 4u << 20 ? 10e9 : 50e9; }
        uint64_t largestBuffer() const override { return 100u << 20; }
    };
    Peaks peaks(std::make_unique<Fixed>());
    const auto arithmetic = peaks.share(50e9, 1000, 1000);
    ASSERT_TRUE(arithmetic);
    EXPECT_DOUBLE_EQ(arithmetic->share, 0.5);
    EXPECT_FALSE(arithmetic->byMemory);
    const auto memory = peaks.share(1e6, 100u << 20, 100);
    ASSERT_TRUE(memory);
    EXPECT_TRUE(memory->byMemory);
    EXPECT_DOUBLE_EQ(memory->share, (100u << 20) / 10e9 / 0.1);
    EXPECT_EQ(peaks.reads().count(1u << 20), 1u);  // the least
    EXPECT_EQ(peaks.reads().count(64u << 20), 1u); // the most that fits
}

TEST(Peaks, processorHasSome) {
    std::string why;
    const auto meter = cpuPeakMeter(1);
    EXPECT_GT(meter->flopsPerSecond(why), 0);
    EXPECT_GT(meter->bytesPerSecond(1u << 20, why), 0);
    EXPECT_EQ(why, "");
}

TEST(Operands, valuesAreSpreadAndFinite) {
    for (const ElementTypes &types : elementTypes()) {
        const Operands operands(customShape(std::string("heads=2,q=64,d=64,type=") + types.name), 7);
        const vkattn_operand_memory &q = operands.list().front();
        double sum = 0, squares = 0, count = 0;
        for (size_t at = 0; at < q.bytes; at += types.queries == VKATTN_F32 ? 4 : 2) {
            float value = 0;
            uint16_t bits = 0;
            std::memcpy(&bits, static_cast<const char *>(q.data) + at, 2);
            if (types.queries == VKATTN_F32) {
                std::memcpy(&value, static_cast<const char *>(q.data) + at, 4);
            } else if (types.queries == VKATTN_BF16) {
                const uint32_t wide = uint32_t{bits} << 16;
                std::memcpy(&value, &wide, 4);
            } else if (bits & 0x7fff) {
                value = std::ldexp(static_cast<float>((bits & 0x3ff) | 0x400), (bits >> 10 & 31) - 25) * (bits & 0x8000 ? -1.0f : 1.0f);
            }
            sum += static_cast<double>(value);
            squares += static_cast<double>(value) * static_cast<double>(value);
            ++count;
        }
        EXPECT_NEAR(sum / count, 0, 0.1) << types.name;
        EXPECT_NEAR(squares / count, 1, 0.1) << types.name;
    }
}

} // namespace
} // namespace vkattn::bench
