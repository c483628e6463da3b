#!/bin/sh
# on_driver.sh NAME MANIFESTS PROGRAM ARGS...: runs a test program on one Vulkan driver, named by
# its loader manifest (a path, a pattern, several of them, or "system" for whatever the loader
# finds). Exit 77, which ctest shows as skipped, where the driver is not installed; NAME "any" fails
# instead: at least one driver must be there. NAME "first" takes only the first that is there.
# Where a script `run` lies beside the manifest, it starts the program: the driver needs other
# libraries than this system's (scripts/newer_debian.sh).
# VKATTN_TEST_LAYERS names such a script for a driver that needs none, for the newer layers beside
# it; skipped without it.
name=$1 manifests=$2
shift 2
if [ "$manifests" = system ]; then
    exec "$@"
fi
found=
runner=
for manifest in $manifests; do
    if [ -f "$manifest" ] && { [ "$name" != first ] || [ -z "$found" ]; }; then
        found=${found:+$found:}$manifest
        if [ -x "${manifest%/*}/run" ]; then runner=${manifest%/*}/run; fi
    fi
done
if [ -z "$found" ]; then
    echo "driver $name is not installed: no $manifests"
    if [ "$name" = any ]; then exit 1; fi
    exit 77
fi
if [ -n "${VKATTN_TEST_LAYERS:-}" ]; then
    runner=$VKATTN_TEST_LAYERS
    if [ ! -x "$runner" ]; then
        echo "driver $name is not tested: no newer layers, $runner"
        exit 77
    fi
fi
export VK_DRIVER_FILES="$found" VK_ICD_FILENAMES="$found"
if [ -n "$runner" ]; then
    export VKATTN_TEST_RUNNER="$runner" # for programs that the test starts
    exec "$runner" "$@"
fi
exec "$@"
