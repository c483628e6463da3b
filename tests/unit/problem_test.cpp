// Every rule of problem.h is enforced, with a message that says what was wrong.
#include "problem/problem.hpp"
#include "vkattn/vkattn.hpp"

#include <cmath>
#include <functional>
#include <gtest/gtest.h>

using namespace vkattn;

namespace {

vkattn_problem valid() {
    return problem(packed(VKATTN_F32, 2, 4, 5, 8), packed(VKATTN_F32, 2, 2, 7, 8), packed(VKATTN_F16, 2, 2, 7, 6),
                   packed(VKATTN_F32, 2, 4, 5, 6));
}

struct Rejection {
    const char *name;
    const char *message; // part of it
    std::function<void(vkattn_problem &)> spoil;
};

const Rejection rejections[] = {
    {"structSize", "structSize", [](auto &p) { p.structSize = 3; }},
    {"unknownFlag", "unknown bits", [](auto &p) { p.flags = 1u << 20; }},
    {"nanScale", "scale is nan", [](auto &p) { p.flags = VKATTN_SCALE, p.scale = NAN; }},
    {"scaleWithoutFlag", "VKATTN_SCALE", [](auto &p) { p.scale = 2; }},
    {"infiniteSoftcap", "softcap", [](auto &p) { p.softcap = INFINITY; }},
    {"denormalSoftcap", "2^-126", [](auto &p) { p.softcap = 1e-40f; }},
    {"negativeSoftcap", "softcap", [](auto &p) { p.softcap = -1; }},
    {"negativeWindow", "negative window", [](auto &p) { p.flags = VKATTN_WINDOW, p.windowLeft = -2; }},
    {"windowWithoutFlag", "VKATTN_WINDOW", [](auto &p) { p.windowRight = 2; }},
    {"noKeys", "k has no layout", [](auto &p) { p.k = {}; }},
    {"zeroHeads", "at least 1", [](auto &p) { p.q.extent[1] = 0; }},
    {"zeroDim", "at least 1", [](auto &p) { p.v.extent[3] = 0; }},
    {"maskDtype", "VKATTN_BOOL8", [](auto &p) { p.mask = packed(VKATTN_F32, 2, 4, 5, 7); }},
    {"qDtype", "q has dtype", [](auto &p) { p.q.dtype = VKATTN_BOOL8; }},
    {"unknownDtype", "dtype 77", [](auto &p) { p.q.dtype = static_cast<vkattn_dtype>(77); }},
    {"lseDtype", "VKATTN_F32", [](auto &p) { p.lse = packed(VKATTN_F16, 2, 4, 5, 1); }},
    {"headsDoNotDivide", "do not divide", [](auto &p) { p.k = packed(VKATTN_F32, 2, 3, 7, 8), p.v = packed(VKATTN_F16, 2, 3, 7, 6); }},
    {"headDimDiffers", "head dim must agree", [](auto &p) { p.k = packed(VKATTN_F32, 2, 2, 7, 9); }},
    {"batchDiffers", "batch and head dim", [](auto &p) { p.k = packed(VKATTN_F32, 3, 2, 7, 8); }},
    {"valueTokensDiffer", "v is [2, 2, 6, 6]", [](auto &p) { p.v = packed(VKATTN_F16, 2, 2, 6, 6); }},
    {"outDiffers", "out is", [](auto &p) { p.out = packed(VKATTN_F32, 2, 4, 5, 8); }},
    {"lseDiffers", "lse is", [](auto &p) { p.lse = packed(VKATTN_F32, 2, 4, 6, 1); }},
    {"weightsDiffer", "weights is", [](auto &p) { p.weights = packed(VKATTN_F32, 2, 4, 5, 8); }},
    {"biasDoesNotBroadcast", "or 1 where it broadcasts", [](auto &p) { p.bias = packed(VKATTN_F32, 2, 3, 5, 7); }},
    {"dimTooLarge", "at most 2048", [](auto &p) { p.q = packed(VKATTN_F32, 2, 4, 5, 2049), p.k = packed(VKATTN_F32, 2, 2, 7, 2049); }},
    {"tooManyTokens", "tokens", [](auto &p) { p.q.extent[2] = (1u << 30) + 1; }},
    {"strideOverflow", "overflows 64-bit addressing", [](auto &p) { p.q.strideElems[0] = INT64_MAX; }},
    {"strideMinimum", "overflows 64-bit addressing", [](auto &p) { p.q.strideElems[0] = INT64_MIN; }},
    {"offsetOverflow", "offsetElems", [](auto &p) { p.q.offsetElems = UINT64_MAX; }},
    {"negativeReach", "raise offsetElems", [](auto &p) { p.q.strideElems[2] = -8; }},
    {"outputOverlaps", "overlaps itself", [](auto &p) { p.out.strideElems[1] = 29; }},
    {"outputStrideZero", "overlaps itself", [](auto &p) { p.out.strideElems[0] = 0; }},
    {"tooManyPairs", "2^50",
     [](auto &p) {
         for (vkattn_layout *l : {&p.q, &p.k, &p.v}) {
             std::fill_n(l->strideElems, 4, 0);
             l->extent[2] = 1u << 30;
         }
         p.out = packed(VKATTN_F32, 2, 4, 1u << 30, 6);
     }},
};

} // namespace

TEST(Problem, acceptsWhatIsValid) {
    vkattn_diagnostic why{};
    vkattn_problem p = valid();
    EXPECT_EQ(vkattnValidateProblem(&p, &why), VKATTN_OK) << why.message;
    p.q.strideElems[2] = -8, p.q.offsetElems = 32; // tokens backwards
    p.k.strideElems[1] = 0;                        // both heads share keys
    p.mask = packed(VKATTN_BOOL8, 1, 1, 5, 7);
    p.bias = packed(VKATTN_F16, 2, 4, 1, 1);
    p.lse = packed(VKATTN_F32, 2, 4, 5, 1);
    EXPECT_EQ(vkattnValidateProblem(&p, &why), VKATTN_OK) << why.message;
    for (vkattn_layout *l : {&p.k, &p.v}) l->extent[2] = 0; // no keys
    p.mask.extent[3] = 0;
    EXPECT_EQ(vkattnValidateProblem(&p, &why), VKATTN_OK) << why.message;
    EXPECT_EQ(vkattnOperandBytes(&p, VKATTN_K), 0u);
}

TEST(Problem, rejectsWithAReason) {
    for (const Rejection &r : rejections) {
        vkattn_problem p = valid();
        r.spoil(p);
        vkattn_diagnostic why{};
        EXPECT_EQ(vkattnValidateProblem(&p, &why), VKATTN_ERROR_INVALID_ARGUMENT) << r.name;
        EXPECT_NE(std::string(why.message).find(r.message), std::string::npos) << r.name << ": " << why.message;
        EXPECT_EQ(vkattnValidateProblem(&p, nullptr), VKATTN_ERROR_INVALID_ARGUMENT) << r.name;
        EXPECT_EQ(vkattnOperandBytes(&p, VKATTN_Q), 0u) << r.name;
    }
    EXPECT_EQ(vkattnValidateProblem(nullptr, nullptr), VKATTN_ERROR_INVALID_ARGUMENT);
}

TEST(Problem, causalAndWindowAreOneRange) {
    vkattn_problem p = valid();
    Problem canonical;
    p.flags = VKATTN_CAUSAL | VKATTN_WINDOW;
    p.windowLeft = 3, p.windowRight = 5;
    ASSERT_EQ(makeProblem(&p, canonical, nullptr), VKATTN_OK);
    EXPECT_EQ(canonical.left, 3);
    EXPECT_EQ(canonical.right, 0);
    p.flags = VKATTN_WINDOW, p.windowLeft = -1, p.windowRight = 2147483647;
    ASSERT_EQ(makeProblem(&p, canonical, nullptr), VKATTN_OK);
    EXPECT_EQ(canonical.left, openWindow);
    EXPECT_EQ(canonical.right, openWindow);
}
