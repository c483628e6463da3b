// "Every call on one context may run at the same time on any thread": eight threads do so, under
// ThreadSanitizer where the compiler has it (CMakeLists.txt), against a Vulkan whose every call is
// instrumented. A program of its own, without GoogleTest: everything in it but the C++ library is
// compiled with the sanitizer. Exit status: 0, 1 where an answer was wrong, 66 where there was a
// race.
#include "support/seed.hpp"
#include "support/vulkan/counting_allocator.hpp"
#include "support/vulkan/fake_vulkan.hpp"
#include "vkattn/vkattn.hpp"

#include <barrier>
#include <thread>

// The option holds also where the program is started by hand.
extern "C" const char *__tsan_default_options();
extern "C" const char *__tsan_default_options() {
    return "halt_on_error=1:exitcode=66:second_deadlock_stack=1";
}

using namespace vkattn;
using namespace vkattn::test;

namespace {

std::atomic<uint32_t> failures{0};

void check(bool fine, const char *what, const char *detail = "") {
    if (fine) return;
    ++failures;
    std::fprintf(stderr, "FAILED: %s %s\n", what, detail);
}

std::vector<vkattn_problem> problems() {
    std::vector<vkattn_problem> list;
    for (const vkattn_dtype dtype : {VKATTN_F32, VKATTN_F16})
        for (const uint32_t dim : {16u, 64u})
            for (const uint32_t queries : {1u, 40u})
                for (const vkattn_kernel kernel : {VKATTN_KERNEL_AUTO, VKATTN_KERNEL_STAGED}) {
                    const vkattn_layout q = packed(dtype, 2, 4, queries, dim), k = packed(dtype, 2, 2, 70, dim);
                    vkattn_problem p = problem(q, k, k, q);
                    p.kernel = kernel;
                    list.push_back(p);
                    p.presentRoles = VKATTN_PRESENT(VKATTN_SINKS) | VKATTN_PRESENT(VKATTN_KEY_LENGTHS);
                    p.flags = VKATTN_CAUSAL;
                    p.lse = packed(VKATTN_F32, 2, 4, queries, 1);
                    list.push_back(p);
                }
    const vkattn_layout t = packed(VKATTN_F32, 1, 2, 50, 16);
    vkattn_problem ragged = problem(t, t, t, t);
    ragged.presentRoles = VKATTN_PRESENT(VKATTN_CU_SEQ_Q) | VKATTN_PRESENT(VKATTN_CU_SEQ_K);
    ragged.sequences = 5;
    list.push_back(ragged);
    return list;
}

// The work of one thread, which has a command buffer and a pool of its own, as Vulkan asks.
class Worker {
  public:
    Worker(vkattn_context context, const std::vector<vkattn_problem> &list, bool pushDescriptors, uint64_t number)
        : context_(context), list_(list), pushDescriptors_(pushDescriptors), random_(seed() + number) {}

    void step() {
        const vkattn_problem &p = list_[random_() % list_.size()];
        switch (random_() % 8) {
        case 0: {
            vkattn_caps caps{};
            caps.structSize = sizeof caps;
            check(vkattnContextCaps(context_, &caps) == VKATTN_OK, "caps");
            uint32_t compiled = 0;
            uint64_t nanoseconds = 0;
            vkattnCompileStatistics(context_, &compiled, &nanoseconds);
            check(compiled >= compiled_, "fewer pipelines than before");
            compiled_ = compiled;
            // The verdict is on a kernel that no plan here takes: other threads see the word
            // change, and plan as before.
            check(vkattnSetVerdict(context_, VKATTN_KERNEL_FLASH_COOPMAT, random_() % 2 ? VKATTN_VERDICT_SLOW : VKATTN_VERDICT_TRUSTED,
                                   &why_) == VKATTN_OK,
                  "verdict", why_.message);
            // What the context says already: with another word plans would have other pipelines.
            check(vkattnSetExactHalves(context_, 0, &why_) == VKATTN_OK, "exact halves", why_.message);
            break;
        }
        case 1:
            describe(p);
            explain(p);
            break;
        case 2:
            check(vkattnPrewarm(context_, &p, 1, &why_) == VKATTN_OK, "prewarm", why_.message);
            record(p, 0, VKATTN_OK);
            break;
        case 3:
            record(p, 1, VKATTN_OK);
            break;
        case 4:
            keepPipelines();
            break;
        default:
            record(p, 0, VKATTN_NOT_READY);
        }
    }

  private:
    void describe(const vkattn_problem &p) {
        vkattn_caps caps{};
        caps.structSize = sizeof caps;
        check(vkattnContextCaps(context_, &caps) == VKATTN_OK, "caps");
        vkattn_dispatch_list list{};
        check(vkattn::measureDispatches(caps, p, list, planOptions(0), &why_) == VKATTN_OK, "describe", why_.message);
        std::vector<std::byte> memory(list.scratchBytes);
        check(vkattn::listDispatches(caps, p, memory, list, planOptions(0), &why_) == VKATTN_OK, "describe", why_.message);
        check(list.dispatchCount > 0 && list.dispatches[0].spirvBytes > 0, "an empty description");
    }
    void explain(const vkattn_problem &p) {
        vkattn_caps caps{};
        caps.structSize = sizeof caps;
        check(vkattnContextCaps(context_, &caps) == VKATTN_OK, "caps");
        vkattn_explanation explanation{};
        explanation.structSize = sizeof explanation;
        check(vkattn::explain(caps, p, explanation, planOptions(0), &why_) == VKATTN_OK, "explain", why_.message);
        check(explanation.dispatchCount > 0 && explanation.choice[0], "an empty explanation");
    }
    // Others compile and import meanwhile: the size that was asked for may be too small by now, and
    // a context takes so many imports only.
    void keepPipelines() {
        size_t bytes = 0;
        check(vkattnExportCache(context_, &bytes, nullptr, &why_) == VKATTN_OK, "the size of the cache", why_.message);
        std::vector<unsigned char> blob(bytes + 65536);
        bytes = blob.size();
        const vkattn_result exported = vkattnExportCache(context_, &bytes, blob.data(), &why_);
        check(exported == VKATTN_OK || exported == VKATTN_ERROR_INVALID_ARGUMENT, "export", why_.message);
        if (exported != VKATTN_OK) return;
        const vkattn_result imported = vkattnImportCache(context_, bytes, blob.data(), &why_);
        check(imported == VKATTN_OK || imported == VKATTN_CACHE_REJECTED, "import", why_.message);
    }
    // NOT_READY in `least` allows OK as well: another thread may have compiled the pipeline.
    void record(const vkattn_problem &p, uint32_t allowCompile, vkattn_result least) {
        vkattn_requirements needs{};
        needs.structSize = sizeof needs;
        check(vkattnQuery(context_, &p, &needs, &why_) == VKATTN_OK, "query", why_.message);
        vkattn_binding bindings[VKATTN_ROLE_LIMIT];
        vkattn_record record{};
        record.structSize = sizeof record;
        for (uint32_t n = 0; n < VKATTN_ROLE_LIMIT; ++n) {
            const auto role = static_cast<vkattn_role>(n);
            const uint64_t bytes = role == VKATTN_WORKSPACE ? needs.workspaceBytes : vkattnOperandBytes(&p, role);
            if (bytes) bindings[record.bindingCount++] = {role, reinterpret_cast<VkBuffer>(uintptr_t{0x1000} + n), 0, bytes};
        }
        FakeCommands commands(needs.dispatchCount);
        FakePool pool(needs.descriptorSetCount, needs.storageDescriptorCount);
        record.allowCompile = allowCompile;
        record.commandBuffer = commands.handle();
        record.bindings = bindings;
        if (!pushDescriptors_) record.descriptorPool = pool.handle();
        const vkattn_result r = vkattnRecord(context_, &p, &record, &why_);
        check(r == VKATTN_OK || r == least, "record", why_.message);
        check(commands.dispatches.size() == (r == VKATTN_OK ? needs.dispatchCount : 0), "a wrong number of dispatches");
        check(commands.error == nullptr, "commands", commands.error ? commands.error : "");
    }

    vkattn_context context_;
    const std::vector<vkattn_problem> &list_;
    bool pushDescriptors_;
    Random random_;
    vkattn_diagnostic why_{};
    uint32_t compiled_ = 0;
};

} // namespace

int main() {
    constexpr uint32_t threadCount = 8, rounds = 30, steps = 25;
    const std::vector<vkattn_problem> list = problems();
    uint32_t twins = 0;
    for (uint32_t round = 0; round < rounds; ++round) {
        FakeVulkan fake;
        fake.pushDescriptors = round % 2 == 0;
        CountingAllocator allocator;
        vkattn_host host = fake.host();
        host.allocator = &allocator.callbacks;
        Context context;
        vkattn_diagnostic why{};
        check(context.create(host, &why) == VKATTN_OK, "create", why.message);
        std::barrier start(threadCount);
        std::vector<std::thread> threads;
        for (uint32_t n = 0; n < threadCount; ++n)
            threads.emplace_back([&, n] {
                Worker worker(context.handle(), list, fake.pushDescriptors, round * threadCount + n);
                // The first calls of all, where nothing is compiled yet, fall together.
                start.arrive_and_wait();
                for (uint32_t s = 0; s < steps; ++s) worker.step();
            });
        for (std::thread &thread : threads) thread.join();
        check(context.prewarm(list, &why) == VKATTN_OK, "prewarm", why.message);

        // Pipelines that two threads compiled at once: one is kept.
        FakeVulkan serial;
        serial.pushDescriptors = fake.pushDescriptors;
        Context alone;
        check(alone.create(serial.host(), &why) == VKATTN_OK && alone.prewarm(list, &why) == VKATTN_OK, "serial prewarm", why.message);
        check(fake.pipelines == serial.pipelines, "other pipelines than one thread would have made");
        twins += fake.pipelinesCreated - static_cast<uint32_t>(fake.pipelines);
        context = {};
        check(fake.nothingLives(), "Vulkan objects are left");
        check(allocator.live() == 0, "host memory is left");
        check(allocator.strangers() == 0, "memory freed that was not given");
        check(fake.error == nullptr, "Vulkan", fake.error ? fake.error.load() : "");
    }
    std::printf("%u rounds of %u threads, %u pipelines were compiled twice, %u failures; ThreadSanitizer: %s\n", rounds, threadCount, twins,
                failures.load(),
#if defined(VKATTN_THREAD_SANITIZER)
                "on");
#else
                "not here");
#endif
    return failures ? 1 : 0;
}
