// Every rule of vkattn/operations.h is checked, and says what was wrong.
#include "unit/cpu/cpu_runs.hpp"
#include "vkattn/vkattn.hpp"

#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <limits>

using namespace vkattn;
using namespace vkattn::test;

namespace {

OperationCase projection() {
    OperationCase c = plainProjection(5, 6, 7);
    c.projection.bias = packed(VKATTN_F32, 1, 1, 1, 7);
    c.projection.residual = packed(VKATTN_F16, 1, 1, 5, 7);
    return c;
}
OperationCase norm() {
    OperationCase c = plainNorm(VKATTN_LAYER_NORM, 5, 6);
    c.norm.residual = c.norm.sum = c.norm.x;
    c.norm.gamma = c.norm.beta = packed(VKATTN_F32, 1, 1, 1, 6);
    return c;
}
OperationCase rotary() {
    return plainRotary(VKATTN_PAIRS_HALF, 5, 6, 4, 9);
}
OperationCase append() {
    return plainAppend(5, 9, 6);
}
OperationCase advance() {
    return plainAdvance(6);
}
OperationCase normGradient() {
    return plainNormGradient(VKATTN_LAYER_NORM, 5, 6);
}
OperationCase mean() {
    return plainMean(3, 5, 6);
}
OperationCase merge() {
    return plainMerge(3, 2, 5, 6);
}
OperationCase hadamard() {
    return plainHadamard(2, 5, 24);
}
OperationCase pages() {
    OperationCase c = plainAppend(5, 9, 6);
    c.append = appendToPages(c.append.x, packed(VKATTN_F32, 7, 1, 4, 6), 3);
    return c;
}
OperationCase keep() {
    return plainKeep(3, 5, 40);
}
OperationCase drop() {
    return plainDrop(3, 5, 6);
}

struct Refusal {
    const char *expected;
    OperationCase (*make)();
    std::function<void(OperationCase &)> spoil;
};

const Refusal refusals[] = {
    // Every operation.
    {"projection: structSize is 0", projection, [](auto &c) { c.projection.structSize = 0; }},
    {"norm: structSize is", norm, [](auto &c) { c.norm.structSize = sizeof c.norm + 4; }},
    {"rotary: structSize is", rotary, [](auto &c) { c.rotary.structSize = 3; }},
    {"append: structSize is", append, [](auto &c) { c.append.structSize = sizeof c.append + 8; }},
    {"advance: structSize is", advance, [](auto &c) { c.advance.structSize = sizeof c.advance + 4; }},
    {"x of the projection has no layout", projection, [](auto &c) { c.projection.x = {}; }},
    {"w of the projection has no layout", projection, [](auto &c) { c.projection.w = {}; }},
    {"y of the norm has no layout", norm, [](auto &c) { c.norm.y = {}; }},
    {"cos of the rotary has no layout", rotary, [](auto &c) { c.rotary.cos = {}; }},
    {"only dimension 2 may be 0", norm, [](auto &c) { c.norm.x.extent[3] = 0; }},
    {"only dimension 2 may be 0", append, [](auto &c) { c.append.x.extent[0] = 0; }},
    {"x has dtype 3", norm, [](auto &c) { c.norm.x.dtype = VKATTN_BOOL8; }},
    {"cos has dtype 1, expected VKATTN_F32", rotary, [](auto &c) { c.rotary.cos.dtype = VKATTN_F16; }},
    {"y overlaps itself", projection, [](auto &c) { c.projection.y.strideElems[2] = 1; }},
    {"sum overlaps itself", norm, [](auto &c) { c.norm.sum.strideElems[3] = 0; }},
    {"below offsetElems", append, [](auto &c) { c.append.x.strideElems[3] = -1; }},
    {"tokens, expected at most 1073741824", append, [](auto &c) { c.append.x.extent[2] = (1u << 30) + 1; }},
    // Projection.
    {"projection.flags is 0x1,", projection, [](auto &c) { c.projection.flags = VKATTN_CAUSAL; }},
    {"projection.presentRoles has bits 0x100, expected VKATTN_PRESENT(VKATTN_KEY_LENGTHS)", projection,
     [](auto &c) { c.projection.presentRoles = VKATTN_PRESENT(VKATTN_STARTS); }},
    {"projection from 524289 to 7 dims", projection,
     [](auto &c) {
         c.projection.x = packed(VKATTN_F32, 1, 1, 5, 524289);
         c.projection.w = packed(VKATTN_F32, 1, 1, 7, 524289);
     }},
    {"projection from 6 to 16777217 dims", projection,
     [](auto &c) {
         c.projection.w = packed(VKATTN_F32, 1, 1, 16777217, 6);
         c.projection.y = packed(VKATTN_F32, 1, 1, 5, 16777217);
     }},
    {"over the 2^60 products", projection,
     [](auto &c) {
         c.projection.x = packed(VKATTN_F32, 1, 1, 1u << 30, 1u << 19);
         c.projection.w = packed(VKATTN_F32, 1, 1, 1u << 12, 1u << 19);
         c.projection.y = packed(VKATTN_F32, 1, 1, 1u << 30, 1u << 12);
         c.projection.bias = c.projection.residual = {};
     }},
    {"w is [1, 1, 8, 6], expected [1, 1, 7, 6]", projection, [](auto &c) { c.projection.w = packed(VKATTN_F32, 1, 1, 8, 6); }},
    {"w is [1, 2, 7, 6]", projection, [](auto &c) { c.projection.w = packed(VKATTN_F32, 1, 2, 7, 6); }},
    {"bias is [1, 1, 2, 7]", projection, [](auto &c) { c.projection.bias = packed(VKATTN_F32, 1, 1, 2, 7); }},
    {"residual is [1, 1, 1, 7]", projection, [](auto &c) { c.projection.residual = packed(VKATTN_F32, 1, 1, 1, 7); }},
    {"y is [1, 1, 4, 7]", projection, [](auto &c) { c.projection.y = packed(VKATTN_F32, 1, 1, 4, 7); }},
    // Norm.
    {"norm.flags is 0x10", norm, [](auto &c) { c.norm.flags = VKATTN_DETERMINISTIC; }},
    {"norm.kind is 2", norm, [](auto &c) { c.norm.kind = static_cast<vkattn_norm_kind>(2); }},
    {"norm.epsilon is -1", norm, [](auto &c) { c.norm.epsilon = -1; }},
    {"norm.epsilon is inf", norm, [](auto &c) { c.norm.epsilon = std::numeric_limits<float>::infinity(); }},
    {"norm.epsilon is", norm, [](auto &c) { c.norm.epsilon = std::nanf(""); }},
    {"x has 1048577 dims", norm, [](auto &c) { c.norm.x = packed(VKATTN_F32, 1, 1, 5, (1u << 20) + 1); }},
    {"residual is [1, 1, 4, 6]", norm, [](auto &c) { c.norm.residual = packed(VKATTN_F32, 1, 1, 4, 6); }},
    {"gamma is [1, 1, 5, 6], expected [1, 1, 1, 6]", norm, [](auto &c) { c.norm.gamma = c.norm.x; }},
    {"beta is [1, 1, 1, 5]", norm, [](auto &c) { c.norm.beta = packed(VKATTN_F32, 1, 1, 1, 5); }},
    {"sum is [1, 1, 5, 5]", norm, [](auto &c) { c.norm.sum = packed(VKATTN_F32, 1, 1, 5, 5); }},
    {"y is [2, 1, 5, 6]", norm, [](auto &c) { c.norm.y = packed(VKATTN_F32, 2, 1, 5, 6); }},
    // Rotary.
    {"rotary.flags is 0x10", rotary, [](auto &c) { c.rotary.flags = VKATTN_DETERMINISTIC; }},
    {"rotary.pairs is 2", rotary, [](auto &c) { c.rotary.pairs = static_cast<vkattn_rotary_pairs>(2); }},
    {"rotary.presentRoles has bits", rotary, [](auto &c) { c.rotary.presentRoles = VKATTN_PRESENT(VKATTN_KEY_LENGTHS); }},
    {"rotary.reserved is 1", rotary, [](auto &c) { c.rotary.reserved = 1; }},
    {"the array replaces it", rotary, [](auto &c) { c.rotary.start = 1, c.rotary.presentRoles = VKATTN_PRESENT(VKATTN_STARTS); }},
    {"rotary.start is 1073741825", rotary, [](auto &c) { c.rotary.start = (1u << 30) + 1; }},
    {"rotary has positions and a start", rotary,
     [](auto &c) { c.rotary.start = 1, c.rotary.presentRoles = VKATTN_PRESENT(VKATTN_POSITIONS); }},
    {"rotary has positions and a start", rotary,
     [](auto &c) { c.rotary.presentRoles = VKATTN_PRESENT(VKATTN_POSITIONS) | VKATTN_PRESENT(VKATTN_STARTS); }},
    {"x has 65537 dims", rotary, [](auto &c) { c.rotary.x = packed(VKATTN_F32, 1, 1, 5, 65537); }},
    {"cos has no positions", rotary, [](auto &c) { c.rotary.cos.extent[2] = 0; }},
    {"cos has 4 columns, which rotate 8 dims; x has 6", rotary, [](auto &c) { c.rotary.cos = packed(VKATTN_F32, 1, 1, 9, 4); }},
    {"sin is [1, 1, 8, 2], expected [1, 1, 9, 2]", rotary, [](auto &c) { c.rotary.sin = packed(VKATTN_F32, 1, 1, 8, 2); }},
    {"y is [1, 1, 6, 6]", rotary, [](auto &c) { c.rotary.y = packed(VKATTN_F32, 1, 1, 6, 6); }},
    // Append.
    {"append.flags is 0x20", append, [](auto &c) { c.append.flags = VKATTN_ROTARY_APPEND; }},
    {"append.presentRoles has bits", append, [](auto &c) { c.append.presentRoles = VKATTN_PRESENT(VKATTN_POSITIONS); }},
    {"the array replaces it", append, [](auto &c) { c.append.start = 1, c.append.presentRoles = VKATTN_PRESENT(VKATTN_STARTS); }},
    {"append.start is 1073741825", append, [](auto &c) { c.append.start = (1u << 30) + 1; }},
    {"x has 1048577 dims", append, [](auto &c) { c.append.x = packed(VKATTN_F32, 1, 1, 5, (1u << 20) + 1); }},
    {"y is [1, 2, 9, 6]", append, [](auto &c) { c.append.y = packed(VKATTN_F32, 1, 2, 9, 6); }},
    {"append.flags is 0x1, expected 0 or VKATTN_APPEND_RING", append, [](auto &c) { c.append.flags = 1; }},
    {"append.tablePages is 2, expected 0 without VKATTN_PAGE_TABLE", append, [](auto &c) { c.append.tablePages = 2; }},
    {"append.reserved is 1", append, [](auto &c) { c.append.reserved = 1; }},
    {"append.tablePages is 0, expected at least 1", pages, [](auto &c) { c.append.tablePages = 0; }},
    {"append.tablePages is 268435457 with 4 tokens in a page", pages, [](auto &c) { c.append.tablePages = (1u << 28) + 1; }},
    {"y is [7, 2, 4, 6], expected [7, 1, 4, 6]", pages, [](auto &c) { c.append.y = packed(VKATTN_F32, 7, 2, 4, 6); }},
    {"y is [7, 1, 4, 5]", pages, [](auto &c) { c.append.y = packed(VKATTN_F32, 7, 1, 4, 5); }},
    // Merge.
    {"merge: structSize is", merge, [](auto &c) { c.merge.structSize = sizeof c.merge + 8; }},
    {"merge.flags is 0x1, expected 0", merge, [](auto &c) { c.merge.flags = 1; }},
    {"merge.reserved is 7, expected 0", merge, [](auto &c) { c.merge.reserved = 7; }},
    {"merge.parts is 0, expected 1 to 256", merge, [](auto &c) { c.merge.parts = 0; }},
    {"merge.parts is 257", merge, [](auto &c) { c.merge.parts = 257; }},
    {"hadamard.flags is 0x1, expected 0", hadamard, [](auto &c) { c.hadamard.flags = 1; }},
    {"hadamard.reserved is 7, expected 0", hadamard, [](auto &c) { c.hadamard.reserved = 7; }},
    {"hadamard.block is 16 with 24 dims, expected a power of two from 2 to 8", hadamard, [](auto &c) { c.hadamard.block = 16; }},
    {"hadamard.block is 6 with 24 dims", hadamard, [](auto &c) { c.hadamard.block = 6; }},
    {"hadamard.block is 1 with 24 dims", hadamard, [](auto &c) { c.hadamard.block = 1; }},
    {"hadamard.block is 2048 with 4096 dims, expected a power of two from 2 to 1024", hadamard,
     [](auto &c) { c = plainHadamard(1, 1, 4096), c.hadamard.block = 2048; }},
    {"x has 25 dims, and a Hadamard matrix takes blocks", hadamard, [](auto &c) { c = plainHadamard(2, 5, 25); }},
    {"x has 65538 dims, expected at most 65536", hadamard, [](auto &c) { c = plainHadamard(1, 1, 65538); }},
    {"y is [1, 2, 5, 22], expected [1, 2, 5, 24]", hadamard, [](auto &c) { c.hadamard.y = packed(VKATTN_F32, 1, 2, 5, 22); }},
    {"x has 3 entries, expected a multiple of 2", merge, [](auto &c) { c.merge.parts = 2; }},
    {"x has 65537 dims, expected at most 65536", merge, [](auto &c) { c.merge.x = packed(VKATTN_F32, 3, 2, 5, 65537); }},
    {"x of the merge has no layout", merge, [](auto &c) { c.merge.x = {}; }},
    {"lse of x of the merge has no layout", merge, [](auto &c) { c.merge.xLse = {}; }},
    {"y of the merge has no layout", merge, [](auto &c) { c.merge.y = {}; }},
    {"lse of x has dtype 1", merge, [](auto &c) { c.merge.xLse.dtype = VKATTN_F16; }},
    {"lse has dtype 2", merge, [](auto &c) { c.merge.lse.dtype = VKATTN_BF16; }},
    {"lse of x is [1, 2, 5, 1], expected [3, 2, 5, 1]", merge, [](auto &c) { c.merge.xLse.extent[0] = 1; }},
    {"lse is [1, 2, 5, 2], expected [1, 2, 5, 1]", merge, [](auto &c) { c.merge.lse = packed(VKATTN_F32, 1, 2, 5, 2); }},
    {"y is [3, 2, 5, 6], expected [1, 2, 5, 6]", merge, [](auto &c) { c.merge.y = c.merge.x; }},
    {"only dimension 2 may be 0", merge, [](auto &c) { c.merge.x.extent[3] = 0; }},
    {"y overlaps itself", merge, [](auto &c) { c.merge.y.strideElems[1] = 0; }},
    // Mean.
    {"mean: structSize is", mean, [](auto &c) { c.mean.structSize = sizeof c.mean + 8; }},
    {"mean.flags is 0x1, expected 0", mean, [](auto &c) { c.mean.flags = 1; }},
    {"x of the mean has no layout", mean, [](auto &c) { c.mean.x = {}; }},
    {"y of the mean has no layout", mean, [](auto &c) { c.mean.y = {}; }},
    {"x has dtype 4", mean, [](auto &c) { c.mean.x.dtype = VKATTN_BITS32; }},
    {"only dimensions 2 and 3 may be 0", mean, [](auto &c) { c.mean.x.extent[1] = 0; }},
    {"y is [1, 3, 5, 6], expected [1, 1, 5, 6]", mean, [](auto &c) { c.mean.y = c.mean.x; }},
    {"y is [1, 1, 5, 5]", mean, [](auto &c) { c.mean.y = matrix(VKATTN_F32, 5, 5); }},
    {"y is [2, 1, 5, 6]", mean, [](auto &c) { c.mean.y = packed(VKATTN_F32, 2, 1, 5, 6); }},
    {"y overlaps itself", mean, [](auto &c) { c.mean.y.strideElems[3] = 0; }},
    {"x has 1048577 groups of 6 dims, expected at most 1048576", mean,
     [](auto &c) { c.mean.x = packed(VKATTN_F32, 1, (1u << 20) + 1, 5, 6); }},
    {"groups of 1048577 dims", mean, [](auto &c) { c.mean.x = packed(VKATTN_F32, 1, 3, 5, (1u << 20) + 1); }},
    {"x has 1073741825 tokens", mean, [](auto &c) { c.mean.x = packed(VKATTN_F32, 1, 3, (1u << 30) + 1, 6); }},
    // Keep.
    {"keep: structSize is", keep, [](auto &c) { c.keep.structSize = sizeof c.keep + 8; }},
    {"keep.flags is 0x1, expected 0", keep, [](auto &c) { c.keep.flags = 1; }},
    {"keep.probability is 1.5, expected a probability from 0 to 1", keep, [](auto &c) { c.keep.probability = 1.5; }},
    {"keep.probability is -0.25", keep, [](auto &c) { c.keep.probability = -0.25; }},
    {"expected a probability from 0 to 1", keep, [](auto &c) { c.keep.probability = std::numeric_limits<double>::quiet_NaN(); }},
    {"keep.columns is 1073741825, expected at most 1073741824", keep, [](auto &c) { c.keep.columns = (1u << 30) + 1; }},
    {"y of the keep has no layout", keep, [](auto &c) { c.keep.y = {}; }},
    {"y has dtype 0, expected VKATTN_BITS32", keep, [](auto &c) { c.keep.y.dtype = VKATTN_F32; }},
    {"only dimensions 2 and 3 may be 0", keep, [](auto &c) { c.keep.y.extent[0] = 0; }},
    {"y has 2 words a row, expected 3: one bit for each of 65 columns", keep, [](auto &c) { c.keep.columns = 65; }},
    {"y has 2 words a row, expected 1", keep, [](auto &c) { c.keep.columns = 32; }},
    {"y has 2 words a row, expected 0", keep, [](auto &c) { c.keep.columns = 0; }},
    {"y overlaps itself", keep, [](auto &c) { c.keep.y.strideElems[3] = 0; }},
    {"batch 65536 x groups 65536, expected less than 2^32", keep,
     [](auto &c) { c.keep.y = packed(VKATTN_BITS32, 1u << 16, 1u << 16, 1, 2); }},
    {"y has 1073741825 tokens", keep, [](auto &c) { c.keep.y = packed(VKATTN_BITS32, 1, 1, (1u << 30) + 1, 2); }},
    // Drop.
    {"drop: structSize is", drop, [](auto &c) { c.drop.structSize = sizeof c.drop + 8; }},
    {"drop.flags is 0x1, expected 0", drop, [](auto &c) { c.drop.flags = 1; }},
    {"drop.probability is 1.5, expected a probability from 0 to 1", drop, [](auto &c) { c.drop.probability = 1.5; }},
    {"drop.probability is -0.25", drop, [](auto &c) { c.drop.probability = -0.25; }},
    {"drop.probability is nan", drop, [](auto &c) { c.drop.probability = std::numeric_limits<double>::quiet_NaN(); }},
    {"drop.firstRow is 1073741825, expected at most 1073741824", drop, [](auto &c) { c.drop.firstRow = (1u << 30) + 1; }},
    {"drop.reserved is 1, expected 0", drop, [](auto &c) { c.drop.reserved = 1; }},
    {"x of the drop has no layout", drop, [](auto &c) { c.drop.x = {}; }},
    {"y of the drop has no layout", drop, [](auto &c) { c.drop.y = {}; }},
    {"x has dtype 4", drop, [](auto &c) { c.drop.x.dtype = VKATTN_BITS32; }},
    {"only dimensions 2 and 3 may be 0", drop, [](auto &c) { c.drop.x.extent[1] = 0; }},
    {"residual is [1, 3, 4, 6], expected [1, 3, 5, 6]", drop, [](auto &c) { c.drop.residual = packed(VKATTN_F32, 1, 3, 4, 6); }},
    {"y is [1, 3, 5, 7]", drop, [](auto &c) { c.drop.y = packed(VKATTN_F32, 1, 3, 5, 7); }},
    {"y overlaps itself", drop, [](auto &c) { c.drop.y.strideElems[3] = 0; }},
    {"x has 1048577 columns, expected at most 1048576", drop, [](auto &c) { c.drop.x = packed(VKATTN_F32, 1, 3, 5, (1u << 20) + 1); }},
    {"x has 1073741825 tokens", drop, [](auto &c) { c.drop.x = packed(VKATTN_F32, 1, 3, (1u << 30) + 1, 6); }},
    {"batch 65536 x groups 65536, expected less than 2^32", drop,
     [](auto &c) { c.drop.x = c.drop.residual = c.drop.y = packed(VKATTN_F32, 1u << 16, 1u << 16, 1, 2); }},
    {"batch 1 x groups 3 from plane 4294967293 on, expected less than 2^32", drop, [](auto &c) { c.drop.firstPlane = 0xfffffffd; }},
    // The gradients of a norm.
    {"norm gradient.flags is 0x2, expected 0", normGradient, [](auto &c) { c.normGradient.flags = 2; }},
    {"norm gradient.kind is 2", normGradient, [](auto &c) { c.normGradient.kind = static_cast<vkattn_norm_kind>(2); }},
    {"norm gradient.epsilon is -1", normGradient, [](auto &c) { c.normGradient.epsilon = -1; }},
    {"x of the norm gradient has no layout", normGradient, [](auto &c) { c.normGradient.x = {}; }},
    {"dY of the norm gradient has no layout", normGradient, [](auto &c) { c.normGradient.dY = {}; }},
    {"no gradient is asked for", normGradient, [](auto &c) { c.normGradient.dX = c.normGradient.dGamma = c.normGradient.dBeta = {}; }},
    {"a residual and no dX", normGradient, [](auto &c) { c.normGradient.residual = c.normGradient.dY, c.normGradient.dX = {}; }},
    {"residual is [1, 1, 4, 6], expected [1, 1, 5, 6]", normGradient, [](auto &c) { c.normGradient.residual = matrix(VKATTN_F32, 4, 6); }},
    {"no dimension may be 0", normGradient, [](auto &c) { c.normGradient.x.extent[2] = 0; }},
    {"dX is [1, 1, 4, 6], expected [1, 1, 5, 6]", normGradient, [](auto &c) { c.normGradient.dX = matrix(VKATTN_F32, 4, 6); }},
    {"dGamma is [1, 1, 5, 6], expected [1, 1, 1, 6]", normGradient, [](auto &c) { c.normGradient.dGamma = c.normGradient.dX; }},
    {"dBeta overlaps itself", normGradient, [](auto &c) { c.normGradient.dBeta.strideElems[3] = 0; }},
    {"x has 1048577 dims", normGradient,
     [](auto &c) { c.normGradient.x = c.normGradient.dY = c.normGradient.dX = matrix(VKATTN_F32, 5, (1u << 20) + 1); }},
    // Advance.
    {"advance.flags is 0x10, expected 0", advance, [](auto &c) { c.advance.flags = VKATTN_DETERMINISTIC; }},
    {"x of the advance has no layout", advance, [](auto &c) { c.advance.x = {}; }},
    {"y of the advance has no layout", advance, [](auto &c) { c.advance.y = {}; }},
    {"x has dtype 0, expected VKATTN_BITS32", advance, [](auto &c) { c.advance.x.dtype = VKATTN_F32; }},
    {"y has dtype 3, expected VKATTN_BITS32", advance, [](auto &c) { c.advance.y.dtype = VKATTN_BOOL8; }},
    {"only dimension 3 may be 0", advance, [](auto &c) { c.advance.x.extent[2] = 0; }},
    {"only dimension 3 may be 0", advance, [](auto &c) { c.advance.y.extent[0] = 0; }},
    {"x has 1073741825 words, expected at most 1073741824", advance,
     [](auto &c) { c.advance.x = c.advance.y = vector(VKATTN_BITS32, (1u << 30) + 1); }},
    {"x is [1, 1, 2, 3], expected [1, 1, 1, 3]", advance, [](auto &c) { c.advance.x = c.advance.y = matrix(VKATTN_BITS32, 2, 3); }},
    {"x is [2, 1, 1, 6]", advance, [](auto &c) { c.advance.x.extent[0] = 2; }},
    {"y is [1, 1, 1, 5], expected [1, 1, 1, 6]", advance, [](auto &c) { c.advance.y = vector(VKATTN_BITS32, 5); }},
    {"y overlaps itself", advance, [](auto &c) { c.advance.y.strideElems[3] = 0; }},
    {"below offsetElems", advance, [](auto &c) { c.advance.x.strideElems[3] = -1; }},
};

} // namespace

TEST(OperationDescription, everyRuleIsChecked) {
    for (const Refusal &each : refusals) {
        OperationCase c = each.make();
        vkattn_operation o = c.operation();
        vkattn_diagnostic why{};
        ASSERT_EQ(vkattnValidateOperation(&o, &why), VKATTN_OK) << each.expected << ": " << why.message;
        each.spoil(c);
        o = c.operation();
        EXPECT_EQ(vkattnValidateOperation(&o, &why), VKATTN_ERROR_INVALID_ARGUMENT) << each.expected;
        EXPECT_NE(std::string(why.message).find(each.expected), std::string::npos) << each.expected << ": " << why.message;
        EXPECT_EQ(vkattnOperationBytes(&o, VKATTN_X), 0u) << "an invalid operation needs nothing";
    }
    vkattn_diagnostic why{};
    EXPECT_EQ(vkattnValidateOperation(nullptr, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_STREQ(why.message, "operation is NULL");
    vkattn_operation o{};
    o.kind = VKATTN_NORM;
    EXPECT_EQ(vkattnValidateOperation(&o, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_STREQ(why.message, "operation.of.norm is NULL");
    o.kind = static_cast<vkattn_operation_kind>(VKATTN_HADAMARD + 1);
    EXPECT_EQ(vkattnValidateOperation(&o, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(why.message).find("operation.kind is "), std::string::npos) << why.message;
}

TEST(OperationDescription, ordinaryOnesAreValid) {
    const auto valid = [](const OperationCase &c) {
        const vkattn_operation o = c.operation();
        vkattn_diagnostic why{};
        EXPECT_EQ(vkattnValidateOperation(&o, &why), VKATTN_OK) << why.message;
    };
    for (OperationCase c : {projection(), norm(), rotary(), append(), merge(), hadamard()}) { // 0 rows
        for (const vkattn_role role : {VKATTN_X, VKATTN_RESIDUAL, VKATTN_SUM, VKATTN_Y, VKATTN_X_LSE, VKATTN_LSE})
            c.layout(role).extent[2] = 0;
        valid(c);
    }
    for (const uint32_t words : {0u, 1u << 30}) valid(plainAdvance(words));
    for (const OperationCase &c :
         {mean(), plainMean(3, 0, 6), plainMean(3, 5, 0), plainMean(1u << 20, 1, 1), pages(), merge(), plainMerge(1, 1, 1, 1),
          plainMerge(256, 1, 1, 1u << 16), keep(), plainKeep(3, 0, 40), plainKeep(3, 5, 0), plainKeep(1, 1, 1u << 30),
          plainKeep(1u << 20, 1, 1), drop(), plainDrop(3, 0, 6), plainDrop(3, 5, 0), plainDrop(1, 1, 1u << 20), plainDrop(1, 1u << 30, 1)})
        valid(c);
    OperationCase c = drop();
    c.drop.firstRow = 1u << 30, c.drop.firstPlane = 0xfffffffc; // the last three planes but one
    valid(c);
    c = rotary();
    c.rotary.flags = VKATTN_ROTARY_APPEND;
    c.rotary.start = 1u << 30;
    c.rotary.presentRoles = VKATTN_PRESENT(VKATTN_POSITIONS);
    c.rotary.y = packed(VKATTN_BF16, 1, 1, 100, 6);
    valid(c);
    c = plainProjection(1u << 30, 1u << 19, 1u << 11); // 2^60 products
    valid(c);
    for (const int asked : {0, 1, 2}) { // one gradient of the three
        c = normGradient();
        if (asked != 0) c.normGradient.dX = {};
        if (asked != 1) c.normGradient.dGamma = {};
        if (asked != 2) c.normGradient.dBeta = c.normGradient.gamma = {};
        valid(c);
    }
    c = norm();
    c.norm.epsilon = 0;
    valid(c);
}

TEST(OperationDescription, bytesAreThoseOfTheLastElement) {
    OperationCase c = rotary();
    c.rotary.presentRoles = VKATTN_PRESENT(VKATTN_POSITIONS);
    c.rotary.x.dtype = VKATTN_F16;
    c.rotary.x.offsetElems = 10;
    const vkattn_operation o = c.operation();
    EXPECT_EQ(vkattnOperationBytes(&o, VKATTN_X), 2u * (10 + 5 * 6));
    EXPECT_EQ(vkattnOperationBytes(&o, VKATTN_Y), 4u * 5 * 6);
    EXPECT_EQ(vkattnOperationBytes(&o, VKATTN_COS), 4u * 9 * 2);
    EXPECT_EQ(vkattnOperationBytes(&o, VKATTN_POSITIONS), 4u * 5);
    for (const vkattn_role role : {VKATTN_STARTS, VKATTN_W, VKATTN_Q, VKATTN_BIAS, VKATTN_WORKSPACE, static_cast<vkattn_role>(1000)})
        EXPECT_EQ(vkattnOperationBytes(&o, role), 0u) << role;
}

TEST(OperationDescription, usesOfWordsAreTheirBytes) {
    OperationCase c = plainAdvance(6);
    c.advance.x.strideElems[3] = -3, c.advance.x.offsetElems = 20;
    const vkattn_operation o = c.operation();
    EXPECT_EQ(vkattnOperationBytes(&o, VKATTN_X), 4u * 21);
    EXPECT_EQ(vkattnOperationBytes(&o, VKATTN_Y), 4u * 6);
    vkattn_operand_use uses[VKATTN_ROLE_LIMIT];
    ASSERT_EQ(vkattnOperandUses(&o, uses, VKATTN_ROLE_LIMIT), 2u);
    for (int n = 0; n < 2; ++n) {
        const bool x = uses[n].role == VKATTN_X;
        EXPECT_EQ(uses[n].role, x ? VKATTN_X : VKATTN_Y);
        EXPECT_EQ(uses[n].writes, x ? 0u : 1u);
        EXPECT_EQ(uses[n].beginBytes, x ? 4u * 5 : 0u);
        EXPECT_EQ(uses[n].endBytes, x ? 4u * 21 : 4u * 6);
    }
}

TEST(OperationDescription, kindsHaveNames) {
    EXPECT_STREQ(vkattnOperationName(VKATTN_ATTENTION), "attention");
    EXPECT_STREQ(vkattnOperationName(VKATTN_PROJECTION), "projection");
    EXPECT_STREQ(vkattnOperationName(VKATTN_NORM), "norm");
    EXPECT_STREQ(vkattnOperationName(VKATTN_ROTARY), "rotary");
    EXPECT_STREQ(vkattnOperationName(VKATTN_APPEND), "append");
    EXPECT_STREQ(vkattnOperationName(VKATTN_ADVANCE), "advance");
    EXPECT_STREQ(vkattnOperationName(VKATTN_MEAN), "mean");
    EXPECT_STREQ(vkattnOperationName(VKATTN_KEEP), "keep");
    EXPECT_STREQ(vkattnOperationName(VKATTN_HADAMARD), "hadamard");
    EXPECT_STREQ(vkattnOperationName(VKATTN_ATTENTION_GRADIENT), "attention gradient");
    EXPECT_STREQ(vkattnOperationName(VKATTN_NORM_GRADIENT), "norm gradient");
    EXPECT_STREQ(vkattnOperationName(VKATTN_DROP), "drop");
    EXPECT_STREQ(vkattnOperationName(VKATTN_ATTENTION_STATISTICS), "attention statistics");
    EXPECT_STREQ(vkattnOperationName(VKATTN_VISIBLE_BLOCKS), "visible blocks");
    EXPECT_STREQ(vkattnOperationName(VKATTN_LINEAR_ATTENTION), "linear attention");
    EXPECT_STREQ(vkattnOperationName(VKATTN_LINEAR_ATTENTION_GRADIENT), "linear attention gradient");
    EXPECT_STREQ(vkattnOperationName(VKATTN_MERGE), "merge");
    EXPECT_EQ(vkattnOperationName(static_cast<vkattn_operation_kind>(VKATTN_HADAMARD + 1)), nullptr);
    EXPECT_EQ(vkattnOperationName(VKATTN_OPERATION_KIND_MAX), nullptr);
}
