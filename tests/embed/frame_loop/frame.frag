#version 450
// A frame of the engine: the noisy picture, what attention has made of it, and a hand that turns a step with every frame.
layout(location = 0) in vec2 at;
layout(location = 0) out vec4 colour;
layout(set = 0, binding = 0) uniform sampler2D noisy;
layout(set = 0, binding = 1) uniform sampler2D result;
layout(push_constant) uniform Push { float turn, done; };

void main() {
    const float dialHeight = 0.2;
    if (at.y < 1.0 - dialHeight) {
        const vec2 p = vec2(fract(at.x * 2.0), at.y / (1.0 - dialHeight));
        const vec4 texel = at.x < 0.5 ? texture(noisy, p) : texture(result, p);
        colour = vec4(pow(clamp(texel.rgb, 0.0, 1.0), vec3(1.0 / 2.2)), 1.0);
        return;
    }
    const vec2 p = vec2(at.x * 8.0 - 0.5, (at.y - 1.0) / dialHeight + 0.5); // a square at the left has the dial, then the progress
    colour = vec4(0.12, 0.13, 0.15, 1.0);
    if (length(p) < 0.45) {
        const float angle = atan(p.x, -p.y) / 6.2831853, behind = fract(turn - angle);
        colour.rgb = mix(vec3(0.95, 0.8, 0.3), vec3(0.2, 0.22, 0.25), min(behind * 1.5, 1.0));
    } else if (at.x > 0.14 && at.x < 0.98 && abs(p.y) < 0.12) {
        colour.rgb = (at.x - 0.14) / 0.84 < done ? vec3(0.35, 0.75, 0.45) : vec3(0.2, 0.22, 0.25);
    }
}
