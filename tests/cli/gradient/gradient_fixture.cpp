#include "gradient_fixture.hpp"

#include <algorithm>
#include <cmath>

void GradientTest::givenAll(const std::vector<size_t> &qShape, const std::vector<size_t> &kShape, const std::vector<size_t> &vShape,
                            const NpyOptions &options) {
    given(qShape, kShape, vShape, options, options, options);
    std::vector<size_t> shape = qShape;
    shape.back() = vShape.back();
    writeNpy(file("dout.npy"), dOut = randomArray(random, shape), options);
    dOut = rounded(dOut, options);
    dLse.reset(), dWeights.reset();
}

void GradientTest::givenBias(const std::vector<size_t> &shape, const NpyOptions &options) {
    reference.bias = randomArray(random, shape);
    for (double &value : reference.bias->values) value = chance(6) ? -INFINITY : value;
    writeNpy(file("bias.npy"), *reference.bias, options);
    reference.bias = rounded(*reference.bias, options);
}

void GradientTest::givenDLse(const std::vector<size_t> &shape) {
    dLse = randomArray(random, shape);
    writeNpy(file("dlse.npy"), *dLse);
}

void GradientTest::givenDWeights(const std::vector<size_t> &shape) {
    dWeights = randomArray(random, shape);
    writeNpy(file("dweights.npy"), *dWeights);
}

Arguments GradientTest::gradientCommand(const Arguments &more) const {
    Arguments arguments = {"grad", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--dout", "dout.npy"};
    for (const std::string &name : wanted) arguments.insert(arguments.end(), {"--" + name, fileOf(name)});
    if (dLse) arguments.insert(arguments.end(), {"--dlse", "dlse.npy"});
    if (dWeights) arguments.insert(arguments.end(), {"--dweights", "dweights.npy"});
    arguments.insert(arguments.end(), where.begin(), where.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
}

double GradientTest::loss() const {
    const ReferenceResult result = referenceAttention(q, k, v, reference);
    const auto weighted = [](const Array &weights, const Array &values) {
        EXPECT_EQ(weights.values.size(), values.values.size());
        double sum = 0;
        // A row that sees nothing has a log-sum-exp of -infinity, which no parameter changes.
        for (size_t i = 0; i < weights.values.size(); i++)
            if (std::isfinite(values.values[i])) sum += weights.values[i] * values.values[i];
        return sum;
    };
    return weighted(dOut, result.out) + (dLse ? weighted(*dLse, result.lse) : 0) + (dWeights ? weighted(*dWeights, result.weights) : 0);
}

double GradientTest::difference(double &parameter) const {
    constexpr double step = 1e-5;
    const double before = parameter;
    if (!std::isfinite(before)) return 0; // hides, or is no sink
    parameter = before + step;
    const double above = loss();
    parameter = before - step;
    const double below = loss();
    parameter = before;
    return (above - below) / (2 * step);
}

void GradientTest::compareOne(const std::string &name, const std::string &descr) {
    SCOPED_TRACE(name);
    const ReadArray got = readNpy(file(fileOf(name)));
    EXPECT_EQ(got.descr, name == "dscale" || name == "dsoftcap" ? "<f4" : descr);
    std::vector<double> scale = {reference.scale.value_or(1 / std::sqrt(static_cast<double>(q.shape.back())))};
    std::vector<double> softcap = {reference.softcap};
    const auto compareAll = [&](std::vector<double> &parameters, const std::vector<size_t> &shape, const auto &apply) {
        EXPECT_EQ(got.shape, shape);
        ASSERT_EQ(got.values.size(), parameters.size());
        for (size_t i = 0; i < parameters.size(); i++) {
            const double expected = apply(parameters[i]);
            const double unit = (got.descr == "<f2" ? 0x1p-10 : 2e-5) + outUnit;
            ASSERT_NEAR(got.values[i], expected, 3e-5 + std::abs(expected) * unit) << "element " << i;
        }
    };
    const auto plain = [&](double &parameter) { return difference(parameter); };
    if (name == "dq") return compareAll(q.values, q.shape, plain);
    if (name == "dk") return compareAll(k.values, k.shape, plain);
    if (name == "dv") return compareAll(v.values, v.shape, plain);
    if (name == "dbias") return compareAll(reference.bias->values, reference.bias->shape, plain);
    if (name == "dsinks") return compareAll(reference.sinks, {reference.sinks.size()}, plain);
    if (name == "dslopes") return compareAll(reference.alibi, {reference.alibi.size()}, plain);
    if (name == "dsoftcap") return compareAll(softcap, {}, [&](double &) { return difference(reference.softcap); });
    const std::optional<double> before = reference.scale;
    reference.scale = scale[0];
    compareAll(scale, {}, [&](double &) { return difference(*reference.scale); });
    reference.scale = before;
}

Outcome GradientTest::checkGradients(const Arguments &more, const std::string &descr) {
    removeGradients();
    Arguments arguments = gradientCommand(more);
    arguments.emplace_back("--verify=all");
    Outcome outcome = tool(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
    if (outcome.status == 0)
        for (const std::string &name : wanted) compareOne(name, descr);
    return outcome;
}

std::string GradientTest::bytesOfGradients() const {
    std::string all;
    for (const std::string &name : wanted) all += readBytes(file(fileOf(name)));
    return all;
}

void GradientTest::removeGradients() const {
    for (const std::string &name : wanted) std::filesystem::remove(file(fileOf(name)));
}

void GradientTest::refused(const Arguments &more, const std::vector<std::string> &words) const {
    removeGradients();
    expectRefused(tool(gradientCommand(more)), words);
    for (const std::string &name : wanted) EXPECT_FALSE(exists(fileOf(name))) << name;
}
