#!/usr/bin/env bash
# Sets up, builds and runs the main job: renders a small scene and cleans it with attention.
# Pictures go to build/denoise/. Only what it runs is built.
set -euo pipefail
. "$(dirname "$0")/setup.sh"

packages $build_packages || true # it has said what is missing; CMake says what for
newer_glslc
tests=-DVKATTN_BUILD_TESTS=OFF
[ ! -e build/CMakeCache.txt ] || tests= # test.sh was here: keep its choice
build build vkattn_sample_denoise $tests
./build/bin/denoise --out build/denoise "$@"
