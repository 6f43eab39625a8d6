#!/usr/bin/env bash
# Builds the wheel and tries it as a user would: installed into an environment that has only NumPy, the lines of the README
# first, then all tests. Where $SCONCE_TORCH_PYTHON is a Python that has torch, the tests run there as well, over the same
# wheel; nothing is installed into it. Needs Rust and a Python of 3.10 or newer ($PYTHON); fetches maturin and pytest.
set -euo pipefail
cd "$(dirname "$0")"
repository=$(realpath ../..)

python=${PYTHON:-python3}
build=$(realpath -m "${CARGO_TARGET_DIR:-$repository/target}")
export CARGO_TARGET_DIR=$build
work=$build/python
rm -rf "$work/wheels" "$work/empty" "$work/beside" "$work/beside-pytest"
mkdir -p "$work"

[[ -x $work/tools/bin/maturin ]] || { "$python" -m venv "$work/tools" && "$work/tools/bin/pip" install -q 'maturin>=1.9,<2'; }
"$work/tools/bin/maturin" build --release --quiet --out "$work/wheels" --interpreter "$python"
wheel=$(ls "$work"/wheels/sconce-*.whl)

"$python" -m venv "$work/empty"
"$work/empty/bin/pip" install -q "$wheel"
"$work/empty/bin/python" - << 'END'
from importlib.metadata import distributions
installed = {one.metadata["Name"].lower() for one in distributions()} - {"pip", "setuptools", "wheel"}
assert installed == {"sconce", "numpy"}, installed
END

# The README's lines, from where a user would try them.
awk '/^```python$/ { inside = 1; next } /^```$/ { inside = 0 } inside' README.md > "$work/readme.py"
answer=$(cd "$repository" && "$work/empty/bin/python" "$work/readme.py")
echo "the README's lines say: $answer"
[[ $answer == 2 ]]

"$work/empty/bin/pip" install -q pytest pillow ml_dtypes
"$work/empty/bin/python" -m pytest -q -rs -p no:cacheprovider tests

if [[ -n ${SCONCE_TORCH_PYTHON:-} ]]; then
    "$work/empty/bin/pip" install -q --no-deps --target "$work/beside" "$wheel"
    "$work/empty/bin/pip" install -q --target "$work/beside-pytest" pytest
    PYTHONPATH=$work/beside:$work/beside-pytest OMP_NUM_THREADS=1 \
        "$SCONCE_TORCH_PYTHON" -m pytest -q -rs -p no:cacheprovider tests
fi
