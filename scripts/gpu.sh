#!/usr/bin/env bash
# Tests and times the kernels on a machine with a GPU, beside PyTorch on the same GPU. Stages go on
# where an earlier run has stopped.
#   gpu.sh pack FOLDER   on the machine that builds: programs, the libraries they need and these
#                        scripts, for a machine without compilers
#   gpu.sh build         builds here (not from such a folder)
#   gpu.sh check         devices, ceilings, what the compiler makes of the kernels, device tests
#   gpu.sh time          the kernels; the rows that are wanted most come first
#   gpu.sh peers         PyTorch's scaled_dot_product_attention: flash, cuDNN, efficient
#                        (gpu_peers.py)
#   gpu.sh table         both side by side
#   gpu.sh all           build to table
# Options, after the stage:
#   --out FOLDER      results; default $OUT, else build/gpu (from a packed folder: out)
#   --limit SECONDS   start nothing new after so long, and end with exit status 75: call again;
#                     default 540
#   --only PATTERN    shapes whose names match (extended regular expression)
#   --kernels NAME,.. these kernels; default all that suit
#   --jobs N          checks beside each other; default half of the processors, at most 12. Times
#                     are measured alone
#   --run COMMAND     starts programs through this, as build/drivers/mesa/run
#   --small           small shapes and few tests, on any device: tries the script itself
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
packed=
[ ! -e "$here/bin/vkattn-bench" ] || packed=1

wrong() {
    printf '%s: %s\n' "$0" "$1" >&2
    exit 2
}
stage=${1:-}
[ $# -eq 0 ] || shift
case $stage in
pack) [ $# -gt 0 ] || wrong "pack needs a folder"; mkdir -p "$1"; pack_folder=$(cd "$1" && pwd); shift ;;
build | check | time | peers | table | all) ;;
-h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit ;;
*) wrong "expected pack FOLDER, build, check, time, peers, table or all (--help)" ;;
esac
machine_libraries=${LD_LIBRARY_PATH-} out=${OUT:-} limit=540 only=. kernels= run= small= jobs=
while [ $# -gt 0 ]; do
    case $1 in
    --small) small=1 ;;
    --out | --limit | --only | --kernels | --jobs | --run)
        [ $# -gt 1 ] || wrong "$1 needs a value"
        case $1 in
        --out) out=$2 ;;
        --limit) limit=$2 ;;
        --only) only=$2 ;;
        --kernels) kernels=$2 ;;
        --jobs) jobs=$2 ;;
        --run) run=$2 ;;
        esac
        shift
        ;;
    *) wrong "unknown argument '$1'" ;;
    esac
    shift
done
[[ $limit =~ ^[0-9]+$ ]] || wrong "--limit takes whole seconds, not '$limit'"
if [ -z "$jobs" ]; then
    jobs=$(($(nproc) / 2))
    [ $jobs -ge 1 ] || jobs=1
    [ $jobs -le 12 ] || jobs=12
fi
[[ $jobs =~ ^[1-9][0-9]*$ ]] || wrong "--jobs takes a number from 1, not '$jobs'"
if [ -n "$packed" ]; then
    bin=$here/bin python=$here/gpu_peers.py out=${out:-$here/out}
else
    bin=$here/../build/bin python=$here/gpu_peers.py out=${out:-$here/../build/gpu}
fi
mkdir -p "$out"
out=$(cd "$out" && pwd)

# NAME BATCH HEADS KV QUERIES KEYS DIM TYPE [causal], most wanted first. Prefill: batch * tokens is
# 16384, as papers measure.
shapes() {
    if [ -n "$small" ]; then
        echo "prefill-128-d128-f16 1 4 4 128 128 128 f16"
        echo "decode-gqa8-q1-512-b2 2 8 1 1 512 128 f16"
        echo "prefill-128-d64-f16-causal 1 4 4 128 128 64 f16 causal"
        echo "prefill-128-d128-bf16 1 4 4 128 128 128 bf16"
        echo "prefill-gqa4-128-d128-f16-causal 1 8 2 128 128 128 f16 causal"
        echo "decode-gqa8-q4-512-b1 1 8 1 4 512 128 f16"
        return
    fi
    local dim tokens batch causal type rows keys
    prefill() { # DIM TOKENS TYPE [causal]
        batch=$((16384 / $2))
        echo "prefill-$(($2 / 1024))k-d$1-$3${4:+-causal} $((batch ? batch : 1)) 16 16 $2 $2 $1 $3 ${4:-}"
    }
    # QUERIES KEYS BATCH
    decode() { echo "decode-gqa8-q$1-$(($2 / 1024))k-b$3 $3 32 4 $1 $2 128 ${4:-f16}"; }
    {
        prefill 128 8192 f16
        decode 1 32768 8
        prefill 128 8192 f16 causal
        prefill 64 8192 f16
        prefill 256 8192 f16
        prefill 128 8192 bf16
        decode 1 8192 1
        decode 16 32768 8
        for tokens in 4096 16384 2048 1024 32768; do
            for causal in "" causal; do prefill 128 $tokens f16 $causal; done
        done
        for rows in 1 4 16 64; do
            for keys in 8192 32768 1024; do
                for batch in 8 1; do decode $rows $keys $batch; done
            done
        done
        for tokens in 8192 4096 16384 2048; do
            echo "prefill-gqa4-$((tokens / 1024))k-d128-f16-causal $((16384 / tokens)) 32 8 $tokens $tokens 128 f16 causal"
        done
        for dim in 64 256; do
            for tokens in 4096 8192 16384 2048 1024 32768; do
                for causal in "" causal; do prefill $dim $tokens f16 $causal; done
            done
        done
        for dim in 128 64 256; do
            for tokens in 8192 4096 16384 2048 1024 32768; do
                for causal in "" causal; do prefill $dim $tokens bf16 $causal; done
            done
        done
        for rows in 1 4 16 64; do
            for batch in 1 8; do decode $rows 131072 $batch; done
        done
    } | awk '!seen[$1]++'
}

programs() {
    [ -z "$packed" ] || return 0
    . "$here/setup.sh"
    packages $build_packages libgtest-dev
    newer_glslc
    build build "vkattn-bench vkattn-tests-device vkattn_tool" -DVKATTN_BUILD_TESTS=ON
}

system_libraries() { PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null || true; }

# Programs, and of the system's libraries those that a bare machine may lack: used only there.
# NVIDIA's driver asks for the X libraries.
pack() {
    local program library
    programs
    mkdir -p "$1/bin" "$1/lib"
    for program in vkattn vkattn-bench vkattn-tests-device; do
        cp "$bin/$program" "$1/bin/"
        strip "$1/bin/$program" 2>/dev/null || true
    done
    for library in $(for program in "$1"/bin/*; do ldd "$program"; done | awk '/=> \// { print $3 }' | sort -u) \
        $(system_libraries | awk '$1 ~ /^lib(vulkan|X11|Xext|xcb|Xau|Xdmcp|bsd|md)\.so\.[0-9]+$/ { print $NF }'); do
        case ${library##*/} in
        # go with the kernel and each other
        libc.so* | libm.so* | libdl.so* | libpthread.so* | ld-linux*) ;;
        *) cp -L "$library" "$1/lib/" ;;
        esac
    done
    cp "$here/gpu.sh" "$here/gpu_peers.py" "$1/"
    echo "packed $1: $(du -sh "$1" | cut -f 1)"
}

start() { $run "$@"; }

# Packed libraries that this machine has not, and a manifest for a driver of NVIDIA's that has none.
prepare() {
    local library name
    rm -rf "$out/lib"
    mkdir -p "$out/lib"
    if [ -n "$packed" ]; then
        for library in "$here"/lib/*; do
            name=${library##*/}
            system_libraries | grep "^[[:space:]]*$name " >/dev/null || ln -s "$library" "$out/lib/$name"
        done
        export LD_LIBRARY_PATH=$out/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    fi
    [ -z "$small" ] || return 0
    if ! start "$bin/vkattn" info 2>&1 | grep -Eq '^  type +(discrete|integrated|virtual) GPU'; then
        for name in libGLX_nvidia.so.0 libEGL_nvidia.so.0; do
            library=$(find /usr /opt /lib64 -name "$name" 2>/dev/null | grep -v i386 | head -n 1) || true
            [ -n "$library" ] || continue
            printf '{"file_format_version":"1.0.1","ICD":{"api_version":"1.3.0","library_path":"%s"}}\n' "$library" >"$out/nvidia.json"
            echo "no GPU by the machine's own manifests; trying $library"
            export VK_DRIVER_FILES=$out/nvidia.json VK_ICD_FILENAMES=$out/nvidia.json
            export LD_LIBRARY_PATH=${library%/*}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
            ! start "$bin/vkattn" info 2>&1 | grep -Eq '^  type +(discrete|integrated|virtual) GPU' || return 0
        done
        echo "no Vulkan GPU here: vkattn info says" >&2
        start "$bin/vkattn" info >&2 || true
        exit 3
    fi
}

time_is_up() {
    [ $SECONDS -ge "$limit" ] || return 1
    echo "stopped after $SECONDS seconds; call again for the rest"
}

# step NAME PROGRAM...: output to NAME.log, once; its last lines are shown. Failed ones run again at
# the next call.
step() {
    local name=$1 log=$out/$1.log status=0
    shift
    [ ! -e "$out/$name.done" ] || { echo "$name: done before"; return 0; }
    if time_is_up; then return 75; fi
    timeout $((limit - SECONDS + 20)) $run "$@" >"$log" 2>&1 </dev/null || status=$?
    case $status in
    0 | 77) touch "$out/$name.done" ;;
    *) echo "$name: exit status $status; $log" ;;
    esac
    tail -n "${lines:-6}" "$log" | cut -c 1-220
    [ $status = 0 ] || [ $status = 77 ]
}

# Steps beside each other, --jobs at once: most of a step's time, its driver compiles.
running=0 worst=0
join_one() {
    local status=0
    wait -n || status=$?
    running=$((running - 1))
    [ $worst = 75 ] || [ $status = 0 ] || worst=$status
}
beside() {
    while [ $running -ge "$jobs" ]; do join_one; done
    step "$@" &
    running=$((running + 1))
}
join() {
    while [ $running -gt 0 ]; do join_one; done
    return $worst
}

check() {
    local status=0 filter suite kernel
    ! command -v nvidia-smi >/dev/null || nvidia-smi --query-gpu=name,driver_version,clocks.sm,memory.total --format=csv,noheader || true
    lines=40 step info "$bin/vkattn" info || status=1
    step ceilings "$bin/vkattn-bench" --ceilings --csv "$out/ceilings.csv" || status=1
    mkdir -p "$out/tests" "$out/conform"
    if [ -n "$small" ]; then
        lines=12 beside conform/staged "$bin/vkattn" conform --quick --kernel staged \
            --json "$out/conform/staged.json" --html "$out/conform/staged.html"
    else
        for kernel in flash_coopmat2 flash_coopmat flash decode staged auto; do
            lines=24 beside conform/$kernel "$bin/vkattn" conform --skip-cpu --kernel $kernel --time-limit 8 \
                --json "$out/conform/$kernel.json" --html "$out/conform/$kernel.html"
        done
    fi
    # Each suite has a process of its own, so that a run that ends early keeps the results that it
    # has.
    for suite in $(start "$bin/vkattn-tests-device" --gtest_list_tests 2>/dev/null | grep -E '^[A-Z][A-Za-z0-9/]*\.$'); do
        case $suite in Validation. | */OutOfRange.) continue ;; esac # the layer's
        filter="$suite*"
        case $suite in */*) filter="${suite%.}*" ;; esac
        if [ -n "$small" ]; then
            case $suite in Device. | Record. | Callbacks. | Subgroups.) ;; *) continue ;; esac
        else
            export VKATTN_TEST_SKIP_CPU_DEVICES=1
        fi
        lines=2 beside "tests/$(echo "${suite%.}" | tr / -)" "$bin/vkattn-tests-device" "--gtest_filter=$filter" --gtest_brief=1
    done
    join || status=$worst
    [ $status != 75 ] || return 75
    lines=12 step compile "$bin/vkattn-bench" --compile-report --raw --csv "$out/compile.csv" ||
        echo "no compile report" # not every driver has the extension
    return $status
}

times() {
    local name batch heads kv queries keys dim type causal suited each able status count=0 repeat=20
    [ -z "$small" ] || repeat=3
    # Shapes that the device cannot run are left out here, once: a refusal costs the operands of
    # each shape.
    able=$(start "$bin/vkattn" info | awk '/^device 1|^cpu/ { exit } $1 == "kernel" && $3 ~ /^available/ { print $2 }')
    echo "kernels:" $able
    shapes >"$out/shapes.txt"
    touch "$out/time.done"
    while read -r name batch heads kv queries keys dim type causal; do
        [[ $name =~ $only ]] || continue
        suited=
        for each in ${kernels//,/ } $([ -n "$kernels" ] || echo flash_coopmat2 flash_coopmat decode flash staged); do
            case $each in
            decode) [ "$queries" -le 64 ] || continue ;;
            staged) [ "$queries" -le 2048 ] || continue ;; # writes all scores to memory
            esac
            ! grep -qx "$each" <<<"$able" || suited=$suited${suited:+,}$each
        done
        if [ -z "$suited" ] || grep -qx "$name $suited" "$out/time.done"; then continue; fi
        if time_is_up; then return 75; fi
        status=0
        timeout $((limit - SECONDS + 30)) $run "$bin/vkattn-bench" --no-peaks --repeat $repeat --warm-up 3 --budget 3 --kernel $suited \
            --custom "name=$name,batch=$batch,heads=$heads,kv=$kv,q=$queries,k=$keys,d=$dim,type=$type${causal:+,causal}" \
            --csv "$out/vulkan.csv" >"$out/row.txt" 2>>"$out/time.log" </dev/null || status=$?
        cat "$out/row.txt" >>"$out/time.log"
        grep -E "^$name " "$out/row.txt" | cut -c 1-200 || true
        case $status in
        # 1: a kernel cannot take the shape, and its row says so
        0 | 1) echo "$name $suited" >>"$out/time.done" ;;
        *) echo "$name: exit status $status, $out/time.log" ;;
        esac
        count=$((count + 1))
    done <"$out/shapes.txt"
    rm -f "$out/row.txt"
    echo "$count shapes in $SECONDS seconds: $out/vulkan.csv"
}

peers() {
    shapes >"$out/shapes.txt"
    export LD_LIBRARY_PATH=$machine_libraries # packed ones are not for Python
    if ! python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
        echo "peers: skipped, python3 has no PyTorch that sees a CUDA GPU"
        return 0
    fi
    python3 "$python" time "$out" --limit $((limit > SECONDS ? limit - SECONDS : 0)) --only "$only"
}

table() { python3 "$python" table "$out" | tee "$out/table.txt"; }

case $stage in
pack) pack "$pack_folder" ;;
build) programs ;;
check) prepare && check ;;
time) prepare && times ;;
peers) peers ;;
table) table ;;
all)
    status=0
    programs
    prepare
    for each in check times peers; do
        echo "== $each"
        $each || { code=$?; [ $code = 75 ] && exit 75; status=1; }
    done
    echo "== table"
    table
    exit $status
    ;;
esac
