#include "linear_fixture.hpp"

#include <algorithm>
#include <cmath>

void LinearTest::given(const std::string &name, const std::vector<size_t> &shape, double spread, const NpyOptions &options) {
    Array &array = arrays[name] = randomArray(random, shape, spread);
    for (double &each : array.values) {
        if (name == "decay") each = -std::abs(each);
        if (name == "beta") each = 1 / (1 + std::exp(-each));
    }
    writeNpy(file(name + ".npy"), array, options);
}

void LinearTest::givenAll(size_t heads, size_t tokens, size_t dim, size_t valueDim) {
    arrays.clear();
    given("q", {heads, tokens, dim}, 0.5);
    given("k", {heads, tokens, dim}, 0.4);
    given("v", {heads, tokens, valueDim});
    if (rule == "gated" || rule == "gated-delta") given("decay", {heads, tokens}, 0.2);
    if (rule == "delta" || rule == "gated-delta") given("beta", {heads, tokens});
    if (rule == "softmax-features" && features != "elu1") given("omega", {12, dim});
}

Arguments LinearTest::command(const Arguments &more) const {
    Arguments arguments = optionsOfScan();
    arguments.insert(arguments.begin() + 1, {"--out", "o.npy"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
}

Arguments LinearTest::optionsOfScan() const {
    Arguments arguments = {"linear", "--rule", rule};
    for (const auto &[name, array] : arrays) arguments.insert(arguments.end(), {"--" + name, name + ".npy"});
    if (rule == "softmax-features") arguments.insert(arguments.end(), {"--features", features});
    if (causal) arguments.emplace_back("--causal");
    arguments.insert(arguments.end(), where.begin(), where.end());
    return arguments;
}

std::vector<std::string> LinearTest::differentiated() const {
    std::vector<std::string> names;
    for (const auto &[name, array] : arrays)
        if (name != "omega" && name != "dout" && name != "dstate-out") names.push_back(name);
    return names;
}

Arguments LinearTest::gradientCommand(const Arguments &more) {
    const std::vector<size_t> &q = arrays.at("q").shape;
    if (arrays.count("dout") == 0) given("dout", {q[0], q[1], arrays.at("v").shape[2]});
    Arguments arguments = optionsOfScan();
    for (const std::string &name : differentiated()) arguments.insert(arguments.end(), {"--d" + name, "d" + name + ".npy"});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
}

double LinearTest::loss() const {
    const Array &dOut = arrays.at("dout");
    const size_t heads = dOut.shape[0], each = dOut.values.size() / heads;
    double sum = 0;
    for (size_t h = 0; h < heads; h++) {
        const std::vector<double> out = expectedOfHead(h);
        for (size_t n = 0; n < each; n++) sum += dOut.values[h * each + n] * out[n];
    }
    return sum;
}

Outcome LinearTest::checkGradients(const Arguments &options) {
    Arguments arguments = gradientCommand(options);
    arguments.emplace_back("--verify=all");
    Outcome outcome = tool(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
    if (outcome.status != 0) return outcome;
    for (const std::string &name : differentiated()) {
        const ReadArray got = readNpy(file("d" + name + ".npy"));
        Array &of = arrays.at(name);
        EXPECT_EQ(got.shape.size() == 4 ? std::vector<size_t>(got.shape.begin() + 1, got.shape.end()) : got.shape, of.shape);
        for (size_t n = 0; n < of.values.size() && !testing::Test::HasFailure(); n++) {
            constexpr double step = 1e-5;
            const double was = of.values[n];
            const double at = loss();
            of.values[n] = was + step;
            const double right = (loss() - at) / step;
            of.values[n] = was - step;
            const double left = (at - loss()) / step;
            of.values[n] = was;
            // Beside a kink of relu the derivative is that of one side; elsewhere both are the same.
            const double tolerance = 1e-4 * (1 + std::abs(right));
            EXPECT_GT(got.values[n], std::min(left, right) - tolerance) << rule << " " << features << " d" << name << " element " << n;
            EXPECT_LT(got.values[n], std::max(left, right) + tolerance) << rule << " " << features << " d" << name << " element " << n;
        }
    }
    return outcome;
}

std::vector<double> LinearTest::map(const double *x, size_t head) const {
    const size_t dim = arrays.at("q").shape.back();
    std::vector<double> to;
    if (features == "elu1") {
        for (size_t d = 0; d < dim; d++) to.push_back(x[d] > 0 ? x[d] + 1 : std::exp(x[d]));
        return to;
    }
    const Array &omega = arrays.at("omega");
    const size_t m = omega.shape[omega.shape.size() - 2];
    const double *const rows = omega.values.data() + (omega.shape.size() == 3 ? head * m * dim : 0);
    const double factor = std::sqrt(scale == 0 ? 1 / std::sqrt(static_cast<double>(dim)) : scale);
    for (const double sign : {1.0, -1.0})
        for (size_t r = 0; r < m && (sign > 0 || features == "favor2"); r++) {
            double product = 0, square = 0;
            for (size_t d = 0; d < dim; d++) product += rows[r * dim + d] * x[d], square += x[d] * x[d];
            to.push_back(features == "relu" ? std::max(product / std::sqrt(static_cast<double>(m)), 0.0) + 1e-3
                                            : std::exp(sign * factor * product - factor * factor * square / 2));
        }
    return to;
}

// By the sums over all keys, or token by token.
std::vector<double> LinearTest::expectedOfHead(size_t head) const {
    const Array &q = arrays.at("q"), &k = arrays.at("k"), &v = arrays.at("v");
    const size_t tokens = q.shape[1], dim = q.shape[2], values = v.shape[2];
    std::vector<double> out(tokens * values), state(dim * values);
    const auto at = [&](const Array &a, size_t t) {
        const size_t own = head / (q.shape[0] / a.shape[0]); // of heads that share keys or values
        return a.values.data() + (own * tokens + t) * a.shape.back();
    };
    if (rule == "softmax-features") {
        for (size_t i = 0; i < tokens; i++) {
            const std::vector<double> phi = map(at(q, i), head);
            double sum = 0;
            for (size_t j = 0; j < (causal ? i + 1 : tokens); j++) {
                const std::vector<double> key = map(at(k, j), head);
                double weight = 0;
                for (size_t r = 0; r < phi.size(); r++) weight += phi[r] * key[r];
                sum += weight;
                for (size_t d = 0; d < values; d++) out[i * values + d] += weight * at(v, j)[d];
            }
            for (size_t d = 0; d < values; d++) out[i * values + d] /= sum;
        }
        return out;
    }
    const double factor = scale == 0 ? 1 / std::sqrt(static_cast<double>(dim)) : scale;
    if (arrays.count("state-in") > 0)
        std::copy_n(arrays.at("state-in").values.begin() + static_cast<long>(head * state.size()), state.size(), state.begin());
    for (size_t t = 0; t < tokens; t++) {
        for (size_t r = 0; r < dim && arrays.count("decay") > 0; r++) {
            const Array &decay = arrays.at("decay");
            const size_t token = head * tokens + t;
            for (size_t d = 0; d < values; d++)
                state[r * values + d] *= std::exp(decay.shape.size() == 3 ? decay.values[token * dim + r] : decay.values[token]);
        }
        for (size_t d = 0; d < values; d++) {
            double write = at(v, t)[d];
            if (arrays.count("beta") > 0) {
                for (size_t r = 0; r < dim; r++) write -= state[r * values + d] * at(k, t)[r];
                write *= arrays.at("beta").values[head * tokens + t];
            }
            for (size_t r = 0; r < dim; r++) state[r * values + d] += at(k, t)[r] * write;
            for (size_t r = 0; r < dim; r++) out[t * values + d] += factor * at(q, t)[r] * state[r * values + d];
        }
    }
    return out;
}

Outcome LinearTest::check(const Arguments &options, const std::string &descr) {
    Arguments arguments = command(options);
    arguments.emplace_back("--verify=all");
    Outcome outcome = tool(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
    if (outcome.status != 0) return outcome;
    const ReadArray got = readNpy(file("o.npy"));
    EXPECT_EQ(got.descr, descr);
    const std::vector<size_t> &q = arrays.at("q").shape;
    EXPECT_EQ(got.shape, (std::vector<size_t>{q[0], q[1], arrays.at("v").shape[2]}));
    const size_t each = got.values.size() / q[0];
    for (size_t h = 0; h < q[0]; h++) {
        const std::vector<double> expected = expectedOfHead(h);
        for (size_t n = 0; n < each; n++) {
            const double allowed = (descr == "<f2" ? 1e-3 : 3e-5) * (1 + std::abs(expected[n]));
            EXPECT_NEAR(got.values[h * each + n], expected[n], allowed) << rule << " head " << h << " element " << n;
            if (testing::Test::HasFailure()) return outcome;
        }
    }
    return outcome;
}
