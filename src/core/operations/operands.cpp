#include "core/operations/operands.hpp"

#include <algorithm>

namespace vkattn {
namespace {

constexpr uint32_t addLanes = 64;  // of a workgroup of add.comp
constexpr uint32_t copyLanes = 64; // of advance.comp

// The elements of a tensor that a box needs.
Box elementsOf(const Operation &o, vkattn_role role, const OperationBox &box) {
    const Tensor &t = o.tensor(role);
    const uint32_t *first = box.first, *count = box.count;
    if (o.kind == VKATTN_ADVANCE) return {{0, 0, 0, first[boxRow]}, {1, 1, 1, count[boxRow]}};
    if (o.kind == VKATTN_KEEP) return {{first[0], first[1], first[2], first[3]}, {count[0], count[1], count[2], count[3]}};
    switch (role) {
    case VKATTN_X_LSE:
    case VKATTN_X:
        // The box's entries of the first part, of the last one, and all between them.
        if (o.kind == VKATTN_MERGE)
            return {{first[0], first[1], first[2], 0}, {(o.parts - 1) * o.batch + count[0], count[1], count[2], t.extent[3]}};
        return {{first[0], first[1], first[2], 0}, {count[0], o.kind == VKATTN_MEAN ? o.averaged : count[1], count[2], o.inner}};
    case VKATTN_W:
        return {{first[0], first[1], first[3], 0}, {count[0], count[1], count[3], o.inner}};
    case VKATTN_BIAS:
        return {{first[0], first[1], 0, first[3]}, {count[0], count[1], 1, count[3]}};
    case VKATTN_GAMMA:
    case VKATTN_BETA:
    case VKATTN_D_GAMMA:
    case VKATTN_D_BETA:
    case VKATTN_COS:
    case VKATTN_SIN:
        return {{0, 0, 0, 0}, {1, 1, t.extent[2], t.extent[3]}};
    case VKATTN_Y:
        if (!o.appends()) break;
        if (o.poolPages) return {{first[boxColumn], first[1], 0, 0}, {count[boxColumn], count[1], o.pageTokens, o.inner}};
        // Only the device knows where its arrays send tokens, and a ring has no end: the whole cache of the box's cases.
        if (o.has(VKATTN_STARTS) || o.ring()) return {{first[0], first[1], 0, 0}, {count[0], count[1], o.cacheRows, o.inner}};
        return {{first[0], first[1], o.start + first[2], 0}, {count[0], count[1], count[2], o.inner}};
    default:
        break;
    }
    const uint32_t columns = o.kind == VKATTN_PROJECTION ? count[3] : t.extent[3];
    return {{first[0], first[1], first[2], o.kind == VKATTN_PROJECTION ? first[3] : 0}, {count[0], count[1], count[2], columns}};
}

bool isArrayOf(vkattn_role role) {
    return role == VKATTN_POSITIONS || role == VKATTN_STARTS || role == VKATTN_KEY_LENGTHS || role == VKATTN_PAGE_TABLE;
}

// First entry of an array that a box needs, and how many.
struct Entries {
    uint64_t first, count;
};
Entries entriesOf(const Operation &o, vkattn_role role, const OperationBox &box) {
    if (role == VKATTN_PAGE_TABLE) return {uint64_t{box.first[0]} * o.tablePages, uint64_t{box.count[0]} * o.tablePages};
    if (role != VKATTN_POSITIONS) return {box.first[0], box.count[0]};
    return {uint64_t{box.first[0]} * o.rows + box.first[2], (box.count[0] - 1ull) * o.rows + box.count[2]};
}

} // namespace

ByteRange bytesOf(const Operation &operation, vkattn_role role, const OperationBox &box) {
    if (!isArrayOf(role)) return operation.tensor(role).span(elementsOf(operation, role, box));
    const Entries entries = entriesOf(operation, role, box);
    return {4 * entries.first, 4 * (entries.first + entries.count)};
}

Operand boxOperand(const Operation &operation, vkattn_role role, const OperationBox &box, size_t basePushByte) {
    if (isArrayOf(role)) {
        const Entries entries = entriesOf(operation, role, box);
        return arrayOperand(role, entries.first, entries.count, entries.first, basePushByte);
    }
    const Tensor &t = operation.tensor(role);
    Box elements = elementsOf(operation, role, box);
    const ByteRange range = t.span(elements);
    if (role == VKATTN_Y && operation.appends()) elements.first[2] = 0;
    uint64_t at[4];
    for (int d = 0; d < 4; ++d) at[d] = t.extent[d] == 1 ? 0 : elements.first[d]; // broadcast
    return {role,
            range.begin,
            range.end,
            bytesBefore(t.dtype, t.index(at[0], at[1], at[2], at[3])),
            static_cast<uint32_t>(basePushByte / 4),
            elementBytes(t.dtype),
            findOperand(operation.kind, role)->output};
}

Operand boxOperandOr(const Operand &other, const Operation &operation, vkattn_role role, const OperationBox &box, size_t basePushByte) {
    return operation.uses(role) ? boxOperand(operation, role, box, basePushByte) : standIn(other);
}

Operand gathered(uint64_t begin, uint64_t end, bool writes, uint32_t basePushWord) {
    return {VKATTN_WORKSPACE, begin, end, begin, basePushWord, 4, writes};
}

AddOperand addOperand(const Operation &operation, vkattn_role role, const OperationBox &box) {
    return {boxOperand(operation, role, box, 0), stridesOf(operation, role), operation.tensor(role).dtype};
}

void raiseToAdd(const uint32_t (&extent)[4], uint64_t (&groups)[3]) {
    const uint64_t own[3] = {divideUp(divideUp(extent[3], 2), addLanes), extent[boxRow], uint64_t{extent[boxBatch]} * extent[boxGroup]};
    for (int axis = 0; axis < 3; ++axis) groups[axis] = std::max(groups[axis], own[axis]);
}

void makeAdd(Dispatch &d, const uint32_t (&extent)[4], const AddOperand &x, const AddOperand *addend, const AddOperand &to) {
    AddPush push{};
    push.groups = extent[boxGroup];
    push.columns = extent[3];
    push.xStrides = x.strides;
    push.yStrides = to.strides;
    if (addend) push.addendStrides = addend->strides;
    setPush(d, push);
    const auto place = [](Operand operand, size_t base) {
        operand.basePushWord = static_cast<uint32_t>(base / 4);
        return operand;
    };
    d.operands[slotX] = place(x.operand, offsetof(AddPush, xBase));
    d.operands[slotY] = place(to.operand, offsetof(AddPush, yBase));
    d.operands[slotAddend] = addend ? place(addend->operand, offsetof(AddPush, addendBase)) : standIn(d.operands[slotX]);
    d.operands[3] = standIn(d.operands[slotX]);
    ConceptConstants constants{};
    constants.elementTypes = static_cast<uint32_t>(x.dtype) | static_cast<uint32_t>(to.dtype) << typesOut;
    if (addend) constants.elementTypes |= static_cast<uint32_t>(addend->dtype) << typesW;
    constants.form = addend ? formFirstAddend : 0;
    d.key = pipelineKey(Module::add, addLanes, constants);
    uint64_t groups[3] = {};
    raiseToAdd(extent, groups);
    setGroups(d, groups);
}

uint32_t groupsToCopy(uint32_t words) {
    return divideUp(words, copyLanes);
}

// Words that advance by nothing. A copy of floats could flush what is no normal number as one.
void makeCopy(Dispatch &d, const Operand &x, uint32_t words, const Operand &to) {
    AdvancePush push{};
    push.words = words;
    push.limit = 0xffffffffu;
    push.xStride = push.yStride = 1;
    setPush(d, push);
    d.operands[slotX] = x;
    d.operands[slotX].basePushWord = static_cast<uint32_t>(offsetof(AdvancePush, xBase) / 4);
    d.operands[slotY] = to;
    d.operands[slotY].basePushWord = static_cast<uint32_t>(offsetof(AdvancePush, yBase) / 4);
    d.operands[2] = d.operands[3] = standIn(d.operands[slotX]);
    d.key = pipelineKey(Module::advance, copyLanes, {});
    const uint64_t groups[3] = {groupsToCopy(words), 1, 1};
    setGroups(d, groups);
}

void setGroups(Dispatch &d, const uint64_t (&groups)[3]) {
    for (int axis = 0; axis < 3; ++axis) d.groups[axis] = static_cast<uint32_t>(groups[axis]);
}

void setGroups(Dispatch &d, decltype(Routine::groups) groups, const OperationPlan &plan, const OperationBox &box) {
    uint64_t workgroups[3];
    groups(plan, box, workgroups);
    setGroups(d, workgroups);
}

uint32_t typesOf(const Operation &operation) {
    return static_cast<uint32_t>(operation.tensor(VKATTN_X).dtype) | static_cast<uint32_t>(operation.tensor(VKATTN_Y).dtype) << typesOut;
}

Strides stridesOf(const Operation &operation, vkattn_role role) {
    const Tensor &t = operation.tensor(role);
    return {stride(t, 0), stride(t, 1), stride(t, 2), stride(t, 3)};
}

} // namespace vkattn
