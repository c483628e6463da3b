// The temporal figure: what the camera's motion explains, and what it does not.
#include "metrics/flicker.hpp"

#include "render/camera.hpp"
#include "sequence/camera_move.hpp"
#include "support/seed.hpp"

#include <gtest/gtest.h>

namespace denoise {
namespace {

using vkattn::test::between;

constexpr int width = 96, height = 60;

Picture evenPicture(uint8_t value) {
    Picture picture(width, height);
    std::fill(picture.rgb.begin(), picture.rgb.end(), value);
    return picture;
}

// A picture of colours that belong to places in the room, whoever looks at them.
Picture painted(const Scene &scene) {
    const Camera camera(scene, width, height);
    const Intersector world(scene);
    Picture picture(width, height);
    for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width; ++x) {
            Hit hit;
            if (!world.intersect(camera.ray(x, y, {0.5f, 0.5f}), hit)) continue;
            uint8_t *rgb = picture.rgb.data() + 3 * (static_cast<size_t>(y) * width + static_cast<size_t>(x));
            rgb[0] = static_cast<uint8_t>(127 + 120 * std::sin(2 * hit.position.x));
            rgb[1] = static_cast<uint8_t>(127 + 120 * std::sin(2 * hit.position.y));
            rgb[2] = static_cast<uint8_t>(127 + 120 * std::sin(hit.position.z));
        }
    }
    return picture;
}

TEST(Flicker, ofACameraThatStandsStillIsTheDifferenceOfFrames) {
    const Scene scene = studioScene();
    const Image motion = motionBetween(scene, scene, width, height);
    size_t known = 0;
    for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width; ++x) {
            const float *from = motion.at(x, y);
            if (from[0] < 0) continue;
            ++known;
            EXPECT_NEAR(from[0], static_cast<float>(x) + 0.5f, 1e-3f);
            EXPECT_NEAR(from[1], static_cast<float>(y) + 0.5f, 1e-3f);
        }
    }
    EXPECT_GT(known, motion.data.size() / 4);        // more than half of the pixels show matte surfaces
    EXPECT_LT(known, motion.data.size() * 49 / 100); // mirror, glass and lamp do not
    EXPECT_NEAR(flicker(evenPicture(90), evenPicture(97), motion), 7, 1e-9);
    EXPECT_NEAR(flicker(evenPicture(97), evenPicture(90), motion), 7, 1e-9);
    EXPECT_EQ(flicker(painted(scene), painted(scene), Image(motion)) < 0.3, true);
}

TEST(Flicker, leavesOutWhatTheMotionExplains) {
    vkattn::test::Random random = vkattn::test::randomFor("denoise.flicker");
    const int frame = static_cast<int>(between(random, 1, framesOfMove - 1));
    const Scene before = sceneAt(studioScene(), frame - 1), now = sceneAt(studioScene(), frame + 2);
    const Picture first = painted(before), second = painted(now);
    const double explained = flicker(first, second, motionBetween(before, now, width, height));
    const double unexplained = flicker(first, second, motionBetween(now, now, width, height));
    // Bilinear samples of smooth colours are off by about a level; edges in view add a little.
    EXPECT_LT(explained, 1.5) << "frame " << frame;
    EXPECT_GT(unexplained, 1.5 * explained) << "frame " << frame;
}

TEST(Flicker, ofNoPixelIsNone) {
    Image unknown(width, height, 2);
    std::fill(unknown.data.begin(), unknown.data.end(), -1.0f);
    EXPECT_EQ(flicker(evenPicture(0), evenPicture(255), unknown), 0);
}

TEST(CameraMove, endsWhereItBegan) {
    const Scene scene = studioScene();
    EXPECT_EQ(sceneAt(scene, 0).cameraPosition.x, scene.cameraPosition.x);
    EXPECT_EQ(sceneAt(scene, framesOfMove).cameraPosition.x, scene.cameraPosition.x);
    EXPECT_NE(sceneAt(scene, framesOfMove / 4).cameraPosition.x, scene.cameraPosition.x);
    for (int frame = 0; frame < framesOfMove; ++frame) // the room's open side is behind the camera
        EXPECT_LT(sceneAt(scene, frame).cameraPosition.z, scene.roomMax.z);
}

} // namespace
} // namespace denoise
