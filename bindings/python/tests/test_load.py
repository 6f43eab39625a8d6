"""Loading and describing programs."""

from __future__ import annotations

import io
import pickle

import numpy
import pytest
from conftest import DIGITS, GOLDEN, golden

import sconce


def as_str(path):
    return str(path)


def as_bytes(path):
    return path.read_bytes()


def as_bytearray(path):
    return bytearray(path.read_bytes())


def as_memoryview(path):
    return memoryview(path.read_bytes())


def as_file(path):
    return io.BytesIO(path.read_bytes())


@pytest.mark.parametrize("form", [as_str, as_bytes, as_bytearray, as_memoryview, as_file, lambda path: path])
def test_a_program_comes_in_any_form(form):
    model = sconce.load(form(DIGITS / "digits.pte"))
    [image], [scores] = (list(part) for part in golden("../../examples/digits/digits"))
    assert numpy.allclose(model(image), scores, rtol=1e-4, atol=1e-5)


def test_methods_and_what_they_take():
    model = sconce.load(GOLDEN / "dynamic_batch.pte", threads=1)
    assert model.methods == ("forward",)
    assert model.threads == 1
    meta = model.method_meta()
    [taken] = meta.inputs
    [inputs, _] = golden("dynamic_batch.b8")
    assert taken.dtype == "float32" and taken.shape == inputs[0].shape and taken.dynamic
    assert taken.bounds[0] == (0, 8)
    assert taken.nbytes == inputs[0].nbytes
    static = sconce.load(DIGITS / "digits.pte").method_meta().inputs[0]
    assert static.bounds == ((1, 1), (1, 1), (8, 8), (8, 8)) and not static.dynamic


def test_numbers_among_the_inputs_are_described():
    inputs = sconce.load(GOLDEN / "scalar_inputs.pte").method_meta().inputs
    kinds = [info.kind for info in inputs if isinstance(info, sconce.ValueInfo)]
    assert {"int", "float", "bool", "none"} <= set(kinds)


def test_external_data_is_given_by_path():
    inputs, outputs = golden("external_constants")
    with pytest.raises(sconce.Error):
        sconce.load(GOLDEN / "external_constants.pte")(*inputs)
    for data in [GOLDEN / "external_constants.ptd", [str(GOLDEN / "external_constants.ptd")]]:
        model = sconce.load(GOLDEN / "external_constants.pte", data=data)
        assert numpy.allclose(model(*inputs), outputs[0], rtol=1e-4, atol=1e-5)


def test_errors_are_sentences_with_codes(tmp_path):
    with pytest.raises(sconce.Error, match="nothing.pte") as caught:
        sconce.load(tmp_path / "nothing.pte")
    assert caught.value.code == 0x22 and isinstance(caught.value, RuntimeError)
    with pytest.raises(sconce.Error) as caught:
        sconce.load(b"not a program")
    assert caught.value.code == 0x23
    model = sconce.load(DIGITS / "digits.pte")
    with pytest.raises(sconce.Error, match="no method `backward`; it has forward") as caught:
        model.run("backward")
    assert caught.value.code == 0x12
    with pytest.raises(sconce.Error, match="takes 1 input"):
        model()
    with pytest.raises(sconce.Error, match=r"input 0 of `forward` must be float32 \[1, 1, 8, 8\].*float64"):
        model(numpy.zeros((1, 1, 8, 8)))
    with pytest.raises(TypeError, match="neither an array"):
        model(object())
    with pytest.raises(TypeError, match="path, bytes or an open file"):
        sconce.load(3)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and again.code == caught.value.code


def test_limits_hold():
    with pytest.raises(sconce.Error, match="the limit is 10"):
        sconce.load(DIGITS / "digits.pte", memory_limit=10).session()


def test_cut_files_are_errors_and_no_crashes():
    program = (GOLDEN / "convnet.pte").read_bytes()
    for length in range(0, len(program), max(1, len(program) // 50)):
        with pytest.raises(sconce.Error):
            sconce.load(program[:length]).session()


def test_a_missing_file_is_one_for_python_too(tmp_path):
    for load in [sconce.load, lambda path: sconce.load(DIGITS / "digits.pte", data=path)]:
        with pytest.raises(FileNotFoundError, match="nothing.pte") as caught:
            load(tmp_path / "nothing.pte")
        assert isinstance(caught.value, sconce.Error) and caught.value.code == 0x22
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with pytest.raises(FileNotFoundError):
        sconce.compile(tmp_path / "nothing.pt2")
    with pytest.raises(sconce.Error, match="is a folder"):
        sconce.load(tmp_path)


def test_an_export_is_compiled_first():
    export = GOLDEN / "pt2" / "encoder.pt2"
    for source in [export, str(export), export.read_bytes(), io.BytesIO(export.read_bytes())]:
        with pytest.raises(sconce.Error, match="compile it first"):
            sconce.load(source)


def test_numbers_that_cannot_be_are_told():
    for name in ["threads", "memory_limit", "instruction_limit"]:
        with pytest.raises(sconce.Error, match=f"{name} is -1, it must not be negative"):
            sconce.load(DIGITS / "digits.pte", **{name: -1})
        with pytest.raises(TypeError, match=f"{name} is a whole number"):
            sconce.load(DIGITS / "digits.pte", **{name: "two"})
    model = sconce.load(DIGITS / "digits.pte")
    with pytest.raises(sconce.Error, match="threads is -1"):
        model.session(threads=-1)
    assert sconce.load(DIGITS / "digits.pte", threads=0).threads == model.threads


def test_very_many_threads_are_a_few():
    with pytest.warns(UserWarning, match="1000000 threads"):
        model = sconce.load(DIGITS / "digits.pte", threads=1_000_000)
    assert 16 <= model.threads < 100_000
    with pytest.warns(UserWarning, match="100000000000000000000 threads|threads would wait"):
        model.session(threads=10**20)
