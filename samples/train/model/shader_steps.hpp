// What training needs and the library lacks: compute shaders of this program, as steps of a list.
// All tensors are dense.
#pragma once

#include <vkattn/list.hpp>

namespace train {

// rows[t] is 1 at tokens[t] and at symbols + t mod positions, and 0 elsewhere: tokens are words, rows
// are [tokens, symbols + positions].
[[nodiscard]] vkattn_result addOneHot(vkattn::OperationList &list, const vkattn::DeviceTensor &tokens, const vkattn::DeviceTensor &rows,
                                      uint32_t symbols, uint32_t positions, std::string *why);

// The softmax cross-entropy of logits [rows, symbols] with targets, which are words: results [rows, 2]
// are the loss and whether the largest logit is the target's, the first of equal ones. `gradient` is
// `weight` times that of the loss with respect to the logits. Rows whose target is no symbol have
// zeros.
[[nodiscard]] vkattn_result addCrossEntropy(vkattn::OperationList &list, const vkattn::DeviceTensor &logits,
                                            const vkattn::DeviceTensor &targets, const vkattn::DeviceTensor &gradient,
                                            const vkattn::DeviceTensor &results, float weight, std::string *why);

// A step of Adam (Kingma and Ba 2015) in place. `moments` are all first and then all second ones;
// `schedule` holds the learning rate, 1 / (1 - beta1^t) and 1 / (1 - beta2^t) of the step.
constexpr float adamBeta1 = 0.9f, adamBeta2 = 0.999f, adamEpsilon = 1e-8f;
[[nodiscard]] vkattn_result addAdam(vkattn::OperationList &list, const vkattn::DeviceTensor &gradients,
                                    const vkattn::DeviceTensor &schedule, const vkattn::DeviceTensor &weights,
                                    const vkattn::DeviceTensor &moments, std::string *why);

} // namespace train
