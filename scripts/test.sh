#!/usr/bin/env bash
# Sets up, builds and runs all tests: on every Vulkan driver that is present, under the validation layer, and once more, on one driver, with
# AddressSanitizer and UndefinedBehaviorSanitizer, the CPU's kernels also with ThreadSanitizer and under an emulator of ARM.   --quick leaves
# these out. `vkattn conform` tests the kernels on each driver, those on matrix units on a newer Mesa, fetched for it; its reports are left in
# build/conform/.   --drivers all   runs all the rest there too, and conform on lavapipe with 16 lanes (scripts/drivers_table.sh then writes
# the table of docs/drivers.md).
set -euo pipefail
. "$(dirname "$0")/setup.sh"

usage="usage: $0 [--quick] [--drivers default|all]"
wrong() {
    printf '%s: %s\n%s\n' "$0" "$1" "$usage" >&2
    exit 2
}
quick=
drivers=default
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=1 ;;
    --drivers)
        [ $# -gt 1 ] || wrong "--drivers needs a value: default or all"
        drivers=$2
        shift
        ;;
    --drivers=*) drivers=${1#*=} ;;
    -h | --help)
        echo "$usage"
        exit
        ;;
    *) wrong "unknown argument '$1'" ;;
    esac
    shift
done
case $drivers in
default | all) ;;
*) wrong "--drivers is '$drivers', expected default or all" ;;
esac

# SwiftShader, a second software Vulkan driver, comes inside chromium-common: unpacked beside the build, not installed.
swiftshader() {
    local folder=$PWD/build/drivers
    [ ! -e "$folder/swiftshader.json" ] || return 0
    command -v apt-get >/dev/null || { echo "SwiftShader is skipped: no apt-get"; return 0; }
    rm -rf "$folder/package" && mkdir -p "$folder/package"
    if (cd "$folder/package" && { apt-get -q download chromium-common || { apt-get -q update && apt-get -q download chromium-common; }; }) >setup.log 2>&1; then
        dpkg --fsys-tarfile "$folder"/package/*.deb | tar -x -C "$folder" --strip-components=4 ./usr/lib/chromium/libvk_swiftshader.so &&
            printf '{"file_format_version":"1.0.1","ICD":{"api_version":"1.3.0","library_path":"%s"}}\n' "$folder/libvk_swiftshader.so" >"$folder/swiftshader.json"
    else
        echo "SwiftShader is skipped: its package could not be downloaded (setup.log)"
    fi
    rm -rf "$folder/package"
}

# ctest FOLDER [ARGUMENT...], and then what ctest hides of tests that passed or were skipped: drivers, cases, pipelines and seconds compiling, faults, why a test was skipped.
run_tests() {
    local status=0
    ctest --test-dir "$1" --output-on-failure -j "$(nproc)" "${@:2}" || status=$?
    awk '/ Test: / { name = $NF; skipped = 0 }
         skipped { $0 = "skipped: " $0; skipped = 0 }
         /: Skipped$/ { skipped = 1; next }
         /^(skipped.*|driver .* is not installed|[a-z]+ limits: |[0-9]+ cases|(PASS|FAIL|INCOMPLETE)[ :]|worst error|no Vulkan device|(faults|kills|memory): )/ && !seen[name $0]++ { print "  " name ": " $0 }' "$1/Testing/Temporary/LastTest.log"
    return $status
}

export VKATTN_TEST_SEED=${VKATTN_TEST_SEED:-$((RANDOM * 32768 + RANDOM))}
echo "seed $VKATTN_TEST_SEED (repeat with VKATTN_TEST_SEED=$VKATTN_TEST_SEED $0)"
strict=
[ -z "${CI:-}" ] || strict=-DVKATTN_WERROR=ON

packages $build_packages $test_packages
[ -n "$quick" ] || packages g++-aarch64-linux-gnu qemu-user
newer_glslc
newer_lavapipe
if [ "$drivers" = all ] && [ ! -e build/drivers/mesa/lavapipe.json ]; then
    echo "--drivers all wants it: stopped" >&2
    exit 1
fi
swiftshader
build build all -DVKATTN_BUILD_TESTS=ON $strict
leave_out='^(conform\.lavapipe16|(device|run)\.lavapipe-new)$'
[ "$drivers" = default ] || leave_out='^$'
run_tests build -E "$leave_out${quick:+|^neon$}"

if [ -z "$quick" ]; then
    echo "== again with AddressSanitizer and UndefinedBehaviorSanitizer =="
    build build/sanitize all -DVKATTN_BUILD_TESTS=ON -DVKATTN_SANITIZE=ON -DCMAKE_BUILD_TYPE=RelWithDebInfo -DVKATTN_BUILD_BENCH=OFF \
        "-DVKATTN_DRIVERS_FOLDER=$PWD/build/drivers" $strict
    # What is instrumented is the same on every driver: one will do; of the cases of each set of vector instructions, some. How files survive
    # SIGKILL has nothing to do with it.
    VKATTN_TEST_ONE_CASE_IN=4 run_tests build/sanitize -E '(lavapipe4|lavapipe16|lavapipe-new|swiftshader)$|^cli\.KillTest'

    echo "== the CPU's threads with ThreadSanitizer =="
    build build/thread vkattn-tests-unit -DVKATTN_BUILD_TESTS=ON -DVKATTN_SANITIZE=thread -DCMAKE_BUILD_TYPE=RelWithDebInfo $strict
    # Newer kernels shuffle addresses further than older versions of it can map.
    fixed=
    ! setarch -R true 2>/dev/null || fixed="setarch -R"
    VKATTN_TEST_ONE_CASE_IN=16 VKATTN_TEST_CASES=20 $fixed ./build/thread/bin/vkattn-tests-unit --gtest_brief=1 --gtest_filter='CpuPool*:*CpuKernels*'
fi
