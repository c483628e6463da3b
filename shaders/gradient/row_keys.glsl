// The keys of a row, shared among the lanes of its workgroup: a lane has every `lanes`-th run of four
// neighbours, the same ones in every pass, so that no lane reads what another wrote. Several keys an
// iteration: Mesa 22's software driver silently leaves a shader after 65,535 iterations of all its
// loops together, and the planner (maxKeysPerLane) counts on 4.
//
// Included after the constant `lanes`; `lane` is a variable where FOR_KEYS stands.
const uint keysPerIteration = 4u;
#define FOR_KEYS(j, from, to)                                                                                                              \
    for (uint run_ = (from) / keysPerIteration / lanes * lanes + lane; run_ * keysPerIteration < (to); run_ += lanes)                      \
        [[unroll]] for (uint n_ = 0u; n_ < keysPerIteration; ++n_) {                                                                       \
            const uint j = run_ * keysPerIteration + n_;                                                                                   \
            if (j < (from) || j >= (to)) continue;
#define END_FOR_KEYS }
