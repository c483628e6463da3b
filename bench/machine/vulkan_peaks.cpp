// A Vulkan device's peaks, by shaders/peak_fma.comp and shaders/peak_read.comp. Dispatches get more
// and more work until they take long enough to be timed well, and no longer, so that no watchdog
// minds.
#include "device/vulkan_device.hpp"
#include "machine/peaks.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace vkattn::bench {
namespace {

constexpr uint32_t peakFma[] = {
#include "peak_fma.inc"
};
constexpr uint32_t peakRead[] = {
#include "peak_read.inc"
};

class VulkanPeakMeter : public PeakMeter {
  public:
    // A software device has a few threads, a GPU a hundred thousand. A few groups too many cost
    // either of them little.
    explicit VulkanPeakMeter(const DeviceInfo &info) : device_(info), fmaGroups_(info.type == DeviceType::cpu ? 256 : 8192) {
        device_.reserve(result_, 1024);
    }

    ~VulkanPeakMeter() override {
        device_.release(input_);
        device_.release(result_);
    }

    double flopsPerSecond(std::string &why) override {
        constexpr double flopsPerStep = 2 * 32; // work of an invocation
        const Job job{peakFma, {groupSize, 0}, flopsPerStep * groupSize * fmaGroups_, 1024};
        return best(job, 1u << 24, why, [&](VkPipeline pipeline, uint32_t repeats) {
            return device_.secondsOf(pipeline, {fmaGroups_, 1, 1}, {repeats, 0, 0, 0.999f});
        });
    }

    double bytesPerSecond(uint64_t bufferBytes, std::string &why) override {
        return std::max(readRate(bufferBytes, {groupSize, 0}, groupSize, why), readRate(bufferBytes, {smallGroup, 1}, 1, why));
    }

    uint64_t largestBuffer() const override { return std::min<uint64_t>({device_.limits().maxStorageBufferRange, 256u << 20}); }

  private:
    // smallGroup is the vector of a software device.
    static constexpr uint32_t groupSize = 128, smallGroup = 8;

    struct Job {
        std::span<const uint32_t> spirv;
        // Specialization constants of the shader: group size, and how peak_read.comp reads.
        std::array<uint32_t, 2> constants;
        double workPerRepeat;
        uint64_t inputBytes;
    };

    double readRate(uint64_t bytes, const std::array<uint32_t, 2> &constants, uint32_t readersInGroup, std::string &why) {
        // Every device takes 65535 groups a dimension.
        constexpr uint32_t elementBytes = 16, readsEach = 64, widest = 32768;
        const auto elements = static_cast<uint32_t>(bytes / elementBytes);
        const uint32_t groups = elements / readsEach / readersInGroup, rows = std::max(1u, groups / widest);
        const Job job{peakRead, constants, static_cast<double>(bytes), bytes};
        return best(job, 32768, why, [&](VkPipeline pipeline, uint32_t repeats) {
            return device_.secondsOf(pipeline, {groups / rows, rows, repeats}, {0, elements, groups, 0});
        });
    }

    template <class Run> double best(const Job &job, uint32_t mostRepeats, std::string &why, const Run &run) {
        VkPipeline pipeline = VK_NULL_HANDLE;
        double rate = 0;
        try {
            if (input_.bytes != job.inputBytes) device_.reserve(input_, job.inputBytes);
            device_.bind(input_, result_);
            pipeline = device_.makePipeline(job.spirv, job.constants);
            rate = job.workPerRepeat / secondsARepeat(mostRepeats, [&](uint32_t repeats) { return run(pipeline, repeats); });
        } catch (const VulkanError &error) {
            why = error.what();
        }
        device_.destroyPipeline(pipeline);
        return rate;
    }

    // Returns the best of several runs, each with as many repeats as take long enough.
    template <class Run> static double secondsARepeat(uint32_t mostRepeats, const Run &run) {
        constexpr double longEnough = 0.01;
        constexpr int attempts = 8;
        static_cast<void>(run(1)); // software drivers compile at the first dispatch
        uint32_t repeats = 1;
        double seconds = run(repeats);
        while (seconds < longEnough && repeats < mostRepeats) {
            // The work grows at most 16 times at once: no watchdog minds, however wrong the clock
            // was.
            const double missing = longEnough * 1.5 / std::max(seconds, 1e-6);
            repeats = std::min(repeats * static_cast<uint32_t>(std::clamp(std::ceil(missing), 2.0, 16.0)), mostRepeats);
            seconds = run(repeats);
        }
        for (int attempt = 0; attempt < attempts; ++attempt) seconds = std::min(seconds, run(repeats));
        if (!(seconds > 0)) throw VulkanError("the device's clock shows no time");
        return seconds / repeats;
    }

    VulkanDevice device_;
    uint32_t fmaGroups_;
    VulkanDevice::Buffer input_, result_;
};

} // namespace

std::unique_ptr<PeakMeter> vulkanPeakMeter(const DeviceInfo &device, std::string &why) {
    try {
        return std::make_unique<VulkanPeakMeter>(device);
    } catch (const VulkanError &error) {
        why = error.what();
        return nullptr;
    }
}

} // namespace vkattn::bench
