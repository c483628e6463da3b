#include "compile/report.hpp"

#include "compile/operations.hpp"
#include "failure.hpp"
#include "report/output_file.hpp"
#include "text.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <map>

namespace vkattn::bench {
namespace {

struct Extents {
    const char *name;
    uint32_t heads, kvHeads, queries, keys;
};
constexpr Extents shapes[] = {{"prefill", 8, 8, 4096, 4096}, {"decode", 8, 8, 1, 4096}, {"decode-gqa", 32, 8, 1, 4096}};
constexpr struct {
    const char *name;
    vkattn_dtype dtype;
} dtypes[] = {{"f32", VKATTN_F32}, {"f16", VKATTN_F16}, {"bf16", VKATTN_BF16}};
constexpr uint32_t headDims[] = {64, 128, 256};
// "options" is causal with a mask, a bias, a softcap and the log-sum-exp output.
constexpr const char *optionSets[] = {"", "causal", "options"};

vkattn_problem problemOf(const Extents &e, vkattn_dtype dtype, uint32_t dim, std::string_view options, vkattn_kernel kernel) {
    const vkattn_layout q = packed(dtype, 1, e.heads, e.queries, dim), kv = packed(dtype, 1, e.kvHeads, e.keys, dim);
    vkattn_problem p = vkattn::problem(q, kv, kv, q);
    p.kernel = kernel;
    if (!options.empty()) p.flags |= VKATTN_CAUSAL;
    if (options == "options") {
        p.bias = packed(dtype, 1, e.heads, e.queries, e.keys);
        p.mask = packed(VKATTN_BOOL8, 1, 1, e.queries, e.keys);
        p.lse = packed(VKATTN_F32, 1, e.heads, e.queries, 1);
        p.softcap = 30;
    }
    return p;
}

std::string kindsText(const MatrixCounts &counts) {
    std::string text;
    for (const auto &[name, count] : counts) text.append(text.empty() ? "" : " ").append(name).append("x").append(std::to_string(count));
    return text;
}

void refuse(CompileReport &report, const std::string &kernel, const std::string &problem, const CompileCapture::Outcome &outcome) {
    const auto isSame = [&](const CompileReport::Refusal &each) { return each.kernel == kernel && each.why == outcome.why; };
    auto found = std::find_if(report.refusals.begin(), report.refusals.end(), isSame);
    if (found == report.refusals.end())
        found = report.refusals.insert(found, {kernel, outcome.why, {}, outcome.result != VKATTN_ERROR_UNSUPPORTED});
    found->problems.push_back(problem);
}

void add(CompileReport &report, const CompileRow &configuration, CompileCapture::Outcome &&outcome) {
    std::map<std::string, uint32_t> seen;
    for (CompiledPipeline &pipeline : outcome.pipelines) {
        CompileRow row = configuration;
        const uint32_t count = ++seen[pipeline.shader];
        row.shader = pipeline.shader;
        if (count > 1) row.shader.append("#").append(std::to_string(count));
        row.figures = pipeline.figures;
        row.matrixKinds = kindsText(pipeline.matrix);
        report.pipelines.push_back({std::move(row), std::move(pipeline.statistics), std::move(pipeline.representations)});
    }
}

std::string cell(const Figures &figures, Figure figure) {
    return figures[figure] ? std::to_string(*figures[figure]) : "-";
}

} // namespace

std::vector<CompileRow> CompileReport::rows() const {
    std::vector<CompileRow> all;
    for (const Pipeline &pipeline : pipelines) all.push_back(pipeline.row);
    return all;
}

bool CompileReport::failed() const {
    return std::any_of(refusals.begin(), refusals.end(), [](const Refusal &each) { return each.failed; });
}

CompileReport compileReport(const DeviceInfo &device, const std::vector<Kernel> &kernels, bool operations, const std::string &tuning,
                            const std::function<void(const std::string &)> &progress) {
    CompileReport report;
    CompileCapture capture(device, tuning);
    const auto compile = [&](const CompileRow &row, const vkattn_operation &description) {
        progress(row.kernel + ", " + row.problem());
        ++report.problems;
        CompileCapture::Outcome outcome = capture.compile(description);
        if (outcome.result != VKATTN_OK) refuse(report, row.kernel, row.problem(), outcome);
        add(report, row, std::move(outcome));
    };
    for (const Kernel &kernel : kernels)
        for (const Extents &extents : shapes) {
            // decode is made for few queries.
            if (kernel.kernel == VKATTN_KERNEL_DECODE && extents.queries > 1) continue;
            for (const auto &dtype : dtypes)
                for (const uint32_t dim : headDims)
                    for (const char *options : optionSets) {
                        const vkattn_problem problem = problemOf(extents, dtype.dtype, dim, options, kernel.kernel);
                        compile({device.name, device.driver, kernel.name, extents.name, dtype.name, dim, options, {}, {}, {}},
                                operation(problem));
                    }
        }
    if (operations)
        visitOperations([&](const OperationToCompile &o, const vkattn_operation &description) {
            compile({device.name, device.driver, o.name, o.shape, o.dtype, o.headDim, o.options, {}, {}, {}}, description);
        });
    return report;
}

void printCompileReport(const Machine &machine, const CompileReport &report, bool raw) {
    std::printf("device  %s (%s)\n", machine.device.c_str(), machine.driver.c_str());
    std::printf("tuning  %s\n\n", machine.tuning.c_str());
    constexpr const char *format = "%-18s %-25s %-24s %5s %5s %5s %6s %6s %7s %6s %5s %6s %7s  %s\n";
    std::printf(format, "kernel", "problem", "shader", "regs", "sregs", "half", "spills", "soft", "scratch", "shared", "waves", "instr",
                "bytes", "matrix instructions");
    for (const CompileReport::Pipeline &pipeline : report.pipelines) {
        const CompileRow &row = pipeline.row;
        const auto text = [&](Figure figure) { return cell(row.figures, figure); };
        const std::string matrix = row.matrixKinds.empty() ? text(Figure::matrixInstructions) : row.matrixKinds;
        std::printf(format, row.kernel.c_str(), row.problem().c_str(), row.shader.c_str(), text(Figure::registers).c_str(),
                    text(Figure::scalarRegisters).c_str(), text(Figure::halfRegisters).c_str(), text(Figure::spills).c_str(),
                    text(Figure::softSpills).c_str(), text(Figure::scratchBytes).c_str(), text(Figure::sharedBytes).c_str(),
                    text(Figure::waves).c_str(), text(Figure::instructions).c_str(), text(Figure::codeBytes).c_str(), matrix.c_str());
        for (const Statistic &statistic : pipeline.statistics)
            if (raw) std::printf("    %-36s %s\n", statistic.name.c_str(), statistic.text.c_str());
    }
    std::printf(
        "\n%zu pipelines of %u problems, each under the first problem that has it. regs: registers of a lane; soft: spills to other "
        "registers\n",
        report.pipelines.size(), report.problems);
    for (const CompileReport::Refusal &refusal : report.refusals)
        std::printf("%s %s, %zu problem%s (%s%s): %s\n", refusal.failed ? "FAILED " : "refused", refusal.kernel.c_str(),
                    refusal.problems.size(), refusal.problems.size() == 1 ? "" : "s", refusal.problems.front().c_str(),
                    refusal.problems.size() == 1 ? "" : ", ...", refusal.why.c_str());
    std::fflush(stdout);
}

void printComparison(const CompileComparison &comparison, const std::string &table) {
    std::printf("\ncompared with %s\n", table.c_str());
    for (const std::string &note : comparison.notes) std::printf("  note   %s\n", note.c_str());
    for (const std::string &failure : comparison.failures) std::printf("  WORSE  %s\n", failure.c_str());
    std::printf("  %zu worse\n", comparison.failures.size());
    std::fflush(stdout);
}

void writeRepresentations(const CompileReport &report, const std::string &folder) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) throw Failure("cannot make the folder of --representations " + folder + ": " + error.message());
    for (const CompileReport::Pipeline &pipeline : report.pipelines)
        for (const Representation &each : pipeline.representations) {
            std::string name = pipeline.row.kernel + "-" + pipeline.row.problem() + "-" + pipeline.row.shader + "." + each.name;
            for (char &c : name)
                if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-' && c != '_') c = '_';
            writeWhole("--representations", folder + "/" + name + ".txt", each.text);
        }
}

} // namespace vkattn::bench
