// Lists of random operations over few memories, so that steps wait for each other in every way.
#pragma once

#include "conform/cases/case.hpp"
#include "device/host_shader.hpp"
#include "vkattn/list.hpp"

#include <gtest/gtest.h>

namespace vkattn::test {

struct RandomList {
    static constexpr uint32_t rows = 8, dims = 8, memories = 5;
    std::vector<DeviceTensor> tensors; // [rows, dims] each
    DeviceTensor table, starts;
    OperationList list;

    RandomList(Runtime &runtime, Random &random, int steps) : list(runtime.list()) {
        for (uint32_t n = 0; n < memories; ++n) tensors.push_back(runtime.allocate(matrix(VKATTN_F32, rows, dims)));
        table = runtime.allocate(matrix(VKATTN_F32, rows, dims / 2)), starts = runtime.allocate(words(1));
        const std::vector<float> half(rows * dims / 2, 0.5f);
        EXPECT_EQ(table.upload(half.data(), 4 * half.size()), VKATTN_OK);
        const uint32_t none = 0;
        EXPECT_EQ(starts.upload(&none, 4), VKATTN_OK);
        fill(random);
        for (int n = 0; n < steps; ++n) add(random);
    }
    // New contents of all tensors.
    void fill(Random &random) {
        std::normal_distribution<float> normal;
        for (const DeviceTensor &tensor : tensors) {
            std::vector<float> values(rows * dims);
            for (float &each : values) each = normal(random);
            EXPECT_EQ(tensor.upload(values.data(), 4 * values.size()), VKATTN_OK);
        }
    }
    [[nodiscard]] std::vector<uint32_t> contents() const {
        std::vector<uint32_t> all;
        for (const DeviceTensor &tensor : tensors) {
            all.resize(all.size() + rows * dims);
            EXPECT_EQ(tensor.download(all.data() + all.size() - rows * dims, 4 * rows * dims), VKATTN_OK);
        }
        return all;
    }

  private:
    void add(Random &random) {
        // Halves of rows: operations on both halves of a memory do not wait for each other.
        const auto drawn = [&](uint32_t memory) { return tensors[memory].part(2, between(random, 0, 1) * rows / 2, rows / 2); };
        const uint32_t y = between(random, 0, memories - 1), x = (y + between(random, 1, memories - 1)) % memories;
        std::string why;
        vkattn_result result = VKATTN_OK;
        switch (random() % 7) {
        case 0: {
            uint32_t w = between(random, 0, memories - 1);
            if (w == y) w = x;
            result = list.add(ProjectionOf{drawn(x), tensors[w], drawn(y)}, &why);
            break;
        }
        case 1: {
            const DeviceTensor in = drawn(x);
            result = list.add(NormOf{VKATTN_LAYER_NORM, in, random() % 2 ? in : drawn(y)}, &why);
            break;
        }
        case 2:
            result = list.add(RotaryOf{drawn(x), table, table, drawn(y)}, &why);
            break;
        case 3:
            result = list.add(ScaleAdd(tensors[x], tensors[y], 0.5f).step, &why);
            break;
        case 4: // what is appended later goes elsewhere
            result = list.add(AdvanceOf{starts, starts, between(random, 0, 2), rows - 1}, &why);
            break;
        case 5: { // in place of x, of the residual, or of neither
            const DeviceTensor in = drawn(x), out = drawn(y), residual = random() % 2 ? out : DeviceTensor();
            result = list.add(DropOf{in, random() % 2 ? in : out, residual, 0.3, random(), 1}, &why);
            break;
        }
        default:
            result = list.add(AppendOf{drawn(x), tensors[y], starts}, &why);
            break;
        }
        EXPECT_EQ(result, VKATTN_OK) << why;
    }
};

} // namespace vkattn::test
