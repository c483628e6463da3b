#version 450
// Writes the options of a flash dispatch to the workspace: strides and bases that 128 bytes of push constants have no room for beside those
// of q, k, v and out.
#define VKATTN_STAGE_OPTIONS
#include "lib/platform.glsl"

layout(set = 0, binding = 0, std430) writeonly buffer Options { FlashOptions options; };

void main() { options = given; }
