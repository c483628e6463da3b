#include "conform/cases/features.hpp"

#include <algorithm>

namespace vkattn::conform {
namespace {

int32_t distance(Random &random) {
    return static_cast<int32_t>(between(random, 0, 9));
}

void setTypes(Case &c, vkattn_dtype type) {
    c.q = c.k = c.v = c.out = type;
}
void setStyles(Case &c, Style style) {
    c.qStyle = c.kStyle = c.vStyle = c.outStyle = style;
}
bool anyType(const Case &c, vkattn_dtype type) {
    return c.q == type || c.k == type || c.v == type || c.out == type;
}
void addWeights(Case &c, vkattn_dtype type) {
    c.weights = true, c.weightsType = type, c.weightsStyle = Style::padded;
}

TokenOffset near(Random &random) {
    return {static_cast<int32_t>(between(random, 0, 40)) - 15};
}
constexpr Variant causal[] = {{"causal", [](Case &c, Random &) { c.causal = true; }},
                              {"causalTopLeft", [](Case &c, Random &) { c.causal = c.topLeft = true; }},
                              {"prefixes", [](Case &c, Random &) { c.causal = c.prefixes = true; }},
                              {"causalOffset", [](Case &c, Random &r) { c.causal = c.offsets = true, c.queryOffset = near(r); }},
                              {"offsetArrays", [](Case &c, Random &r) {
                                   c.causal = c.offsets = c.offsetArrays = true, c.keyOffset = r() % 2 ? near(r) : TokenOffset{};
                                   c.hostileOffsets = r() % 2;
                               }}};
constexpr Member offsetMembers[] = {member<&Case::offsets>("offsets"), member<&Case::offsetArrays>("offsetArrays"),
                                    member<&Case::hostileOffsets>("hostileOffsets"), member<&Case::queryOffset>("queryOffset"),
                                    member<&Case::keyOffset>("keyOffset")};
constexpr Member causalMembers[] = {member<&Case::causal>("causal"), member<&Case::prefixes>("prefixes")};

constexpr Member topLeftMembers[] = {member<&Case::topLeft>("topLeft")};

void addWindow(Case &c, Random &random) {
    c.window = true, c.left = static_cast<int32_t>(between(random, 0, 3)), c.right = static_cast<int32_t>(between(random, 0, 3));
}
constexpr Variant window[] = {
    {"window", [](Case &c, Random &r) { c.window = true, c.left = distance(r), c.right = distance(r); }},
    {"windowLeftTopLeft", [](Case &c, Random &r) { c.window = c.topLeft = true, c.left = distance(r), c.right = -1; }},
    {"windowRight", [](Case &c, Random &r) { c.window = true, c.left = -1, c.right = distance(r); }},
    {"dilation", [](Case &c, Random &r) { addWindow(c, r), c.dilation = between(r, 2, 5), c.headDilations = r() % 2; }},
    {"windowOffsets",
     [](Case &c, Random &r) {
         c.window = c.offsets = true, c.left = distance(r), c.right = distance(r);
         c.queryOffset = near(r), c.keyOffset = near(r);
     }},
    {"globalTokens", [](Case &c, Random &r) { addWindow(c, r), c.globalTokens = true; }}};
constexpr Member windowMembers[] = {member<&Case::window>("window"),
                                    member<&Case::left>("left"),
                                    member<&Case::right>("right"),
                                    member<&Case::dilation>("dilation"),
                                    member<&Case::headDilations>("headDilations"),
                                    member<&Case::globalTokens>("globalTokens")};

constexpr Variant scale[] = {{"scale", [](Case &c, Random &r) { c.scale = 0.01f * static_cast<float>(between(r, 0, 30)); }}};
constexpr Member scaleMembers[] = {member<&Case::scale>("scale")};

constexpr Variant softcap[] = {{"softcap", [](Case &c, Random &r) { c.softcap = 0.5f * static_cast<float>(between(r, 1, 40)); }}};
constexpr Member softcapMembers[] = {member<&Case::softcap>("softcap")};

// Words of four keys, rows that keep nothing, and a factor that is no power of two.
constexpr Variant dropout[] = {{"dropout",
                                [](Case &c, Random &r) {
                                    c.dropout = 0.1f * static_cast<float>(between(r, 1, 9));
                                    c.dropoutSeed = static_cast<uint32_t>(r()), c.dropoutOffset = static_cast<uint32_t>(r());
                                    c.weightsDropped = r() % 2;
                                }},
                               {"dropoutAll", [](Case &c, Random &r) { c.dropout = 1, c.weightsDropped = r() % 2; }}};
constexpr Member dropoutMembers[] = {member<&Case::dropout>("dropout"), member<&Case::dropoutSeed>("dropoutSeed"),
                                     member<&Case::dropoutOffset>("dropoutOffset"), member<&Case::weightsDropped>("weightsDropped")};

constexpr Variant mask[] = {{"mask", [](Case &c, Random &) { c.maskBroadcast = 0; }},
                            {"maskKeys", [](Case &c, Random &) { c.maskBroadcast = 2 | 4; }},
                            {"maskQueriesKeys", [](Case &c, Random &) { c.maskBroadcast = 1 | 2; }},
                            {"maskQueries", [](Case &c, Random &) { c.maskBroadcast = 2 | 8; }},
                            {"shortMask", [](Case &c, Random &r) { c.maskBroadcast = r() % 2 ? 0 : 1, c.shortMask = true; }}};
constexpr Member maskMembers[] = {member<&Case::maskBroadcast>("mask"), member<&Case::shortMask>("shortMask")};

constexpr Variant bitMask[] = {{"bitMask", [](Case &c, Random &) { c.bitMaskBroadcast = 0; }},
                               {"bitMaskBroadcast", [](Case &c, Random &r) { c.bitMaskBroadcast = between(r, 1, 7); }}};
constexpr Member bitMaskMembers[] = {member<&Case::bitMaskBroadcast>("bitMask")};

constexpr Variant bias[] = {{"bias", [](Case &c, Random &) { c.biasBroadcast = 0; }},
                            {"biasHeads", [](Case &c, Random &) { c.biasBroadcast = 1, c.biasType = VKATTN_F16; }},
                            {"biasPerHead", [](Case &c, Random &) { c.biasBroadcast = 1 | 4 | 8, c.biasHidden = 0; }},
                            {"biasBf16", [](Case &c, Random &) { c.biasBroadcast = 2, c.biasType = VKATTN_BF16; }}};
constexpr Member biasMembers[] = {member<&Case::biasBroadcast>("bias"), member<&Case::biasType>("biasType"),
                                  member<&Case::biasHidden>("biasHidden"), member<&Case::biasConstant>("biasConstant")};

constexpr Variant alibi[] = {{"alibi", [](Case &c, Random &) { c.alibi = true; }}};
constexpr Member alibiMembers[] = {member<&Case::alibi>("alibi"), member<&Case::alibiSlope>("alibiSlope")};

constexpr Variant sinks[] = {{"sinks", [](Case &c, Random &) { c.sinks = true; }}};
constexpr Member sinksMembers[] = {member<&Case::sinks>("sinks"), member<&Case::sink>("sink")};

constexpr Variant lengths[] = {{"lengths", [](Case &c, Random &) { c.lengths = true; }},
                               {"hostileLengths", [](Case &c, Random &) { c.lengths = c.hostileLengths = true; }}};
constexpr Member lengthsMembers[] = {member<&Case::lengths>("lengths"), member<&Case::hostileLengths>("hostileLengths")};

// Pages of few tokens, and of whole tiles of a kernel; tables with entries that are no pages.
constexpr Variant pages[] = {
    {"pages", [](Case &c, Random &r) { c.pageTokens = between(r, 1, 9); }},
    {"pagesOf16", [](Case &c, Random &r) { c.pageTokens = 16u << r() % 2; }},
    {"hostilePages", [](Case &c, Random &r) { c.pageTokens = between(r, 1, 12), c.hostilePages = true; }},
    {"csrPages", [](Case &c, Random &r) { c.pageTokens = between(r, 1, 9), c.csrPages = true; }},
    {"hostileCsrPages", [](Case &c, Random &r) { c.pageTokens = between(r, 1, 9), c.csrPages = c.hostilePages = true; }}};
constexpr Member pagesMembers[] = {member<&Case::pageTokens>("pageTokens"), member<&Case::csrPages>("csrPages"),
                                   member<&Case::hostilePages>("hostilePages")};

constexpr Variant segments[] = {{"segments", [](Case &c, Random &r) { c.segments = between(r, 1, 3); }}};
constexpr Member segmentsMembers[] = {member<&Case::segments>("segments")};

constexpr Variant prior[] = {{"prior", [](Case &c, Random &r) { c.prior = true, c.priorType = static_cast<vkattn_dtype>(r() % 3); }}};
constexpr Member priorMembers[] = {member<&Case::prior>("prior"), member<&Case::priorType>("priorType")};

constexpr Variant ragged[] = {{"ragged", [](Case &c, Random &r) { c.ragged = true, c.batch = between(r, 2, 4), c.raggedMax = r() % 2; }},
                              {"hostileRagged", [](Case &c, Random &r) { c.ragged = c.hostileRagged = true, c.batch = between(r, 2, 5); }}};
constexpr Member raggedMembers[] = {member<&Case::ragged>("ragged"), member<&Case::sequenceLengths>("sequences"),
                                    member<&Case::raggedGaps>("raggedGaps"), member<&Case::raggedMax>("raggedMax"),
                                    member<&Case::hostileRagged>("hostileRagged")};

constexpr Variant documents[] = {{"documents", [](Case &c, Random &r) { c.documents = r() % 2 ? Documents::runs : Documents::random; }}};
constexpr Member documentsMembers[] = {member<&Case::documents>("documents")};

constexpr Variant lse[] = {{"lse", [](Case &c, Random &) { c.lse = true; }},
                           {"rowStatistics", [](Case &c, Random &) { c.lse = c.rowStatistics = true; }}};
constexpr Member lseMembers[] = {member<&Case::lse>("lse"), member<&Case::rowStatistics>("rowStatistics")};

constexpr Variant weights[] = {{"weights", [](Case &c, Random &) { c.weights = true; }},
                               {"weightsF16", [](Case &c, Random &) { addWeights(c, VKATTN_F16); }},
                               {"weightsBf16", [](Case &c, Random &) { addWeights(c, VKATTN_BF16); }}};
constexpr Member weightsMembers[] = {member<&Case::weights>("weights"), member<&Case::weightsType>("weightsType"),
                                     member<&Case::weightsStyle>("weightsStyle")};

// Of every stage, types and layouts in turn.
template <vkattn_score_stage stage> void addScores(Case &c, Random &random) {
    constexpr vkattn_dtype types[] = {VKATTN_F32, VKATTN_F16, VKATTN_BF16};
    c.scores = stage, c.scoresType = types[random() % 3], c.scoresStyle = random() % 2 ? Style::packed : Style::padded;
}
constexpr Variant scores[] = {{"scoresRaw", addScores<VKATTN_SCORES_RAW>},
                              {"scoresScaled", addScores<VKATTN_SCORES_SCALED>},
                              {"scoresCapped", addScores<VKATTN_SCORES_CAPPED>},
                              {"scoresFinal", addScores<VKATTN_SCORES_FINAL>}};
constexpr Member scoresMembers[] = {member<&Case::scores>("scores"), member<&Case::scoresType>("scoresType"),
                                    member<&Case::scoresStyle>("scoresStyle")};

constexpr Variant grouped[] = {{"grouped", [](Case &c, Random &) { c.heads = 6, c.kvHeads = 2; }},
                               {"multiQuery", [](Case &c, Random &) { c.heads = 5, c.kvHeads = 1; }}};

constexpr Variant valueDim[] = {
    {"valueDim", [](Case &c, Random &r) { c.valueDim = between(r, 1, 70); }},
    {"oddDims", [](Case &c, Random &r) { c.headDim = 2 * between(r, 0, 40) + 1, c.valueDim = 2 * between(r, 0, 40) + 1; }}};

constexpr Variant f16[] = {{"f16", [](Case &c, Random &) { setTypes(c, VKATTN_F16); }},
                           {"f16KeysValues", [](Case &c, Random &) { c.k = c.v = VKATTN_F16; }},
                           {"f16QueryOut", [](Case &c, Random &) { c.q = c.out = VKATTN_F16; }}};
constexpr Variant bf16[] = {{"bf16", [](Case &c, Random &) { setTypes(c, VKATTN_BF16); }},
                            {"bf16KeysValues", [](Case &c, Random &) { c.k = c.v = VKATTN_BF16; }}};
constexpr Variant mixedTypes[] = {{"mixedTypes", [](Case &c, Random &) { c.k = VKATTN_F16, c.v = VKATTN_BF16; }}};

// Caches of small types, of one or of two of them, beside queries of any type.
constexpr Variant smallTypes[] = {{"q8", [](Case &c, Random &) { c.k = c.v = VKATTN_Q8_0; }},
                                  {"q4", [](Case &c, Random &) { c.k = c.v = VKATTN_Q4_0; }},
                                  {"q8q4", [](Case &c, Random &) { c.k = VKATTN_Q8_0, c.v = VKATTN_Q4_0; }},
                                  {"int8", [](Case &c, Random &) { c.k = c.v = VKATTN_INT8; }},
                                  {"fp8", [](Case &c, Random &) { c.k = VKATTN_FP8_E4M3, c.v = VKATTN_FP8_E5M2; }},
                                  {"fp8Keys", [](Case &c, Random &) { c.k = VKATTN_FP8_E5M2; }}};

constexpr Variant strides[] = {{"tokenMajor", [](Case &c, Random &) { setStyles(c, Style::tokenMajor); }},
                               {"padded", [](Case &c, Random &) { setStyles(c, Style::padded); }},
                               {"dimMajor", [](Case &c, Random &) { setStyles(c, Style::dimMajor); }},
                               {"reversed", [](Case &c, Random &) { setStyles(c, Style::reversed); }}};

constexpr Variant sharedMemory[] = {
    {"sharedHeads", [](Case &c, Random &) { c.sharedHeads = true, c.heads = c.kvHeads = 3; }},
    {"valuesInKeys", [](Case &c, Random &r) { c.valuesInKeys = true, c.headDim = c.valueDim + between(r, 1, 9); }}};

// With room for the value dim that the case has.
constexpr Variant valuesInKeys[] = {
    {"keysHoldValues", [](Case &c, Random &r) { c.keysHoldValues = true, c.headDim = c.valueDim + between(r, 1, 9); }}};
constexpr Member valuesInKeysMembers[] = {member<&Case::keysHoldValues>("keysHoldValues")};

constexpr Variant tokens[] = {
    {"oneQuery", [](Case &c, Random &) { c.queryTokens = 1; }},
    {"moreQueries", [](Case &c, Random &r) { c.queryTokens = between(r, 30, 75), c.keyTokens = between(r, 1, 29); }}};

// A box of odd sizes, in a grid of as many keys as there are.
void addGrid(Case &c, Random &random, uint32_t planes) {
    constexpr Grid kinds[] = {Grid::clamped, Grid::cut, Grid::windows};
    c.grid = kinds[random() % 3];
    c.gridPlanes = planes, c.gridRows = between(random, 2, 6);
    c.sizePlanes = planes > 1 ? 2 * between(random, 0, 1) + 1 : 1;
    c.sizeRows = 2 * between(random, 0, 2) + 1, c.sizeColumns = 2 * between(random, 0, 3) + 1;
    if (c.grid == Grid::windows)
        c.sizeRows += between(random, 0, 1), c.sizeColumns += between(random, 0, 1), c.gridShift = between(random, 0, 3);
    c.keyTokens = c.gridPlanes * c.gridRows * between(random, 2, 8);
    c.queryTokens = c.keyTokens - between(random, 0, 3);
}
constexpr Variant grid[] = {{"grid", [](Case &c, Random &r) { addGrid(c, r, 1); }},
                            {"volume", [](Case &c, Random &r) { addGrid(c, r, between(r, 2, 3)); }}};
constexpr Member gridMembers[] = {member<&Case::grid>("grid"),          member<&Case::gridPlanes>("gridPlanes"),
                                  member<&Case::gridRows>("gridRows"),  member<&Case::sizePlanes>("sizePlanes"),
                                  member<&Case::sizeRows>("sizeRows"),  member<&Case::sizeColumns>("sizeColumns"),
                                  member<&Case::gridShift>("gridShift")};

constexpr Variant blocks[] = {{"blocks", [](Case &c, Random &r) {
                                   constexpr Blocks kinds[] = {Blocks::mask, Blocks::lists, Blocks::indices, Blocks::bigBird};
                                   c.blocks = kinds[r() % 4];
                                   c.blockQueries = between(r, 1, 9), c.blockKeys = between(r, 1, 9);
                                   c.blocksOfHeads = r() % 2, c.blocksOfBatches = r() % 2, c.fullBlocks = r() % 2;
                                   c.hostileBlocks = r() % 2;
                                   if (c.blocks != Blocks::bigBird) return;
                                   c.blockQueries = between(r, 1, 4);
                                   c.randomBlocks = between(r, 0, 3), c.blockSeed = static_cast<uint32_t>(r());
                               }}};
constexpr Member blocksMembers[] = {member<&Case::blocks>("blocks"),
                                    member<&Case::blockQueries>("blockQueries"),
                                    member<&Case::blockKeys>("blockKeys"),
                                    member<&Case::randomBlocks>("randomBlocks"),
                                    member<&Case::blockSeed>("blockSeed"),
                                    member<&Case::blocksOfHeads>("blocksOfHeads"),
                                    member<&Case::blocksOfBatches>("blocksOfBatches"),
                                    member<&Case::fullBlocks>("fullBlocks"),
                                    member<&Case::hostileBlocks>("hostileBlocks")};

constexpr Variant hooks[] = {{"hooks", [](Case &c, Random &r) {
                                  constexpr Hooks kinds[] = {Hooks::score, Hooks::visible, Hooks::both,   Hooks::probability,
                                                             Hooks::all,   Hooks::row,     Hooks::sigmoid};
                                  c.hooks = kinds[r() % std::size(kinds)];
                              }}};
constexpr Member hooksMembers[] = {member<&Case::hooks>("hooks")};

constexpr Variant deterministic[] = {{"deterministic", [](Case &c, Random &) { c.deterministic = true; }}};
constexpr Member deterministicMembers[] = {member<&Case::deterministic>("deterministic")};

constexpr Member slicesMembers[] = {member<&Case::slices>("slices")};

const Feature table[] = {
    {.name = "causal", .variants = causal, .isOn = [](const Case &c) { return c.causal; }, .members = causalMembers, .hides = true},
    {.name = "top-left", .isOn = [](const Case &c) { return c.topLeft; }, .members = topLeftMembers},
    {.name = "offsets", .isOn = [](const Case &c) { return c.offsets; }, .members = offsetMembers, .pipelineTerm = anyOption},
    {.name = "window", .variants = window, .isOn = [](const Case &c) { return c.window; }, .members = windowMembers, .hides = true},
    {.name = "scale", .variants = scale, .isOn = [](const Case &c) { return c.scale.has_value(); }, .members = scaleMembers},
    {.name = "softcap",
     .variants = softcap,
     .isOn = [](const Case &c) { return c.softcap > 0; },
     .members = softcapMembers,
     .pipelineTerm = softcapTerm | anyOption},
    {.name = "dropout",
     .variants = dropout,
     .isOn = [](const Case &c) { return c.dropout > 0; },
     .members = dropoutMembers,
     .pipelineTerm = dropoutTerm | anyOption},
    {.name = "mask",
     .variants = mask,
     .isOn = [](const Case &c) { return c.maskBroadcast.has_value(); },
     .members = maskMembers,
     .pipelineTerm = maskTerm | anyOption,
     .hides = true},
    {.name = "bit mask",
     .variants = bitMask,
     .isOn = [](const Case &c) { return c.bitMaskBroadcast.has_value(); },
     .members = bitMaskMembers,
     .pipelineTerm = bitMaskTerm | anyOption,
     .hides = true},
    {.name = "bias",
     .variants = bias,
     .isOn = [](const Case &c) { return c.biasBroadcast.has_value(); },
     .members = biasMembers,
     .pipelineTerm = biasTerm | anyOption,
     .hides = true},
    {.name = "ALiBi",
     .variants = alibi,
     .isOn = [](const Case &c) { return c.alibi; },
     .members = alibiMembers,
     .pipelineTerm = slopeTerm | anyOption},
    {.name = "sinks", .variants = sinks, .isOn = [](const Case &c) { return c.sinks; }, .members = sinksMembers, .pipelineTerm = anyOption},
    {.name = "lengths",
     .variants = lengths,
     .isOn = [](const Case &c) { return c.lengths; },
     .members = lengthsMembers,
     .pipelineTerm = anyOption,
     .hides = true},
    {.name = "pages",
     .variants = pages,
     .isOn = [](const Case &c) { return c.pageTokens != 0; },
     .members = pagesMembers,
     .pipelineTerm = pagesTerm | anyOption},
    {.name = "segments",
     .variants = segments,
     .isOn = [](const Case &c) { return c.segments != 0; },
     .members = segmentsMembers,
     .pipelineTerm = anyOption},
    {.name = "prior", .variants = prior, .isOn = [](const Case &c) { return c.prior; }, .members = priorMembers, .pipelineTerm = anyOption},
    {.name = "ragged",
     .variants = ragged,
     .isOn = [](const Case &c) { return c.ragged; },
     .members = raggedMembers,
     .pipelineTerm = anyOption,
     .hides = true},
    {.name = "documents",
     .variants = documents,
     .isOn = [](const Case &c) { return c.documents != Documents::none; },
     .members = documentsMembers,
     .pipelineTerm = documentsTerm | anyOption,
     .hides = true},
    {.name = "dilation", .isOn = [](const Case &c) { return c.window && c.dilation > 1; }, .pipelineTerm = localTerm | anyOption},
    {.name = "global tokens", .isOn = [](const Case &c) { return c.window && c.globalTokens; }, .pipelineTerm = localTerm | anyOption},
    {.name = "prefix", .isOn = [](const Case &c) { return c.causal && c.prefixes; }, .pipelineTerm = prefixTerm | anyOption},
    {.name = "grid",
     .variants = grid,
     .isOn = [](const Case &c) { return c.grid != Grid::none; },
     .members = gridMembers,
     .pipelineTerm = gridTerm | anyOption,
     .hides = true},
    {.name = "3-D grid", .isOn = [](const Case &c) { return c.grid != Grid::none && c.gridPlanes > 1; }},
    {.name = "blocks",
     .variants = blocks,
     .isOn = [](const Case &c) { return c.blocks != Blocks::none; },
     .members = blocksMembers,
     .pipelineTerm = blocksTerm | anyOption,
     .hides = true},
    {.name = "program",
     .variants = hooks,
     .isOn = [](const Case &c) { return c.hooks != Hooks::none; },
     .members = hooksMembers,
     .pipelineTerm = hooksTerm | anyOption,
     .hides = true},
    {.name = "lse", .variants = lse, .isOn = [](const Case &c) { return c.lse; }, .members = lseMembers, .pipelineTerm = anyOption},
    {.name = "weights", .variants = weights, .isOn = [](const Case &c) { return c.weights; }, .members = weightsMembers},
    {.name = "scores", .variants = scores, .isOn = [](const Case &c) { return c.scores.has_value(); }, .members = scoresMembers},
    {.name = "grouped heads", .variants = grouped, .isOn = [](const Case &c) { return c.heads != c.kvHeads; }},
    {.name = "value dim", .variants = valueDim, .isOn = [](const Case &c) { return c.headDim != c.valueDim; }, .ofPalette = true},
    {.name = "f16", .variants = f16, .isOn = [](const Case &c) { return anyType(c, VKATTN_F16); }, .ofPalette = true},
    {.name = "bf16", .variants = bf16, .isOn = [](const Case &c) { return anyType(c, VKATTN_BF16); }, .ofPalette = true},
    {.name = "mixed types",
     .variants = mixedTypes,
     .isOn = [](const Case &c) { return c.k != c.q || c.v != c.q || c.out != c.q; },
     .ofPalette = true},
    {.name = "small types",
     .variants = smallTypes,
     .isOn = [](const Case &c) { return isSmallType(c.k) || isSmallType(c.v); },
     .ofPalette = true},
    {.name = "strides",
     .variants = strides,
     .isOn =
         [](const Case &c) {
             const Style styles[] = {c.qStyle, c.kStyle, c.vStyle, c.outStyle};
             return std::any_of(std::begin(styles), std::end(styles), [](Style style) { return style != Style::packed; });
         }},
    {.name = "shared memory", .variants = sharedMemory, .isOn = [](const Case &c) { return c.sharedHeads || c.valuesInKeys; }},
    {.name = "values in keys",
     .variants = valuesInKeys,
     .isOn = [](const Case &c) { return c.keysHoldValues; },
     .members = valuesInKeysMembers,
     .pipelineTerm = valuesInKeysTerm},
    {.name = "no tokens", .isOn = [](const Case &c) { return c.queryTokens == 0 || c.keyTokens == 0; }},
    {.variants = tokens},
    {.name = "wide dims", .isOn = [](const Case &c) { return std::max(c.headDim, c.valueDim) > 128; }},
    {.name = "long rows", .isOn = [](const Case &c) { return c.keyTokens > 32768; }},
    {.name = "extremes",
     .isOn =
         [](const Case &c) {
             return c.data == Data::equal || c.data == Data::extreme || c.data == Data::denormal || c.biasConstant.has_value();
         }},
    {.name = "needles", .isOn = [](const Case &c) { return c.data == Data::needle; }},
    {.name = "hostile metadata",
     .isOn = [](const Case &c) { return c.hostileLengths || c.hostileRagged || c.hostileBlocks || c.hostilePages; }},
    {.name = "deterministic",
     .variants = deterministic,
     .isOn = [](const Case &c) { return c.deterministic; },
     .members = deterministicMembers},
    {.name = "slices", .isOn = [](const Case &c) { return c.slices > 1; }, .members = slicesMembers},
};

} // namespace

std::span<const Feature> features() {
    return table;
}

uint32_t pipelineTerms(const Case &c) {
    uint32_t terms = c.kStyle == Style::dimMajor ? dimMajorTerm | anyOption : 0;
    for (const Feature &feature : table)
        if (feature.pipelineTerm && feature.isOn(c)) terms |= feature.pipelineTerm;
    return terms;
}

void drop(const Feature &feature, Case &c) {
    for (const Member &member : feature.members) member.reset(c);
}

void dropMeaningless(Case &c) {
    for (const Feature &feature : table)
        if (feature.isOn && !feature.isOn(c)) drop(feature, c);
    if (c.data != Data::needle) c.needle = 0;
    c.needle = std::min(c.needle, std::max(c.keyTokens, 1u) - 1);
}

} // namespace vkattn::conform
