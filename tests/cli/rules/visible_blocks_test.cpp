// `vkattn run --visible-blocks`: the result is what it is without the lists, and what the lists hold is said.
#include "cli/run/run_fixture.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

namespace {

class VisibleBlocksRun : public RunTest {
  protected:
    // Pairs of one parity of blocks of 3 x 4 are seen, and of the blocks on the diagonal most.
    Array checkered(size_t queries, size_t keys) {
        Array mask{{1, 1, queries, keys}, {}};
        for (size_t i = 0; i < queries; ++i)
            for (size_t j = 0; j < keys; ++j) {
                const bool seen = (i / 3 + j / 4) % 2 == 0, hole = i / 3 == j / 4 && i % 3 == 0;
                mask.values.push_back(seen && !hole ? 1 : 0);
            }
        return mask;
    }
    void expectBlocks(const std::string &text, double listed, double full, double all) {
        const nlohmann::json blocks = nlohmann::json::parse(text)["visibleBlocks"];
        EXPECT_EQ(blocks["size"], (std::vector<int>{3, 4}));
        EXPECT_EQ(blocks["blocks"], all);
        EXPECT_EQ(blocks["listed"], listed);
        EXPECT_EQ(blocks["full"], full);
    }
};

TEST_F(VisibleBlocksRun, ofAMask) {
    given({2, 2, 9, 8}, {2, 2, 12, 8}, {2, 2, 12, 8});
    reference.mask = checkered(9, 12);
    writeNpy(file("m.npy"), *reference.mask, {.descr = "|b1"});
    const Outcome outcome = check({"--mask", "m.npy", "--visible-blocks", "3,4", "--json"});
    // Of 3 x 3 blocks five are seen, three of them with a hole; of two batch entries and two heads.
    expectBlocks(outcome.out, 4 * 5, 4 * 2, 4 * 9);
    const Outcome text = tool(command({"--mask", "m.npy", "--visible-blocks", "3,4"}));
    EXPECT_NE(text.out.find("blocks    3 x 4: 55.56 % visited, 22.22 % full, found in "), std::string::npos) << text.out;
}

TEST_F(VisibleBlocksRun, isRefusedWithTheReason) {
    given({1, 2, 6, 4}, {1, 2, 6, 4}, {1, 2, 6, 4});
    const auto refused = [&](const Arguments &more, const std::string &words) {
        const Outcome outcome = tool(command(more));
        EXPECT_EQ(outcome.status, 2) << outcome.err;
        EXPECT_NE(outcome.err.find(words), std::string::npos) << words << " in " << outcome.err;
        EXPECT_FALSE(std::filesystem::exists(file("o.npy")));
    };
    for (const std::string size : {"4", "0,4", "4,0", "4,x", "-4,4", ""}) refused({"--visible-blocks=" + size}, "--visible-blocks");
    refused({"--visible-blocks", "2,2", "--bigbird", "2,1,0"}, "--visible-blocks and --bigbird are both given");
    refused({"--visible-blocks", "2,2", "--block-mask", "m.npy", "--block-size", "2,2"},
            "--visible-blocks and --block-mask are both given");
}

TEST_F(VisibleBlocksRun, isExplained) {
    const Outcome outcome = tool({"explain", "--shape-q", "1,1,64,8", "--shape-k", "1,1,64,8", "--shape-v", "1,1,64,8", "--device", "cpu",
                                  "--visible-blocks", "16,16"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
}

// tests/device/CMakeLists.txt runs this test on every driver.
class VisibleBlocksOnDriver : public VisibleBlocksRun {};
TEST_F(VisibleBlocksOnDriver, ofAMask) {
    if (!hasTestedDevice()) return;
    where = {"--device", "0", "--no-fallback"};
    wantsWeights = false;
    given({2, 2, 9, 8}, {2, 2, 12, 8}, {2, 2, 12, 8});
    reference.mask = checkered(9, 12);
    writeNpy(file("m.npy"), *reference.mask, {.descr = "|b1"});
    const Outcome outcome = check({"--mask", "m.npy", "--visible-blocks", "3,4", "--json"});
    expectBlocks(outcome.out, 4 * 5, 4 * 2, 4 * 9);
}

} // namespace
