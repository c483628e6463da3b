#!/usr/bin/env python3
"""Plants one bug at a time in a copy of this tree, and asks the part of the default tests that must
notice whether it does: what a row says (scripts/host_mutations.py lists the words), and otherwise
`vkattn conform --quick`.

    scripts/mutate.py                       all of them, two at a time
    scripts/mutate.py NAME...               only these
    scripts/mutate.py --shaders, --host     those of shaders: about a quarter of an hour on two
                                            cores; those of host code
    scripts/mutate.py --list                what there is
    scripts/mutate.py --check               whether each still applies to this tree; builds nothing
                                            (a test of the default run)

The tests must first pass without a bug. Prints each mutation with what was found first, and the
score: mutations caught of mutations planted. Exit status 1 where one was missed or no longer
applies. Copies live in build/mutants/.
conform runs the part of its quick plan that is for kernels which the shader belongs to (--kernel),
and stops at the first failure. Mutations of the kernels on matrix units run on the driver that
scripts/test.sh puts into build/drivers/mesa; the others on whatever Vulkan finds first.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import queue
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import host_mutations

ROOT = pathlib.Path(__file__).resolve().parent.parent
MESA = ROOT / "build/drivers/mesa"

# conform knows no operations but attention.
OPERATIONS = "device OperationsOnDevice.*"
GRADIENTS = "device Gradient.*"
GRADIENT_TILES = "device GradientTiles.*"
GRADIENT_MATRICES = "device GradientCoopmat.*"
RULES = "device RulesTest.*"
HOOKS = "device ProgramTest.*"
GRADIENT_RULES = "device RulesTest.*:GradientTiles.*:Gradient.*"
STATISTICS = "device StatisticsOnDevice.areWithinTheBoundsOfTheOracle:StatisticsOnDevice.takeUpTo16Keys"
STATISTICS_NAN = "device StatisticsOnDevice.keepNanAwayFromRowsThatDoNotSeeIt"
LISTS = "device VisibleBlocksOnDevice.areThoseOfTheOracle"
LINEAR = "device LinearOnDevice.everyLengthAndForm:LinearOnDevice.drawnCasesAreThoseOfTheOracle"
LINEAR_GRADIENT = "device LinearGradientOnDevice.everyLengthAndForm:LinearGradientOnDevice.drawnCasesAreThoseOfTheOracle"
LINEAR_TOKEN = "device LinearOnDevice.singleTokens*"
LINEAR_CUT = "device LinearOnDevice.slicesChangeNoBit:LinearOnDevice.noSnapshotBehindTheLast:LinearOnDevice.longScansGoOnFromDispatchToDispatch"
STATISTICS_CUT = "device StatisticsOnDevice.bitsDoNotDependOnChunksAndSlices"
# Name, file under shaders/, what is there (exactly once), what is put in its place, and who must
# notice: conform where the row says nothing.
MUTATIONS = [
    # The staged kernel.
    ("scores-causal-off-by-one", "staged/scores.comp", "j >= row.begin && j < row.end ?", "j >= row.begin && j <= row.end ?"),
    ("scores-last-dim-dropped", "staged/scores.comp", "d < headDim; ++d", "d + 1u < headDim; ++d"),
    ("scores-sum-uninitialised", "staged/scores.comp", "sums[n] = 0.0;", "sums[n] = uintBitsToFloat(0x3a83126fu + n);"),
    ("scores-wrong-key-head", "staged/scores.comp", "(headPhase + head) / groupSize", "head / groupSize"),
    ("softmax-maximum-starts-at-0", "staged/softmax.comp", "float maximum = lowest;", "float maximum = 0.0;"),
    ("softmax-sink-not-in-sum", "staged/softmax.comp", "sum = isFiniteBits(sinkBits) ? expDifference(uintBitsToFloat(sinkBits), maximum) : 0.0;", "sum = 0.0;"),
    ("softmax-lanes-lost", "staged/softmax.comp", "for (uint n = 0; n < lanes; ++n) sum += laneSum[n];", "for (uint n = 0; n + 1u < lanes; ++n) sum += laneSum[n];"),
    ("values-hidden-not-masked", "staged/values.comp", "uintBitsToFloat(valueBits[c] & visible)", "uintBitsToFloat(valueBits[c])"),
    ("values-chunk-forgets-the-one-before", "staged/values.comp", "if ((flags & flagFirstKeys) == 0u) {", "if (false) {"),
    ("values-last-key-lost", "staged/values.comp", "int(keyFirst + keys));\n    if (hasSkips)", "int(keyFirst + keys) - 1);\n    if (hasSkips)"),
    ("pairs-forget-chunk", "staged/pairs.comp", "const int key = int(keyFirst + n);", "const int key = int(n);"),
    ("pairs-score-where-hidden", "staged/pairs.comp", "if (bits == hiddenBits) continue;", ""),
    ("pairs-last-key-lost", "staged/pairs.comp", "n < keyCount; ++c", "n + 1u < keyCount; ++c"),
    ("sinks-of-first-head", "staged/sinks.comp", "sinks[base + head]", "sinks[base]"),
    ("sequences-not-clamped", "setup/sequences.comp", "max(query, min(cuQ[cuQBase + s + 1u], totalQueries))", "max(query, cuQ[cuQBase + s + 1u])"),
    ("sequences-prefix-maximum-lost", "setup/sequences.comp", "for (uint n = 0; n < lane; ++n)", "for (uint n = 0; n < 0u; ++n)"),
    # The backward pass.
    ("scores-hidden-ones-left-out", "staged/write_scores.comp", "bits == hiddenBits ? none : bits", "bits == hiddenBits ? 0u : bits"),
    ("scores-past-a-length-not-written", "staged/write_scores.comp", "(flags & flagRagged) != 0u ? keyCount : keys", "keyCount"),
    ("scores-of-the-first-query", "staged/write_scores.comp", "head * oHead + query * oQuery", "head * oHead"),
    ("gradient-facts-of-the-first-row", "gradient/row_facts.comp", "(gl_WorkGroupID.z * queries + query) * rowFactWords", "(gl_WorkGroupID.z * queries) * rowFactWords", GRADIENTS),
    ("gradient-last-dim-of-d-dropped", "gradient/row_facts.comp", "if (d + n < dims) {", "if (d + n + 1u < dims) {", GRADIENTS),
    ("gradient-d-lse-added", "gradient/row_facts.comp", "uintBitsToFloat(dotBits) - uintBitsToFloat(dLseBits)", "uintBitsToFloat(dotBits) + uintBitsToFloat(dLseBits)", GRADIENTS),
    ("gradient-ds-without-p", "gradient/pair_deltas.comp", "float dS = p * (upstream - delta);", "float dS = upstream - delta;", GRADIENTS),
    ("gradient-dropped-pairs-reach-dv", "gradient/pair_deltas.comp", "keep ? scoreBits(weight) : hiddenBits;", "keep ? scoreBits(weight) : floatBitsToUint(p);", GRADIENTS),
    ("gradient-dropout-of-the-first-head", "gradient/pair_deltas.comp", "planeFirst + batch * planesOfBatch + head;", "planeFirst + batch * planesOfBatch;", GRADIENTS),
    ("gradient-empty-rows-read-d-out", "gradient/pair_deltas.comp", "seen != 0u ? -delta :", "true ? -delta :", GRADIENTS),
    ("gradient-slopes-lose-lanes", "gradient/pair_deltas.comp", "        slopes += laneSlopes[n];", "        slopes += laneSlopes[0];", GRADIENTS),
    ("gradient-softcap-has-no-slope", "gradient/cap_deltas.comp", "            dz *= slope;", "", GRADIENTS),
    ("gradient-group-loses-its-last-head", "gradient/columns.comp", "head < headEnd; ++head", "head + 1u < headEnd || head == headBegin; ++head", GRADIENTS),
    ("gradient-group-begins-with-the-chunk", "gradient/columns.comp", "max(groupBegin, headPhase) - headPhase, headEnd = min(groupBegin + groupSize - headPhase, heads)", "groupBegin, headEnd = min(groupBegin + groupSize, heads)", GRADIENTS),
    ("gradient-hidden-pairs-reach-keys", "gradient/columns.comp", "uintBitsToFloat(rowBits[d] & visible)", "uintBitsToFloat(rowBits[d])", GRADIENTS),
    ("gradient-keys-forget-the-chunk-before", "gradient/columns.comp", "if (goesOn) {", "if (false) {", GRADIENTS),
    ("gradient-keys-lose-their-last-row", "gradient/columns.comp", "row < min(stretch.end, rowEnd); ++row", "row + 1 < min(stretch.end, rowEnd); ++row", GRADIENTS),
    ("gradient-keys-without-scale", "gradient/columns.comp", "waits ? 1.0 : factor;", "1.0;", GRADIENTS),
    ("gradient-queries-without-scale", "staged/values.comp", "sums[r * dimsPerLane + c] *= factor;", "sums[r * dimsPerLane + c] *= 1.0;", GRADIENTS),
    ("gradient-bias-of-the-first-batch", "gradient/bias_sums.comp", "b < batchEnd; ++b", "b < 1u; ++b", GRADIENTS),
    ("gradient-bias-forgets-the-chunk-before", "gradient/bias_sums.comp", "if ((flags & flagFirstRows) == 0u)\n", "if (false)\n", GRADIENTS),
    ("gradient-bias-adds-hidden-pairs", "gradient/bias_sums.comp", "if (bits != hiddenBits) sum", "sum", GRADIENTS),
    ("gradient-sums-lose-lanes", "gradient/row_sums.comp", "for (uint n = 0u; n < lanes; ++n) sum += laneSum[n];", "for (uint n = 0u; n + 1u < lanes; ++n) sum += laneSum[n + 1u];", GRADIENTS),
    ("gradient-infinity-is-finite", "gradient/nonfinite.comp", "(bits & exponent) == exponent", "(bits & exponent) == exponent && (bits & 1u) == 1u", GRADIENTS),
    # The fused kernel of gradients.
    ("gradient-tiles-hidden-not-masked", "gradient/tiles.glsl", "uintBitsToFloat(floatBitsToUint(passing) & mask_)", "(passing)", GRADIENT_TILES),
    ("gradient-tiles-softcap-not-differentiated", "gradient/pass.glsl", "pair.plain = seen ? pair.score * slope : 0.0;", "pair.plain = seen ? pair.score : 0.0;", GRADIENT_TILES),
    ("gradient-tiles-last-row-again", "gradient/tiles.glsl", "if (tested && j + int(c) >= int(rowCount)) passingRows[c].end = 0;", "", GRADIENT_TILES),
    ("gradient-tiles-delta-forgotten", "gradient/pass.glsl", "pair.weight * (upstream - sums.delta)", "pair.weight * upstream", GRADIENT_TILES),
    ("gradient-tiles-keys-past-length-kept", "gradient/tiles.glsl", "zero = itemOf(item) > ownedLast;", "zero = false;", GRADIENT_TILES),
    ("gradient-tiles-slope-sign", "gradient/pass.glsl", "fma(-abs(float(key - row.position)), pair.score,", "fma(abs(float(key - row.position)), pair.score,", GRADIENT_TILES),
    ("gradient-tiles-whole-too-early", "gradient/tiles.glsl", "wholeBegin = min(alignDown(wholeBegin + int(stepItems) - 1), max(end, 0));", "wholeBegin = min(alignDown(max(wholeBegin - 1, 0)), max(end, 0));", GRADIENT_TILES),
    ("gradient-tiles-dropped-pairs-flow", "gradient/pass.glsl", "upstream = kept ? dropoutFactor * upstream : 0.0;", "upstream = dropoutFactor * upstream;", GRADIENT_TILES),
    ("gradient-tiles-draws-of-the-first-key", "gradient/tiles.glsl", "first / 4u) >> first % 4u;", "first / 4u);", GRADIENT_TILES),
    ("gradient-keys-last-head-of-group-lost", "gradient/keys.comp", "head < (kvHead + 1u) * groupSize(); ++head", "head + 1u < (kvHead + 1u) * groupSize(); ++head", GRADIENT_TILES),
    ("gradient-keys-last-row-lost", "attention/reach.glsl", "end = last + left + 1;", "end = last + left;", GRADIENT_TILES),
    ("gradient-keys-first-row-lost", "attention/reach.glsl", "int begin = first - right,", "int begin = first - right + 1,", GRADIENT_TILES),
    ("gradient-rows-sink-of-unseeing-row", "gradient/pass.glsl", "seesKey ? -sums.delta :", "true ? -sums.delta :", GRADIENT_TILES),
    # Rules of visibility.
    ("rules-key-past-the-window", "attention/pair.glsl", "key >= row.localBegin && key < row.localEnd;", "key >= row.localBegin && key <= row.localEnd;", RULES),
    ("rules-dilation-of-head-0", "attention/pair.glsl", "ruleWord(dilations + headFirst + row.head)", "ruleWord(dilations)", RULES),
    ("rules-global-queries-are-local", "attention/pair.glsl", "return seen || row.isGlobal ||", "return seen ||", RULES),
    ("rules-global-tokens-of-entry-0", "attention/rule.glsl", "ruleWord(ruleGlobals) + entry * ruleWord(ruleGlobalWords)", "ruleWord(ruleGlobals)", RULES),
    ("prior-of-the-first-token", "setup/prior.comp", "const uint token = seq.queryStart + i;", "const uint token = i;", "device PriorOnDevice.*"),
    ("prior-nothing-is-read", "setup/prior.comp", "isRead = isFiniteBits(bits), isNumber = true;", "isRead = true, isNumber = true;", "device PriorOnDevice.*"),
    ("prior-counts-once-more", "setup/prior.comp", "isRead ? floatBitsToUint(1.0) : 0u;", "isRead ? floatBitsToUint(2.0) : 0u;", "device PriorOnDevice.*"),
    ("prior-column-without-the-sink", "setup/prior.comp", "= sumOfExponents(prior, sink);", "= prior;", "device PriorOnDevice.*"),
    ("prior-weight-of-the-row-alone", "staged/softmax.comp", "    if (lane == 0u && (flags & flagGoesOn) != 0u)", "    if (false)", "device PriorOnDevice.*"),
    ("prior-of-packed-rows", "setup/prior.comp", "* queries + i) * packed + head % packed;", "* queries + i) * packed;", "device PriorOnDevice.*"),
    ("pages-of-the-first-entry", "setup/rules.comp", "table[at + sequenceFirstPage] = n * tablePages;", "table[at + sequenceFirstPage] = 0u;", "device PagesOnDevice.*"),
    ("pages-csr-ends-with-whole-pages", "setup/rules.comp", "(pages - 1u) * given[3] + uint(last)", "pages * given[3]", "device PagesOnDevice.*"),
    ("pages-csr-past-its-indices", "setup/rules.comp", "min(first[firstBase + n + 1u], indices)", "first[firstBase + n + 1u]", "device PagesOnDevice.*"),
    ("pages-absent-ones-unseen", "attention/reach.glsl", "if (hasPages && rule.anyAbsent) wholeEnd = min(wholeEnd, wholeBegin);", "", "device PagesOnDevice.*"),
    ("pages-absent-past-the-length", "attention/reach.glsl", "wholeEnd = min(wholeEnd, wholeBegin);", "wholeEnd = wholeBegin;", "device PagesOnDevice.*"),
    ("pages-absent-behind-the-keys", "setup/rules.comp", "given[3u + rulePageTokens - rulePages] < keys", "given[3u + rulePageTokens - rulePages] >= keys", "device PagesOnDevice.*"),
    ("pages-absent-ones-shown", "attention/pair.glsl", "if (hasPages) seen = seen && pageOf(min(key, keyLast)) < rule.poolPages;", "", "device PagesOnDevice.*"),
    ("pages-tokens-of-the-sequence", "attention/key_value.glsl", "uint(held - place * rule.pageTokens) * byToken", "uint(held) * byToken", "device PagesOnDevice.*"),
    ("rules-offset-of-keys-added", "setup/rules.comp", "clampedOffset(query) - clampedOffset(key)", "clampedOffset(query) + clampedOffset(key)", RULES),
    ("rules-offset-of-another-entry", "setup/rules.comp", "query += clampedOffset(int(first[firstBase + n]))", "query += clampedOffset(int(first[firstBase]))", RULES),
    ("rules-offsets-forgotten", "attention/reach.glsl", "!= 0u ? i + seq.shift :", "!= 0u ? i :", RULES),
    ("rules-prefix-forgotten", "attention/reach.glsl", "max(position, int(seq.prefix) - 1)", "position", RULES),
    ("rules-clamped-boxes-cut", "attention/rule.glsl", "clamp(c - size / 2, 0, extent - size)", "max(c - size / 2, 0)", RULES),
    ("rules-window-of-the-grid-unshifted", "attention/rule.glsl", "max((window - 1) * size + shift, 0)", "max((window - 1) * size, 0)", RULES),
    ("rules-planes-see-each-other", "attention/rule.glsl", "inside = inside && plane < box.planes;\n    }\n    const int row", "}\n    const int row", RULES),
    ("rules-run-of-one-row-more", "attention/rule.glsl", "inside && at < box.rows * rule.columns;", "inside && at <= box.rows * rule.columns;", RULES),
    ("rules-run-from-the-corner", "attention/rule.glsl", "rowFirst - (box.first - box.column);", "rowFirst - box.first;", RULES),
    ("rules-patch-turned", "flash/workgroup.glsl", "rowInside = quotientOf(inside, rule.patchColumns);", "rowInside = quotientOf(inside, rule.patchRows);", RULES),
    ("rules-patches-of-the-first-plane", "flash/workgroup.glsl", "return at.plane * uint(rule.planeTokens) + min(", "return min(", RULES),
    ("rules-tile-that-asked-enough-stops", "attention/skip.glsl", "if (!tileRules.named) return keys_;", "if (!tileRules.named) return Stretch(to, to);", RULES),
    ("rules-blocks-of-head-0", "attention/pair.glsl", "rule.blocksAt + (headFirst + head) * ruleWord(ruleBlockHead)", "rule.blocksAt", RULES),
    ("rules-blocks-last-column-lost", "setup/blocks.comp", "if (column < columns) atomicOr", "if (column + 1u < columns) atomicOr", RULES),
    ("rules-random-blocks-twice", "setup/blocks.comp", "if (movedFrom[n - 1u] == at) return movedTo[n - 1u];", "", RULES),
    ("rules-full-blocks-alone", "setup/blocks.comp", "if (add == 0u)\n", "if (true)\n", RULES),
    ("rules-skip-stops-at-the-first-global-token", "attention/skip.glsl", "min(int(word * 32u) + findLSB(lengths[rule.globalsAt + word]), to)", "to", RULES),
    ("rules-skip-forgets-global-rows", "attention/skip.glsl", "tileRules.all = anyGlobal(max(first, 0), min(last, int(seq.keyCount) - 1));", "tileRules.all = false;", RULES),
    ("rules-skip-forgets-rows-of-blocks", "attention/skip.glsl", "(queryFirst + lastQuery) / size - row + 1u;", "1u;", RULES),
    ("rules-skip-of-rows-forgets-the-last-block", "attention/skip.glsl", "for (; row <= last; ++row)", "for (; row < last; ++row)", GRADIENT_RULES),
    ("rules-wholes-of-the-first-row", "attention/skip.glsl", "tileRules.localBegin + tileRules.spread", "tileRules.localBegin", RULES),
    ("rules-wholes-of-all-rows-of-blocks", "attention/skip.glsl", "tileRules.blockRows == 1u && tileRules.blockHeads == 1u", "tileRules.blockHeads == 1u", RULES),
    # Programs.
    ("program-reads-past-its-buffer", "attention/program.glsl", "min(n, max(words, 1u) - 1u)", "n", HOOKS),
    ("program-reads-where-there-is-no-buffer", "attention/program.glsl", "return words == 0u ? 0u : word;", "return word;", HOOKS),
    ("program-position-of-the-query", "attention/program.glsl", "return alignedPosition(query - queryFirst);", "return int(query);"),
    ("program-batch-of-the-chunk", "attention/pair.glsl", "PAIR_OF_HOOK(row, key) rule.entry,", "PAIR_OF_HOOK(row, key) batch,"),
    ("program-score-before-the-bias", "attention/pair.glsl", "return hookedScore(row, key, withTermsAfterCap(row, key, cappedScore(score), added));", "return withTermsAfterCap(row, key, hookedScore(row, key, cappedScore(score)), added);"),
    ("program-slope-forgotten", "gradient/pass.glsl", "seen ? pair.score * hookSlope(row, key, score) : 0.0;", "seen ? pair.score : 0.0;", GRADIENT_TILES),
    ("program-slope-forgotten-in-stages", "gradient/pair_deltas.comp", "if (hooksScores) dS *= hookSlope(pairs, int(j), uintBitsToFloat(bits));", "", GRADIENTS),
    ("program-d-of-the-score-before-the-hook", "gradient/pair_deltas.comp", "probability(softmaxBits(pairs, j, bits), maximumBits, inverseBits), upstream, sum);", "probability(bits, maximumBits, inverseBits), upstream, sum);", GRADIENTS),
    ("program-weighs-not-dv-in-stages", "gradient/pair_deltas.comp", "if (weighsPairs) weight *= factor;", "", GRADIENTS),
    ("program-weighs-not-dp-in-stages", "gradient/pair_deltas.comp", "if (weighsPairs && keep) upstream *= factor;", "", GRADIENTS),
    ("program-words-one-behind", "setup/rules.comp", "table[ruleProgram + word] = given[word];", "table[ruleProgram + word] = given[max(word, 1u) - 1u];", HOOKS),
    # Lists of visible blocks.
    ("lists-any-block-is-full", "setup/visible_blocks.comp", "apart && all == anyVisible;", "apart && (all & anyVisible) != 0u;", LISTS),
    ("lists-last-query-lost", "setup/visible_blocks.comp", "query < end && own", "query + 1u < end && own", LISTS),
    ("lists-first-keys-alone", "setup/visible_blocks.comp", "key < stop; key += int(lanes)", "key < stop; key = stop", LISTS),
    ("lists-of-head-0", "setup/visible_blocks.comp", "const Row row = rowOf(head, query);", "const Row row = rowOf(0u, query);", LISTS),
    ("lists-chunk-begins-anew", "setup/visible_blocks.comp", "listed = counts[countsBase + item];", "listed = 0u;", "device VisibleBlocksOnDevice.goOnFromChunkToChunk"),
    # Statistics of attention.
    ("statistics-squares-rescaled-once", "statistics/rows.comp", "s.squares *= factor * factor;", "s.squares *= factor;", STATISTICS),
    ("statistics-entropies-keep-their-maximum", "statistics/rows.comp", "factor * fma(shift, s.weights, s.entropies)", "factor * s.entropies", STATISTICS),
    ("statistics-ties-take-the-last-key", "statistics/rows.comp", "here && score > highest;", "here && score >= highest;", STATISTICS),
    ("statistics-equal-keys-in-reverse", "statistics/rows.comp", "topKeyOf[at + t] = score > before ?", "topKeyOf[at + t] = score >= before ?", STATISTICS),
    ("statistics-least-top-of-the-first-row", "statistics/rows.comp", "topScores[n / stepItems * topSlots + topSlots - 1u]", "topScores[topSlots - 1u]", STATISTICS),
    ("statistics-locality-of-one-side", "statistics/rows.comp", "if (distance == 1 || distance == -1) {", "if (distance == 1) {", STATISTICS),
    ("statistics-density-of-hidden-keys", "statistics/rows.comp", "above && (visible >> n & 1u) != 0u ?", "above ?", STATISTICS),
    ("statistics-density-of-all-listed", "statistics/rows.comp", ">= 0 && weight > densityThreshold ? 1u : 0u;", ">= 0 ? 1u : 0u;", STATISTICS),
    ("statistics-nan-stays-in-its-row", "statistics/keys.comp", "bad[n] = bad[n] || (here && undefined);", "", STATISTICS_NAN),
    ("statistics-hidden-pairs-reach-keys", "statistics/keys.comp", "here && !undefined ? weight", "!undefined ? weight", STATISTICS),
    ("statistics-last-row-again", "statistics/keys.comp", "if (j + int(c) >= int(rowCount)) passingRows[c].end = 0;", "", STATISTICS),
    ("statistics-rows-that-see-nothing-count", "statistics/seeing_rows.comp", "+ 1u] != 0u ? 1u : 0u;", "+ 1u] != 0u ? 1u : 1u;", STATISTICS),
    ("statistics-chunk-forgets-neighbours", "statistics/rows.comp", "visibleNeighbours[n] = COLUMN(at, columnDensity);", "visibleNeighbours[n] = 0u;", STATISTICS_CUT),
    ("statistics-chunk-forgets-the-largest", "statistics/rows.comp", "topKeyOf[n * topSlots + t] = int(topKeys[keyAt + t * topKeyStrides.dim]);", "", STATISTICS_CUT),
    ("statistics-keys-forget-the-chunk-before", "statistics/keys.comp", "if ((order & orderFirst) != 0u || itemOf(n) >= stored) continue;", "continue;", STATISTICS_CUT),
    # The kernel of gradients on matrix units.
    ("gradient-matrices-no-rescale", "gradient/matrices.glsl", "if (takePairs(head, first, tested)) rescaleSums();", "takePairs(head, first, tested);", GRADIENT_MATRICES),
    ("gradient-matrices-dz-never-scaled-down", "gradient/matrices.glsl", "if (grows) scaleExponent[r] =", "if (false) scaleExponent[r] =", GRADIENT_MATRICES),
    ("gradient-matrices-first-piece-of-all", "gradient/matrices.glsl", "loaded_[e_] = item_ < end ? bits_ : uvec4(0u);",
     "loaded_[0] = item_ < end ? bits_ : uvec4(0u);", GRADIENT_MATRICES),
    ("gradient-matrices-nan-not-found", "gradient/matrices.glsl", "if ((found) != 0u && mixed && finiteEight(loaded_[e_]) != loaded_[e_]) atomicOr(nonFinite[parity], found);", "", GRADIENT_MATRICES),
    ("gradient-matrices-nan-not-added", "gradient/matrices.glsl", "if ((found & ofHead) != 0u) ADD_NON_FINITE", "if (false) ADD_NON_FINITE", GRADIENT_MATRICES),
    ("gradient-matrices-hidden-not-marked", "gradient/matrices.glsl", "return (!addsA ? hiddenWeight :", "return (", GRADIENT_MATRICES),
    ("gradient-matrices-last-row-again", "gradient/matrices.glsl", "if (row >= int(rowCount)) passing.end = 0;", "", GRADIENT_MATRICES),
    ("gradient-matrices-weights-unscaled", "gradient/keys_matrices.comp", "                   weightUnscale, drops ?", "                   1.0, drops ?", GRADIENT_MATRICES),
    ("gradient-matrices-dropout-of-neighbours", "gradient/matrices.glsl", "(keptKeys >> uint(key) % 4u & 1u)", "(keptKeys & 1u)", GRADIENT_MATRICES),
    ("gradient-matrices-last-head-of-group-lost", "gradient/keys_matrices.comp", "head < (kvHead + 1u) * groupSize(); ++head", "head + 1u < (kvHead + 1u) * groupSize(); ++head", GRADIENT_MATRICES),
    ("gradient-matrices-operands-of-first-subgroup", "gradient/matrices.glsl", "ownedTile_, (gl_SubgroupID * subgroupRows + b * matrixM) *", "ownedTile_, (b * matrixM) *", GRADIENT_MATRICES),
    # The fused kernels.
    ("combine-no-rescale", "flash/combine.comp", "const float factor = expDifference(uintBitsToFloat(partials[at]), maximum);", "const float factor = 1.0;"),
    ("combine-sink-lost", "flash/combine.comp", "(flags & flagSinks) != 0u ?", "false ?"),
    ("combine-last-part-dropped", "flash/combine.comp", "for (uint n = 0u; n < parts; ++n) {\n            const uint at", "for (uint n = 0u; n + 1u < parts; ++n) {\n            const uint at"),
    ("environment-last-word-lost", "setup/environment.comp", "if (word < count)", "if (word + 1u < count)"),
    ("environment-heads-share-a-slope", "setup/environment.comp", "slopes[slopesBase + n]", "slopes[slopesBase]"),
    ("environment-sinks-of-first-chunk", "flash/workgroup.glsl", "headFacts[headFirst + headOf(row)].sink", "headFacts[headOf(row)].sink"),
    ("combine-sinks-of-first-chunk", "flash/combine.comp", "headFacts[headFirst + head].sink", "headFacts[head].sink"),
    ("turns-last-tile-lost", "attention/turns.glsl", "gl_NumWorkGroups.x - 1u - turn / 2u", "gl_NumWorkGroups.x - 1u - (turn + 1u) / 2u"),
    ("turns-splits-counted-by-tiles", "attention/turns.glsl", "placeOfGroup() % gl_NumWorkGroups.y", "placeOfGroup() % gl_NumWorkGroups.x"),
    ("flash-no-rescale", "flash/lanes.comp", "rescale[r] = expDifference(maximum[r], rowMaximum);", "rescale[r] = 1.0;"),
    ("flash-last-tile-dropped", "flash/lanes.comp", "(source == sourceShared) {\n            if (tile >= end) break;", "(source == sourceShared) {\n            if (tile + int(tileKeys) >= end) break;"),
    ("flash-last-step-dropped", "flash/lanes.comp", "j < to; j = passedBy(j + int(stepKeys), skipFrom, skipTo)", "j + int(stepKeys) < to; j = passedBy(j + int(stepKeys), skipFrom, skipTo)"),
    ("flash-hidden-not-masked", "flash/lanes.comp", "const uint kept_ = (tested) &&", "const uint kept_ = false &&"),
    ("flash-sum-starts-at-1", "flash/lanes.comp", "        weightSum[r] = 0.0;", "        weightSum[r] = 1.0;"),
    ("flash-lanes-of-dims-lost", "flash/lanes.comp", "if (dimLanes >> bit > 1u) weights[n]", "if (dimLanes >> bit > 2u) weights[n]"),
    ("flash-exchange-lost", "flash/lanes.comp", "other < dimLanes; ++other", "other + 1u < dimLanes; ++other"),
    ("flash-values-of-another-key", "flash/lanes.comp", "values[e] = kept[c * dimsPerLane + d + e];", "values[e] = kept[d + e];"),
    ("flash-values-of-the-tiles-first-key", "flash/lanes.comp", "? kTile[at_ * keyPitch + valueDimOf(d)]", "? kTile[d]"),
    ("flash-shuffle-from-one-lane", "flash/lanes.comp", "subgroupShuffle(value, e)", "subgroupShuffle(value, 0u)"),
    ("small-q4-upper-halves", "lib/small_types.glsl", "((dim & 16u) >> 2)", "0u", "device SmallTypesOnDevice.*"),
    ("small-blocks-at-any-shift", "lib/small_types.glsl", "const uint shift_ = (inWords) ? 0u : (byte_ & 3u) << 3;", "const uint shift_ = 0u;", "device SmallTypesOnDevice.*"),
    ("small-e4m3-denormals", "lib/small_types.glsl", "magnitude += min(magnitude - uintBitsToFloat(0x3c800000u), 0.0);", "", "device SmallTypesOnDevice.*"),
    ("key-value-odd-halves", "attention/key_value.glsl", "word_[e_ / 2u] >> (odd_ << 4) & 0xffffu", "word_[e_ / 2u] & 0xffffu"),
    ("flash-partial-forgets-nan", "flash/store.glsl", "outWords[at + 2u] = rowWorst;", "outWords[at + 2u] = min(rowWorst, 1u);"),
    ("flash-empty-rows-are-nan", "attention/row_end.glsl", "return end.empty ? 0u :", "return false ? 0u :"),
    ("row-statistics-of-empty-rows", "attention/row_end.glsl", "floatBitsToUint(hasSink ? 1.0 : 0.0)", "floatBitsToUint(1.0)"),
    ("row-statistics-sum-beside-the-maximum", "flash/workgroup.glsl", "lse[at + lseEntry] = end.sumBits", "lse[at + 1u] = end.sumBits"),
    ("combine-statistics-of-the-log", "flash/combine.comp", "statistics ? end.maximumBits : end.lseBits", "end.lseBits"),
    ("softmax-statistics-of-the-log", "staged/softmax.comp", "statistics ? maximum : maximum + log(sum)", "maximum + log(sum)"),
    ("flash-split-edge-lost", "flash/workgroup.glsl", "min(uint(splitBegin) + splitKeys,", "min(uint(splitBegin) + splitKeys - 1u,"),
    # Dropout.
    ("dropout-wrong-counter-word", "attention/dropout.glsl", "uvec4(block, queryFirst + query, plane, dropoutOffset)", "uvec4(block, plane, queryFirst + query, dropoutOffset)", "device DropoutOnDevice.*"),
    ("dropout-query-of-the-chunk", "attention/dropout.glsl", "queryFirst + query, plane", "query, plane", "device DropoutOnDevice.*"),
    ("dropout-head-of-the-chunk", "attention/dropout.glsl", "planeFirst + batch * dropoutHeads + head;", "batch * dropoutHeads + head;", "device DropoutOnDevice.*"),
    ("dropout-key-of-the-seed-half", "attention/dropout.glsl", "uvec2(dropoutSeedLow, dropoutSeedHigh)", "uvec2(dropoutSeedLow, 0u)", "device DropoutOnDevice.*"),
    ("dropout-last-of-four-words", "attention/dropout.glsl", "(words.w > dropoutLast ? 8u : 0u)", "(words.z > dropoutLast ? 8u : 0u)", "device DropoutOnDevice.*"),
    ("philox-a-round-less", "lib/philox.glsl", "round < 10u", "round < 9u", "device DropoutOnDevice.*"),
    ("dropout-factor-left-out", "attention/row_end.glsl", "    end.factor *= keptFactor;\n", "", "device DropoutOnDevice.*"),
    ("dropout-values-not-masked", "flash/lanes.comp", "addValues(j, visible, tested || (drops && !looksForNonFinite));", "addValues(j, visible, tested);", "device DropoutOnDevice.*"),
    ("dropout-tile-taken-as-finite", "flash/lanes.comp", "nonFiniteTile == begin / int(tileKeys) + 1;", "nonFiniteTile == begin / int(tileKeys);", "device DropoutOnDevice.*"),
    ("dropout-looks-at-half-the-values", "flash/lanes.comp", "if (looks) found = found || isNonFinite(loaded_[e_]);", "if (looks && n % 2u == 0u) found = found || isNonFinite(loaded_[e_]);", "device DropoutOnDevice.*"),
    ("dropout-sum-of-kept-pairs", "flash/lanes.comp", "sum += !sumless ? weights[n] :", "sum += !sumless ? drops && (keptPairs(j) >> n & 1u) == 0u ? 0.0 : weights[n] :", "device DropoutOnDevice.*"),
    ("dropout-drawn-by-one-lane", "flash/lanes.comp", "keptKeys[n] |= subgroupShuffleXor(keptKeys[n], 1u << bit);", "keptKeys[n] |= 0u;", "device DropoutOnDevice.*"),
    ("dropout-staged-keeps-the-sum", "staged/softmax.comp", "uintBitsToFloat(bits) / sum * dropoutFactor;", "uintBitsToFloat(bits) / sum;", "device DropoutOnDevice.*"),
    ("dropout-staged-zero-is-visible", "staged/softmax.comp", "(kept >> c & 1u) == 0u ? hiddenBits :", "(kept >> c & 1u) == 0u ? 0u :", "device DropoutOnDevice.*"),
    ("dropout-staged-odd-pairs", "staged/softmax.comp", "pair / 2u) >> (pair % 2u * 2u)", "pair / 2u)", "device DropoutOnDevice.*"),
    ("coopmat-dropped-not-marked", "flash/matrices.comp", "weights[e] = 0.0, signs[e] = hiddenWeight;", "weights[e] = 0.0;"),
    # The code that kernels share.
    ("pair-causal-off-by-one", "attention/pair.glsl", "key >= row.begin && key < row.end", "key >= row.begin && key <= row.end"),
    ("pair-window-off-by-one", "attention/pair.glsl", "key >= row.begin && key < row.end", "key > row.begin && key < row.end"),
    ("pair-alibi-signed-distance", "attention/pair.glsl", "abs(float(key - row.position))", "float(key - row.position)"),
    ("pair-heads-share-a-slope", "attention/pair.glsl", "SLOPE_BITS(head)", "SLOPE_BITS(0u)"),
    ("pair-bias-minus-infinity-not-hidden", "attention/pair.glsl", "seen && floatBitsToUint(added) != minusInfinityBits", "seen"),
    ("pair-bit-mask-forgets-phase", "attention/pair.glsl", "held + (keyFirst & 31u)", "held"),
    ("pair-mask-ignores-broadcast", "attention/pair.glsl", "held * maskStrides.key;\n        seen = seen && (mask[at", "held;\n        seen = seen && (mask[at"),
    ("pair-documents-forget-sequence", "attention/pair.glsl", "seq.queryStart + query]", "query]"),
    ("reach-bottom-right-off-by-one", "attention/reach.glsl", "int(seq.keyCount) - int(seq.queryCount);", "int(seq.keyCount) - int(seq.queryCount) + 1;"),
    ("sequence-lengths-not-clamped", "attention/sequence.glsl", "min(lengths[lengthsBase + batchInChunk], keyTokens)", "lengths[lengthsBase + batchInChunk]"),
    ("half-truncates", "lib/half.glsl", "if (remainder > halfway ||", "if (false && remainder > halfway ||"),
    ("half-denormals-wrong", "lib/half.glsl", "magnitude += min(magnitude - uintBitsToFloat(0x38800000u), 0.0);", ""),
    ("bfloat16-truncates", "lib/bfloat16.glsl", "(bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16", "bits >> 16"),
    ("tanh-polynomial-too-far", "lib/math.glsl", "magnitude < 0.5 ? small", "magnitude < 2.0 ? small"),
    ("element-cleared-before-it-is-read", "lib/element.glsl", "half_ << shift_", "floatToHalfWidth(type, value) << shift_", OPERATIONS),
    ("element-clobbers-neighbour", "lib/element.glsl", "~(0xffffu << shift_)", "0u"),
    # Matrix units.
    ("coopmat-no-rescale", "flash/matrices.comp", "if (takeWeights(tile, tested)) rescaleOutputs();", "takeWeights(tile, tested);"),
    ("coopmat-statistics-with-slack", "flash/matrices.comp", "!= 0u ? 0.0 : 2.77258872", "!= 0u ? 2.77258872 : 2.77258872"),
    ("coopmat-slack-of-rounded-sums", "flash/matrices.comp", "top - maximum[r] > slack();", "top > maximum[r] + slack();"),
    ("coopmat-hidden-not-marked", "flash/matrices.comp", "signs[e] = visible ? 0u : hiddenWeight;", "signs[e] = 0u;"),
    ("coopmat-weights-of-hidden", "flash/matrices.comp", "weights[e] = visible ? weight : 0.0;", "weights[e] = weight;"),
    ("coopmat-fp8-past-the-end", "attention/matrix_inputs.glsl", "(wholeWords ? ((dim) < (count) ? (words)", "(wholeWords ? (true ? (words)"),
    ("coopmat-fp8-codes-swapped", "attention/matrix_inputs.glsl", "smallFloat(type, codes & 0xffu), smallFloat(type, codes >> 8 & 0xffu)",
     "smallFloat(type, codes >> 8 & 0xffu), smallFloat(type, codes & 0xffu)"),
    ("coopmat-fp8-upper-codes-lost", "attention/matrix_inputs.glsl", "inputsOfFp8(type, codes >> 16)); }", "inputsOfFp8(type, codes)); }"),
    ("coopmat-fp8-nonfinite-of-next", "attention/matrix_inputs.glsl", "SMALL_BYTE(v, row.at + dim * vDim)", "SMALL_BYTE(v, row.at + dim * vDim + 1u)"),
    ("coopmat2-no-rescale", "flash/matrices2.comp", "{ return expDifference(old, top); }", "{ return 1.0; }"),
    ("coopmat2-nothing-dropped", "flash/matrices2.comp", "return keeps(rowPlaceOf(from + row), key) ? weight : 0.0;", "return weight;"),
    ("coopmat2-dropped-as-in-the-first-tile", "flash/matrices2.comp", "keptOfEight(rowOfLane[r], uint(tileFirst) + key)",
     "keptOfEight(rowOfLane[r], key)"),
    ("coopmat2-nan-not-judged", "flash/matrices2.comp", "? sawSome : sawBad;", "? sawSome : sawSome;"),
    ("matrices-last-tile-dropped", "flash/tiles.glsl", "while (tile < end) {", "while (tile + int(tileKeys) < end) {"),
    ("matrices-loads-the-tile-at-hand-ahead", "flash/tiles.glsl", "if (loadsAhead && next < end) loadTile(next, end);",
     "if (loadsAhead && next < end) loadTile(tile, end);"),
    ("matrices-first-piece-of-all", "flash/tiles.glsl", "loaded[n] = key < end ? bits : uvec4(0u);",
     "loaded[0] = key < end ? bits : uvec4(0u);"),
    ("matrices-nan-not-found", "flash/tiles.glsl", "if (finite != bits) atomicOr(nonFinite[parity], 1u);", ""),
    # Operations: the projection.
    ("projection-last-inner-dims-dropped", "operations/projection_shuffled.comp", "block < innerEnd; block += blockInner", "block + blockInner <= innerEnd; block += blockInner", OPERATIONS),
    ("projection-shuffle-from-one-lane", "operations/projection_shuffled.comp", "subgroupShuffle(loaded, e)", "subgroupShuffle(loaded, 0u)", OPERATIONS),
    ("projection-last-row-of-a-lane-lost", "operations/projection_shuffled.comp", "other < rowsPerLane; ++other", "other + 1u < rowsPerLane; ++other", OPERATIONS),
    ("projection-few-lanes-lost", "operations/projection_few.comp", "n < cells * reach; n += lanes", "n < cells * reach / 2u; n += lanes", OPERATIONS),
    ("projection-few-last-block-dropped", "operations/projection_few.comp", "block < innerEnd; block += lanes", "block + lanes <= innerEnd; block += lanes", OPERATIONS),
    ("projection-tiles-row-of-another-lane", "operations/projection.comp", "(myRow + r * rowLanes) * blockInner + k", "(myRow * rowsPerLane + r) * blockInner + k", OPERATIONS),
    ("projection-second-addend-forgotten", "operations/projection.glsl", "    value += LOAD_ELEMENT(secondWords, secondType, secondAt + row * secondStrides.row + column * secondStrides.column);\n", "", OPERATIONS),
    ("projection-row-of-another-clamped", "operations/projection.glsl", "min(row, rows - 1u) * xStrides.row", "min(row, rows - 2u) * xStrides.row", OPERATIONS),
    ("projection-inner-past-the-end", "operations/projection.glsl", "return wholeInner || k < innerEnd ? value : 0.0;\n}\nfloat loadW", "return value;\n}\nfloat loadW", OPERATIONS),
    ("projection-groups-share-w", "operations/projection.glsl", "batch * wStrides.batch + group * wStrides.group", "batch * wStrides.batch", OPERATIONS),
    ("projection-lengths-of-the-first-entry", "operations/projection.glsl", "firstWords[firstBase + lengthsAt + batch]", "firstWords[firstBase + lengthsAt]", OPERATIONS),
    ("projection-length-not-clamped", "operations/projection.glsl", "innerEnd = min(length - min(length, innerFirst), inner);", "innerEnd = length - min(length, innerFirst);", OPERATIONS),
    ("projection-length-anew-in-each-part", "operations/projection.glsl", "length - min(length, innerFirst)", "length", OPERATIONS),
    ("projection-past-a-length-multiplied", "operations/projection.glsl", "return wholeInner || k < innerEnd ? value : 0.0;\n}\n\n", "return value;\n}\n\n", OPERATIONS),
    # Norms.
    ("norm-mean-not-subtracted", "operations/moments.glsl", "(s - m.center - m.rest) * m.factor", "s * m.factor", OPERATIONS),
    ("norm-variance-of-n-minus-1", "operations/moments.glsl", "sumsOverRow(m.center) / count;", "sumsOverRow(m.center) / vec2(count, max(count - 1.0, 1.0));", OPERATIONS),
    ("norm-one-pass", "operations/moments.glsl", "m.center = rms ? 0.0 : sumsOverRow(0.0).x / count;", "m.center = 0.0;", OPERATIONS),
    ("norm-rms-flag-ignored", "operations/moments.glsl", "m.rest = rms ? 0.0 : sums.x;", "m.rest = sums.x;", OPERATIONS),
    ("norm-epsilon-forgotten", "operations/moments.glsl", "(variance < 0.0 ? 0.0 : variance) + epsilon", "(variance < 0.0 ? 0.0 : variance)", OPERATIONS),
    ("norm-sum-not-rounded", "operations/norm.comp", "return hasSum ? roundedTo(sumType, s) : s;", "return s;", OPERATIONS),
    ("norm-last-odd-dim-lost", "operations/moments.glsl", "if (dim >= dims) break;", "if (dim + 1u >= dims) break;", OPERATIONS),
    ("norm-lanes-lost", "operations/moments.glsl", "reach = lanes / 2u; reach > 0u;", "reach = lanes / 2u; reach > 1u;", OPERATIONS),
    # Rotary embedding, append, advance, and what devices of four buffers gather.
    ("rotary-wrong-way", "operations/rotary.comp", "vec2(x0 * c - x1 * s, x0 * s + x1 * c)", "vec2(x0 * c + x1 * s, x1 * c - x0 * s)", OPERATIONS),
    ("rotary-inverse-ignored", "operations/rotary.comp", "(form & formInverse) != 0u ? -1.0 : 1.0", "1.0", OPERATIONS),
    ("rotary-pairs-are-halves", "operations/rotary.comp", "loadX(interleaved ? 2u * pair : pair)", "loadX(pair)", OPERATIONS),
    ("rotary-last-odd-dim-lost", "operations/rotary.comp", "    else if (dim < dims)\n        storeY(dim, loadX(dim));\n", "", OPERATIONS),
    ("rotary-position-not-clamped", "operations/positions.glsl", "min(hasPositions ? given : first + rowFirst + token, positions - 1u)", "(hasPositions ? given : first + rowFirst + token)", OPERATIONS),
    ("rotary-box-forgets-its-first-row", "operations/positions.glsl", "first + rowFirst + token", "first + token", OPERATIONS),
    ("append-past-the-cache", "operations/tokens.glsl", "row < cacheRows - firstPlace", "row <= cacheRows - firstPlace", OPERATIONS),
    ("append-start-wraps", "operations/tokens.glsl", "(firstPlace < cacheRows && row < cacheRows - firstPlace)", "(firstPlace + row < cacheRows)", OPERATIONS),
    ("advance-does-not-saturate", "operations/advance.comp", "x < limit && by < limit - x ? x + by : limit", "min(x + by, limit)", OPERATIONS),
    ("advance-limit-ignored", "operations/advance.comp", "? x + by : limit", "? x + by : 0xffffffffu", OPERATIONS),
    ("advance-last-word-lost", "operations/advance.comp", "if (word >= words) return;", "if (word + 1u >= words) return;", OPERATIONS),
    ("append-block-past-the-row", "cache/append.comp", "const uint count = min(dims - first, 32u);", "const uint count = 32u;", OPERATIONS),
    ("append-q4-halves-swapped", "cache/append.comp", "(codeOf(other, scale, -8.0, 7.0) + 8u & 15u) << 4", "(code & 15u) << 4", OPERATIONS),
    ("append-row-scale-of-one-lane", "cache/append.comp", "atomicMax(largestBits, own);", "if (gl_LocalInvocationIndex == 0u) largestBits = own;", OPERATIONS),
    ("append-bytes-over-neighbours", "cache/append.comp", "if (count == 4u && (at & 3u) == 0u)", "if ((at & 3u) == 0u)", OPERATIONS),
    ("append-ring-takes-negative-starts", "cache/append.comp", "first < 0x80000000u && allRows", "allRows", OPERATIONS),
    ("append-ring-keeps-the-first-tokens", "cache/append.comp", "allRows - row <= cacheRows", "row < cacheRows", OPERATIONS),
    ("append-ring-without-its-start", "cache/append.comp", "(first % cacheRows + row % cacheRows) % cacheRows", "row % cacheRows", OPERATIONS),
    ("append-pages-of-the-first-entry", "cache/append.comp", "tableBase + batch * tablePages + known", "tableBase + known", OPERATIONS),
    ("append-pages-of-other-boxes", "cache/append.comp", "known / pageTokens] - pageFirst", "known / pageTokens]", OPERATIONS),
    ("append-page-without-its-end", "cache/append.comp", "tokenHasPlace && entry < pages", "tokenHasPlace && entry <= pages", "device List.appendsFollowStartsAndTables"),
    ("hadamard-first-round-lost", "cache/hadamard.comp", "for (uint distance = 1u;", "for (uint distance = 2u;", OPERATIONS),
    ("hadamard-differences-turned", "cache/hadamard.comp", "piece[high] = a - b;", "piece[high] = b - a;", OPERATIONS),
    ("hadamard-not-scaled", "cache/hadamard.comp", "factor * piece[d], factor", "piece[d], factor", OPERATIONS),
    ("hadamard-of-the-first-piece", "cache/hadamard.comp", "first = gl_WorkGroupID.x * pieceDims,", "first = 0u * gl_WorkGroupID.x,", OPERATIONS),
    ("hadamard-last-pairs-lost", "cache/hadamard.comp", "2u * n < count; n += lanes", "2u * n + 2u < count; n += lanes", OPERATIONS),
    ("merge-reads-ignored-parts", "cache/merge.comp", "first + n < parts_ && share >= 0.0 ?", "first + n < parts_ ?", OPERATIONS),
    ("merge-last-run-lost", "cache/merge.comp", "first < parts_; first += runParts", "first + runParts <= parts_; first += runParts", OPERATIONS),
    ("merge-without-the-maximum", "cache/merge.comp", "expDifference(uintBitsToFloat(bits), maximum)", "exp(uintBitsToFloat(bits))", OPERATIONS),
    ("merge-lse-without-the-sum", "cache/merge.comp", "floatBitsToUint(maximum + log(sum))", "floatBitsToUint(maximum)", OPERATIONS),
    ("merge-infinite-lse-ignored", "cache/merge.comp", "isNumber = isNumber && (isFiniteBits(bits) || bits == minusInfinityBits);", "isNumber = isNumber && !isNanBits(bits);", OPERATIONS),
    ("merge-last-odd-dim-lost", "cache/merge.comp", "2u * pair < dims; pair += lanes", "2u * pair + 1u < dims; pair += lanes", OPERATIONS),
    ("mean-is-the-sum", "operations/mean.comp", "fma(loadX(group, column), share, run.x)", "fma(loadX(group, column), 1.0, run.x)", OPERATIONS),
    ("mean-last-run-lost", "operations/mean.comp", "first < groups; first += runGroups", "first + runGroups <= groups; first += runGroups", OPERATIONS),
    ("mean-of-the-sum", "operations/mean.comp", "vec2(fma(loadX(group, column), share, run.x), fma(loadX(group, second), share, run.y));", "run + vec2(loadX(group, column), loadX(group, second)) / float(runGroups);", OPERATIONS),
    ("mean-last-odd-column-lost", "operations/mean.comp", "if (column >= columns) return;", "if (column + 1u >= columns) return;", OPERATIONS),
    ("keep-of-the-next-word", "operations/keep.comp", "random[n] >= threshold", "random[n] > threshold", OPERATIONS),
    ("keep-rows-of-the-box", "operations/keep.comp", "rowFirst + row, plane", "row, plane", OPERATIONS),
    ("keep-bits-past-the-last-column", "operations/keep.comp", "if (rest < 32u)", "if (rest < 0u)", OPERATIONS),
    ("keep-upper-half-of-the-seed-lost", "operations/keep.comp", "uvec2(seedLow, seedHigh)", "uvec2(seedLow, 0u)", OPERATIONS),
    ("drop-planes-without-the-group", "operations/drop.comp", "planeFirst + batch * planesOfBatch + group;", "planeFirst + batch * planesOfBatch;", OPERATIONS),
    ("drop-rows-of-the-box", "operations/drop.comp", "rowFirst + row, plane", "row, plane", OPERATIONS),
    ("drop-not-scaled", "operations/drop.comp", "value[n] = factor * LOAD_ELEMENT", "value[n] = LOAD_ELEMENT", OPERATIONS),
    ("drop-words-in-another-order", "operations/drop.comp", "if (kept[n])", "if (kept[3u - n])", OPERATIONS),
    ("drop-the-residual-too", "operations/drop.comp", "if (hasResidual)", "if (hasResidual && kept[n])", OPERATIONS),
    ("drop-of-the-next-word", "operations/drop.comp", "greaterThan(random,", "greaterThanEqual(random,", OPERATIONS),
    ("drop-by-multiplication", "operations/drop.comp", "if (kept[n]) value[n] = factor *", "value[n] = (kept[n] ? factor : 0.0) *", OPERATIONS),
    ("drop-draws-at-probability-0", "operations/drop.comp", "if (drops != 0u) {", "{", OPERATIONS),
    ("drop-last-block-lost", "operations/drop.comp", "if (first >= columns) return;", "if (first + 3u >= columns) return;", OPERATIONS),
    ("philox-a-round-short", "lib/philox.glsl", "round < 10u", "round < 9u", OPERATIONS),
    ("norm-gradient-mean-not-subtracted", "operations/norm_gradient.comp", "(scaled(dim) - means.x -", "(scaled(dim) -", OPERATIONS),
    ("norm-gradient-variance-forgotten", "operations/norm_gradient.comp", "- standardized(summand(dim), m) * means.y) * m.factor", ") * m.factor", OPERATIONS),
    ("norm-gradient-not-by-sigma", "operations/norm_gradient.comp", "* means.y) * m.factor", "* means.y)", OPERATIONS),
    ("norm-gradient-without-gamma", "operations/norm_gradient.comp", "return hasGamma ? dY *", "return false ? dY *", OPERATIONS),
    ("norm-gradient-last-block-lost", "operations/norm_gradient_sum.comp", "block < blocks; ++block", "block + 1u < blocks; ++block", OPERATIONS),
    ("norm-gradient-of-the-last-box", "operations/norm_gradient_sum.comp", "if (firstBox == 0u) {", "if (false) {", OPERATIONS),
    ("norm-gradient-facts-of-another-row", "operations/norm_gradient_columns.comp", "factsBase + 3u * n;", "factsBase + 3u * row;", OPERATIONS),
    ("add-addend-forgotten", "operations/add.comp", "hasAddend ? x +", "false ? x +", OPERATIONS),
    ("add-last-odd-column-lost", "operations/add.comp", "if (column >= columns) return;", "if (column + 1u >= columns) return;", OPERATIONS),
    ("angles-of-first-entry", "operations/angles.comp", "whereBase + batch * whereBatch", "whereBase", OPERATIONS),
    # Gradients of linear attention.
    ("linear-gradient-rows-that-are-not-there-divide", "linear/gradient/finish.comp", "denominator != 0.0 && hasRow(c, slot) && sees(rowOf(c, slot));", "denominator != 0.0;", "device LinearGradientOnDevice.anInfiniteKeyBesideRowsThatAreNotThere"),
    ("linear-gradient-key-not-decayed", "linear/gradient/rows.comp", "coefficients[n] = keys[n] * toEnd;", "coefficients[n] = keys[n];", LINEAR_GRADIENT),
    ("linear-gradient-own-write-read", "linear/gradient/rows.comp", "const bool adds = isFirstBlock && !(isStrict && j == i);", "const bool adds = isFirstBlock;", LINEAR_GRADIENT),
    ("linear-gradient-decay-of-the-next-token", "linear/gradient/rows.comp", "                    if (t > i) continue;", "                    if (t >= i) continue;", LINEAR_GRADIENT),
    ("linear-gradient-every-block-adds-pairs", "linear/gradient/columns.comp", "+= isFirstBlock ? pair * own[v] : 0.0;", "+= pair * own[v];", "device LinearGradientOnDevice.manyBlocks"),
    ("linear-gradient-last-block-lost", "linear/gradient/scatter.comp", "for (uint n = 1u; n < count; ++n)", "for (uint n = 1u; n + 1u < count; ++n)", "device LinearGradientOnDevice.manyBlocks"),
    ("linear-gradient-elements-that-are-not-there", "linear/gradient/scan.glsl", "blockFirst + n / ownedPerLane < count ? state[n] : 0.0;", "state[n];", "device LinearGradientOnDevice.infinity*"),
    ("linear-gradient-solve-without-the-next-slot", "linear/gradient/columns.comp", "            if (i <= j) continue;", "            if (i <= j + 1u) continue;", LINEAR_GRADIENT),
    ("linear-gradient-denominator-forgotten", "linear/gradient/finish.comp", "seen ? -product * inverse * inverse : 0.0", "0.0", LINEAR_GRADIENT),
    # Linear attention.
    ("linear-map-without-the-last-dim", "linear/map.comp", "weights[f] = dim < keyDim ? weight : 0.0;", "weights[f] = dim + 1u < keyDim ? weight : 0.0;", LINEAR),
    ("linear-map-squares-of-a-lane-alone", "linear/map.comp", "squares[s] += subgroupShuffleXor(squares[s], apart);", ";", LINEAR),
    ("linear-map-of-the-first-chunk", "linear/map.comp", "local = firstChunk + s / chunkTokens,", "local = firstChunk,", LINEAR),
    ("linear-map-both-signs-alike", "linear/map.comp", "store(s, m + feature, -exponent - halfSquare)", "store(s, m + feature, exponent - halfSquare)", LINEAR),
    ("linear-map-features-of-the-first-tile", "linear/map.comp", "gl_WorkGroupID.x % tiles * ofTile + lane", "lane", LINEAR),
    ("linear-pair-with-the-next-token", "linear/scan.comp", "if (j > s) continue;", "if (j > s + 1u) continue;", LINEAR),
    ("linear-solve-without-the-last-pair-on-devices", "linear/scan.comp", "if (j >= s) continue;", "if (j + 1u >= s) continue;", LINEAR),
    ("linear-state-not-decayed", "linear/scan.comp", "workspaceFloat(fromStartAt(chunk, chunkTokens - 1u)) : 1.0;", "1.0 : 1.0;", LINEAR),
    ("linear-row-lanes-lose-one", "linear/lanes.glsl", "for (uint other = 0u; other < rowLanes; ++other)", "for (uint other = 1u; other < rowLanes; ++other)", "device LinearOnDevice.manyFeatures"),
    ("linear-snapshot-behind-the-last", "linear/chunk.glsl", " && (snapshot + 1u) * snapshotTokens <= keyTokens;", ";", LINEAR_CUT),
    ("linear-rows-that-are-not-there", "linear/scan.comp", "isRow(rowFirst + r + e) ? sum : 0.0;", "sum;", "device LinearOnDevice.infinity*"),
    ("linear-lengths-not-clamped", "linear/unit.glsl", "int(min(lengths[lengthsBase + entry], keyTokens))", "int(lengths[lengthsBase + entry])", LINEAR),
    ("linear-span-begins-without-a-state", "linear/scan.comp", "const bool kept = isReading || (!isOneSpan && (span & spanFirst) == 0u);", "const bool kept = isReading;", LINEAR_CUT),
    ("linear-decay-of-the-own-token", "linear/prepare.comp", "        sums[s] = sum;\n        sum += s <= slot ? each : 0.0;", "        sum += s <= slot ? each : 0.0;\n        sums[s] = sum;", LINEAR),
    ("linear-maximum-of-later-tokens", "linear/prepare.comp", "most = max(most, queryOf(n, d) + maximumAt(d, key, slot));", "most = max(most, queryOf(n, d));", "device LinearOnDevice.exponentsThatNoFloatHolds"),
    ("linear-normalizer-not-rescaled", "linear/normalizer.comp", "if (hasMaximum) z *= floatBitsToUint(maximum) == minusInfinityBits ? 0.0 : exp(maximum - top);", "", LINEAR),
    ("linear-row-without-a-sum", "linear/prepare.comp", "factor = sum == 0.0 ? 0.0 : 1.0 / sum;", "factor = 1.0 / sum;", "device LinearOnDevice.statesOfZerosGiveZero"),
    ("linear-token-state-not-decayed", "linear/token.comp", "isGated ? kept * block[n] : block[n]", "block[n]", LINEAR_TOKEN),
    ("linear-token-without-a-state-has-none", "linear/token.comp", "return isFiniteBits(floatBitsToUint(x)) ? sum : uintBitsToFloat(canonicalNanBits);", "return sum;", LINEAR_TOKEN),
    ("linear-token-without-its-own-key", "linear/token.comp", "scale * fma(sums[2u * columnsPerLane], written[c], kept", "scale * fma(0.0, written[c], kept", LINEAR_TOKEN),
    ("linear-token-last-rows-not-loaded", "linear/lanes.glsl", "bool isRow(uint row) { return wholeRows || row < rows; }", "bool isRow(uint row) { return wholeRows || row + 1u < rows; }", LINEAR_TOKEN),
    ("linear-token-block-not-loaded-again", "linear/token.comp", "if (!isOneBlock || !(isDelta || hasRows)) loadBlock", "if (!(isDelta || hasRows)) loadBlock", LINEAR_TOKEN),
    ("linear-heads-always-divided", "linear/unit.glsl", "return (form & formLinearModulo) != 0u ? head % own : head / (count / own);", "return head / (count / own);", LINEAR),
]


def needs_mesa(file):
    return file.removeprefix("shaders/").startswith(
        ("flash/matrices", "flash/tiles", "attention/matrix_lanes", "attention/matrix_inputs", "gradient/matrices", "gradient/rows_matrices", "gradient/keys_matrices"))


def kernels_of(file):
    """Of which a shader is a part: the quick plan of others cannot notice it."""
    file = file.removeprefix("shaders/")
    if needs_mesa(file):
        return ["flash_coopmat2"] if "matrices2" in file else ["flash_coopmat"]
    if file.startswith("flash/") or file in ("attention/row_end.glsl", "setup/environment.comp"):
        return ["flash", "decode"]
    if file.startswith("staged/"):
        return ["staged"]
    return ["auto", "staged", "flash", "decode"]


PROGRAMS = {"tests": "vkattn-tests", "device": "vkattn-tests-device", "conform": "vkattn_tool"}


class Mutation:
    """One bug. `part` and `pattern` say who must notice: scripts/host_mutations.py."""

    def __init__(self, name, file, old, new, who):
        self.name, self.file, self.old, self.new = name, file, old, new
        self.part, self.pattern = who.split(" ", 1)

    @property
    def in_tests(self):
        return self.part != "conform"


def shader_mutations():
    for name, file, old, new, *who in MUTATIONS:
        yield Mutation(name, f"shaders/{file}", old, new, who[0] if who else f"conform {','.join(kernels_of(file))}")


def host_code_mutations():
    return (Mutation(*row) for row in host_mutations.MUTATIONS)


# A planted bug may be a loop that never ends, which is caught by this patience: what the tests take without a bug are minutes.
PATIENCE = 900


def run(command, **options):
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, f"FAILED: it had not ended after {options['timeout']} s")


class Copy:
    """A copy of the tree with a build of some programs: the tool, or the tests."""

    def __init__(self, number, glslc, programs):
        tests = programs != {PROGRAMS["conform"]}
        self.programs = sorted(programs)
        self.tree = ROOT / f"build/mutants/{number}{'-tests' if tests else ''}"
        self.build = self.tree / "build"
        files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
        for name in filter(None, files):
            if name.startswith(("bench/", "samples/", "docs/")) or (name.startswith("tests/") and not tests):
                continue  # they are not built
            target = self.tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            source = (ROOT / name).read_bytes()
            # Objects that are the same are not built again.
            if not target.exists() or target.read_bytes() != source:
                target.write_bytes(source)
                shutil.copymode(ROOT / name, target)
        configure = ["cmake", "-S", self.tree, "-B", self.build, "-G", "Ninja", f"-DVKATTN_BUILD_TESTS={'ON' if tests else 'OFF'}",
                     "-DVKATTN_BUILD_BENCH=OFF", "-DVKATTN_BUILD_SAMPLES=OFF", "-DVKATTN_INSTALL=OFF"]
        if glslc:
            configure.append(f"-DVulkan_GLSLC_EXECUTABLE={glslc}")
        for command in (configure, self.build_command()):
            done = run(command)
            if done.returncode:
                sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-2000:]}")

    def build_command(self):
        return ["cmake", "--build", self.build, "--target", *self.programs]

    def gtest(self, program, pattern, seed, mesa=False):
        environment = dict(os.environ, VKATTN_TEST_SEED=str(seed))
        command = [self.build / "bin" / program, f"--gtest_filter={pattern}", "--gtest_brief=1", "--gtest_fail_fast"]
        if program == "vkattn-tests-device" and mesa:
            environment.update(VK_DRIVER_FILES=str(MESA / "lavapipe.json"), VK_ICD_FILENAMES=str(MESA / "lavapipe.json"))
            command.insert(0, MESA / "run")
        elif program == "vkattn-tests-device":
            command = [self.tree / "tests/device/on_driver.sh", "lavapipe", "/usr/share/vulkan/icd.d/lvp_icd.*.json", *command]
        return run(command, env=environment, timeout=PATIENCE)

    def conform(self, file, kernels, seed):
        environment = dict(os.environ, MESA_SHADER_CACHE_DISABLE="1")
        command = [self.build / "bin/vkattn", "conform", "--quick", "--fail-fast", "--seed", str(seed), "--json", self.tree / "report.json",
                   "--kernel", kernels]
        if needs_mesa(file):
            manifest = str(MESA / "lavapipe.json")
            environment.update(VK_DRIVER_FILES=manifest, VK_ICD_FILENAMES=manifest)
            command.insert(0, MESA / "run")
        (self.tree / "report.json").unlink(missing_ok=True)
        return run(command, env=environment)

    def first_failure(self):
        report = json.loads((self.tree / "report.json").read_text())
        for device in report["devices"]:
            for check in device["checks"]:
                if check.get("verdict") in ("fail", "crash", "hang"):
                    return f"{check['verdict']} of {check['id']}: {check.get('reason', '')}"
        return "a failure that the report does not name"

    def judge(self, mutation, seed):
        """Runs who must notice. Returns the verdict and what was found."""
        if mutation.part == "conform":
            tested = self.conform(mutation.file, mutation.pattern, seed)
            if tested.returncode == 1:
                return "caught", self.first_failure()
            return "missed" if tested.returncode == 0 else "stale", tested.stdout[-400:]
        tested = self.gtest(PROGRAMS[mutation.part], mutation.pattern, seed, needs_mesa(mutation.file))
        if "0 tests from 0 test suites" in tested.stdout:
            return "stale", f"no test has a name like {mutation.pattern}"
        if tested.returncode == 77:  # tests/device/on_driver.sh
            return "stale", tested.stdout[-200:]
        first = next((line for line in tested.stdout.splitlines() if "FAILED" in line), tested.stdout[-200:])
        return "caught" if tested.returncode else "missed", first

    def plant(self, mutation, seed):
        path = self.tree / mutation.file
        text = path.read_text()
        if text.count(mutation.old) != 1:
            return mutation.name, "stale", f"{mutation.file} has {text.count(mutation.old)} places of: {mutation.old}"
        path.write_text(text.replace(mutation.old, mutation.new))
        try:
            built = run(self.build_command())
            if built.returncode:
                return mutation.name, "stale", "it does not compile: " + built.stdout[-400:]
            return mutation.name, *self.judge(mutation, seed)
        finally:
            path.write_text(text)


def require_health(copy, chosen, seed):
    """Where a test fails without a bug, each bug would count as caught."""
    wanted = {}
    for mutation in chosen:
        on_mesa = not mutation.in_tests and needs_mesa(mutation.file)
        separator = ":" if mutation.in_tests else ","
        patterns, *_ = wanted.setdefault((mutation.part, on_mesa), ([], separator, mutation.file))
        patterns += [each for each in mutation.pattern.split(separator) if each not in patterns]
    for (part, on_mesa), (patterns, separator, file) in wanted.items():
        pattern = separator.join(patterns)
        done = copy.conform(file, pattern, seed) if part == "conform" else copy.gtest(PROGRAMS[part], pattern, seed, on_mesa)
        if done.returncode:
            sys.exit(f"{part} {pattern} fails without a planted bug:\n{done.stdout[-2000:]}")


def check(mutations):
    """Prints those whose text is not there exactly once, and returns how many."""
    stale = 0
    for mutation in mutations:
        path = ROOT / mutation.file
        places = path.read_text().count(mutation.old) if path.exists() else 0
        if places != 1:
            stale += 1
            print(f"{mutation.name}: {mutation.file} has {places} places of: {mutation.old}")
    print(f"{len(mutations) - stale} of {len(mutations)} mutations apply")
    return stale


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true", help="print the mutations")
    parser.add_argument("--check", action="store_true", help="whether each still applies; builds nothing")
    parser.add_argument("--shaders", action="store_true", help="only those of shaders")
    parser.add_argument("--host", action="store_true", help="only those of host code")
    parser.add_argument("--jobs", type=int, default=2, help="copies that are built and tested side by side (default 2)")
    parser.add_argument("--seed", type=int, default=1, help="of the tests (default 1)")
    arguments = parser.parse_args()
    chosen = [*([] if arguments.host else shader_mutations()), *([] if arguments.shaders else host_code_mutations())]
    if arguments.names:
        unknown = set(arguments.names) - {mutation.name for mutation in chosen}
        if unknown:
            parser.error(f"no mutation is named {', '.join(sorted(unknown))}: --list prints them")
        chosen = [mutation for mutation in chosen if mutation.name in arguments.names]
    if arguments.check:
        return 1 if check(chosen) else 0
    if arguments.list:
        for each in chosen:
            print(f"{each.name}  {each.file}  {each.part} {each.pattern}\n    {each.old!r}\n    {each.new!r}")
        return 0
    if any(needs_mesa(mutation.file) for mutation in chosen) and not (MESA / "run").exists():
        sys.exit(f"{MESA.relative_to(ROOT)} is missing: run scripts/test.sh once, which fetches it, or name mutations of other shaders")
    results = []
    for in_tests in (False, True):
        if part := [mutation for mutation in chosen if mutation.in_tests == in_tests]:
            results += plant_all(part, in_tests, arguments)
    caught = results.count("caught")
    print(f"mutation score: {caught} of {len(results)} caught ({100 * caught / len(results):.0f}%), {results.count('missed')} missed, "
          f"{results.count('stale')} no longer apply")
    return 0 if caught == len(results) else 1


def plant_all(chosen, in_tests, arguments):
    glslc = ROOT / "build/toolchain/bin/glslc"
    copies = queue.Queue()
    start = time.monotonic()
    for number in range(min(arguments.jobs, len(chosen))):
        copy = Copy(number, glslc if glslc.exists() else None, {PROGRAMS[mutation.part] for mutation in chosen})
        if number == 0:
            require_health(copy, chosen, arguments.seed)
        copies.put(copy)
    judge = "tests" if in_tests else "conform"
    print(f"copies built in {time.monotonic() - start:.0f} s; {len(chosen)} mutations that {judge} must notice, seed {arguments.seed}", flush=True)

    def plant(mutation):
        copy = copies.get()
        begun = time.monotonic()
        try:
            return *copy.plant(mutation, arguments.seed), time.monotonic() - begun
        finally:
            copies.put(copy)

    results = []
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for name, verdict, detail, seconds in pool.map(plant, chosen):
            results.append(verdict)
            print(f"{verdict:7} {seconds:4.0f} s  {name:38} {detail.strip()[:160]}", flush=True)
    return results


if __name__ == "__main__":
    sys.exit(main())
