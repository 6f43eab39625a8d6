#!/usr/bin/env bash
# The C library as projects get it: built by CMake from source, downloaded from a release (a local server), installed,
# by pkg-config; what the cache does with and without a network; and the errors. Needs cargo, a C compiler, Python 3,
# and installs CMake and pkg-config where apt can.
set -euo pipefail
root=$(cd "$(dirname "$0")/../../.." && pwd)
model=$root/examples/digits/digits.pte
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT

for variable in $(compgen -e | grep -E '^(EXECUTORCH|ET_BUILD)_' || true); do unset "$variable"; done
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target} no_proxy=127.0.0.1 NO_PROXY=127.0.0.1
if ! command -v cmake > /dev/null || ! command -v pkg-config > /dev/null; then
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends cmake pkg-config
fi

step() { printf '\n=== %s\n' "$*"; }
fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }

# configure FOLDER ARGUMENT...: configures the consumer there; what CMake says about the library is kept, and shown.
configure() {
    local folder=$work/$1 status=0
    shift
    cmake -S "$work/consumer" -B "$folder" -DSCONCE="$root" "$@" > "$work/log" 2>&1 || status=$?
    # CMake breaks lines of errors anywhere.
    said=$(tr -s ' \n' ' ' < "$work/log")
    grep -E '^-- executorch_ffi|^  ' "$work/log" || true
    return $status
}
configured() { configure "$@" || { cat "$work/log"; fail "configuring with ${*:2}"; }; }
refused() { if configure "$@"; then fail "configuring with ${*:2} went well"; fi; }
said() { [[ $said == *"$1"* ]] || fail "CMake did not say: $1"; }
# builds FOLDER: the consumer builds and recognises its digit.
builds() {
    cmake --build "$work/$1" > "$work/log" 2>&1 || { cat "$work/log"; fail "building in $1"; }
    recognises "$work/$1/digit"
}
recognises() {
    local line
    line=$("$1" "$model")
    printf '%s\n' "$line"
    [[ $line == "version: $library executorch: $version digit: 2" ]] || fail "$1 says something else"
}
# asked PATH...: exactly these were asked for since the last time.
asked() {
    local lines
    lines=$(sed -n 's/.*"GET \([^ ]*\) .*/\1/p' "$work/requests" | xargs)
    : > "$work/requests"
    [ "$lines" = "$*" ] || fail "the server was asked for '$lines', not for '$*'"
    printf 'asked for: %s\n' "${lines:-nothing}"
}

version=$(awk '$1 == "executorch" { print $2 }' "$root/crates/ffi/cmake/versions.txt")
library=$(awk '$1 == "library" { print $2 }' "$root/crates/ffi/cmake/versions.txt")
cp -r "$root/crates/ffi/tests/consumer" "$work/consumer"

step "source: configure, build, run; then the static library"
configured source -DEXECUTORCH_BUILD_MODE=source
said "cargo will build the library (release)"
builds source
configured source-static -DEXECUTORCH_BUILD_MODE=source -DEXECUTORCH_FFI_STATIC=ON
builds source-static

step "install, find_package, pkg-config"
cmake -S "$root" -B "$work/root" > /dev/null
cmake --build "$work/root" > "$work/log" 2>&1 || { cat "$work/log"; fail "building the repository's own project"; }
cmake --install "$work/root" --prefix "$work/installed" > /dev/null
(cd "$work/installed" && find . -type f | sort)
configured found -DFROM_INSTALLATION=ON -DCMAKE_PREFIX_PATH="$work/installed"
said "found executorch_ffi $library"
builds found
configured installed -DEXECUTORCH_INSTALL_DIR="$work/installed"
said "using the library in $work/installed"
builds installed
export PKG_CONFIG_PATH=$work/installed/lib/pkgconfig
[ "$(pkg-config --modversion executorch_ffi)" = "$library" ] || fail "pkg-config --modversion"
# shellcheck disable=SC2046
cc "$work"/consumer/*.c $(pkg-config --cflags --libs executorch_ffi) -Wl,-rpath,"$work/installed/lib" \
    -o "$work/by-pkg-config"
recognises "$work/by-pkg-config"

step "archives: the same bytes every time"
(cd "$root" && cargo xtask dist --out "$work/dist" && cargo xtask dist --out "$work/again" > /dev/null)
archive=$(cd "$work/dist" && ls libexecutorch_ffi-*.tar.gz)
cmp "$work/dist/$archive" "$work/again/$archive"
(cd "$work/dist" && sha256sum -c "$archive.sha256")

step "prebuilt: the first time, the hash and the archive"
mkdir -p "$work/server/$version"
cp "$work/dist/$archive" "$work/dist/$archive.sha256" "$work/server/$version"
python3 -u -m http.server 0 --bind 127.0.0.1 --directory "$work/server" > "$work/port" 2>> "$work/requests" &
server=$!
until grep -q port "$work/port"; do sleep 0.1; done
export EXECUTORCH_CACHE_DIR=$work/cache
EXECUTORCH_PREBUILT_BASE_URL=http://127.0.0.1:$(sed -n 's/.* port \([0-9]*\) .*/\1/p' "$work/port")
export EXECUTORCH_PREBUILT_BASE_URL
configured prebuilt
asked "/$version/$archive.sha256" "/$version/$archive"
builds prebuilt
configured prebuilt-static -DEXECUTORCH_FFI_STATIC=ON
builds prebuilt-static
asked "/$version/$archive.sha256"

step "prebuilt: an unchanged hash needs no archive, in other build folders and types too"
configured prebuilt
said "is up to date; nothing to download"
asked "/$version/$archive.sha256"
for type in Release RelWithDebInfo MinSizeRel; do
    configured prebuilt-$type -DCMAKE_BUILD_TYPE=$type
    asked "/$version/$archive.sha256"
done
refused prebuilt-debug -DCMAKE_BUILD_TYPE=Debug
said "there is no ${archive%.tar.gz}-debug.tar.gz"
said "the server answers 404"
asked "/$version/${archive%.tar.gz}-debug.tar.gz.sha256"

step "prebuilt: a changed hash brings the archive again"
mkdir "$work/changed"
tar -xzf "$work/dist/$archive" -C "$work/changed"
echo "published again" > "$work/changed/share/note.txt"
tar -czf "$work/server/$version/$archive" -C "$work/changed" include lib share
(cd "$work/server/$version" && sha256sum "$archive" > "$archive.sha256")
configured prebuilt
said "is wanted."
asked "/$version/$archive.sha256" "/$version/$archive"
[ -f "$work/cache/$version/${archive%.tar.gz}/prefix/share/note.txt" ] || fail "the cache was not replaced"
builds prebuilt

step "prebuilt: an archive that is not what its hash says is refused, and the cached one stays"
cp "$work/server/$version/$archive.sha256" "$work/good.sha256"
printf '%064d  %s\n' 0 "$archive" > "$work/server/$version/$archive.sha256"
refused prebuilt
said "was expected. It was not used"
cp "$work/good.sha256" "$work/server/$version/$archive.sha256"
: > "$work/requests"
configured prebuilt
asked "/$version/$archive.sha256"

step "prebuilt: a damaged cache is noticed and mended"
echo damage >> "$work/cache/$version/${archive%.tar.gz}/prefix/include/executorch_ffi.h"
configured prebuilt
said "is missing or was changed"
asked "/$version/$archive.sha256" "/$version/$archive"

step "prebuilt: with a hash of one's own the server is not asked for one"
hash=$(cut -d ' ' -f 1 "$work/good.sha256")
configured pinned -DEXECUTORCH_PREBUILT_SHA256="$hash"
asked
refused pinned-wrong -DEXECUTORCH_PREBUILT_SHA256="${hash//[0-9]/7}"
said "was expected. It was not used"
: > "$work/requests"

step "prebuilt: downloads disabled, from the environment; 0 means enabled"
EXECUTORCH_DISABLE_DOWNLOAD=1 configured prebuilt
said "as EXECUTORCH_DISABLE_DOWNLOAD is on"
asked
EXECUTORCH_DISABLE_DOWNLOAD=0 configured prebuilt
asked "/$version/$archive.sha256"
EXECUTORCH_DISABLE_DOWNLOAD=true refused disabled -DEXECUTORCH_CACHE_DIR="$work/empty"
said "EXECUTORCH_DISABLE_DOWNLOAD is on, and the cache has no $work/empty"
EXECUTORCH_DISABLE_DOWNLOAD=maybe refused disabled
said "neither on (1, ON, YES, TRUE) nor off"
asked

step "prebuilt: without a network, from a valid cache only"
kill "$server"
wait "$server" 2> /dev/null || true
server=
configured prebuilt
said "using the cached"
builds prebuilt
configured offline
builds offline
refused offline-empty -DEXECUTORCH_CACHE_DIR="$work/empty"
said "cannot be downloaded"
said "-DEXECUTORCH_BUILD_MODE=source"
echo damage >> "$work/cache/$version/${archive%.tar.gz}/prefix/include/executorch_ffi.h"
refused offline
said "is missing or was changed"
unset EXECUTORCH_PREBUILT_BASE_URL
refused nowhere -DEXECUTORCH_BUILD_MODE=prebuilt -DEXECUTORCH_CACHE_DIR="$work/empty"
said "EXECUTORCH_PREBUILT_BASE_URL is not set"

step "what cannot be is refused with what can"
refused backends -DET_BUILD_COREML=ON -DET_BUILD_VULKAN=ON
said "ET_BUILD_COREML is on, but linux-"
said "cannot have coreml; only macos, ios, ios-simulator can"
said "ET_BUILD_VULKAN is on, but this version of the library has no vulkan yet"
said "xnnpack, ggml. Turn the others off"
for backend in MPS QNN METAL MLX LLM; do
    refused backend-$backend -DET_BUILD_$backend=ON > /dev/null
    said "ET_BUILD_$backend is on, but"
done
ET_BUILD_QNN=1 refused backend-environment > /dev/null
said "ET_BUILD_QNN is on, but"
refused mode -DEXECUTORCH_BUILD_MODE=binary
said "neither 'prebuilt' nor 'source'"
refused another-version -DEXECUTORCH_BUILD_MODE=source -DEXECUTORCH_VERSION=1.4.0
said "EXECUTORCH_VERSION is 1.4.0, but these sources are $version"
refused not-installed -DEXECUTORCH_INSTALL_DIR="$work"
said "is no installation of this library"

printf '\nThe C library is packed, found, downloaded and built as it should be.\n'
