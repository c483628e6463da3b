// `vkattn run --past-k` and `--state-in-out`: a cache before the keys of a command, and attention that goes on from
// other keys, against the reference with all keys in one array.
#include "cli/run/run_fixture.hpp"

#include <limits>

namespace {

class PastRun : public RunTest {
  protected:
    size_t batch = 2, heads = 4, kvHeads = 2, dims = 12;

    // The tokens [begin, end) of a head's array.
    [[nodiscard]] static Array tokens(const Array &from, size_t begin, size_t end) {
        const size_t all = from.shape[2], dim = from.shape[3];
        Array part{{from.shape[0], from.shape[1], end - begin, dim}, {}};
        for (size_t row = 0; row < from.shape[0] * from.shape[1]; row++)
            for (size_t n = (row * all + begin) * dim; n < (row * all + end) * dim; n++) part.values.push_back(from.values[n]);
        return part;
    }
    // q.npy, and keys of the reference of which the first ones lie in pk.npy and pv.npy.
    void givenPast(size_t queries, size_t past, size_t own, const NpyOptions &npy = {}) {
        const size_t keys = past + own;
        given({batch, heads, queries, dims}, {batch, kvHeads, keys, dims}, {batch, kvHeads, keys, dims}, npy, npy, npy);
        writeNpy(file("pk.npy"), tokens(k, 0, past), npy), writeNpy(file("pv.npy"), tokens(v, 0, past), npy);
        writeNpy(file("k.npy"), tokens(k, past, keys), npy), writeNpy(file("v.npy"), tokens(v, past, keys), npy);
    }
    void onEveryDevice(const std::function<void()> &run) {
        run();
        if (!hasTestedDevice()) return;
        where = {"--device", "0", "--no-fallback"};
        run();
        where = {"--device", "cpu"};
    }
    void refused(const Arguments &options, const std::string &text) const {
        const Outcome outcome = tool(command(options));
        EXPECT_EQ(outcome.status, 2) << text;
        EXPECT_NE(outcome.err.find(text), std::string::npos) << outcome.err;
    }
    const Arguments withPast = {"--past-k", "pk.npy", "--past-v", "pv.npy"};
};

TEST_F(PastRun, comesBeforeTheKeys) {
    givenPast(5, 17, 5);
    onEveryDevice([&] { check(withPast); });
    reference.causal = true; // counts all keys
    Arguments causal = withPast;
    causal.insert(causal.end(), {"--causal", "bottom-right"});
    onEveryDevice([&] { check(causal); });
    reference.causal = false;
    givenPast(3, 9, 4, {.descr = "<f2"});
    onEveryDevice([&] { check(withPast, "<f2"); });
}

// A first step has no past, and a command may have no new keys.
TEST_F(PastRun, mayBeEmpty) {
    givenPast(4, 0, 6);
    onEveryDevice([&] { check(withPast); });
    givenPast(4, 6, 0);
    onEveryDevice([&] { check(withPast); });
}

TEST_F(PastRun, isMaskedWithTheKeys) {
    givenPast(4, 7, 5);
    const std::vector<double> lengths = {9, 4};
    writeNpy(file("l.npy"), Array{{batch}, lengths}, {.descr = "<i4"});
    reference.keyLengths = {9, 4};
    Arguments options = withPast;
    options.insert(options.end(), {"--kv-lengths", "l.npy"});
    onEveryDevice([&] { check(options); });
}

// The first keys make a state, the rest goes on from it: the reference has all keys.
TEST_F(PastRun, aStateGoesOn) {
    givenPast(6, 11, 8);
    onEveryDevice([&] {
        Arguments first = {"run", "--q", "q.npy", "--k", "pk.npy", "--v", "pv.npy", "--out", "a.npy", "--lse", "la.npy"};
        first.insert(first.end(), where.begin(), where.end());
        const Outcome outcome = tool(first);
        ASSERT_EQ(outcome.status, 0) << outcome.err;
        wantsWeights = false;
        check({"--state-in-out", "a.npy", "--state-in-lse", "la.npy"});
    });
}

// A row whose log-sum-exp is -infinity has seen nothing, and its output is not read.
TEST_F(PastRun, aStateMayBeNothing) {
    givenPast(6, 11, 8);
    k = tokens(k, 11, 19), v = tokens(v, 11, 19);
    const size_t rows = batch * heads * 6;
    writeNpy(file("a.npy"), Array{{batch, heads, 6, dims}, std::vector<double>(rows * dims, std::numeric_limits<double>::quiet_NaN())});
    writeNpy(file("la.npy"), Array{{batch, heads, 6}, std::vector<double>(rows, -std::numeric_limits<double>::infinity())});
    onEveryDevice([&] { check({"--state-in-out", "a.npy", "--state-in-lse", "la.npy"}); });
}

TEST_F(PastRun, saysWhatIsWrong) {
    givenPast(5, 7, 5);
    refused({"--past-k", "pk.npy"}, "--past-k is given without --past-v");
    refused({"--state-in-out", "q.npy"}, "--state-in-out is given without --state-in-lse");
    Arguments paged = withPast;
    paged.insert(paged.end(), {"--page-table", "q.npy"});
    refused(paged, "--past-k and --page-table are both given");
    writeNpy(file("pv.npy"), tokens(v, 0, 6));
    refused(withPast, "they need the same number of tokens");
    writeNpy(file("pk.npy"), tokens(k, 0, 7), {.descr = "<f2"});
    refused(withPast, "past and new tokens need one type");
    writeNpy(file("pk.npy"), randomArray(random, {batch, kvHeads + 1, 7, dims}));
    refused(withPast, "they need the same number of heads");
    writeNpy(file("la.npy"), randomArray(random, {batch, heads, 4}));
    refused({"--state-in-out", "q.npy", "--state-in-lse", "la.npy"}, "expected the shape of the output without its dims");
}

} // namespace
