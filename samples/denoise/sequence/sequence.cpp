#include "sequence/sequence.hpp"

#include "attention/cross_bilateral.hpp"
#include "attention/frame_denoiser.hpp"
#include "metrics/flicker.hpp"
#include "metrics/similarity.hpp"
#include "picture/animation.hpp"
#include "picture/labels.hpp"
#include "program/failure.hpp"
#include "program/progress.hpp"
#include "render/sampler.hpp"
#include "report.hpp"
#include "sequence/camera_move.hpp"
#include "sequence/measurement.hpp"
#include "sequence/tolerance_search.hpp"

#include <chrono>

namespace denoise {
namespace {

using vkattn::program::ExitStatus, vkattn::program::Progress;

constexpr int sheetRows = 4;
// Wider animations are large files, and slow to load in a page.
constexpr int animationWidth = 320;

double since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// Noisy, filtered and reference: what is measured, in the order of the table.
enum Method : size_t { noisy, plain, bilateral, attended, reference, methodCount };
constexpr const char *methodNames[methodCount] = {"noisy", "bilateral plain", "bilateral", "attention", "reference"};

struct FilteredMethod {
    Method method;
    FrameFilter settings;
};

struct Rendered {
    Frame frame;
    Picture reference;
    double milliseconds = 0, referenceMilliseconds = 0;
};

class Sequence {
  public:
    Sequence(const Arguments &arguments, TileAttention &attention)
        : arguments_(arguments), attention_(attention), bilateral_(arguments.threads), animation_(framesOfAnimation(arguments)) {
        for (const char *name : methodNames) figures_.push_back({name, {}});
    }

    // Renders a frame, filters and measures it.
    void add(int number) {
        const Scene scene = frameScene(number);
        const Rendered rendered = renderFrame(scene, number);
        std::vector<Picture> pictures(methodCount);
        std::vector<FrameFigures> figures(methodCount);
        pictures[noisy] = toneMap(rendered.frame.colour);
        pictures[reference] = rendered.reference;
        figures[noisy].frameMilliseconds = rendered.milliseconds;
        figures[reference].frameMilliseconds = rendered.referenceMilliseconds;
        attention_.verifies = number == 0;
        for (const FilteredMethod &each : filters_) {
            const double deviceBefore = attention_.report().milliseconds;
            const auto start = std::chrono::steady_clock::now();
            const Image clean = filtered(rendered.frame, each);
            FrameFigures &own = figures[each.method];
            own.filterMilliseconds = since(start);
            own.frameMilliseconds = rendered.milliseconds + *own.filterMilliseconds;
            if (each.method == attended) own.deviceMilliseconds = attention_.report().milliseconds - deviceBefore;
            pictures[each.method] = toneMap(clean);
        }
        const Image motion = number > 0 ? motionBetween(frameScene(number - 1), scene, arguments_.width, arguments_.height) : Image();
        for (size_t method = 0; method < methodCount; ++method) {
            if (method != reference) {
                figures[method].psnr = psnr(pictures[method], pictures[reference]);
                figures[method].ssim = ssim(pictures[method], pictures[reference]);
            }
            if (number > 0) figures[method].flicker = flicker(before_[method], pictures[method], motion);
            figures_[method].frames.push_back(figures[method]);
        }
        show(number, pictures);
        before_ = std::move(pictures);
    }

    // Returns the mean PSNR of a filter over rendered frames.
    double score(const std::vector<Rendered> &frames, const FilteredMethod &method) {
        double sum = 0;
        for (const Rendered &each : frames) sum += psnr(toneMap(filtered(each.frame, method)), each.reference);
        return sum / static_cast<double>(frames.size());
    }

    [[nodiscard]] Rendered renderFrame(const Scene &scene, int number) const {
        Rendered result;
        const uint32_t seed = hashCombine(arguments_.seed, static_cast<uint32_t>(number)); // each frame has noise of its own
        const auto start = std::chrono::steady_clock::now();
        result.frame = render(scene, noisySettingsOf(arguments_, seed));
        result.milliseconds = since(start);
        const auto referenceStart = std::chrono::steady_clock::now();
        result.reference = toneMap(render(scene, referenceSettingsOf(arguments_, seed)).colour);
        result.referenceMilliseconds = since(referenceStart);
        return result;
    }

    [[nodiscard]] Scene frameScene(int number) const { return sceneAt(studioScene(), arguments_.still ? 0 : number); }
    [[nodiscard]] const std::vector<FilteredMethod> &filters() const { return filters_; }
    [[nodiscard]] const std::vector<MethodFigures> &figures() const { return figures_; }
    [[nodiscard]] Picture contactSheet() const { return stacked(sheet_); }
    [[nodiscard]] const Animation &animation() const { return animation_; }

  private:
    [[nodiscard]] static uint16_t framesOfAnimation(const Arguments &arguments) {
        return static_cast<uint16_t>(std::max(1, framesPerSecond / arguments.animateEvery));
    }

    [[nodiscard]] Image filtered(const Frame &frame, const FilteredMethod &method) {
        WindowFilter &filter = method.method == attended ? static_cast<WindowFilter &>(attention_) : bilateral_;
        Image clean;
        if (!denoiseFrame(frame, method.settings, filter, clean))
            throw vkattn::program::Failure(filter.error(), ExitStatus::deviceUnusable);
        return clean;
    }

    void show(int number, const std::vector<Picture> &pictures) {
        const int every = std::max(1, arguments_.frames / sheetRows);
        if (number % every == 0 && sheet_.size() < sheetRows) {
            const auto caption = [&](Method method) {
                const FrameFigures &figures = figures_[method].frames.back();
                std::string text = methodNames[method];
                if (figures.psnr) text.append("  ").append(decibels(*figures.psnr));
                return text;
            };
            std::vector<Panel> panels = {
                {&pictures[noisy], std::string("frame ").append(std::to_string(number)).append("  ").append(caption(noisy))}};
            for (const Method method : {bilateral, attended, reference}) panels.push_back({&pictures[method], caption(method)});
            sheet_.push_back(sideBySide(panels));
        }
        if (number % arguments_.animateEvery == 0)
            animation_.add(fewerLevels(smaller(halfAndHalf(pictures[noisy], pictures[attended]), animationWidth)));
    }

    const Arguments &arguments_;
    TileAttention &attention_;
    CrossBilateral bilateral_;
    Animation animation_;
    const std::vector<FilteredMethod> filters_ = {
        {plain, plainBilateralFilter()}, {bilateral, bilateralFilter()}, {attended, attentionFilter()}};
    std::vector<MethodFigures> figures_;
    std::vector<Picture> before_; // of the last frame, by method
    std::vector<Picture> sheet_;  // a row for each of some frames
};

int search(const Arguments &arguments, Sequence &sequence) {
    std::vector<Rendered> frames;
    Progress rendering("rendering");
    for (int i = 0; i < arguments.frames; ++i) { // spread over the move
        frames.push_back(sequence.renderFrame(sequence.frameScene(i * framesOfMove / arguments.frames), i));
        rendering.set(static_cast<double>(i + 1) / arguments.frames);
    }
    for (const FilteredMethod &each : sequence.filters()) {
        const char *name = methodNames[each.method];
        const auto score = [&](const FrameFilter &settings) { return sequence.score(frames, {each.method, settings}); };
        const auto found = [&](const SearchStep &step) {
            std::printf("%-16s %.3f dB  %s\n", name, step.score, step.text.c_str());
            std::fflush(stdout);
        };
        const FrameFilter best = searchTolerances(each.settings, score, found);
        for (const std::string &line : describe(best)) std::printf("%-16s best: %s\n", name, line.c_str());
    }
    return static_cast<int>(ExitStatus::success);
}

} // namespace

int denoiseSequence(const Arguments &arguments, TileAttention &attention, const vkattn::Runtime &runtime) {
    std::printf("sequence   %d frames of %dx%d, %s; %d light samples and %d view rays per pixel; reference %d samples\n", arguments.frames,
                arguments.width, arguments.height, arguments.still ? "the camera stands still" : "the camera moves", arguments.samples,
                arguments.samples * viewRaysPerSample, arguments.referenceSamples);
    noteFewSamples(arguments);
    std::fflush(stdout);
    Sequence sequence(arguments, attention);
    if (arguments.search) {
        attention.verifies = false;
        return search(arguments, sequence);
    }
    Progress progress("frames");
    for (int number = 0; number < arguments.frames; ++number) {
        sequence.add(number);
        progress.set(static_cast<double>(number + 1) / arguments.frames);
    }
    const std::vector<MethodFigures> &figures = sequence.figures();
    const int verified = reportAttention(runtime, attention.report());
    std::printf("\n%s\n", table(figures).c_str());
    std::printf(
        "Times are medians; bilateral filters run on %u threads of the processor. PSNR and SSIM are means over the frames. Flicker\n"
        "is the mean difference of consecutive frames in levels of 255, after what the camera's motion explains.\n\n",
        arguments.threads);
    const int gained =
        reportGain(arguments, *mean(figures[noisy].frames, &FrameFigures::psnr), *mean(figures[attended].frames, &FrameFigures::psnr));
    const std::string lines = csv(figures);
    save(arguments, "frames.csv", {reinterpret_cast<const uint8_t *>(lines.data()), lines.size()});
    save(arguments, "contact_sheet.png", encodePng(sequence.contactSheet()));
    save(arguments, "animation.png", sequence.animation().encode());
    return std::max(verified, gained);
}

} // namespace denoise
