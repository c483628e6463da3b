// What the calls that take a vkattn_operation answer to mistakes, as a table; which overlaps of
// outputs they allow; and that attention is the same through them as through the calls of its own.
#include "conform/cases/operation_case.hpp"
#include "operation_engine.hpp"
#include "support/case.hpp"
#include "support/vulkan/fake_vulkan.hpp"
#include "vkattn/vkattn.hpp"

#include <cstring>
#include <functional>
#include <gtest/gtest.h>

using namespace vkattn;
using namespace vkattn::test;

namespace {

using Engine = OperationEngine;

constexpr vkattn_result ok = VKATTN_OK, invalid = VKATTN_ERROR_INVALID_ARGUMENT;

struct Use {
    const char *name;
    vkattn_result result;
    std::vector<const char *> words; // empty: nothing is said
    std::function<vkattn_result(Engine &)> act;
};

// Every call that takes one operation refuses it.
vkattn_result askAll(Engine &e, const vkattn_operation *operation) {
    EXPECT_EQ(e.create(), VKATTN_OK);
    vkattn_requirements needs{};
    needs.structSize = sizeof needs;
    vkattn_explanation explanation{};
    explanation.structSize = sizeof explanation;
    vkattn_dispatch_list list{};
    list.structSize = sizeof list;
    vkattn_record record{};
    record.structSize = sizeof record;
    record.commandBuffer = e.commands.handle();
    vkattn_diagnostic each[5]{};
    EXPECT_EQ(vkattnQueryOperation(e.context.handle(), operation, &needs, &each[0]), invalid);
    EXPECT_EQ(vkattnExplainOperation(&e.weak, nullptr, operation, &explanation, &each[1]), invalid);
    EXPECT_EQ(vkattnListOperation(&e.weak, nullptr, operation, nullptr, 0, &list, &each[2]), invalid);
    EXPECT_EQ(vkattnRecordOperation(e.context.handle(), operation, &record, &each[3]), invalid);
    EXPECT_EQ(vkattnPrewarmOperations(e.context.handle(), operation, 1, &each[4]), invalid);
    for (int n = 1; n < (operation ? 5 : 4); ++n) EXPECT_STREQ(each[n].message, each[0].message);
    EXPECT_EQ(vkattnOperationBytes(operation, VKATTN_X), 0u);
    const vkattn_result result = vkattnValidateOperation(operation, &e.why);
    EXPECT_EQ(std::string(each[0].message).find(e.why.message), 0u) << each[0].message;
    return result;
}

vkattn_result askAllOf(Engine &e, vkattn_operation_kind kind) {
    vkattn_operation nothing{};
    nothing.kind = kind;
    return askAll(e, &nothing);
}

const std::vector<Use> uses = {
    // What names the operation.
    {"no operation", invalid, {"operation is NULL"}, [](Engine &e) { return askAll(e, nullptr); }},
    {"a kind that there is none of",
     invalid,
     {"operation.kind is 17, expected a vkattn_operation_kind"},
     [](Engine &e) { return askAllOf(e, static_cast<vkattn_operation_kind>(VKATTN_HADAMARD + 1)); }},
    {"the kind that only sizes the enumeration",
     invalid,
     {"operation.kind is 2147483647"},
     [](Engine &e) { return askAllOf(e, VKATTN_OPERATION_KIND_MAX); }},
    {"no projection", invalid, {"operation.of.projection is NULL"}, [](Engine &e) { return askAllOf(e, VKATTN_PROJECTION); }},
    {"no norm", invalid, {"operation.of.norm is NULL"}, [](Engine &e) { return askAllOf(e, VKATTN_NORM); }},
    {"no rotary", invalid, {"operation.of.rotary is NULL"}, [](Engine &e) { return askAllOf(e, VKATTN_ROTARY); }},
    {"no append", invalid, {"operation.of.append is NULL"}, [](Engine &e) { return askAllOf(e, VKATTN_APPEND); }},
    {"no mean", invalid, {"operation.of.mean is NULL"}, [](Engine &e) { return askAllOf(e, VKATTN_MEAN); }},
    {"no merge", invalid, {"operation.of.merge is NULL"}, [](Engine &e) { return askAllOf(e, VKATTN_MERGE); }},
    {"no keep", invalid, {"operation.of.keep is NULL"}, [](Engine &e) { return askAllOf(e, VKATTN_KEEP); }},
    {"no drop", invalid, {"operation.of.drop is NULL"}, [](Engine &e) { return askAllOf(e, VKATTN_DROP); }},
    {"no gradient", invalid, {"operation.of.attentionGradient is NULL"}, [](Engine &e) { return askAllOf(e, VKATTN_ATTENTION_GRADIENT); }},
    {"a gradient of nothing",
     invalid,
     {"gradient.forward is NULL"},
     [](Engine &e) {
         e.gradient.forward = nullptr;
         const vkattn_operation gradient = operation(e.gradient);
         return askAll(e, &gradient);
     }},
    {"no gradient of a norm", invalid, {"operation.of.norm gradient is NULL"}, [](Engine &e) { return askAllOf(e, VKATTN_NORM_GRADIENT); }},
    {"no statistics", invalid, {"operation.of.attentionStatistics is NULL"}, [](Engine &e) { return askAllOf(e, VKATTN_ATTENTION_STATISTICS); }},
    {"no visible blocks", invalid, {"operation.of.visibleBlocks is NULL"}, [](Engine &e) { return askAllOf(e, VKATTN_VISIBLE_BLOCKS); }},
    {"no linear attention", invalid, {"operation.of.linearAttention is NULL"}, [](Engine &e) { return askAllOf(e, VKATTN_LINEAR_ATTENTION); }},
    {"no gradient of linear attention",
     invalid,
     {"operation.of.linearGradient is NULL"},
     [](Engine &e) { return askAllOf(e, VKATTN_LINEAR_ATTENTION_GRADIENT); }},
    {"a gradient of linear attention that no lane holds",
     VKATTN_ERROR_UNSUPPORTED,
     {"the gradient of linear attention has a delta rule with more than 256 key dims, which one lane would have to hold; compute it on the CPU"},
     [](Engine &e) {
         const vkattn_layout rows = matrix(VKATTN_F32, 8, 257);
         vkattn_linear_attention linear = linearAttention(rows, rows, rows, rows);
         linear.rule = VKATTN_LINEAR_DELTA, linear.writeStrength = matrix(VKATTN_F32, 8, 1);
         vkattn_linear_gradient gradient = linearGradient(linear, rows);
         gradient.dQ = rows;
         e.choose(operation(gradient));
         vkattn_requirements needs{};
         EXPECT_EQ(e.create(), VKATTN_OK);
         EXPECT_EQ(e.context.query(e.operation, needs), VKATTN_ERROR_UNSUPPORTED);
         EXPECT_EQ(e.context.record(e.operation, e.commands.handle(), e.bindings), VKATTN_ERROR_UNSUPPORTED);
         return e.context.prewarm({&e.operation, 1}, &e.why);
     }},
    {"statistics of nothing",
     invalid,
     {"statistics.attention is NULL"},
     [](Engine &e) {
         e.statistics.attention = nullptr;
         const vkattn_operation statistics = operation(e.statistics);
         return askAll(e, &statistics);
     }},
    {"no advance", invalid, {"operation.of.advance is NULL"}, [](Engine &e) { return askAllOf(e, VKATTN_ADVANCE); }},
    {"a description that was not filled in",
     invalid,
     {"norm: structSize is 0, expected sizeof(vkattn_norm)"},
     [](Engine &e) {
         e.norm = {};
         const vkattn_operation empty = operation(e.norm);
         return askAll(e, &empty);
     }},
    {"prewarming nothing that has a count",
     invalid,
     {"operations, with an operationCount above 0, is NULL"},
     [](Engine &e) { return vkattnPrewarmOperations(e.created(), nullptr, 2, &e.why); }},
    {"prewarming nothing", ok, {}, [](Engine &e) { return vkattnPrewarmOperations(e.created(), nullptr, 0, &e.why); }},
    {"no context",
     invalid,
     {"context is NULL"},
     [](Engine &e) {
         const vkattn_operation norm = operation(e.norm);
         vkattn_requirements needs{};
         needs.structSize = sizeof needs;
         EXPECT_EQ(vkattnQueryOperation(nullptr, &norm, &needs, &e.why), invalid);
         EXPECT_EQ(vkattnPrewarmOperations(nullptr, &norm, 1, &e.why), invalid);
         vkattn_record record{};
         record.structSize = sizeof record;
         return vkattnRecordOperation(nullptr, &norm, &record, &e.why);
     }},
    {"no record",
     invalid,
     {"record is NULL"},
     [](Engine &e) {
         const vkattn_operation norm = operation(e.norm);
         return vkattnRecordOperation(e.created(), &norm, nullptr, &e.why);
     }},
    {"a slice of what has one",
     invalid,
     {"record.sliceIndex is 1, expected less than the operation's sliceCount, 1"},
     [](Engine &e) {
         e.choose(operation(e.norm));
         EXPECT_EQ(e.create(), VKATTN_OK);
         vkattn_record record{};
         record.structSize = sizeof record;
         record.commandBuffer = e.commands.handle();
         record.sliceIndex = 1;
         return vkattnRecordOperation(e.context.handle(), &e.operation, &record, &e.why);
     }},
    // Bindings.
    {"everything bound", ok, {}, [](Engine &e) { return e.choose(operation(e.projection)), e.record(); }},
    {"residual missing",
     invalid,
     {"residual is not bound; it needs 512 bytes"},
     [](Engine &e) {
         return e.choose(operation(e.projection)), std::erase_if(e.bindings, [](auto &b) { return b.role == VKATTN_RESIDUAL; }), e.record();
     }},
    {"array missing",
     invalid,
     {"starts is not bound; it needs 4 bytes"},
     [](Engine &e) { return e.choose(operation(e.append)), e.bindings.pop_back(), e.record(); }},
    {"gamma twice",
     invalid,
     {"gamma is bound twice"},
     [](Engine &e) { return e.choose(operation(e.norm)), e.bindings.push_back(e.of(VKATTN_GAMMA)), e.record(); }},
    {"role of another operation",
     invalid,
     {"has role w (18), which the operation does not use"},
     [](Engine &e) {
         return e.choose(operation(e.norm)), e.bindings.push_back({VKATTN_W, operandBuffer, 0, 512}), e.record();
     }},
    {"role of attention",
     invalid,
     {"has role q (0), which the operation does not use"},
     [](Engine &e) {
         return e.choose(operation(e.norm)), e.bindings.push_back({VKATTN_Q, operandBuffer, 0, 512}), e.record();
     }},
    {"array that is not present",
     invalid,
     {"has role positions (39), which the operation does not use"},
     [](Engine &e) {
         return e.choose(operation(e.rotary)), e.bindings.push_back({VKATTN_POSITIONS, operandBuffer, 0, 512}), e.record();
     }},
    {"option that is absent",
     invalid,
     {"has role beta (21), which the operation does not use"},
     [](Engine &e) {
         e.choose(operation(e.norm));
         e.norm.beta = {};
         return e.record();
     }},
    {"X too small",
     invalid,
     {"x is bound with 511 bytes, expected at least 512"},
     [](Engine &e) { return e.choose(operation(e.rotary)), e.of(VKATTN_X).size = 511, e.record(); }},
    {"X of f32 not aligned",
     invalid,
     {"x is bound at offset 65538, expected a multiple of 4"},
     [](Engine &e) { return e.choose(operation(e.append)), e.of(VKATTN_X).offset += 2, e.record(); }},
    {"X of f16 at half a word",
     ok,
     {},
     [](Engine &e) {
         e.append.x.dtype = VKATTN_F16;
         return e.choose(operation(e.append)), e.of(VKATTN_X).offset += 2, e.record();
     }},
    {"W bound to nothing",
     invalid,
     {"w is bound to VK_NULL_HANDLE"},
     [](Engine &e) { return e.choose(operation(e.projection)), e.of(VKATTN_W).buffer = VK_NULL_HANDLE, e.record(); }},
    {"no rows: nothing has to be bound",
     ok,
     {},
     [](Engine &e) {
         e.append.x.extent[2] = 0;
         e.append.presentRoles = 0;
         e.choose(operation(e.append));
         std::erase_if(e.bindings, [](auto &b) { return b.role == VKATTN_X; });
         return e.record();
     }},
    {"words missing",
     invalid,
     {"x is not bound; it needs 512 bytes"},
     [](Engine &e) {
         return e.choose(operation(e.advance)), std::erase_if(e.bindings, [](auto &b) { return b.role == VKATTN_X; }), e.record();
     }},
    {"words as an array of starts",
     invalid,
     {"has role starts (40), which the operation does not use"},
     [](Engine &e) {
         return e.choose(operation(e.advance)), e.bindings.push_back({VKATTN_STARTS, operandBuffer, 0, 512}), e.record();
     }},
    {"words at half a word",
     invalid,
     {"x is bound at offset 65538, expected a multiple of 4"},
     [](Engine &e) { return e.choose(operation(e.advance)), e.of(VKATTN_X).offset += 2, e.record(); }},
    {"a mean", ok, {}, [](Engine &e) { return e.choose(operation(e.mean)), e.record(); }},
    {"a mean of no dims: nothing has to be bound",
     ok,
     {},
     [](Engine &e) {
         e.mean = vkattn::mean(packed(VKATTN_F32, 1, 4, 4, 0), matrix(VKATTN_F32, 4, 0));
         return e.choose(operation(e.mean)), e.bindings.clear(), e.record();
     }},
    {"the gradients of a norm", ok, {}, [](Engine &e) { return e.choose(operation(e.normGradient)), e.record(); }},
    {"the gradients of a norm: dX onto dY",
     invalid,
     {"dX", "dY"},
     [](Engine &e) { return e.choose(operation(e.normGradient)), e.recordOnto(VKATTN_D_X, VKATTN_D_Y); }},
    {"mean: Y onto X",
     invalid,
     {"y takes bytes", "x bytes"},
     [](Engine &e) { return e.choose(operation(e.mean)), e.recordOnto(VKATTN_Y, VKATTN_X); }},
    {"no hadamard", invalid, {"operation.of.hadamard is NULL"}, [](Engine &e) { return askAllOf(e, VKATTN_HADAMARD); }},
    {"hadamard: Y onto X", ok, {}, [](Engine &e) { return e.choose(operation(e.hadamard)), e.recordOnto(VKATTN_Y, VKATTN_X); }},
    {"hadamard: Y onto the second row of X",
     invalid,
     {"y takes bytes", "x bytes"},
     [](Engine &e) { return e.choose(operation(e.hadamard)), e.recordOnto(VKATTN_Y, VKATTN_X, 64); }},
    {"a merge", ok, {}, [](Engine &e) { return e.choose(operation(e.merge)), e.record(); }},
    {"merge: no log-sum-exps of the parts",
     invalid,
     {"lse of x is not bound; it needs 32 bytes"},
     [](Engine &e) {
         return e.choose(operation(e.merge)), std::erase_if(e.bindings, [](auto &b) { return b.role == VKATTN_X_LSE; }), e.record();
     }},
    {"merge: onto the first part, both",
     ok,
     {},
     [](Engine &e) {
         e.choose(operation(e.merge));
         e.of(VKATTN_LSE).offset = e.of(VKATTN_X_LSE).offset;
         return e.recordOnto(VKATTN_Y, VKATTN_X);
     }},
    {"merge: onto the second part",
     invalid,
     {"y takes bytes 65792 to 66047", "x bytes 65536 to 66047"},
     [](Engine &e) { return e.choose(operation(e.merge)), e.recordOnto(VKATTN_Y, VKATTN_X, 256); }},
    {"merge: onto the first part with other strides",
     invalid,
     {"y takes bytes", "x bytes"},
     [](Engine &e) {
         e.merge.x = packedTokenMajor(VKATTN_F32, 2, 1, 4, 16);
         e.merge.x.strideElems[2] = 32, e.merge.x.strideElems[0] = 16;
         return e.choose(operation(e.merge)), e.recordOnto(VKATTN_Y, VKATTN_X);
     }},
    {"merge: the result onto the log-sum-exps of the parts",
     invalid,
     {"y takes bytes", "lse of x bytes"},
     [](Engine &e) { return e.choose(operation(e.merge)), e.recordOnto(VKATTN_Y, VKATTN_X_LSE); }},
    {"append into pages: no table",
     invalid,
     {"page table is not bound; it needs 12 bytes"},
     [](Engine &e) {
         e.append = appendToPages(e.append.x, packed(VKATTN_F32, 2, 1, 4, 16), 3);
         return e.choose(operation(e.append)), std::erase_if(e.bindings, [](auto &b) { return b.role == VKATTN_PAGE_TABLE; }), e.record();
     }},
    {"bits that dropout keeps", ok, {}, [](Engine &e) { return e.choose(operation(e.keep)), e.record(); }},
    {"bits that dropout keeps, of nothing",
     invalid,
     {"y is not bound; it needs 512 bytes"},
     [](Engine &e) { return e.choose(operation(e.keep)), e.bindings.clear(), e.record(); }},
    {"bits that dropout keeps have no X",
     invalid,
     {"has role x (16), which the operation does not use"},
     [](Engine &e) {
         return e.choose(operation(e.keep)), e.bindings.push_back({VKATTN_X, operandBuffer, 0, 512}), e.record();
     }},
    {"bits of no columns: nothing has to be bound",
     ok,
     {},
     [](Engine &e) {
         e.keep.columns = 0, e.keep.y = matrix(VKATTN_BITS32, 64, 0);
         return e.choose(operation(e.keep)), e.bindings.clear(), e.record();
     }},
    {"dropout", ok, {}, [](Engine &e) { return e.choose(operation(e.drop)), e.record(); }},
    {"dropout without its residual",
     invalid,
     {"residual is not bound; it needs 512 bytes"},
     [](Engine &e) {
         return e.choose(operation(e.drop)), std::erase_if(e.bindings, [](auto &b) { return b.role == VKATTN_RESIDUAL; }), e.record();
     }},
    {"dropout with a residual that it lacks",
     invalid,
     {"has role residual (19), which the operation does not use"},
     [](Engine &e) { return e.choose(operation(e.drop)), e.drop.residual = {}, e.record(); }},
    {"dropout of no columns: nothing has to be bound",
     ok,
     {},
     [](Engine &e) {
         e.drop = vkattn::drop(0.5, 1, 2, matrix(VKATTN_F32, 8, 0), matrix(VKATTN_F32, 8, 0));
         return e.choose(operation(e.drop)), e.bindings.clear(), e.record();
     }},
    {"drop: Y onto X", ok, {}, [](Engine &e) { return e.choose(operation(e.drop)), e.recordOnto(VKATTN_Y, VKATTN_X); }},
    {"drop: Y onto the residual", ok, {}, [](Engine &e) { return e.choose(operation(e.drop)), e.recordOnto(VKATTN_Y, VKATTN_RESIDUAL); }},
    {"drop: Y a row behind X",
     invalid,
     {"y takes bytes 65600 to 66111", "x bytes 65536 to 66047"},
     [](Engine &e) { return e.choose(operation(e.drop)), e.recordOnto(VKATTN_Y, VKATTN_X, 64); }},
    {"words that advance", ok, {}, [](Engine &e) { return e.choose(operation(e.advance)), e.record(); }},
    {"no words: nothing has to be bound",
     ok,
     {},
     [](Engine &e) {
         e.advance.x = e.advance.y = vector(VKATTN_BITS32, 0);
         return e.choose(operation(e.advance)), e.bindings.clear(), e.record();
     }},
    // Gradients of attention.
    {"a gradient", ok, {}, [](Engine &e) { return e.choose(operation(e.gradient)), e.bindWorkspace(), e.record(); }},
    {"gradient: no workspace", invalid, {"workspace is not bound"}, [](Engine &e) { return e.choose(operation(e.gradient)), e.record(); }},
    {"gradient: no statistics",
     invalid,
     {"lse is not bound; it needs 64 bytes"},
     [](Engine &e) {
         e.choose(operation(e.gradient)), e.bindWorkspace();
         return std::erase_if(e.bindings, [](auto &b) { return b.role == VKATTN_LSE; }), e.record();
     }},
    {"gradient: weights of the forward pass",
     invalid,
     {"has role weights (5), which the gradient does not use"},
     [](Engine &e) {
         e.choose(operation(e.gradient)), e.bindWorkspace();
         return e.bindings.push_back({VKATTN_WEIGHTS, operandBuffer, 0, 512}), e.record();
     }},
    {"gradient: dK onto K",
     invalid,
     {"dK takes bytes", "k bytes"},
     [](Engine &e) { return e.choose(operation(e.gradient)), e.bindWorkspace(), e.recordOnto(VKATTN_D_K, VKATTN_K); }},
    {"gradient: dOut is out",
     ok,
     {},
     [](Engine &e) { return e.choose(operation(e.gradient)), e.bindWorkspace(), e.recordOnto(VKATTN_D_OUT, VKATTN_OUT); }},
    {"gradient: a kernel that this device has not",
     VKATTN_ERROR_UNSUPPORTED,
     {"VKATTN_GRADIENT_STAGED"},
     [](Engine &e) {
         e.gradient.kernel = VKATTN_GRADIENT_COOPMAT;
         return e.choose(operation(e.gradient)), e.record();
     }},
    // Statistics of attention.
    {"statistics", ok, {}, [](Engine &e) { return e.choose(operation(e.statistics)), e.bindWorkspace(false), e.record(); }},
    {"statistics: no workspace",
     invalid,
     {"workspace is not bound"},
     [](Engine &e) { return e.choose(operation(e.statistics)), e.record(); }},
    {"statistics: no keys of the largest weights",
     invalid,
     {"topKeys is not bound; it needs 96 bytes"},
     [](Engine &e) {
         e.choose(operation(e.statistics)), e.bindWorkspace(false);
         return std::erase_if(e.bindings, [](auto &b) { return b.role == VKATTN_TOP_KEYS; }), e.record();
     }},
    {"statistics: values of the forward pass",
     invalid,
     {"has role v (2), which the statistics operation does not use"},
     [](Engine &e) {
         e.choose(operation(e.statistics)), e.bindWorkspace(false);
         return e.bindings.push_back({VKATTN_V, operandBuffer, 0, 512}), e.record();
     }},
    {"statistics: the sinks of the forward pass count for nothing",
     ok,
     {},
     [](Engine &e) {
         e.attention.presentRoles = VKATTN_PRESENT(VKATTN_SINKS);
         e.attention.v = e.attention.out = {};
         return e.choose(operation(e.statistics)), e.bindWorkspace(false), e.record();
     }},
    {"statistics onto q",
     invalid,
     {"statistics takes bytes", "q bytes"},
     [](Engine &e) { return e.choose(operation(e.statistics)), e.bindWorkspace(false), e.recordOnto(VKATTN_STATISTICS, VKATTN_Q); }},
    {"statistics: what keys receive onto the largest weights",
     invalid,
     {"received takes bytes", "topWeights bytes"},
     [](Engine &e) {
         return e.choose(operation(e.statistics)), e.bindWorkspace(false), e.recordOnto(VKATTN_RECEIVED, VKATTN_TOP_WEIGHTS);
     }},
    {"statistics on a device of four storage buffers",
     VKATTN_ERROR_UNSUPPORTED,
     {"need 14 storage buffers a stage; the device has 4"},
     [](Engine &e) { return e.limit = &e.weak, e.choose(operation(e.statistics)), e.record(); }},
    // Outputs onto inputs. With the same bytes and layout where the header allows it.
    {"norm: Y onto X", ok, {}, [](Engine &e) { return e.choose(operation(e.norm)), e.recordOnto(VKATTN_Y, VKATTN_X); }},
    {"norm: Y onto the residual", ok, {}, [](Engine &e) { return e.choose(operation(e.norm)), e.recordOnto(VKATTN_Y, VKATTN_RESIDUAL); }},
    {"projection: Y onto the residual",
     ok,
     {},
     [](Engine &e) { return e.choose(operation(e.projection)), e.recordOnto(VKATTN_Y, VKATTN_RESIDUAL); }},
    {"rotary: Y onto X", ok, {}, [](Engine &e) { return e.choose(operation(e.rotary)), e.recordOnto(VKATTN_Y, VKATTN_X); }},
    {"advance: Y onto X", ok, {}, [](Engine &e) { return e.choose(operation(e.advance)), e.recordOnto(VKATTN_Y, VKATTN_X); }},
    {"rotary: Y onto X, of another offset in the description and the same bytes",
     ok,
     {},
     [](Engine &e) {
         e.rotary.x.offsetElems = 4;
         e.choose(operation(e.rotary));
         e.of(VKATTN_X).offset = e.of(VKATTN_Y).offset - 16;
         return e.record();
     }},
    {"projection: Y onto X",
     invalid,
     {"y takes bytes 65536 to 66047", "x bytes 65536 to 66047", "bind them elsewhere"},
     [](Engine &e) { return e.choose(operation(e.projection)), e.recordOnto(VKATTN_Y, VKATTN_X); }},
    {"projection: Y onto W",
     invalid,
     {"y takes bytes", "w bytes"},
     [](Engine &e) { return e.choose(operation(e.projection)), e.recordOnto(VKATTN_Y, VKATTN_W); }},
    {"projection: Y onto the bias",
     invalid,
     {"y takes bytes", "bias bytes"},
     [](Engine &e) { return e.choose(operation(e.projection)), e.recordOnto(VKATTN_Y, VKATTN_BIAS); }},
    {"norm: Y onto gamma",
     invalid,
     {"y takes bytes", "gamma bytes"},
     [](Engine &e) {
         e.norm.x = e.norm.y = vector(VKATTN_F32, 16);
         e.norm.residual = e.norm.sum = {};
         return e.choose(operation(e.norm)), e.recordOnto(VKATTN_Y, VKATTN_GAMMA);
     }},
    {"norm: Y onto the sum",
     invalid,
     {"sum bytes", "y takes bytes"},
     [](Engine &e) { return e.choose(operation(e.norm)), e.recordOnto(VKATTN_SUM, VKATTN_Y); }},
    {"append: Y onto X",
     invalid,
     {"y takes bytes", "x bytes"},
     [](Engine &e) { return e.choose(operation(e.append)), e.recordOnto(VKATTN_Y, VKATTN_X); }},
    {"append: Y onto the starts",
     invalid,
     {"y takes bytes", "starts bytes"},
     [](Engine &e) { return e.choose(operation(e.append)), e.recordOnto(VKATTN_STARTS, VKATTN_Y); }},
    {"rotary that appends: Y onto X",
     invalid,
     {"y takes bytes", "x bytes"},
     [](Engine &e) {
         e.rotary.flags = VKATTN_ROTARY_APPEND;
         return e.choose(operation(e.rotary)), e.recordOnto(VKATTN_Y, VKATTN_X);
     }},
    {"rotary: Y onto the cosines",
     invalid,
     {"y takes bytes", "cos bytes"},
     [](Engine &e) { return e.choose(operation(e.rotary)), e.recordOnto(VKATTN_Y, VKATTN_COS); }},
    {"advance: Y a word behind X",
     invalid,
     {"y takes bytes 65540 to 66051", "x bytes 65536 to 66047"},
     [](Engine &e) { return e.choose(operation(e.advance)), e.recordOnto(VKATTN_Y, VKATTN_X, 4); }},
    {"advance: Y onto X backwards",
     invalid,
     {"y takes bytes 65536 to 66047", "x bytes 65536 to 66047"},
     [](Engine &e) {
         e.advance.x.strideElems[3] = -1, e.advance.x.offsetElems = 127;
         return e.choose(operation(e.advance)), e.recordOnto(VKATTN_Y, VKATTN_X);
     }},
    {"advance: Y onto X that is one word for all",
     invalid,
     {"y takes bytes 65536 to 66047", "x bytes 65536 to 65539"},
     [](Engine &e) {
         e.advance.x.strideElems[3] = 0;
         return e.choose(operation(e.advance)), e.recordOnto(VKATTN_Y, VKATTN_X);
     }},
    {"norm: Y a row behind X",
     invalid,
     {"y takes bytes 65600 to 66111", "x bytes 65536 to 66047"},
     [](Engine &e) { return e.choose(operation(e.norm)), e.recordOnto(VKATTN_Y, VKATTN_X, 64); }},
    {"norm: Y onto X of other strides",
     invalid,
     {"y takes bytes 65536 to 66047", "x bytes 65536 to 66047"},
     [](Engine &e) {
         std::swap(e.norm.x.strideElems[2], e.norm.x.strideElems[3]);
         e.norm.x.strideElems[2] = 1, e.norm.x.strideElems[3] = 8;
         return e.choose(operation(e.norm)), e.recordOnto(VKATTN_Y, VKATTN_X);
     }},
    {"norm: Y onto X of another type",
     invalid,
     {"y takes bytes 65536 to 66047", "x bytes 65536 to 65791"},
     [](Engine &e) {
         e.norm.x.dtype = VKATTN_F16;
         return e.choose(operation(e.norm)), e.recordOnto(VKATTN_Y, VKATTN_X);
     }},
    {"projection: Y onto a residual that is the same for all rows",
     invalid,
     {"y takes bytes", "residual bytes"},
     [](Engine &e) {
         e.projection.residual.strideElems[2] = 0;
         return e.choose(operation(e.projection)), e.recordOnto(VKATTN_Y, VKATTN_RESIDUAL);
     }},
    {"inputs in one place", ok, {}, [](Engine &e) { return e.choose(operation(e.norm)), e.recordOnto(VKATTN_X, VKATTN_RESIDUAL); }},
    {"Y onto X and the residual, which are in one place",
     ok,
     {},
     [](Engine &e) {
         e.choose(operation(e.norm));
         e.of(VKATTN_RESIDUAL).offset = e.of(VKATTN_X).offset;
         return e.recordOnto(VKATTN_Y, VKATTN_X);
     }},
    // The workspace, where a device has four buffers.
    {"no workspace",
     invalid,
     {"workspace is not bound; it needs 512 bytes"},
     [](Engine &e) { return e.choose(operation(e.projection)), e.bindWorkspace(), e.bindings.pop_back(), e.record(); }},
    {"no workspace for gamma and beta",
     invalid,
     {"workspace is not bound; it needs 128 bytes"},
     [](Engine &e) { return e.choose(operation(e.norm)), e.bindWorkspace(), e.bindings.pop_back(), e.record(); }},
    {"no workspace for angles",
     invalid,
     {"workspace is not bound; it needs 512 bytes"},
     [](Engine &e) { return e.choose(operation(e.rotary)), e.bindWorkspace(), e.bindings.pop_back(), e.record(); }},
    {"workspace too small",
     invalid,
     {"workspace is bound with 511 bytes, expected at least 512"},
     [](Engine &e) {
         return e.choose(operation(e.rotary)), e.of(VKATTN_X), e.bindings.back().size = e.bindWorkspace(), e.of(VKATTN_WORKSPACE).size -= 1,
                                                               e.record();
     }},
    {"workspace not aligned",
     invalid,
     {"workspace is bound at offset 262148, expected a multiple of 256"},
     [](Engine &e) { return e.choose(operation(e.rotary)), e.bindWorkspace(), e.of(VKATTN_WORKSPACE).offset += 4, e.record(); }},
    {"workspace onto X",
     invalid,
     {"workspace takes bytes 65536", "x bytes 65536"},
     [](Engine &e) { return e.choose(operation(e.rotary)), e.bindWorkspace(), e.recordOnto(VKATTN_WORKSPACE, VKATTN_X); }},
    {"workspace as it should be", ok, {}, [](Engine &e) { return e.choose(operation(e.rotary)), e.bindWorkspace(), e.record(); }},
    {"workspace that is not needed",
     ok,
     {},
     [](Engine &e) {
         e.choose(operation(e.rotary));
         e.bindings.push_back({VKATTN_WORKSPACE, VK_NULL_HANDLE, 0, 0});
         return e.record();
     }},
};

} // namespace

TEST(WrongOperation, isAnsweredAsItShouldBe) {
    for (const Use &use : uses) {
        Engine engine;
        const vkattn_result result = use.act(engine);
        EXPECT_EQ(result, use.result) << use.name << ": " << engine.why.message;
        for (const char *words : use.words)
            EXPECT_NE(std::string(engine.why.message).find(words), std::string::npos)
                << use.name << ", expected \"" << words << "\": " << engine.why.message;
        if (use.words.empty()) {
            EXPECT_STREQ(engine.why.message, "") << use.name;
        }
        if (result < 0) {
            EXPECT_TRUE(engine.commands.dispatches.empty()) << use.name << ": nothing is recorded";
        }
        EXPECT_EQ(engine.commands.error, nullptr) << use.name << ": " << engine.commands.error;
    }
    std::printf("%zu uses\n", uses.size());
}

TEST(WrongOperation, inAnotherBufferIsNoOverlap) {
    Engine engine;
    engine.choose(operation(engine.projection));
    engine.of(VKATTN_Y).buffer = otherOperandBuffer;
    EXPECT_EQ(engine.recordOnto(VKATTN_Y, VKATTN_X), VKATTN_OK) << engine.why.message;
}

// Each reason for a routine of a projection is given where it holds.
TEST(ExplainOperation, saysWhyAProjectionIsComputedSo) {
    vkattn_caps caps = minimumCapsOfOperations();
    conform::OperationCase c = conform::plainProjection(64, 32, 32);
    const auto choice = [&] {
        vkattn_explanation explanation{};
        explanation.structSize = sizeof explanation;
        const vkattn_operation operation = c.operation();
        vkattn_diagnostic why{};
        EXPECT_EQ(vkattnExplainOperation(&caps, nullptr, &operation, &explanation, &why), VKATTN_OK) << why.message;
        return std::string(explanation.form) + ": " + explanation.choice;
    };
    EXPECT_NE(choice().find("shared memory: the device has no matrix units for the types"), std::string::npos) << choice();
    c.projection.kernel = VKATTN_PROJECTION_FEW;
    EXPECT_NE(choice().find("the problem asks for the kernel"), std::string::npos) << choice();
    c.projection.kernel = VKATTN_PROJECTION_AUTO;
    c.projection.x.extent[2] = c.projection.y.extent[2] = 8;
    EXPECT_NE(choice().find("at most 8 rows"), std::string::npos) << choice();
    c.projection.x.extent[2] = c.projection.y.extent[2] = 9;
    caps.deviceType = VK_PHYSICAL_DEVICE_TYPE_CPU;
    EXPECT_NE(choice().find("do not shuffle"), std::string::npos) << choice();
    caps.subgroupShuffle = 1, caps.subgroupSize = 8;
    EXPECT_NE(choice().find("share their loads of W by shuffles"), std::string::npos) << choice();
    EXPECT_EQ(choice().find("gathered"), std::string::npos) << choice();
    c.projection.presentRoles = VKATTN_PRESENT(VKATTN_KEY_LENGTHS);
    EXPECT_EQ(choice().find("gathered"), std::string::npos) << choice();
    c.projection.residual = c.projection.y;
    EXPECT_NE(choice().find("key lengths and what the sums begin with are gathered in the workspace"), std::string::npos) << choice();
}

// With push descriptors and with a pool, whole and in slices, and refused.
TEST(AttentionAsOperation, isTheSame) {
    Random random = randomFor("attention as operation");
    uint32_t recorded = 0;
    for (Case &c : caseMatrix(random, true)) {
        if (random() % 8) continue;
        c.kernel = anyKernel(random);
        const auto instance = makeCaseData(c, random);
        vkattn_problem &attention = instance->problem;
        attention.sliceCount = random() % 2 ? 3 : 0;
        const vkattn_operation wrapped = operation(attention);
        FakeVulkan fake;
        fake.pushDescriptors = random() % 2 != 0;
        Context direct, through;
        ASSERT_EQ(direct.create(fake.host()), VKATTN_OK);
        ASSERT_EQ(through.create(fake.host()), VKATTN_OK);
        vkattn_caps caps{};
        ASSERT_EQ(direct.caps(caps), VKATTN_OK);

        vkattn_diagnostic why[2]{};
        const auto same = [&](vkattn_result a, vkattn_result b) {
            EXPECT_EQ(a, b) << c.name;
            EXPECT_STREQ(why[0].message, why[1].message) << c.name;
            why[0] = why[1] = {};
            return a == VKATTN_OK && b == VKATTN_OK;
        };
        vkattn_requirements needs[2]{};
        vkattn_explanation explained[2]{};
        const vkattn_plan_options options = planOptions(0);
        explained[0].structSize = explained[1].structSize = sizeof explained[0];
        const bool taken = same(direct.query(attention, needs[0], &why[0]), through.query(wrapped, needs[1], &why[1]));
        EXPECT_EQ(0, std::memcmp(&needs[0], &needs[1], sizeof needs[0])) << c.name;
        same(vkattnExplain(&caps, &options, &attention, &explained[0], &why[0]), explain(caps, wrapped, explained[1], options, &why[1]));
        EXPECT_EQ(0, std::memcmp(&explained[0], &explained[1], sizeof explained[0])) << c.name;
        for (uint32_t role = 0; role < VKATTN_ROLE_LIMIT; ++role)
            EXPECT_EQ(vkattnOperandBytes(&attention, static_cast<vkattn_role>(role)),
                      vkattnOperationBytes(&wrapped, static_cast<vkattn_role>(role)));
        same(direct.prewarm({&attention, 1}, &why[0]), through.prewarm({&wrapped, 1}, &why[1]));
        if (!taken) continue;

        std::vector<uint64_t> memory[2];
        vkattn_dispatch_list lists[2]{};
        lists[0].structSize = lists[1].structSize = sizeof lists[0];
        ASSERT_EQ(vkattnListDispatches(&caps, &options, &attention, nullptr, 0, &lists[0], &why[0]), VKATTN_OK) << why[0].message;
        const size_t bytes = lists[0].scratchBytes;
        for (auto &scratch : memory) scratch.assign(bytes / 8 + 1, 0);
        same(vkattnListDispatches(&caps, &options, &attention, memory[0].data(), bytes, &lists[0], &why[0]),
             vkattnListOperation(&caps, &options, &wrapped, memory[1].data(), bytes, &lists[1], &why[1]));
        ASSERT_EQ(lists[0].dispatchCount, lists[1].dispatchCount) << c.name;
        ASSERT_EQ(lists[0].scratchBytes, lists[1].scratchBytes) << c.name;

        std::vector<vkattn_binding> bindings;
        for (uint32_t n = 0; n < VKATTN_ROLE_LIMIT; ++n) {
            const auto role = static_cast<vkattn_role>(n);
            const uint64_t size = role == VKATTN_WORKSPACE ? needs[0].workspaceBytes : vkattnOperandBytes(&attention, role);
            if (size) bindings.push_back({role, reinterpret_cast<VkBuffer>(uintptr_t{0x1000} + n), 0, size});
        }
        FakeCommands commands[2];
        FakePool pools[2] = {{needs[0].descriptorSetCount, needs[0].storageDescriptorCount},
                             {needs[0].descriptorSetCount, needs[0].storageDescriptorCount}};
        vkattn_record record{};
        record.structSize = sizeof record;
        record.bindings = bindings.data();
        record.bindingCount = static_cast<uint32_t>(bindings.size());
        for (record.sliceIndex = 0; record.sliceIndex <= std::max(attention.sliceCount, 1u); ++record.sliceIndex) {
            const auto into = [&](int n) {
                record.commandBuffer = commands[n].handle();
                record.descriptorPool = fake.pushDescriptors ? VK_NULL_HANDLE : pools[n].handle();
                return &record;
            };
            const vkattn_result first = vkattnRecord(direct.handle(), &attention, into(0), &why[0]);
            same(first, vkattnRecordOperation(through.handle(), &wrapped, into(1), &why[1]));
        }
        ASSERT_EQ(commands[0].dispatches.size(), lists[0].dispatchCount) << c.name;
        ASSERT_EQ(commands[1].dispatches.size(), lists[0].dispatchCount) << c.name;
        for (size_t n = 0; n < commands[0].dispatches.size(); ++n) {
            const FakeDispatch &a = commands[0].dispatches[n], &b = commands[1].dispatches[n];
            EXPECT_EQ(a.pipeline->spirv, b.pipeline->spirv) << c.name;
            EXPECT_EQ(a.pipeline->constants, b.pipeline->constants) << c.name;
            EXPECT_EQ(a.barriers, b.barriers) << c.name;
            EXPECT_EQ(0, std::memcmp(a.groups, b.groups, sizeof a.groups)) << c.name;
            ASSERT_EQ(a.pushBytes, b.pushBytes) << c.name;
            EXPECT_EQ(0, std::memcmp(a.push, b.push, a.pushBytes)) << c.name;
            ASSERT_EQ(a.descriptorCount, b.descriptorCount) << c.name;
            EXPECT_EQ(0, std::memcmp(a.descriptors, b.descriptors, a.descriptorCount * sizeof a.descriptors[0])) << c.name;
        }
        ++recorded;
    }
    std::printf("%u problems are the same as operations\n", recorded);
    EXPECT_GT(recorded, 50u);
}
