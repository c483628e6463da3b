# Sourced by setup.sh: programs and libraries of newer Debian, unpacked in build/ and started there
# with that Debian's own C library. Nothing of the system is changed, and root is not needed.

# fetch_newer FOLDER SUITE PACKAGE...: unpacks the packages and all that they need into FOLDER; else
# the reason is in $why.
fetch_newer() {
    local folder=$1 suite=$2 state=$1/apt mirror keyring package
    shift 2
    # The machine's own mirror: whoever serves its release serves the newer ones. Most of what apt
    # asks for comes from there.
    mirror=$(apt-get --print-uris update 2>/dev/null | sed -n "s,^'\(.*\)/dists/.*/main/binary-.*,\1,p" | grep -v security |
        sort | uniq -c | sort -rn | awk 'NR == 1 { print $2 }')
    [ -n "$mirror" ] || { why="apt names no mirror"; return 1; }
    for keyring in /usr/share/keyrings/debian-archive-keyring.{gpg,pgp}; do
        [ ! -e "$keyring" ] || break
    done
    [ -e "$keyring" ] || { why="no $keyring to check signatures with"; return 1; }
    mkdir -p "$state"/lists/partial "$state"/archives/partial
    : >"$state/status" # nothing is installed there: all that a package needs comes with it
    echo "deb [arch=$(dpkg --print-architecture) signed-by=$keyring] $mirror $suite main" >"$state/sources.list"
    # A mirror's Release file may be days old; signatures are still checked.
    local apt=(apt-get -q -y -o Dir::Etc::SourceList="$state/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null -o APT::Default-Release=
        -o Dir::State="$state" -o Dir::State::Lists="$state/lists" -o Dir::State::Status="$state/status"
        -o Dir::State::Extended_States="$state/extended_states" -o Dir::Cache="$state" -o Dir::Cache::Archives="$state/archives"
        -o Dir::Cache::PkgCache=pkgcache.bin -o Dir::Cache::SrcPkgCache=srcpkgcache.bin -o APT::Sandbox::User=root
        -o APT::Update::Error-Mode=any -o Acquire::Check-Valid-Until=false -o Acquire::Languages=none -o Acquire::Retries=2
        -o Acquire::http::Timeout=30)
    if ! { "${apt[@]}" update && "${apt[@]}" --no-install-recommends --download-only install "$@"; } >"$setup_log" 2>&1; then
        why="$suite: $(grep '^E: ' "$setup_log" | head -n 1) ($setup_log)"
        return 1
    fi
    for package in "$state"/archives/*.deb; do
        if ! dpkg-deb --fsys-tarfile "$package" | tar -x -C "$folder" --no-same-owner --exclude=./usr/share/{doc,locale,man}; then
            why="${package##*/} could not be unpacked"
            return 1
        fi
    done
    rm -rf "$state"
}

# newer WHAT FOLDER PACKAGE...: the packages of sid, else of trixie, in FOLDER, with FOLDER/run,
# which starts a program with their libraries. Where they cannot be had a line says why.
newer() {
    local what=$1 folder=$2 suite loader codename why=
    shift 2
    if ! command -v apt-get dpkg-deb >/dev/null || ! grep -qx 'ID=debian' /etc/os-release 2>/dev/null; then
        echo "$what is not fetched: this is no Debian" >&2
        return 1
    fi
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-sid}")
    for suite in sid trixie; do
        [ "$suite" != "$codename" ] || continue
        rm -rf "$folder.new"
        mkdir -p "$folder.new"
        if fetch_newer "$folder.new" "$suite" "$@"; then
            loader=$(cd "$folder.new" && ls -d usr/lib/*/ld-linux*.so.* usr/lib/*/ld64.so.* 2>/dev/null | head -n 1)
            if [ -z "$loader" ]; then
                why="libc6 of $suite has its loader in an unknown place"
                continue
            fi
            cat >"$folder.new/run" <<RUN
#!/bin/sh
# run PROGRAM ARGS...: starts it with the libraries and Vulkan layers that lie beside this script (scripts/newer_debian.sh).
here=\$(cd "\${0%/*}" && pwd)
[ ! -d "\$here/usr/share/vulkan/explicit_layer.d" ] || export VK_LAYER_PATH="\$here/usr/share/vulkan/explicit_layer.d"
exec "\$here/$loader" --library-path "\$here/${loader%/*}" "\$@"
RUN
            chmod +x "$folder.new/run"
            rm -rf "$folder"
            mv "$folder.new" "$folder"
            return 0
        fi
    done
    rm -rf "$folder.new"
    echo "$what cannot be had: ${why:-this is the newest Debian}" >&2
    return 1
}

# compiles_matrices GLSLC: tells whether this glslc can compile every kernel
# (cmake/VkattnGlslc.cmake asks the same, one by one).
compiles_matrices() {
    local probe
    for probe in cmake/probes/*.comp; do
        "$1" --target-env=vulkan1.3 -O -mfmt=num -o - "$probe" >/dev/null 2>&1 || return 1
    done
}

# newer_glslc: puts a glslc that can compile every kernel into build/toolchain, where the installed
# one cannot. `build` gives it to CMake.
newer_glslc() {
    local folder=$PWD/build/toolchain
    [ -z "${VULKAN_SDK:-}" ] || return 0 # CMake takes its glslc
    if [ ! -x "$folder/bin/glslc" ]; then
        ! compiles_matrices glslc || return 0
        echo "fetching a newer glslc into build/toolchain"
        newer "a glslc for matrix units" "$folder" glslc || return 0
        mkdir -p "$folder/bin"
        printf '#!/bin/sh\nexec "${0%%/*}/../run" "${0%%/*}/../usr/bin/glslc" "$@"\n' >"$folder/bin/glslc"
        chmod +x "$folder/bin/glslc"
    fi
    compiles_matrices "$folder/bin/glslc" || echo "build/toolchain/bin/glslc cannot compile every kernel either; CMake will say which" >&2
    glslc_option=-DVulkan_GLSLC_EXECUTABLE=$folder/bin/glslc
}

# newer_lavapipe: Mesa's software driver of newer Debian with the validation layer that knows its
# extensions, in build/drivers/mesa. Beside it are Mesa's other drivers and what lets them compile
# without their hardware (scripts/compile_report.sh).
newer_lavapipe() {
    local folder=$PWD/build/drivers/mesa
    [ ! -e "$folder/lavapipe.json" ] || ! ls "$folder"/usr/lib/*/libamdgpu_noop_drm_shim.so >/dev/null 2>&1 || return 0
    echo "fetching a newer Mesa into build/drivers/mesa"
    newer "a lavapipe with matrix units" "$folder" mesa-vulkan-drivers mesa-drm-shim vulkan-validationlayers || return 0
    local library
    library=$(ls "$folder"/usr/lib/*/libvulkan_lvp.so | head -n 1)
    printf '{"file_format_version":"1.0.1","ICD":{"api_version":"1.4.0","library_path":"%s"}}\n' "$library" >"$folder/lavapipe.json"
}
