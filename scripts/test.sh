#!/usr/bin/env bash
# Sets up, builds and tests.
#   scripts/test.sh                    what a change needs before it is pushed: minutes
#   scripts/test.sh --all              everything: every driver, whole sweeps, sanitizers, fuzzing,
#                                      all host projects: hours. Every test of the default run is in
#                                      one of the other parts, at its whole extent.
#   scripts/test.sh --all --part NAME  one part of --all alone (may be given again)
#   scripts/test.sh --list-parts       what there is
# A part that fails does not keep the others from running. The end says how long each took, and what
# was left out. Exit status 1 where a part has failed. `vkattn conform` leaves its reports in
# build/conform/ (those of the default run in build/conform/default/).
set -uo pipefail
. "$(dirname "$0")/setup.sh"

usage="usage: $0 [--all [--part NAME]...] [--list-parts]"
wrong() {
    printf '%s: %s\n%s\n' "$0" "$1" "$usage" >&2
    exit 2
}

# Name | what it is.
parts="default        | unit, contract and command-line tests, conform --quick on lavapipe, device tests on SwiftShader, the main host projects
conform        | conform, every check, on lavapipe
drivers        | conform --quick with every kernel on the other drivers, and on lavapipe with 4 and 16 lanes
device         | device, validation and command-line tests on lavapipe
device-drivers | the same on the other drivers; accesses out of range
host           | unit, contract, command-line and fault tests over their whole sweeps
fuzz           | every fuzz target, with clang's sanitizers
embed          | every host project
tools          | the page of heads in a browser, the bench, the compilers of vendors against bench/results/compile, AArch64 under emulation
address        | unit, contract and command-line tests with AddressSanitizer and UndefinedBehaviorSanitizer
address-device | conform, device and command-line tests with the same, on lavapipe
thread         | threads with ThreadSanitizer"
names=$(echo "$parts" | sed 's/ *|.*//')
# --all without a part: each test of `default` is in one of these.
everything=$(echo "$names" | grep -vx default)

all=
chosen=
while [ $# -gt 0 ]; do
    case $1 in
    --all) all=1 ;;
    --part)
        [ $# -gt 1 ] || wrong "--part needs a value; --list-parts prints what there is"
        echo "$names" | grep -qxF -- "$2" || wrong "there is no part '$2'; --list-parts prints what there is"
        chosen="$chosen $2"
        shift
        ;;
    --list-parts)
        echo "$parts"
        exit
        ;;
    -h | --help)
        echo "$usage"
        exit
        ;;
    *) wrong "unknown argument '$1'" ;;
    esac
    shift
done
[ -z "$chosen" ] || [ -n "$all" ] || wrong "--part names a part of --all"
if [ -z "$chosen" ]; then
    chosen=default
    [ -z "$all" ] || chosen=$everything
fi

# SwiftShader, a second software Vulkan driver, comes inside chromium-common: unpacked beside the
# build, not installed.
swiftshader() {
    local folder=$PWD/build/drivers
    [ ! -e "$folder/swiftshader.json" ] || return 0
    command -v apt-get >/dev/null || { echo "SwiftShader is skipped: no apt-get"; return 0; }
    rm -rf "$folder/package" && mkdir -p "$folder/package"
    if (cd "$folder/package" && { apt-get -q download chromium-common || { apt-get -q update && apt-get -q download chromium-common; }; }) >"$setup_log" 2>&1; then
        dpkg --fsys-tarfile "$folder"/package/*.deb | tar -x -C "$folder" --strip-components=4 ./usr/lib/chromium/libvk_swiftshader.so &&
            printf '{"file_format_version":"1.0.1","ICD":{"api_version":"1.3.0","library_path":"%s"}}\n' "$folder/libvk_swiftshader.so" >"$folder/swiftshader.json"
    else
        echo "SwiftShader is skipped: its package could not be downloaded ($setup_log)"
    fi
    rm -rf "$folder/package"
}

# run_tests FOLDER [ARGUMENT...]: ctest, and then what ctest hides of tests that passed or were
# skipped: drivers, cases, pipelines and seconds compiling, faults, why a test was skipped. One test
# more than there are cores: some of them wait for a hang.
run_tests() {
    local status=0
    if [ -n "$fetching" ]; then
        wait "$fetching"
        cat build/drivers/fetch.log
        fetching=
    fi
    ctest --test-dir "$1" --output-on-failure -j "$(($(nproc) + 1))" --no-tests=error "${@:2}" || status=$?
    awk '/ Test: / { name = $NF; skipped = 0 }
         skipped { $0 = "skipped: " $0; skipped = 0 }
         /: Skipped$/ { skipped = 1; next }
         /^(skipped.*|driver .* is not installed|[a-z]+ limits: |[0-9]+ cases|(PASS|FAIL|INCOMPLETE)[ :]|worst error|no Vulkan device|(faults|kills|memory): )/ && !seen[name $0]++ { print "  " name ": " $0 }' "$1/Testing/Temporary/LastTest.log"
    return $status
}

export VKATTN_TEST_SEED=${VKATTN_TEST_SEED:-$((RANDOM * 32768 + RANDOM))}

# The tests of build/, without the bench and the programs that fuzzing needs.
test_targets="vkattn-tests vkattn-tests-device vkattn-tests-threads vkattn-embed-rhi vkattn_sample_denoise vkattn_sample_embed vkattn_sample_neighbourhood vkattn_sample_programs vkattn_sample_serve vkattn_sample_story vkattn_sample_train"

# The host projects are of the default run where what they look at has changed.
changed_packaging() {
    git rev-parse -q --verify origin/main >/dev/null 2>&1 || { left_out="$left_out, the other host projects (there is no origin/main to compare with)"; return 1; }
    git diff --quiet origin/main -- cmake packaging tests/embed include || return 0
    left_out="$left_out, the other host projects (cmake, packaging, tests/embed and include are those of origin/main)"
    return 1
}

build_tests() {
    build build "$test_targets" -DVKATTN_BUILD_TESTS=ON
}
left_out=
part_default() {
    build_tests || return 1
    local status=0
    run_tests build -LE '^nightly$' || status=$?
    if changed_packaging; then
        echo "-- packaging differs from origin/main: the other host projects too --"
        run_tests build -L '^embed$' || status=$?
    fi
    return $status
}
part_conform() { build_tests && run_tests build -L '^part\.conform$'; }
part_drivers() { build_tests && run_tests build -L '^part\.drivers$'; }
part_device() { build_tests && run_tests build -L '^(device|validation|run)$' -R 'lavapipe$'; }
# Compilers of these drivers take seconds for each drawn case, and what is drawn checks the host's side
# more than drivers: other cases in each run rather than many in one.
part_device-drivers() { build_tests && VKATTN_TEST_DRAW_SECONDS=6 run_tests build -L '^(device|validation|run)$' -E 'lavapipe$'; }
# KillTest moves with what else the machine does: with the others of its program.
part_host() { build_tests && run_tests build -LE '^(nightly|device|validation|run|conform|embed)$'; }
part_fuzz() {
    packages clang libclang-rt-dev || return 1
    build build "$test_targets vkattn_fuzz" -DVKATTN_BUILD_TESTS=ON && run_tests build -L '^fuzz$'
}
part_embed() {
    packages clang || return 1
    build_tests && run_tests build -L '^embed$'
}
part_tools() {
    packages g++-aarch64-linux-gnu qemu-user googletest chromium-headless-shell python3 || return 1
    build build "$test_targets vkattn-bench vkattn-bench-test" -DVKATTN_BUILD_TESTS=ON && run_tests build -L '^part\.tools$'
}
# What is instrumented is the same on every driver: one will do, Debian's lavapipe, whose compiler asks
# for memory seldom; of the sweeps a part. How files survive SIGKILL has nothing to do with it.
# -O1 -g1: with -O2 -g the compiler takes nearly twice as long.
# GCC warns of instrumented code what it warns of no other; the other builds have warnings as errors. One
# of these was right: GCC 12 computes keepBits (src/cpu/operations/rows-inl.hpp) wrongly there.
not_strict=-DVKATTN_WERROR=OFF
instrumented() {
    build "$1" "$2" -DVKATTN_BUILD_TESTS=ON "-DVKATTN_SANITIZE=$3" -DCMAKE_BUILD_TYPE=RelWithDebInfo "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1 -DNDEBUG" \
        -DVKATTN_BUILD_BENCH=OFF $not_strict "${@:4}"
}
sanitized() {
    instrumented build/sanitize "$1" ON -DVKATTN_GROUP_SOURCES=OFF "-DVKATTN_DRIVERS_FOLDER=$PWD/build/drivers"
}
part_address() {
    sanitized "vkattn-tests vkattn-tests-threads vkattn-embed-rhi vkattn_sample_denoise vkattn_sample_embed vkattn_sample_neighbourhood vkattn_sample_programs vkattn_sample_serve vkattn_sample_story vkattn_sample_train" &&
        VKATTN_TEST_EXTENT=default run_tests build/sanitize -LE '^(nightly|device|validation|run|conform|faults)$' -E '^KillTest|^driver\.any$'
}
part_address-device() {
    sanitized "vkattn-tests vkattn-tests-device vkattn_sample_story" &&
        VKATTN_TEST_EXTENT=default run_tests build/sanitize -L '^(device|validation|run|conform|faults)$' -R '\.lavapipe$'
}
part_thread() {
    instrumented build/thread "vkattn-tests vkattn-tests-threads" thread -DVKATTN_BUILD_SAMPLES=OFF || return 1
    # Newer kernels shuffle addresses further than older versions of the sanitizer can map.
    local fixed= status=0
    ! setarch -R true 2>/dev/null || fixed="setarch -R"
    $fixed ./build/thread/bin/vkattn-tests-threads || status=$?
    VKATTN_TEST_ONE_CASE_IN=16 VKATTN_TEST_CASES=20 $fixed ./build/thread/bin/vkattn-tests --gtest_brief=1 --gtest_filter='CpuPool*:*CpuKernels*' || status=$?
    return $status
}

echo "seed $VKATTN_TEST_SEED (repeat with VKATTN_TEST_SEED=$VKATTN_TEST_SEED)"
seconds() {
    date +%s
}
began=$(seconds)
table=
passed=0
failed=0
# note NAME STATUS SECONDS
note() {
    local result=passed
    [ "$2" = 0 ] || result=FAILED
    table="$table$(printf '%-16s %-7s %5s s' "$1" "$result" "$3")"$'\n'
}
packages $build_packages $test_packages
status=$?
newer_glslc
# Drivers while the compiler works: run_tests waits for them.
mkdir -p build/drivers
{
    setup_log=setup_drivers.log
    newer_lavapipe
    swiftshader
} >build/drivers/fetch.log 2>&1 &
fetching=$!
note "(packages)" $status $(($(seconds) - began))
for name in $chosen; do
    echo "== $name: $(echo "$parts" | sed -n "s/^$name *| //p") =="
    start=$(seconds)
    extent=full
    [ "$name" != default ] || extent=default
    status=0
    VKATTN_TEST_EXTENT=$extent part_"$name" </dev/null || status=$?
    note "$name" $status $(($(seconds) - start))
    if [ $status = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done

echo
echo "$table"
if [ "$chosen" = default ]; then
    echo "left out: whole sweeps, lavapipe beyond conform and faults, SwiftShader beyond device tests, the newer Mesa beyond conform of matrix units, sanitizers, fuzzing beyond the seeds, the bench, vendors' compilers, AArch64$left_out"
    echo "all of it: scripts/test.sh --all; a part of it: --all --part NAME, of" $names
else
    for name in $everything; do
        case " $(echo $chosen) " in *" $name "*) ;; *) echo "left out: $name" ;; esac
    done
fi
echo "parts: $passed passed, $failed failed, in $(($(seconds) - began)) s"
[ $failed = 0 ]
