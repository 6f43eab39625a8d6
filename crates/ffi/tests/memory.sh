#!/usr/bin/env bash
# The library's memory, watched by others: resident memory over many runs, Valgrind, and AddressSanitizer.
#
#     crates/ffi/tests/memory.sh [LOOPS [RUNS [DAMAGED [TOOLS]]]]
#
# LOOPS  loads, runs and frees under a tool (500)
# RUNS   runs after which resident memory must be what it was after 100, within 256 KB (10000)
# DAMAGED  damaged copies of programs that are loaded and run under a tool (1000)
# TOOLS  "valgrind", "address" or both (both); the sanitizer needs a build of its own, in target/address
set -euo pipefail
cd "$(dirname "$0")/../../.."
loops=${1:-500} runs=${2:-10000} damaged=${3:-1000} tools=${4:-"valgrind address"}
target=${CARGO_TARGET_DIR:-target}
small=tests/golden/samples/abs.float32.0.pte
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# compile LIBRARY OUTPUT [FLAGS...]: the test programs against the library in a directory
compile() {
    local library=$1 output=$2
    shift 2
    for name in stress storm; do
        cc -std=c11 -O1 -g "$@" -I crates/ffi/include "crates/ffi/tests/c/$name.c" -o "$output-$name" \
            -L "$library" -Wl,-rpath,"$(realpath "$library")" -lexecutorch_ffi -lm -lpthread
    done
}

# watch NAME COMMAND...: everything, under a tool
watch() {
    local name=$1
    shift
    "$@" "$name-stress" loops "$small" "$loops"
    for program in "$small" examples/digits/digits.pte tests/golden/cond.pte tests/golden/xnnpack/xnnpack.pte; do
        "$@" "$name-stress" broken "$program" "$damaged"
    done
    head -c 256 /dev/zero > "$work/image"
    "$@" "$name-storm" examples/digits/digits.pte "$work/image" - 5
}

echo "== resident memory"
# Of the whole workspace, so that features are those of its tests and nothing is compiled twice.
cargo build --workspace
compile "$target/debug" "$work/plain"
for program in "$small" examples/digits/digits.pte; do
    "$work/plain-stress" resident "$program" "$runs" 256
done

if [[ $tools == *valgrind* ]]; then
    echo "== Valgrind"
    command -v valgrind > /dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends valgrind libc6-dbg; }
    # Threads that wait for calls live as long as the process; what the system keeps of them counts as "possibly" lost.
    watch "$work/plain" valgrind --quiet --leak-check=full --show-leak-kinds=definite,indirect \
        --errors-for-leak-kinds=definite,indirect --error-exitcode=1
fi

if [[ $tools == *address* ]]; then
    echo "== AddressSanitizer"
    host=$(rustc -vV | sed -n 's/^host: //p')
    RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=$target/address \
        cargo build -p sconce-ffi --target "$host"
    compile "$target/address/$host/debug" "$work/address" -fsanitize=address
    watch "$work/address" env ASAN_OPTIONS=detect_leaks=1
fi
echo "== memory is in order"
