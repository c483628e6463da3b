#include "tool/arrays/job_arrays.hpp"

#include "program/failure.hpp"
#include "tool/options/names.hpp"

namespace vkattn::tool {
using namespace program;

std::vector<Input> openInputs(const ComputeArguments &arguments, bool hasHeads) {
    std::vector<Input> inputs;
    for (const OperandName &name : operandNames)
        if (!isOutput(name.role) && !arguments.files[name.role].empty())
            inputs.emplace_back(name.role, name.option, arguments.files[name.role], hasHeads);
    return inputs;
}

OutputArray outputArray(const ComputeArguments &arguments, const vkattn_operation &operation, vkattn_role role, vkattn_dtype dtype,
                        std::vector<uint64_t> shape) {
    const NpyType type = dtype == VKATTN_F16 ? npyFloat16 : npyFloat32;
    return {role, arguments.files[role], type, std::move(shape), dtype, vkattnOperationBytes(&operation, role)};
}

std::vector<NamedBytes> namedBytes(const JobArrays &arrays, const vkattn_operation &operation) {
    std::vector<NamedBytes> list;
    for (const Input &input : arrays.inputs) list.push_back({input.path(), vkattnOperationBytes(&operation, input.role())});
    for (const OutputArray &output : arrays.outputs) list.push_back({output.path, output.bytes});
    return list;
}

void failInvalid(const vkattn_diagnostic &why, const JobArrays &arrays, std::vector<std::string> given) {
    for (const Input &input : arrays.inputs) given.push_back(input.option() + " " + input.text());
    std::string list;
    for (const std::string &each : given) list += (list.empty() ? " (given " : ", ") + each;
    throw Failure(why.message + list + ")");
}

} // namespace vkattn::tool
