#include "environment.hpp"

int main(int argc, char **argv) {
    testing::InitGoogleTest(&argc, argv);
    std::string why;
    if (vkattn::test::nothingToTest(why)) {
        std::printf("skipped: %s\n", why.c_str());
        return 77; // ctest's SKIP_RETURN_CODE
    }
    (void)vkattn::test::seed(); // printed first
    const int result = RUN_ALL_TESTS();
    vkattn::test::printStatistics();
    vkattn::test::closeRuntimes();
    return result;
}
