// What `vkattn lab` does not take, and its list.
#include "lab_fixture.hpp"

#include <fstream>

namespace {

TEST_F(LabTest, lists) {
    const Outcome list = tool({"lab"});
    EXPECT_EQ(list.status, 0) << list.err;
    EXPECT_EQ(tool({"lab", "--list"}).out, list.out);
    for (const char *const name : {"scaling-factor  ", "scaling-effect  ", "stability  ", "scales  ", "temperature  ", "convergence  ",
                                   "gradient-flow  ", "backward  ", "masks  ", "causal-entropy  "})
        EXPECT_NE(list.out.find(name), std::string::npos) << name;
    EXPECT_EQ(std::count(list.out.begin(), list.out.end(), '\n'), 10);
}

TEST_F(LabTest, refusals) {
    expectRefused(tool({"lab", "temprature"}), {"no experiment 'temprature'", "did you mean temperature?", "vkattn lab --list"});
    expectRefused(tool({"lab", "zzzzzzzzzzzz"}), {"no experiment 'zzzzzzzzzzzz': expected one of scaling-factor, ", "or all"});
    expectRefused(tool({"lab", ""}), {"not an empty one"});
    expectRefused(tool({"lab", "masks", "--list"}), {"--list and the experiment 'masks' are both given"});
    expectRefused(tool({"lab", "masks", "scales"}), {"scales", "vkattn lab --help"});
    for (const char *const seed : {"-1", "x", "18446744073709551616", "1.5", ""})
        expectRefused(tool({"lab", "masks", "--seed", seed}), {"--seed"});
    expectRefused(tool({"lab", "masks", "--out", "--seed"}), {"--out needs a value"});
    expectRefused(tool({"lab", "masks", "--device", "no such device", "--out", "out"}), {"no such device"});
}

TEST_F(LabTest, foldersThatCannotBeWritten) {
    std::ofstream(file("taken")) << "text";
    expectRefused(tool({"lab", "masks", "--device", "cpu", "--out", "taken"}), {"cannot make the folder --out taken"});
    expectRefused(tool({"lab", "masks", "--device", "cpu", "--out", "taken/out"}), {"cannot make the folder --out taken/out"});
    EXPECT_EQ(contents("taken"), "text");
    std::filesystem::create_directories(file("out/masks.csv"));
    expectRefused(tool({"lab", "masks", "--device", "cpu", "--out", "out"}), {"out/masks.csv", "it is a directory"});
    std::filesystem::create_directory(file("closed"));
    std::filesystem::permissions(file("closed"), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
    const std::optional<Outcome> outcome = unprivilegedTool({"lab", "masks", "--device", "cpu", "--out", "closed"});
    std::filesystem::permissions(file("closed"), std::filesystem::perms::owner_all);
    if (outcome) expectRefused(*outcome, {"closed/masks.csv", "Permission denied"});
}

} // namespace
