#include "report.hpp"

#include "program/failure.hpp"

#include <cinttypes>
#include <cmath>

namespace denoise {
namespace {

using vkattn::program::ExitStatus;
constexpr int done = static_cast<int>(ExitStatus::success), checkFailed = static_cast<int>(ExitStatus::verificationFailed);

} // namespace

std::string decibels(double value) {
    char text[32];
    std::snprintf(text, sizeof text, std::isfinite(value) ? "%.1f dB" : "equal", value);
    return text;
}

int reportAttention(const vkattn::Runtime &runtime, const AttentionReport &report) {
    std::printf("device     %s (%s), kernel %s\n", report.device.c_str(), report.driver.c_str(), report.kernel.c_str());
    if (!report.fallbackReason.empty()) std::printf("fallback   computed on the CPU: %s\n", report.fallbackReason.c_str());
    std::printf("attention  %.1f GFLOP in %.0f ms (%.1f GFLOP/s), %" PRIu64 " runs", report.gigaflops, report.milliseconds,
                report.gigaflops / std::max(report.milliseconds * 1e-3, 1e-9), report.runs);
    const vkattn::Runtime::CompileStatistics compiled = runtime.compileStatistics();
    if (compiled.pipelines > 0) std::printf("; %u pipelines compiled in %.0f ms", compiled.pipelines, compiled.seconds * 1e3);
    std::printf("\nverified   %" PRIu64 " rows against the CPU in double precision: worst error %.2g where %.2g is allowed: %s\n",
                report.rowsChecked, report.worstError, report.worstBound, report.passed ? "passed" : "FAILED");
    return report.passed ? done : checkFailed;
}

int reportGain(const Arguments &arguments, double before, double after) {
    std::printf("PSNR       %s before, %s after: a gain of %.1f dB\n", decibels(before).c_str(), decibels(after).c_str(), after - before);
    if (arguments.minGain && !(after - before >= *arguments.minGain)) {
        std::printf("           that is less than the %.1f dB that --min-gain asks for\n", *arguments.minGain);
        return checkFailed;
    }
    return done;
}

void save(const Arguments &arguments, const char *name, std::span<const uint8_t> bytes) {
    const std::filesystem::path path = std::filesystem::path(arguments.out) / name;
    saveFile(path, std::as_bytes(bytes));
    std::printf("wrote      %s\n", path.string().c_str());
}

void savePictures(const Arguments &arguments, const std::vector<NamedPicture> &pictures) {
    for (const NamedPicture &entry : pictures) save(arguments, entry.name, encodePng(*entry.picture));
}

RenderSettings noisySettingsOf(const Arguments &arguments, uint32_t seed) {
    RenderSettings settings;
    settings.width = arguments.width;
    settings.height = arguments.height;
    settings.threads = arguments.threads;
    settings.samples = arguments.samples;
    settings.viewRays = viewRaysPerSample;
    settings.seed = seed;
    return settings;
}

RenderSettings referenceSettingsOf(const Arguments &arguments, uint32_t seed) {
    RenderSettings settings = noisySettingsOf(arguments, ~seed);
    settings.samples = arguments.referenceSamples;
    settings.viewRays = 1;
    return settings;
}

void noteFewSamples(const Arguments &arguments) {
    if (arguments.referenceSamples < 8 * arguments.samples)
        std::printf(
            "note       so few samples leave noise in the reference too, and PSNR lower than it should be: raise --reference-spp\n");
}

} // namespace denoise
