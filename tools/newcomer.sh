#!/usr/bin/env bash
# What a newcomer tries first with the command, right and wrong, and what must come of it.
#
#     tools/newcomer.sh SCONCE
#
# Uses only the built command and files of the repository; takes seconds. Each block is a claim; the first that does not hold
# ends the script with what came instead.
set -uo pipefail
cd "$(dirname "$0")/.."
sconce=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

digits=examples/digits/digits.pte
samples=examples/digits/samples
labels=examples/digits/labels.txt
export=tests/golden/pt2/encoder.pt2
data=crates/compiler/tests/data
three=$samples/digit_3_a.png

# Runs the command: $code, $out and $err are what came of it.
try() {
    timeout 20 "$sconce" "$@" > "$work/out" 2> "$work/err"
    code=$? called="sconce $*"
    out=$(< "$work/out") err=$(< "$work/err")
}
fail() {
    printf 'newcomer.sh: %s\n  %s\n  status %s\n%s\n%s\n' "$1" "$called" "$code" "$out" "$err" >&2
    exit 1
}
status() { [[ $code == "$1" ]] || fail "the status should be $1"; }
says() { for words in "$@"; do [[ $out == *"$words"* ]] || fail "the output should say '$words'"; done; }
complains() { for words in "$@"; do [[ $err == *"$words"* ]] || fail "the error stream should say '$words'"; done; }
silent() { [[ $out != *"$1"* && $err != *"$1"* ]] || fail "'$1' should not be said"; }
last() { [[ ${out##*$'\n'} == *"$1"* ]] || fail "the last line should say '$1'"; }
begins() { [[ $out == "$1"* ]] || fail "the output should begin with '$1'"; }
refuses() { try "${@:2}"; status "$1"; complains "error: "; }
steps() { printf '%s: ok\n' "$*"; }

# --- threads
try run $digits $three --threads 10000
status 0; complains "warning: 10000 threads" "are used"
try check tests/golden --threads 10000
status 0; [[ $(grep -c warning "$work/err") == 1 ]] || fail "a warning is said once"
try run $digits $three --threads 0
status 0; silent warning
refuses 2 run $digits $three --threads -1
complains "a number of threads is 0"
silent "unexpected argument"
steps threads

# --- labels that do not fit
printf 'cat\ndog\n' > "$work/two.txt"
refuses 1 run $digits $three --labels "$work/two.txt"
complains "2 labels" "10 numbers" "[1, 10]"
refuses 1 run tests/golden/convnet.pte --fill random --labels <(seq 1000)
complains "1000 labels"
try run $digits $three --labels $labels
status 0; says " %  3"
steps labels

# --- quantised programs are judged by their step
for backend in xnnpack portable; do
    try compile $data/convolutions.pt2 --quantize int8 --calibrate $data/calibration.npz -b $backend -o "$work/int8.pte"
    status 0
    cp $data/convolutions.npz "$work/int8.npz"
    try check "$work/int8.pte" --steps 2
    status 0; says "out0 largest error" "of 2 step(s) of"; last "1 passed, 0 failed"
    try check "$work/int8.pte" --steps 0
    status 1; says FAIL; last "0 passed, 1 failed"
done
try compile $data/convolutions.pt2 --quantize int8-dynamic -b xnnpack -o "$work/dynamic.pte"
cp $data/convolutions.npz "$work/dynamic.npz"
try check "$work/dynamic.pte"
status 0; says "held to rtol 0.04 and atol 0.1"
steps quantised programs

# --- what was checked, and that something was
mkdir "$work/alone"
cp $digits "$work/alone"
refuses 1 check "$work/alone"
complains "nothing was checked"; says "0 passed, 0 failed, 1 skipped"
try check examples/digits -v
status 0; says "ok " "largest error"; last "1 passed, 0 failed"
steps checks of nothing

# --- a first run, and further ones
try run $digits $three
status 0; says "first run in" " ms"
try run $digits $three --repeat 20
status 0; says "20 more run(s): p50 " "p90 " "p99 " "runs per second"
steps repeated runs

# --- noise and percentiles
try bench $digits --seconds 0.1
status 0; begins file; says "p90 ms" "p99 ms" "runs/s"
cat > "$work/python" <<'END'
#!/bin/sh
echo '{"load_ms": 1, "first_ms": 2}'
while read turn; do echo '{"times_ms": [1e6, 1e6, 1e6]}'; done
END
chmod +x "$work/python"
try bench $digits --seconds 0.1 "--compare=$work/python"
status 0; says "x: ours is faster"
cat > "$work/python" <<'END'
#!/bin/sh
echo '{"load_ms": 1, "first_ms": 2}'
while read turn; do echo '{"times_ms": [1e-9, 1e6, 1e6, 1e6]}'; done
END
try bench $digits --seconds 0.1 "--compare=$work/python"
status 0; says "contradict each other"
steps measurements

# --- no inputs
refuses 1 run $digits
complains "nothing was given for in0" "--fill"
for with in ones zeros random; do
    try run $digits --fill $with
    status 0; says "out0  float32 [1, 10]"
done
steps filled inputs

# --- many inputs
try run $digits $samples/*.png --labels $labels
status 0; [[ $(grep -c ' %  ' "$work/out") == $(ls $samples/*.png | wc -l) ]] || fail "each image should have a line"
last "call(s), the first in"
try run $digits $samples --labels $labels
status 0; says "digit_0_a.png" "digit_9_b.png"
try run $digits $three README.md $three
status 1; says "FAIL README.md" "2 call(s)"
refuses 1 run $digits --input $three --input $three
complains "there is no input left"
steps many inputs

# --- preparation of images
try run $digits $three
says "8x8, grey in 0..1, not normalised"
try run $digits $three --crop --resize 8x8 --mean 0.5 --std 0.25
status 0; says "the middle 8x8" "less the mean 0.5 and divided by 0.25"
try compile $data/convolutions.pt2 -o "$work/photo.pte"
try run "$work/photo.pte" $three --preset imagenet
status 0; says "RGB in 0..1, less the mean 0.485, 0.456, 0.406 and divided by 0.229, 0.224, 0.225" "the middle"
refuses 1 run $digits $three --preset imagenet
complains "3 values" "1 channel"
steps images

# --- a program is written whole, loaded, and told of in a sentence
try compile $export --backend xnnpack -o "$work/encoder.pte"
status 0; says "run by "; last "wrote $work/encoder.pte, "; last " KiB: xnnpack runs "; last " calls in "
try check "$work/encoder.pte" tests/golden/pt2/encoder.npz
status 0
try compile $export -o /dev/null
status 0; last "wrote /dev/null, "
refuses 1 compile $export -o "$work"
refuses 1 compile $export -o "$work/missing/encoder.pte"
refuses 2 compile $export -o $export
mkdir "$work/interrupted"
for delay in 0.001 0.002 0.004 0.006 0.008 0.01 0.015 0.02; do
    for signal in INT TERM; do
        timeout -s $signal $delay "$sconce" compile $export -o "$work/interrupted/encoder.pte" > /dev/null 2>&1
        called="compile, interrupted after $delay s" code=$? out=$(ls -A "$work/interrupted") err=
        [[ -z $out || $out == encoder.pte ]] || fail "nothing half-written should stay"
        [[ -z $out ]] || "$sconce" inspect "$work/interrupted/encoder.pte" > /dev/null || fail "what is there should be whole"
        rm -f "$work/interrupted/encoder.pte"
    done
done
steps compile

# --- other files than the right ones
refuses 1 compile $digits
complains "is a program already" "sconce run"
refuses 1 run "$work"
complains "is a folder"
refuses 1 inspect "$work"
complains "is a folder"
refuses 2 run $digits $three --backend xnnpack
complains "--backend has no effect"
refuses 2 rnu
complains "did you mean \`sconce run\`"
refuses 2 $digits
complains "sconce run"
refuses 2 bench $digits --seconds -1
complains "a time is a number of seconds"; silent "unexpected argument"
printf 'PK\3\4' > "$work/zip.pte"
refuses 1 pack "$work/zip.pte"
steps other files

# --- plans fit the terminal, and JSON is objects
try inspect $digits --json
status 0; says '"offset": ' '"size": '
on_terminal() { script -qec "stty cols 80; $*" /dev/null < /dev/null | tr -d '\r'; }
if command -v script > /dev/null; then
    called="inspect --plan on a terminal" code=0 err=
    out=$(NO_COLOR=1 on_terminal "$sconce" inspect $digits --plan)
    (($(LC_ALL=C.UTF-8 wc -L <<< "${out#*plan}") <= 80)) || fail "lines should fit the terminal"
    called="check on a terminal"
    out=$(TERM=xterm on_terminal "$sconce" check "$work/int8.pte" --steps 0)
    [[ $out == *$'\e['*FAIL* ]] || fail "FAIL should be coloured"
    out=$(TERM=xterm NO_COLOR=1 on_terminal "$sconce" inspect $digits)
    [[ $out != *$'\e['* ]] || fail "NO_COLOR should be honoured"
fi
try check "$work/int8.pte" --steps 0
silent $'\e['
steps terminals

# --- packed weights
cp $digits "$work/digits.pte"
try pack "$work/digits.pte"
status 0; says "wrote $work/digits.packed.ptd, " "KiB: weights for"
try run "$work/digits.pte" $three
status 0; says "packed weights: used, "
try run "$work/digits.pte" $three --exact
status 0; says "packed weights: ignored, because "
printf 'ruined' > "$work/digits.packed.ptd"
try run "$work/digits.pte" $three
status 0; says "packed weights: ignored, because "
rm "$work/digits.packed.ptd"
steps packed weights

# --- names
try inspect "$work/encoder.pte"
says "in0  inputs_0  float32 [2, 3, 8]" "out0  layer_norm_1  float32"
refuses 1 run "$work/encoder.pte"
complains "inputs_0 (in0)"
try inspect $digits
says "in0  float32 [1, 1, 8, 8]"
steps names

# --- backends that are not there
try compile "$(ls tests/golden/ggml/*.pt2 | head -n 1)" --backend ggml -o "$work/ggml.pte"
status 0
if [[ $out == *"this build lacks GgmlBackend"* ]]; then
    refuses 1 run "$work/ggml.pte" --fill ones
    complains "GgmlBackend" "sconce compile MODEL.pt2 --backend"
fi
steps missing backends

# --- small weights for all exports
for scheme in int8-dynamic int4; do
    for model in tests/golden/pt2/*.pt2; do
        try compile "$model" --quantize $scheme --backend xnnpack -o "$work/small.pte"
        status 0
    done
done
steps small weights
