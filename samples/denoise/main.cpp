// denoise: a path-traced picture, or one of yours, cleaned by attention on any Vulkan device. Where
// to read on:
//   tile_attention.cpp   pixels as tokens: describes the problem and calls vkattn::Runtime::run
//   frame_denoiser.cpp   which heads and passes a rendered picture gets
//   photo_denoiser.cpp   the same for a photograph
//   sequence.cpp         a camera move, measured against a cross-bilateral filter
#include "arguments.hpp"
#include "attention/frame_denoiser.hpp"
#include "attention/photo_denoiser.hpp"
#include "attention/tile_attention.hpp"
#include "metrics/similarity.hpp"
#include "picture/labels.hpp"
#include "picture/picture.hpp"
#include "program/progress.hpp"
#include "program/run_program.hpp"
#include "report.hpp"
#include "sequence/sequence.hpp"

#include <atomic>

namespace denoise {
namespace {

using vkattn::program::ExitStatus, vkattn::program::Failure, vkattn::program::Progress;
constexpr int done = static_cast<int>(ExitStatus::success);

int denoiseScene(const Arguments &arguments, TileAttention &attention, const vkattn::Runtime &runtime) {
    std::printf("scene      %dx%d, %d light samples and %d view rays per pixel; reference %d samples\n", arguments.width, arguments.height,
                arguments.samples, arguments.samples * viewRaysPerSample, arguments.referenceSamples);
    noteFewSamples(arguments);
    std::fflush(stdout);
    RenderSettings noisySettings = noisySettingsOf(arguments, arguments.seed);
    RenderSettings referenceSettings = referenceSettingsOf(arguments, arguments.seed);

    Progress rendering("rendering");
    std::atomic<int64_t> samplesDone{0};
    const int64_t samplesWanted = int64_t{arguments.height} * (arguments.samples + arguments.referenceSamples);
    const auto rowsOf = [&](int samples) {
        return [&, samples] { rendering.set(static_cast<double>(samplesDone += samples) / static_cast<double>(samplesWanted)); };
    };
    noisySettings.rowDone = rowsOf(arguments.samples);
    referenceSettings.rowDone = rowsOf(arguments.referenceSamples);
    const Scene scene = studioScene();
    const Frame frame = render(scene, noisySettings);
    const Picture reference = toneMap(render(scene, referenceSettings).colour);

    Progress attending("attention");
    attention.progress = [&](double share) { attending.set(share); };
    Image clean;
    const FrameFilter filter = attentionFilter();
    attention.expectRuns(runsOfFrame(filter));
    if (!denoiseFrame(frame, filter, attention, clean)) throw Failure(attention.error(), ExitStatus::deviceUnusable);

    const Picture noisy = toneMap(frame.colour), denoised = toneMap(clean);
    const double before = psnr(noisy, reference), after = psnr(denoised, reference);
    const Picture all = sideBySide({{&noisy, std::to_string(arguments.samples) + " samples/pixel  " + decibels(before)},
                                    {&denoised, "attention  " + decibels(after)},
                                    {&reference, "reference  " + std::to_string(arguments.referenceSamples) + " samples/pixel"}});
    const int verified = reportAttention(runtime, attention.report()), gained = reportGain(arguments, before, after);
    savePictures(arguments,
                 {{"noisy.png", &noisy}, {"denoised.png", &denoised}, {"reference.png", &reference}, {"side_by_side.png", &all}});
    return std::max(verified, gained);
}

int denoiseFile(const Arguments &arguments, TileAttention &attention, const vkattn::Runtime &runtime, const Picture &noisy,
                const Picture *clean) {
    const Image image = toImage(noisy);
    const NoiseEstimate noise = estimateNoise(image);
    std::printf("picture    %s, %dx%d, noise of about %.1f levels of 255\n", arguments.image.c_str(), noisy.width, noisy.height,
                static_cast<double>(noise.typical * 255));
    std::fflush(stdout);
    Progress attending("attention");
    attention.progress = [&](double share) { attending.set(share); };
    Image result;
    if (!denoisePhoto(image, noise, arguments.strength, attention, result)) throw Failure(attention.error(), ExitStatus::deviceUnusable);

    const Picture denoised = toPicture(result);
    const int verified = reportAttention(runtime, attention.report());
    int gained = done;
    std::string before = "before", after = "attention";
    if (clean != nullptr) {
        gained = reportGain(arguments, psnr(noisy, *clean), psnr(denoised, *clean));
        before += "  " + decibels(psnr(noisy, *clean)), after += "  " + decibels(psnr(denoised, *clean));
    }
    const Picture all = sideBySide({{&noisy, before}, {&denoised, after}});
    savePictures(arguments, {{"denoised.png", &denoised}, {"side_by_side.png", &all}});
    return std::max(verified, gained);
}

int run(int argc, char **argv) {
    Arguments arguments;
    if (const std::optional<int> status = parseArguments(argc, argv, arguments)) return *status;

    // Everything that can be wrong with the input is found before any work is done.
    std::string why;
    Picture picture, clean;
    if (!arguments.image.empty() && !loadPicture(arguments.image, picture, why)) throw Failure("--image: " + why);
    if (!arguments.compare.empty() && !loadPicture(arguments.compare, clean, why)) throw Failure("--compare: " + why);
    if (!arguments.compare.empty() && (clean.width != picture.width || clean.height != picture.height))
        throw Failure("--compare: '" + arguments.compare + "' is " + std::to_string(clean.width) + "x" + std::to_string(clean.height) +
                      " but --image is " + std::to_string(picture.width) + "x" + std::to_string(picture.height) +
                      ": give two pictures of the same size");
    if (!prepareFolder(arguments.out, why)) throw Failure("--out: " + why);

    const std::unique_ptr<vkattn::Runtime> runtime = vkattn::program::openRuntime(vkattn::program::runtimeOptions(arguments));

    TileAttention attention(*runtime, arguments.threads, arguments.seed);
    if (arguments.frames > 0) return denoiseSequence(arguments, attention, *runtime);
    if (arguments.image.empty()) return denoiseScene(arguments, attention, *runtime);
    return denoiseFile(arguments, attention, *runtime, picture, arguments.compare.empty() ? nullptr : &clean);
}

} // namespace
} // namespace denoise

int main(int argc, char **argv) {
    return vkattn::program::runProgram("denoise", "try a smaller picture", [&] { return denoise::run(argc, argv); });
}
