// Mean and variance of a row that the lanes of a workgroup share, in two passes: the mean, then the
// squared differences from it. E[x^2] - E[x]^2 would cancel where the mean is large.
//
// Included after dims, epsilon, lane, lanes, rms and summand(dim), an element of the row.
shared float partial[lanes];

// The sum over the lanes of the workgroup, in a tree: errors grow with the logarithm of the lanes.
float sumOverLanes(float mine) {
    barrier();
    partial[lane] = mine;
    barrier();
    [[dont_unroll]] for (uint reach = lanes / 2u; reach > 0u; reach /= 2u) {
        if (lane < reach) partial[lane] += partial[lane + reach];
        barrier();
    }
    return partial[0];
}

// Runs of so many pairs of a lane are summed up on their own: errors of a long row stay small.
const uint runPairs = 16u;

// The sums over the row of s - center and of its square.
vec2 sumsOverRow(float center) {
    vec2 sums = vec2(0.0);
    [[dont_unroll]] for (uint first = lane; 2u * first < dims; first += runPairs * lanes) {
        vec2 run = vec2(0.0);
        [[dont_unroll]] for (uint n = 0u; n < runPairs; ++n) {
            const uint dim = 2u * (first + n * lanes);
            if (dim >= dims) break;
            const float a = summand(dim) - center, b = dim + 1u < dims ? summand(dim + 1u) - center : 0.0;
            run += vec2(a + b, fma(a, a, b * b));
        }
        sums += run;
    }
    return vec2(sumOverLanes(sums.x), sumOverLanes(sums.y));
}

struct Moments {
    float center, rest; // the mean is center + rest: no sum of the two, which would round
    float factor;
};

float standardized(float s, Moments m) { return (s - m.center - m.rest) * m.factor; }

Moments momentsOfRow() {
    const float count = float(dims);
    // The mean that the first pass has found is off by what sums of large numbers round; the second
    // pass finds out by how much.
    Moments m;
    m.center = rms ? 0.0 : sumsOverRow(0.0).x / count;
    const vec2 sums = sumsOverRow(m.center) / count;
    m.rest = rms ? 0.0 : sums.x;
    const float variance = sums.y - m.rest * m.rest;
    m.factor = 1.0 / sqrt((variance < 0.0 ? 0.0 : variance) + epsilon);
    return m;
}
