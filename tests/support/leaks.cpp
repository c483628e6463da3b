// Linked into test programs that load Vulkan drivers: LeakSanitizer is to see our leaks, and theirs
// not.
#if defined(__has_feature) // clang tells in this way that the sanitizer is on
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
// LeakSanitizer cannot name what a driver holds once it is unloaded (64 to 128 bytes "in an unknown
// module"): drivers stay loaded.
extern "C" int dlclose(void *) {
    return 0;
}
// The validation layer of Debian 12 keeps state of destroyed devices. Its own allocations are not
// ours to free.
extern "C" const char *__lsan_default_suppressions() {
    return "leak:libVkLayer_khronos_validation.so\n";
}
#endif
