#version 450
// Writes the options of a flash dispatch to the workspace: strides and bases that 128 bytes of push constants have no room for beside those
// of q, k, v and out.
#define VKATTN_STAGE_OPTIONS
#include "lib/platform.glsl"

#include "attention/operands.glsl"

void main() { options = given; }
