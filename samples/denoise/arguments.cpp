#include "arguments.hpp"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <thread>

namespace denoise {
namespace {

constexpr int minSide = 16, maxSide = 4096;
constexpr int64_t maxPixels = 4'000'000; // rendering and denoising take some 460 bytes a pixel

// Checks a size such as "384x256". Returns an empty text where the size is good, as CLI11 wants.
std::string parseSize(const std::string &text, int &width, int &height) {
    const auto usage = [&](const std::string &problem) { return "'" + text + "' " + problem + ", such as 384x256"; };
    const size_t cross = text.find_first_of("xX");
    if (cross == std::string::npos || !CLI::detail::lexical_cast(text.substr(0, cross), width) ||
        !CLI::detail::lexical_cast(text.substr(cross + 1), height))
        return usage("is not a size: write WIDTHxHEIGHT in pixels");
    if (width < minSide || height < minSide) return usage("is too small: each side needs at least " + std::to_string(minSide) + " pixels");
    if (width > maxSide || height > maxSide || int64_t{width} * height > maxPixels)
        return usage("is too large: at most " + std::to_string(maxSide) + " pixels a side and 4 megapixels in all");
    return {};
}

} // namespace

std::optional<int> parseArguments(int argc, char **argv, Arguments &out) {
    CLI::App app("Cleans a noisy picture by attention: non-local means, where pixels are tokens.\n"
                 "Without --image it renders a small scene with few samples a pixel, cleans that, and measures the result against a\n"
                 "reference with many. Writes PNG files and prints what it found. With --frames it does so along a camera move.",
                 "denoise");
    app.footer(
        "Exit status: 0 done; 1 a check failed (against the CPU, or --min-gain); 2 bad usage or input; 3 the device cannot be used and\n"
        "--no-fallback was given.\n\nExamples:\n  denoise\n  denoise --size 768x512 --spp 8 --reference-spp 256\n"
        "  denoise --image photo.jpg --strength 1.5 --out cleaned\n  denoise --frames 60 --size 320x180");

    app.add_option("--out", out.out, "Folder for the pictures; made where it is missing")->type_name("DIR")->capture_default_str();
    app.add_option("--threads", out.threads, "Threads for rendering and checking; 0: one per core")
        ->check(CLI::Range(0, 256))
        ->capture_default_str();
    app.add_option("--min-gain", out.minGain, "Fail (exit status 1) where denoising gains less than this")->type_name("DECIBELS");

    std::string size;
    auto *sizeOption =
        app.add_option("--size", size, "Size of the picture, default 384x256")->type_name("WIDTHxHEIGHT")->group("Rendering");
    sizeOption->check([&out](const std::string &text) { return parseSize(text, out.width, out.height); });
    auto *samples = app.add_option("--spp", out.samples, "Light samples per pixel of the noisy picture")->check(CLI::Range(1, 1024));
    auto *reference =
        app.add_option("--reference-spp", out.referenceSamples, "Light samples per pixel of the reference")->check(CLI::Range(1, 65536));
    auto *seed = app.add_option("--seed", out.seed, "Seed of the noise: the same seed gives the same picture on any number of threads");
    for (CLI::Option *option : {samples, reference, seed}) option->capture_default_str()->group("Rendering");

    auto *image = app.add_option("--image", out.image, "Denoise this picture (PNG, JPEG, ...) instead of rendering one")->type_name("FILE");
    auto *strength = app.add_option("--strength", out.strength, "How much to remove: 1 is the noise as estimated, 2 twice that")
                         ->check(CLI::Range(0.05, 20.0));
    auto *compare = app.add_option("--compare", out.compare, "The same picture without noise, to measure the gain")->type_name("FILE");
    for (CLI::Option *option : {image, strength, compare}) option->group("Your own picture");
    strength->capture_default_str()->needs(image);
    compare->needs(image);
    for (CLI::Option *option : {sizeOption, samples, reference}) option->excludes(image);

    auto *frames =
        app.add_option("--frames", out.frames,
                       "Render a camera move of 60 frames, or so many of them, and measure each against a cross-bilateral filter")
            ->check(CLI::Range(1, 600));
    auto *still = app.add_flag("--still", out.still, "The camera stands still: frames differ by their noise alone");
    auto *animateEvery = app.add_option("--animate-every", out.animateEvery, "The animation shows one frame of so many")
                             ->check(CLI::Range(1, 600))
                             ->capture_default_str();
    auto *search = app.add_flag("--search", out.search, "Search for the filters' best tolerances on these frames, instead of measuring");
    for (CLI::Option *option : {frames, still, animateEvery, search}) option->group("Camera move");
    for (CLI::Option *option : {still, animateEvery, search}) option->needs(frames);
    frames->excludes(image);

    vkattn::program::addDeviceChoice(app, out);
    for (const char *option : {"--device", "--no-fallback"}) app.get_option(option)->group("Device");

    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp &help) {
        return app.exit(help);
    } catch (const CLI::ParseError &error) {
        std::fprintf(stderr, "denoise: %s\nRun denoise --help for all options.\n", error.what());
        return 2;
    }
    if (out.threads == 0) out.threads = std::max(1u, std::thread::hardware_concurrency());
    if (out.minGain && !out.image.empty() && out.compare.empty()) {
        std::fprintf(stderr, "denoise: --min-gain with --image needs --compare: without the clean picture there is no gain to measure\n");
        return 2;
    }
    return std::nullopt;
}

} // namespace denoise
