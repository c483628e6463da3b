"""Bugs in host code, planted one at a time by scripts/mutate.py: name, file, what is there (exactly
once), what is put in its place, and who must notice. WHO is part of the default run of
scripts/test.sh:

    tests FILTER      vkattn-tests with this filter of GoogleTest
    device FILTER     vkattn-tests-device, on Debian's lavapipe
    conform KERNELS   vkattn conform --quick of these kernels
"""
MUTATIONS = [
    # Problems and what validates them.
    ("problem-overlap-backwards", "src/problem/tensor.cpp", "if (magnitude(out.stride[d]) < inner)",
     "if (out.stride[d] >= 0 && magnitude(out.stride[d]) < inner)", "tests *Problem*"),
    ("problem-negative-reach", "src/problem/tensor.cpp", "if (below > layout.offsetElems)", "if (below > layout.offsetElems + 64)",
     "tests *Problem*"),
    # The chunker and the planner.
    ("chunk-key-heads-inside-a-group", "src/core/plan/chunks.hpp", "static_cast<uint32_t>(ceilDiv(heads - 1, group)) + 1)",
     "static_cast<uint32_t>(ceilDiv(heads, group)))", "tests Plan.*"),
    ("chunk-keys-not-whole-tiles", "src/core/plan/chunks.hpp", "if (s.keys < p_.keyTokens) s.keys -= s.keys % kernel_.keyTile;", "",
     "tests FlashPlan.*"),
    ("chunk-bit-mask-inside-a-word", "src/core/plan/chunks.hpp", "std::min<uint64_t>(keys / 32 + 2, t.extent[3])",
     "std::min<uint64_t>(ceilDiv(keys, 32), t.extent[3])", "tests Plan.*"),
    ("chunk-last-queries", "src/core/plan/operands.cpp", "c.queries = std::min(plan.chunkQueries, p.queryTokens - c.queryFirst);",
     "c.queries = plan.chunkQueries;", "tests Plan.*:FlashPlan.*"),
    ("chunk-heads-and-queries-swapped", "src/core/plan/operands.cpp", "rowChunk / plan.queryChunks % plan.headChunks * plan.chunkHeads",
     "rowChunk % plan.headChunks * plan.chunkHeads", "tests Plan.*:FlashPlan.*"),
    # Slices.
    ("slice-last-dispatch-lost", "src/core/plan/slices.cpp", "if (unit == sliceUnits(plan)) return plan.dispatchCount;",
     "if (unit == sliceUnits(plan)) return plan.dispatchCount - 1;", "tests Slices.*:Describe.*"),
    ("slice-persistent-bytes-forgotten", "src/core/plan/slices.cpp", "return unitsPerRowChunk(plan) > 1 ? plan.workspaceBytes : plan.setUpBytes;",
     "return plan.setUpBytes;", "device Slices.*"),
    ("slice-environment-not-kept", "src/core/plan/slices.cpp", "plan.workspaceBytes : plan.setUpBytes;", "plan.workspaceBytes : plan.tableBytes;",
     "tests Slices.*:FlashPlan.*"),
    # The environment.
    ("environment-read-without-a-barrier", "src/core/kernels/flash.cpp", "d.barrierBefore = keyChunk == 0 && index > 0;",
     "d.barrierBefore = keyChunk == 0 && rowChunk > 0;", "tests FlashPlan.*"),
    ("environment-base-of-the-mask-forgotten", "src/core/plan/operands.hpp", "{termMask, VKATTN_MASK, slotMask, offsetof(FlashPush, maskBase),",
     "{termMask, VKATTN_MASK, slotMask, offsetof(FlashPush, biasBase),", "conform flash,decode"),
    ("environment-heads-of-a-chunk", "src/core/kernels/flash.cpp", "push.headFirst = c.headFirst;\n        setPush(d, push);", "setPush(d, push);",
     "conform flash,decode"),
    ("slice-uneven", "src/core/plan/slices.cpp", "const double target = totalWork(plan) * index / plan.problem.slices;",
     "const double target = totalWork(plan) * index * index / plan.problem.slices / plan.problem.slices;", "tests Slices.*"),
    # Operand ranges and bindings.
    ("operand-end-not-a-whole-word", "src/core/plan/operands.hpp", "end = (roleBegin + operand.endBytes + 3) & ~3ull;",
     "end = (roleBegin + operand.endBytes) & ~3ull;", "conform staged,flash"),
    ("operand-base-in-bytes", "src/core/plan/operands.hpp", "static_cast<uint32_t>((roleBegin + operand.firstByte - begin) / operand.elementSize);",
     "static_cast<uint32_t>(roleBegin + operand.firstByte - begin);", "conform staged,flash"),
    ("operand-documents-of-first-entry", "src/core/plan/operands.hpp", "const uint64_t first = uint64_t{c.batchFirst} * extent + tokenFirst;",
     "const uint64_t first = tokenFirst;", "conform staged,flash"),
    ("binding-too-small", "src/core/vulkan/bindings.cpp", "if (binding.size < needed)", "if (binding.size + 4 < needed)", "tests *Overlap*:Describe.*:Heap.*:*Binding*"),
    ("binding-output-onto-input", "src/core/vulkan/bindings.cpp", "if (b.size() == 0 || a.begin >= b.end",
     "if (!other.output || b.size() == 0 || a.begin >= b.end", "tests *Overlap*"),
    # Recording.
    ("record-later-slices-missed-late", "src/core/vulkan/record.cpp", "bool ready = keep && schedule.slices <= 1;", "bool ready = keep;",
     "tests LaterSlices.*"),
    # Pipeline cache blobs and tuning files.
    ("cache-checksum-ignores-the-end", "src/core/vulkan/cache.cpp", "if (at < count) state = mix(state, read64(bytes + at, count - at));", "",
     "tests Cache*"),
    ("tuning-bounds", "src/core/plan/tuning_file.cpp", "if (!digits || value < field->least || value > field->most)",
     "if (!digits || value < field->least)", "tests Tuning*:FuzzSeeds.tuning"),
    ("tuning-lanes-no-power-of-two", "src/core/plan/tuning_file.cpp", "if (!powerOfTwo(tile.dimLanes))", "if (tile.dimLanes == 0)",
     "tests Tuning*"),
    # The CPU: kernels, oracle, verifier, pool.
    ("cpu-bit-mask-word-stays", "src/cpu/pair_rules-inl.hpp", "if (j == 0 || key % 32 == 0) word", "if (j == 0) word", "tests Cpu*:*/CpuKernels*"),
    ("cpu-documents-of-first-key", "src/cpu/pair_rules-inl.hpp", "s.batch * keys + s.key(begin);", "s.batch * keys + s.key(0);", "tests Cpu*:*/CpuKernels*"),
    ("verify-bound-of-output-loose", "src/cpu/verify.cpp", "4 * 0x1p-24 * largestAbsoluteDot(row, kv);", "4 * 0x1p-14 * largestAbsoluteDot(row, kv);",
     "tests Cpu.*"),
    ("half-ties-away-from-even", "src/util/half.hpp", "(remainder == halfway && (rounded & 1))", "remainder == halfway", "tests Half.*"),
    # The runtime.
    ("runtime-staged-parts-from-the-start", "src/runtime/buffers.cpp", "const VkBufferCopy region = {toDevice ? 0 : done,",
     "const VkBufferCopy region = {0,", "device Buffers.*"),
    ("runtime-pool-with-too-few-descriptors", "src/runtime/device.cpp",
     "requirements.descriptorSetCount <= descriptorSets_ && requirements.storageDescriptorCount <= storageDescriptors_",
     "requirements.descriptorSetCount <= descriptorSets_", "device Descriptors.*"),
    ("runtime-verdict-without-its-tuning", "src/runtime/verdicts.cpp", 'driver + " " + library + " " + tuning; }', 'driver + " " + library; }',
     "device VerdictsOf.*"),
    # The tool: arrays, files, arguments.
    ("npy-one-dimension-is-no-tuple", "src/tool/arrays/npy.cpp", "return shape.size() != 1 || comma;", "return true;", "tests npy.*"),
    ("npy-shape-of-one", "src/tool/arrays/npy.cpp", '(shape.size() == 1 ? ",)" : ")");', '")";', "tests npy.*"),
    ("output-close-fails-in-silence", "src/tool/arrays/output_file.cpp",
     "if (std::fclose(std::exchange(file_, nullptr)) != 0) fail(reasonOf(errno));", "std::fclose(std::exchange(file_, nullptr));",
     "tests OutputTest.*"),
    ("output-same-file-twice", "src/tool/arrays/output_file.cpp", "if (sameFile(target.resolved, other.resolved))", "if (false)",
     "tests OutputTest.*:BadUsageTest.*"),
    # Reports of conform.
    ("compare-new-problem-is-not-worse", "src/conform/report/compare.cpp", "worse_ = worse_ || (a_.problem.empty() && !b_.problem.empty());", "",
     "tests conformCompare.*"),
    ("compare-slower-is-not-worse", "src/conform/report/compare.cpp", "worse_ = worse_ || grew;", "", "tests conformCompare.*"),
]
