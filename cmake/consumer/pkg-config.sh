#!/bin/sh
# Builds the replays against the installed library with nothing but pkg-config: pkg-config.sh LIBDIR TESTS WORK VERSION
set -eu
libdir=$1 tests=$2 work=$3 version=$4
PKG_CONFIG_PATH=$libdir/pkgconfig
export PKG_CONFIG_PATH
pkg=${PKG_CONFIG:-pkg-config}

found=$($pkg --modversion hawkeye)
[ "$found" = "$version" ] || { echo "hawkeye.pc is of version $found, wanted $version"; exit 1; }
flags=$($pkg --cflags --libs hawkeye)

mkdir -p "$work"
# Options before sources would leave -lhawkeye unused with --as-needed, so they follow.
${CC:-cc} -std=c11 "$tests/c/replay.c" -o "$work/replay_c" $flags
${CXX:-c++} -std=c++17 "$tests/cpp/replay.cpp" -o "$work/replay_cpp" $flags
for program in replay_c replay_cpp; do
    LD_LIBRARY_PATH=$libdir "$work/$program" "$tests/goldens/h200-torch2.11.bin"
done
