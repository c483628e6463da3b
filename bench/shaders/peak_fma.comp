// The arithmetic peak: each invocation keeps 16 independent chains of multiply-adds in registers.
#version 450
layout(local_size_x_id = 0) in;
layout(set = 0, binding = 0) readonly buffer Input { vec4 unused[]; };
layout(set = 0, binding = 1) writeonly buffer Result { float result[]; };
layout(push_constant) uniform Push {
    uint steps;       // 32 multiply-adds an invocation each
    uint elements;    // peak_read.comp
    uint stride;      // peak_read.comp
    float factor;     // not known to the compiler
} push;

void main() {
    const float seed = float(gl_LocalInvocationID.x);
    vec4 a = vec4(0, 1, 2, 3) + seed, b = a + 4.0, c = a + 8.0, d = a + 12.0;
    const vec4 factor = vec4(push.factor), term = vec4(1.0 - push.factor);
    for (uint step = 0; step < push.steps; ++step) {
        a = a * factor + term;
        b = b * factor + term;
        c = c * factor + term;
        d = d * factor + term;
        a = a * factor + term;
        b = b * factor + term;
        c = c * factor + term;
        d = d * factor + term;
    }
    const vec4 sum = a + b + c + d;
    // Never true; the compiler cannot know.
    if (sum.x + sum.y + sum.z + sum.w == -1.0) result[gl_LocalInvocationID.x] = sum.x;
}
