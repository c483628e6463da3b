#version 450
// Set-up of problems with rules: the header of the table and what its entries have beside their sequences,
// the offsets of entries, a copy of numbers, which are data and are clamped, or of a page table, which pages
// an entry has, a summary of bits, or the words of a program (lib/table.h).
#define VKATTN_STAGE_RULES
#include "lib/platform.glsl"

#include "attention/operands.glsl"

int clampedOffset(int tokens) { return clamp(tokens, -int(mostOffset), int(mostOffset)); }

void main() {
    const uint n = gl_GlobalInvocationID.x;
    if (what == ruleStepCopy || what == ruleStepPages) {
        const uint lanes = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
        const uint tablePages = given[3u + rulePageWords];
        for (uint item = n; item < count; item += lanes) {
            const uint number = clamp(first[firstBase + item], given[1], given[2]);
            table[given[0] + item] = number;
            if (what != ruleStepPages || number < given[3u + rulePoolPages - rulePages]) continue;
            // A row of a table goes on behind the keys that the entry has.
            bool counts = tablePages == 0u;
            if (!counts) {
                const uint entry = item / tablePages, keys = table[ruleHeaderWords + entry * sequenceWords + sequenceKeys];
                counts = (item - entry * tablePages) * given[3u + rulePageTokens - rulePages] < keys;
            }
            if (counts) atomicOr(table[rulePagesAbsent], 1u);
        }
        if (what == ruleStepPages && n == 0u)
            [[unroll]] for (uint word = 0u; word < rulePageWords; ++word) table[rulePages + word] = given[3u + word];
        return;
    }
    if (what == ruleStepRuns) {
        if (n >= count) return;
        const uint at = ruleHeaderWords + n * sequenceWords, tablePages = given[0];
        if (tablePages != 0u) {
            table[at + sequenceFirstPage] = n * tablePages;
            return;
        }
        const uint indices = given[1], from = min(first[firstBase + n], indices);
        const uint pages = min(max(min(first[firstBase + n + 1u], indices), from) - from, given[2]);
        const int last = clamp(int(second[secondBase + n]), 1, int(given[3]));
        table[at + sequenceFirstPage] = from;
        table[at + sequenceKeys] = pages == 0u ? 0u : (pages - 1u) * given[3] + uint(last);
        return;
    }
    if (what == ruleStepOffsets) {
        if (n >= count) return;
        int query = int(given[0]), key = int(given[1]);
        if ((flags & ruleQueryOffsets) != 0u) query += clampedOffset(int(first[firstBase + n]));
        if ((flags & ruleKeyOffsets) != 0u) key += clampedOffset(int(second[secondBase + n]));
        table[ruleHeaderWords + n * sequenceWords + sequenceShift] = uint(clampedOffset(clampedOffset(query) - clampedOffset(key)));
        return;
    }
    if (what == ruleStepProgram) {
        if (n == 0u)
            [[unroll]] for (uint word = 0u; word < ruleProgramWords; ++word) table[ruleProgram + word] = given[word];
        return;
    }
    if (what == ruleStepSummary) {
        if (n >= count) return;
        const uint perEntry = given[2], ofBits = given[1], entry = n / perEntry, from = n % perEntry * 32u;
        uint bits = 0u;
        for (uint word = 0u; word < min(ofBits - from, 32u); ++word)
            bits |= first[firstBase + entry * ofBits + from + word] != 0u ? 1u << word : 0u;
        table[given[0] + n] = bits;
        return;
    }
    if (n == 0u) {
        [[unroll]] for (uint word = 0u; word < ruleWordsGiven; ++word) table[word] = given[word];
        table[rulePagesAbsent] = 0u;
    }
    if (n >= count) return;
    const uint at = ruleHeaderWords + n * sequenceWords;
    if ((flags & ruleRagged) == 0u) {
        table[at] = table[at + 2u] = 0u;
        table[at + 1u] = queryTokens;
        table[at + 3u] = (flags & ruleKeyLengths) != 0u ? min(first[firstBase + n], keyTokens) : keyTokens;
    }
    table[at + sequencePrefix] = (flags & rulePrefixLengths) != 0u ? min(second[secondBase + n], keyTokens) : 0u;
    table[at + sequenceHeader] = at;
    table[at + sequenceEntry] = n;
}
