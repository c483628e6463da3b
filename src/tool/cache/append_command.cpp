#include "tool/cache/append_command.hpp"

#include "program/note.hpp"
#include "tool/arrays/shapes.hpp"
#include "tool/cache/ordered_array.hpp"
#include "tool/device.hpp"
#include "tool/execution.hpp"

#include <vkattn/operations.hpp>
#include <vkattn/vkattn.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace vkattn::tool {
using namespace program;
namespace {

constexpr uint32_t maxDims = 1u << 20;

enum AppendInput { cacheInput, newInput, positionsInput, tableInput }; // in this order

struct AppendJob : JobArrays {
    vkattn_append append{};
    uint64_t capacity = 0; // of a batch entry
};

void requireShape(const Input &input, const Input &of, std::vector<uint64_t> expected, const char *what) {
    if (input.header().shape != expected)
        throw Failure(input.text() + ": expected " + what + " of " + of.text() + ", shape " + npyShapeText(expected));
}

// The pool as [page, head, token, dim]; it is read in C order.
vkattn_layout poolLayout(const Input &cache, bool headsFirst) {
    const uint32_t *extent = cache.layout().extent;
    return poolOfPages(cache.text(), cache.header().shape.size(), packed(cache.layout().dtype, extent[0], extent[1], extent[2], extent[3]),
                       headsFirst);
}

// Made from headers alone.
AppendJob describeJob(const AppendArguments &arguments) {
    AppendJob job;
    const auto open = [&](vkattn_role role) { job.inputs.emplace_back(role, operandName(arguments, role).option, arguments.files[role]); };
    const bool paged = !arguments.files[VKATTN_PAGE_TABLE].empty();
    for (const vkattn_role role : {VKATTN_CACHE, VKATTN_X, VKATTN_STARTS}) open(role);
    if (paged) open(VKATTN_PAGE_TABLE);
    const Input &cache = job.inputs[cacheInput], &tokens = job.inputs[newInput];
    const Operand added{tokens.text(), tokens.layout()};
    requireSomething(added, maxDims);
    const uint32_t *extent = tokens.layout().extent;
    const Operand to{cache.text(), paged ? poolLayout(cache, arguments.headsFirst)
                                         : dense("--out " + arguments.files[VKATTN_Y], cache.layout().dtype, cache.layout().extent)};
    requireSomething(to, maxDims);
    if (!paged) requireEqual(to, added, batch, "batch");
    requireEqual(to, added, head, "heads");
    requireEqual(to, added, dim, "dims");
    requireShape(job.inputs[positionsInput], tokens, {extent[batch]}, "one position for each batch entry");

    job.append = append(tokens.layout(), to.layout);
    job.append.presentRoles = VKATTN_PRESENT(VKATTN_STARTS);
    if (arguments.ring) job.append.flags = VKATTN_APPEND_RING;
    job.capacity = to.layout.extent[token];
    if (paged) {
        const Input &table = job.inputs[tableInput];
        const std::vector<uint64_t> &shape = table.header().shape;
        if (shape.size() != 2 || shape[0] != extent[batch] || shape[1] == 0 || shape[1] > std::numeric_limits<uint32_t>::max())
            throw Failure(table.text() + ": expected a row of pages for each batch entry of " + tokens.text() + ", shape (" +
                          std::to_string(extent[batch]) + ", pages)");
        job.append.presentRoles |= VKATTN_PRESENT(VKATTN_PAGE_TABLE);
        job.append.tablePages = static_cast<uint32_t>(shape[1]);
        job.capacity *= shape[1];
    }
    const vkattn_operation described = operation(job.append);
    vkattn_diagnostic why{};
    if (vkattnValidateOperation(&described, &why) != VKATTN_OK) failInvalid(why, job);
    job.outputs.push_back(outputArray(arguments, described, VKATTN_Y, to.layout.dtype, cache.header().shape));
    checkMemory(namedBytes(job, described));
    return job;
}

// A position as the library takes it: what has no place stays without one.
uint32_t startOf(int64_t position, const AppendJob &job) {
    if (position < 0) return std::numeric_limits<uint32_t>::max();
    if (job.append.flags & VKATTN_APPEND_RING && job.capacity > 0)
        return static_cast<uint32_t>(static_cast<uint64_t>(position) % job.capacity);
    return static_cast<uint32_t>(std::min<int64_t>(position, std::numeric_limits<int32_t>::max()));
}

// Tells of new tokens that are not written, and of which is the first. `table`: NULL without pages.
void noteLostTokens(const AppendJob &job, const std::vector<int64_t> &positions, const int32_t *table) {
    const uint32_t tokens = job.inputs[newInput].layout().extent[token], *const cache = job.append.y.extent;
    const auto capacity = static_cast<int64_t>(job.capacity);
    uint64_t outside = 0, absent = 0;
    std::string first;
    for (size_t entry = 0; entry < positions.size(); entry++)
        for (uint32_t t = 0; t < tokens; t++) {
            int64_t position = std::min<int64_t>(positions[entry], std::numeric_limits<int64_t>::max() - tokens) + t;
            if (job.append.flags & VKATTN_APPEND_RING && capacity > 0) position %= capacity;
            const bool isOutside = positions[entry] < 0 || position >= capacity;
            if (!isOutside && table) {
                const int32_t page = table[entry * job.append.tablePages + static_cast<uint64_t>(position) / cache[token]];
                if (page >= 0 && static_cast<uint32_t>(page) < cache[batch]) continue;
            }
            if (!isOutside && !table) continue;
            if (outside + absent == 0)
                first = ", first token " + std::to_string(t) + " of batch entry " + std::to_string(entry) +
                        ", whose tokens begin at position " + std::to_string(positions[entry]);
            ++(isOutside ? outside : absent);
        }
    if (outside + absent == 0) return;
    const std::string pages = absent > 0 ? ", and " + std::to_string(absent) + " lie in absent pages" : "";
    printNote(job.inputs[positionsInput].text() + ": of " + std::to_string(tokens * positions.size()) + " new tokens " +
              std::to_string(outside) + " lie outside the " + std::to_string(capacity) + " of a cache" + pages + ": they are not written" +
              first);
}

template <class Word> HostBuffer words(const std::vector<int64_t> &numbers, const Word &word) {
    HostBuffer buffer(numbers.size() * sizeof(uint32_t));
    for (size_t n = 0; n < numbers.size(); n++) {
        const uint32_t value = word(numbers[n]);
        std::memcpy(buffer.data() + n * sizeof value, &value, sizeof value);
    }
    return buffer;
}

HostArrays loadArrays(AppendJob &job) {
    const vkattn_operation described = operation(job.append);
    HostArrays arrays;
    arrays.add(VKATTN_X, job.inputs[newInput].load(described));
    const std::vector<int64_t> positions = job.inputs[positionsInput].readNumbers();
    arrays.add(VKATTN_STARTS, words(positions, [&](int64_t position) { return startOf(position, job); }));
    HostBuffer table;
    if (job.inputs.size() > tableInput) table = job.inputs[tableInput].load(described);
    noteLostTokens(job, positions, job.append.tablePages ? reinterpret_cast<const int32_t *>(table.data()) : nullptr);
    if (job.append.tablePages) arrays.add(VKATTN_PAGE_TABLE, std::move(table));
    HostBuffer cache(static_cast<size_t>(job.outputs[0].bytes));
    loadInCOrder(job.inputs[cacheInput], cache.span());
    arrays.add(VKATTN_Y, std::move(cache));
    return arrays;
}

Json optionsOf(const AppendArguments &arguments, const AppendJob &job) {
    Json json = Json::object();
    if (arguments.ring) json["ring"] = true;
    if (job.append.tablePages) json["pageLayout"] = arguments.headsFirst ? "hnd" : "nhd";
    return json;
}

} // namespace

ExitStatus appendCommand(const AppendArguments &arguments) {
    AppendJob job = describeJob(arguments);
    std::vector<OutputFile> files = openOutputs(arguments, job);
    const std::unique_ptr<Runtime> runtime = openDevice(arguments);
    const HostArrays arrays = loadArrays(job);
    RunReport report{.arguments = arguments, .job = job, .options = optionsOf(arguments, job)};
    report.result = compute(arguments, *runtime, operation(job.append), arrays);
    return finish(std::move(report), operation(job.append), arrays, files);
}

} // namespace vkattn::tool
