// The same problem without pages: keys and values are gathered into memory where batch entries lie one after the
// other, by loops of this file's own, and a mask hides those of absent pages.
#pragma once

#include "support/case.hpp"

#include <vector>

namespace vkattn::test {

// A problem on the same operands but for K, V and the mask, which `data` must not have if pages may be absent.
struct ContiguousProblem {
    explicit ContiguousProblem(const conform::CaseData &data);
    conform::HostTensor k, v;
    std::vector<unsigned char> mask; // [batch, keys]; empty: every page is there
    std::vector<uint32_t> lengths;   // of pages in CSR
    vkattn_problem problem;
    std::vector<vkattn_operand_memory> operands;
};

// Draws a case with pages; hostile: with some that are absent, and without masks.
[[nodiscard]] conform::Case drawPages(conform::Random &random, bool hostile);

} // namespace vkattn::test
