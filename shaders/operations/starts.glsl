#ifndef VKATTN_STARTS_GLSL_
#define VKATTN_STARTS_GLSL_
// What rotary, append and the gathering of angles know of where tokens start.
layout(constant_id = constantForm) const uint form = 0; // interop.h
const bool hasStarts = (form & formStarts) != 0u;
#endif
