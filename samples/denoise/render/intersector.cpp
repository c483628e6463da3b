#include "render/intersector.hpp"

namespace denoise {
namespace {

constexpr float farAway = 1e30f;
// Nearer hits belong to the surface that the ray starts from (fp32 at room scale is good to about
// 1e-6).
constexpr float selfHit = 1e-3f;

Vec3 turn(float cosYaw, float sinYaw, Vec3 v) {
    return {cosYaw * v.x - sinYaw * v.z, v.y, sinYaw * v.x + cosYaw * v.z};
}

} // namespace

float fresnel(float cosine) {
    const float grazing = 1 - std::clamp(cosine, 0.0f, 1.0f), squared = grazing * grazing;
    return 0.04f + 0.96f * squared * squared * grazing;
}

Intersector::Intersector(const Scene &scene) : scene_(scene) {
    spheres_.radiusSquared.fill(-1); // lanes without a shape are never met
    boxes_.halfX.fill(-1);
    for (size_t i = 0; i < std::min(maxSpheres, scene.spheres.size()); ++i) {
        const Sphere &sphere = scene.spheres[i];
        spheres_.x[i] = sphere.centre.x, spheres_.y[i] = sphere.centre.y, spheres_.z[i] = sphere.centre.z;
        spheres_.radiusSquared[i] = sphere.radius * sphere.radius;
    }
    for (size_t i = 0; i < std::min(maxBoxes, scene.boxes.size()); ++i) {
        const Box &box = scene.boxes[i];
        boxes_.x[i] = box.centre.x, boxes_.y[i] = box.centre.y, boxes_.z[i] = box.centre.z;
        boxes_.halfX[i] = box.halfSize.x, boxes_.halfY[i] = box.halfSize.y, boxes_.halfZ[i] = box.halfSize.z;
        boxes_.cosYaw[i] = std::cos(box.yaw), boxes_.sinYaw[i] = std::sin(box.yaw);
    }
}

// No branch in either loop: compilers turn them into vector code.
void Intersector::enterSpheres(const Ray &ray, SphereLanes &distance) const {
    for (size_t i = 0; i < maxSpheres; ++i) {
        const float cx = spheres_.x[i] - ray.origin.x, cy = spheres_.y[i] - ray.origin.y, cz = spheres_.z[i] - ray.origin.z;
        const float along = cx * ray.direction.x + cy * ray.direction.y + cz * ray.direction.z;
        // The point of the ray nearest to the centre keeps its accuracy for far spheres, which
        // |c|^2 - along^2 would not.
        const float nx = cx - ray.direction.x * along, ny = cy - ray.direction.y * along, nz = cz - ray.direction.z * along;
        const float discriminant = spheres_.radiusSquared[i] - (nx * nx + ny * ny + nz * nz);
        const float root = std::sqrt(discriminant > 0 ? discriminant : 0);
        const float t = along - root > selfHit ? along - root : along + root;
        distance[i] = ((discriminant > 0) & (t > selfHit)) ? t : farAway;
    }
}

void Intersector::enterBoxes(const Ray &ray, BoxLanes &distance) const {
    for (size_t i = 0; i < maxBoxes; ++i) {
        const float cosYaw = boxes_.cosYaw[i], sinYaw = boxes_.sinYaw[i];
        const float ox = ray.origin.x - boxes_.x[i], oy = ray.origin.y - boxes_.y[i], oz = ray.origin.z - boxes_.z[i];
        const float ix = 1 / (cosYaw * ray.direction.x - sinYaw * ray.direction.z), iy = 1 / ray.direction.y,
                    iz = 1 / (sinYaw * ray.direction.x + cosYaw * ray.direction.z);
        // Middle of each slab.
        const float mx = -(cosYaw * ox - sinYaw * oz) * ix, my = -oy * iy, mz = -(sinYaw * ox + cosYaw * oz) * iz;
        const float wx = std::abs(ix) * boxes_.halfX[i], wy = std::abs(iy) * boxes_.halfY[i], wz = std::abs(iz) * boxes_.halfZ[i];
        float enter = mx - wx, leave = mx + wx;
        enter = my - wy > enter ? my - wy : enter, leave = my + wy < leave ? my + wy : leave;
        enter = mz - wz > enter ? mz - wz : enter, leave = mz + wz < leave ? mz + wz : leave;
        // boxes are opaque: no ray starts inside one
        distance[i] = ((enter <= leave) & (enter > selfHit)) ? enter : farAway;
    }
}

void Intersector::describeBox(const Box &box, size_t lane, const Ray &ray, Hit &hit) const {
    const float cosYaw = boxes_.cosYaw[lane], sinYaw = boxes_.sinYaw[lane];
    const Vec3 local = turn(cosYaw, sinYaw, hit.position - box.centre), direction = turn(cosYaw, sinYaw, ray.direction);
    hit.boxPosition = local;
    hit.boxHalfSize = box.halfSize;
    // The face is the one whose plane the position lies on.
    const float dx = std::abs(std::abs(local.x) - box.halfSize.x), dy = std::abs(std::abs(local.y) - box.halfSize.y),
                dz = std::abs(std::abs(local.z) - box.halfSize.z);
    Vec3 normal{0, 0, direction.z > 0 ? -1.0f : 1.0f};
    if (dx <= dy && dx <= dz)
        normal = {direction.x > 0 ? -1.0f : 1.0f, 0, 0};
    else if (dy <= dz)
        normal = {0, direction.y > 0 ? -1.0f : 1.0f, 0};
    hit.normal = turn(cosYaw, -sinYaw, normal);
}

bool Intersector::intersect(const Ray &ray, Hit &hit) const {
    // The room is convex and every ray starts inside: the first plane that a ray crosses outwards
    // is the wall it meets.
    const Vec3 o = ray.origin, d = ray.direction;
    const auto exit = [](float low, float high, float from, float along) {
        return (along > 0 ? high - from : from - low) / std::abs(along);
    };
    const float tx = exit(scene_.roomMin.x, scene_.roomMax.x, o.x, d.x), ty = exit(scene_.roomMin.y, scene_.roomMax.y, o.y, d.y),
                tz = exit(scene_.roomMin.z, scene_.roomMax.z, o.z, d.z);
    float nearest = farAway;
    hit.material = nullptr;
    if (tx < nearest) nearest = tx, hit.material = d.x > 0 ? &scene_.right : &scene_.left, hit.normal = {d.x > 0 ? -1.0f : 1.0f, 0, 0};
    if (ty < nearest) nearest = ty, hit.material = d.y > 0 ? &scene_.ceiling : &scene_.floor, hit.normal = {0, d.y > 0 ? -1.0f : 1.0f, 0};
    if (tz < nearest) nearest = tz, hit.material = d.z > 0 ? nullptr : &scene_.back, hit.normal = {0, 0, 1};

    if (d.y > 0) {
        const Lamp &lamp = scene_.lamp;
        const float t = (lamp.centre.y - o.y) / d.y;
        if (t > selfHit && t < nearest && std::abs(o.x + t * d.x - lamp.centre.x) < lamp.halfWidth &&
            std::abs(o.z + t * d.z - lamp.centre.z) < lamp.halfDepth)
            nearest = t, hit.material = &lamp.material, hit.normal = {0, -1, 0};
    }
    SphereLanes sphereDistance;
    BoxLanes boxDistance;
    enterSpheres(ray, sphereDistance);
    enterBoxes(ray, boxDistance);
    size_t sphere = maxSpheres, box = maxBoxes;
    for (size_t i = 0; i < maxSpheres; ++i)
        if (sphereDistance[i] < nearest) nearest = sphereDistance[i], sphere = i;
    for (size_t i = 0; i < maxBoxes; ++i)
        if (boxDistance[i] < nearest) nearest = boxDistance[i], box = i;

    hit.distance = nearest;
    hit.position = o + d * nearest;
    if (box < maxBoxes) {
        hit.material = &scene_.boxes[box].material;
        describeBox(scene_.boxes[box], box, ray, hit);
    } else if (sphere < maxSpheres) {
        hit.material = &scene_.spheres[sphere].material;
        hit.normal = (hit.position - scene_.spheres[sphere].centre) * (1 / scene_.spheres[sphere].radius);
    }
    return hit.material != nullptr;
}

Vec3 Intersector::transmittance(Vec3 from, Vec3 to) const {
    // No wall and no lamp stands between two points of a convex room: only the furniture can.
    const Vec3 path = to - from;
    const float distance = length(path);
    const Ray ray{from, path * (1 / distance)};
    BoxLanes boxDistance;
    enterBoxes(ray, boxDistance);
    for (const float t : boxDistance)
        if (t < distance) return {};
    SphereLanes entered;
    enterSpheres(ray, entered);
    Vec3 share{1, 1, 1};
    for (size_t i = 0; i < maxSpheres; ++i) {
        if (entered[i] >= distance) continue;
        const Sphere &sphere = scene_.spheres[i];
        if (sphere.material.finish != Finish::glass) return {};
        const float cosine = std::abs(dot(ray.direction, ray.origin + ray.direction * entered[i] - sphere.centre)) / sphere.radius;
        const float through = 1 - fresnel(cosine);
        share *= sphere.material.colour * (through * through);
    }
    return share;
}

} // namespace denoise
