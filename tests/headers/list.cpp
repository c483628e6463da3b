// list.hpp as hosts use it; compiled at each language level (tests/headers.cmake).
#include <vkattn/list.hpp>

vkattn_result decode(vkattn::Runtime &runtime) {
    const vkattn::DeviceTensor x = runtime.allocate(vkattn::matrix(VKATTN_F32, 2, 8)), w = runtime.allocate(vkattn::matrix(VKATTN_F32, 8, 8)),
                               y = runtime.allocate(vkattn::packed(VKATTN_F32, 1, 1, 2, 8)), starts = runtime.allocate(vkattn::words(1));
    vkattn::OperationList list = runtime.list();
    std::string why;
    if (list.add(vkattn::ProjectionOf{x, w, y}, &why) != VKATTN_OK) return VKATTN_ERROR_INVALID_ARGUMENT;
    vkattn::AttentionOf attention{y, y, y, x};
    attention.options.flags = VKATTN_CAUSAL;
    if (list.add(attention, &why) != VKATTN_OK || list.add(vkattn::AdvanceOf{starts, starts, 1, 100}, &why) != VKATTN_OK ||
        list.record(&why) != VKATTN_OK)
        return VKATTN_ERROR_INVALID_ARGUMENT;
    for (int token = 0; token < 100; ++token)
        if (const vkattn_result r = list.submit(&why)) return r;
    return list.wait(&why);
}
