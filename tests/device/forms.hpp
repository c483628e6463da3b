// The ways in which flash.comp and flash_coopmat.comp lay out their lanes, each with a tile so small that its pipelines compile fast: full
// tiles take seconds on drivers that compile for the CPU.
#pragma once

#include "environment.hpp"

namespace vkattn::test {

struct Form {
    const char *name; // letters only: part of a test's name
    vkattn_kernel kernel;
    const char *tile; // names of a tuning file's row; "LANES" stands for the device's subgroup size
    bool subgroups;   // needs subgroup shuffles
    [[nodiscard]] bool onMatrixUnits() const { return kernel >= VKATTN_KERNEL_FLASH_COOPMAT; }
};

// staged first, then those of flash, decode and the matrix units.
[[nodiscard]] const std::vector<Form> &forms();

enum class Room {
    all,   // the device's limits
    tight, // its own type and features, but storage buffers of 64 KiB and 16 KiB of workspace: everything is cut into chunks
};

// Opened on first use. NULL where the device lacks what the form needs (`skipped` then says what) or cannot be opened (the test fails).
[[nodiscard]] Runtime *runtimeFor(const Form &form, Room room, std::string &skipped);

// A tuning file whose tiles all are the form's.
[[nodiscard]] std::string tuningOf(const Form &form, uint32_t subgroupSize);

// The case with the form's kernel, and types that it takes.
[[nodiscard]] Case takenBy(const Form &form, Case c);

// Why a kernel refuses a problem by design; empty where it must compute it.
[[nodiscard]] std::string refusalOf(const Form &form, const Instance &instance);

// Tests of every form. GetParam() is an index of forms().
class EveryForm : public testing::TestWithParam<size_t> {
  protected:
    [[nodiscard]] const Form &form() const { return forms()[GetParam()]; }
    // As runtimeFor; a form that the device lacks skips the test, and the caller must return.
    [[nodiscard]] Runtime *runtime(Room room = Room::all);
    [[nodiscard]] Case taken(const Case &c) const { return takenBy(form(), c); }
};
[[nodiscard]] std::string formName(const testing::TestParamInfo<size_t> &info);

} // namespace vkattn::test

#define VKATTN_FORMS(suite) INSTANTIATE_TEST_SUITE_P(Forms, suite, testing::Range<size_t>(0, forms().size()), formName)
