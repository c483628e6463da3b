// Tensors and lists of the faulty runtime: what `vkattn layer` uses of them, computed by the oracle.
#include "faulty_runtime.hpp"

#include <vkattn/list.hpp>

#include <algorithm>
#include <cstring>

namespace vkattn {

// All memory is the host's.
class TensorMemory {
  public:
    std::vector<unsigned char> bytes;
    bool onCpu = false;
};

namespace {

uint64_t bytesOf(const vkattn_layout &layout) {
    uint64_t last = layout.offsetElems;
    for (int d = 0; d < 4; ++d) {
        if (layout.extent[d] == 0) return 0;
        last += (layout.extent[d] - uint64_t{1}) * static_cast<uint64_t>(layout.strideElems[d]);
    }
    return (last + 1) * (layout.dtype == VKATTN_BOOL8 ? 1 : layout.dtype == VKATTN_F16 || layout.dtype == VKATTN_BF16 ? 2 : 4);
}

vkattn_result lost(std::string *why) {
    *why = "faulty: " + fault();
    return VKATTN_ERROR_DEVICE_LOST;
}

} // namespace

DeviceTensor Runtime::allocate(const vkattn_layout &layout, std::string *why) {
    DeviceTensor tensor;
    if (fault() == "no-room-at-all" || (fault() == "no-room" && !impl_->onCpu)) {
        *why = "faulty: " + fault();
        return tensor;
    }
    tensor.memory_ = std::make_shared<TensorMemory>();
    tensor.memory_->bytes.resize(bytesOf(layout));
    tensor.memory_->onCpu = impl_->onCpu;
    tensor.layout_ = layout;
    return tensor;
}

DeviceTensor DeviceTensor::view(const vkattn_layout &layout, std::string *) const {
    DeviceTensor tensor = *this;
    tensor.layout_ = layout;
    return tensor;
}

vkattn_result DeviceTensor::upload(const void *data, uint64_t bytes, std::string *why) const {
    if (fault() == "upload" && !memory_->onCpu) return lost(why);
    if (bytes > 0) std::memcpy(memory_->bytes.data(), data, bytes);
    return VKATTN_OK;
}

vkattn_result DeviceTensor::download(void *data, uint64_t bytes, std::string *why) const {
    if (fault() == "download" && !memory_->onCpu) return lost(why);
    if (bytes > 0) std::memcpy(data, memory_->bytes.data(), bytes);
    return VKATTN_OK;
}

// One layer.
struct OperationList::Impl {
    bool onCpu = false;
    vkattn_layer_plan plan{};
    std::vector<ListOperand> operands;
    std::vector<unsigned char> between;

    [[nodiscard]] std::vector<vkattn_operand_memory> memoryOf(const vkattn_layer_step &step) {
        std::vector<vkattn_operand_memory> memory;
        for (uint32_t o = 0; o < step.operandCount; ++o) {
            std::vector<unsigned char> *bytes = &between;
            for (ListOperand &operand : operands)
                if (operand.role == step.operands[o].from) bytes = &operand.tensor.memory_->bytes;
            memory.push_back({step.operands[o].role, bytes->data(), bytes->size()});
        }
        return memory;
    }
};

OperationList::OperationList(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OperationList::OperationList(OperationList &&) noexcept = default;
OperationList &OperationList::operator=(OperationList &&) noexcept = default;
OperationList::~OperationList() = default;

OperationList Runtime::list() {
    auto impl = std::make_unique<OperationList::Impl>();
    impl->onCpu = impl_->onCpu;
    return OperationList(std::move(impl));
}

vkattn_result OperationList::add(const vkattn_layer &layer, span<const ListOperand> operands, std::string *why) {
    vkattn_diagnostic diagnostic{};
    impl_->plan.structSize = sizeof impl_->plan;
    const vkattn_result result = vkattnPlanLayer(&layer, &impl_->plan, &diagnostic);
    *why = diagnostic.message;
    impl_->operands.assign(operands.begin(), operands.end());
    impl_->between.resize(impl_->plan.betweenBytes);
    return result;
}

// Conform draws latent layers; no fault is in one.
vkattn_result OperationList::add(const LatentLayerOf &, std::string *why) {
    *why = "faulty: latent layers are not computed";
    return VKATTN_ERROR_UNSUPPORTED;
}
// Nor in the gradient of a layer.
vkattn_result OperationList::add(const vkattn_layer_gradient &, span<const ListOperand>, std::string *why) {
    *why = "faulty: gradients of layers are not computed";
    return VKATTN_ERROR_UNSUPPORTED;
}

// `vkattn lab` has lists of what follows; its tests of faults need none.
namespace {
vkattn_result notComputed(std::string *why) {
    *why = "faulty: lists of operations are not computed";
    return VKATTN_ERROR_UNSUPPORTED;
}
} // namespace
DeviceTensor Runtime::allocateKept(const LayerOf &, std::string *why) {
    (void)notComputed(why);
    return {};
}
vkattn_result OperationList::add(const ProjectionOf &, std::string *why) {
    return notComputed(why);
}
vkattn_result OperationList::add(const AttentionOf &, std::string *why) {
    return notComputed(why);
}
vkattn_result OperationList::add(const AttentionGradientOf &, std::string *why) {
    return notComputed(why);
}
vkattn_result OperationList::add(const LayerOf &, std::string *why) {
    return notComputed(why);
}
vkattn_result OperationList::add(const LayerGradientOf &, std::string *why) {
    return notComputed(why);
}

RunResult OperationList::run(const RunOptions &) {
    RunResult result;
    result.device = result.kernel = "cpu";
    if (!impl_->onCpu) {
        if ((result = startRun()).status != VKATTN_OK) return result;
        result.kernel = "list";
    }
    std::vector<StepCheck> checks;
    if (fault() == "verify" && !impl_->onCpu) return result; // the failure comes later
    result.status = verify(checks, nullptr, &result.message);
    return result;
}

vkattn_result OperationList::verify(std::vector<StepCheck> &checks, const vkattn_verify_options *options, std::string *why) {
    if (fault() == "verify" && !impl_->onCpu) return lost(why);
    for (uint32_t n = 0; n < impl_->plan.stepCount; ++n) {
        const vkattn_layer_step &step = impl_->plan.steps[n];
        const std::vector<vkattn_operand_memory> memory = impl_->memoryOf(step);
        const auto count = static_cast<uint32_t>(memory.size());
        vkattn_diagnostic diagnostic{};
        vkattn_result result = vkattnCpuOracleOperation(&step.operation, memory.data(), count, &diagnostic);
        const bool wrong = fault() == "wrong" && !impl_->onCpu && std::strcmp(step.name, "k") == 0;
        for (const vkattn_operand_memory &operand : memory)
            if (wrong && operand.role == VKATTN_Y) {
                float value = 0;
                unsigned char *at = static_cast<unsigned char *>(operand.data) + 4 * step.operation.of.projection->y.offsetElems + 20;
                std::memcpy(&value, at, sizeof value);
                value += 1;
                std::memcpy(at, &value, sizeof value);
            }
        StepCheck &check = checks.emplace_back();
        if (result == VKATTN_OK && options)
            result = vkattnCpuVerifyOperation(&step.operation, memory.data(), count, options, &check.report, &diagnostic);
        *why = diagnostic.message;
        if (result != VKATTN_OK) return result;
    }
    return VKATTN_OK;
}

} // namespace vkattn
