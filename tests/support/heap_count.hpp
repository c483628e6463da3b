// Counts how often this thread has taken memory from the heap. Link heap_count.cpp, which takes the
// place of operator new and, on glibc, of malloc and its kin. AddressSanitizer has its own
// allocator: nothing is counted there.
#pragma once

#include <cstdint>

namespace vkattn::test {

[[nodiscard]] uint64_t heapAllocations();
[[nodiscard]] bool countsHeap();   // operator new
[[nodiscard]] bool countsMalloc(); // malloc as well

} // namespace vkattn::test
