#!/usr/bin/env bash
# The ggml backend in the official C++ runtime: a program and a library by CMake against the headers and libraries of the
# official package, golden programs on them. $SCONCE_OFFICIAL_PYTHON is a Python that has that package. Needs cargo, a C++
# compiler, CMake, and what ggml needs to be compiled. `official.sh debug` does it with the debug library and command.
set -euo pipefail
case ${1:-release} in
    release) type=Release ;;
    debug) type=Debug ;;
    *) echo "$1 is neither release nor debug" >&2; exit 2 ;;
esac
root=$(cd "$(dirname "$0")/../../.." && pwd)
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}
python=${SCONCE_OFFICIAL_PYTHON:-$CARGO_TARGET_DIR/official/bin/python}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

package=$("$python" -c 'import importlib.util as find; print(find.find_spec("executorch").submodule_search_locations[0])')
cmake -S "$root/crates/ffi/tests/official" -B "$work/build" -DSCONCE="$root" -DCMAKE_PREFIX_PATH="$package" \
    -DCMAKE_BUILD_TYPE="$type" > /dev/null
cmake --build "$work/build"

# One program in C++, from the files of its golden run.
compile() { "$CARGO_TARGET_DIR/${type,,}/sconce" compile "$1" --backend ggml -o "$2" > /dev/null; }
compile "$root/tests/golden/ggml/linear.pt2" "$work/linear.pte"
"$python" - "$root/tests/golden/ggml/linear.npz" "$work" << 'END'
import sys, numpy
numpy.load(sys.argv[1])["in0"].tofile(sys.argv[2] + "/in.bin")
END
"$work/build/official" "$work/linear.pte" "$work/in.bin" "$work/out.bin"
"$python" - "$root/tests/golden/ggml/linear.npz" "$work" << 'END'
import sys, numpy
wanted = numpy.load(sys.argv[1])["out0"]
given = numpy.fromfile(sys.argv[2] + "/out.bin", wanted.dtype).reshape(wanted.shape)
numpy.testing.assert_allclose(given, wanted, rtol=1e-4, atol=1e-5)
print("the C++ program agrees with PyTorch")
END

# All of them in a Python process.
mkdir "$work/programs"
for golden in "$root"/tests/golden/ggml/*.npz; do
    name=$(basename "${golden%.npz}")
    compile "$root/tests/golden/ggml/$name.pt2" "$work/programs/$name.pte"
    cp "$golden" "$work/programs"
done
"$python" "$root/tools/official_agrees.py" --library="$work/build/libggml_backend.so" "$work/programs"
