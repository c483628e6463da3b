#include "copy_task.hpp"

#include "program/random.hpp"

namespace train {

using vkattn::program::Random;

Batch drawBatch(const Shape &shape, uint64_t seed, Purpose purpose, uint32_t step) {
    Random random(seed, static_cast<uint32_t>(purpose), step);
    Batch batch{std::vector<uint32_t>(shape.rows(), shape.symbols), std::vector<uint32_t>(shape.rows(), noTarget)};
    for (uint32_t s = 0; s < shape.sequences; ++s)
        for (uint32_t n = 0; n < shape.copied; ++n) {
            const uint32_t row = s * shape.positions() + n;
            batch.tokens[row] = batch.targets[row + shape.copied] = random.below(shape.symbols);
        }
    return batch;
}

} // namespace train
