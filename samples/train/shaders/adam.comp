#version 450
// A step of Adam (Kingma and Ba 2015) for each weight. The host gives the rate and the corrections of
// the step: 1 / (1 - beta1^t) and 1 / (1 - beta2^t).
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer Gradients { float gradients[]; };
layout(set = 0, binding = 1) readonly buffer Schedule { float schedule[]; };
layout(set = 0, binding = 2) buffer Weights { float weights[]; };
layout(set = 0, binding = 3) buffer Moments { float moments[]; }; // all first ones, then all second ones
layout(push_constant) uniform Push { uint count; float beta1; float beta2; float epsilon; };
void main() {
    const uint n = gl_GlobalInvocationID.x;
    if (n >= count) return;
    const float g = gradients[n];
    const float first = beta1 * moments[n] + (1.0 - beta1) * g;
    const float second = beta2 * moments[count + n] + (1.0 - beta2) * g * g;
    moments[n] = first;
    moments[count + n] = second;
    weights[n] -= schedule[0] * (first * schedule[1]) / (sqrt(second * schedule[2]) + epsilon);
}
