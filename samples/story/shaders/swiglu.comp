#version 450
// gate = gate * sigmoid(gate) * up (Shazeer 2020)
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) buffer Gate { float gate[]; };
layout(set = 0, binding = 1) readonly buffer Up { float up[]; };
layout(push_constant) uniform Push { uint dims; };
void main() {
    const uint d = gl_GlobalInvocationID.x, at = gl_WorkGroupID.y * dims + d;
    if (d < dims) gate[at] = gate[at] / (1.0 + exp(-gate[at])) * up[at];
}
