#!/bin/sh
# build.sh SOURCE SPIRV EMBED LIBDIR C_COMPILER CMAKE_OPTION...: builds core alone with one switch,
# as a machine does that has nothing but Vulkan's headers, installs it into the current folder, and
# has the C compiler link the program c.
set -eu
source=$1 spirv=$2 embed=$3 libdir=$4 cc=$5
shift 5
for package in hwy CLI11 nlohmann_json GTest Threads; do set -- "$@" -DCMAKE_DISABLE_FIND_PACKAGE_$package=ON; done
cmake -S "$source" -B build "$@" -DVKATTN_SPIRV_FOLDER="$spirv" -DVKATTN_CORE_ONLY=ON
cmake --build build --parallel 2
cmake --install build --component vkattn --prefix prefix
libraries=$(cd "prefix/$libdir" && echo *.a)
if [ "$libraries" != "libvkattn_core.a libvkattn_problem.a" ]; then
    echo "VKATTN_CORE_ONLY installed $libraries, expected libvkattn_core.a and libvkattn_problem.a"
    exit 1
fi
export PKG_CONFIG_PATH="prefix/$libdir/pkgconfig"
$cc -std=c99 -Wall -Wextra -pedantic -Werror -I"$embed/common" "$embed/pkgconfig/c.c" "$embed/common/gpu.c" "$embed/common/loader.c" \
    "$embed/common/attention.c" $(pkg-config --cflags --libs vkattn-core) -lm -ldl -o c
if ldd c | grep -E 'libstdc\+\+|libc\+\+'; then
    echo "the C program needs the C++ library"
    exit 1
fi
