// A frame loop: a scene is rendered, attention over all its pixels (a bilateral filter of 9216
// tokens) runs on the same queue in slices, one a frame, and the result becomes a texture of the
// frames that follow. No frame waits for the whole of it.
//   host [--budget MS] [--out FOLDER] [--strict]
// The exit status is 1 where something is wrong; with --strict also where a frame is over the
// budget.
#include "gpu.hpp"
#include "renderer.hpp"

#include <vkattn/cpu.h>
#include <vkattn/vkattn.hpp>

#include <stb_image_write.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr uint32_t tokens = Renderer::pixels;
constexpr VkDeviceSize colourAt = 0, keyAt = Renderer::pictureBytes, queryAt = 2 * keyAt, outAt = 3 * keyAt, workspaceAt = 4 * keyAt,
                       workspaceRoom = 8 << 20;

struct Options {
    double budget = 1000.0 / 30; // milliseconds
    std::string out;
    bool strict = false;
};

double milliseconds(std::chrono::steady_clock::time_point since) {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - since).count();
}

vkattn_problem bilateralFilter() {
    // Describes an image of RGBA floats, which is copied as it is.
    const vkattn_layout picture = vkattn::packed(VKATTN_F32, 1, 1, tokens, 4);
    vkattn_problem problem = vkattn::problem(picture, picture, picture, picture);
    problem.flags = VKATTN_SCALE | VKATTN_DETERMINISTIC;
    problem.scale = 1;
    return problem;
}

class FrameLoop {
  public:
    FrameLoop(gpu &own, const Options &options) : own_(own), options_(options), renderer_(own) {}
    ~FrameLoop() {
        renderer_.destroy(tensors_);
        renderer_.destroy(screen_);
    }
    FrameLoop(const FrameLoop &) = delete;
    FrameLoop &operator=(const FrameLoop &) = delete;

    bool run() { return create() && calibrate() && plan() && loop() && check(); }

  private:
    bool create() {
        return renderer_.create() &&
               renderer_.makeBuffer(tensors_, workspaceAt + workspaceRoom,
                                    VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |
                                        VK_BUFFER_USAGE_TRANSFER_SRC_BIT) &&
               renderer_.makeBuffer(screen_, VkDeviceSize{Renderer::width} * Renderer::height * 4, VK_BUFFER_USAGE_TRANSFER_DST_BIT) &&
               open({});
    }
    // A context is cheap: one more where there is tuning data.
    bool open(const std::string &tuning) {
        vkattn_host host = hostOf(own_);
        host.tuning = tuning.data();
        host.tuningBytes = tuning.size();
        vkattn_diagnostic why{};
        return worked("create", context_.create(host, &why), why) && worked("prewarm", context_.prewarm({&problem_, 1}, &why), why);
    }
    bool worked(const char *call, vkattn_result result, const vkattn_diagnostic &why) const {
        if (result != VKATTN_OK) std::printf("host: %s answers %d: %s\n", call, result, why.message);
        return result == VKATTN_OK;
    }

    bool record(const vkattn_problem &problem, uint32_t slice) {
        const vkattn_binding bindings[] = {{VKATTN_Q, tensors_.buffer, queryAt, Renderer::pictureBytes},
                                           {VKATTN_K, tensors_.buffer, keyAt, Renderer::pictureBytes},
                                           {VKATTN_V, tensors_.buffer, colourAt, Renderer::pictureBytes},
                                           {VKATTN_OUT, tensors_.buffer, outAt, Renderer::pictureBytes},
                                           {VKATTN_WORKSPACE, tensors_.buffer, workspaceAt, workspaceRoom}};
        vkattn_record record{};
        record.structSize = sizeof record;
        record.commandBuffer = own_.commands;
        record.bindings = bindings;
        record.bindingCount = 5;
        record.descriptorPool = own_.descriptorPool;
        record.sliceIndex = slice;
        vkattn_diagnostic why{};
        return worked("record", vkattnRecord(context_.handle(), &problem, &record, &why), why);
    }
    bool submit(double &took) {
        if (vkEndCommandBuffer(own_.commands) != VK_SUCCESS) return false;
        const auto start = std::chrono::steady_clock::now();
        if (gpuSubmitAndWait(&own_) != GPU_OK) return false;
        took = milliseconds(start);
        return true;
    }
    // The caller before vkattn: outputs and workspace of the run before are done with.
    void barrier() {
        const VkMemoryBarrier memory{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_SHADER_WRITE_BIT,
                                     VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};
        vkCmdPipelineBarrier(own_.commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &memory, 0,
                             nullptr, 0, nullptr);
    }

    // The scene, and attention in one piece: the first time compiles, on software drivers at the
    // dispatch; the second tells the device's rate.
    bool calibrate() {
        double took = 0;
        for (int n = 0; n < 2; ++n) {
            if (gpuBegin(&own_)) return false;
            if (n == 0)
                renderer_.renderScene(own_.commands, tensors_.buffer);
            else
                barrier();
            if (!record(problem_, 0)) return false;
            renderer_.renderFrame(own_.commands, 0, 0);
            renderer_.copyFrame(own_.commands, screen_.buffer);
            if (!submit(took)) return false;
        }
        whole_ = took;
        unsliced_.assign(tensors_.mapped + outAt, tensors_.mapped + outAt + Renderer::pictureBytes);
        return writeFrame("frame_before.png");
    }

    bool plan() {
        const double flops = 4.0 * 4 * tokens * tokens; // 2 products of 2 operations a dim
        char tuning[96];
        std::snprintf(tuning, sizeof tuning, "vkattn-tuning 1\nrate flash maxDim=4 mflops=%.0f\n", std::max(flops / (whole_ * 1e3), 1.0));
        if (!open(tuning)) return false;
        // Half of a frame is attention's.
        vkattn_diagnostic why{};
        if (!worked("slicesForBudget", vkattnSlicesForBudget(context_.handle(), &problem_, options_.budget * 500, &slices_, &why), why))
            return false;
        sliced_ = problem_;
        sliced_.sliceCount = slices_;
        vkattn_requirements needs{};
        needs.structSize = sizeof needs;
        if (!worked("query", vkattnQuery(context_.handle(), &sliced_, &needs, &why), why) || needs.workspaceBytes > workspaceRoom)
            return false;
        std::printf(
            "attention over %u pixels in one piece: %.1f ms; budget of a frame: %.1f ms, half of it for attention: %u slices of at most "
            "%u; %llu bytes of workspace, %llu kept between slices\n",
            tokens, whole_, options_.budget, slices_, needs.maxSlices, static_cast<unsigned long long>(needs.workspaceBytes),
            static_cast<unsigned long long>(needs.persistentWorkspaceBytes));
        return true;
    }

    bool loop() {
        std::memset(tensors_.mapped + outAt, 0xff, Renderer::pictureBytes); // NaN
        double took = 0;
        // Contexts compile at their first dispatch on software drivers: the new one's warm-up is
        // the last slice, whose rows come again.
        if (gpuBegin(&own_) || !record(sliced_, slices_ - 1) || !submit(took)) return false;
        const uint32_t frames = slices_ + 8;
        std::vector<double> working, idle;
        for (uint32_t n = 0; n < frames; ++n) {
            if (gpuBegin(&own_)) return false;
            if (n == 0) barrier();
            if (n < slices_ && !record(sliced_, n)) return false;
            if (n + 1 == slices_) renderer_.showResult(own_.commands, tensors_.buffer, outAt);
            const float turn = static_cast<float>(n) / 24,
                        done = static_cast<float>(std::min(n + 1, slices_)) / static_cast<float>(slices_);
            renderer_.renderFrame(own_.commands, turn, done);
            renderer_.copyFrame(own_.commands, screen_.buffer);
            if (!submit(took)) return false;
            (n < slices_ ? working : idle).push_back(took);
            if (n == slices_ / 2 && !writeFrame("frame_during.png")) return false;
        }
        std::sort(working.begin(), working.end());
        std::sort(idle.begin(), idle.end());
        const auto over = working.end() - std::upper_bound(working.begin(), working.end(), options_.budget);
        std::printf("%zu frames with a slice: median %.1f ms, longest %.1f ms, %td over the budget; %zu without: median %.1f ms\n",
                    working.size(), working[working.size() / 2], working.back(), over, idle.size(), idle[idle.size() / 2]);
        if (options_.strict && over > 0) {
            std::printf("host: %td frames took longer than the budget\n", over);
            return false;
        }
        return writeFrame("frame_after.png");
    }

    bool check() {
        if (std::memcmp(unsliced_.data(), tensors_.mapped + outAt, Renderer::pictureBytes) != 0) {
            std::printf("host: the slices did not give bitwise what one piece gave\n");
            return false;
        }
        const vkattn_operand_memory operands[] = {{VKATTN_Q, tensors_.mapped + queryAt, Renderer::pictureBytes},
                                                  {VKATTN_K, tensors_.mapped + keyAt, Renderer::pictureBytes},
                                                  {VKATTN_V, tensors_.mapped + colourAt, Renderer::pictureBytes},
                                                  {VKATTN_OUT, tensors_.mapped + outAt, Renderer::pictureBytes}};
        vkattn_verify_report report{};
        vkattn_diagnostic why{};
        if (!worked("verify", vkattnCpuVerify(&problem_, operands, 4, nullptr, &report, &why), why)) return false;
        std::printf("the same bits in slices as in one piece; %llu rows against the oracle: worst error %.2g, allowed %.2g there\n",
                    static_cast<unsigned long long>(report.rowsChecked), report.worstError, report.worstBound);
        return report.passed != 0;
    }

    bool writeFrame(const char *name) {
        const std::string path = (options_.out.empty() ? "" : options_.out + "/") + name;
        if (stbi_write_png(path.c_str(), Renderer::width, Renderer::height, 4, screen_.mapped, Renderer::width * 4)) return true;
        std::printf("host: cannot write %s: is the folder there, and writable?\n", path.c_str());
        return false;
    }

    gpu &own_;
    Options options_;
    Renderer renderer_;
    Buffer tensors_, screen_;
    vkattn::Context context_;
    vkattn_problem problem_ = bilateralFilter(), sliced_{};
    std::vector<unsigned char> unsliced_;
    double whole_ = 0;
    uint32_t slices_ = 1;
};

bool read(int count, char **arguments, Options &options) {
    for (int n = 1; n < count; ++n) {
        const std::string word = arguments[n];
        if (word == "--strict")
            options.strict = true;
        else if (word == "--budget" && n + 1 < count && std::atof(arguments[n + 1]) > 0)
            options.budget = std::atof(arguments[++n]);
        else if (word == "--out" && n + 1 < count)
            options.out = arguments[++n];
        else {
            std::fprintf(stderr, "usage: host [--budget MS] [--out FOLDER] [--strict]; '%s' is none of these, or has no value above 0\n",
                         word.c_str());
            return false;
        }
    }
    return true;
}

} // namespace

int main(int count, char **arguments) {
    Options options;
    if (!read(count, arguments, options)) return 2;
    gpu_instance instance;
    gpu own;
    int result = gpuOpenInstance(&instance, vkGetInstanceProcAddr);
    if (!result) result = gpuOpenHelpful(own, instance);
    if (result) return result;
    std::printf("%s\n", own.name);
    {
        FrameLoop loop(own, options);
        if (!loop.run()) result = GPU_FAILED;
    }
    gpuClose(&own);
    return gpuCloseInstance(&instance) ? GPU_FAILED : result;
}
