#include "sequence/measurement.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace denoise {
namespace {

std::vector<double> values(const std::vector<FrameFigures> &frames, std::optional<double> FrameFigures::*figure) {
    std::vector<double> result;
    for (const FrameFigures &frame : frames)
        if (frame.*figure) result.push_back(*(frame.*figure));
    return result;
}

std::string shown(std::optional<double> value, int width, int digits) {
    char text[64];
    if (!value)
        std::snprintf(text, sizeof text, "%*s", width, "-");
    else if (std::isinf(*value))
        std::snprintf(text, sizeof text, "%*s", width, "equal");
    else
        std::snprintf(text, sizeof text, "%*.*f", width, digits, *value);
    return text;
}

// Empty where there is no such figure.
std::string cell(std::optional<double> value, int digits) {
    std::string text(1, ',');
    if (value) text.append(shown(value, 0, digits));
    return text;
}

} // namespace

std::optional<double> mean(const std::vector<FrameFigures> &frames, std::optional<double> FrameFigures::*figure) {
    const std::vector<double> all = values(frames, figure);
    if (all.empty()) return std::nullopt;
    double sum = 0;
    for (const double each : all) sum += each;
    return sum / static_cast<double>(all.size());
}

std::optional<double> median(const std::vector<FrameFigures> &frames, std::optional<double> FrameFigures::*figure) {
    std::vector<double> all = values(frames, figure);
    if (all.empty()) return std::nullopt;
    std::sort(all.begin(), all.end());
    return 0.5 * (all[(all.size() - 1) / 2] + all[all.size() / 2]);
}

std::string table(const std::vector<MethodFigures> &methods) {
    std::string text = "method            attention ms  denoiser ms  whole frame ms   PSNR dB    SSIM   flicker\n";
    for (const MethodFigures &method : methods) {
        const std::vector<FrameFigures> timed(method.frames.begin() + (method.frames.size() > 1 ? 1 : 0), method.frames.end());
        char name[32];
        std::snprintf(name, sizeof name, "%-17s", method.name.c_str());
        text += name + shown(median(timed, &FrameFigures::deviceMilliseconds), 13, 1) +
                shown(median(timed, &FrameFigures::filterMilliseconds), 13, 1) +
                shown(median(timed, &FrameFigures::frameMilliseconds), 16, 1) + shown(mean(method.frames, &FrameFigures::psnr), 10, 2) +
                shown(mean(method.frames, &FrameFigures::ssim), 8, 4) + shown(mean(method.frames, &FrameFigures::flicker), 10, 3) + "\n";
    }
    return text;
}

std::string csv(const std::vector<MethodFigures> &methods) {
    std::string text = "frame,method,attention_ms,denoiser_ms,frame_ms,psnr_db,ssim,flicker_levels\n";
    const size_t frames = methods.empty() ? 0 : methods[0].frames.size();
    for (size_t frame = 0; frame < frames; ++frame) {
        for (const MethodFigures &method : methods) {
            const FrameFigures &figures = method.frames[frame];
            text += std::to_string(frame) + "," + method.name + cell(figures.deviceMilliseconds, 3) + cell(figures.filterMilliseconds, 3) +
                    cell(figures.frameMilliseconds, 3) + cell(figures.psnr, 4) + cell(figures.ssim, 6) + cell(figures.flicker, 4) + "\n";
        }
    }
    return text;
}

} // namespace denoise
