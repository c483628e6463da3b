// Programs on a device: the examples of samples/programs are what the library has built in, on every kernel, and what a program
// reads past its buffers is clamped. conform's cases have hooks too, beside every other option.
#include "device/environment.hpp"

#include "examples.hpp"
#include "support/extent.hpp"
#include "vkattn/program.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>

using namespace vkattn;
using namespace vkattn::test;

namespace {

std::string run(Runtime &runtime, programs::Attention &a) {
    std::fill(a.out.begin(), a.out.end(), NAN);
    const RunResult result = runtime.run(a.problem, a.operands);
    return result.status == VKATTN_OK ? "" : result.message;
}

// Where the programs lie: on machines that were given the tests alone (scripts/gpu.sh), in the tree that came with them.
std::string hooksFolder() {
    for (const char *folder : {PROGRAMS_HOOKS_FOLDER, "samples/programs/hooks", "../samples/programs/hooks"})
        if (std::filesystem::exists(folder)) return folder;
    return "";
}

TEST(ProgramTest, isWhatTheLibraryHasBuiltIn) {
    if (hooksFolder().empty()) GTEST_SKIP() << "the programs of samples/programs are not on this machine";
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    uint32_t compared = 0, refused = 0;
    for (const programs::Example &example : programs::examples()) {
        std::string error;
        const std::unique_ptr<Program> program = Program::make(textOf(hooksFolder(), example), example.name, error);
        ASSERT_TRUE(program) << error;
        for (const vkattn_kernel kernel : KernelList()) {
            // Decode is flash with other numbers of lanes.
            if (kernel == VKATTN_KERNEL_DECODE && !fullExtent()) continue;
            const bool matrices = kernel >= VKATTN_KERNEL_FLASH_COOPMAT;
            if (matrices && std::string(example.name) == "temperature") continue; // f16 rounds q after it is multiplied
            const vkattn_dtype type = matrices ? VKATTN_F16 : VKATTN_F32;
            programs::Attention hooked(2, 4, 9, 32, type), plain(2, 4, 9, 32, type);
            hooked.problem.program = program->get();
            hooked.problem.kernel = plain.problem.kernel = kernel;
            example.program(hooked);
            vkattn_diagnostic why{};
            const vkattn_result prepared = program->prepare(runtime->device()->caps, hooked.problem, &why);
            if (matrices && program->get()->hooks & VKATTN_HOOK_PROBABILITY) {
                // And f16 would round v after v is multiplied.
                ASSERT_EQ(prepared, VKATTN_ERROR_UNSUPPORTED) << example.name;
                ++refused;
                continue;
            }
            example.without(plain);
            if (prepared == VKATTN_ERROR_UNSUPPORTED && kernel != VKATTN_KERNEL_STAGED) {
                ++refused;
                continue;
            }
            ASSERT_EQ(prepared, VKATTN_OK) << example.name << ": " << why.message;
            ASSERT_EQ(run(*runtime, plain), "") << example.name;
            ASSERT_EQ(run(*runtime, hooked), "") << example.name;
            // Equal zeros would say nothing.
            ASSERT_GT(std::abs(*std::max_element(plain.out.begin(), plain.out.end())), 0.1f) << example.name;
            const float bound = matrices ? 4e-3f : 3e-6f; // probabilities in f16, or what drivers make of exp
            for (size_t n = 0; n < plain.out.size(); ++n)
                ASSERT_NEAR(hooked.out[n], plain.out[n], bound * std::max(1.0f, std::abs(plain.out[n])))
                    << example.name << " on " << vkattnKernelName(kernel) << ", element " << n;
            ++compared;
        }
    }
    std::printf("%u comparisons, %u that a kernel or the compiler of programs does not take\n", compared, refused);
}

TEST(ProgramTest, readsTheLastWordPastTheEndOfABuffer) {
    Runtime *runtime = runtimeFor(Limits::full);
    ASSERT_TRUE(runtime);
    // Each query sees the one key that the buffers say.
    std::string error;
    const std::unique_ptr<Program> program =
        Program::make("bool vkattnVisible(uint batch, uint head, uint query, uint key) {\n"
                      "    const uint far[4] = uint[4](5u, 100000u, 0x7fffffffu, 0xffffffffu);\n"
                      "    const uint none = vkattnBuffer(3u, query) + vkattnBuffer(200u, key) + vkattnBufferLength(2u);\n"
                      "    return key == vkattnBuffer(query % 2u, far[query % 4u]) + none + vkattnWord(40u + query);\n"
                      "}\n",
                      "far.glsl", error);
    ASSERT_TRUE(program) << error;
    for (const vkattn_kernel kernel : {VKATTN_KERNEL_STAGED, VKATTN_KERNEL_FLASH}) {
        programs::Attention a(1, 1, 8, 4, VKATTN_F32);
        a.problem.program = program->get();
        a.problem.kernel = kernel;
        a.problem.programWords[15] = 1; // what is past the words
        // The first word of the table is the place of the dilations. Without them the word is 0, as is a buffer that
        // is not there.
        a.problem.flags |= VKATTN_WINDOW;
        a.problem.windowLeft = a.problem.windowRight = -1;
        a.problem.dilation = 1;
        a.problem.presentRoles |= VKATTN_PRESENT(VKATTN_DILATIONS);
        a.add(VKATTN_DILATIONS, std::vector<uint32_t>{1});
        a.problem.programBufferWords[0] = 5, a.problem.programBufferWords[1] = 1;
        a.add(VKATTN_PROGRAM_BUFFER_0, std::vector<uint32_t>{60, 60, 60, 60, 9});
        a.add(VKATTN_PROGRAM_BUFFER_1, std::vector<uint32_t>{20});
        vkattn_diagnostic why{};
        const vkattn_result prepared = program->prepare(runtime->device()->caps, a.problem, &why);
        if (prepared == VKATTN_ERROR_UNSUPPORTED && kernel != VKATTN_KERNEL_STAGED) continue;
        ASSERT_EQ(prepared, VKATTN_OK) << why.message;
        ASSERT_EQ(run(*runtime, a), "");
        const auto *const v = static_cast<const float *>(a.operands[2].data);
        ASSERT_NE(v[21 * 4], v[10 * 4]);
        for (uint32_t i = 0; i < 64; ++i)
            for (uint32_t d = 0; d < 4; ++d) ASSERT_EQ(a.out[i * 4 + d], v[(i % 2 ? 21 : 10) * 4 + d]) << "query " << i;
    }
}

TEST(ProgramTest, thatIsNotCompiledIsAnErrorAndNoCrash) {
    RuntimeOptions options = optionsFor(Limits::full);
    options.allowFallback = false;
    std::string message;
    const std::unique_ptr<Runtime> runtime = Runtime::open(options, nullptr, &message);
    ASSERT_TRUE(runtime) << message;
    std::string error;
    const std::unique_ptr<Program> program =
        Program::make("bool vkattnVisible(uint batch, uint head, uint query, uint key) { return key != 7u; }", "seven.glsl", error);
    ASSERT_TRUE(program) << error;
    programs::Attention a(1, 1, 4, 4, VKATTN_F32);
    a.problem.program = program->get();
    const RunResult result = runtime->run(a.problem, a.operands);
    ASSERT_EQ(result.status, VKATTN_ERROR_UNSUPPORTED);
    EXPECT_NE(result.message.find("seven.glsl is not compiled"), std::string::npos) << result.message;
    vkattn_diagnostic why{};
    ASSERT_EQ(program->prepare(runtime->device()->caps, a.problem, &why), VKATTN_OK) << why.message;
    EXPECT_EQ(runtime->run(a.problem, a.operands).status, VKATTN_OK);
}

} // namespace
