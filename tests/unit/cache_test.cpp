// The pipeline cache's blob against a device without a driver: round trips, damage of every kind,
// threads, and that nothing leaks.
#include "core/vulkan/cache.hpp"
#include "support/seed.hpp"
#include "support/vulkan/cache_device.hpp"
#include "vkattn/vkattn.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

using namespace vkattn;
using namespace vkattn::test;

namespace {

using Bytes = std::vector<unsigned char>;

// One pipeline or more each; no two alike.
std::vector<vkattn_problem> someProblems() {
    std::vector<vkattn_problem> all;
    for (const vkattn_kernel kernel : {VKATTN_KERNEL_FLASH, VKATTN_KERNEL_DECODE, VKATTN_KERNEL_STAGED})
        for (const uint32_t dim : {16u, 64u}) {
            const vkattn_layout layout = packed(VKATTN_F32, 1, 2, 8, dim);
            all.push_back(problem(layout, layout, layout, layout));
            all.back().kernel = kernel;
        }
    return all;
}

class CacheTest : public testing::Test {
  protected:
    void SetUp() override { cacheDevice.reset(); }
    void TearDown() override {
        contexts_.clear();
        EXPECT_EQ(cacheDevice.liveObjects, 0);
        EXPECT_EQ(cacheDevice.liveAllocations, 0);
        EXPECT_EQ(cacheDevice.badInitialData, 0u) << "the driver was given data that is not its own";
    }
    vkattn_context open() {
        contexts_.emplace_back();
        EXPECT_EQ(contexts_.back().create(cacheDeviceHost(), &why), VKATTN_OK) << why.message;
        return contexts_.back().handle();
    }
    vkattn_context prewarmed() {
        const vkattn_context context = open();
        prewarm(context);
        return context;
    }
    void prewarm(vkattn_context context) {
        const auto problems = someProblems();
        ASSERT_EQ(vkattnPrewarm(context, problems.data(), static_cast<uint32_t>(problems.size()), &why), VKATTN_OK) << why.message;
    }
    Bytes exported(vkattn_context context) {
        size_t bytes = 0;
        EXPECT_EQ(vkattnExportCache(context, &bytes, nullptr, &why), VKATTN_OK) << why.message;
        Bytes data(bytes);
        EXPECT_EQ(vkattnExportCache(context, &bytes, data.data(), &why), VKATTN_OK) << why.message;
        data.resize(bytes);
        return data;
    }
    vkattn_result import(vkattn_context context, const Bytes &blob) {
        why = {};
        return vkattnImportCache(context, blob.size(), blob.data(), &why);
    }
    void expectRejected(vkattn_context context, const Bytes &blob, const std::string &reason) {
        const uint32_t seen = cacheDevice.initialDataSeen;
        EXPECT_EQ(import(context, blob), VKATTN_CACHE_REJECTED) << reason;
        EXPECT_NE(std::string(why.message).find(reason), std::string::npos) << "'" << why.message << "' does not name " << reason;
        EXPECT_EQ(cacheDevice.initialDataSeen, seen) << "the driver saw it";
    }

    vkattn_diagnostic why{};
    std::vector<Context> contexts_;
};

} // namespace

TEST_F(CacheTest, whatWasCompiledIsFoundAgain) {
    const Bytes blob = exported(prewarmed());
    const uint32_t compiled = cacheDevice.misses;
    ASSERT_GE(compiled, 6u);
    EXPECT_EQ(cacheDevice.hits, 0u);
    EXPECT_EQ(blob.size(), blob::headerBytes + 32 + 8 * compiled);
    const vkattn_context second = open();
    ASSERT_EQ(import(second, blob), VKATTN_OK) << why.message;
    prewarm(second);
    EXPECT_EQ(cacheDevice.misses, compiled);
    EXPECT_EQ(cacheDevice.hits, compiled);
    EXPECT_EQ(exported(second), blob) << "nothing was added";
}

TEST_F(CacheTest, whatWasCompiledBeforeAnImportIsExportedToo) {
    const auto problems = someProblems();
    const vkattn_context first = open(), second = open();
    ASSERT_EQ(vkattnPrewarm(first, problems.data(), 3, nullptr), VKATTN_OK);
    const uint32_t ofFirst = cacheDevice.misses;
    ASSERT_EQ(vkattnPrewarm(second, problems.data() + 3, 3, nullptr), VKATTN_OK);
    ASSERT_EQ(import(second, exported(first)), VKATTN_OK) << why.message;
    const uint32_t all = cacheDevice.misses;
    ASSERT_GT(all, ofFirst);
    const vkattn_context third = open();
    ASSERT_EQ(import(third, exported(second)), VKATTN_OK) << why.message;
    prewarm(third);
    EXPECT_EQ(cacheDevice.misses, all);
}

// A second import does not hide the first.
TEST_F(CacheTest, severalImportsAreAllInUse) {
    const auto problems = someProblems();
    const vkattn_context reader = open();
    for (const vkattn_problem &each : problems) {
        const vkattn_context writer = open();
        ASSERT_EQ(vkattnPrewarm(writer, &each, 1, nullptr), VKATTN_OK);
        ASSERT_EQ(import(reader, exported(writer)), VKATTN_OK) << why.message;
    }
    const uint32_t compiled = cacheDevice.misses;
    prewarm(reader);
    EXPECT_EQ(cacheDevice.misses, compiled);
}

TEST_F(CacheTest, importsAreBounded) {
    const vkattn_context context = prewarmed();
    const Bytes blob = exported(context);
    const int before = cacheDevice.liveCaches;
    for (int n = 0; n < 1000; ++n) ASSERT_EQ(import(context, blob), VKATTN_OK) << why.message;
    EXPECT_EQ(cacheDevice.liveCaches, before + 1) << "the same blob counts once";
    Bytes other = blob;
    for (uint32_t n = 1; n < PipelineCaches::maxImports; ++n) {
        other[other.size() - 1] = static_cast<unsigned char>(n + 100);
        fixChecksums(other);
        ASSERT_EQ(import(context, other), VKATTN_OK) << why.message;
    }
    EXPECT_EQ(cacheDevice.liveCaches, before + static_cast<int>(PipelineCaches::maxImports));
    other[other.size() - 1] = 99;
    fixChecksums(other);
    EXPECT_EQ(import(context, other), VKATTN_CACHE_REJECTED);
    EXPECT_NE(std::string(why.message).find("as many as it takes"), std::string::npos) << why.message;
    EXPECT_EQ(cacheDevice.liveCaches, before + static_cast<int>(PipelineCaches::maxImports));
    EXPECT_EQ(import(context, blob), VKATTN_OK) << "a known one is still no problem";
}

// The checksums are right, so the field itself must be looked at.
TEST_F(CacheTest, everyHeaderFieldIsChecked) {
    const Bytes blob = exported(prewarmed());
    const vkattn_context context = open();
    struct Field {
        size_t at, bytes;
        const char *reason;
    };
    const Field fields[] = {
        {blob::magicAt, 8, "magic"},
        {blob::formatVersionAt, 4, "format version"},
        {blob::headerBytesAt, 4, "header length"},
        {blob::libraryVersionAt, 4, "library version"},
        {blob::vendorAt, 4, "vendor id"},
        {blob::deviceAt, 4, "device id"},
        {blob::driverVersionAt, 4, "driver version"},
        {blob::uuidAt, 16, "pipelineCacheUUID"},
        {blob::shaderHashAt, 8, "shader hash"},
        {blob::payloadBytesAt, 8, "payload size"},
    };
    size_t covered = 0;
    for (const Field &field : fields) {
        EXPECT_EQ(field.at, covered) << "a field is not in the list";
        covered += field.bytes;
        for (size_t byte = 0; byte < field.bytes; ++byte)
            for (int bit = 0; bit < 8; ++bit) {
                Bytes changed = blob;
                changed[field.at + byte] = static_cast<unsigned char>(changed[field.at + byte] ^ 1u << bit);
                fixChecksums(changed);
                expectRejected(context, changed, field.reason);
            }
    }
    EXPECT_EQ(covered, blob::payloadChecksumAt);
    for (size_t byte = blob::payloadChecksumAt; byte < blob::headerBytes; ++byte) {
        Bytes changed = blob;
        ++changed[byte];
        expectRejected(context, changed, "header checksum");
    }
    EXPECT_EQ(import(context, blob), VKATTN_OK) << why.message;
}

TEST_F(CacheTest, anotherDeviceOrDriverRejects) {
    const Bytes blob = exported(prewarmed());
    contexts_.clear();
    const struct {
        void (*change)();
        const char *reason;
    } changes[] = {
        {[] { ++cacheDevice.driverVersion; }, "driver version"},
        {[] { cacheDevice.uuid[7] ^= 1; }, "pipelineCacheUUID"},
        {[] { ++cacheDevice.device; }, "device id"},
        {[] { ++cacheDevice.vendor; }, "vendor id"},
    };
    for (const auto &each : changes) {
        cacheDevice.reset();
        each.change();
        expectRejected(open(), blob, each.reason);
        contexts_.clear();
    }
}

TEST_F(CacheTest, theDriversOwnHeaderIsCheckedToo) {
    const Bytes blob = exported(prewarmed());
    const vkattn_context context = open();
    const struct {
        size_t at;
        unsigned char xored;
        const char *reason;
    } faults[] = {
        {0, 1, "length"},  {0, 0x30, "length"},       {3, 0x80, "length"},          {4, 2, "another version"},      {8, 1, "vendor"},
        {11, 1, "vendor"}, {12, 1, "another device"}, {16, 1, "pipelineCacheUUID"}, {31, 0x80, "pipelineCacheUUID"}};
    for (const auto &fault : faults) {
        Bytes changed = blob;
        changed[blob::headerBytes + fault.at] ^= fault.xored;
        fixChecksums(changed);
        expectRejected(context, changed, fault.reason);
    }
    for (size_t payload = 1; payload < 32; ++payload) {
        Bytes cut(blob.begin(), blob.begin() + static_cast<ptrdiff_t>(blob::headerBytes + payload));
        cut[blob::payloadBytesAt] = static_cast<unsigned char>(payload);
        cut[blob::payloadBytesAt + 1] = 0;
        fixChecksums(cut);
        expectRejected(context, cut, "shorter than its header");
    }
}

TEST_F(CacheTest, everyTruncationIsRejected) {
    const Bytes blob = exported(prewarmed());
    const vkattn_context context = open();
    for (size_t bytes = 0; bytes < blob.size(); ++bytes) {
        // A copy of its own lets a sanitizer see the end of the data.
        const Bytes cut(blob.begin(), blob.begin() + static_cast<ptrdiff_t>(bytes));
        expectRejected(context, cut, "cut off");
    }
    Bytes longer = blob;
    longer.push_back(0);
    expectRejected(context, longer, "payload size");
    EXPECT_EQ(vkattnImportCache(context, 0, nullptr, &why), VKATTN_CACHE_REJECTED) << "as an empty vector gives it";
    EXPECT_EQ(vkattnImportCache(context, 5, nullptr, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(vkattnImportCache(nullptr, blob.size(), blob.data(), &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(vkattnImportCache(context, 5, blob.data(), nullptr), VKATTN_CACHE_REJECTED) << "without a diagnostic";
}

TEST_F(CacheTest, everyFlippedBitIsRejected) {
    const Bytes blob = exported(prewarmed());
    const vkattn_context context = open();
    for (size_t bit = 0; bit < blob.size() * 8; ++bit) {
        Bytes changed = blob;
        changed[bit / 8] = static_cast<unsigned char>(changed[bit / 8] ^ 1u << bit % 8);
        EXPECT_EQ(import(context, changed), VKATTN_CACHE_REJECTED) << "bit " << bit;
        EXPECT_NE(why.message[0], '\0');
    }
    Random random = randomFor("cache");
    for (int n = 0; n < 20000; ++n) {
        Bytes changed = blob;
        for (uint32_t flips = between(random, 2, 64); flips-- > 0;) {
            const uint32_t bit = between(random, 0, static_cast<uint32_t>(blob.size() * 8 - 1));
            changed[bit / 8] = static_cast<unsigned char>(changed[bit / 8] ^ 1u << bit % 8);
        }
        if (changed == blob) continue; // each flip was undone
        EXPECT_EQ(import(context, changed), VKATTN_CACHE_REJECTED);
    }
    EXPECT_EQ(cacheDevice.liveCaches, 2) << "one of each context";
}

TEST_F(CacheTest, bytesMayLieAnywhere) {
    const Bytes blob = exported(prewarmed());
    for (size_t offset = 0; offset < 16; ++offset) {
        const vkattn_context context = open();
        Bytes moved(offset);
        moved.insert(moved.end(), blob.begin(), blob.end());
        EXPECT_EQ(vkattnImportCache(context, blob.size(), moved.data() + offset, &why), VKATTN_OK) << why.message;
        size_t bytes = blob.size();
        std::fill(moved.begin(), moved.end(), static_cast<unsigned char>(0));
        EXPECT_EQ(vkattnExportCache(context, &bytes, moved.data() + offset, &why), VKATTN_OK) << why.message;
        EXPECT_TRUE(std::equal(blob.begin(), blob.end(), moved.begin() + static_cast<ptrdiff_t>(offset)));
    }
    EXPECT_EQ(cacheDevice.badInitialData, 0u);
}

TEST_F(CacheTest, exportSaysHowMuchRoomItNeeds) {
    const vkattn_context context = prewarmed();
    const size_t needed = exported(context).size();
    for (size_t room = 0; room <= needed + 9; ++room) {
        Bytes data(needed + 16, 0xcd);
        size_t bytes = room;
        const vkattn_result r = vkattnExportCache(context, &bytes, data.data(), &why);
        EXPECT_EQ(r, room < needed ? VKATTN_ERROR_INVALID_ARGUMENT : VKATTN_OK) << room;
        EXPECT_EQ(bytes, needed);
        if (r != VKATTN_OK) {
            EXPECT_NE(std::string(why.message).find("ask again for the size"), std::string::npos) << why.message;
        }
        for (size_t n = std::min(room, needed); n < data.size(); ++n) ASSERT_EQ(data[n], 0xcd) << "written past the room";
    }
    EXPECT_EQ(vkattnExportCache(context, nullptr, nullptr, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    size_t bytes = 0;
    EXPECT_EQ(vkattnExportCache(nullptr, &bytes, nullptr, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    // A pipeline that comes between the answer to the size and the data.
    Bytes data(needed - 8);
    cacheDevice.grows = 1;
    bytes = data.size();
    EXPECT_EQ(vkattnExportCache(context, &bytes, data.data(), &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(why.message).find("has just grown"), std::string::npos) << why.message;
    EXPECT_EQ(bytes, needed);
}

TEST_F(CacheTest, aDriverWithoutDataExportsAnEmptyCache) {
    cacheDevice.headerless = true;
    const Bytes blob = exported(prewarmed());
    EXPECT_EQ(blob.size(), blob::headerBytes);
    const vkattn_context context = open();
    EXPECT_EQ(import(context, blob), VKATTN_OK) << why.message;
    EXPECT_EQ(cacheDevice.initialDataSeen, 0u);
}

TEST_F(CacheTest, aHostsCacheIsTheHostsToStore) {
    const Bytes blob = exported(prewarmed());
    vkattn_host host = cacheDeviceHost();
    static int theirs;
    host.pipelineCache = reinterpret_cast<VkPipelineCache>(&theirs);
    const int before = cacheDevice.liveCaches;
    Context context;
    ASSERT_EQ(context.create(host, &why), VKATTN_OK) << why.message;
    EXPECT_EQ(cacheDevice.liveCaches, before) << "none of our own";
    size_t bytes = 0;
    EXPECT_EQ(vkattnExportCache(context.handle(), &bytes, nullptr, &why), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(why.message).find("host.pipelineCache"), std::string::npos) << why.message;
    EXPECT_EQ(import(context.handle(), blob), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(why.message).find("host.pipelineCache"), std::string::npos) << why.message;
}

// Each Vulkan call and each allocation fails once, at every place. The call returns the right code;
// afterwards nothing is left over (TearDown), and the context works.
TEST_F(CacheTest, everyFailureIsCleanedUp) {
    const Bytes blob = exported(prewarmed());
    Bytes unaligned(blob.size() + 1);
    std::copy(blob.begin(), blob.end(), unaligned.begin() + 1);
    contexts_.clear();
    const auto session = [&](vkattn_result &creating, vkattn_result &importing, vkattn_result &exporting) {
        cacheDevice.calls = 0;
        cacheDevice.allocations = 0;
        Context context;
        importing = exporting = VKATTN_NOT_READY;
        if ((creating = context.create(cacheDeviceHost(), &why))) return;
        importing = vkattnImportCache(context.handle(), blob.size(), unaligned.data() + 1, &why);
        Bytes out(blob.size());
        size_t bytes = out.size();
        exporting = vkattnExportCache(context.handle(), &bytes, out.data(), &why);
        EXPECT_EQ(vkattnImportCache(context.handle(), blob.size(), blob.data(), nullptr), VKATTN_OK);
    };
    vkattn_result results[3];
    session(results[0], results[1], results[2]);
    ASSERT_EQ(results[0] | results[1] | results[2], VKATTN_OK);
    const uint32_t calls = cacheDevice.calls, allocations = cacheDevice.allocations;
    ASSERT_GE(calls, 10u);
    ASSERT_GE(allocations, 4u);
    uint32_t failures[3] = {};
    const struct {
        VkResult answer;
        vkattn_result code;
    } answers[] = {{VK_ERROR_OUT_OF_HOST_MEMORY, VKATTN_ERROR_OUT_OF_HOST_MEMORY},
                   {VK_ERROR_OUT_OF_DEVICE_MEMORY, VKATTN_ERROR_OUT_OF_DEVICE_MEMORY},
                   {VK_ERROR_UNKNOWN, VKATTN_ERROR_VULKAN}};
    for (const auto &each : answers)
        for (uint32_t at = 1; at <= calls; ++at) {
            cacheDevice.failWith = each.answer;
            cacheDevice.failAt = at;
            session(results[0], results[1], results[2]);
            for (int part = 0; part < 3; ++part)
                if (results[part] != VKATTN_OK && results[part] != VKATTN_NOT_READY) {
                    ++failures[part];
                    // A driver refuses the data for another reason than memory: the call rejects
                    // the blob.
                    const bool refused = part == 1 && each.code == VKATTN_ERROR_VULKAN && results[1] == VKATTN_CACHE_REJECTED;
                    EXPECT_TRUE(refused || results[part] == each.code) << "call " << at << " answered " << results[part];
                }
            EXPECT_EQ(cacheDevice.liveObjects, 0) << "call " << at;
            EXPECT_EQ(cacheDevice.liveAllocations, 0) << "call " << at;
        }
    EXPECT_GE(failures[0], 9u);
    EXPECT_GE(failures[1], 6u);
    EXPECT_GE(failures[2], 9u);
    cacheDevice.failAt = 0;
    uint32_t outOfMemory = 0;
    for (uint32_t at = 1; at <= allocations; ++at) {
        cacheDevice.failAllocationAt = at;
        session(results[0], results[1], results[2]);
        for (const vkattn_result r : results) {
            EXPECT_TRUE(r == VKATTN_OK || r == VKATTN_NOT_READY || r == VKATTN_ERROR_OUT_OF_HOST_MEMORY) << r;
            outOfMemory += r == VKATTN_ERROR_OUT_OF_HOST_MEMORY;
        }
        EXPECT_EQ(cacheDevice.liveObjects, 0) << "allocation " << at;
        EXPECT_EQ(cacheDevice.liveAllocations, 0) << "allocation " << at;
    }
    EXPECT_EQ(outOfMemory, allocations);
}

// Threads compile, import (the same blob and others) and export on one context, all at once.
TEST_F(CacheTest, importsWhileOthersCompile) {
    const auto problems = someProblems();
    const Bytes blob = exported(prewarmed());
    contexts_.clear();
    for (int round = 0; round < 20; ++round) {
        const vkattn_context context = open();
        std::atomic<int> waiting{6}, failures{0};
        const auto together = [&] {
            --waiting;
            while (waiting > 0) std::this_thread::yield();
        };
        std::vector<std::thread> threads;
        for (size_t first = 0; first < 2; ++first)
            threads.emplace_back([&, first] {
                together();
                for (size_t n = 0; n < problems.size(); ++n)
                    if (vkattnPrewarm(context, &problems[(n + 3 * first) % problems.size()], 1, nullptr)) ++failures;
            });
        for (unsigned char kind = 0; kind < 3; ++kind)
            threads.emplace_back([&, kind] {
                Bytes mine = blob;
                if (kind == 2) mine.back() ^= 0xff; // two threads import the same one
                fixChecksums(mine);
                together();
                for (int n = 0; n < 10; ++n)
                    if (vkattnImportCache(context, mine.size(), mine.data(), nullptr)) ++failures;
            });
        threads.emplace_back([&] {
            together();
            for (int n = 0; n < 10; ++n) {
                Bytes out(blob.size() * 2);
                size_t bytes = out.size();
                if (vkattnExportCache(context, &bytes, out.data(), nullptr)) ++failures;
            }
        });
        for (std::thread &thread : threads) thread.join();
        EXPECT_EQ(failures, 0);
        EXPECT_EQ(cacheDevice.liveCaches, 3) << "its own and two imported ones";
        const uint32_t compiled = cacheDevice.misses;
        const vkattn_context next = open();
        ASSERT_EQ(import(next, exported(context)), VKATTN_OK) << why.message;
        prewarm(next);
        EXPECT_EQ(cacheDevice.misses, compiled) << "something was compiled and not exported";
        contexts_.clear();
    }
}

TEST(CacheChecksum, differsForEveryLengthAndWord) {
    const Bytes zeros(64);
    for (size_t a = 0; a <= 64; ++a)
        for (size_t b = 0; b < a; ++b) EXPECT_NE(blob::checksum(zeros.data(), a), blob::checksum(zeros.data(), b));
    Bytes order(16);
    order[0] = 1, order[8] = 2;
    const uint64_t one = blob::checksum(order.data(), 16);
    std::swap(order[0], order[8]);
    EXPECT_NE(one, blob::checksum(order.data(), 16));
    EXPECT_EQ(shaderBankHash(), shaderBankHash());
}

// The bytes behind the last whole word count too.
TEST(CacheChecksum, differsForEveryByte) {
    for (size_t count = 1; count <= 24; ++count) {
        Bytes bytes(count);
        const uint64_t zeros = blob::checksum(bytes.data(), count);
        for (unsigned char &byte : bytes) {
            byte = 1;
            EXPECT_NE(blob::checksum(bytes.data(), count), zeros) << "byte " << &byte - bytes.data() << " of " << count;
            byte = 0;
        }
    }
}
