# Sourced by run.sh and test.sh: packages and the build. All real logic is in CMake and the
# programs.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/newer_debian.sh
setup_log=setup.log # of the last package that was fetched

build_packages="g++ cmake ninja-build pkg-config glslc libvulkan-dev libvulkan-volk-dev libhwy-dev mesa-vulkan-drivers libcli11-dev nlohmann-json3-dev libstb-dev libeigen3-dev libshaderc-dev"
test_packages="libgtest-dev vulkan-validationlayers python3-minimal patch"

# run_apt ARGUMENT...: apt-get as root, which waits for whoever else holds its locks.
run_apt() {
    local root="" tries status
    [ "$(id -u)" = 0 ] || root=sudo
    for tries in $(seq 60); do
        status=0
        $root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 "$@" >"$setup_log" 2>&1 || status=$?
        # The timeout is for dpkg's lock; that of the lists has none.
        grep -q '^E: .*lock .*/lists' "$setup_log" || return $status
        [ "$tries" != 1 ] || echo "another apt holds the lists: waiting"
        sleep 5
    done
    return $status
}

# packages NAME...: installs what is missing on Debian and its kin; elsewhere says what is wanted
# and goes on. Fails where something is still missing.
packages() {
    if ! command -v dpkg-query apt-get >/dev/null 2>&1; then
        echo "This is no Debian. Wanted, by their Debian names: $*" >&2
        return
    fi
    local missing="" name
    for name in "$@"; do
        dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing="$missing $name"
    done
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
        echo "Wanted, and neither root nor sudo to install them:$missing" >&2
        return 1
    fi
    echo "installing$missing"
    if ! run_apt -o APT::Update::Error-Mode=any update; then
        { grep '^[EW]: ' "$setup_log" | head -n 5; echo "apt-get update has failed; trying with the lists that are there."; } >&2
    fi
    if ! run_apt -y --no-install-recommends install $missing; then
        { tail -n 5 "$setup_log"; echo "FAILED to install:$missing ($setup_log); trying to go on without."; } >&2
        return 1
    fi
}

# build FOLDER TARGETS OPTION...: configures, with the glslc of newer_glslc if there is one, and
# builds. In CI warnings are errors, in each script: another option would compile everything anew.
glslc_option=
strict=
[ -z "${CI:-}" ] || strict=-DVKATTN_WERROR=ON
build() {
    local folder=$1 targets=$2
    shift 2
    cmake -S . -B "$folder" -G Ninja ${glslc_option:+"$glslc_option"} $strict "$@" >configure.log 2>&1 || { tail -n 20 configure.log >&2; return 1; }
    grep -o 'vkattn kernels: .*' configure.log || true
    cmake --build "$folder" --target $targets
}
