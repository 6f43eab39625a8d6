#!/usr/bin/env bash
# Archives for other machines: 64-bit ARM Linux and 64-bit Windows, packed, linked to a C program by CMake (shared and
# static), and run by emulators. Installs what it needs. `packaging-cross.sh debug` does all this with the debug library,
# which compiles in a third of the time.
set -euo pipefail
case ${1:-release} in
    release) type=Release ;;
    debug) type=Debug ;;
    *) echo "$1 is neither release nor debug" >&2; exit 2 ;;
esac
root=$(cd "$(dirname "$0")/../../.." && pwd)
model=$root/examples/digits/digits.pte
work=$(mktemp -d)
# Wine's server outlives its programs, and writes into its folder when it ends.
trap '{ wineserver -k && wineserver -w; } > /dev/null 2>&1 || true; rm -rf "$work"' EXIT

for variable in $(compgen -e | grep -E '^(EXECUTORCH|ET_BUILD)_' || true); do unset "$variable"; done
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target} WINEDEBUG=-all WINEPREFIX=$work/wine
needed=(cmake qemu-user-static gcc-aarch64-linux-gnu libc6-dev-arm64-cross libc6:arm64 libgcc-s1:arm64
    gcc-mingw-w64-x86-64-win32 mingw-w64-x86-64-dev wine64 wine)
if ! dpkg -s "${needed[@]}" > /dev/null 2>&1; then
    dpkg --add-architecture arm64
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${needed[@]}"
fi
rustup target add aarch64-unknown-linux-gnu x86_64-pc-windows-gnu
version=$(awk '$1 == "executorch" { print $2 }' "$root/crates/ffi/cmake/versions.txt")
export EXECUTORCH_CACHE_DIR=$work/cache EXECUTORCH_PREBUILT_BASE_URL=file://$work/server

# check NAME TARGET SYSTEM PROCESSOR COMPILER RUNNER...
check() {
    local name=$1 target=$2 line
    local dist=(--target "$target" --out "$work/server/$version")
    [[ $type == Release ]] || dist+=(--debug)
    local arguments=(-DCMAKE_BUILD_TYPE=$type -DCMAKE_SYSTEM_NAME="$3" -DCMAKE_SYSTEM_PROCESSOR="$4" -DCMAKE_C_COMPILER="$5")
    shift 5
    printf '\n=== %s\n' "$name"
    (cd "$root" && cargo xtask dist "${dist[@]}")
    for way in "prebuilt OFF" "prebuilt ON" "source OFF"; do
        read -r mode static <<< "$way"
        cmake -S "$root/crates/ffi/tests/consumer" -B "$work/build" -DSCONCE="$root" "${arguments[@]}" \
            -DEXECUTORCH_BUILD_MODE="$mode" -DEXECUTORCH_FFI_STATIC="$static" | grep executorch_ffi
        cmake --build "$work/build" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
        line=$("$@" "$work"/build/digit* "$model" | tr -d '\r')
        printf '%s, static %s: %s\n' "$mode" "$static" "$line"
        [[ $line == *"digit: 2" ]]
        rm -rf "$work/build"
    done
}

check "64-bit ARM" aarch64-unknown-linux-gnu Linux aarch64 aarch64-linux-gnu-gcc qemu-aarch64-static -cpu max

# This Wine has no bcryptprimitives.dll, from which Rust takes random numbers.
wine cmd /c exit 2> /dev/null
cat > "$work/random.c" <<'C'
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T count) {
    return SystemFunction036(bytes, (ULONG)count);
}
C
system=$WINEPREFIX/drive_c/windows/system32
x86_64-w64-mingw32-gcc -shared "$work/random.c" -o "$system/bcryptprimitives.dll" -ladvapi32
check "64-bit Windows" x86_64-pc-windows-gnu Windows x86_64 x86_64-w64-mingw32-gcc wine
