#include "environment.hpp"

#if defined(__SANITIZE_ADDRESS__)
// LeakSanitizer cannot name what a driver holds once it is unloaded (64 to 128 bytes "in an unknown module"): it stays loaded.
extern "C" int dlclose(void *) {
    return 0;
}
// The validation layer of Debian 12 keeps state of destroyed devices; what it allocates itself is not ours to free.
extern "C" const char *__lsan_default_suppressions() {
    return "leak:libVkLayer_khronos_validation.so\n";
}
#endif

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
