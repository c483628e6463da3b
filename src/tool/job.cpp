#include "job.hpp"

#include <vkattn/vkattn.hpp>

#include <algorithm>
#include <limits>

namespace vkattn::tool {
namespace {

constexpr uint32_t maxDim = 2048;

enum Dimension { batch, head, token, dim };

[[noreturn]] void disagree(const Input &a, const Input &b, const std::string &rule) {
    throw Failure("shapes disagree: " + a.text() + " and " + b.text() + ": " + rule);
}

void requireEqual(const Input &a, const Input &b, Dimension dimension, const std::string &what) {
    if (a.layout().extent[dimension] != b.layout().extent[dimension])
        disagree(a, b,
                 "they need the same " + what + ", not " + std::to_string(a.layout().extent[dimension]) + " and " +
                     std::to_string(b.layout().extent[dimension]));
}

void requireSomething(const Input &input) {
    const uint32_t *extent = input.layout().extent;
    const char *missing = extent[batch] == 0  ? "batch entries"
                          : extent[head] == 0 ? "heads"
                          : extent[dim] == 0  ? "elements in a row (dim)"
                                              : nullptr;
    if (missing != nullptr)
        throw Failure(input.text() + ": has zero " + missing + ", expected at least 1; only the number of tokens may be 0");
    if (extent[dim] > maxDim)
        throw Failure(input.text() + ": its last dimension (dim) is " + std::to_string(extent[dim]) + ", expected at most " +
                      std::to_string(maxDim) + ": split it into heads, or check the order of dimensions");
}

void checkAgreement(const Input &q, const Input &k, const Input &v) {
    for (const Input *input : {&q, &k, &v}) requireSomething(*input);
    requireEqual(q, k, batch, "batch (first of 4 dimensions)");
    requireEqual(k, v, batch, "batch (first of 4 dimensions)");
    requireEqual(q, k, dim, "dim (last dimension)");
    requireEqual(k, v, head, "number of heads (third dimension from the end)");
    requireEqual(k, v, token, "number of tokens (second dimension from the end)");
    if (q.layout().extent[head] % k.layout().extent[head] != 0)
        disagree(q, k,
                 "the number of key heads must divide that of the query heads, and " + std::to_string(k.layout().extent[head]) +
                     " does not divide " + std::to_string(q.layout().extent[head]));
}

void checkBroadcast(const Input &input, const uint32_t (&weights)[4]) {
    for (size_t i = 0; i < 4; i++)
        if (input.layout().extent[i] != 1 && input.layout().extent[i] != weights[i])
            throw Failure(input.text() + " does not broadcast to [batch, head, query, key] = " +
                          npyShapeText(std::vector<uint64_t>(weights, weights + 4)) +
                          ": counted from the last, each of its dimensions must be that or 1");
}

void checkKeyLengths(const Input &input, uint32_t batchEntries) {
    const NpyHeader &header = input.header();
    const bool scalar = header.dataBytes == header.type.itemBytes && batchEntries == 1;
    if (!scalar && !(header.shape.size() == 1 && header.shape[0] == batchEntries))
        throw Failure(input.text() + ": expected one key length for each batch entry, shape (" + std::to_string(batchEntries) + ",)");
}

void addOutput(Job &job, vkattn_role role, const std::string &option, const std::string &path, NpyType type, std::vector<uint64_t> shape) {
    constexpr auto limit = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    const bool empty = std::find(shape.begin(), shape.end(), 0u) != shape.end();
    uint64_t bytes = empty ? 0 : type.itemBytes;
    for (const uint64_t extent : shape) {
        if (!empty && bytes > limit / extent)
            throw Failure(option + " " + path + ": its shape " + npyShapeText(shape) + " is too large, its bytes overflow 64 bits");
        bytes *= extent;
    }
    job.outputs.push_back({role, option, path, type, std::move(shape), bytes});
}

void addOutputs(const RunArguments &arguments, Job &job, const Input &q, const Input &k, const Input &v) {
    const uint32_t *qe = q.layout().extent;
    const uint32_t keyTokens = k.layout().extent[token], valueDim = v.layout().extent[dim];
    const std::vector<uint64_t> rows(q.header().shape.begin(), q.header().shape.end() - 1);
    const auto with = [&](uint64_t last) {
        std::vector<uint64_t> shape = rows;
        shape.push_back(last);
        return shape;
    };
    vkattn_problem &problem = job.problem;
    const vkattn_dtype dtype = q.layout().dtype;
    addOutput(job, VKATTN_OUT, "--out", arguments.out, dtype == VKATTN_F16 ? npyFloat16 : npyFloat32, with(valueDim));
    problem.out = packed(dtype, qe[batch], qe[head], qe[token], valueDim);
    if (!arguments.lse.empty()) {
        addOutput(job, VKATTN_LSE, "--lse", arguments.lse, npyFloat32, rows);
        problem.lse = packed(VKATTN_F32, qe[batch], qe[head], qe[token], 1);
    }
    if (!arguments.weights.empty()) {
        addOutput(job, VKATTN_WEIGHTS, "--weights", arguments.weights, npyFloat32, with(keyTokens));
        problem.weights = packed(VKATTN_F32, qe[batch], qe[head], qe[token], keyTokens);
    }
}

void checkMemory(const Job &job) {
    uint64_t bytes = 0;
    bool overflow = false;
    std::string largest;
    uint64_t largestBytes = 0;
    const auto add = [&](const std::string &path, uint64_t size) {
        overflow = overflow || size > std::numeric_limits<uint64_t>::max() - bytes;
        bytes += size;
        if (size >= largestBytes) largestBytes = size, largest = path;
    };
    for (const Input &input : job.inputs) add(input.path(), input.memoryBytes());
    for (const OutputArray &output : job.outputs) add(output.path, output.bytes);
    const uint64_t usable = usableMemoryBytes();
    if (overflow || bytes > std::numeric_limits<size_t>::max() / 2 || (usable > 0 && bytes > usable))
        throw Failure("not enough memory: the arrays take " + (overflow ? "more than 16 EiB" : byteText(bytes)) + " (the largest is " +
                      largest + " with " + byteText(largestBytes) + "), this machine has " + (usable > 0 ? byteText(usable) : "less") +
                      ": split the work over batch entries, heads or queries");
}

} // namespace

Job describeJob(const RunArguments &arguments) {
    Job job;
    const auto open = [&](vkattn_role role, const char *option, const std::string &path) {
        if (!path.empty()) job.inputs.emplace_back(role, option, path);
    };
    open(VKATTN_Q, "--q", arguments.q);
    open(VKATTN_K, "--k", arguments.k);
    open(VKATTN_V, "--v", arguments.v);
    open(VKATTN_MASK, "--mask", arguments.mask);
    open(VKATTN_BIAS, "--bias", arguments.bias);
    open(VKATTN_KEY_LENGTHS, "--kv-lengths", arguments.keyLengths);

    const Input &q = job.inputs[0], &k = job.inputs[1], &v = job.inputs[2];
    checkAgreement(q, k, v);
    vkattn_problem &problem = job.problem;
    problem.structSize = sizeof problem;
    problem.flags = arguments.flags;
    problem.q = q.layout();
    problem.k = k.layout();
    problem.v = v.layout();
    problem.scale = arguments.scale;
    problem.softcap = arguments.softcap;
    problem.windowLeft = arguments.windowLeft;
    problem.windowRight = arguments.windowRight;
    const uint32_t weights[4] = {q.layout().extent[batch], q.layout().extent[head], q.layout().extent[token], k.layout().extent[token]};
    for (const Input &input : job.inputs) {
        if (input.role() == VKATTN_MASK || input.role() == VKATTN_BIAS) {
            checkBroadcast(input, weights);
            (input.role() == VKATTN_MASK ? problem.mask : problem.bias) = input.layout();
        } else if (input.role() == VKATTN_KEY_LENGTHS) {
            checkKeyLengths(input, weights[batch]);
            problem.presentRoles |= 1u << VKATTN_KEY_LENGTHS;
        }
    }
    addOutputs(arguments, job, q, k, v);

    vkattn_diagnostic why{};
    if (vkattnValidateProblem(&problem, &why) != VKATTN_OK) {
        std::string given;
        for (const Input &input : job.inputs) given += (given.empty() ? " (given " : ", ") + input.option() + " " + input.text();
        throw Failure(why.message + given + ")");
    }
    checkMemory(job);
    return job;
}

} // namespace vkattn::tool
