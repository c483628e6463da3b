// neighbourhood: a picture of which most pixels are missing, filled in by 2-D neighbourhood attention (Hassani et al. 2023) on any Vulkan
// device, or the CPU; filling.cpp describes the problem.
#include "filling.hpp"

#include "metrics/similarity.hpp"
#include "picture/labels.hpp"
#include "picture/picture.hpp"
#include "program/options/device_options.hpp"
#include "program/run_program.hpp"
#include "render/path_tracer.hpp"
#include "render/scene.hpp"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <random>
#include <thread>

namespace neighbourhood {
namespace {

using namespace vkattn::program;
using denoise::Image, denoise::Picture;

struct Arguments : DeviceChoice {
    std::string image, out = "neighbourhood";
    uint32_t missing = 60, seed = 1, width = 192, height = 128;
    double minGain = -1e9;
    Settings settings;
};

Picture pictureOf(const Arguments &arguments) {
    Picture picture;
    if (!arguments.image.empty()) {
        std::string why;
        if (!denoise::loadPicture(arguments.image, picture, why)) throw Failure("--image: " + why);
        return picture;
    }
    denoise::RenderSettings settings;
    settings.width = static_cast<int>(arguments.width), settings.height = static_cast<int>(arguments.height);
    settings.samples = 48, settings.viewRays = 1, settings.seed = 5;
    settings.threads = std::max(std::thread::hardware_concurrency(), 1u);
    return denoise::toneMap(denoise::render(denoise::studioScene(), settings).colour);
}

// Of every hundred pixels so many are lost, and with them strokes a few pixels wide.
Known knownPixels(int width, int height, uint32_t missing, uint32_t seed) {
    std::mt19937 random(seed);
    Known known(static_cast<size_t>(width) * static_cast<size_t>(height));
    for (uint8_t &pixel : known) pixel = random() % 100 >= missing ? 1 : 0;
    for (int stroke = 0; stroke < 6; ++stroke) {
        const auto below = [&](int most) { return static_cast<double>(random() % static_cast<unsigned>(most)); };
        double x = below(width), y = below(height);
        const double angle = 0.001 * below(6283), dx = std::cos(angle), dy = std::sin(angle);
        for (int step = 0; step < width / 3; ++step, x += dx, y += dy)
            for (int a = -1; a <= 1; ++a)
                for (int b = -1; b <= 1; ++b) {
                    const int atX = static_cast<int>(x) + a, atY = static_cast<int>(y) + b;
                    if (atX >= 0 && atY >= 0 && atX < width && atY < height) known[static_cast<size_t>(atY) * width + atX] = 0;
                }
    }
    return known;
}

std::string caption(const char *what, const Picture &picture, const Picture &whole) {
    char text[64];
    std::snprintf(text, sizeof text, "%s  %.2f dB", what, denoise::psnr(picture, whole));
    return text;
}

void save(const Arguments &arguments, const char *name, const Picture &picture) {
    const std::vector<uint8_t> bytes = denoise::encodePng(picture);
    denoise::saveFile(std::filesystem::path(arguments.out) / name, std::as_bytes(std::span(bytes)));
}

int run(const Arguments &arguments) {
    std::string why;
    if (!denoise::prepareFolder(arguments.out, why)) throw Failure("--out: " + why);
    if (arguments.settings.size % 2 == 0 || arguments.settings.patch % 2 == 0)
        throw Failure("--size " + std::to_string(arguments.settings.size) + ", --patch " + std::to_string(arguments.settings.patch) +
                      ": expected odd numbers, as many pixels before as behind the one in the middle");
    const Picture whole = pictureOf(arguments);
    const auto size = static_cast<int>(arguments.settings.size);
    if (whole.width < std::max(size, denoise::ssimWindow) || whole.height < std::max(size, denoise::ssimWindow))
        throw Failure("the picture has " + std::to_string(whole.width) + " x " + std::to_string(whole.height) +
                      " pixels, expected at least the neighbourhood's " + std::to_string(size) +
                      " a side; give a larger picture or a smaller --size");
    const Known known = knownPixels(whole.width, whole.height, arguments.missing, arguments.seed);
    Image damaged = denoise::toImage(whole);
    for (size_t n = 0; n < known.size(); ++n)
        if (!known[n]) std::fill_n(damaged.data.begin() + static_cast<ptrdiff_t>(3 * n), 3, 0.0f);
    const std::unique_ptr<vkattn::Runtime> runtime = openRuntime(runtimeOptions(arguments));
    const Image start = interpolated(damaged, known);
    double milliseconds = 0;
    const Image result = filled(*runtime, start, known, arguments.settings, milliseconds, why);
    if (result.width == 0) throw Failure(why, ExitStatus::deviceUnusable);

    const Picture holes = denoise::toPicture(damaged), smooth = denoise::toPicture(start), clean = denoise::toPicture(result);
    size_t lost = 0;
    for (const uint8_t pixel : known) lost += pixel ? 0 : 1;
    std::printf("picture    %d x %d, %.1f %% of its pixels missing\n", whole.width, whole.height,
                100.0 * static_cast<double>(lost) / static_cast<double>(known.size()));
    std::printf("attention  %u x %u pixels around each, compared by patches of %u x %u, %u rounds in %.0f ms on %s\n",
                arguments.settings.size, arguments.settings.size, arguments.settings.patch, arguments.settings.patch,
                arguments.settings.rounds, milliseconds, runtime->device() ? runtime->device()->name.c_str() : "cpu");
    std::printf("           PSNR        SSIM\n");
    for (const auto &[name, picture] : {std::pair{"holes", &holes}, {"means", &smooth}, {"attention", &clean}})
        std::printf("%-10s %6.2f dB   %.4f\n", name, denoise::psnr(*picture, whole), denoise::ssim(*picture, whole));
    save(arguments, "holes.png", holes);
    save(arguments, "means.png", smooth);
    save(arguments, "filled.png", clean);
    save(arguments, "side_by_side.png",
         denoise::sideBySide({{&holes, "holes"},
                              {&smooth, caption("means", smooth, whole)},
                              {&clean, caption("attention", clean, whole)},
                              {&whole, "whole"}}));
    const double gain = denoise::psnr(clean, whole) - denoise::psnr(smooth, whole);
    if (gain >= arguments.minGain) return 0;
    std::printf("attention gained %.2f dB over means, expected at least %g\n", gain, arguments.minGain);
    return static_cast<int>(ExitStatus::verificationFailed);
}

} // namespace
} // namespace neighbourhood

int main(int argc, char **argv) {
    neighbourhood::Arguments arguments;
    neighbourhood::Settings &settings = arguments.settings;
    CLI::App app("Fills in missing pixels by 2-D neighbourhood attention: pictures, PSNR and SSIM beside means of what is known.",
                 "neighbourhood");
    vkattn::program::addDeviceChoice(app, arguments);
    app.add_option("--image", arguments.image, "A picture; default: a rendered room")->type_name("FILE");
    app.add_option("--width", arguments.width, "Of the rendered room; default 192")->check(CLI::Range(16, 2000));
    app.add_option("--height", arguments.height, "Likewise; default 128")->check(CLI::Range(16, 2000));
    app.add_option("--missing", arguments.missing, "Per cent of the pixels that are lost; default 60")->check(CLI::Range(0, 99));
    app.add_option("--seed", arguments.seed, "Which ones");
    app.add_option("--size", settings.size, "Side of the neighbourhood, odd; default 15")->check(CLI::Range(3, 101));
    app.add_option("--patch", settings.patch, "Side of the patches that are compared, odd; default 5")->check(CLI::Range(1, 11));
    app.add_option("--rounds", settings.rounds, "Each compares by what the one before has filled in; default 10")
        ->check(CLI::Range(1, 100));
    app.add_option("--likeness", settings.likeness, "Difference of patches, of 0 to 1, that a weight falls off by; default 0.03")
        ->check(CLI::Range(0.001, 10.0));
    app.add_option("--distance", settings.distance, "Pixels apart, likewise; default 2.5")->check(CLI::Range(0.1, 1000.0));
    app.add_option("--min-gain", arguments.minGain, "Fail where attention is not so many decibels better than means");
    app.add_option("--out", arguments.out, "Where pictures go; default: neighbourhood")->type_name("FOLDER");
    CLI11_PARSE(app, argc, argv);
    return vkattn::program::runProgram("neighbourhood", "choose a smaller picture", [&] { return neighbourhood::run(arguments); });
}
