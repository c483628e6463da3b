#!/usr/bin/env bash
# What GPU vendors' compilers make of every kernel, without their GPUs: Mesa's drivers over a device
# that does nothing (mesa-drm-shim), for registers, spills, occupancy and matrix instructions. Never
# for times or results.
#   compile_report.sh [DEVICE...]           prints the report and writes
#                                           bench/results/compile/DEVICE.csv
#   compile_report.sh --check [DEVICE...]   compares with these files: new spills, lost matrix
#                                           instructions and grown registers fail
# DEVICE: navi21 navi31 gfx1201 vega10 nvk-172 turnip-750 (the default), asahi (minutes), and any
# other that Mesa knows, as radv-NAME, nvk-NUMBER (chipset) or turnip-NUMBER.
#   --kernels NAME,...    only these kernels
#   --program FILE        this vkattn-bench, and nothing is built or fetched
#   --drivers FOLDER      where the drivers lie (scripts/newer_debian.sh), build/drivers/mesa by
#                         default
#   --out FOLDER          for the full reports, build/compile-report by default
# Exit status 77: no driver is there.
set -euo pipefail
. "$(dirname "$0")/setup.sh"

wrong() {
    printf '%s: %s\n' "$0" "$1" >&2
    exit 2
}
check= program= drivers=$PWD/build/drivers/mesa kernels=auto devices= out=$PWD/build/compile-report
while [ $# -gt 0 ]; do
    case $1 in
    --check) check=1 ;;
    --kernels | --program | --drivers | --out)
        [ $# -gt 1 ] || wrong "$1 needs a value"
        case $1 in
        --kernels) kernels=$2 ;;
        --program) program=$(realpath "$2") ;;
        --drivers) drivers=$2 ;;
        --out) out=$2 ;;
        esac
        shift
        ;;
    -h | --help)
        sed -n '2,/^set /s/^# \{0,1\}//p' "$0"
        exit
        ;;
    -*) wrong "unknown argument '$1'" ;;
    *) devices="$devices $1" ;;
    esac
    shift
done
devices=${devices:-navi21 navi31 gfx1201 vega10 nvk-172 turnip-750}

if [ -z "$program" ]; then
    packages $build_packages
    newer_glslc
    newer_lavapipe
    build build vkattn-bench
    program=$PWD/build/bin/vkattn-bench
fi

# select_device NAME: which of Mesa's drivers and shims, and what tells the shim which chip to be.
select_device() {
    unset AMDGPU_GPU_ID NOUVEAU_CHIPSET FD_GPU_ID
    case $1 in
    nvk-*) library=libvulkan_nouveau.so shim=nouveau; export NOUVEAU_CHIPSET=${1#nvk-} NVK_I_WANT_A_BROKEN_VULKAN_DRIVER=1 ;;
    turnip-*) library=libvulkan_freedreno.so shim=freedreno; export FD_GPU_ID=${1#turnip-} ;;
    asahi) library=libvulkan_asahi.so shim=asahi ;;
    *) library=libvulkan_radeon.so shim=amdgpu; export AMDGPU_GPU_ID=${1#radv-} ;;
    esac
}

mkdir -p "$out" bench/results/compile
found= status=0
export MESA_SHADER_CACHE_DISABLE=1 # statistics are not cached
for device in $devices; do
    select_device "$device"
    library=$(ls "$drivers"/usr/lib/*/$library 2>/dev/null | head -n 1) || true # absent: pipefail
    if [ -z "$library" ] || [ ! -e "${library%/*}/lib${shim}_noop_drm_shim.so" ] || [ ! -x "$drivers/run" ]; then
        echo "skipped $device: its driver is not in $drivers"
        continue
    fi
    found=1
    report=$out/$device.txt table=bench/results/compile/$device.csv
    printf '{"file_format_version":"1.0.1","ICD":{"api_version":"1.3.0","library_path":"%s"}}\n' "$(realpath "$library")" \
        >"$out/$device.json"
    arguments=(--compile-report --kernel "$kernels")
    if [ -n "$check" ]; then
        if [ ! -e "$table" ]; then
            echo "$device: no $table to compare with; run $0 $device"
            status=1
            continue
        fi
        arguments+=(--check "$table")
    else
        rm -f "$out/$device.csv"
        arguments+=(--csv "$out/$device.csv")
    fi
    result=0
    VK_DRIVER_FILES=$out/$device.json VK_ICD_FILENAMES=$out/$device.json \
        "$drivers/run" --preload "${library%/*}/lib${shim}_noop_drm_shim.so" "$program" "${arguments[@]}" >"$report" 2>&1 </dev/null || result=$?
    [ -n "$check" ] || cat "$report"
    if [ -n "$check" ] || [ "$result" != 0 ]; then
        echo "$device: $(sed -n 's/^device *//p' "$report")"
        grep -E '^([0-9]+ pipelines|refused|FAILED|vkattn-bench:|  note|  WORSE|  [0-9]+ worse)' "$report" | cut -c1-400 || true
    fi
    if [ "$result" != 0 ]; then
        echo "$device: exit status $result; $report has the whole report"
        status=1
    elif [ -z "$check" ] && [ "$kernels" = auto ]; then
        mv "$out/$device.csv" "$table"
    fi
done
[ -n "$found" ] || exit 77
exit $status
