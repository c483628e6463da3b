// vkattn/list.hpp: tensors that stay on the device, and lists of operations that are recorded once
// and replayed. C++17, target vkattn::runtime.
//
//     DeviceTensor x = runtime->allocate(vkattn::matrix(VKATTN_F32, 16, 512));
//     OperationList list = runtime->list();
//     list.add(ProjectionOf{x, w, y});     // the library places the barriers
//     list.run();                          // records, submits, waits
//
// A list is one submission. Lengths, starts and positions are device arrays: what they hold may
// change between replays, and nothing is recorded again. Where the Runtime computes on the CPU the
// same lists run there, and Runtime::fallbackReason says why.
//
// A tensor, a list and their Runtime serve one thread at a time. They may be destroyed in any
// order: tensors and lists keep what they need. Nothing here throws, except std::bad_alloc from the
// standard library.
#pragma once

#include "vkattn/runtime.hpp"

namespace vkattn {

class TensorMemory; // runtime/list/tensor_memory.hpp

// A tensor in the memory of a Runtime: a layout over memory that copies and views share. The memory
// is freed with the last of them.
class DeviceTensor {
  public:
    DeviceTensor() = default; // no tensor
    [[nodiscard]] explicit operator bool() const { return memory_ != nullptr; }
    // The layout's offset counts from the first byte of the memory.
    [[nodiscard]] const vkattn_layout &layout() const { return layout_; }

    // Returns the same memory seen with another layout; no tensor, with the reason in *why, where
    // the layout leaves the memory.
    [[nodiscard]] VKATTN_API DeviceTensor view(const vkattn_layout &layout, std::string *why = nullptr) const;
    // Returns elements [first, first + count) of one dimension, in the same memory; no tensor, with
    // the reason in *why, where the dimension has fewer.
    [[nodiscard]] VKATTN_API DeviceTensor part(uint32_t dimension, uint32_t first, uint32_t count, std::string *why = nullptr) const;

    // Copies between the tensor and a host array of its elements, densely packed in row-major order
    // of the extents; `bytes` is the size of all of them. Elements between those of a strided tensor
    // stay as they are. Waits for what is submitted.
    // Errors: INVALID_ARGUMENT (no tensor; another size), DEVICE_LOST, VULKAN, OUT_OF_HOST_MEMORY,
    // OUT_OF_DEVICE_MEMORY.
    [[nodiscard]] VKATTN_API vkattn_result upload(const void *data, uint64_t bytes, std::string *why = nullptr) const;
    [[nodiscard]] VKATTN_API vkattn_result download(void *data, uint64_t bytes, std::string *why = nullptr) const;

  private:
    friend class OperationList;
    friend class Runtime;
    std::shared_ptr<TensorMemory> memory_;
    vkattn_layout layout_{};
};

// Returns the layout of an array of `count` 32-bit words: lengths, starts, positions, slopes. Words
// of any type are VKATTN_BITS32 here.
[[nodiscard]] constexpr vkattn_layout words(uint32_t count) {
    return vector(VKATTN_BITS32, count);
}

// The memory of a role.
struct ListOperand {
    vkattn_role role;
    DeviceTensor tensor;
};

// Operations whose layouts are those of their tensors. Operands that are no tensor are absent.
struct ProjectionOf {
    DeviceTensor x, w, y, bias{}, residual{};
    uint32_t flags = 0;
    vkattn_projection_kernel kernel = VKATTN_PROJECTION_AUTO;
    DeviceTensor keyLengths{}; // u32 [batch]: the inner dims that count
};
struct NormOf {
    vkattn_norm_kind kind;
    DeviceTensor x, y, gamma{}, beta{}, residual{}, sum{};
    float epsilon = 1e-5f;
};
// Of x, what the norm was taken of: X + residual, or its `sum`. `residual` is added to dX.
struct NormGradientOf {
    vkattn_norm_kind kind;
    DeviceTensor x, dY, dX{}, gamma{}, dGamma{}, dBeta{};
    float epsilon = 1e-5f;
    DeviceTensor residual{};
};
struct RotaryOf {
    DeviceTensor x, cos, sin, y, positions{}, starts{};
    vkattn_rotary_pairs pairs = VKATTN_PAIRS_HALF;
    uint32_t start = 0, flags = 0;
};
struct AppendOf {
    DeviceTensor x, cache, starts{};
    uint32_t start = 0;
    DeviceTensor pageTable{}; // with it the cache is a pool of pages
    bool ring = false;
};
// With y the tensor x: the words move on in their place, with each replay.
struct AdvanceOf {
    DeviceTensor x, y;
    uint32_t by = 1, limit = 0xffffffffu;
};
// Over the groups (heads) of x.
struct MeanOf {
    DeviceTensor x, y;
};
// Of parts that lie in x and xLse one after the other, as batch entries do; y and lse may be their first part:
// x.part(0, 0, batch).
struct MergeOf {
    DeviceTensor x, xLse, y, lse{};
    uint32_t parts = 1;
};
// Rows of x times the Hadamard matrix, in blocks of so many dims; 0: the largest that there are. y may be x.
struct HadamardOf {
    DeviceTensor x, y;
    uint32_t block = 0;
};
// Bits of what dropout keeps of y's rows of `columns`.
struct KeepOf {
    DeviceTensor y;
    double probability = 0;
    uint64_t seed = 0;
    uint32_t offset = 0, columns = 0;
};
// Dropout of x; y may be x or the residual. The tensors are whole: rows and planes count from their
// first.
struct DropOf {
    DeviceTensor x, y, residual{};
    double probability = 0;
    uint64_t seed = 0;
    uint32_t offset = 0;
};
// `options`: everything of vkattn_problem but layouts and presentRoles. k1 to v3: further segments of keys and values.
// priorOut and priorLse: what the attention goes on from; they may be out and lse. pageTable: an array [batch * pages], with which k
// and v are pools of pages. queryOffsets and keyOffsets: an array [batch] each, in place of an alignment.
struct AttentionOf {
    DeviceTensor q, k, v, out, lse{}, weights{}, scores{}, bias{}, mask{}, bitMask{};
    DeviceTensor keyLengths{}, cuSeqQ{}, cuSeqK{}, docIdsQ{}, docIdsK{}, sinks{}, slopes{};
    vkattn_problem options{};
    DeviceTensor k1{}, v1{}, k2{}, v2{}, k3{}, v3{}, priorOut{}, priorLse{};
    DeviceTensor pageTable{}, queryOffsets{}, keyOffsets{};
};
// Keys that neighbouring sequences share: k and v are [groups, kvHeads, tokens, dim], and group g is that of the
// batch / groups sequences from g * batch / groups on.
struct CascadeLevel {
    DeviceTensor k, v, keyLengths{}; // keyLengths: u32 [groups]
};
// Attention of sequences that share prefixes (cascade inference: Ye et al. 2025, FlashInfer): over the keys of the levels, from the first
// on, then over `own`'s. Each level is read once for all sequences of a group. Each step goes on from the one before in own.out and
// own.lse, which is required. Queries see all keys of the levels; own.options says what they see of their own, by position (VKATTN_CAUSAL)
// alone. The queries of a group lie one after the other, each as far from the one before: own.q, out and lse have one query each, or are
// token-major, [batch, token, head, dim] in memory.
struct CascadeOf {
    AttentionOf own;
    span<const CascadeLevel> levels;
};

// Gradients of `forward` (vkattn/gradient.h), which is the attention that ran before, as that was
// given to a list: with VKATTN_ROW_STATISTICS in its options, and with lse. `forward.weights` is not
// bound: with VKATTN_WEIGHTS_DROPPED it says that dWeights is of weights after dropout.
struct AttentionGradientOf {
    AttentionOf forward;
    DeviceTensor dOut, dLse{}, dWeights{};                                             // read
    DeviceTensor dQ{}, dK{}, dV{}, dBias{}, dSinks{}, dSlopes{}, dScale{}, dSoftcap{}; // written
    DeviceTensor nonfinite{};
    vkattn_gradient_kernel kernel = VKATTN_GRADIENT_AUTO;
    float lossScale = 0; // 0: 1
};

// Statistics of `attention` (vkattn/statistics.h), as that was given to a list, or without what statistics
// do not use: v, out, lse, weights, scores, sinks and dropout.
struct AttentionStatisticsOf {
    AttentionOf attention;
    DeviceTensor statistics{}, received{}, topWeights{}, topKeys{}; // written; those that are wanted are given
    float densityThreshold = 0;
};

// A layer (vkattn/layer.h); wk and wv absent: wq is packed. `attention`: its operands beside q, k, v
// and out, and its options.
struct LayerOf {
    DeviceTensor x, wq, wk, wv, wo, y, context{}, bq{}, bk{}, bv{}, bo{}, gamma{}, beta{};
    DeviceTensor cos{}, sin{}, positions{}, starts{}; // of the rotary embedding; absent: none
    AttentionOf attention{};
    uint32_t heads = 1, kvHeads = 0;
    vkattn_norm_place place = VKATTN_NORM_NONE;
    vkattn_norm_kind norm = VKATTN_LAYER_NORM;
    float epsilon = 1e-5f;
    bool residual = false, averagedWeights = false; // attention.weights: [batch, 1, tokens, key tokens]
    vkattn_dtype stored = VKATTN_F32;               // between the steps
    vkattn_rotary_pairs pairs = VKATTN_PAIRS_HALF;
    uint32_t start = 0;
    double outputDropout = 0; // with the seed and the offset below; 0: none, and then they are 0
    uint64_t outputDropoutSeed = 0;
    uint32_t outputDropoutOffset = 0;
    // What the layer keeps for its backward pass, from Runtime::allocateKept(); absent: nothing.
    DeviceTensor kept{};
};

// Gradients of `forward` (vkattn/layer_gradient.h), the layer that ran before, as that was given to a
// list: with `kept`, and with tensors that still hold what they held. Those that are wanted are given.
struct LayerGradientOf {
    LayerOf forward;
    DeviceTensor dY; // read: the gradient with respect to forward.y
    DeviceTensor dX{}, dContext{}, dWq{}, dWk{}, dWv{}, dWo{}, dBq{}, dBk{}, dBv{}, dBo{}, dGamma{}, dBeta{};
    DeviceTensor dBias{}, dSinks{}, dSlopes{}, dScale{}, dSoftcap{}; // of attention
    vkattn_gradient_kernel kernel = VKATTN_GRADIENT_AUTO;
    vkattn_dtype stored = VKATTN_F32; // between the steps
};

// A latent layer (vkattn/latent_layer.h). `attention`: its operands beside q, k, v and out, and its
// options; with a cache its keyLengths say how many tokens are there after the append.
struct LatentLayerOf {
    DeviceTensor x, wuq, wdkv, wukv, wo, cos, sin, y, wdq{}, gammaQ{}, gamma{}, cache{}, positions{}, starts{};
    AttentionOf attention{};
    uint32_t heads = 1, nope = 0, rope = 0, value = 0, start = 0;
    vkattn_latent_form form = VKATTN_LATENT_AUTO;
    vkattn_rotary_pairs pairs = VKATTN_PAIRS_INTERLEAVED;
    float epsilon = 1e-6f;
    bool residual = false;
    vkattn_dtype stored = VKATTN_F32; // between the steps
};

// What a shader does with the memory of a tensor.
enum class ShaderAccess { read, write, readWrite };
struct ShaderTensor {
    DeviceTensor tensor;
    ShaderAccess access = ShaderAccess::read;
};
// The bytes of a tensor as a CPU function sees them: from the tensor's first element to the end of
// its last.
struct ShaderMemory {
    void *data;
    uint64_t bytes;
};

// A compute shader of the host's, as a step between the others. Storage buffer n of descriptor set 0
// is the memory of tensor n, from its first element to the end of its last; the shader knows the
// strides. A tensor begins at a multiple of 256 bytes of its memory, where descriptors may begin on
// every device: to a part elsewhere pass the whole, and the offset as a push constant. What a shader
// writes shares no byte with any other tensor of the step.
struct ShaderStep {
    std::string name;                 // in reports and reasons
    span<const uint32_t> spirv;       // with an entry point `main`
    span<const ShaderTensor> tensors; // at most 16; Vulkan 1.0 guarantees 4
    const void *pushConstants = nullptr;
    uint32_t pushBytes = 0; // a multiple of 4, at most 128
    uint32_t groups[3] = {1, 1, 1};
    // Computes the same from the memory of each tensor and the push constants. Required where the
    // Runtime computes on the CPU, and by verify(). It must not throw; what it allocates is its own.
    std::function<void(span<const ShaderMemory> memory, const void *pushConstants)> cpu{};
    // How far verify() lets an element be from what `cpu` computes: by absoluteTolerance +
    // relativeTolerance * |expected|. Elements of VKATTN_BITS32 and VKATTN_BOOL8 are equal.
    double absoluteTolerance = 0, relativeTolerance = 0;
};

// How a step of a list compares with the oracle. A ShaderStep is compared with its own CPU function:
// `operation` is its name, worstRole VKATTN_Y.
struct StepCheck {
    std::string operation; // as vkattnOperationName says
    vkattn_verify_report report{};
};

class OperationList {
  public:
    VKATTN_API OperationList(OperationList &&) noexcept;
    VKATTN_API OperationList &operator=(OperationList &&) noexcept;
    // Waits for what is submitted.
    VKATTN_API ~OperationList();

    // Appends an operation to the list, which keeps a copy of the description and its tensors. The
    // layouts of the description count from the first byte of each tensor's memory; the tensor's own
    // layout is not looked at. An output may be the memory of an input where vkattn/operations.h
    // allows it. A list that was recorded is recorded again at the next run.
    // Errors: INVALID_ARGUMENT with the reason: the list stays as it was. UNSUPPORTED comes from
    // record().
    [[nodiscard]] VKATTN_API vkattn_result add(const vkattn_operation &operation, span<const ListOperand> operands,
                                               std::string *why = nullptr);
    [[nodiscard]] VKATTN_API vkattn_result add(const ProjectionOf &projection, std::string *why = nullptr);
    [[nodiscard]] VKATTN_API vkattn_result add(const NormOf &norm, std::string *why = nullptr);
    [[nodiscard]] VKATTN_API vkattn_result add(const NormGradientOf &gradient, std::string *why = nullptr);
    [[nodiscard]] VKATTN_API vkattn_result add(const RotaryOf &rotary, std::string *why = nullptr);
    [[nodiscard]] VKATTN_API vkattn_result add(const AppendOf &append, std::string *why = nullptr);
    [[nodiscard]] VKATTN_API vkattn_result add(const AdvanceOf &advance, std::string *why = nullptr);
    [[nodiscard]] VKATTN_API vkattn_result add(const MeanOf &mean, std::string *why = nullptr);
    [[nodiscard]] VKATTN_API vkattn_result add(const HadamardOf &hadamard, std::string *why = nullptr);
    [[nodiscard]] VKATTN_API vkattn_result add(const MergeOf &merge, std::string *why = nullptr);
    [[nodiscard]] VKATTN_API vkattn_result add(const KeepOf &keep, std::string *why = nullptr);
    [[nodiscard]] VKATTN_API vkattn_result add(const DropOf &drop, std::string *why = nullptr);
    [[nodiscard]] VKATTN_API vkattn_result add(const AttentionOf &attention, std::string *why = nullptr);
    // A step for each level, and one more. Of a cascade that is refused, the list keeps no step.
    [[nodiscard]] VKATTN_API vkattn_result add(const CascadeOf &cascade, std::string *why = nullptr);
    [[nodiscard]] VKATTN_API vkattn_result add(const AttentionGradientOf &gradient, std::string *why = nullptr);
    [[nodiscard]] VKATTN_API vkattn_result add(const AttentionStatisticsOf &statistics, std::string *why = nullptr);

    // Appends the operations of a layer (vkattn/layer.h, vkattn/latent_layer.h) or of its gradients
    // (vkattn/layer_gradient.h) as steps, with memory of the list for what lies between them. The operands are the layer's roles without
    // the workspace, as above.
    [[nodiscard]] VKATTN_API vkattn_result add(const vkattn_layer &layer, span<const ListOperand> operands, std::string *why = nullptr);

    [[nodiscard]] VKATTN_API vkattn_result add(const LayerOf &layer, std::string *why = nullptr);
    [[nodiscard]] VKATTN_API vkattn_result add(const vkattn_latent_layer &layer, span<const ListOperand> operands,
                                               std::string *why = nullptr);
    [[nodiscard]] VKATTN_API vkattn_result add(const LatentLayerOf &layer, std::string *why = nullptr);
    [[nodiscard]] VKATTN_API vkattn_result add(const vkattn_layer_gradient &gradient, span<const ListOperand> operands,
                                               std::string *why = nullptr);
    [[nodiscard]] VKATTN_API vkattn_result add(const LayerGradientOf &gradient, std::string *why = nullptr);

    // Appends a compute shader of the host's. The list copies the SPIR-V, the push constants and the
    // CPU function. Nothing checks what a shader accesses: it is trusted with the memory that it is
    // given.
    // Errors: INVALID_ARGUMENT with the reason: the list stays as it was. UNSUPPORTED, where the
    // device has fewer storage buffers or workgroups, comes from record().
    [[nodiscard]] VKATTN_API vkattn_result add(const ShaderStep &step, std::string *why = nullptr);

    // Plans and compiles every step, reserves one workspace for all, and records the list. Slow. A
    // list that is recorded already returns at once.
    // Errors: those of vkattnRecordOperation, with the step in the reason.
    [[nodiscard]] VKATTN_API vkattn_result record(std::string *why = nullptr);

    // Replays a recorded list: submits it and returns without waiting, on the CPU after computing.
    // Submissions run in their order, each on what the one before has left. Nothing is recorded and
    // nothing allocated. What device arrays of the list hold must not be changed by the host before
    // wait().
    // Errors: INVALID_ARGUMENT (not recorded), DEVICE_LOST, VULKAN.
    [[nodiscard]] VKATTN_API vkattn_result submit(std::string *why = nullptr);
    // Waits for everything that was submitted.
    [[nodiscard]] VKATTN_API vkattn_result wait(std::string *why = nullptr);

    // Records the list where that is needed, replays it options.repeat times and waits for each.
    // There is no fallback: the tensors are where they are.
    [[nodiscard]] VKATTN_API RunResult run(const RunOptions &options = {});

    // Runs the list once, one step at a time, and compares what each step wrote with the oracle on
    // the inputs that the step really had. Returns VKATTN_OK whether or not the results are right:
    // look at the checks, one for each step. `options` as in vkattnCpuVerify; NULL for defaults.
    [[nodiscard]] VKATTN_API vkattn_result verify(std::vector<StepCheck> &checks, const vkattn_verify_options *options = nullptr,
                                                  std::string *why = nullptr);

    [[nodiscard]] VKATTN_API size_t size() const; // steps
    // Returns how many of the steps wait for steps before them.
    [[nodiscard]] VKATTN_API size_t barrierCount() const;

  private:
    friend class Runtime;
    struct Impl;
    explicit OperationList(std::unique_ptr<Impl> impl);
    [[nodiscard]] vkattn_result addSteps(const vkattn_layer_plan &plan, span<const ListOperand> operands, std::string *why);
    std::unique_ptr<Impl> impl_;
};

} // namespace vkattn
