#version 450
// What attention works on: a noisy picture (V), and for each pixel where it is and what lies there (K, Q). With k = (f, -|f|^2) and
// q = (2f, 1) the score q.k is -|f_q - f_k|^2 but for a constant of the row: weights are those of a bilateral filter.
layout(location = 0) in vec2 at;
layout(location = 0) out vec4 colour;
layout(location = 1) out vec4 key;
layout(location = 2) out vec4 query;

const float pixelSigma = 9.0, guideSigma = 0.08;

float random(uvec2 p) {
    uint h = p.x * 0x9e3779b9u ^ p.y * 0x85ebca6bu;
    h = (h ^ h >> 16) * 0x7feb352du;
    h = (h ^ h >> 15) * 0x846ca68bu;
    return float((h ^ h >> 16) >> 8) / 16777216.0;
}

void main() {
    const vec2 p = at * 2.0 - 1.0;
    const vec3 light = normalize(vec3(-0.6, -0.7, 0.8));
    vec3 albedo;
    float shade, guide;
    const float d = dot(p - vec2(0.05, -0.05), p - vec2(0.05, -0.05));
    if (d < 0.4) { // a ball
        const vec3 normal = vec3((p - vec2(0.05, -0.05)) / sqrt(0.4), sqrt(1.0 - d / 0.4));
        albedo = vec3(0.9, 0.35, 0.2);
        shade = 0.15 + 0.85 * max(dot(normal, light), 0.0);
        guide = 1.0 + 0.4 * shade;
    } else { // on a floor, before a wall
        const bool floorHere = p.y > 0.35;
        const vec2 tile = floorHere ? vec2(p.x / (p.y + 0.2), 1.0 / (p.y + 0.2)) * 2.0 : vec2(0.0);
        const bool odd = floorHere && (int(floor(tile.x)) + int(floor(tile.y)) & 1) != 0;
        albedo = floorHere ? (odd ? vec3(0.8) : vec3(0.25, 0.3, 0.4)) : vec3(0.45, 0.6, 0.7);
        shade = floorHere ? 0.8 : 0.5 + 0.4 * (0.35 - p.y);
        guide = floorHere ? (odd ? 0.3 : 0.0) : 0.6;
    }
    const uvec2 pixel = uvec2(gl_FragCoord.xy);
    const float noise = (random(pixel) + random(pixel + 977u) + random(pixel + 31337u)) * 2.0 - 3.0;
    colour = vec4(albedo * shade * (1.0 + 0.5 * noise), 1.0);
    const vec3 f = vec3(gl_FragCoord.xy / pixelSigma, guide / guideSigma) * 0.70710678;
    key = vec4(f, -dot(f, f));
    query = vec4(2.0 * f, 1.0);
}
