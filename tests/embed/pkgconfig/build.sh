#!/bin/sh
# build.sh COMMON PREFIX LIBDIR C_COMPILER CXX_COMPILER PACKAGE_MAIN: three programs by pkg-config
# and plain compiler commands, into the current folder: c (core, linked by the C compiler), cpu
# (vkattn-cpu from C), runtime (C++, all libraries).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
common=$1 prefix=$2 libdir=$3 cc=$4 cxx=$5 package_main=$6
export PKG_CONFIG_PATH="$prefix/$libdir/pkgconfig"
for name in core cpu runtime; do
    pkg-config --print-errors --exists "vkattn-$name >= 0.1"
    if pkg-config --exists "vkattn-$name >= 99"; then echo "vkattn-$name claims to be version 99"; exit 1; fi
done
set -x
$cc -std=c99 -Wall -Wextra -pedantic -Werror -I"$common" "$here/c.c" "$common/gpu.c" "$common/loader.c" "$common/attention.c" \
    $(pkg-config --cflags --libs vkattn-core) -lm -ldl -o c
$cc -std=c99 -Wall -Wextra -pedantic -Werror "$here/cpu.c" $(pkg-config --cflags --libs vkattn-cpu) -lm -o cpu
$cxx -std=c++17 "$package_main" $(pkg-config --cflags --libs vkattn-runtime) -o runtime
