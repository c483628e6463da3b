#include "environment.hpp"
#include "support/extent.hpp"

namespace {

// At full extent a test may leave a thousand pipelines, of which software drivers keep megabytes each:
// all tests' together took 14 GB on Mesa 26 (2026-11-23).
class Releases : public testing::EmptyTestEventListener {
    void OnTestEnd(const testing::TestInfo &) override { vkattn::test::closeRuntimes(); }
};

} // namespace

int main(int argc, char **argv) {
    testing::InitGoogleTest(&argc, argv);
    std::string why;
    if (vkattn::test::nothingToTest(why)) {
        std::printf("skipped: %s\n", why.c_str());
        return 77; // ctest's SKIP_RETURN_CODE
    }
    (void)vkattn::test::seed();                                                                         // printed first
    if (vkattn::test::fullExtent()) testing::UnitTest::GetInstance()->listeners().Append(new Releases); // which owns it
    const int result = RUN_ALL_TESTS();
    vkattn::test::closeRuntimes();
    vkattn::test::printStatistics();
    return result;
}
