#include "conform/cases/operation_case.hpp"

#include "vkattn/vkattn.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <numeric>
#include <optional>

namespace vkattn::conform {
namespace {

constexpr vkattn_role tensorRolesOf[] = {VKATTN_X,       VKATTN_W,      VKATTN_BIAS,  VKATTN_RESIDUAL, VKATTN_GAMMA, VKATTN_BETA,
                                         VKATTN_SUM,     VKATTN_COS,    VKATTN_SIN,   VKATTN_Y,        VKATTN_D_Y,   VKATTN_D_X,
                                         VKATTN_D_GAMMA, VKATTN_D_BETA, VKATTN_X_LSE, VKATTN_LSE};
constexpr vkattn_role outputRoles[] = {VKATTN_Y, VKATTN_SUM, VKATTN_D_X, VKATTN_D_GAMMA, VKATTN_D_BETA, VKATTN_LSE};

bool isOutputRole(vkattn_role role) {
    return std::find(std::begin(outputRoles), std::end(outputRoles), role) != std::end(outputRoles);
}

const char *nameOfOutput(vkattn_role role) {
    switch (role) {
    case VKATTN_SUM:
        return "sum";
    case VKATTN_D_X:
        return "dX";
    case VKATTN_D_GAMMA:
        return "dGamma";
    case VKATTN_D_BETA:
        return "dBeta";
    case VKATTN_LSE:
        return "lse";
    default:
        return "y";
    }
}

// An extent: small, or around the edges of vectors and tiles.
uint32_t drawExtent(Random &random, uint32_t most) {
    constexpr uint32_t edges[] = {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 127, 130, 255, 257, 300, 520};
    for (;;)
        if (const uint32_t extent = edges[between(random, 0, 21)]; extent <= most) return extent;
}

// A word of X: any, a small count, or one beside a place where the sum turns into the limit.
uint32_t drawWord(const vkattn_advance &a, Random &random) {
    const uint32_t aside = between(random, 0, 4) - 2;
    switch (between(random, 0, 4)) {
    case 0:
        return a.limit + aside;
    case 1:
        return a.limit - a.by + aside;
    case 2:
        return 0 - a.by + aside;
    case 3:
        return between(random, 0, 100);
    default:
        return static_cast<uint32_t>(random());
    }
}

// Some that are often used, the ends, and any.
double drawProbability(Random &random) {
    const double some[] = {0, 0.1, 0.5, 0.9, 1, static_cast<double>(random() % 1000) / 1000};
    return some[between(random, 0, 5)];
}

} // namespace

vkattn_dtype drawType(Random &random) {
    constexpr vkattn_dtype types[] = {VKATTN_F32, VKATTN_F32, VKATTN_F16, VKATTN_BF16};
    return types[between(random, 0, 3)];
}

vkattn_layout drawLayout(Random &random, vkattn_dtype dtype, bool unique, const uint32_t (&extents)[4]) {
    vkattn_layout l{dtype, {extents[0], extents[1], extents[2], extents[3]}, {}, 0};
    int order[4] = {3, 2, 1, 0}; // the fastest first
    if (between(random, 0, 2) == 0) std::shuffle(order, order + 4, random);
    const uint32_t gaps = between(random, 0, 1) * 3;
    int64_t stride = 1;
    for (const int d : order) {
        l.strideElems[d] = stride;
        stride = std::max<int64_t>(stride * l.extent[d] + between(random, 0, gaps), 1);
    }
    l.offsetElems = between(random, 0, 5);
    for (int d = 0; d < 4; ++d) {
        if (!unique && between(random, 0, 15) == 0) l.strideElems[d] = 0;
        if (between(random, 0, 7) != 0 || l.extent[d] < 2) continue;
        l.offsetElems += static_cast<uint64_t>(l.strideElems[d]) * (l.extent[d] - 1);
        l.strideElems[d] = -l.strideElems[d];
    }
    return l;
}

vkattn_operation OperationCase::operation() const {
    vkattn_operation o{};
    o.kind = kind;
    if (kind == VKATTN_PROJECTION) o.of.projection = &projection;
    if (kind == VKATTN_NORM) o.of.norm = &norm;
    if (kind == VKATTN_ROTARY) o.of.rotary = &rotary;
    if (kind == VKATTN_APPEND) o.of.append = &append;
    if (kind == VKATTN_ADVANCE) o.of.advance = &advance;
    if (kind == VKATTN_MEAN) o.of.mean = &mean;
    if (kind == VKATTN_MERGE) o.of.merge = &merge;
    if (kind == VKATTN_HADAMARD) o.of.hadamard = &hadamard;
    if (kind == VKATTN_KEEP) o.of.keep = &keep;
    if (kind == VKATTN_NORM_GRADIENT) o.of.normGradient = &normGradient;
    if (kind == VKATTN_DROP) o.of.drop = &drop;
    return o;
}

vkattn_layout &OperationCase::layout(vkattn_role role) {
    static vkattn_layout none;
    none = {};
    const bool n = kind == VKATTN_NORM, p = kind == VKATTN_PROJECTION, r = kind == VKATTN_ROTARY, a = kind == VKATTN_APPEND,
               m = kind == VKATTN_MEAN, k = kind == VKATTN_KEEP, ng = kind == VKATTN_NORM_GRADIENT, d = kind == VKATTN_DROP,
               g = kind == VKATTN_MERGE, h = kind == VKATTN_HADAMARD;
    switch (role) {
    case VKATTN_X:
        return p    ? projection.x
               : n  ? norm.x
               : r  ? rotary.x
               : a  ? append.x
               : m  ? mean.x
               : g  ? merge.x
               : h  ? hadamard.x
               : k  ? none
               : ng ? normGradient.x
               : d  ? drop.x
                    : advance.x;
    case VKATTN_D_Y:
        return ng ? normGradient.dY : none;
    case VKATTN_D_X:
        return ng ? normGradient.dX : none;
    case VKATTN_D_GAMMA:
        return ng ? normGradient.dGamma : none;
    case VKATTN_D_BETA:
        return ng ? normGradient.dBeta : none;
    case VKATTN_Y:
        return ng  ? none
               : p ? projection.y
               : n ? norm.y
               : r ? rotary.y
               : a ? append.y
               : m ? mean.y
               : g ? merge.y
               : h ? hadamard.y
               : k ? keep.y
               : d ? drop.y
                   : advance.y;
    case VKATTN_X_LSE:
        return g ? merge.xLse : none;
    case VKATTN_LSE:
        return g ? merge.lse : none;
    case VKATTN_RESIDUAL:
        return p ? projection.residual : n ? norm.residual : d ? drop.residual : ng ? normGradient.residual : none;
    case VKATTN_W:
        return p ? projection.w : none;
    case VKATTN_BIAS:
        return p ? projection.bias : none;
    case VKATTN_GAMMA:
        return n ? norm.gamma : ng ? normGradient.gamma : none;
    case VKATTN_BETA:
        return n ? norm.beta : none;
    case VKATTN_SUM:
        return n ? norm.sum : none;
    case VKATTN_COS:
        return r ? rotary.cos : none;
    case VKATTN_SIN:
        return r ? rotary.sin : none;
    default:
        return none;
    }
}

void OperationCase::fill(Random &random) {
    const vkattn_operation o = operation();
    std::normal_distribution<float> normal;
    for (const vkattn_role role : tensorRolesOf) {
        const vkattn_layout l = layout(role);
        if (l.extent[0] == 0 || inPlace.count(role)) continue;
        HostTensor &t = tensors[role];
        t.make(l, vkattnOperationBytes(&o, role), 0xff); // gaps of inputs are NaN
        if (isOutputRole(role)) {
            t.fillRandomly(random);
            continue;
        }
        for (uint32_t b = 0; b < l.extent[0]; ++b)
            for (uint32_t g = 0; g < l.extent[1]; ++g)
                for (uint32_t r = 0; r < l.extent[2]; ++r)
                    for (uint32_t d = 0; d < l.extent[3]; ++d)
                        if (l.dtype == VKATTN_BITS32)
                            t.setWord(b, g, r, d, drawWord(advance, random));
                        else
                            t.set(b, g, r, d, normal(random));
    }
    if (kind == VKATTN_MERGE) drawLse(random);
    if (positions.empty() && presentRoles() & VKATTN_PRESENT(VKATTN_POSITIONS))
        for (uint32_t n = 0; n < rotary.x.extent[0] * rotary.x.extent[2]; ++n)
            positions.push_back(between(random, 0, 9) ? between(random, 0, rotary.cos.extent[2] + 1) : static_cast<uint32_t>(random()));
    if (starts.empty() && presentRoles() & VKATTN_PRESENT(VKATTN_STARTS))
        for (uint32_t b = 0; b < layout(VKATTN_X).extent[0]; ++b)
            starts.push_back(between(random, 0, 9) ? between(random, 0, 12) : 0xffffffffu - between(random, 0, 3));
    if (pageTable.empty() && presentRoles() & VKATTN_PRESENT(VKATTN_PAGE_TABLE)) drawPageTable(random);
    if (presentRoles() & VKATTN_PRESENT(VKATTN_KEY_LENGTHS)) {
        const uint32_t in = projection.x.extent[3];
        for (uint32_t b = static_cast<uint32_t>(lengths.size()); b < projection.x.extent[0]; ++b)
            lengths.push_back(between(random, 0, 9) ? between(random, 0, in + 1) : between(random, 0, 1) ? 0 : ~0u);
        spoilPastLengths();
    }
}

// Apart from ordinary ones, parts that saw nothing, whose X is NaN then, parts that count for nothing beside others,
// and seldom what makes a row NaN.
void OperationCase::drawLse(Random &random) {
    constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    const vkattn_layout x = merge.x, l = merge.xLse;
    const bool shared = std::find(std::begin(x.strideElems), std::end(x.strideElems), 0) != std::end(x.strideElems);
    HostTensor &lse = tensor(VKATTN_X_LSE);
    for (uint32_t e = 0; e < l.extent[0]; ++e)
        for (uint32_t g = 0; g < l.extent[1]; ++g)
            for (uint32_t r = 0; r < l.extent[2]; ++r) {
                const float ordinary = 4 * lse.get(e, g, r, 0);
                const uint32_t which = between(random, 0, 79);
                lse.set(e, g, r, 0,
                        which < 20    ? -infinity
                        : which < 24  ? 1e4f * ordinary
                        : which == 24 ? (random() & 1 ? nan : infinity)
                                      : ordinary);
            }
    for (uint32_t e = 0; e < l.extent[0]; ++e)
        for (uint32_t g = 0; g < l.extent[1]; ++g)
            for (uint32_t r = 0; r < l.extent[2]; ++r)
                for (uint32_t d = 0; d < x.extent[3]; ++d)
                    if (!shared && lse.get(e, g, r, 0) == -infinity) tensor(VKATTN_X).set(e, g, r, d, nan);
}

// Pages of the pool in any order, each at most once, and absent ones.
void OperationCase::drawPageTable(Random &random) {
    std::vector<uint32_t> pages(append.y.extent[0]);
    std::iota(pages.begin(), pages.end(), 0u);
    std::shuffle(pages.begin(), pages.end(), random);
    for (uint32_t n = 0; n < append.x.extent[0] * append.tablePages; ++n) {
        const uint32_t absent[] = {append.y.extent[0], append.y.extent[0] + between(random, 0, 3), 0xffffffffu, 0x80000000u,
                                   static_cast<uint32_t>(random()) | 0x40000000u};
        const bool present = n < pages.size() && between(random, 0, 4) != 0;
        pageTable.push_back(present ? pages[n] : absent[between(random, 0, 4)]);
    }
}

// Elements that no other batch entry or inner dim shares.
void OperationCase::spoilPastLengths() {
    for (const vkattn_role role : {VKATTN_X, VKATTN_W}) {
        const vkattn_layout l = layout(role);
        const auto shared = [&](int d) { return l.extent[d] > 1 && l.strideElems[d] == 0; };
        if (l.extent[0] != lengths.size() || shared(0) || shared(3)) continue;
        for (uint32_t b = 0; b < l.extent[0]; ++b)
            for (uint32_t g = 0; g < l.extent[1]; ++g)
                for (uint32_t r = 0; r < l.extent[2]; ++r)
                    for (uint32_t k = std::min(lengths[b], l.extent[3]); k < l.extent[3]; ++k)
                        tensor(role).set(b, g, r, k, std::numeric_limits<float>::quiet_NaN());
    }
}

std::vector<vkattn_operand_memory> OperationCase::operandsAfter(OperationCase &before) {
    std::vector<vkattn_operand_memory> all;
    for (auto &[role, t] : before.tensors)
        if (!isOutputRole(role)) all.push_back({role, t.data(), t.bytes()});
    for (const vkattn_role role : outputs()) all.push_back({role, output(role).data(), output(role).bytes()});
    if (presentRoles() & VKATTN_PRESENT(VKATTN_POSITIONS)) all.push_back({VKATTN_POSITIONS, positions.data(), 4 * positions.size()});
    if (presentRoles() & VKATTN_PRESENT(VKATTN_STARTS)) all.push_back({VKATTN_STARTS, starts.data(), 4 * starts.size()});
    if (presentRoles() & VKATTN_PRESENT(VKATTN_PAGE_TABLE)) all.push_back({VKATTN_PAGE_TABLE, pageTable.data(), 4 * pageTable.size()});
    if (presentRoles() & VKATTN_PRESENT(VKATTN_KEY_LENGTHS)) all.push_back({VKATTN_KEY_LENGTHS, lengths.data(), 4 * lengths.size()});
    return all;
}

std::vector<vkattn_operand_memory> OperationCase::operands() {
    return operandsAfter(*this);
}

std::vector<vkattn_role> OperationCase::outputs() const {
    std::vector<vkattn_role> all;
    for (const vkattn_role role : outputRoles)
        if (const_cast<OperationCase *>(this)->layout(role).extent[0] != 0) all.push_back(role);
    return all;
}

uint32_t OperationCase::presentRoles() const {
    return kind == VKATTN_ROTARY       ? rotary.presentRoles
           : kind == VKATTN_APPEND     ? append.presentRoles
           : kind == VKATTN_PROJECTION ? projection.presentRoles
                                       : 0;
}

uint32_t OperationCase::start(uint32_t b) const {
    return !starts.empty() ? starts[b] : kind == VKATTN_ROTARY ? rotary.start : append.start;
}

bool OperationCase::writes(vkattn_role, uint32_t b, uint32_t, uint32_t row) const {
    if (kind == VKATTN_MERGE) return b < merge.y.extent[0]; // of what may be the memory of all parts
    if (kind == VKATTN_APPEND) return appendsTo(b, row);
    return kind != VKATTN_ROTARY || !(rotary.flags & VKATTN_ROTARY_APPEND) || (row >= start(b) && row - start(b) < rotary.x.extent[2]);
}

bool OperationCase::appendsTo(uint32_t entry, uint32_t row) const {
    const uint32_t tokens = append.x.extent[2], cacheTokens = append.y.extent[2], pages = append.tablePages;
    const uint64_t capacity = uint64_t{cacheTokens} * std::max(pages, 1u);
    const auto comesTo = [&](uint32_t b, uint64_t position) {
        if (!(append.flags & VKATTN_APPEND_RING)) return position >= start(b) && position - start(b) < tokens;
        return start(b) < 0x80000000u && (position + capacity - start(b) % capacity) % capacity < tokens;
    };
    if (pages == 0) return comesTo(entry, row);
    for (uint32_t n = 0; n < pageTable.size(); ++n)
        if (pageTable[n] == entry && comesTo(n / pages, uint64_t{n % pages} * cacheTokens + row)) return true;
    return false;
}

std::string OperationCase::text() {
    std::string all = vkattnOperationName(kind);
    const auto add = [&](const char *name, uint64_t value) { all += std::string(" ") + name + " " + std::to_string(value); };
    for (const vkattn_role role : tensorRolesOf) {
        const vkattn_layout &l = layout(role);
        if (l.extent[0] == 0) continue;
        all += "\nrole " + std::to_string(role) + " dtype " + std::to_string(l.dtype);
        for (int d = 0; d < 4; ++d) all += "  " + std::to_string(l.extent[d]) + " by " + std::to_string(l.strideElems[d]);
        if (inPlace.count(role)) add("in place of", inPlace.at(role));
    }
    add("\nprojection kernel", projection.kernel), add("flags", projection.flags), add("norm", norm.kind),
        add("rotary flags", rotary.flags), add("pairs", rotary.pairs), add("by", advance.by), add("limit", advance.limit);
    add("parts", merge.parts), add("block", hadamard.block), add("append flags", append.flags), add("start", append.start),
        add("table pages", append.tablePages);
    for (const uint32_t each : starts) add("starts", each);
    for (const uint32_t page : pageTable) add("page", page);
    for (const uint32_t length : lengths) add("length", length);
    if (kind == VKATTN_KEEP)
        add("threshold", static_cast<uint64_t>(keep.probability * 0x1p32)), add("seed", keep.seed), add("offset", keep.offset),
            add("columns", keep.columns);
    if (kind == VKATTN_DROP)
        add("threshold", static_cast<uint64_t>(drop.probability * 0x1p32)), add("seed", drop.seed), add("offset", drop.offset),
            add("first row", drop.firstRow), add("first plane", drop.firstPlane);
    return all;
}

OperationOutcome verifyOutputs(const vkattn_operation &operation, const std::vector<vkattn_operand_memory> &memory,
                               const char *(*nameOf)(vkattn_role), float probabilityUnit, float probabilityFloor) {
    OperationOutcome outcome;
    vkattn_verify_report &r = outcome.report;
    vkattn_verify_options options{};
    options.structSize = sizeof options;
    options.allRows = 1;
    options.threads = 1; // starting threads takes longer than checking small cases
    options.probabilityUnit = probabilityUnit;
    options.probabilityFloor = probabilityFloor;
    vkattn_diagnostic why{};
    if (vkattnCpuVerifyOperation(&operation, memory.data(), static_cast<uint32_t>(memory.size()), &options, &r, &why) != VKATTN_OK) {
        outcome.wrong = std::string("cannot verify: ") + why.message;
        return outcome;
    }
    if (r.passed) return outcome;
    char text[300];
    std::snprintf(text, sizeof text, "%s at [%u, %u, %u, %u]: got %.10g, expected %.10g, error %.3g, bound %.3g", nameOf(r.worstRole),
                  r.worstIndex[0], r.worstIndex[1], r.worstIndex[2], r.worstIndex[3], r.worstGot, r.worstExpected, r.worstError,
                  r.worstBound);
    outcome.wrong = text;
    return outcome;
}

OperationOutcome judge(OperationCase &after, OperationCase &before) {
    OperationOutcome outcome = verifyOutputs(after.operation(), after.operandsAfter(before), nameOfOutput);
    if (!outcome.wrong.empty()) return outcome;
    for (auto &[role, tensor] : after.tensors) {
        std::optional<vkattn_role> written; // the output whose memory it is
        for (const vkattn_role each : after.outputs())
            if (&after.output(each) == &tensor) written = each;
        const auto mayChange = [&](uint32_t b, uint32_t g, uint32_t row, uint32_t) { return written && after.writes(*written, b, g, row); };
        if (const std::string damage = tensor.damage(before.tensor(role), mayChange); !damage.empty()) {
            outcome.wrong = "memory of role " + std::to_string(role) + ": " + damage;
            return outcome;
        }
    }
    return outcome;
}

OperationCase drawOperation(Random &random, vkattn_operation_kind kind) {
    OperationCase c;
    c.kind = kind;
    const auto yes = [&] { return between(random, 0, 1) == 1; };
    const auto make = [&](const uint32_t(&extents)[4], bool output = false) {
        return drawLayout(random, drawType(random), output, extents);
    };
    const uint32_t batch = between(random, 1, 2), groups = between(random, 1, 3);
    const auto broadcast = [&](uint32_t extent) { return yes() ? extent : 1; };
    uint32_t rows = between(random, 0, 30) ? drawExtent(random, yes() ? 9 : 130) : 0;
    if (kind == VKATTN_PROJECTION) {
        const uint32_t in = drawExtent(random, yes() ? 520 : 40), out = drawExtent(random, 130);
        c.projection.structSize = sizeof c.projection;
        c.projection.flags = yes() ? uint32_t{VKATTN_DETERMINISTIC} : 0;
        c.projection.x = make({batch, groups, rows, in});
        // AUTO takes only some routines on a device.
        constexpr vkattn_projection_kernel routines[] = {VKATTN_PROJECTION_AUTO,     VKATTN_PROJECTION_AUTO, VKATTN_PROJECTION_SHARED,
                                                         VKATTN_PROJECTION_SHUFFLED, VKATTN_PROJECTION_FEW,  VKATTN_PROJECTION_COOPMAT};
        c.projection.kernel = routines[between(random, 0, 5)];
        c.projection.w = make({broadcast(batch), broadcast(groups), out, in});
        if (c.projection.kernel == VKATTN_PROJECTION_COOPMAT) // what it takes
            c.projection.x.dtype = c.projection.w.dtype = yes() ? VKATTN_F16 : VKATTN_BF16;
        if (yes()) c.projection.bias = make({broadcast(batch), broadcast(groups), 1, out});
        if (yes()) c.projection.residual = make({batch, groups, rows, out});
        c.projection.y = make({batch, groups, rows, out}, true);
        if (c.projection.residual.extent[0] && yes()) {
            c.projection.residual = c.projection.y;
            c.inPlace[VKATTN_Y] = VKATTN_RESIDUAL;
        }
        if (between(random, 0, 2) == 0) c.projection.presentRoles = VKATTN_PRESENT(VKATTN_KEY_LENGTHS);
    } else if (kind == VKATTN_NORM) {
        const uint32_t dims = drawExtent(random, 520);
        c.norm.structSize = sizeof c.norm;
        c.norm.kind = yes() ? VKATTN_LAYER_NORM : VKATTN_RMS_NORM;
        c.norm.epsilon = 1e-5f;
        c.norm.x = make({batch, groups, rows, dims});
        if (yes()) c.norm.residual = make({batch, groups, rows, dims});
        if (yes()) c.norm.gamma = make({1, 1, 1, dims});
        if (yes()) c.norm.beta = make({1, 1, 1, dims});
        if (yes()) c.norm.sum = make({batch, groups, rows, dims}, true);
        c.norm.y = make({batch, groups, rows, dims}, true);
        const bool residual = c.norm.residual.extent[0] != 0;
        if (yes()) {
            const vkattn_role input = residual && yes() ? VKATTN_RESIDUAL : VKATTN_X;
            c.layout(input) = c.norm.y;
            c.inPlace[VKATTN_Y] = input;
        }
        if (c.norm.sum.extent[0] && residual && yes()) {
            const vkattn_role free = c.inPlace.count(VKATTN_Y) && c.inPlace[VKATTN_Y] == VKATTN_X ? VKATTN_RESIDUAL : VKATTN_X;
            c.layout(free) = c.norm.sum;
            c.inPlace[VKATTN_SUM] = free;
        }
    } else if (kind == VKATTN_NORM_GRADIENT) {
        rows = std::max(rows, 1u);
        const uint32_t dims = drawExtent(random, 520), asked = between(random, 1, 7);
        c.normGradient.structSize = sizeof c.normGradient;
        c.normGradient.kind = yes() ? VKATTN_LAYER_NORM : VKATTN_RMS_NORM;
        c.normGradient.epsilon = 1e-5f;
        c.normGradient.x = make({batch, groups, rows, dims});
        if (yes()) c.normGradient.gamma = make({1, 1, 1, dims});
        c.normGradient.dY = make({batch, groups, rows, dims});
        if (asked & 1) c.normGradient.dX = make({batch, groups, rows, dims}, true);
        if (asked & 1 && yes()) c.normGradient.residual = make({batch, groups, rows, dims});
        if (asked & 2) c.normGradient.dGamma = make({1, 1, 1, dims}, true);
        if (asked & 4) c.normGradient.dBeta = make({1, 1, 1, dims}, true);
    } else if (kind == VKATTN_ROTARY) {
        const uint32_t dims = std::max(drawExtent(random, 300), 2u), half = between(random, 1, dims / 2),
                       positions = drawExtent(random, 40);
        const bool appends = yes();
        c.rotary.structSize = sizeof c.rotary;
        c.rotary.flags = (appends ? uint32_t{VKATTN_ROTARY_APPEND} : 0) | (yes() ? uint32_t{VKATTN_ROTARY_INVERSE} : 0);
        c.rotary.pairs = yes() ? VKATTN_PAIRS_HALF : VKATTN_PAIRS_INTERLEAVED;
        c.rotary.presentRoles = yes() ? VKATTN_PRESENT(VKATTN_POSITIONS) : 0;
        if (appends || !c.rotary.presentRoles) {
            if (yes())
                c.rotary.presentRoles |= VKATTN_PRESENT(VKATTN_STARTS);
            else
                c.rotary.start = yes() ? between(random, 0, 20) : 1u << 30;
        }
        c.rotary.x = make({batch, groups, rows, dims});
        c.rotary.cos = drawLayout(random, VKATTN_F32, false, {1, 1, positions, half});
        c.rotary.sin = drawLayout(random, VKATTN_F32, false, {1, 1, positions, half});
        c.rotary.y = make({batch, groups, appends ? between(random, 0, 40) : rows, dims}, true);
        if (!appends && yes()) {
            c.rotary.x = c.rotary.y;
            c.inPlace[VKATTN_Y] = VKATTN_X;
        }
    } else if (kind == VKATTN_ADVANCE) {
        // Many words: several workgroups, and several boxes where limits are tight.
        const uint32_t words = between(random, 0, 3) ? rows : between(random, 1, 20000);
        c.advance.structSize = sizeof c.advance;
        c.advance.by = between(random, 0, 3) ? between(random, 0, 20) : static_cast<uint32_t>(random());
        c.advance.limit = yes() ? 0xffffffffu : yes() ? between(random, 0, 100) : static_cast<uint32_t>(random());
        c.advance.x = drawLayout(random, VKATTN_BITS32, false, {1, 1, 1, words});
        c.advance.y = drawLayout(random, VKATTN_BITS32, true, {1, 1, 1, words});
        if (yes()) {
            c.advance.x = c.advance.y;
            c.inPlace[VKATTN_Y] = VKATTN_X;
        }
    } else if (kind == VKATTN_MEAN) {
        // Around the ends of runs of groups, too.
        const uint32_t dims = between(random, 0, 30) ? drawExtent(random, 300) : 0, averaged = drawExtent(random, yes() ? 9 : 70);
        c.mean.structSize = sizeof c.mean;
        c.mean.x = make({batch, averaged, rows, dims});
        c.mean.y = make({batch, 1, rows, dims}, true);
    } else if (kind == VKATTN_MERGE) {
        const uint32_t dims = drawExtent(random, 300), parts = yes() ? between(random, 1, 4) : drawExtent(random, 33);
        c.merge =
            vkattn::merge(parts, make({parts * batch, groups, rows, dims}),
                          drawLayout(random, VKATTN_F32, false, {parts * batch, groups, rows, 1}), make({batch, groups, rows, dims}, true));
        if (yes()) c.merge.lse = drawLayout(random, VKATTN_F32, true, {batch, groups, rows, 1});
        // Onto the first part, of which the first batch entry is the first in memory.
        const auto inPlace = [&](vkattn_role output, vkattn_role input) {
            vkattn_layout &from = c.layout(input), &to = c.layout(output);
            from = drawLayout(random, from.dtype, true, {from.extent[0], from.extent[1], from.extent[2], from.extent[3]});
            if (from.strideElems[0] < 0) return;
            to = from;
            to.extent[0] = batch;
            c.inPlace[output] = input;
        };
        if (yes()) inPlace(VKATTN_Y, VKATTN_X);
        if (c.merge.lse.extent[0] && yes()) inPlace(VKATTN_LSE, VKATTN_X_LSE);
    } else if (kind == VKATTN_HADAMARD) {
        // Blocks of every size, some rows of several pieces; many rows have small ones, as the oracle takes dims * block.
        const uint32_t most = rows > 9 ? 256 : 4096, block = 2u << between(random, 0, rows > 9 || between(random, 0, 3) ? 5 : 9);
        const uint32_t dims = block * std::min(between(random, 0, 9) ? between(random, 1, 9) : 40, most / block);
        c.hadamard = vkattn::hadamard(make({batch, groups, rows, dims}), make({batch, groups, rows, dims}, true));
        if (yes()) c.hadamard.block = block;
        if (yes()) {
            c.hadamard.x = c.hadamard.y;
            c.inPlace[VKATTN_Y] = VKATTN_X;
        }
    } else if (kind == VKATTN_KEEP) {
        const uint32_t columns = between(random, 0, 30) ? drawExtent(random, 520) : 0;
        c.keep.structSize = sizeof c.keep;
        c.keep.probability = drawProbability(random);
        c.keep.seed = random();
        c.keep.offset = static_cast<uint32_t>(random());
        c.keep.columns = columns;
        c.keep.y = drawLayout(random, VKATTN_BITS32, true, {batch, groups, rows, columns / 32 + (columns % 32 ? 1u : 0u)});
    } else if (kind == VKATTN_DROP) {
        const uint32_t columns = between(random, 0, 30) ? drawExtent(random, 520) : 0;
        c.drop.structSize = sizeof c.drop;
        c.drop.probability = drawProbability(random);
        c.drop.seed = random();
        c.drop.offset = static_cast<uint32_t>(random());
        if (yes()) c.drop.firstRow = between(random, 0, 1u << 30), c.drop.firstPlane = static_cast<uint32_t>(random()) >> 1;
        c.drop.x = make({batch, groups, rows, columns});
        if (yes()) c.drop.residual = make({batch, groups, rows, columns});
        c.drop.y = make({batch, groups, rows, columns}, true);
        if (yes()) {
            const vkattn_role input = c.drop.residual.extent[0] && yes() ? VKATTN_RESIDUAL : VKATTN_X;
            c.layout(input) = c.drop.y;
            c.inPlace[VKATTN_Y] = input;
        }
    } else {
        const uint32_t dims = drawExtent(random, 300);
        c.append.structSize = sizeof c.append;
        if (yes())
            c.append.presentRoles = VKATTN_PRESENT(VKATTN_STARTS);
        else
            c.append.start = between(random, 0, 20);
        c.append.x = make({batch, groups, rows, dims});
        c.append.y = make({batch, groups, between(random, 0, 60), dims}, true);
        if (yes()) c.append.flags = VKATTN_APPEND_RING;
        if (yes()) {
            c.append.presentRoles |= VKATTN_PRESENT(VKATTN_PAGE_TABLE);
            c.append.tablePages = between(random, 1, 9);
            c.append.y = make({between(random, 1, 20), groups, between(random, 0, 17), dims}, true);
        }
        if (between(random, 0, 2) == 0) { // a cache of a small type
            constexpr vkattn_dtype small[] = {VKATTN_FP8_E4M3, VKATTN_FP8_E5M2, VKATTN_Q8_0, VKATTN_Q4_0, VKATTN_INT8};
            constexpr Style styles[] = {Style::packed, Style::tokenMajor, Style::padded, Style::reversed, Style::dimMajor};
            const uint32_t *e = c.append.y.extent;
            c.append.y = makeLayout(small[between(random, 0, 4)], {e[0], e[1], e[2], e[3]}, styles[between(random, 0, 4)]);
        }
    }
    c.fill(random);
    return c;
}

OperationCase plainProjection(uint32_t rows, uint32_t in, uint32_t out) {
    OperationCase c;
    c.kind = VKATTN_PROJECTION;
    c.projection.structSize = sizeof c.projection;
    c.projection.x = packed(VKATTN_F32, 1, 1, rows, in);
    c.projection.w = packed(VKATTN_F32, 1, 1, out, in);
    c.projection.y = packed(VKATTN_F32, 1, 1, rows, out);
    return c;
}

OperationCase plainNorm(vkattn_norm_kind kind, uint32_t rows, uint32_t dims) {
    OperationCase c;
    c.kind = VKATTN_NORM;
    c.norm.structSize = sizeof c.norm;
    c.norm.kind = kind;
    c.norm.epsilon = 1e-5f;
    c.norm.x = c.norm.y = packed(VKATTN_F32, 1, 1, rows, dims);
    return c;
}

OperationCase plainRotary(vkattn_rotary_pairs pairs, uint32_t tokens, uint32_t dims, uint32_t rotated, uint32_t positions) {
    OperationCase c;
    c.kind = VKATTN_ROTARY;
    c.rotary.structSize = sizeof c.rotary;
    c.rotary.pairs = pairs;
    c.rotary.x = c.rotary.y = packed(VKATTN_F32, 1, 1, tokens, dims);
    c.rotary.cos = c.rotary.sin = packed(VKATTN_F32, 1, 1, positions, rotated / 2);
    return c;
}

OperationCase plainAppend(uint32_t tokens, uint32_t cacheTokens, uint32_t dims) {
    OperationCase c;
    c.kind = VKATTN_APPEND;
    c.append.structSize = sizeof c.append;
    c.append.x = packed(VKATTN_F32, 1, 1, tokens, dims);
    c.append.y = packed(VKATTN_F32, 1, 1, cacheTokens, dims);
    return c;
}

OperationCase plainAdvance(uint32_t words) {
    OperationCase c;
    c.kind = VKATTN_ADVANCE;
    c.advance = vkattn::advance(vector(VKATTN_BITS32, words), vector(VKATTN_BITS32, words));
    return c;
}

OperationCase plainNormGradient(vkattn_norm_kind kind, uint32_t rows, uint32_t dims) {
    OperationCase c;
    c.kind = VKATTN_NORM_GRADIENT;
    const vkattn_layout x = matrix(VKATTN_F32, rows, dims), row = vector(VKATTN_F32, dims);
    c.normGradient = vkattn::normGradient(kind, x, row, x, x, row, row);
    return c;
}

OperationCase plainMean(uint32_t groups, uint32_t rows, uint32_t dims) {
    OperationCase c;
    c.kind = VKATTN_MEAN;
    c.mean = vkattn::mean(packed(VKATTN_F32, 1, groups, rows, dims), packed(VKATTN_F32, 1, 1, rows, dims));
    return c;
}

OperationCase plainMerge(uint32_t parts, uint32_t heads, uint32_t rows, uint32_t dims) {
    OperationCase c;
    c.kind = VKATTN_MERGE;
    c.merge = vkattn::merge(parts, packed(VKATTN_F32, parts, heads, rows, dims), packed(VKATTN_F32, parts, heads, rows, 1),
                            packed(VKATTN_F32, 1, heads, rows, dims));
    c.merge.lse = packed(VKATTN_F32, 1, heads, rows, 1);
    return c;
}

OperationCase plainHadamard(uint32_t heads, uint32_t rows, uint32_t dims) {
    OperationCase c;
    c.kind = VKATTN_HADAMARD;
    const vkattn_layout x = packed(VKATTN_F32, 1, heads, rows, dims);
    c.hadamard = vkattn::hadamard(x, x);
    return c;
}

OperationCase plainKeep(uint32_t groups, uint32_t rows, uint32_t columns) {
    OperationCase c;
    c.kind = VKATTN_KEEP;
    c.keep = vkattn::keep(0.1, 42, 7, columns, packed(VKATTN_BITS32, 1, groups, rows, (columns + 31) / 32));
    return c;
}

OperationCase plainDrop(uint32_t groups, uint32_t rows, uint32_t columns) {
    OperationCase c;
    c.kind = VKATTN_DROP;
    const vkattn_layout x = packed(VKATTN_F32, 1, groups, rows, columns);
    c.drop = vkattn::drop(0.1, 42, 7, x, x);
    c.drop.residual = x;
    return c;
}

} // namespace vkattn::conform
