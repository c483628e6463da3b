#include "core/shaders/specialize.hpp"

#include "core/shaders/instructions.hpp"

#include <algorithm>
#include <cstring>

namespace vkattn {
namespace {

// SPIR-V 1.0 opcodes (3.32) that our constants need.
enum Opcode : uint32_t {
    opTypeBool = 20,
    opTypeInt = 21,
    opConstantTrue = 41,
    opConstantFalse = 42,
    opConstant = 43,
    opSpecConstantTrue = 48,
    opSpecConstantFalse = 49,
    opSpecConstant = 50,
    opSpecConstantOp = 52,
    opDecorate = 71,
    opBitcast = 124,
    opIAdd = 128,
    opISub = 130,
    opIMul = 132,
    opUDiv = 134,
    opUMod = 137,
    opLogicalEqual = 164,
    opLogicalNotEqual = 165,
    opLogicalOr = 166,
    opLogicalAnd = 167,
    opLogicalNot = 168,
    opSelect = 169,
    opIEqual = 170,
    opINotEqual = 171,
    opUGreaterThan = 172,
    opUGreaterThanEqual = 174,
    opULessThan = 176,
    opULessThanEqual = 178,
    opShiftRightLogical = 194,
    opShiftLeftLogical = 196,
    opBitwiseOr = 197,
    opBitwiseXor = 198,
    opBitwiseAnd = 199,
};
constexpr uint32_t decorationSpecId = 1;

// The facts known about an id: the value of a scalar constant, the kind of a type, or the SpecId
// that decorates the id.
enum Known : uint32_t { nothing, value, boolType, intType, foldedId };
struct Id {
    uint32_t known, value;
};

class Folder {
  public:
    Folder(const Specialization &s, Id *ids, uint32_t bound, uint32_t *out) : s_(s), ids_(ids), out_(out) {
        std::fill_n(ids, bound, Id{nothing, 0});
    }

    size_t run(const uint32_t *words, size_t wordCount) {
        const uint32_t *const begin = out_;
        copy(words, spirvHeaderWords);
        forInstructions(words, wordCount,
                        [this](const uint32_t *in, uint32_t opcode, uint32_t length) { instruction(in, opcode, length); });
        return static_cast<size_t>(out_ - begin);
    }

  private:
    void instruction(const uint32_t *in, uint32_t opcode, uint32_t length) {
        switch (opcode) {
        case opDecorate:
            if (in[2] == decorationSpecId && in[3] < s_.count && (s_.folded >> in[3] & 1u) != 0) {
                ids_[in[1]] = {foldedId, s_.values[in[3]]};
                return; // plain constants have no SpecId
            }
            break;
        case opTypeBool:
            ids_[in[1]].known = boolType;
            break;
        case opTypeInt:
            if (in[2] == 32) ids_[in[1]].known = intType;
            break;
        case opConstantTrue:
        case opConstantFalse:
            ids_[in[2]] = {value, opcode == opConstantTrue};
            break;
        case opConstant:
            if (length == 4 && ids_[in[1]].known == intType) ids_[in[2]] = {value, in[3]};
            break;
        case opSpecConstantTrue:
        case opSpecConstantFalse:
        case opSpecConstant:
            if (ids_[in[2]].known == foldedId) return constant(in[1], in[2], ids_[in[2]].value);
            break;
        case opSpecConstantOp:
            if (uint32_t result; evaluate(in[3], in + 4, length - 4, result)) return constant(in[1], in[2], result);
            break;
        default:
            break;
        }
        copy(in, length);
    }

    // Within one buffer too: `out` is nowhere ahead of the words that are read.
    void copy(const uint32_t *words, size_t count) {
        std::memmove(out_, words, count * sizeof *words);
        out_ += count;
    }

    void constant(uint32_t type, uint32_t id, uint32_t bits) {
        const bool isBool = ids_[type].known == boolType;
        const uint32_t opcode = !isBool ? opConstant : bits != 0 ? opConstantTrue : opConstantFalse, length = isBool ? 3 : 4;
        const uint32_t words[] = {length << 16 | opcode, type, id, bits};
        copy(words, length);
        ids_[id] = {value, isBool ? bits != 0 : bits};
    }

    [[nodiscard]] bool isValue(uint32_t id, uint32_t bits) const { return ids_[id].known == value && ids_[id].value == bits; }

    // Returns false where the result does not follow from the known facts.
    bool evaluate(uint32_t opcode, const uint32_t *operands, uint32_t count, uint32_t &result) const {
        if (opcode == opSelect && ids_[operands[0]].known == value) {
            const Id &chosen = ids_[operands[ids_[operands[0]].value != 0 ? 1 : 2]];
            result = chosen.value;
            return chosen.known == value;
        }
        if (opcode == opLogicalAnd && (isValue(operands[0], 0) || isValue(operands[1], 0))) return result = 0, true;
        if (opcode == opLogicalOr && (isValue(operands[0], 1) || isValue(operands[1], 1))) return result = 1, true;
        for (uint32_t n = 0; n < count; ++n)
            if (ids_[operands[n]].known != value) return false;
        const uint32_t a = ids_[operands[0]].value, b = count > 1 ? ids_[operands[1]].value : 0;
        switch (opcode) {
        case opBitcast:
            return result = a, true;
        case opLogicalNot:
            return result = a == 0, true;
        case opIAdd:
            return result = a + b, true;
        case opISub:
            return result = a - b, true;
        case opIMul:
            return result = a * b, true;
        case opUDiv:
            return b != 0 && (result = a / b, true);
        case opUMod:
            return b != 0 && (result = a % b, true);
        case opLogicalEqual:
        case opIEqual:
            return result = a == b, true;
        case opLogicalNotEqual:
        case opINotEqual:
            return result = a != b, true;
        case opLogicalOr:
        case opBitwiseOr:
            return result = a | b, true;
        case opLogicalAnd:
        case opBitwiseAnd:
            return result = a & b, true;
        case opBitwiseXor:
            return result = a ^ b, true;
        case opUGreaterThan:
            return result = a > b, true;
        case opUGreaterThanEqual:
            return result = a >= b, true;
        case opULessThan:
            return result = a < b, true;
        case opULessThanEqual:
            return result = a <= b, true;
        case opShiftRightLogical:
            return b < 32 && (result = a >> b, true);
        case opShiftLeftLogical:
            return b < 32 && (result = a << b, true);
        default:
            return false;
        }
    }

    const Specialization &s_;
    Id *ids_;
    uint32_t *out_;
};

} // namespace

size_t foldScratchBytes(const uint32_t *words) {
    return words[spirvBoundAt] * sizeof(Id);
}

size_t foldConstants(const uint32_t *words, size_t wordCount, const Specialization &specialization, void *scratch, uint32_t *out) {
    return Folder(specialization, static_cast<Id *>(scratch), words[spirvBoundAt], out).run(words, wordCount);
}

} // namespace vkattn
