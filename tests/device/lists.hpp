// What tests of lists of operations have in common.
#pragma once

#include "conform/cases/random.hpp"

#include <vkattn/list.hpp>

#include <gtest/gtest.h>

namespace vkattn::test {

// Returns a tensor of f32 on the device that holds numbers from -1 to 1.
inline DeviceTensor allocateDrawn(Runtime &runtime, const vkattn_layout &layout, conform::Random &random) {
    std::string why;
    DeviceTensor tensor = runtime.allocate(layout, &why);
    EXPECT_TRUE(tensor) << why;
    std::vector<float> values(uint64_t{layout.extent[0]} * layout.extent[1] * layout.extent[2] * layout.extent[3]);
    for (float &value : values) value = static_cast<float>(static_cast<int64_t>(random() % 2001) - 1000) * 0.001f;
    EXPECT_EQ(tensor.upload(values.data(), sizeof(float) * values.size(), &why), VKATTN_OK) << why;
    return tensor;
}

// Every step of the list is what the oracle says.
inline void expectVerified(OperationList &list, const vkattn_verify_options *options = nullptr) {
    std::vector<StepCheck> checks;
    std::string why;
    ASSERT_EQ(list.verify(checks, options, &why), VKATTN_OK) << why;
    ASSERT_EQ(checks.size(), list.size());
    for (size_t n = 0; n < checks.size(); ++n) {
        const vkattn_verify_report &report = checks[n].report;
        EXPECT_TRUE(report.passed) << "step " << n << ", " << checks[n].operation << ": role " << report.worstRole << " at ["
                                   << report.worstIndex[0] << ", " << report.worstIndex[1] << ", " << report.worstIndex[2] << ", "
                                   << report.worstIndex[3] << "]: " << report.worstGot << ", expected " << report.worstExpected
                                   << ", bound " << report.worstBound;
    }
}

} // namespace vkattn::test
