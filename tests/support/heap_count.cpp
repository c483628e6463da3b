#include "support/heap_count.hpp"

#include <cerrno>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define VKATTN_COUNT_NEW 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define VKATTN_COUNT_NEW 0
#endif
#endif
#ifndef VKATTN_COUNT_NEW
#define VKATTN_COUNT_NEW 1
#endif
#if VKATTN_COUNT_NEW && defined(__GLIBC__)
#define VKATTN_COUNT_MALLOC 1
#else
#define VKATTN_COUNT_MALLOC 0
#endif

namespace {
thread_local uint64_t allocations = 0;
}

namespace vkattn::test {
uint64_t heapAllocations() {
    return allocations;
}
bool countsHeap() {
    return VKATTN_COUNT_NEW;
}
bool countsMalloc() {
    return VKATTN_COUNT_MALLOC;
}
} // namespace vkattn::test

#if VKATTN_COUNT_MALLOC
// The C library's own names for the functions that it exports as malloc and so on.
extern "C" {
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes) noexcept {
    ++allocations;
    return __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes) noexcept {
    ++allocations;
    return __libc_calloc(count, bytes);
}
void *realloc(void *memory, size_t bytes) noexcept {
    ++allocations;
    return __libc_realloc(memory, bytes);
}
void *memalign(size_t alignment, size_t bytes) noexcept {
    ++allocations;
    return __libc_memalign(alignment, bytes);
}
void *aligned_alloc(size_t alignment, size_t bytes) noexcept {
    ++allocations;
    return __libc_memalign(alignment, bytes);
}
int posix_memalign(void **out, size_t alignment, size_t bytes) noexcept {
    ++allocations;
    *out = __libc_memalign(alignment, bytes);
    return *out ? 0 : ENOMEM;
}
}
#endif

#if VKATTN_COUNT_NEW
void *operator new(size_t bytes) {
    ++allocations;
    if (void *memory = std::malloc(bytes ? bytes : 1)) return memory;
    throw std::bad_alloc();
}
void operator delete(void *memory) noexcept {
    std::free(memory);
}
void operator delete(void *memory, size_t) noexcept {
    std::free(memory);
}
#endif
