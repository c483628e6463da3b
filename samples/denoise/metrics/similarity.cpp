#include "metrics/similarity.hpp"

#include <array>
#include <cmath>

namespace denoise {
namespace {

// Doubles of one channel.
struct Plane {
    int width = 0, height = 0;
    std::vector<double> data;

    Plane(int planeWidth, int planeHeight)
        : width(planeWidth), height(planeHeight), data(static_cast<size_t>(planeWidth) * static_cast<size_t>(planeHeight)) {}
    [[nodiscard]] double *row(int y) { return data.data() + static_cast<size_t>(y) * static_cast<size_t>(width); }
    [[nodiscard]] const double *row(int y) const { return data.data() + static_cast<size_t>(y) * static_cast<size_t>(width); }
};

Plane luma(const Picture &picture) {
    Plane plane(picture.width, picture.height);
    for (size_t i = 0; i < plane.data.size(); ++i)
        plane.data[i] = 0.299 * picture.rgb[3 * i] + 0.587 * picture.rgb[3 * i + 1] + 0.114 * picture.rgb[3 * i + 2];
    return plane;
}

std::array<double, ssimWindow> gaussian() {
    std::array<double, ssimWindow> taps{};
    double sum = 0;
    for (int i = 0; i < ssimWindow; ++i) {
        const double distance = (i - ssimWindow / 2) / 1.5;
        sum += taps[static_cast<size_t>(i)] = std::exp(-0.5 * distance * distance);
    }
    for (double &tap : taps) tap /= sum;
    return taps;
}

// Returns the weighted means of all windows that lie within the plane.
Plane windowMeans(const Plane &plane) {
    static const std::array<double, ssimWindow> taps = gaussian();
    Plane rows(plane.width - ssimWindow + 1, plane.height), result(rows.width, plane.height - ssimWindow + 1);
    for (int y = 0; y < rows.height; ++y)
        for (size_t i = 0; i < taps.size(); ++i)
            for (int x = 0; x < rows.width; ++x) rows.row(y)[x] += taps[i] * plane.row(y)[x + static_cast<int>(i)];
    for (int y = 0; y < result.height; ++y)
        for (size_t i = 0; i < taps.size(); ++i)
            for (int x = 0; x < result.width; ++x) result.row(y)[x] += taps[i] * rows.row(y + static_cast<int>(i))[x];
    return result;
}

Plane product(const Plane &a, const Plane &b) {
    Plane result(a.width, a.height);
    for (size_t i = 0; i < result.data.size(); ++i) result.data[i] = a.data[i] * b.data[i];
    return result;
}

} // namespace

double psnr(const Picture &a, const Picture &b) {
    double squares = 0;
    for (size_t i = 0; i < a.rgb.size(); ++i) {
        const double difference = static_cast<double>(a.rgb[i]) - b.rgb[i];
        squares += difference * difference;
    }
    return 10 * std::log10(255.0 * 255.0 * static_cast<double>(a.rgb.size()) / squares);
}

double ssim(const Picture &a, const Picture &b) {
    constexpr double c1 = 0.01 * 255 * 0.01 * 255, c2 = 0.03 * 255 * 0.03 * 255;
    const Plane x = luma(a), y = luma(b);
    const Plane meanX = windowMeans(x), meanY = windowMeans(y);
    const Plane squaresX = windowMeans(product(x, x)), squaresY = windowMeans(product(y, y)), products = windowMeans(product(x, y));
    double sum = 0;
    for (size_t i = 0; i < meanX.data.size(); ++i) {
        const double mx = meanX.data[i], my = meanY.data[i];
        const double varianceX = squaresX.data[i] - mx * mx, varianceY = squaresY.data[i] - my * my,
                     covariance = products.data[i] - mx * my;
        sum += (2 * mx * my + c1) * (2 * covariance + c2) / ((mx * mx + my * my + c1) * (varianceX + varianceY + c2));
    }
    return sum / static_cast<double>(meanX.data.size());
}

} // namespace denoise
