#!/bin/sh
# on_driver.sh NAME MANIFESTS PROGRAM ARGS...: runs a test program on one Vulkan driver, named by its loader manifest (a path, a pattern,
# several of them, or "system" for whatever the loader finds). Exit 77, which ctest shows as skipped, where the driver is not installed;
# NAME "any" fails instead: at least one driver must be there.
name=$1 manifests=$2
shift 2
if [ "$manifests" = system ]; then
    exec "$@"
fi
found=
for manifest in $manifests; do
    if [ -f "$manifest" ]; then found=${found:+$found:}$manifest; fi
done
if [ -z "$found" ]; then
    echo "driver $name is not installed: no $manifests"
    if [ "$name" = any ]; then exit 1; fi
    exit 77
fi
export VK_DRIVER_FILES="$found" VK_ICD_FILENAMES="$found"
exec "$@"
