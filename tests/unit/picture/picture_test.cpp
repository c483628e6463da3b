// Pictures of heads and their page: pooling as they show it, colours, texts from anywhere, bytes.
#include "picture/heat_map.hpp"
#include "picture/page.hpp"

#include "support/seed.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace vkattn;
using namespace vkattn::picture;

namespace {

analysis::HeadWeights drawnHead(test::Random &random, size_t tokens) {
    analysis::HeadWeights head;
    head.weights = analysis::Matrix(tokens, tokens);
    head.visible.assign(tokens * tokens, 0);
    for (size_t i = 0; i < tokens; i++)
        for (size_t j = 0; j <= i; j++) head.weights(i, j) = test::between(random, 1, 1000), head.visible[i * tokens + j] = 1;
    return head;
}

Heads headsOf(const analysis::HeadWeights &weights, size_t cells) {
    Heads heads;
    heads.title = "a <title> & \"more\"";
    heads.figures = {{"entropy", "in nats", 2}};
    Head head;
    head.name = "head 0</script><b>", head.kind = "local", head.figures = {1.5};
    head.weights = analysis::pool(weights, cells);
    heads.heads.push_back(head);
    heads.tokens = {"<", "&amp;", "\"'", "</script><!--", std::string("\x01\x7f", 2), "\xf0\x9f\x90\x8b", "\xff"};
    return heads;
}

// What the browser finds in the element of that id.
std::string scriptOf(const std::string &page, const std::string &id) {
    const size_t at = page.find("id=\"" + id + "\">");
    if (at == std::string::npos) return "";
    const size_t begin = page.find('>', at) + 1;
    return page.substr(begin, page.find("</script>", begin) - begin);
}

} // namespace

TEST(Picture, coloursOfMapsAreThePublishedOnesAndNoMapHasGreyOrRed) {
    EXPECT_EQ(hexOf(entryOf(ColourMap::viridis, 0)), "440154");
    EXPECT_EQ(hexOf(entryOf(ColourMap::viridis, 127)), "21908d");
    EXPECT_EQ(hexOf(entryOf(ColourMap::viridis, 255)), "fde725");
    EXPECT_EQ(hexOf(entryOf(ColourMap::blues, 0)), "f7fbff");
    EXPECT_EQ(hexOf(entryOf(ColourMap::blues, 255)), "08306b");
    for (const ColourMap map : {ColourMap::viridis, ColourMap::blues})
        for (size_t entry = 0; entry < mapEntries; entry++)
            for (const Rgb other : {hiddenGrey, notFiniteRed}) {
                const Rgb colour = entryOf(map, entry);
                EXPECT_GT(std::abs(colour.red - other.red) + std::abs(colour.green - other.green) + std::abs(colour.blue - other.blue), 20);
            }
    EXPECT_EQ(colourOf(ColourMap::viridis, NAN, 1), notFiniteRed);
    EXPECT_EQ(colourOf(ColourMap::viridis, 2, 1), entryOf(ColourMap::viridis, 255));
    EXPECT_EQ(colourOf(ColourMap::viridis, 0, 0), entryOf(ColourMap::viridis, 0));
}

TEST(Picture, pooledCellsAreTheLargestOfTheirBlocksAndSayWhere) {
    test::Random random = test::randomFor("Picture.pooled");
    const size_t tokens = test::between(random, 20, 70), most = test::between(random, 3, 19);
    const analysis::HeadWeights head = drawnHead(random, tokens);
    const analysis::PooledWeights pooled = analysis::pool(head, most);
    const analysis::Matrix p = analysis::normalized(head);
    ASSERT_LE(pooled.rows, most);
    const size_t block = pooled.blockRows;
    for (size_t row = 0; row < pooled.rows; row++)
        for (size_t column = 0; column < pooled.columns; column++) {
            double largest = -1;
            size_t place = 0;
            for (size_t i = row * block; i < std::min((row + 1) * block, tokens); i++)
                for (size_t j = column * block; j < std::min((column + 1) * block, tokens); j++)
                    if (head.visible[i * tokens + j] != 0 && static_cast<float>(p(i, j)) > largest)
                        largest = static_cast<float>(p(i, j)), place = (i - row * block) * block + j - column * block;
            const size_t cell = row * pooled.columns + column;
            EXPECT_EQ(pooled.cells[cell] == analysis::PooledWeights::hidden, largest < 0);
            if (largest < 0) continue;
            EXPECT_EQ(pooled.largest[cell], largest);
            EXPECT_EQ(pooled.places[cell], place);
        }
    EXPECT_EQ(poolingText(pooled), "maximum of " + std::to_string(block) + " x " + std::to_string(block) + " cells");
}

TEST(Picture, cellsOfManyHeadsStayWithinTheirBudget) {
    EXPECT_EQ(cellsOnASide(16, 64, 64), 64u);
    EXPECT_EQ(cellsOnASide(1, 4096, 4096), 256u);
    const size_t side = cellsOnASide(32, 4096, 4096);
    EXPECT_GT(side, 100u);
    EXPECT_LE(32 * side * side * 3, 3'400'000u); // a byte for the value and two for the place
}

TEST(Picture, rangesAreSharedUnlessAskedOtherwise) {
    test::Random random = test::randomFor("Picture.ranges");
    Heads heads = headsOf(drawnHead(random, 12), 12);
    Head faint = heads.heads[0];
    for (float &weight : faint.weights.largest) weight /= 8;
    heads.heads.push_back(faint);
    EXPECT_EQ(sharedLargest(heads), ownLargest(heads.heads[0]));
    EXPECT_EQ(ownLargest(faint), ownLargest(heads.heads[0]) / 8);
    const std::vector<uint8_t> strong = heatMap(heads, 0).rgb;
    EXPECT_NE(heatMap(heads, 1).rgb, strong);
    EXPECT_NE(heatMap(heads, 1, {ColourMap::viridis, true}).rgb, heatMap(heads, 1).rgb);
}

TEST(Picture, bytesAreTheSameEachTime) {
    test::Random random = test::randomFor("Picture.bytes");
    const Heads heads = headsOf(drawnHead(random, 40), 13);
    EXPECT_EQ(pngOf(sheet(heads)), pngOf(sheet(heads)));
    EXPECT_EQ(pngOf(heatMap(heads, 0)), pngOf(heatMap(heads, 0)));
    EXPECT_EQ(pngOf(sheet(heads)).substr(1, 3), "PNG");
    EXPECT_EQ(pageOf(heads), pageOf(heads));
}

TEST(Picture, noTextOfTheInputsIsMarkup) {
    test::Random random = test::randomFor("Picture.text");
    const Heads heads = headsOf(drawnHead(random, 9), 9);
    const std::string page = pageOf(heads), script = scriptOf(page, "data");
    EXPECT_NE(page.find("<title>a &lt;title&gt; &amp; &quot;more&quot;</title>"), std::string::npos);
    EXPECT_EQ(script.find('<'), std::string::npos);
    const nlohmann::json data = nlohmann::json::parse(script);
    EXPECT_EQ(data["heads"][0]["name"], "head 0</script><b>");
    const std::vector<std::string> expected = {
        "<", "&amp;", "\"'", "</script><!--", "\xef\xbf\xbd\xef\xbf\xbd", "\xf0\x9f\x90\x8b", "\xef\xbf\xbd"};
    EXPECT_EQ(data["tokens"].get<std::vector<std::string>>(), expected);
    for (const char *outside : {"src=\"", "href=", "http://", "@import", "url("}) {
        const size_t at = page.find(outside);
        EXPECT_TRUE(at == std::string::npos || page.compare(at, 26, "http://www.w3.org/2000/svg") == 0) << outside;
    }
}

TEST(Picture, distancesFallIntoBinsThatLoseNothing) {
    test::Random random = test::randomFor("Picture.distances");
    std::vector<double> distances(test::between(random, 1, 300));
    double all = 0;
    for (double &mass : distances) all += mass = test::between(random, 0, 1000);
    double sum = 0;
    size_t next = 0;
    for (const DistanceBin &bin : distanceBins(distances)) {
        EXPECT_EQ(bin.first, next);
        EXPECT_LE(bin.first, bin.last);
        next = bin.last + 1, sum += bin.mass;
    }
    EXPECT_EQ(next, distances.size());
    EXPECT_EQ(sum, all);
}

TEST(Picture, base64IsThatOfItsStandard) {
    EXPECT_EQ(base64(""), "");
    EXPECT_EQ(base64("f"), "Zg==");
    EXPECT_EQ(base64("fo"), "Zm8=");
    EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
}
