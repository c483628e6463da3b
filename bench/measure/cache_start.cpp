#include "measure/cache_start.hpp"

#include "device/vulkan_device.hpp"
#include "failure.hpp"
#include "report/csv.hpp"
#include "text.hpp"

#include <chrono>
#include <cstdio>
#include <vector>

namespace vkattn::bench {
namespace {

constexpr const char *wantedExtensions[] = {"VK_KHR_push_descriptor", "VK_KHR_shader_float_controls"};

void check(vkattn_result result, const vkattn_diagnostic &why) {
    if (result != VKATTN_OK) throw Failure(why.message, ExitStatus::failed);
}

template <class Function> double millisecondsOf(const Function &function) {
    const auto start = std::chrono::steady_clock::now();
    function();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// A device and a context on which nothing was compiled yet.
class Start {
  public:
    Start(const DeviceInfo &info, const std::string &tuning) : vulkan_(info, wantedExtensions) {
        check(context_.create(vulkan_.host(tuning), &why_), why_);
    }
    [[nodiscard]] std::vector<vkattn_problem> supported(std::span<const Shape> shapes, std::span<const Kernel> kernels) {
        std::vector<vkattn_problem> problems;
        for (const Shape &shape : shapes)
            for (const Kernel &kernel : kernels) {
                vkattn_requirements needs{};
                problems.push_back(shape.problem(kernel.kernel));
                if (context_.query(problems.back(), needs, &why_) != VKATTN_OK) problems.pop_back();
            }
        return problems;
    }
    [[nodiscard]] double prewarm(std::span<const vkattn_problem> problems) {
        return millisecondsOf([&] { check(context_.prewarm(problems, &why_), why_); });
    }
    [[nodiscard]] std::vector<unsigned char> exported() {
        size_t bytes = 0;
        check(vkattnExportCache(context_.handle(), &bytes, nullptr, &why_), why_);
        std::vector<unsigned char> data(bytes);
        check(vkattnExportCache(context_.handle(), &bytes, data.data(), &why_), why_);
        data.resize(bytes);
        return data;
    }
    [[nodiscard]] double import(std::span<const unsigned char> cache, std::string &rejected) {
        vkattn_result r = VKATTN_OK;
        const double ms = millisecondsOf([&] { r = vkattnImportCache(context_.handle(), cache.size(), cache.data(), &why_); });
        if (r == VKATTN_CACHE_REJECTED)
            rejected = why_.message;
        else
            check(r, why_);
        return ms;
    }
    [[nodiscard]] uint32_t pipelines() const {
        uint32_t count = 0;
        vkattnCompileStatistics(context_.handle(), &count, nullptr);
        return count;
    }

  private:
    VulkanDevice vulkan_;
    Context context_; // must be destroyed before the device
    vkattn_diagnostic why_{};
};

} // namespace

CacheStart measureCacheStart(const DeviceInfo &device, std::span<const Shape> shapes, std::span<const Kernel> kernels,
                             const std::string &tuning) {
    try {
        CacheStart result;
        std::vector<vkattn_problem> problems;
        std::vector<unsigned char> cache;
        {
            Start first(device, tuning);
            problems = first.supported(shapes, kernels);
            if (problems.empty()) throw Failure("the device can take none of the shapes", ExitStatus::failed);
            result.firstMs = first.prewarm(problems);
            result.pipelines = first.pipelines();
            cache = first.exported();
        }
        result.problems = static_cast<uint32_t>(problems.size());
        result.cacheBytes = cache.size();
        result.againMs = Start(device, tuning).prewarm(problems);
        Start second(device, tuning);
        result.importMs = second.import(cache, result.rejected);
        result.importedMs = second.prewarm(problems);
        return result;
    } catch (const VulkanError &error) {
        throw Failure(std::string("--cache needs a device of its own: ") + error.what(), ExitStatus::noDevice);
    }
}

void printCacheStart(const Machine &machine, const CacheStart &start) {
    std::printf("device  %s (%s), driven by %s\n", machine.device.c_str(), machine.driver.c_str(), machine.processor.c_str());
    std::printf("creating %u pipelines, of %u problems, on a new device; the exported cache has %llu bytes\n\n", start.pipelines,
                start.problems, static_cast<unsigned long long>(start.cacheBytes));
    std::printf("  first start            %10.1f ms\n", start.firstMs);
    std::printf("  again, without it      %10.1f ms\n", start.againMs);
    std::printf("  again, with it         %10.1f ms, and %.1f ms to import it\n", start.importedMs, start.importMs);
    std::printf("  first / with it        %10.1f times\n", start.ratio());
    if (!start.rejected.empty()) std::printf("the cache was rejected: %s\n", start.rejected.c_str());
}

std::string cacheCsvHeader() {
    return "date,commit,processor,cores,device,driver,problems,pipelines,cache_bytes,first_ms,again_ms,import_ms,imported_ms,ratio\n";
}

std::string cacheCsvRow(const Machine &machine, const CacheStart &start) {
    return csvLine({machine.date, machine.commit, machine.processor, std::to_string(machine.cores), machine.device, machine.driver,
                    std::to_string(start.problems), std::to_string(start.pipelines), std::to_string(start.cacheBytes),
                    decimals(start.firstMs, 2), decimals(start.againMs, 2), decimals(start.importMs, 2), decimals(start.importedMs, 2),
                    decimals(start.ratio(), 1)});
}

} // namespace vkattn::bench
