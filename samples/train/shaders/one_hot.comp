#version 450
// A row for each token: 1 in the column of its symbol and in the column of its position, 0 elsewhere.
layout(local_size_x = 64) in;
layout(set = 0, binding = 0) readonly buffer Tokens { uint tokens[]; };
layout(set = 0, binding = 1) writeonly buffer Rows { float rows[]; };
layout(push_constant) uniform Push { uint symbols; uint positions; };
void main() {
    const uint c = gl_GlobalInvocationID.x, row = gl_WorkGroupID.y, columns = symbols + positions;
    if (c < columns) rows[row * columns + c] = c == tokens[row] || c == symbols + row % positions ? 1.0 : 0.0;
}
