// Checks: each takes one case to one kernel of one device and says what it finds. The contract that
// they check is docs/numerics.md.
#pragma once

#include "conform/cases/case_text.hpp"
#include "conform/checks/outcome.hpp"

#include <functional>
#include <map>
#include <span>

namespace vkattn::conform {

// Limits that problems are planned for.
enum class Limits {
    full, // the device's
    weak, // the minimum limits of Vulkan 1.0
    // The device's, but storage buffers of 64 KiB and 16 KiB of workspace: everything is cut into
    // chunks.
    tight,
    tiny, // both: the minimum limits, and chunks
};
[[nodiscard]] constexpr bool areMinimum(Limits limits) {
    return limits == Limits::weak || limits == Limits::tiny;
}
[[nodiscard]] constexpr bool makeChunks(Limits limits) {
    return limits == Limits::tight || limits == Limits::tiny;
}
inline constexpr uint32_t bindingBytesOfChunks = 1u << 16, workspaceBytesOfChunks = 1u << 14;

// A way in which a fused kernel lays out its lanes, with a tile so small that its pipelines compile
// fast: built-in tiles take seconds on drivers that compile for the CPU.
struct TestLayout {
    const char *name; // letters only
    vkattn_kernel kernel;
    // Of a tuning file; "LANES" stands for the device's subgroup size. Empty: those that the
    // planner takes by itself.
    const char *row;
    bool subgroups; // needs subgroup shuffles
    [[nodiscard]] bool onMatrixUnits() const { return vkattnKernelTraits(kernel) & VKATTN_KERNEL_TRAIT_MATRIX_UNITS; }
};
// "device" first (kernel AUTO: it suits every kernel)
[[nodiscard]] std::span<const TestLayout> testLayouts();
[[nodiscard]] const TestLayout *testLayoutOf(std::string_view name);

struct Kind;

struct Check {
    const Kind *kind = nullptr;
    const TestLayout *testLayout = nullptr;
    Limits limits = Limits::full;
    Case c;            // with the kernel
    uint64_t seed = 0; // of the case's data alone
};

// What a device is opened with for such a check: `base` (which device, layers, log, Vulkan) without
// fallback, self-test and verdicts, and with the tiles and limits. `device`: its caps.
[[nodiscard]] RuntimeOptions optionsFor(RuntimeOptions base, const TestLayout &testLayout, Limits limits, const vkattn_caps &device);

// Opens the device once for each layout and limits.
class DeviceUnderTest {
  public:
    explicit DeviceUnderTest(RuntimeOptions base);
    // NULL: `why` says what the device lacks, or where opened is false afterwards why it cannot be
    // opened.
    [[nodiscard]] Runtime *runtime(const TestLayout &testLayout, Limits limits, std::string &why);
    // NULL where it cannot be opened
    [[nodiscard]] const DeviceInfo *device();
    [[nodiscard]] const std::string &failure() const { return failure_; } // of opening; empty
    [[nodiscard]] Runtime::CompileStatistics compileStatistics() const;

  private:
    RuntimeOptions base_;
    std::map<std::pair<std::string, Limits>, std::unique_ptr<Runtime>> runtimes_;
    std::string failure_;
};

// What a check is about. Of all but attention the seed alone draws the case, and Check::c says
// nothing.
enum class Subject { attention, operation, layer };

// One kind of check: "matrix", "hidden", "repeat", ...
struct Kind {
    const char *name;
    const char *what; // a line for reports: what is compared with what
    Finding (*run)(DeviceUnderTest &, const Check &);
    Subject subject = Subject::attention;
    [[nodiscard]] bool drawnBySeed() const { return subject != Subject::attention; }
};
[[nodiscard]] std::span<const Kind> checkKinds();

// Never throws but std::bad_alloc; a device that cannot be opened fails.
[[nodiscard]] Finding run(DeviceUnderTest &device, const Check &check);

// "81234:matrix,kernel=flash,tiles=flashDirect,room=tight,causal,heads=2,keyTokens=19": all that it
// takes to run the check again, on any device. Letters, digits and , = : . - only, so that no shell
// changes it.
[[nodiscard]] std::string replayText(const Check &check);
// False where the text is none, with the reason: what was wrong, what was expected.
[[nodiscard]] bool parseReplay(std::string_view text, Check &check, std::string &why);

[[nodiscard]] std::string checkId(const Check &check); // CheckResult::id
// Without outcome, seconds and smallest.
[[nodiscard]] CheckResult resultFor(const Check &check);
[[nodiscard]] std::vector<std::string> featuresOf(const Check &check);
[[nodiscard]] const char *limitsName(Limits limits);

// The smallest variation of a failing check that `fails` too, by trying smaller and plainer ones
// until none does or `attempts` are used up.
struct Shrunk {
    Check check;
    uint32_t attempts = 0;
};
[[nodiscard]] Shrunk shrink(const Check &failing, const std::function<bool(const Check &)> &fails, uint32_t attempts);

} // namespace vkattn::conform
