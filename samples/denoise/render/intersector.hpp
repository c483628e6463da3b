// Finds where a ray meets the scene. There are analytic shapes only, tested four at a time, so that
// a sample takes under a microsecond and a converged reference a few seconds.
#pragma once

#include "render/scene.hpp"

#include <array>

namespace denoise {

struct Ray {
    Vec3 origin, direction; // direction has length 1
};

struct Hit {
    float distance = 0;
    // The normal points out of the shape, so it faces along a ray that leaves a glass sphere.
    Vec3 position, normal;
    const Material *material = nullptr;
    Vec3 boxPosition, boxHalfSize; // on a box: the position in its own axes
};

// Returns the reflectance of an interface between air and glass or varnish (index 1.5), by
// Schlick's approximation (1994).
[[nodiscard]] float fresnel(float cosine);

class Intersector {
  public:
    explicit Intersector(const Scene &scene); // keeps a reference

    // Returns false where the ray leaves the room.
    [[nodiscard]] bool intersect(const Ray &ray, Hit &hit) const;

    // Returns the share of light that travels between two points in the room: 0 behind anything
    // opaque. Glass counts as transparent, with the Fresnel loss of a straight path. True caustics
    // are the one thing that a hundred samples a pixel cannot converge.
    [[nodiscard]] Vec3 transmittance(Vec3 from, Vec3 to) const;

  private:
    using SphereLanes = std::array<float, maxSpheres>;
    using BoxLanes = std::array<float, maxBoxes>;
    void enterSpheres(const Ray &ray, SphereLanes &distance) const;
    void enterBoxes(const Ray &ray, BoxLanes &distance) const;
    void describeBox(const Box &box, size_t lane, const Ray &ray, Hit &hit) const;

    const Scene &scene_;
    struct {
        SphereLanes x{}, y{}, z{}, radiusSquared{};
    } spheres_;
    struct {
        BoxLanes x{}, y{}, z{}, halfX{}, halfY{}, halfZ{}, cosYaw{}, sinYaw{};
    } boxes_;
};

} // namespace denoise
