#include "conform/checks/selection.hpp"

#include "conform/cases/base_case.hpp"
#include "conform/cases/chosen/covering_cases.hpp"
#include "conform/cases/features.hpp"
#include "conform/checks/cost.hpp"

#include <algorithm>
#include <set>

namespace vkattn::conform {
namespace {

const Kind *kindOf(std::string_view name) {
    for (const Kind &kind : checkKinds())
        if (name == kind.name) return &kind;
    return nullptr;
}

const TestLayout *deviceLayout() {
    return &testLayouts()[0];
}

bool isPair(const Case &c) {
    return c.name.find('_') != std::string::npos;
}

bool isSingle(const Case &c) {
    for (const Feature &feature : features())
        for (const Variant &variant : feature.variants)
            if (c.name == variant.name) return true;
    return c.name == "plain";
}

// Each mixture of types is another shader of the staged kernel, which takes software drivers
// seconds to compile.
bool mixesTypes(const Case &c) {
    return c.q != c.k || c.k != c.v || c.v != c.out;
}

bool onMatrixUnits(vkattn_kernel kernel) {
    return vkattnKernelTraits(kernel) & VKATTN_KERNEL_TRAIT_MATRIX_UNITS;
}

// Half of the cases that are cut into chunks are dealt out to slices.
uint32_t someSlices(Random &random) {
    constexpr uint32_t counts[] = {0, 0, 0, 1, 2, 3, 7, 50};
    return counts[random() % std::size(counts)];
}

class Planner {
  public:
    Planner(const DeviceInfo &device, const Selection &options)
        : device_(device), options_(options), slowCompiler_(device.type == DeviceType::cpu) {}

    std::vector<Planned> plan() {
        if (wanted(VKATTN_KERNEL_AUTO)) planChoice(), planDrawn();
        for (const vkattn_kernel kernel : KernelList()) {
            if (!wanted(kernel)) continue;
            if (!device_.support(kernel)->available) {
                // Says why
                add("matrix", kernel, deviceLayout(), Limits::full, named("notAvailable"));
            } else if (kernel == VKATTN_KERNEL_STAGED) {
                planStaged();
            } else {
                planFused(kernel);
            }
        }
        return std::move(planned_);
    }

  private:
    [[nodiscard]] bool wanted(vkattn_kernel kernel) const {
        const auto &asked = options_.kernels;
        return asked.empty() || std::find(asked.begin(), asked.end(), kernel) != asked.end();
    }
    [[nodiscard]] bool quick() const { return options_.extent == Extent::quick; }

    static Case named(const char *name) {
        Case c;
        c.name = name;
        return c;
    }

    // Types that the kernel takes.
    Case taken(vkattn_kernel kernel, Case c) const {
        c.kernel = kernel;
        agreeOnSums(c);
        if (onMatrixUnits(kernel)) c.hooks = withoutWeighing(c.hooks);
        if (kernel == VKATTN_KERNEL_STAGED && c.dropout > 0) c.hooks = withSums(c.hooks);
        if (!onMatrixUnits(kernel) || device_.caps.matrixShapeCount == 0) return c;
        std::vector<vkattn_dtype> types;
        for (uint32_t n = 0; n < device_.caps.matrixShapeCount; ++n)
            if (const vkattn_dtype type = device_.caps.matrixShapes[n].inputs; std::find(types.begin(), types.end(), type) == types.end())
                types.push_back(type);
        Random random = randomFor(options_.seed, c.name);
        c.q = types[random() % types.size()];
        for (vkattn_dtype *const type : {&c.k, &c.v}) // of small types those that matrices take
            *type = !isSmallType(*type) ? c.q : *type == VKATTN_FP8_E5M2 || *type == VKATTN_Q4_0 ? VKATTN_FP8_E5M2 : VKATTN_FP8_E4M3;
        return c;
    }

    void add(const char *kind, vkattn_kernel kernel, const TestLayout *testLayout, Limits limits, const Case &given) {
        // Compilers of software drivers take their time over wide heads, whose loops are unrolled.
        if (quick() && std::max(given.headDim, given.valueDim) > 256) return;
        Check check{kindOf(kind), testLayout, limits, taken(kernel, given), 0};
        std::string id = checkId(check);
        // Names of cases repeat where they are drawn.
        for (int n = 2; !ids_.insert(id).second; ++n) {
            check.c.name = given.name + "-" + std::to_string(n);
            id = checkId(check);
        }
        check.seed = seedFor(options_.seed, id) % 1000000000ull; // short enough to be typed
        planned_.push_back({check, costInPlan(check)});
    }

    void addAll(const char *kind, vkattn_kernel kernel, const TestLayout *testLayout, Limits limits, const std::vector<Case> &cases) {
        for (const Case &c : cases) add(kind, kernel, testLayout, limits, c);
    }

    // Pipelines are compiled once.
    double costInPlan(const Check &check) {
        const std::string key =
            std::to_string(check.c.kernel) + check.testLayout->name + limitsName(check.limits) + pipelineSignature(check.c);
        return computeCost(check) + (compiled_.insert(key).second ? compileCost(check, device_) : 0);
    }

    void planStaged() {
        const vkattn_kernel kernel = VKATTN_KERNEL_STAGED;
        Random random = randomFor(options_.seed, "staged");
        std::vector<Case> full, weak, tiny;
        if (quick()) {
            dealEdges(random, full, weak, tiny);
        } else {
            full = caseMatrix(random, true);
            weak = caseMatrix(random, false);
            tiny = caseMatrix(random, false);
        }
        // Rows of wide heads do not fit the bindings of 64 KiB, which tests/unit/plan/plan_test.cpp
        // covers.
        std::erase_if(tiny, [](const Case &c) {
            return std::max(c.headDim, c.valueDim) * std::max({c.queryTokens, c.keyTokens, 1u}) * 4 > 60000;
        });
        for (Case &c : tiny)
            // Which cut it elsewhere.
            if (c.name != "chunksAcrossGroups") c.slices = someSlices(random);
        addAll("matrix", kernel, deviceLayout(), Limits::full, full);
        addAll("matrix", kernel, deviceLayout(), Limits::weak, weak);
        addAll("matrix", kernel, deviceLayout(), Limits::tiny, tiny);
        planProperties(kernel, deviceLayout());
        addAll("split", kernel, deviceLayout(), Limits::full, stagedSplits());
        addAccuracy(kernel);
        addLong(kernel, deviceLayout());
        if (quick()) return;
        // keys must be cut into chunks, partial outputs added up in fp32
        Case large = named("oneHeadPast128MiB");
        large.batch = 1, large.heads = large.kvHeads = 1, large.queryTokens = 3, large.keyTokens = 300000,
        large.headDim = large.valueDim = 128, large.lse = large.causal = true, large.poison = false, large.data = Data::needle,
        large.needle = 299000;
        add("matrix", kernel, deviceLayout(), Limits::weak, large);
        Case heads = named("manyHeadsPast128MiB");
        heads.batch = 40, heads.heads = heads.kvHeads = 20, heads.queryTokens = 1, heads.keyTokens = 700,
        heads.headDim = heads.valueDim = 64, heads.poison = false, heads.kStyle = heads.vStyle = Style::tokenMajor;
        add("matrix", kernel, deviceLayout(), Limits::full, heads);
    }

    // Tiles of a kernel: where pipelines compile fast the device's own first, as they are what
    // users get.
    [[nodiscard]] std::vector<const TestLayout *> testLayoutsFor(vkattn_kernel kernel) const {
        std::vector<const TestLayout *> all;
        if (!slowCompiler_) all.push_back(deviceLayout());
        for (const TestLayout &testLayout : testLayouts())
            if (testLayout.kernel == kernel) all.push_back(&testLayout);
        // Of the kernels on matrix units one pipeline takes software drivers seconds.
        if (quick() && onMatrixUnits(kernel)) all.resize(1);
        // The first is run through the most: of the small ones that which compiles fastest.
        const bool shuffles = device_.caps.subgroupShuffle && device_.caps.subgroupSize >= 4;
        std::stable_partition(all.begin(), all.end(), [&](const TestLayout *testLayout) {
            const std::string_view name = testLayout->name;
            return name == "device" || (shuffles ? name.ends_with("Subgroups") : name == "flashDirect" || name == "decodeKeysInLanes");
        });
        // One of the others is drawn where each takes the compiler a quarter of a minute.
        if (quick() && slowCompiler_ && all.size() > 2) {
            Random random = randomFor(options_.seed, std::string("tiles of ") + vkattnKernelName(kernel));
            std::swap(all[1], all[1 + random() % (all.size() - 1)]);
            all.resize(2);
        }
        return all;
    }

    void planFused(vkattn_kernel kernel) {
        const std::vector<const TestLayout *> all = testLayoutsFor(kernel);
        for (const TestLayout *testLayout : all) {
            const bool whole = testLayout == all.front();
            Random random = randomFor(options_.seed, std::string("matrix of ") + testLayout->name + vkattnKernelName(kernel));
            std::vector<Case> cases = formMatrix(random, 0);
            // 512 dims in one lane take software drivers minutes to compile.
            const std::string_view name = testLayout->name;
            const bool wide = name == "device" || name == "flashSubgroups" || name == "flashPortable" || name == "flashSharedTiles";
            if (!wide || quick()) std::erase_if(cases, [](const Case &c) { return c.headDim == 512; });
            if (quick() ? !whole || onMatrixUnits(kernel) : name.find("Portable") != std::string_view::npos)
                keepFewPipelines(cases, random);
            if (quick()) {
                keepEdges(cases, random, whole ? 3 : 8, whole);
                // Where each pipeline takes the compiler seconds, one term is drawn; cases of single
                // options have every term alone.
                const CoveringPalette terms = slowCompiler_ ? fewTerms(random, 1) : CoveringPalette();
                addCovering(cases, random, kernel, whole ? narrow(terms) : fewTerms(random, 1));
            }
            if (quick() && whole && !onMatrixUnits(kernel)) {
                CoveringPalette drawn = drawPalette(random);
                drawn.terms = fewTerms(random, slowCompiler_ ? 1 : 2).terms;
                addCovering(cases, random, kernel, drawn);
            }
            addAll("matrix", kernel, testLayout, Limits::full, cases);
            addFusedEdges(kernel, testLayout, whole);
            if (whole || !quick()) {
                cases = formMatrix(random, 0);
                keepFewPipelines(cases, random);
                if (quick()) keepEdges(cases, random, 4, false), addCovering(cases, random, kernel, fewTerms(random, 1));
                for (Case &c : cases) c.slices = someSlices(random);
                addAll("matrix", kernel, testLayout, Limits::tight, cases);
            }
            if (whole || !quick()) planProperties(kernel, testLayout), addAll("split", kernel, testLayout, Limits::full, fusedSplits());
            if (!quick()) addLong(kernel, testLayout);
        }
        planBuiltInTiles(kernel);
    }

    // What a drawn part of the matrix may leave out, and the dims 8 of its problems cannot show.
    void addFusedEdges(vkattn_kernel kernel, const TestLayout *testLayout, bool whole) {
        if (std::string_view(testLayout->row).find("dimLanes=") != std::string_view::npos) {
            Case lanes = named("everyLane"); // with 8 dims lanes that take 4 each are half empty
            lanes.headDim = lanes.valueDim = 16, lanes.keyTokens = 21;
            add("matrix", kernel, testLayout, Limits::full, lanes);
        }
        if (quick() && (!whole || onMatrixUnits(kernel))) return;
        Case halves = named("oddHalves"); // 16-bit rows that begin in the middle of a word
        halves.headDim = halves.valueDim = 16, halves.q = halves.k = halves.v = halves.out = VKATTN_F16;
        halves.kStyle = halves.vStyle = Style::padded;
        add("matrix", kernel, testLayout, Limits::full, halves);
        if (!onMatrixUnits(kernel)) { // rows of two blocks, which begin at any halfword
            Case small = named("smallTypes");
            small.headDim = small.valueDim = 64, small.k = VKATTN_Q8_0,
            small.v = kernel == VKATTN_KERNEL_DECODE ? VKATTN_Q4_0 : VKATTN_INT8;
            small.kStyle = small.vStyle = Style::tokenMajor;
            add("matrix", kernel, testLayout, Limits::full, small);
        }
        // heads of a group may share a tile, but neither slopes nor sinks
        Case slopes = named("slopesOfGroups");
        slopes.headDim = slopes.valueDim = 8, slopes.batch = 2, slopes.heads = 6, slopes.kvHeads = 2, slopes.queryTokens = 2,
        slopes.keyTokens = 45, slopes.alibi = slopes.sinks = slopes.lse = true;
        add("matrix", kernel, testLayout, Limits::full, slopes);
        // Chunks of heads, each with its own sinks and slopes.
        Case heads = slopes;
        heads.name = "headsInChunks", heads.heads = heads.kvHeads = 6, heads.keyTokens = 700;
        add("matrix", kernel, testLayout, Limits::tight, heads);
        // Chunks of keys that begin in the middle of a word of the mask.
        Case bits = named("bitsOfChunks");
        bits.headDim = bits.valueDim = 8, bits.batch = 1, bits.heads = bits.kvHeads = 2, bits.queryTokens = 3, bits.keyTokens = 4500;
        bits.kStyle = bits.vStyle = Style::padded, bits.bitMaskBroadcast = 0;
        add("matrix", kernel, testLayout, Limits::tight, bits);
    }

    static void addCovering(std::vector<Case> &cases, Random &random, vkattn_kernel kernel, CoveringPalette palette) {
        palette.weights = vkattnKernelTraits(kernel) & VKATTN_KERNEL_TRAIT_WEIGHTS;
        if (onMatrixUnits(kernel)) palette.terms = drawTerm(random);
        for (Case &c : coveringCases(random, palette).cases) cases.push_back(std::move(c));
    }

    // V within K needs a value dim below the head dim.
    static CoveringPalette narrow(CoveringPalette palette) {
        palette.valueDim = 5;
        return palette;
    }
    // `count` terms that are drawn: what a kernel does with a term of the scores is the same on all
    // tiles, and each set of terms is compiled anew.
    static CoveringPalette fewTerms(Random &random, uint32_t count) {
        uint32_t terms[] = {softcapTerm, slopeTerm, biasTerm, maskTerm, bitMaskTerm, documentsTerm, dropoutTerm, dimMajorTerm};
        std::shuffle(std::begin(terms), std::end(terms), random);
        CoveringPalette palette;
        palette.terms = 0;
        for (uint32_t n = 0; n < count; ++n) palette.terms |= terms[n];
        return palette;
    }

    // One of those terms of pairs that are masks or biases, or dropout.
    static uint32_t drawTerm(Random &random) {
        constexpr uint32_t terms[] = {maskTerm, biasTerm, bitMaskTerm, documentsTerm, dropoutTerm};
        return terms[random() % std::size(terms)];
    }

    // One edge in `of`, and single options alone or not at all. What chunks across groups do, no
    // other case does.
    static void keepEdges(std::vector<Case> &cases, Random &random, uint32_t of, bool singles) {
        std::erase_if(cases, [&](const Case &c) {
            if (isPair(c)) return true;
            if (isSingle(c)) return !singles && c.name != "plain";
            return c.name != "chunksAcrossGroups" && random() % of != 0;
        });
    }

    // Each edge with one of the limits, single options with those of the device, and with each
    // limits an array of other types and dims: each mixture of types and terms is compiled anew.
    static void dealEdges(Random &random, std::vector<Case> &full, std::vector<Case> &weak, std::vector<Case> &tiny) {
        std::vector<Case> *const all[] = {&full, &weak, &tiny};
        for (const Case &c : caseMatrix(random, false)) {
            const bool everywhere = c.name == "plain" || c.name == "chunksAcrossGroups";
            if (isPair(c) || (mixesTypes(c) && c.name != "mixedTypes")) continue;
            const size_t dealt = isSingle(c) ? 0 : random() % std::size(all);
            for (size_t n = 0; n < std::size(all); ++n)
                if (n == dealt || everywhere) all[n]->push_back(c);
        }
        addCovering(full, random, VKATTN_KERNEL_STAGED, narrow({}));
        addCovering(weak, random, VKATTN_KERNEL_STAGED, drawPalette(random));
        addCovering(tiny, random, VKATTN_KERNEL_STAGED, {});
    }

    // Cases that share the pipelines of plain problems, with one term of scores that each use draws
    // anew.
    static void keepFewPipelines(std::vector<Case> &cases, Random &random) {
        const uint32_t term = drawTerm(random);
        std::erase_if(cases, [&](const Case &c) {
            const bool others = std::any_of(features().begin(), features().end(), [&](const Feature &feature) {
                return (feature.pipelineTerm & pairTerms & ~term) != 0 && feature.isOn(c);
            });
            return others || c.headDim != 8 || c.valueDim != 8 || c.q != VKATTN_F32 || c.k != VKATTN_F32 || c.v != VKATTN_F32 ||
                   c.out != VKATTN_F32 || c.kStyle == Style::dimMajor;
        });
    }

    // The planner's choice, kernel by kernel: with the device's limits where that compiles fast,
    // and on the weakest device.
    void planChoice() {
        Random random = randomFor(options_.seed, "choice");
        std::vector<Case> cases = formMatrix(random, 0);
        if (quick())
            keepFewPipelines(cases, random), keepEdges(cases, random, 6, false),
                addCovering(cases, random, VKATTN_KERNEL_AUTO, fewTerms(random, 1));
        addAll("matrix", VKATTN_KERNEL_AUTO, deviceLayout(), Limits::weak, cases);
        if (!slowCompiler_) addAll("matrix", VKATTN_KERNEL_AUTO, deviceLayout(), Limits::full, cases);
    }

    // Drawn cases. Each mixture of types is another pipeline, which software drivers compile at the
    // first dispatch.
    void planDrawn() {
        struct Count {
            Limits limits;
            int quick, whole;
        };
        static constexpr Count operations[] = {{Limits::full, 2, 60}, {Limits::weak, 1, 30}, {Limits::tight, 2, 30}};
        // Of several problems each. The least limits are too few storage buffers: the device says so.
        static constexpr Count several[] = {{Limits::full, 2, 25}, {Limits::weak, 1, 1}, {Limits::tight, 2, 15}};
        static constexpr Count layers[] = {{Limits::full, 1, 20}, {Limits::weak, 1, 10}}; // a list is not cut into slices
        for (const Kind &kind : checkKinds()) {
            if (!kind.drawnBySeed()) continue;
            std::span<const Count> counts = operations;
            if (&kind == kindOf("statistics") || &kind == kindOf("visibleBlocks") || &kind == kindOf("linear")) counts = several;
            if (kind.subject == Subject::layer) counts = layers;
            // A layer has a dozen pipelines: one of its limits is drawn.
            if (quick() && slowCompiler_ && kind.subject == Subject::layer)
                counts = counts.subspan(randomFor(options_.seed, std::string("limits of ") + kind.name)() % counts.size(), 1);
            for (const Count &each : counts)
                for (int n = 0; n < (quick() ? each.quick : each.whole); ++n)
                    add(kind.name, VKATTN_KERNEL_AUTO, deviceLayout(), each.limits, named("drawn"));
        }
    }

    void planProperties(vkattn_kernel kernel, const TestLayout *testLayout) {
        addAll("hidden", kernel, testLayout, Limits::full, hiddenCases());
        if (!quick()) addAll("hidden", kernel, testLayout, Limits::tight, hiddenCases());
        addAll("nonfinite", kernel, testLayout, Limits::full, nonFiniteCases(kernel));
        Case needles = named("needles41");
        needles.batch = 1, needles.headDim = needles.valueDim = 8, needles.queryTokens = 3, needles.keyTokens = 41, needles.poison = false;
        add("needles", kernel, testLayout, Limits::full, needles);
        needles.name = "needlesOfSplits", needles.deterministic = true, needles.keyTokens = 2100;
        add("needles", kernel, testLayout, Limits::full, needles);
        Random random = randomFor(options_.seed, std::string("repeat") + testLayout->name);
        std::vector<Case> cases = kernel == VKATTN_KERNEL_STAGED ? caseMatrix(random, false) : formMatrix(random, 0);
        if (kernel != VKATTN_KERNEL_STAGED) keepFewPipelines(cases, random);
        if (quick()) std::erase_if(cases, mixesTypes);
        std::shuffle(cases.begin(), cases.end(), random);
        cases.resize(std::min<size_t>(cases.size(), quick() ? 6 : 30));
        addAll("repeat", kernel, testLayout, Limits::full, cases);
    }

    [[nodiscard]] std::vector<Case> hiddenCases() const {
        Case c;
        c.batch = 1, c.heads = c.kvHeads = 1, c.queryTokens = 40, c.keyTokens = 45, c.headDim = c.valueDim = 8, c.lse = true,
        c.poison = false;
        std::vector<Case> cases;
        Random random = randomFor(options_.seed, "hidden");
        for (const Feature &feature : features()) {
            if (!feature.hides) continue;
            Case one = c;
            feature.variants[0].draw(one, random);
            one.name = feature.variants[0].name;
            if (one.ragged) one.causal = true, one.batch = 4, one.queryTokens = 12, one.keyTokens = 15;
            if (one.documents != Documents::none) one.documents = Documents::random;
            cases.push_back(one);
        }
        Case topLeft = c;
        topLeft.name = "causalTopLeft", topLeft.causal = topLeft.topLeft = true;
        cases.push_back(topLeft);
        // Few rows, heads of a group among them, which may share a tile.
        Case grouped = c;
        grouped.name = "grouped", grouped.causal = true, grouped.heads = 6, grouped.kvHeads = 2, grouped.queryTokens = 5;
        grouped.rowStatistics = true;
        cases.push_back(grouped);
        Case dropped = c; // a dropped value is as unread as a hidden one
        dropped.name = "dropped", dropped.causal = true, dropped.dropout = 0.5f, dropped.dropoutSeed = 11;
        cases.push_back(dropped);
        return cases;
    }

    [[nodiscard]] std::vector<Case> nonFiniteCases(vkattn_kernel kernel) const {
        const bool staged = kernel == VKATTN_KERNEL_STAGED;
        Case c;
        c.batch = 1, c.headDim = c.valueDim = 8, c.queryTokens = 37, c.poison = false, c.lse = true, c.weights = staged;
        std::vector<Case> cases(4, c);
        cases[0].name = "bias", cases[0].biasBroadcast = 1, cases[0].biasHidden = 0;
        cases[1].name = "slopesAndSinks", cases[1].alibi = cases[1].sinks = true, cases[1].sink = 0.5f;
        cases[1].causal = true; // 19 keys for 37 queries: the first 18 rows see nothing
        cases[2].name = "causal", cases[2].causal = true, cases[2].keyTokens = 30, cases[2].queryTokens = 30;
        cases[3].name = "sinks", cases[3].causal = cases[3].sinks = true, cases[3].sink = 0.5f, cases[3].keyTokens = 30,
        cases[3].queryTokens = 30;
        cases[0].rowStatistics = cases[3].rowStatistics = true; // the others: the log-sum-exp
        if (staged) cases.push_back(cases[0]), cases.back().name = "softcap", cases.back().softcap = 5;
        // Rows that are NaN drop nothing.
        cases.push_back(cases[3]), cases.back().name = "dropped", cases.back().dropout = 0.9f, cases.back().weightsDropped = true;
        return cases;
    }

    [[nodiscard]] std::vector<Case> stagedSplits() const {
        Case base;
        base.lse = true, base.batch = 3, base.poison = false;
        std::vector<Case> cases;
        const auto addCase = [&](std::string name) -> Case & {
            cases.push_back(base);
            cases.back().name = std::move(name);
            return cases.back();
        };
        // Keys of one head above 64 KiB, so that keys are cut as well; few rows and many.
        for (const uint32_t queries : {1u, 3u, 9u, 40u})
            for (const bool causal : {false, true}) {
                if (quick() && (queries == 3 || queries == 9)) continue;
                Case &c = addCase("long" + std::to_string(queries) + (causal ? "Causal" : ""));
                c.queryTokens = queries, c.keyTokens = 701, c.headDim = c.valueDim = 64, c.causal = causal;
            }
        Case &narrow = addCase("narrow");
        narrow.valueDim = 5, narrow.keyTokens = 333;
        Case &weights = addCase("weights"); // rows of weights begin at odd and even halves
        weights.weights = true, weights.weightsType = VKATTN_F16, weights.keyTokens = 321, weights.batch = 4,
        weights.heads = weights.kvHeads = 1;
        Case &all = addCase("options");
        all.keyTokens = 701, all.headDim = all.valueDim = 64, all.alibi = all.sinks = all.lengths = true, all.documents = Documents::random,
        all.bitMaskBroadcast = 0, all.biasBroadcast = 0, all.softcap = 3, all.window = true, all.left = 300, all.right = 100;
        Case &bfloat16 = addCase("bf16");
        bfloat16.q = bfloat16.k = bfloat16.v = bfloat16.out = VKATTN_BF16, bfloat16.weights = true, bfloat16.weightsType = VKATTN_BF16,
        bfloat16.keyTokens = 77;
        Case &small = addCase("smallTypes");
        small.k = VKATTN_Q8_0, small.v = VKATTN_Q4_0, small.headDim = 64, small.valueDim = 70, small.keyTokens = 77;
        for (const bool max : {false, true}) {
            Case &ragged = addCase(max ? "raggedMax" : "ragged");
            ragged.ragged = true, ragged.raggedMax = max, ragged.batch = 6, ragged.queryTokens = 30, ragged.keyTokens = 90;
            ragged.causal = ragged.sinks = ragged.alibi = true, ragged.bitMaskBroadcast = 0, ragged.documents = Documents::runs;
            ragged.weights = true, ragged.weightsType = VKATTN_F16, ragged.weightsStyle = Style::padded;
        }
        return cases;
    }

    // Splits of 1024 keys, which chunks of keys must not cut; K of one head is above 64 KiB. Dims
    // that other checks have pipelines for.
    [[nodiscard]] std::vector<Case> fusedSplits() const {
        Case base;
        base.headDim = base.valueDim = 8, base.lse = true, base.poison = false, base.keyTokens = 2100;
        std::vector<Case> cases;
        for (const uint32_t queries : {1u, 3u, 19u})
            for (const bool causal : {false, true}) {
                if (quick() && queries == 3) continue;
                Case c = base;
                c.name = "long" + std::to_string(queries) + (causal ? "Causal" : "");
                c.queryTokens = queries, c.causal = causal, c.heads = causal ? 6 : 2, c.batch = 3;
                c.window = queries == 19 && causal, c.left = 700;
                cases.push_back(c);
            }
        Case lengths = base;
        lengths.name = "lengths", lengths.lengths = lengths.sinks = true, lengths.batch = 4;
        cases.push_back(lengths);
        Case mask = base;
        mask.name = "mask", mask.maskBroadcast = 0, mask.batch = 2, mask.heads = 4;
        if (!quick()) cases.push_back(mask);
        Case ragged = base;
        ragged.name = "ragged", ragged.ragged = ragged.causal = ragged.raggedMax = true, ragged.batch = 4;
        ragged.sequenceLengths = {{5, 1100}, {2, 300}, {9, 9}, {1, 1024}};
        cases.push_back(ragged);
        return cases;
    }

    void addAccuracy(vkattn_kernel kernel) {
        for (const uint32_t keys : {64u, 512u, 4096u})
            for (const uint32_t dim : {16u, 64u, 128u, 256u}) {
                if (quick() && keys * dim > 65536) continue;
                Case c = named("ordinary");
                c.name += std::to_string(keys) + "x" + std::to_string(dim);
                c.batch = 1, c.queryTokens = 24, c.keyTokens = keys, c.headDim = c.valueDim = dim, c.causal = dim == 64;
                add("accuracy", kernel, deviceLayout(), Limits::full, c);
            }
        for (const vkattn_dtype type : {VKATTN_F32, VKATTN_F16}) {
            Case denormal = named(type == VKATTN_F32 ? "denormalValues" : "denormalValuesF16");
            denormal.data = Data::denormal, denormal.v = type;
            add("matrix", kernel, deviceLayout(), Limits::full, denormal);
        }
    }

    // Long rows: some drivers leave a loop after 65,535 rounds, and only needles in the far keys
    // tell.
    void addLong(vkattn_kernel kernel, const TestLayout *testLayout) {
        for (const uint32_t keys : {70001u, 400001u}) {
            if (quick() && keys > 100000) continue;
            Case c = named("long");
            c.name += std::to_string(keys);
            c.batch = 1, c.heads = c.kvHeads = kernel != VKATTN_KERNEL_STAGED && keys < 100000 ? 16 : 1,
            c.queryTokens = c.heads == 1 ? 2 : 1;
            c.keyTokens = keys, c.headDim = c.valueDim = 8, c.poison = false, c.data = Data::needle, c.needle = keys - 1;
            add("matrix", kernel, testLayout, Limits::full, c);
            c.name += keys < 100000 ? "Mask" : "Deterministic";
            if (keys < 100000)
                c.maskBroadcast = 1 | 2 | 4; // each step is looked at before it is taken
            else
                c.deterministic = true;
            if (!quick()) add("matrix", kernel, testLayout, Limits::full, c);
        }
    }

    // The device's own tiles where the matrix runs on small ones: what a compiler makes of large
    // tiles.
    void planBuiltInTiles(vkattn_kernel kernel) {
        const auto addDim = [&](std::string name, uint32_t dim, vkattn_dtype dtype, bool causal, bool bias) {
            Case c;
            c.name = std::move(name);
            c.batch = 1, c.heads = 4, c.kvHeads = 2, c.queryTokens = kernel == VKATTN_KERNEL_DECODE ? 1 : 70;
            c.keyTokens = kernel == VKATTN_KERNEL_DECODE ? 1300 : 150, c.headDim = c.valueDim = dim, c.causal = causal;
            c.q = c.k = c.v = c.out = dtype;
            if (bias) c.biasBroadcast = 0;
            add("matrix", kernel, deviceLayout(), Limits::full, c);
        };
        addDim("causal64", 64, VKATTN_F32, true, false);
        if (quick()) return;
        addDim("plain64", 64, VKATTN_F32, false, false);
        addDim("half64", 64, VKATTN_F16, true, false);
        addDim("plain128", 128, VKATTN_F32, true, false);
        addDim("bias64", 64, VKATTN_F32, false, true);
        if (!onMatrixUnits(kernel)) addDim("plain512", 512, VKATTN_F32, false, false);
        if (kernel != VKATTN_KERNEL_DECODE) return;
        Case c = named("decode131072");
        c.batch = 1, c.heads = 8, c.kvHeads = 2, c.queryTokens = 1, c.keyTokens = 131072, c.headDim = c.valueDim = 64, c.poison = false,
        c.k = c.v = VKATTN_F16;
        add("matrix", kernel, deviceLayout(), Limits::full, c);
    }

    const DeviceInfo &device_;
    const Selection &options_;
    const bool slowCompiler_;
    std::vector<Planned> planned_;
    std::set<std::string> ids_, compiled_;
};

} // namespace

std::vector<Planned> planChecks(const DeviceInfo &device, const Selection &options) {
    return Planner(device, options).plan();
}

} // namespace vkattn::conform
