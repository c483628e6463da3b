// Functions for tests that let every Vulkan call fail in turn: the answer that the library owes for
// each failure, and the count of what was tried.
#pragma once

#include "support/vulkan/faulty_vulkan.hpp"
#include "vkattn/vkattn.hpp"

#include <functional>
#include <string>

namespace vkattn::test {

// Returns whether the library does without the call where it fails: the call brings an extra.
[[nodiscard]] bool isTolerated(const std::string &function);
// Returns the code that an error owes by the comments of vkattn.h. The rule stands here once more
// on purpose: a test that called core's own function could not notice that the function is wrong.
[[nodiscard]] vkattn_result codeOf(VkResult error);

// Runs `scenario` once undisturbed, and then once for each call and each error that the call may
// return, with `ledger` set up accordingly. `scenario` checks its results; this function checks
// that nothing leaks and no dead object is used. Prints how much was tried.
struct Trial {
    std::string function, phase; // of the call that fails; empty: none does
    VkResult error = VK_SUCCESS;
    [[nodiscard]] std::string text() const;
};
void failEveryCall(const std::string &name, const std::function<void(const Trial &)> &scenario);

} // namespace vkattn::test
