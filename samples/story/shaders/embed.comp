#version 450
// Rows of the embedding table, one for each token. An id past the table counts as the last row.
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer Tokens { uint tokens[]; };
layout(set = 0, binding = 1) readonly buffer Table { float table[]; };
layout(set = 0, binding = 2) writeonly buffer Rows { float rows[]; };
layout(push_constant) uniform Push { uint dims; uint vocabulary; };
void main() {
    const uint d = gl_GlobalInvocationID.x, row = gl_WorkGroupID.y;
    if (d < dims) rows[row * dims + d] = table[min(tokens[row], vocabulary - 1) * dims + d];
}
