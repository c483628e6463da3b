#include "tool/arrays/rotary_job.hpp"

#include "program/failure.hpp"
#include "tool/options/names.hpp"

#include <vkattn/operations.hpp>
#include <vkattn/vkattn.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace vkattn::tool {
using namespace program;
namespace {

constexpr uint32_t maxDim = 1u << 16, maxPosition = std::numeric_limits<uint32_t>::max();
constexpr const char *largestPosition = "the largest number of 32 bits";

Input *find(RotaryJob &job, vkattn_role role) {
    const auto found = std::find_if(job.inputs.begin(), job.inputs.end(), [&](const Input &input) { return input.role() == role; });
    return found == job.inputs.end() ? nullptr : &*found;
}

// How many dims are rotated.
uint32_t rotatedDims(const RotaryArguments &arguments, const Operand &x) {
    const uint32_t dims = x.layout.extent[dim];
    const std::string found = x.text + ": its last dimension (dim) is " + std::to_string(dims);
    if (dims < 2) throw Failure(found + ", expected at least 2: pairs of dims are rotated");
    if (!arguments.dims && dims % 2 != 0)
        throw Failure(found + ", expected an even number, since pairs of dims are rotated: add --dims N to rotate the first N, at most " +
                      std::to_string(dims - 1));
    if (arguments.dims.value_or(0) > dims)
        throw Failure(found + ", and --dims is " + std::to_string(*arguments.dims) + ", expected an even number from 2 to " +
                      std::to_string(dims - dims % 2));
    return arguments.dims.value_or(dims);
}

void checkTables(const Input &cos, const Input &sin, const Operand &x, uint32_t dims) {
    if (cos.header().shape != sin.header().shape)
        disagree({cos.text(), cos.layout()}, {sin.text(), sin.layout()}, "they need the same shape [position, dims / 2]");
    const uint32_t columns = cos.layout().extent[dim];
    if (columns != dims / 2)
        disagree({cos.text(), cos.layout()}, x,
                 "rotating " + std::to_string(dims) + " dims takes " + std::to_string(dims / 2) + " columns, not " +
                     std::to_string(columns) + ": say with --dims how many dims are rotated");
    if (cos.layout().extent[token] == 0) throw Failure(cos.text() + ": has no positions, expected at least one row");
}

void checkLast(const RotaryChoice &choice, const Operand &x, uint32_t last, const std::string &reason) {
    const uint32_t tokens = x.layout.extent[token];
    const uint64_t end = uint64_t{choice.start} + tokens;
    if (tokens > 0 && end - 1 > last)
        throw Failure(choice.option("start") + " " + std::to_string(choice.start) + " puts the last token of " + x.text + " at position " +
                      std::to_string(end - 1) + ", expected at most " + std::to_string(last) + ", " + reason);
}

// Reads the file of positions, where one is given, or checks those that --start means. None may be
// above `last`; `reason` says what `last` is.
void readPositions(const RotaryArguments &arguments, RotaryJob &job, const Operand &x, uint32_t last, const std::string &reason) {
    const uint32_t entries = x.layout.extent[batch], tokens = x.layout.extent[token];
    Input *input = find(job, VKATTN_POSITIONS);
    if (input == nullptr) return checkLast(arguments, x, last, reason);
    std::vector<uint64_t> expected = {entries, tokens}, shape = input->header().shape;
    const std::string allowed = npyShapeText(expected) + (entries == 1 ? " or " + npyShapeText(std::vector<uint64_t>{tokens}) : "");
    if (shape.size() == 1 && entries == 1) shape.insert(shape.begin(), 1);
    if (shape != expected) throw Failure(input->text() + ": expected one position for each token of " + x.text + ", shape " + allowed);
    const uint64_t bytes = uint64_t{entries} * tokens * sizeof(uint32_t);
    checkMemory({{input->path(), bytes}, {"the same in ascending order", bytes}});
    job.positions = input->readPositions(tokens, last, reason);
}

// Positions become rows of tables that hold only the positions that occur.
void compactPositions(const RotaryArguments &arguments, RotaryJob &job, uint32_t tokens) {
    std::vector<uint32_t> &occurring = job.tablePositions;
    if (find(job, VKATTN_POSITIONS) != nullptr) {
        occurring = job.positions;
        std::sort(occurring.begin(), occurring.end());
        occurring.erase(std::unique(occurring.begin(), occurring.end()), occurring.end());
        for (uint32_t &position : job.positions)
            position = static_cast<uint32_t>(std::lower_bound(occurring.begin(), occurring.end(), position) - occurring.begin());
    } else {
        checkMemory({{"the positions", uint64_t{tokens} * sizeof(uint32_t)}});
        occurring.resize(tokens);
        for (uint32_t t = 0; t < tokens; t++) occurring[t] = arguments.start + t;
    }
    // A table has a row, even where there are no tokens.
    if (occurring.empty()) occurring.push_back(0);
}

} // namespace

RotaryJob describeJob(const RotaryArguments &arguments) {
    RotaryJob job;
    job.inputs = openInputs(arguments);
    const Operand x{job.inputs[0].text(), job.inputs[0].layout()};
    requireSomething(x, maxDim);
    const uint32_t *extent = x.layout.extent, dims = rotatedDims(arguments, x);
    const vkattn_layout y =
        dense("--out " + arguments.files[VKATTN_Y], x.layout.dtype, {extent[batch], extent[head], extent[token], extent[dim]});
    const Input *positions = find(job, VKATTN_POSITIONS), *cos = find(job, VKATTN_COS), *sin = find(job, VKATTN_SIN);
    if (cos != nullptr) {
        checkTables(*cos, *sin, x, dims);
        readPositions(arguments, job, x, cos->layout().extent[token] - 1,
                      "the last row of " + cos->text() + ": give longer tables, or leave them out");
        job.rotary = rotary(x.layout, cos->layout(), sin->layout(), y);
        if (positions == nullptr && extent[token] > 0) job.rotary.start = arguments.start;
    } else {
        readPositions(arguments, job, x, maxPosition, largestPosition);
        compactPositions(arguments, job, extent[token]);
        const vkattn_layout table = matrix(VKATTN_F32, static_cast<uint32_t>(job.tablePositions.size()), dims / 2);
        job.rotary = rotary(x.layout, table, table, y);
    }
    job.rotary.pairs = arguments.pairs;
    if (positions != nullptr) job.rotary.presentRoles = VKATTN_PRESENT(VKATTN_POSITIONS);

    const vkattn_operation described = operation(job.rotary);
    vkattn_diagnostic why{};
    if (vkattnValidateOperation(&described, &why) != VKATTN_OK) failInvalid(why, job);
    job.outputs.push_back(outputArray(arguments, described, VKATTN_Y, y.dtype, job.inputs[0].header().shape));
    std::vector<NamedBytes> arrays = namedBytes(job, described);
    if (cos == nullptr)
        arrays.push_back({"the tables of cosines and sines",
                          vkattnOperationBytes(&described, VKATTN_COS) + vkattnOperationBytes(&described, VKATTN_SIN)});
    checkMemory(arrays);
    return job;
}

void checkLastPosition(const RotaryChoice &choice, const Operand &x) {
    checkLast(choice, x, maxPosition, largestPosition);
}

void buildTables(const std::vector<uint32_t> &positions, uint32_t dims, const RotaryChoice &choice, std::span<float> cos,
                 std::span<float> sin) {
    // vkattnSinusoids has the numbers of vkattnRotaryTable, from any position on: the sine of pair
    // i at dim 2i and the cosine behind it.
    const size_t mostRows = std::max<size_t>(1, 65536 / dims);
    std::vector<float> chunk(mostRows * dims);
    vkattn_diagnostic why{};
    for (size_t begin = 0, end = 0; begin < positions.size(); begin = end) {
        while (end < positions.size() && end - begin < mostRows && positions[end] - positions[begin] == end - begin) end++;
        const auto rows = static_cast<uint32_t>(end - begin);
        if (vkattnSinusoids(positions[begin], rows, dims, choice.base, chunk.data(), &why) != VKATTN_OK) throw Failure(why.message);
        for (size_t n = 0, at = begin * (dims / 2); n < size_t{rows} * dims; n += 2, at++) {
            sin[at] = chunk[n];
            cos[at] = chunk[n + 1];
            if (std::isfinite(chunk[n])) continue;
            char text[32];
            std::snprintf(text, sizeof text, "%g", choice.base);
            throw Failure(choice.option("base") + " " + text + " makes the angle of pair " + std::to_string(n % dims / 2) +
                          " at position " + std::to_string(positions[begin + n / dims]) +
                          " infinite, expected a base of 1 or more: 10000 is usual");
        }
    }
}

} // namespace vkattn::tool
