#!/bin/sh
# Builds both images, prints their sizes, fails if the runtime alone is over 50 KB, and runs the digits model emulated.
set -eu
cd "$(dirname "$0")"
cargo build --release --quiet
images=${CARGO_TARGET_DIR:-target}/thumbv7em-none-eabihf/release
code() { size -A "$1" | awk '$1 == ".text" || $1 == ".rodata" { sum += $2 } END { print sum }'; }
runtime=$(code "$images/runtime")
model=$(wc -c < ../digits/digits.pte)
echo "runtime without operators: $runtime bytes of code and constants"
echo "digits image: $(code "$images/digits") bytes, of which $model are the model"
[ "$runtime" -lt 51200 ]
cargo run --release --quiet --bin digits
