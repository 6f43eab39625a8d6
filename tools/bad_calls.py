#!/usr/bin/env python3
"""Makes calls that cannot work, of the command, of the Python package and of the C library.

    bad_calls.py SCONCE [LIBEXECUTORCH_FFI.so]

Each call is a process of its own: it must end within ten seconds, by itself, with a status that is not 0 and with a sentence.
The tables below are the calls; to add one, add a row. The package is the `sconce` that this Python imports, and the library
is left out if none is named. Ends with code 1 if a call does anything else.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DIGITS = ROOT / "examples/digits/digits.pte"
SAMPLE = ROOT / "examples/digits/samples/digit_3_a.png"
LABELS = ROOT / "examples/digits/labels.txt"
EXPORT = ROOT / "tests/golden/pt2/encoder.pt2"
PATIENCE = 10

# What the calls are made on, in an empty folder.
FILES = {
    "empty.pte": b"",
    "text.pte": b"# A model\n\nDownload it from elsewhere.\n",
    "random.pte": bytes(range(256)) * 16,
    "cut.pte": DIGITS.read_bytes()[:9000],
    "changed.pte": bytes(byte ^ (0xFF if 100 <= at < 300 else 0) for at, byte in enumerate(DIGITS.read_bytes())),
    "pointer.pte": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
    "digits.pte": DIGITS.read_bytes(),
    "cut.pt2": EXPORT.read_bytes()[:20000],
    "text.pt2": b"not an archive",
    "empty.pt2": b"PK\x05\x06" + bytes(18),
    "model.pt2": EXPORT.read_bytes(),
    "words.txt": b"one\ntwo\nthree\n",
    "nothing.txt": b"\n\n",
    "binary.txt": bytes(range(128, 256)),
    "broken.png": b"\x89PNG\r\n\x1a\n" + bytes(40),
    "text.jpg": b"this is no image",
    "text.npy": b"this is no array",
    "cut.npy": b"\x93NUMPY\x01\x00\x46\x00{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 8, 8), }",
    "huge.npy": b"\x93NUMPY\x01\x00\x60\x00"
    + b"{'descr': '<f4', 'fortran_order': False, 'shape': (9999999, 9999999, 9999999), }".ljust(95) + b"\n",
    "object.npy": b"\x93NUMPY\x01\x00\x46\x00" + b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(69) + b"\n",
    "flat.npy": b"\x93NUMPY\x01\x00\x46\x00"
    + b"{'descr': '<f4', 'fortran_order': False, 'shape': (64,), }".ljust(69) + b"\n" + bytes(256),
    "double.npy": b"\x93NUMPY\x01\x00\x46\x00"
    + b"{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1, 8, 8), }".ljust(69) + b"\n" + bytes(512),
    "text.npz": b"this is no archive",
    "empty.npz": b"PK\x05\x06" + bytes(18),
    "text.ptd": b"this is no data file",
    "folder/readme.txt": b"nothing to run here",
}

# Arguments of the command.
COMMANDS = """
    rnu
    dance
    digits.pte
    --nonsense
    run
    run missing.pte
    run .
    run folder
    run empty.pte
    run text.pte
    run random.pte
    run cut.pte
    run changed.pte --fill ones
    run pointer.pte
    run digits.pte
    run digits.pte missing.npy
    run digits.pte words.txt
    run digits.pte --input text.npy
    run digits.pte --input cut.npy
    run digits.pte --input huge.npy
    run digits.pte --input object.npy
    run digits.pte --input flat.npy
    run digits.pte --input double.npy
    run digits.pte --input text.npz
    run digits.pte --input empty.npz
    run digits.pte --input broken.png
    run digits.pte --input text.jpg
    run digits.pte --input SAMPLE --input SAMPLE
    run digits.pte SAMPLE --input SAMPLE
    run digits.pte SAMPLE --fill ones
    run digits.pte folder
    run digits.pte --fill twos
    run digits.pte SAMPLE --method backward
    run digits.pte SAMPLE --threads -1
    run digits.pte SAMPLE --threads many
    run digits.pte SAMPLE --repeat 0
    run digits.pte SAMPLE --repeat -1
    run digits.pte SAMPLE --repeat 99999999999
    run digits.pte SAMPLE SAMPLE --repeat 2
    run digits.pte SAMPLE SAMPLE --output out.npz
    run digits.pte SAMPLE --labels words.txt
    run digits.pte SAMPLE --labels nothing.txt
    run digits.pte SAMPLE --labels binary.txt
    run digits.pte SAMPLE --labels missing.txt
    run digits.pte SAMPLE --mean 1,2
    run digits.pte SAMPLE --mean a,b,c
    run digits.pte SAMPLE --std 0
    run digits.pte SAMPLE --std -
    run digits.pte SAMPLE --resize 12
    run digits.pte SAMPLE --resize 0x8
    run digits.pte SAMPLE --resize 99999999x99999999
    run digits.pte SAMPLE --resize 4x4
    run digits.pte SAMPLE --preset imagenet
    run digits.pte SAMPLE --preset cats
    run digits.pte SAMPLE --backend xnnpack
    run digits.pte SAMPLE --engine steam
    run digits.pte SAMPLE --data text.ptd
    run digits.pte SAMPLE --data missing.ptd
    run digits.pte SAMPLE --output folder
    run digits.pte SAMPLE --output missing/out.npz
    run model.pt2 --backend tpu --fill ones
    run cut.pt2
    inspect
    inspect missing.pte
    inspect folder
    inspect text.ptd
    inspect cut.pte
    inspect digits.pte --profile
    inspect digits.pte --threads -1
    check
    check missing.pte
    check folder
    check digits.pte
    check digits.pte missing.npz
    check digits.pte empty.npz
    check digits.pte text.npz
    check digits.pte --rtol -1
    check digits.pte --atol nan
    check digits.pte --steps -1
    check digits.pte --steps half
    bench
    bench missing.pte
    bench text.pte
    bench digits.pte --seconds -1
    bench digits.pte --seconds inf
    bench digits.pte --seconds soon
    bench digits.pte --warm-up -3
    bench digits.pte --threads -8
    bench digits.pte --backend xnnpack
    bench digits.pte --compare=/nowhere/python
    bench digits.pte --compare=false
    pack
    pack missing.pte
    pack model.pt2
    pack digits.pte --target abacus
    pack digits.pte --output folder
    pack digits.pte --backend xnnpack
    compile
    compile missing.pt2
    compile folder
    compile digits.pte
    compile text.pt2
    compile empty.pt2
    compile cut.pt2
    compile model.pt2 --backend tpu -o out.pte
    compile model.pt2 -o model.pt2
    compile model.pt2 -o folder
    compile model.pt2 -o missing/out.pte
    compile model.pt2 -o out.pte --debug-map out.pte
    compile model.pt2 -o out.pte --arena -1
    compile model.pt2 -o out.pte --arena 64
    compile model.pt2 -o out.pte --arena plenty
    compile model.pt2 -o out.pte --quantize roman
    compile model.pt2 -o out.pte --quantize int4 --group-size 7
    compile model.pt2 -o out.pte --quantize int4 --group-size -32
    compile model.pt2 -o out.pte --quantize int8 --calibrate missing.npz
    compile model.pt2 -o out.pte --quantize int8 --calibrate empty.npz
    compile model.pt2 -o out.pte --calibrate empty.npz
    compile model.pt2 -o out.pte --group-size 32
    compile model.pt2 -o out.pte --quantize q4_k
    compile model.pt2 -o out.pte --weights missing.gguf
    completions
    completions perl
"""

# Lines of Python; `m` is the digits model, `x` an input that fits it.
PACKAGE = """
    sconce.load("missing.pte")
    sconce.load("folder")
    sconce.load("empty.pte")
    sconce.load("text.pte")
    sconce.load("cut.pte")
    sconce.load("model.pt2")
    sconce.load(open("model.pt2", "rb"))
    sconce.load(b"not a program")
    sconce.load(3)
    sconce.load(None)
    sconce.load("digits.pte", threads=-1)
    sconce.load("digits.pte", threads="two")
    sconce.load("digits.pte", threads=1.5)
    sconce.load("digits.pte", memory_limit=-1)
    sconce.load("digits.pte", memory_limit=10)(x)
    sconce.load("digits.pte", instruction_limit=1, plan=False)(x)
    sconce.load("digits.pte", instructions="abacus")
    sconce.load("digits.pte", data="text.ptd")
    sconce.load("digits.pte", data=["missing.ptd"])
    m.session("backward")
    m.session(threads=-1)
    m.method_meta("backward")
    m.run("backward")
    m()
    m(x, x)
    m(image=x)
    m(x, image=x)
    m("text")
    m(None)
    m(3)
    m(object())
    m([[x]])
    m({"x": x})
    m(numpy.zeros((1, 1, 8, 9), "float32"))
    m(numpy.zeros((2, 1, 8, 8), "float32"))
    m(numpy.zeros((1, 1, 8, 8), "float64"))
    m(numpy.zeros((1, 1, 8, 8), object))
    m(numpy.zeros((0, 1, 8, 8), "float32"))
    m(numpy.zeros((1,) * 20, "float32"))
    m(numpy.zeros((1, 1, 8, 8), ">f4").view("V4"))
    sconce.compile("missing.pt2")
    sconce.compile("folder")
    sconce.compile("text.pt2")
    sconce.compile("digits.pte")
    sconce.compile(b"")
    sconce.compile(3)
    sconce.compile({})
    sconce.compile("model.pt2", backends=["tpu"])
    sconce.compile("model.pt2", backends="xnnpack", quantize="roman")
    sconce.compile("model.pt2", quantize="int4", group_size=7)
    sconce.compile("model.pt2", quantize="int4", group_size=-32)
    sconce.compile("model.pt2", quantize="int8", group_size=32)
    sconce.compile("model.pt2", quantize="int8", calibrate=[])
    sconce.compile("model.pt2", quantize="int8", calibrate=[(x,)])
    sconce.compile("model.pt2", quantize="int8", calibrate=[{"x": x}])
    sconce.compile("model.pt2", quantize="int8", calibrate=3)
    sconce.compile("model.pt2", calibrate=[(x,)])
"""

# Calls of the C library. `lib` is it, `module` the digits model, `image` an input that fits it; `module(...)` and so on are
# the helpers below. A call gives an ETStatus.
LIBRARY = """
    lib.et_module_load(None, 0, out())
    lib.et_module_load(b"not a program", 13, out())
    lib.et_module_load(b"not a program", 13, None)
    lib.et_module_load_file(b"missing.pte", out())
    lib.et_module_load_file(b"folder", out())
    lib.et_module_load_file(b"cut.pte", out())
    lib.et_module_load_file(b"model.pt2", out())
    lib.et_module_load_file(None, out())
    lib.et_module_load_file(b"digits.pte", None)
    lib.et_module_load_file(bytes([0xFF, 0xFE]), out())
    lib.et_module_load_file_with(b"digits.pte", options(threads=-1), out())
    lib.et_module_load_file_with(b"digits.pte", options(engine=7), out())
    lib.et_module_load_file_with(b"digits.pte", options(size=0), out())
    lib.et_module_load_file_with(b"digits.pte", options(memory_limit=10), out())
    lib.et_module_load_best(None, 1, out(), None, None)
    lib.et_module_load_best(None, -1, out(), None, None)
    lib.et_module_forward(None, array(image), 1, out(), count())
    lib.et_module_forward(module, None, 1, out(), count())
    lib.et_module_forward(module, array(image), 0, out(), count())
    lib.et_module_forward(module, array(image, image), 2, out(), count())
    lib.et_module_forward(module, array(image), -1, out(), count())
    lib.et_module_forward(module, array(None), 1, out(), count())
    lib.et_module_forward(module, array(image), 1, None, count())
    lib.et_module_forward(module, array(image), 1, out(), None)
    lib.et_module_forward(module, array(tensor([8, 8])), 1, out(), count())
    lib.et_module_run(module, b"backward", None, 0, out(), count())
    lib.et_module_run(module, None, None, 0, out(), count())
    lib.et_module_method_counts(module, b"backward", count(), count())
    lib.et_module_input_info(module, b"forward", 9, None)
    lib.et_module_input_info(module, b"forward", -1, None)
    lib.et_session_create(module, b"backward", out())
    lib.et_session_create(None, b"forward", out())
    lib.et_session_create(module, b"forward", None)
    lib.et_tensor_create(None, 256, shape(64), 1, 0, out())
    lib.et_tensor_create(bytes(256), 255, shape(64), 1, 0, out())
    lib.et_tensor_create(bytes(256), 256, shape(-64), 1, 0, out())
    lib.et_tensor_create(bytes(256), 256, shape(1 << 62, 1 << 62), 2, 0, out())
    lib.et_tensor_create(bytes(256), 256, shape(64), -1, 0, out())
    lib.et_tensor_create(bytes(256), 256, shape(64), 1 << 30, 0, out())
    lib.et_tensor_create(bytes(256), 256, shape(64), 1, 99, out())
    lib.et_tensor_create(bytes(256), 256, shape(64), 1, 0, None)
    lib.et_tensor_create(bytes(256), 256, None, 1, 0, out())
    lib.et_estimate_memory(b"missing.pte", b"forward", None)
    lib.et_estimate_memory(b"digits.pte", b"backward", None)
    lib.et_pack_weights(b"missing.pte", None, None)
    lib.et_pack_weights(None, None, None)
    lib.et_async_configure(-1, 0)
    lib.et_async_configure(0, -1)
    lib.et_kernel_register(None, 1, 0, None, None)
    lib.et_backend_register(None)
    lib.et_delegate_create(b"MoonBackend", None, None, out())
    lib.et_module_set_profiler(None, None, None)
"""

PRELUDE = """
import numpy, sconce
x = numpy.zeros((1, 1, 8, 8), "float32")
m = sconce.load("digits.pte")
try:
    {call}
except Exception as error:
    print(f"{{type(error).__name__}}: {{error}}")
    raise SystemExit(3)
"""

C_PRELUDE = """
import ctypes, sys

class Status(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int32), ("message", ctypes.c_char_p), ("location", ctypes.c_char_p)]

class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("threads", ctypes.c_int32), ("engine", ctypes.c_int32),
        ("exact", ctypes.c_int32), ("copy", ctypes.c_int32), ("memory_limit", ctypes.c_uint64),
        ("instruction_limit", ctypes.c_uint64), ("data_paths", ctypes.c_void_p), ("data_path_count", ctypes.c_int32)]

class Library:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)

    def __getattr__(self, name):
        function = getattr(self.library, name)
        function.restype = ctypes.POINTER(Status)
        return lambda *args: function(*map(given, args))

def given(value):
    if isinstance(value, int):
        return ctypes.c_int64(value)
    return value

def out():
    return ctypes.byref(ctypes.c_void_p())

def count():
    return ctypes.byref(ctypes.c_int32())

def shape(*sizes):
    return (ctypes.c_int64 * len(sizes))(*sizes)

def array(*things):
    return (ctypes.c_void_p * len(things))(*things)

def options(**fields):
    return ctypes.byref(Options(**{{"size": ctypes.sizeof(Options), **fields}}))

def tensor(sizes):
    made, bytes_ = ctypes.c_void_p(), 4
    for size in sizes:
        bytes_ *= size
    status = lib.et_tensor_create(bytes(bytes_), bytes_, shape(*sizes), len(sizes), 0, ctypes.byref(made))
    assert status.contents.code == 0, status.contents.message
    return made.value

lib = Library(sys.argv[1])
handle = ctypes.c_void_p()
assert lib.et_module_load_file(b"digits.pte", ctypes.byref(handle)).contents.code == 0
module, image = handle, tensor([1, 1, 8, 8])
status = {call}
print((status.contents.message or b"").decode())
raise SystemExit(status.contents.code and 3)
"""


def rows(table):
    return [line.strip() for line in table.splitlines() if line.strip()]


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    sconce, library = os.path.abspath(sys.argv[1]), [os.path.abspath(path) for path in sys.argv[2:]]
    words = {"SAMPLE": str(SAMPLE), "LABELS": str(LABELS)}
    calls = [("command", row, [sconce, *(words.get(word, word) for word in row.split())]) for row in rows(COMMANDS)]
    calls += [("package", row, [sys.executable, "-c", PRELUDE.format(call=row)]) for row in rows(PACKAGE)]
    for path in library:
        calls += [("library", row, [sys.executable, "-c", C_PRELUDE.format(call=row), path]) for row in rows(LIBRARY)]
    with tempfile.TemporaryDirectory() as folder:
        for name, content in FILES.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        before = sorted(os.listdir(folder))
        wrong = [f"{kind}: {row}\n    {problem}" for kind, row, call in calls if (problem := judge(kind, call, folder))]
        if (after := sorted(os.listdir(folder))) != before:
            wrong.append(f"files were left behind: {sorted(set(after) - set(before))}")
    print("\n".join(wrong))
    print(f"{len(calls)} bad calls, {len(wrong)} answered badly")
    sys.exit(1 if wrong else 0)


def judge(kind, call, folder):
    """What is wrong with the answer to a call, if something is."""
    try:
        done = subprocess.run(call, cwd=folder, capture_output=True, text=True, errors="replace", timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return f"it takes more than {PATIENCE} seconds"
    said = f"status {done.returncode}: {(done.stdout + done.stderr).strip()[-600:]}"
    if done.returncode < 0 or "panicked at" in done.stderr or "Traceback" in done.stderr:
        return f"a crash, {said}"
    if done.returncode not in ((1, 2) if kind == "command" else (3,)):
        return said
    sentence = done.stderr + "".join(line for line in done.stdout.splitlines() if line.startswith("FAIL"))
    sentence = sentence if kind == "command" else done.stdout
    usage = "Usage:" in sentence and kind == "command"
    told = [line for line in sentence.splitlines() if len(line.split()) >= 3]
    if not (usage or told) or (kind == "command" and "error" not in sentence and "FAIL" not in sentence):
        return f"no sentence, {said}"
    if kind == "package" and sentence.startswith(("OverflowError", "SystemError", "AssertionError", "KeyError", "IndexError")):
        return f"not an error for people, {said}"
    return None


if __name__ == "__main__":
    main()
