// The words of a SPIR-V module (SPIR-V 1.0, 2.3): a header, then instructions whose first word has the
// length in its upper half and the opcode in its lower.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vkattn {

constexpr uint32_t spirvHeaderWords = 5;
constexpr uint32_t spirvBoundAt = 3; // in the header: every id is below this word

// Calls visit(words, opcode, length) for each instruction in turn. A visit may write over the words of its
// own instruction and of those before.
template <class Visit> void forInstructions(const uint32_t *words, size_t wordCount, const Visit &visit) {
    for (size_t at = spirvHeaderWords; at < wordCount;) {
        const uint32_t length = words[at] >> 16;
        visit(words + at, words[at] & 0xffffu, length);
        at += length;
    }
}

} // namespace vkattn
