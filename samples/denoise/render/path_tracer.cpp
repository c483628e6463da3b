#include "render/path_tracer.hpp"

#include "render/camera.hpp"
#include "render/patterns.hpp"
#include "render/sampler.hpp"

#include <atomic>
#include <thread>

namespace denoise {
namespace {

constexpr int maxMirrors = 8; // specular events in a row
// The most matte surfaces along a path. All further ones would add 1.2% of the light of the studio.
constexpr int maxBounces = 6;
constexpr float surfaceOffset = 1e-3f;

struct Surface { // one sample of a layer
    bool met = false;
    Vec3 reflectance, direct, indirect, normal;
    float depth = 0;
};

struct Sample {
    Vec3 emission;
    Surface base, gloss;
};

Vec3 cosineDirection(Vec3 normal, Vec2 u) {
    // The direction is a uniform point on a sphere that touches the surface: it is
    // cosine-distributed, and needs no tangent frame.
    const float z = 1 - 2 * u.x, r = std::sqrt(std::max(0.0f, 1 - z * z)), phi = 2 * pi * u.y;
    const Vec3 sum = normal + Vec3{r * std::cos(phi), r * std::sin(phi), z};
    const float squared = dot(sum, sum);
    return squared > 1e-8f ? sum * (1 / std::sqrt(squared)) : normal;
}

class Tracer {
  public:
    Tracer(const Scene &scene, const RenderSettings &settings)
        : scene_(scene), world_(scene), camera_(scene, settings.width, settings.height) {}

    // Traces view ray number `index` of a pixel and, where `lit`, the light at the surface that the
    // ray meets.
    [[nodiscard]] Sample sample(int x, int y, const RenderSettings &settings, int index, bool lit) const {
        const auto pixel = static_cast<uint32_t>(y * settings.width + x), number = static_cast<uint32_t>(index);
        const Vec2 jitter = Sampler(settings.seed, pixel, number).next2d();
        const Ray ray = camera_.ray(x, y, jitter);

        Sample result;
        Reflection split;
        const Vec3 all{1, 1, 1};
        const uint32_t lightNumber = number / static_cast<uint32_t>(settings.viewRays);
        Sampler random(settings.seed ^ 0x68bc21ebu, pixel, lightNumber), glossRandom(settings.seed ^ 0x5bd1e995u, pixel, lightNumber);
        result.base = follow(ray, all, 0, lit ? &random : nullptr, result.emission, &split);
        if (split.share > 0)
            result.gloss = follow(split.ray, all * split.share, split.distance, lit ? &glossRandom : nullptr, result.emission, nullptr);
        return result;
    }

  private:
    // The part that glass or varnish at the first hit reflects, to be followed too.
    struct Reflection {
        Ray ray;
        float share = 0, distance = 0;
    };

    // Follows mirrors and glass to the first matte surface. At glass and varnish the reflection is
    // handed to `split` rather than chosen by chance, since that choice would be the largest noise
    // in the picture; further along the way it is left out.
    [[nodiscard]] Surface follow(Ray ray, Vec3 share, float travelled, Sampler *random, Vec3 &emission, Reflection *split) const {
        for (int event = 0; event < maxMirrors; ++event) {
            Hit hit;
            if (!world_.intersect(ray, hit)) {
                emission += share * environment(ray.direction);
                return {};
            }
            travelled += hit.distance;
            const Finish finish = hit.material->finish;
            if (finish == Finish::emitter) {
                emission += share * hit.material->colour;
                return {};
            }
            const float cosine = std::abs(dot(ray.direction, hit.normal));
            if (finish == Finish::glass || finish == Finish::polished) {
                const bool entering = finish == Finish::polished || dot(ray.direction, hit.normal) < 0;
                const float reflected = fresnel(cosine);
                if (split != nullptr && entering && split->share == 0) {
                    split->share = reflected;
                    split->distance = travelled;
                    split->ray = {hit.position + hit.normal * surfaceOffset, reflect(ray.direction, hit.normal)};
                }
                if (entering) share *= Vec3{1, 1, 1} * (1 - reflected);
            }
            if (finish == Finish::mirror) {
                share *= hit.material->colour;
                ray = {hit.position + hit.normal * surfaceOffset, reflect(ray.direction, hit.normal)};
            } else if (finish == Finish::glass) {
                ray = refractRay(ray, hit, share);
            } else {
                Surface surface;
                surface.met = true;
                surface.reflectance = share * albedo(hit);
                surface.depth = travelled;
                surface.normal = hit.normal;
                if (random == nullptr) return surface;
                const Vec3 origin = hit.position + hit.normal * surfaceOffset;
                surface.direct = lampLight(origin, hit.normal, *random);
                surface.indirect = gather({origin, cosineDirection(hit.normal, random->next2d())}, *random);
                return surface;
            }
        }
        return {};
    }

    [[nodiscard]] static Ray refractRay(const Ray &ray, const Hit &hit, Vec3 &share) {
        const float facing = dot(ray.direction, hit.normal);
        const bool entering = facing < 0;
        const float ratio = entering ? 1 / 1.5f : 1.5f;
        const Vec3 normal = entering ? hit.normal : -hit.normal;
        const float cosine = std::abs(facing), squared = 1 - ratio * ratio * (1 - cosine * cosine);
        if (entering) share *= hit.material->colour;
        if (squared <= 0) return {hit.position + normal * surfaceOffset, reflect(ray.direction, normal)};
        const Vec3 direction = ray.direction * ratio + normal * (ratio * cosine - std::sqrt(squared));
        return {hit.position - normal * surfaceOffset, normalize(direction)};
    }

    // Returns the light that the lamp sends to a matte surface of albedo 1, over pi, by one shadow
    // ray to a uniform point of the lamp.
    [[nodiscard]] Vec3 lampLight(Vec3 origin, Vec3 normal, Sampler &random) const {
        const Vec2 u = random.next2d();
        const Lamp &lamp = scene_.lamp;
        const Vec3 point = lamp.centre + Vec3{(2 * u.x - 1) * lamp.halfWidth, 0, (2 * u.y - 1) * lamp.halfDepth};
        const Vec3 path = point - origin;
        const float squared = dot(path, path), facing = dot(path, normal);
        if (facing <= 0 || path.y <= 0) return {};
        const float geometry = facing * path.y / (squared * squared) * lamp.area() / pi;
        return lamp.material.colour * world_.transmittance(origin, point) * geometry;
    }

    // Returns the light that arrives along a ray that left a matte surface, without the lamp
    // itself, which lampLight has counted.
    [[nodiscard]] Vec3 gather(Ray ray, Sampler &random) const {
        Vec3 light, share{1, 1, 1};
        int mirrors = 0;
        for (int bounce = 1; bounce < maxBounces;) {
            Hit hit;
            if (!world_.intersect(ray, hit)) return light + share * environment(ray.direction);
            const Finish finish = hit.material->finish;
            if (finish == Finish::emitter) return light;
            if (finish == Finish::mirror || finish == Finish::glass) {
                if (++mirrors > maxMirrors) return light;
                const bool reflected = finish == Finish::mirror || (dot(ray.direction, hit.normal) < 0 &&
                                                                    random.next1d() < fresnel(std::abs(dot(ray.direction, hit.normal))));
                if (!reflected) {
                    ray = refractRay(ray, hit, share);
                    continue;
                }
                if (finish == Finish::mirror) share *= hit.material->colour;
                ray = {hit.position + hit.normal * surfaceOffset, reflect(ray.direction, hit.normal)};
                continue;
            }
            const Vec3 origin = hit.position + hit.normal * surfaceOffset;
            share *= albedo(hit);
            light += share * lampLight(origin, hit.normal, random);
            if (++bounce > 3) { // Russian roulette: survivors carry the light of those that stop
                const float survive = std::min(0.95f, maxComponent(share));
                if (random.next1d() >= survive) return light;
                share = share * (1 / survive);
            }
            ray = {origin, cosineDirection(hit.normal, random.next2d())};
        }
        return light;
    }

    [[nodiscard]] Vec3 environment(Vec3 direction) const {
        return mix(scene_.environmentBelow, scene_.environmentAbove, 0.5f + 0.5f * direction.y);
    }

    const Scene &scene_;
    Intersector world_;
    Camera camera_;
};

// Sums the samples of one pixel and one layer.
class LayerPixel {
  public:
    void add(const Surface &s, bool lit) {
        if (!s.met) return;
        ++met_;
        reflectance_ += s.reflectance;
        depth_ += s.depth, depthSquares_ += s.depth * s.depth;
        normal_ += s.normal;
        if (!lit) return;
        ++lit_;
        litReflectance_ += s.reflectance;
        direct_ += s.reflectance * s.direct;
        indirect_ += s.reflectance * s.indirect;
        const float d = luminance(s.direct), i = luminance(s.indirect);
        directSum_ += d, directSquares_ += d * d;
        indirectSum_ += i, indirectSquares_ += i * i;
    }

    // Returns the light that the layer adds to the pixel.
    Vec3 store(Layer &layer, int x, int y, const RenderSettings &settings) const {
        if (met_ == 0) return {};
        const auto met = static_cast<float>(met_), samples = static_cast<float>(settings.samples);
        const float coverage = met / (samples * static_cast<float>(settings.viewRays));
        const Vec3 reflectance = reflectance_ * (coverage / met), direct = perReflectance(direct_), indirect = perReflectance(indirect_);
        layer.reflectance.setRgb(x, y, reflectance);
        layer.normal.setRgb(x, y, normal_ * (1 / met));
        layer.depth.at(x, y)[0] = depth_ / met;
        layer.depth.at(x, y)[1] = std::max(0.0f, depthSquares_ / met - depth_ * depth_ / (met * met));
        *layer.coverage.at(x, y) = coverage;
        layer.direct.setRgb(x, y, direct);
        layer.indirect.setRgb(x, y, indirect);
        *layer.lit.at(x, y) = static_cast<float>(lit_) / samples;
        layer.noise.at(x, y)[0] = varianceOfMean(directSum_, directSquares_);
        layer.noise.at(x, y)[1] = varianceOfMean(indirectSum_, indirectSquares_);
        return reflectance * (direct + indirect);
    }

  private:
    [[nodiscard]] Vec3 perReflectance(Vec3 a) const {
        const Vec3 r = litReflectance_;
        return {a.x / std::max(r.x, 1e-6f), a.y / std::max(r.y, 1e-6f), a.z / std::max(r.z, 1e-6f)};
    }
    [[nodiscard]] float varianceOfMean(float sum, float squares) const {
        const auto n = static_cast<float>(lit_);
        if (lit_ < 2) return sum * sum; // unknown: as large as the signal
        return std::max(0.0f, squares - sum * sum / n) / (n * (n - 1));
    }

    int met_ = 0, lit_ = 0;
    Vec3 reflectance_, litReflectance_, direct_, indirect_, normal_;
    float depth_ = 0, depthSquares_ = 0, directSum_ = 0, directSquares_ = 0, indirectSum_ = 0, indirectSquares_ = 0;
};

void renderPixel(const Tracer &tracer, const RenderSettings &settings, int x, int y, Frame &frame) {
    Vec3 emission;
    LayerPixel base, gloss;
    const int rays = settings.samples * settings.viewRays;
    for (int index = 0; index < rays; ++index) {
        const bool lit = index % settings.viewRays == 0;
        const Sample s = tracer.sample(x, y, settings, index, lit);
        emission += s.emission;
        base.add(s.base, lit), gloss.add(s.gloss, lit);
    }
    emission = emission * (1 / static_cast<float>(rays));
    frame.emission.setRgb(x, y, emission);
    frame.colour.setRgb(x, y, emission + base.store(frame.base, x, y, settings) + gloss.store(frame.gloss, x, y, settings));
}

} // namespace

Layer::Layer(int width, int height)
    : reflectance(width, height, 3), direct(width, height, 3), indirect(width, height, 3), noise(width, height, 2), depth(width, height, 2),
      normal(width, height, 3), coverage(width, height, 1), lit(width, height, 1) {}

Frame render(const Scene &scene, const RenderSettings &settings) {
    Frame frame;
    frame.colour = frame.emission = Image(settings.width, settings.height, 3);
    frame.base = frame.gloss = Layer(settings.width, settings.height);
    const Tracer tracer(scene, settings);
    std::atomic<int> nextRow{0};
    const auto work = [&] {
        for (int y = nextRow++; y < settings.height; y = nextRow++) {
            for (int x = 0; x < settings.width; ++x) renderPixel(tracer, settings, x, y, frame);
            if (settings.rowDone) settings.rowDone();
        }
    };
    std::vector<std::thread> helpers;
    for (unsigned i = 1; i < settings.threads; ++i) helpers.emplace_back(work);
    work();
    for (std::thread &helper : helpers) helper.join();
    return frame;
}

} // namespace denoise
