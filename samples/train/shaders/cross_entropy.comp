#version 450
// Softmax cross-entropy of a row of logits, its gradient, and whether the largest logit is the
// target's. A row without a target has a loss and a gradient of 0.
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer Logits { float logits[]; };
layout(set = 0, binding = 1) readonly buffer Targets { uint targets[]; };
layout(set = 0, binding = 2) writeonly buffer Gradient { float gradient[]; };
layout(set = 0, binding = 3) writeonly buffer Results { float results[]; };
layout(push_constant) uniform Push { uint rows; uint symbols; float weight; };
void main() {
    const uint row = gl_GlobalInvocationID.x;
    if (row >= rows) return;
    const uint target = targets[row], begin = row * symbols;
    if (target >= symbols) {
        for (uint s = 0u; s < symbols; s++) gradient[begin + s] = 0.0;
        results[2u * row] = 0.0;
        results[2u * row + 1u] = 0.0;
        return;
    }
    uint best = 0u;
    for (uint s = 1u; s < symbols; s++)
        if (logits[begin + s] > logits[begin + best]) best = s;
    const float most = logits[begin + best];
    float sum = 0.0;
    for (uint s = 0u; s < symbols; s++) sum += exp(logits[begin + s] - most);
    for (uint s = 0u; s < symbols; s++) {
        const float probability = exp(logits[begin + s] - most) / sum;
        gradient[begin + s] = weight * (s == target ? probability - 1.0 : probability);
    }
    results[2u * row] = log(sum) + most - logits[begin + target];
    results[2u * row + 1u] = best == target ? 1.0 : 0.0;
}
