// An SVG picture for light and dark pages: what charts and other pictures are drawn with.
#pragma once

#include <cstddef>
#include <string>

namespace vkattn::program {

// Returns a number with as many decimals.
[[nodiscard]] std::string decimals(double value, int count);

// How many colours series have: the classes colour0 to colour6.
inline constexpr size_t seriesColours = 7;

// The looks are classes of the picture's style:
//   text          title, label (strong), text, and by a second word end, middle or turned
//   lines         grid, axis, guide (dashed)
//   series        series colourN, and by a further word dashed; fill colourN
class Drawing {
  public:
    Drawing(double width, double height);

    void text(double x, double y, const std::string &look, const std::string &content);
    void line(double x1, double y1, double x2, double y2, const std::string &look);
    // `points` as in SVG: "1,2 3,4".
    void polyline(const std::string &points, const std::string &look);
    void circle(double x, double y, double radius, const std::string &look, const std::string &title);
    void rectangle(double x, double y, double width, double height, const std::string &look);
    // The picture, whole.
    [[nodiscard]] std::string finish() const { return svg_ + "</svg>\n"; }

  private:
    std::string svg_;
};

} // namespace vkattn::program
