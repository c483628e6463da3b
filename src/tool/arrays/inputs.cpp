#include "tool/arrays/inputs.hpp"

#include "program/failure.hpp"
#include "program/note.hpp"
#include "tool/arrays/convert.hpp"
#include "tool/arrays/shapes.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace vkattn::tool {
using namespace program;
namespace {

constexpr size_t chunkItems = 65536; // of conversions: at most 512 KiB of file at a time

NpyFile openFile(const std::string &path) {
    std::string why;
    std::optional<NpyFile> file = NpyFile::open(path, why);
    if (!file) throw Failure(path + ": " + why);
    return std::move(*file);
}

// The ranks of a tensor's file, and what the dimensions are.
struct Ranks {
    size_t least, most;
    const char *dimensions;
};
Ranks ranksOf(vkattn_role role, bool hasHeads) {
    switch (role) {
    case VKATTN_X:
    case VKATTN_CONTEXT:
        if (!hasHeads) return {2, 3, "[token, model] or [batch, token, model]"};
        break;
    case VKATTN_MASK:
    case VKATTN_BIAS:
    case VKATTN_D_WEIGHTS:
        return {2, 4, "[query, key], [head, query, key] or [batch, head, query, key]"};
    case VKATTN_BIT_MASK:
        return {2, 4, "[query, word], [head, query, word] or [batch, head, query, word]"};
    case VKATTN_D_LSE:
    case VKATTN_PRIOR_LSE:
        return {1, 3, "[query], [head, query] or [batch, head, query]"};
    case VKATTN_X_LSE:
        return {1, 3, "[token], [head, token] or [batch, head, token]"};
    case VKATTN_DECAY:
        return {1, 4, "[token], [head, token], [batch, head, token] or [batch, head, token, dim]"};
    case VKATTN_WRITE_STRENGTH:
        return {1, 3, "[token], [head, token] or [batch, head, token]"};
    case VKATTN_OMEGA:
        return {2, 3, "[feature, dim] or [head, feature, dim]"};
    case VKATTN_STATE_IN:
    case VKATTN_D_STATE_OUT:
        return {2, 4, "[dim, value dim], [head, dim, value dim] or [batch, head, dim, value dim]"};
    case VKATTN_COS:
    case VKATTN_SIN:
        return {2, 2, "[position, dims / 2]"};
    case VKATTN_W: // over tokens
        return {2, 3, "[row, token] or [head, row, token]"};
    case VKATTN_WQ:
    case VKATTN_WK:
    case VKATTN_WV:
    case VKATTN_WO:
        return {2, 2, "[out, in]"};
    case VKATTN_BQ:
    case VKATTN_BK:
    case VKATTN_BV:
    case VKATTN_BO:
        return {1, 1, "[out]"};
    case VKATTN_GAMMA:
    case VKATTN_BETA:
        return {1, 1, "[model]"};
    default:
        break;
    }
    return {2, 4, "[token, dim], [head, token, dim] or [batch, head, token, dim]"};
}

std::string roundedTypeName(vkattn_dtype dtype) {
    return dtype == VKATTN_F32 ? "float32" : dtype == VKATTN_F16 ? "float16" : "bfloat16";
}

} // namespace

Input::Input(vkattn_role role, const std::string &option, const std::string &path, bool hasHeads)
    : role_(role), option_(option), path_(path), file_(openFile(path)) {
    checkType();
    if (!isSmallArray(role_)) makeLayout(hasHeads);
}

void Input::fail(const std::string &reason) const {
    throw Failure(path_ + ": " + reason);
}

void Input::checkType() const {
    const NpyType type = header().type;
    const std::string found = "it holds " + npyTypeName(type) + ", but " + option_ + " takes ";
    if (isProgramBuffer(role_)) {
        if (type != npyFloat32 && type != npyInt32 && type != npyUint32 && type != npyInt64)
            fail(found + "numbers of 32 bits, float32, int32 or uint32 (int64 is converted): convert with array.astype(np.float32)");
        if (header().fortranOrder && header().shape.size() > 1)
            fail("it is in Fortran order, but " + option_ + " takes C order: save np.ascontiguousarray(array)");
        return;
    }
    switch (role_) {
    case VKATTN_MASK:
        if (type != npyBool && type != npyUint8)
            fail(found + "bool or uint8: save array != 0, or give additive values of a floating dtype to --bias");
        return;
    case VKATTN_GLOBAL_TOKENS:
    case VKATTN_BLOCK_MASK:
        if (type != npyBool && type != npyUint8) fail(found + "bool or uint8: save array != 0");
        return;
    case VKATTN_BIT_MASK:
        if (type != npyUint32)
            fail(found + "uint32, 32 keys in a word: give a boolean mask to --mask, or pack it with np.packbits(mask, axis=-1, "
                         "bitorder='little'), padded to 4 bytes and viewed as np.uint32");
        return;
    case VKATTN_KEY_LENGTHS:
    case VKATTN_PREFIX_LENGTHS:
    case VKATTN_QUERY_OFFSETS:
    case VKATTN_KEY_OFFSETS:
    case VKATTN_CU_SEQ_Q:
    case VKATTN_CU_SEQ_K:
    case VKATTN_STARTS:
    case VKATTN_PAGE_TABLE:
    case VKATTN_PAGE_INDPTR:
    case VKATTN_PAGE_INDICES:
    case VKATTN_LAST_PAGE_LENGTHS:
        if (type != npyInt32 && type != npyInt64) fail(found + "int32 or int64: convert with array.astype(np.int32)");
        return;
    case VKATTN_COS:
    case VKATTN_SIN:
    case VKATTN_OMEGA:
    case VKATTN_STATE_IN:
    case VKATTN_D_STATE_OUT:
        if (type != npyFloat32) fail(found + "float32: convert with array.astype(np.float32)");
        return;
    case VKATTN_POSITIONS:
    case VKATTN_DOC_IDS_Q:
    case VKATTN_DOC_IDS_K:
        if (type != npyInt32 && type != npyInt64 && type != npyUint32)
            fail(found + "int32, int64 or uint32: convert with array.astype(np.int32)");
        return;
    default:
        if (type != npyFloat16 && type != npyFloat32 && type != npyFloat64)
            fail(found + "float32 or float16 (float64 is converted): " +
                 (role_ == VKATTN_BIAS && type.itemBytes == 1 ? "give a boolean mask to --mask" : "convert with array.astype(np.float32)"));
    }
}

void Input::makeLayout(bool hasHeads, bool hasDims) {
    const std::vector<uint64_t> &shape = header().shape;
    const Ranks ranks = ranksOf(role_, hasHeads);
    if (shape.size() < ranks.least || shape.size() > ranks.most)
        fail("shape " + npyShapeText(shape) + " has " + std::to_string(shape.size()) + (shape.size() == 1 ? " dimension" : " dimensions") +
             ", expected " + std::to_string(ranks.least) + (ranks.most > ranks.least ? " to " + std::to_string(ranks.most) : "") + ": " +
             ranks.dimensions);
    for (const uint64_t extent : shape)
        if (extent > std::numeric_limits<uint32_t>::max())
            fail("shape " + npyShapeText(shape) + " has a dimension of " + std::to_string(extent) + ", expected at most 4294967295");

    // A number for each row: the last dimension is 1.
    const bool ofTokens = role_ == VKATTN_WRITE_STRENGTH || (role_ == VKATTN_DECAY && !hasDims && shape.size() < 4);
    const bool isLse = role_ == VKATTN_D_LSE || role_ == VKATTN_X_LSE || role_ == VKATTN_PRIOR_LSE, ofRows = isLse || ofTokens;
    layout_.dtype = role_ == VKATTN_MASK                    ? VKATTN_BOOL8
                    : role_ == VKATTN_BIT_MASK              ? VKATTN_BITS32
                    : header().type == npyFloat16 && !isLse ? VKATTN_F16
                                                            : VKATTN_F32;
    const size_t missing = 4 - shape.size() - (ofRows ? 1 : 0);
    std::fill_n(layout_.extent, 4, 1u);
    // The product of non-zero extents fits in 63 bits (npy.hpp), so no stride overflows.
    int64_t stride = 1;
    const auto place = [&](size_t i) {
        layout_.extent[missing + i] = static_cast<uint32_t>(shape[i]);
        layout_.strideElems[missing + i] = stride;
        stride *= static_cast<int64_t>(shape[i]);
    };
    if (header().fortranOrder)
        for (size_t i = 0; i < shape.size(); i++) place(i);
    else
        for (size_t i = shape.size(); i-- > 0;) place(i);
}

void Input::roundTo(vkattn_dtype dtype) {
    layout_.dtype = dtype;
    rounded_ = true;
}

std::string Input::text() const {
    return path_ + " " + npyShapeText(header().shape) + " " + npyTypeName(header().type);
}

void Input::read(std::span<std::byte> into) {
    std::string why;
    if (!file_.read(into, why)) fail(why);
}

HostBuffer Input::load(const vkattn_operation &operation) {
    HostBuffer buffer(static_cast<size_t>(vkattnOperationBytes(&operation, role_)));
    switch (role_) {
    case VKATTN_MASK:
    case VKATTN_BIT_MASK:
        read(buffer.span());
        break;
    case VKATTN_KEY_LENGTHS:
    case VKATTN_PREFIX_LENGTHS:
        readClamped(buffer, 0, operation.kind == VKATTN_PROJECTION ? operation.of.projection->x.extent[3] : keysOf(*operation.of.attention),
                    role_ == VKATTN_PREFIX_LENGTHS ? "prefix lengths" : "key lengths");
        break;
    case VKATTN_QUERY_OFFSETS:
    case VKATTN_KEY_OFFSETS:
        readClamped(buffer, -VKATTN_MAX_OFFSET, VKATTN_MAX_OFFSET, "offsets");
        break;
    case VKATTN_GLOBAL_TOKENS:
        readGlobalTokens(buffer, operation.of.attention->maxSeqK > 0 ? operation.of.attention->maxSeqK : keysOf(*operation.of.attention));
        break;
    case VKATTN_PAGE_TABLE:
    case VKATTN_PAGE_INDICES:
        readPages(buffer, (operation.kind == VKATTN_APPEND ? operation.of.append->y : operation.of.attention->k).extent[0]);
        break;
    case VKATTN_PAGE_INDPTR:
        std::memcpy(buffer.data(), offsets_.data(), buffer.bytes());
        break;
    case VKATTN_LAST_PAGE_LENGTHS:
        readClamped(buffer, 1, operation.of.attention->k.extent[2], "lengths of last pages");
        break;
    case VKATTN_BLOCK_MASK:
        if (header().fortranOrder && header().shape.size() > 1)
            fail("it is in Fortran order, but " + option_ + " takes C order: save np.ascontiguousarray(array)");
        read(buffer.span());
        break;
    case VKATTN_CU_SEQ_Q:
    case VKATTN_CU_SEQ_K:
        std::memcpy(buffer.data(), offsets_.data(), buffer.bytes());
        break;
    case VKATTN_DOC_IDS_Q:
        readDocumentIds(buffer, operation.of.attention->q.extent[2]);
        break;
    case VKATTN_DOC_IDS_K:
        readDocumentIds(buffer, keysOf(*operation.of.attention));
        break;
    default:
        if (isProgramBuffer(role_))
            readProgramBuffer(buffer);
        else
            readConverted(buffer, isSmallArray(role_) ? VKATTN_F32 : layout_.dtype);
    }
    return buffer;
}

HostBuffer Input::load() {
    const uint32_t *extent = layout_.extent;
    const uint64_t elements = uint64_t{extent[0]} * extent[1] * extent[2] * extent[3];
    HostBuffer buffer(static_cast<size_t>(elements * (layout_.dtype == VKATTN_F32 ? sizeof(float) : sizeof(uint16_t))));
    readConverted(buffer, layout_.dtype);
    return buffer;
}

void Input::readConverted(const HostBuffer &into, vkattn_dtype dtype) {
    const NpyType type = header().type;
    if (type == (dtype == VKATTN_F32 ? npyFloat32 : npyFloat16) && dtype != VKATTN_BF16) return read(into.span());

    // A finite bias stays finite: -infinity would hide the pair, which is another meaning; an
    // infinite slope is NaN at distance 0.
    const bool clamps = role_ == VKATTN_BIAS || isSmallArray(role_);
    constexpr double largest = std::numeric_limits<float>::max();
    const size_t items = static_cast<size_t>(header().dataBytes / type.itemBytes);
    std::vector<std::byte> chunk(std::min(items, chunkItems) * type.itemBytes);
    std::vector<float> floats(std::min(items, chunkItems));
    uint64_t tooLarge = 0;
    for (size_t begin = 0; begin < items; begin += chunkItems) {
        const size_t count = std::min(chunkItems, items - begin);
        read(std::span(chunk).first(count * type.itemBytes));
        if (type == npyFloat16)
            convert(VKATTN_F16, chunk.data(), VKATTN_F32, floats.data(), count);
        else if (type == npyFloat32)
            std::memcpy(floats.data(), chunk.data(), count * sizeof(float));
        else
            for (size_t i = 0; i < count; i++) {
                double value = 0;
                std::memcpy(&value, chunk.data() + i * sizeof value, sizeof value);
                floats[i] = dtype == VKATTN_F32 ? static_cast<float>(value) : roundedToOdd(value);
                if (!std::isinf(floats[i]) || std::isinf(value)) continue;
                tooLarge++;
                if (clamps) floats[i] = static_cast<float>(std::copysign(largest, value));
            }
        if (dtype == VKATTN_F32) {
            std::memcpy(into.data() + begin * sizeof(float), floats.data(), count * sizeof(float));
            continue;
        }
        std::byte *target = into.data() + begin * sizeof(uint16_t);
        convert(VKATTN_F32, floats.data(), dtype, target, count);
        const uint16_t infinity = dtype == VKATTN_F16 ? 0x7c00 : 0x7f80;
        for (size_t i = 0; i < count; i++) {
            uint16_t bits = 0;
            std::memcpy(&bits, target + i * sizeof bits, sizeof bits);
            tooLarge += (bits & 0x7fff) == infinity && !std::isinf(floats[i]) ? 1 : 0;
        }
    }
    if (tooLarge == 0 && (rounded_ || type != npyFloat64)) return; // asked for, or exact
    std::string text = path_ + ": " + npyTypeName(type) + (rounded_ ? " rounded to " : " converted to ") + roundedTypeName(dtype);
    if (tooLarge > 0)
        text += "; " + std::to_string(tooLarge) + " values beyond its range became " + (clamps ? "the largest finite ones" : "infinite");
    printNote(text);
}

template <class Visit> void Input::readIntegers(const Visit &visit) {
    const NpyType type = header().type;
    const uint64_t items = header().dataBytes / type.itemBytes;
    std::vector<std::byte> chunk(static_cast<size_t>(std::min<uint64_t>(items, chunkItems)) * type.itemBytes);
    for (uint64_t begin = 0; begin < items; begin += chunkItems) {
        const auto count = static_cast<size_t>(std::min<uint64_t>(chunkItems, items - begin));
        read(std::span(chunk).first(count * type.itemBytes));
        for (size_t i = 0; i < count; i++) {
            const auto element = [&]<class T>(T value) {
                std::memcpy(&value, chunk.data() + i * sizeof value, sizeof value);
                return int64_t{value};
            };
            visit(begin + i, type.itemBytes == 1 ? element(uint8_t{})
                             : type == npyInt64  ? element(int64_t{})
                             : type == npyUint32 ? element(uint32_t{})
                                                 : element(int32_t{}));
        }
    }
}

// Numbers of batch entries, 32 bits each in memory.
void Input::readClamped(const HostBuffer &into, int64_t least, int64_t most, const char *what) {
    auto *words = reinterpret_cast<uint32_t *>(into.data());
    uint64_t clamped = 0;
    std::string first;
    readIntegers([&](uint64_t i, int64_t given) {
        const int64_t number = std::clamp(given, least, most);
        if (number != given && clamped++ == 0)
            first = std::to_string(given) + " of batch entry " + std::to_string(i) + " to " + std::to_string(number);
        words[i] = static_cast<uint32_t>(number);
    });
    if (clamped > 0)
        printNote(path_ + ": " + std::to_string(clamped) + " of " + std::to_string(into.bytes() / sizeof(uint32_t)) + " " + what +
                  " lie outside [" + std::to_string(least) + ", " + std::to_string(most) + "] and were clamped, first " + first);
}

uint32_t Input::readPagePlaces(uint32_t pages) {
    uint32_t most = 1;
    uint64_t clamped = 0;
    for (const int64_t given : readNumbers()) {
        const auto place = static_cast<uint32_t>(std::clamp<int64_t>(given, 0, pages));
        clamped += place != given ? 1 : 0;
        if (!offsets_.empty() && place > offsets_.back()) most = std::max(most, place - offsets_.back());
        offsets_.push_back(place);
    }
    if (clamped > 0)
        printNote(path_ + ": " + std::to_string(clamped) + " of " + std::to_string(offsets_.size()) + " places lie outside [0, " +
                  std::to_string(pages) + "], the number of pages, and were clamped");
    return most;
}

// In C order. What no page of any pool can be becomes -1. A negative entry is how a table says that a page is absent;
// one past the pool is more likely a mistake.
void Input::readPages(const HostBuffer &into, uint32_t poolPages) {
    auto *page = reinterpret_cast<int32_t *>(into.data());
    uint64_t past = 0;
    int64_t first = 0;
    for (const int64_t given : readNumbers()) {
        if (given >= poolPages && past++ == 0) first = given;
        *page++ = given < 0 || given > std::numeric_limits<int32_t>::max() ? -1 : static_cast<int32_t>(given);
    }
    if (past > 0)
        printNote(path_ + ": " + std::to_string(past) + " of " + std::to_string(into.bytes() / sizeof(int32_t)) + " pages lie past the " +
                  std::to_string(poolPages) + " of the pool and count as absent, first " + std::to_string(first));
}

// A bit for each token; one row of a file is that of all batch entries.
void Input::readGlobalTokens(const HostBuffer &into, uint32_t keyTokens) {
    if (into.bytes() == 0) return;
    const std::span<uint32_t> words(reinterpret_cast<uint32_t *>(into.data()), into.bytes() / sizeof(uint32_t));
    std::fill(words.begin(), words.end(), 0u);
    const uint64_t perRow = keyTokens / 32 + (keyTokens % 32 != 0 ? 1 : 0), rows = header().dataBytes / keyTokens;
    readIntegers([&](uint64_t n, int64_t given) {
        const uint64_t row = header().fortranOrder ? n % rows : n / keyTokens, token = header().fortranOrder ? n / rows : n % keyTokens;
        if (given != 0) words[static_cast<size_t>(row * perRow + token / 32)] |= 1u << token % 32;
    });
    for (size_t at = static_cast<size_t>(rows * perRow); at < words.size(); at++)
        words[at] = words[at - static_cast<size_t>(rows * perRow)];
}

uint32_t Input::readOffsets(uint32_t tokens, const char *tokenName) {
    const std::string all = std::to_string(tokens) + " " + tokenName + " tokens";
    uint32_t longest = 0;
    readIntegers([&](uint64_t i, int64_t given) {
        const std::string found = "entry " + std::to_string(i) + " is " + std::to_string(given);
        const std::string advice = ": save np.concatenate(([0], np.cumsum(lengths)))";
        if (given < 0) fail(found + ", expected the offset of a token, 0 or more" + advice);
        if (given > int64_t{std::numeric_limits<uint32_t>::max()})
            fail(found + ", which does not fit in 32 bits, expected an offset of at most " + all + advice);
        if (!offsets_.empty() && given < int64_t{offsets_.back()})
            fail(found + ", below entry " + std::to_string(i - 1) + ", which is " + std::to_string(offsets_.back()) +
                 ", expected offsets that never decrease" + advice);
        if (given > int64_t{tokens}) fail(found + ", past the end of the " + all + advice);
        const auto offset = static_cast<uint32_t>(given);
        if (!offsets_.empty()) longest = std::max(longest, offset - offsets_.back());
        offsets_.push_back(offset);
    });
    if (const uint32_t outside = tokens - (offsets_.back() - offsets_.front()); outside > 0)
        printNote(path_ + ": " + std::to_string(outside) + " of the " + all +
                  " belong to no sequence: " + (role_ == VKATTN_CU_SEQ_Q ? "their rows of the result are 0" : "no query sees them"));
    return longest;
}

void Input::readDocumentIds(const HostBuffer &into, uint32_t tokens) {
    if (into.bytes() == 0) return;
    const std::span<uint32_t> ids(reinterpret_cast<uint32_t *>(into.data()), into.bytes() / sizeof(uint32_t));
    const auto items = static_cast<size_t>(header().dataBytes / header().type.itemBytes);
    readOfTokens(ids.first(items), tokens, std::numeric_limits<uint32_t>::max(),
                 "a document id from 0 to 4294967295: give padding an id of its own, as np.where(ids < 0, ids.max() + 1, ids)");
    // One row for all batch entries.
    for (size_t at = items; at < ids.size(); at++) ids[at] = ids[at - items];
}

void Input::readProgramBuffer(const HostBuffer &into) {
    if (header().type != npyInt64) return read(into.span()); // words as they are
    readIntegers([&](uint64_t n, int64_t given) {
        if (given < std::numeric_limits<int32_t>::min() || given > int64_t{std::numeric_limits<uint32_t>::max()})
            fail("entry " + std::to_string(n) + " is " + std::to_string(given) + ", expected a number of 32 bits");
        const auto word = static_cast<uint32_t>(given);
        std::memcpy(into.data() + n * sizeof word, &word, sizeof word);
    });
}

std::vector<int64_t> Input::readNumbers() {
    const std::vector<uint64_t> &shape = header().shape;
    std::vector<int64_t> numbers(static_cast<size_t>(header().dataBytes / header().type.itemBytes));
    const uint64_t rows = shape.empty() ? 1 : shape[0], columns = numbers.size() / std::max<uint64_t>(rows, 1);
    const bool swapped = header().fortranOrder && shape.size() == 2;
    readIntegers([&](uint64_t n, int64_t given) { numbers[static_cast<size_t>(swapped ? n % rows * columns + n / rows : n)] = given; });
    return numbers;
}

std::vector<uint32_t> Input::readPositions(uint32_t tokens, uint32_t last, const std::string &reason) {
    std::vector<uint32_t> positions(static_cast<size_t>(header().dataBytes / header().type.itemBytes));
    readOfTokens(positions, tokens, last, "a position from 0 to " + std::to_string(last) + ", " + reason);
    return positions;
}

void Input::readOfTokens(std::span<uint32_t> into, uint32_t tokens, uint32_t most, const std::string &expected) {
    if (into.empty()) return;
    const uint64_t rows = into.size() / tokens;
    readIntegers([&](uint64_t n, int64_t given) {
        const uint64_t row = header().fortranOrder ? n % rows : n / tokens, token = header().fortranOrder ? n / rows : n % tokens;
        if (given < 0 || given > int64_t{most}) {
            const std::string at = header().shape.size() > 1 ? std::to_string(row) + ", " + std::to_string(token) : std::to_string(token);
            fail("entry [" + at + "] is " + std::to_string(given) + ", expected " + expected);
        }
        into[static_cast<size_t>(row * tokens + token)] = static_cast<uint32_t>(given);
    });
}

} // namespace vkattn::tool
