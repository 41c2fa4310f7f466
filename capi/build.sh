#!/bin/sh
# Builds the library: the one place that knows how. CMakeLists.txt and setup.py call it.
#
#   capi/build.sh shared  OUTPUT/libhawkeye.so      the shared library; its soname ends in the ABI version
#   capi/build.sh archive OUTPUT/libhawkeye.a       the static archive
#
# GO and CC choose the tools. Needs Go 1.24 or newer and a C compiler.
set -eu

if [ $# -ne 2 ]; then
    echo "usage: $0 shared|archive OUTPUT" >&2
    exit 2
fi
kind=$1
case $2 in
/*) output=$2 ;;
*) output=$PWD/$2 ;;
esac
cd "$(dirname "$0")/.."

GO=${GO:-go}
if ! command -v "$GO" >/dev/null 2>&1; then
    echo "$0: Go was not found: install Go 1.24 or newer (from your package manager or https://go.dev/dl), then build again" >&2
    exit 1
fi
CGO_ENABLED=1
CC=${CC:-cc}
if ! command -v "${CC%% *}" >/dev/null 2>&1; then
    echo "$0: no C compiler was found: install gcc or clang, or name one with CC=, then build again" >&2
    exit 1
fi
export CGO_ENABLED CC

version=$(cat VERSION)
abi=$(sed -n 's/^#define HAWKEYE_ABI_VERSION \([0-9][0-9]*\)$/\1/p' include/hawkeye.h)
link="-s -w -X main.version=$version"
case $kind in
shared)
    # Only hawkeye_* is exported: another Go library in the same process must not bind to this one's runtime, nor this
    # one to its. -Bsymbolic and -z nodelete are set by Go itself.
    link="$link -extldflags '-Wl,-soname,libhawkeye.so.$abi -Wl,--version-script=$PWD/capi/exports.map'"
    mode=c-shared
    ;;
archive) mode=c-archive ;;
*)
    echo "$0: build what? shared or archive, not $kind" >&2
    exit 2
    ;;
esac

mkdir -p "$(dirname "$output")"
# Go writes a header of cgo's own beside its output; include/hawkeye.h is the one to use.
work=$(mktemp -d "${output%/*}/.hawkeye-build.XXXXXX")
trap 'rm -rf "$work"' EXIT
"$GO" build -trimpath -buildvcs=false -buildmode="$mode" -ldflags "$link" -o "$work/library" ./capi
mv "$work/library" "$output"
