#include "inspect_fixture.hpp"

#include <algorithm>
#include <cmath>

namespace {

constexpr size_t figures = 8, top = 3;
const Arguments outputs = {"--stats", "s.npy", "--received", "r.npy", "--top", "3", "--top-keys", "tk.npy", "--top-weights", "tw.npy"};

size_t extentOf(const Array &array, size_t dimension) {
    const size_t missing = 4 - array.shape.size();
    return dimension < missing ? 1 : array.shape[dimension - missing];
}

} // namespace

void InspectTest::givenVectors(const std::vector<size_t> &qShape, const std::vector<size_t> &kShape, const NpyOptions &options) {
    given(qShape, kShape, kShape, options, options, options);
}

Arguments InspectTest::inspection(const Arguments &more) const {
    Arguments arguments = {"inspect", "--q", "q.npy", "--k", "k.npy"};
    arguments.insert(arguments.end(), outputs.begin(), outputs.end());
    arguments.insert(arguments.end(), where.begin(), where.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
}

// Rows see nothing yet.
InspectTest::Expected::Expected(size_t rowCount, size_t keyCount, size_t pairs)
    : rows(rowCount * figures), received(keyCount), weights(pairs), topKeys(rowCount * top, -1.0), topWeights(rowCount * top) {
    for (size_t row = 0; row < rowCount; row++) rows[row * figures + 2] = -1;
}

void InspectTest::addRow(const std::vector<double> &p, double position, Expected &expected, size_t row) {
    double entropy = 0, largest = 0, key = -1, distance = 0, diagonal = 0, first = 0, squares = 0, visible = 0;
    for (size_t j = 0; j < p.size(); j++) {
        if (p[j] < 0) continue;
        const double away = std::fabs(static_cast<double>(j) - position);
        visible++;
        if (p[j] > 0) entropy -= p[j] * std::log(p[j]);
        if (key < 0 || p[j] > largest) largest = p[j], key = static_cast<double>(j);
        distance += p[j] * away;
        if (away == 0) diagonal = p[j];
        if (j == 0) first = p[j];
        squares += p[j] * p[j];
        expected.weights[row * p.size() + j] = p[j];
    }
    const double values[figures] = {entropy, largest, key, distance, diagonal, first, squares, visible};
    std::copy_n(values, figures, expected.rows.begin() + static_cast<ptrdiff_t>(row * figures));
    std::vector<size_t> order;
    for (size_t j = 0; j < p.size(); j++)
        if (p[j] >= 0) order.push_back(j);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] > p[b]; });
    for (size_t n = 0; n < std::min(order.size(), top); n++) {
        expected.topKeys[row * top + n] = static_cast<double>(order[n]);
        expected.topWeights[row * top + n] = p[order[n]];
    }
}

void InspectTest::compareFiles(const Expected &expected, const std::vector<size_t> &rowShape, const std::vector<size_t> &keyShape,
                               size_t keys) const {
    const ReadArray stats = readNpy(file("s.npy")), received = readNpy(file("r.npy"));
    std::vector<size_t> shape = rowShape;
    shape.push_back(figures);
    EXPECT_EQ(stats.shape, shape);
    EXPECT_EQ(stats.descr, "<f4");
    EXPECT_EQ(received.shape, keyShape);
    EXPECT_EQ(received.descr, "<f4");
    ASSERT_EQ(stats.values.size(), expected.rows.size());
    ASSERT_EQ(received.values.size(), expected.received.size());
    for (size_t n = 0; n < stats.values.size(); n++) {
        const double want = expected.rows[n], got = stats.values[n];
        if (n % figures == 2 && got != want) { // nearly as large
            ASSERT_TRUE(want >= 0 && got >= 0 && got < static_cast<double>(keys)) << "row " << n / figures;
            ASSERT_NEAR(expected.weights[n / figures * keys + static_cast<size_t>(got)], expected.rows[n - 1], 1e-5)
                << "row " << n / figures;
            continue;
        }
        ASSERT_NEAR(got, want, 2e-5 + 2e-5 * std::fabs(want)) << "row " << n / figures << ", figure " << n % figures;
    }
    for (size_t n = 0; n < received.values.size(); n++) ASSERT_NEAR(received.values[n], expected.received[n], 2e-5) << "element " << n;
    const ReadArray topKeys = readNpy(file("tk.npy")), topWeights = readNpy(file("tw.npy"));
    shape.back() = top;
    EXPECT_EQ(topKeys.shape, shape);
    EXPECT_EQ(topKeys.descr, "<i4");
    EXPECT_EQ(topWeights.shape, shape);
    EXPECT_EQ(topWeights.descr, "<f4");
    ASSERT_EQ(topKeys.values.size(), expected.topKeys.size());
    for (size_t n = 0; n < topKeys.values.size(); n++) {
        const double want = expected.topKeys[n], got = topKeys.values[n];
        ASSERT_NEAR(topWeights.values[n], expected.topWeights[n], 2e-5) << "row " << n / top << ", place " << n % top;
        if (got == want) continue; // nearly as large
        ASSERT_TRUE(want >= 0 && got >= 0 && got < static_cast<double>(keys)) << "row " << n / top << ", place " << n % top << ": " << got;
        ASSERT_NEAR(expected.weights[n / top * keys + static_cast<size_t>(got)], expected.topWeights[n], 1e-5) << "row " << n / top;
    }
}

Outcome InspectTest::checkInspection(const Arguments &options) {
    reference.scoresStage = "final";
    const Array scores = referenceAttention(q, k, v, reference).scores;
    const size_t batch = extentOf(q, 0), heads = extentOf(q, 1), queries = extentOf(q, 2), keys = extentOf(k, 2);
    const bool ragged = !reference.cuQ.empty();
    Expected expected(batch * heads * queries, batch * heads * keys, batch * heads * queries * keys);
    const size_t entries = ragged ? reference.cuQ.size() - 1 : batch, longestQ = scores.shape[2], longestK = scores.shape[3];
    for (size_t b = 0; b < entries; b++)
        for (size_t h = 0; h < heads; h++) {
            const auto offset = [&](const std::vector<long> &offsets, size_t n) { return static_cast<size_t>(offsets[n]); };
            const size_t firstQuery = ragged ? offset(reference.cuQ, b) : 0, firstKey = ragged ? offset(reference.cuK, b) : 0;
            const size_t ownQueries = ragged ? offset(reference.cuQ, b + 1) - firstQuery : queries;
            const size_t ownKeys = ragged                         ? offset(reference.cuK, b + 1) - firstKey
                                   : reference.keyLengths.empty() ? keys
                                                                  : static_cast<size_t>(reference.keyLengths[b]);
            const size_t entry = ragged ? 0 : b;
            std::vector<double> received(ownKeys);
            double rows = 0;
            for (size_t i = 0; i < ownQueries; i++) {
                std::vector<double> p(keys, -1.0);
                double largest = -INFINITY, sum = 0;
                const double *s = scores.values.data() + ((b * heads + h) * longestQ + i) * longestK;
                for (size_t j = 0; j < ownKeys; j++) largest = std::max(largest, s[j]);
                if (largest == -INFINITY) continue;
                rows++;
                for (size_t j = 0; j < ownKeys; j++) sum += std::exp(s[j] - largest);
                for (size_t j = 0; j < ownKeys; j++) {
                    if (s[j] == -INFINITY) continue;
                    p[j] = std::exp(s[j] - largest) / sum;
                    received[j] += p[j];
                }
                const double shift = reference.topLeft ? 0 : static_cast<double>(ownKeys) - static_cast<double>(ownQueries);
                addRow(p, static_cast<double>(i) + shift, expected, (entry * heads + h) * queries + firstQuery + i);
            }
            for (size_t j = 0; j < ownKeys && rows > 0; j++)
                expected.received[(entry * heads + h) * keys + firstKey + j] = received[j] / rows;
        }
    Outcome outcome = tool(inspection(options));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    if (outcome.status != 0) return outcome;
    std::vector<size_t> rowShape(q.shape.begin(), q.shape.end() - 1), keyShape(q.shape.begin(), q.shape.end() - 2);
    keyShape.push_back(keys);
    compareFiles(expected, rowShape, keyShape, keys);
    return outcome;
}

Outcome InspectTest::checkWeights(const Array &weights, const Arguments &options, const NpyOptions &written) {
    Array given = weights;
    writeNpy(file("w.npy"), given, written);
    const size_t entries = extentOf(given, 0) * extentOf(given, 1), queries = extentOf(given, 2), keys = extentOf(given, 3);
    Expected expected(entries * queries, entries * keys, given.values.size());
    for (size_t n = 0; n < entries; n++) {
        double rows = 0;
        for (size_t i = 0; i < queries; i++) {
            const size_t row = n * queries + i;
            double sum = 0;
            for (size_t j = 0; j < keys; j++) sum += given.values[row * keys + j];
            if (sum == 0) continue;
            rows++;
            std::vector<double> p(keys);
            for (size_t j = 0; j < keys; j++) {
                const double weight = given.values[row * keys + j];
                p[j] = weight > 0 ? weight / sum : -1;
                expected.received[n * keys + j] += weight / sum;
            }
            const double shift = reference.topLeft ? 0 : static_cast<double>(keys) - static_cast<double>(queries);
            addRow(p, static_cast<double>(i) + shift, expected, row);
        }
        for (size_t j = 0; j < keys && rows > 0; j++) expected.received[n * keys + j] /= rows;
    }
    Arguments arguments = {"inspect", "--weights", "w.npy"};
    arguments.insert(arguments.end(), outputs.begin(), outputs.end());
    arguments.insert(arguments.end(), options.begin(), options.end());
    Outcome outcome = tool(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    if (outcome.status != 0) return outcome;
    std::vector<size_t> rowShape(given.shape.begin(), given.shape.end() - 1), keyShape(given.shape.begin(), given.shape.end() - 2);
    keyShape.push_back(keys);
    compareFiles(expected, rowShape, keyShape, keys);
    return outcome;
}

nlohmann::json InspectTest::jsonOf(Arguments arguments) const {
    arguments.insert(arguments.end(), {"--json", "j.json"});
    const Outcome outcome = tool(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return outcome.status == 0 ? nlohmann::json::parse(readBytes(file("j.json"))) : nlohmann::json();
}
