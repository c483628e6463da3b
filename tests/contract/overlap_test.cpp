// Outputs and the workspace share no byte with anything else that is bound: refused when recorded,
// with both roles and both ranges. Judged by the bytes that the elements take, so that tokens or
// heads of one fused tensor may take turns.
#include "support/seed.hpp"
#include "support/vulkan/fake_vulkan.hpp"
#include "vkattn/vkattn.hpp"

#include <gtest/gtest.h>
#include <map>
#include <set>
#include <string>

using namespace vkattn;
using namespace vkattn::test;

namespace {

const auto buffer = reinterpret_cast<VkBuffer>(uintptr_t{0x1000}), otherBuffer = reinterpret_cast<VkBuffer>(uintptr_t{0x2000});

struct Recording {
    FakeVulkan fake;
    Context context;
    FakeCommands commands;
    vkattn_diagnostic why{};

    Recording() { EXPECT_EQ(context.create(fake.host(), &why), VKATTN_OK) << why.message; }
    vkattn_result record(const vkattn_problem &problem, const std::vector<vkattn_binding> &bindings) {
        vkattn_record record{};
        record.structSize = sizeof record;
        record.allowCompile = 1;
        record.commandBuffer = commands.handle();
        record.bindings = bindings.data();
        record.bindingCount = static_cast<uint32_t>(bindings.size());
        commands.reset();
        why = {};
        return vkattnRecord(context.handle(), &problem, &record, &why);
    }
};

// Q, K, V and the output one after the other from byte 0 on, 512 bytes each, then 4096 bytes for
// the others.
std::vector<vkattn_binding> apart(uint64_t workspaceBytes) {
    return {{VKATTN_Q, buffer, 0, 512},
            {VKATTN_K, buffer, 512, 512},
            {VKATTN_V, buffer, 1024, 512},
            {VKATTN_OUT, buffer, 1536, 512},
            {VKATTN_LSE, buffer, 4096, 64},
            {VKATTN_KEY_LENGTHS, buffer, 8192, 4},
            {VKATTN_WORKSPACE, buffer, 16384, workspaceBytes}};
}

} // namespace

TEST(Overlap, ofOutputsAndWorkspaceIsRefused) {
    Recording on;
    const vkattn_layout t = packed(VKATTN_F32, 1, 2, 8, 8);
    vkattn_problem p = problem(t, t, t, t);
    p.kernel = VKATTN_KERNEL_STAGED;
    p.lse = packed(VKATTN_F32, 1, 2, 8, 1);
    p.presentRoles = VKATTN_PRESENT(VKATTN_KEY_LENGTHS);
    vkattn_requirements needs{};
    ASSERT_EQ(on.context.query(p, needs, &on.why), VKATTN_OK) << on.why.message;
    ASSERT_GT(needs.workspaceBytes, 0u);
    const std::vector<vkattn_binding> good = apart(needs.workspaceBytes);
    ASSERT_EQ(on.record(p, good), VKATTN_OK) << on.why.message;
    ASSERT_FALSE(on.commands.dispatches.empty());

    const auto move = [&](vkattn_role role, VkBuffer to, uint64_t offset) {
        std::vector<vkattn_binding> bindings = good;
        for (vkattn_binding &binding : bindings)
            if (binding.role == role) binding.buffer = to, binding.offset = offset;
        return bindings;
    };
    const struct {
        vkattn_role moved;
        uint64_t to;
        const char *roles[2], *ranges[2];
    } overlaps[] = {
        // Onto V
        {VKATTN_OUT, 1024, {"out takes", "v bytes"}, {"1024 to 1535", "1024 to 1535"}},
        // The overlap is with Q.
        {VKATTN_OUT, 0, {"out takes", "q bytes"}, {"0 to 511", "0 to 511"}},
        // Its last word.
        {VKATTN_OUT, 1532, {"out takes", "v bytes"}, {"1532 to 2043", "1024 to 1535"}},
        // Two outputs
        {VKATTN_LSE, 2044, {"out takes", "lse bytes"}, {"1536 to 2047", "2044 to 2107"}},
        //
        {VKATTN_WORKSPACE, 1280, {"out takes", "workspace bytes"}, {"1536 to 2047", "1280 to "}},
        //
        {VKATTN_WORKSPACE, 8192, {"workspace takes", "key lengths bytes"}, {"8192 to ", "8192 to 8195"}},
        //
        {VKATTN_KEY_LENGTHS, 1600, {"out takes", "key lengths bytes"}, {"1536 to 2047", "1600 to 1603"}},
    };
    for (const auto &overlap : overlaps) {
        ASSERT_EQ(on.record(p, move(overlap.moved, buffer, overlap.to)), VKATTN_ERROR_INVALID_ARGUMENT) << overlap.roles[0];
        const std::string message = on.why.message;
        for (const char *part : {overlap.roles[0], overlap.roles[1], overlap.ranges[0], overlap.ranges[1], "bind them elsewhere"})
            EXPECT_NE(message.find(part), std::string::npos) << part << ": " << message;
        EXPECT_TRUE(on.commands.dispatches.empty()) << "nothing is recorded";
        EXPECT_EQ(on.record(p, move(overlap.moved, otherBuffer, overlap.to)), VKATTN_OK) << "in another buffer: " << on.why.message;
    }
    // Inputs may share memory, whole or in part, and a binding may be longer than needed.
    EXPECT_EQ(on.record(p, move(VKATTN_V, buffer, 512)), VKATTN_OK) << on.why.message;
    EXPECT_EQ(on.record(p, move(VKATTN_Q, buffer, 256)), VKATTN_OK) << on.why.message;
    std::vector<vkattn_binding> whole = good;
    for (vkattn_binding &binding : whole) binding.size = VK_WHOLE_SIZE;
    EXPECT_EQ(on.record(p, whole), VKATTN_OK) << on.why.message;
    // A workspace that the problem does not need takes no bytes.
    p = problem(t, t, t, t);
    p.kernel = VKATTN_KERNEL_FLASH;
    ASSERT_EQ(on.context.query(p, needs, &on.why), VKATTN_OK) << on.why.message;
    ASSERT_EQ(needs.workspaceBytes, 0u);
    std::vector<vkattn_binding> unneeded(good.begin(), good.begin() + 4);
    unneeded.push_back({VKATTN_WORKSPACE, buffer, 0, 512});
    EXPECT_EQ(on.record(p, unneeded), VKATTN_OK) << on.why.message;
}

// All four operands lie in one tensor, by head and by token. Then the output begins one element
// inside the values.
TEST(Overlap, operandsOfOneTensorMayTakeTurns) {
    Recording on;
    constexpr uint32_t heads = 3, tokens = 5, dim = 8;
    // q0 k0 v0 o0 q1 ..., or q0 q1 q2 k0 ...
    for (const int64_t headStep : {int64_t{4 * dim}, int64_t{dim}}) {
        vkattn_layout t = packed(VKATTN_F16, 1, heads, tokens, dim);
        t.strideElems[1] = headStep, t.strideElems[2] = 4 * heads * dim;
        const uint64_t next = headStep == dim ? heads * dim : dim;
        vkattn_problem p = problem(t, t, t, t);
        vkattn_layout *const layouts[] = {&p.q, &p.k, &p.v, &p.out};
        for (uint32_t n = 0; n < 4; ++n) layouts[n]->offsetElems = n * next;
        std::vector<vkattn_binding> bindings = {{VKATTN_WORKSPACE, otherBuffer, 0, 1 << 20}};
        for (const vkattn_role role : {VKATTN_Q, VKATTN_K, VKATTN_V, VKATTN_OUT})
            bindings.push_back({role, buffer, 0, 2u * 4 * heads * tokens * dim});
        EXPECT_EQ(on.record(p, bindings), VKATTN_OK) << on.why.message;
        p.out.offsetElems -= 1;
        EXPECT_EQ(on.record(p, bindings), VKATTN_ERROR_INVALID_ARGUMENT);
        EXPECT_NE(std::string(on.why.message).find("and v bytes"), std::string::npos) << on.why.message;
    }
}

// Layouts with any strides, compared byte by byte: operands of a problem that is recorded share no
// byte, and operands of a refused one overlap at least from end to end.
TEST(Overlap, isJudgedByTheBytesThatAreNeeded) {
    Recording on;
    Random random = randomFor("overlap");
    std::map<vkattn_result, uint32_t> answers;
    uint32_t turns = 0;
    for (int n = 0; n < 4000; ++n) {
        const uint32_t heads = between(random, 1, 3), tokens = between(random, 1, 4), dim = between(random, 1, 4);
        const vkattn_dtype dtype = random() % 2 ? VKATTN_F32 : VKATTN_F16;
        const uint64_t element = dtype == VKATTN_F32 ? 4 : 2;
        vkattn_layout layouts[4];
        uint64_t offset[4];
        const uint32_t gap = between(random, 1, 5), row = dim * gap * between(random, 1, 4);
        for (int o = 0; o < 4; ++o) {
            vkattn_layout &t = layouts[o] = packed(dtype, 1, heads, tokens, dim);
            t.strideElems[3] = gap, t.strideElems[1] = row;
            t.strideElems[2] = static_cast<int64_t>(row) * heads + between(random, 0, 1) * between(random, 0, 9);
            if (random() % 4 == 0) { // backwards
                t.offsetElems = (tokens - 1) * static_cast<uint64_t>(t.strideElems[2]);
                t.strideElems[2] = -t.strideElems[2];
            }
            offset[o] = element * between(random, 0, random() % 2 ? 12 : 200);
        }
        const vkattn_problem p = problem(layouts[0], layouts[1], layouts[2], layouts[3]);
        std::set<uint64_t> bytes[4];
        std::vector<vkattn_binding> bindings = {{VKATTN_WORKSPACE, otherBuffer, 0, 1 << 20}};
        for (uint32_t o = 0; o < 4; ++o) {
            const vkattn_layout &t = layouts[o];
            for (uint32_t h = 0; h < heads; ++h)
                for (uint32_t i = 0; i < tokens; ++i)
                    for (uint32_t d = 0; d < dim; ++d)
                        for (uint64_t byte = 0; byte < element; ++byte)
                            bytes[o].insert(offset[o] + byte +
                                            element * (t.offsetElems + static_cast<uint64_t>(h * t.strideElems[1] + i * t.strideElems[2] +
                                                                                             d * t.strideElems[3])));
            bindings.push_back({static_cast<vkattn_role>(o), buffer, offset[o], 1 << 20});
        }
        bool shares = false, spans = false;
        for (int o = 0; o < 3; ++o) {
            for (const uint64_t byte : bytes[VKATTN_OUT]) shares = shares || bytes[o].count(byte);
            spans = spans || (*bytes[o].begin() <= *bytes[VKATTN_OUT].rbegin() && *bytes[VKATTN_OUT].begin() <= *bytes[o].rbegin());
        }
        const vkattn_result result = on.record(p, bindings);
        ++answers[result];
        if (result == VKATTN_OK) {
            ASSERT_FALSE(shares) << "case " << n;
            turns += spans;
        } else {
            ASSERT_EQ(result, VKATTN_ERROR_INVALID_ARGUMENT) << on.why.message;
            ASSERT_TRUE(spans) << "case " << n << ": " << on.why.message;
        }
    }
    std::printf("%u recorded, %u of them in turns; %u refused\n", answers[VKATTN_OK], turns, answers[VKATTN_ERROR_INVALID_ARGUMENT]);
    EXPECT_GT(turns, 50u);
    EXPECT_GT(answers[VKATTN_OK], 500u);
    EXPECT_GT(answers[VKATTN_ERROR_INVALID_ARGUMENT], 500u);
}
