// What the model needs and the library lacks: compute shaders of this program, as steps of a list.
#pragma once

#include <vkattn/list.hpp>

namespace story {

// rows[t] = table[tokens[t]]: tokens are words, table is [vocabulary, dims] and rows [tokens, dims],
// both dense. An id past the table counts as its last row.
[[nodiscard]] vkattn_result addEmbedding(vkattn::OperationList &list, const vkattn::DeviceTensor &tokens, const vkattn::DeviceTensor &table,
                                         const vkattn::DeviceTensor &rows, std::string *why);

// gate = gate * sigmoid(gate) * up, both [tokens, dims] and dense (SwiGLU, Shazeer 2020).
[[nodiscard]] vkattn_result addSwiGlu(vkattn::OperationList &list, const vkattn::DeviceTensor &gate, const vkattn::DeviceTensor &up,
                                      std::string *why);

} // namespace story
