# Sourced by run.sh and test.sh: packages and the build. All real logic is in CMake and the programs.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/newer_debian.sh

build_packages="g++ cmake ninja-build pkg-config glslc libvulkan-dev libvulkan-volk-dev libhwy-dev mesa-vulkan-drivers libcli11-dev nlohmann-json3-dev libstb-dev"
test_packages="libgtest-dev vulkan-validationlayers clang libclang-rt-dev"

# packages NAME...: installs what is missing on Debian and its kin; elsewhere says what is wanted and goes on.
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
    local root=""
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || { echo "Wanted, and neither root nor sudo to install them:$missing" >&2; return; }
        root=sudo
    fi
    echo "installing$missing"
    { $root apt-get -q update && $root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install $missing; } >setup.log 2>&1 ||
        { tail -n 5 setup.log >&2; echo "Some packages could not be installed (setup.log); trying to go on without." >&2; }
}

# build FOLDER TARGETS OPTION...: configures, with the glslc of newer_glslc if there is one, and builds.
glslc_option=
build() {
    local folder=$1 targets=$2
    shift 2
    cmake -S . -B "$folder" -G Ninja ${glslc_option:+"$glslc_option"} "$@" >configure.log 2>&1 || { tail -n 20 configure.log >&2; exit 1; }
    grep -o 'vkattn kernels: .*' configure.log || true
    cmake --build "$folder" --target $targets
}
