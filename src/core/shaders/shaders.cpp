#include "core/shaders/shaders.hpp"

namespace vkattn {

const ShaderModule &shaderFor(Stage stage) {
    switch (stage) {
    case Stage::sequences:
        return shader_sequences;
    case Stage::sinks:
        return shader_sinks;
    case Stage::scores:
        return shader_scores;
    case Stage::pairs:
        return shader_pairs;
    case Stage::softmax:
        return shader_softmax;
    case Stage::values:
        return shader_values;
    case Stage::options:
        return shader_options;
    case Stage::combine:
        return shader_combine;
    case Stage::flashPlain:
        return shader_flash_plain;
    case Stage::flashPlainSubgroups:
        return shader_flash_plain_subgroups;
    case Stage::flash:
        return shader_flash;
    case Stage::flashSubgroups:
        return shader_flash_subgroups;
    case Stage::flashCoopmat:
        return shader_flash_coopmat_f16;
    case Stage::flashCoopmatBf16:
        return shader_flash_coopmat_bf16;
    case Stage::flashCoopmat2:
        return shader_flash_coopmat2_f16;
    case Stage::flashCoopmat2Bf16:
        break;
    }
    return shader_flash_coopmat2_bf16;
}

} // namespace vkattn
