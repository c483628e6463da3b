#include "sample_report.hpp"

#include "conform/cases/random.hpp"

#include <cmath>
#include <limits>

namespace vkattn::test {
namespace {

using conform::between;
using conform::CheckResult;
using conform::DeviceReport;
using conform::Errors;
using conform::Outcome;
using conform::Random;
using conform::Report;

std::string hostile(const std::string &what) {
    static constexpr char end[] = "\x01\x1b[31m\0\xff\xc0\x80\xed\xa0\x80 \xe2\x80\xae\xf0\x9f\x98\x80\n`*_<!--]]>";
    return hostileBeginning + what + std::string(end, sizeof end - 1);
}

CheckResult hostileCheck(Outcome outcome) {
    CheckResult check;
    check.id = hostile(outcomeName(outcome));
    check.kind = hostile("kind");
    check.kernel = hostile("kernel");
    check.testLayout = hostile("tiles");
    check.limits = hostile("room");
    check.dtype = hostile("dtype");
    check.features = {hostile("one"), "plain"};
    check.replay = hostile("replay");
    check.finding.outcome = outcome;
    check.finding.reason = outcome == Outcome::pass ? "" : hostile("reason");
    check.finding.deviceMilliseconds = 0.1;
    check.seconds = 1.0 / 3;
    if (outcome == Outcome::pass || outcome == Outcome::fail) {
        Errors &errors = check.finding.errors.emplace();
        for (uint64_t &count : errors.histogram) count = static_cast<uint64_t>(&count - errors.histogram) * 1000003;
        errors.worstError = errors.worstRatio = outcome == Outcome::pass ? 0.7 : std::numeric_limits<double>::infinity();
        errors.worstBound = 1e-300;
        errors.relativeToV = 5e-324;
    }
    if (isFailure(outcome)) check.smallest = {hostile("smallest replay"), hostile("smallest reason"), 31};
    return check;
}

// ---- as real ones look ----

struct KernelModel {
    const char *name;
    bool f32;
    double quality; // typical error / bound
};
constexpr KernelModel kernels[] = {{"auto", true, 0.15},  {"staged", true, 0.2},         {"flash", true, 0.12},
                                   {"decode", true, 0.1}, {"flash_coopmat", false, 0.3}, {"flash_coopmat2", false, 0.3}};
constexpr const char *features[] = {"causal",     "window",   "top-left",         "softcap",   "bias",      "ALiBi",
                                    "mask",       "bit mask", "lengths",          "ragged",    "documents", "sinks",
                                    "scale",      "lse",      "weights",          "needles",   "extremes",  "strides",
                                    "hidden NaN", "slices",   "hostile metadata", "same bits", "wide dims"};

Errors someErrors(Random &random, double quality) {
    Errors errors;
    const double ratio = std::min(0.95, quality * (0.5 + static_cast<double>(between(random, 0, 1000)) / 600));
    errors.worstBound = 1e-6 * (1 + static_cast<double>(between(random, 0, 1000)) / 300);
    errors.worstRatio = ratio;
    errors.worstError = ratio * errors.worstBound;
    errors.relativeToV = errors.worstError * 0.4;
    const int top = static_cast<int>(std::ceil(std::log2(ratio))) + 14;
    for (int bin = 0; bin <= top; bin++) errors.histogram[bin] = static_cast<uint64_t>(std::exp(-0.18 * (bin - 6) * (bin - 6)) * 4000) + 1;
    return errors;
}

void addChecks(DeviceReport &device, Random &random, bool matrixUnits) {
    for (const KernelModel &kernel : kernels) {
        const bool coopmat = std::string(kernel.name).find("coopmat") != std::string::npos;
        if (coopmat && !matrixUnits) {
            CheckResult none;
            none.id = std::string("matrix/") + kernel.name + "/device/full/plain";
            none.kind = "matrix";
            none.kernel = kernel.name;
            none.testLayout = "device";
            none.limits = "full";
            none.dtype = "f16";
            none.features = {"causal"};
            none.finding.outcome = Outcome::unsupported;
            none.finding.reason = "the device has no VK_KHR_cooperative_matrix";
            device.checks.push_back(none);
            continue;
        }
        for (int n = 0; n < (coopmat ? 40 : 90); n++) {
            CheckResult check;
            const char *a = features[n % std::size(features)], *b = features[(n * 7 + n / 23) % std::size(features)];
            check.features = {a};
            if (b != a) check.features.emplace_back(b);
            check.kind = n % 9 == 0 ? "repeat" : n % 11 == 0 ? "hidden" : "matrix";
            check.kernel = kernel.name;
            check.testLayout = n % 4 == 1 ? "rows" : "device";
            check.limits = n % 5 == 2 ? "tight" : "full";
            check.dtype = !kernel.f32 ? (n % 2 ? "f16" : "bf16") : n % 3 == 0 ? "f32" : n % 3 == 1 ? "f16" : "bf16";
            std::string name = std::string(a) + "_" + b + "_" + std::to_string(n);
            for (char &c : name)
                if (c == ' ') c = '-';
            check.id = check.kind + "/" + kernel.name + "/" + check.testLayout + "/" + check.limits + "/" + name;
            check.replay = std::to_string(81000 + n) + ":" + check.kind + ",kernel=" + kernel.name + ",causal,heads=4,keyTokens=77";
            check.seconds = 0.02 + static_cast<double>(between(random, 0, 400)) / 1000;
            check.finding.deviceMilliseconds = check.seconds * 100;
            if (check.features.back() == "weights" && std::string(kernel.name) != "staged" && std::string(kernel.name) != "auto") {
                check.finding.outcome = Outcome::unsupported;
                check.finding.reason = "the kernel does not write weights: the staged kernel does";
                check.finding.deviceMilliseconds = 0;
            } else if (check.features.back() == "slices" && std::string(kernel.name) == "decode") {
                check.finding.outcome = Outcome::unsupported;
                check.finding.reason = "slices of 3 rows are fewer than the 16 that the kernel packs";
                check.finding.deviceMilliseconds = 0;
            } else {
                check.finding.errors = someErrors(random, kernel.quality);
            }
            device.checks.push_back(check);
        }
    }
}

void plantFailures(DeviceReport &device) {
    CheckResult &wrong = device.checks[200];
    wrong.finding.outcome = Outcome::fail;
    wrong.finding.reason =
        "out[1, 2, 17, 5] is 0.7312, expected 0.7284: the error 0.0028 is over the bound 4.1e-06; 37 of 20 480 elements are "
        "wrong, all in queries 16 to 18";
    wrong.finding.errors = Errors{};
    wrong.finding.errors->histogram[3] = 20443;
    wrong.finding.errors->histogram[15] = 37;
    wrong.finding.errors->worstRatio = 683;
    wrong.finding.errors->worstError = 0.0028;
    wrong.finding.errors->worstBound = 4.1e-6;
    wrong.finding.errors->relativeToV = 0.0011;
    wrong.smallest = {"81200:matrix,kernel=flash,room=tight,causal,heads=1,queryTokens=17,keyTokens=17,headDim=1",
                      "out[0, 0, 16, 0] is 0.5021, expected 0.4996", 42};
    CheckResult &crashed = device.checks[260];
    crashed.finding = {Outcome::crash, "the process ended with signal 11 (SIGSEGV) while pipelines were compiled", {}, 0};
    crashed.smallest = {"81260:matrix,kernel=flash,window,heads=1,queryTokens=1,keyTokens=3", "the process ended with signal 11 (SIGSEGV)",
                        12};
    CheckResult &hung = device.checks[300];
    hung.finding = {Outcome::hang, "no answer within 60 seconds", {}, 0};
    hung.seconds = 60;
    for (size_t n = device.checks.size() - 12; n < device.checks.size(); n++)
        device.checks[n].finding = {Outcome::notRun, "the time limit of 600 seconds came first", {}, 0};
    device.restarts = 2;
}

void addTimings(DeviceReport &device, Random &random, bool timestamps) {
    for (const char *shape : {"prefill 1 x 8 x 256 x 64 f32", "prefill 1 x 8 x 256 x 64 f16", "decode 1 x 8 x 1 x 4096 x 128 f16"})
        for (const KernelModel &kernel : kernels) {
            conform::Timing timing{kernel.name, shape, 1 + static_cast<double>(between(random, 0, 9000)) / 300, 9, timestamps, ""};
            if (std::string(kernel.name).find("coopmat") != std::string::npos && std::string(shape).find("f32") != std::string::npos)
                timing = {kernel.name, shape, 0, 0, false, "matrix units take f16 and bf16 only"};
            device.timings.push_back(timing);
        }
}

DeviceReport llvmpipe() {
    DeviceReport device;
    device.facts = {.name = "llvmpipe (LLVM 15.0.6, 256 bits)",
                    .driver = "llvmpipe Mesa 22.3.6 (LLVM 15.0.6)",
                    .type = "CPU",
                    .vendorId = 0x10005,
                    .apiVersion = 0x4030e6,
                    .driverVersion = 1,
                    .subgroupSize = 8,
                    .deviceLocalBytes = 16ull << 30,
                    .maxAllocationBytes = 2ull << 30,
                    .maxStorageBufferRange = 128u << 20,
                    .maxSharedMemoryBytes = 32768,
                    .maxWorkgroupInvocations = 1024,
                    .nanGuaranteed = true,
                    .matrixShapes = {},
                    .kernels = {}};
    device.pipelines = 212;
    device.compileSeconds = 48.3;
    device.seconds = 131.7;
    return device;
}

} // namespace

Report hostileReport() {
    Report report;
    report.library = hostile("library");
    report.shaderHash = hostile("hash");
    report.started = hostile("started");
    report.machine = hostile("machine");
    report.extent = hostile("extent");
    report.seed = UINT64_MAX;
    report.arguments = {hostile("argument"), ""};
    report.problem = hostile("problem");
    DeviceReport &device = report.devices.emplace_back();
    device.facts = {.name = hostile("name"),
                    .driver = hostile("driver"),
                    .type = hostile("type"),
                    .vendorId = 1,
                    .deviceId = 2,
                    .apiVersion = UINT32_MAX,
                    .driverVersion = 4,
                    .subgroupSize = 5,
                    .deviceLocalBytes = UINT64_MAX,
                    .maxAllocationBytes = 7,
                    .maxStorageBufferRange = 8,
                    .maxSharedMemoryBytes = 9,
                    .maxWorkgroupInvocations = 10,
                    .nanGuaranteed = true,
                    .matrixShapes = {hostile("shape")},
                    .kernels = {{hostile("kernel"), hostile("kernel reason"), true}, {hostile("other"), hostile("other reason"), false}}};
    device.problem = hostile("device problem");
    for (const Outcome outcome : conform::outcomes) device.checks.push_back(hostileCheck(outcome));
    device.timings = {{hostile("kernel"), hostile("shape"), 0.25, 9, true, ""},
                      {hostile("other"), hostile("shape"), 0, 0, false, hostile("why")}};
    device.pipelines = 11;
    device.compileSeconds = 12.5;
    device.seconds = 13.5;
    device.restarts = 14;
    return report;
}

Report everydayReport(uint64_t seed) {
    Random random = conform::randomFor(seed, "everydayReport");
    Report report;
    report.library = "0.1.0";
    report.shaderHash = "9f3c1b2a77e0d415";
    report.started = "2026-03-05T09:41:07Z";
    report.machine = "Linux 6.1 x86_64, 16 cores";
    report.extent = "normal";
    report.seed = seed;
    report.arguments = {"--html", "report.html", "--json", "report.json"};
    DeviceReport software = llvmpipe();
    for (const KernelModel &kernel : kernels)
        if (std::string(kernel.name) != "auto")
            software.facts.kernels.push_back({kernel.name, kernel.f32 ? "" : "the device has no VK_KHR_cooperative_matrix", kernel.f32});
    addChecks(software, random, false);
    addTimings(software, random, false);
    DeviceReport gpu = software;
    gpu.facts.name = "NVIDIA H100 80GB HBM3";
    gpu.facts.driver = "NVIDIA 570.133.20";
    gpu.facts.type = "discrete GPU";
    gpu.facts.subgroupSize = 32;
    gpu.facts.deviceLocalBytes = 80ull << 30;
    gpu.facts.maxStorageBufferRange = UINT32_MAX;
    gpu.facts.matrixShapes = {"16x16x16 f16", "16x8x16 f16", "16x16x16 bf16"};
    for (auto &kernel : gpu.facts.kernels) kernel = {kernel.name, "", true};
    gpu.checks.clear();
    gpu.timings.clear();
    addChecks(gpu, random, true);
    addTimings(gpu, random, true);
    plantFailures(gpu);
    report.devices = {software, gpu};
    return report;
}

} // namespace vkattn::test
