#include "vkattn/vkattn.hpp"

#include <gtest/gtest.h>

extern "C" uint32_t versionSeenFromC(void);
extern "C" int zeroedProblemIsRejectedFromC(void);
int facesAnswerNoHandleWithAnError(); // plain_cpp.cpp

TEST(Headers, workFromC) {
    EXPECT_EQ(versionSeenFromC(), vkattnVersion());
    EXPECT_TRUE(zeroedProblemIsRejectedFromC());
}

TEST(Headers, cppFaceDescribesBothLayouts) {
    const vkattn_layout a = vkattn::packed(VKATTN_F32, 2, 3, 5, 7), b = vkattn::packedTokenMajor(VKATTN_F32, 2, 3, 5, 7);
    EXPECT_EQ(a.strideElems[1], 35);
    EXPECT_EQ(b.strideElems[1], 7);
    EXPECT_EQ(b.strideElems[2], 21);
    const vkattn_problem p = vkattn::problem(a, b, a, a);
    EXPECT_EQ(vkattnValidateProblem(&p, nullptr), VKATTN_OK);
    EXPECT_EQ(vkattnOperandBytes(&p, VKATTN_Q), 2u * 3 * 5 * 7 * 4);
    EXPECT_EQ(vkattnOperandBytes(&p, VKATTN_LSE), 0u);
}

TEST(Headers, nullContextIsAnErrorAndNotACrash) {
    vkattn_context context = reinterpret_cast<vkattn_context>(1);
    vkattn_diagnostic why{};
    EXPECT_EQ(vkattnCreateContext(nullptr, &context, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(context, nullptr);
    vkattn_host host{};
    EXPECT_EQ(vkattnCreateContext(&host, &context, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(why.message).find("structSize"), std::string::npos);
    EXPECT_EQ(vkattnQuery(nullptr, nullptr, nullptr, nullptr), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(vkattnRecord(nullptr, nullptr, nullptr, nullptr), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(vkattnPrewarm(nullptr, nullptr, 1, nullptr), VKATTN_ERROR_INVALID_ARGUMENT);
    vkattnDestroyContext(nullptr);
}

TEST(Headers, cppFaceWorksWithoutExceptionsAndRtti) {
    EXPECT_EQ(facesAnswerNoHandleWithAnError(), 0);
}
