#version 450
// y = factor * x + y
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) buffer Y { float y[]; };
layout(push_constant) uniform Push { uint count; float factor; };
void main() {
    const uint i = gl_GlobalInvocationID.x;
    if (i < count) y[i] = factor * x[i] + y[i];
}
