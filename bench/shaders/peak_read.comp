// The memory peak: all groups together read a buffer from end to end, one pass for each z of the
// dispatch. No loop: some software drivers read lane by lane inside one.
#version 450
layout(local_size_x_id = 0) in;
// GPUs want each lane to read its own 16 bytes. Software devices are faster where a whole group
// reads the same.
layout(constant_id = 1) const uint groupReadsTogether = 0;
layout(set = 0, binding = 0) readonly buffer Input { vec4 data[]; };
layout(set = 0, binding = 1) writeonly buffer Result { float result[]; };
layout(push_constant) uniform Push {
    uint unused;
    uint elements; // a power of two
    uint groups;   // that read the buffer once; a power of two
    float factor;  // peak_fma.comp
} push;

#define READ4(n) a += data[start + (n) * stride]; b += data[start + ((n) + 1) * stride]; \
                 c += data[start + ((n) + 2) * stride]; d += data[start + ((n) + 3) * stride];
#define READ16(n) READ4(n) READ4((n) + 4) READ4((n) + 8) READ4((n) + 12)
#define READ64(n) READ16(n) READ16((n) + 16) READ16((n) + 32) READ16((n) + 48)

void main() {
    const uint stride = groupReadsTogether != 0 ? 1 : gl_WorkGroupSize.x, lane = groupReadsTogether != 0 ? 0 : gl_LocalInvocationID.x;
    // Each pass goes through the groups' parts in another order, so that no core finds in its own
    // small cache what it read the time before.
    const uint group = (gl_WorkGroupID.x + gl_NumWorkGroups.x * gl_WorkGroupID.y + gl_WorkGroupID.z * 3571u) & (push.groups - 1);
    const uint start = group * 64 * stride + lane;
    vec4 a = vec4(0), b = vec4(0), c = vec4(0), d = vec4(0);
    READ64(0)
    const vec4 sum = a + b + c + d;
    if (sum.x + sum.y + sum.z + sum.w == -1.0) result[gl_LocalInvocationID.x] = sum.x;
}
