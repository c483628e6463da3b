#version 450
// Fused attention on matrix units: to come.
#define VKATTN_STAGE_FLASH
#include "lib/stage.glsl"
void main() {}
