#include "tool/cache/ordered_array.hpp"

#include "tool/arrays/convert.hpp"

#include <algorithm>
#include <cstring>

namespace vkattn::tool {

void loadInCOrder(Input &input, std::span<std::byte> into) {
    const HostBuffer file = input.load();
    const vkattn_layout &l = input.layout();
    const size_t size = itemBytes(l.dtype);
    if (!input.header().fortranOrder) {
        std::copy_n(file.data(), into.size(), into.data());
        return;
    }
    std::byte *to = into.data();
    for (uint32_t b = 0; b < l.extent[0]; b++)
        for (uint32_t h = 0; h < l.extent[1]; h++)
            for (uint32_t t = 0; t < l.extent[2]; t++)
                for (uint32_t d = 0; d < l.extent[3]; d++, to += size) {
                    const int64_t at = b * l.strideElems[0] + h * l.strideElems[1] + t * l.strideElems[2] + d * l.strideElems[3];
                    std::memcpy(to, file.data() + static_cast<size_t>(at) * size, size);
                }
}

} // namespace vkattn::tool
