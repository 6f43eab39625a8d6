"""Running: values, memory, threads."""

from __future__ import annotations

import gc
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy
import pytest
from conftest import GOLDEN, golden

import sconce

#: Largest differences: (relative, absolute) by element type; bfloat16 comes as the bits of its elements.
TOLERANCE = {"float16": (5e-3, 1e-3), "float32": (1e-4, 1e-5), "float64": (1e-7, 1e-7)}


def check(given, wanted):
    given = numpy.asarray(given)
    assert given.shape == wanted.shape and given.dtype == wanted.dtype
    rtol, atol = TOLERANCE.get(str(wanted.dtype), (0, 0))
    assert numpy.allclose(given, wanted, rtol=rtol, atol=atol, equal_nan=True)


@pytest.mark.parametrize(
    "name",
    """mlp convnet mobile_block lstm bert channels_last zero_dim.a empty promotion quantized_static
    dtype_int64 dtype_int32 dtype_int16 dtype_int8 dtype_uint8 dtype_bool dtype_float64 dtype_float16
    dynamic_batch.b1 dynamic_batch.b3 dynamic_image.8x6 views""".split(),
)
def test_golden_programs_in_a_row(name):
    inputs, outputs = golden(name)
    session = sconce.load(GOLDEN / f"{name.split('.')[0]}.pte").session()
    given = session.run_flat(inputs)
    assert len(given) == len(outputs)
    for have, want in zip(given, outputs):
        check(have, want)


def test_bfloat16_is_its_bits_in_plain_numpy(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    inputs, outputs = golden("dtype_bfloat16")
    session = sconce.load(GOLDEN / "dtype_bfloat16.pte").session()
    given = session.run_flat(inputs)
    for have, want, info in zip(given, outputs, session.meta.outputs):
        assert have.dtype == want.dtype
        if info.dtype == "bfloat16":
            assert have.dtype == numpy.uint16
            floats = [(bits.astype(numpy.uint32) << 16).view(numpy.float32) for bits in (have, want)]
            assert numpy.allclose(*floats, rtol=2e-2, atol=1e-2)


def test_bfloat16_of_ml_dtypes_goes_in_and_out():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    inputs, outputs = golden("dtype_bfloat16")
    session = sconce.load(GOLDEN / "dtype_bfloat16.pte").session()
    wide = [info.dtype == "bfloat16" for info in session.meta.inputs]
    given = session.run_flat([one.view(ml_dtypes.bfloat16) if bits else one for one, bits in zip(inputs, wide)])
    for have, want, info in zip(given, outputs, session.meta.outputs):
        if info.dtype == "bfloat16":
            assert have.dtype == ml_dtypes.bfloat16
            floats = [have.astype(numpy.float32), want.view(ml_dtypes.bfloat16).astype(numpy.float32)]
            assert numpy.allclose(*floats, rtol=2e-2, atol=1e-2)


def test_numbers_are_inputs_and_outputs():
    inputs, outputs = golden("scalar_inputs")
    model = sconce.load(GOLDEN / "scalar_inputs.pte")
    arrays = iter(inputs)
    infos = model.method_meta().inputs
    flat = [info.value if isinstance(info, sconce.ValueInfo) else next(arrays) for info in infos]
    check(model.session().run_flat(flat)[0], outputs[0])
    index = next(i for i, info in enumerate(infos) if isinstance(info, sconce.ValueInfo) and info.kind == "int")
    with pytest.raises(sconce.Error, match="exported for the number"):
        model.session().run_flat([value + 1 if i == index else value for i, value in enumerate(flat)])
    scalars = [numpy.float32(one) if isinstance(one, float) else one for one in flat]
    scalars = [numpy.int64(one) if type(one) is int else one for one in scalars]
    check(model.session().run_flat(scalars)[0], outputs[0])
    numbers = sconce.load(GOLDEN / "methods.pte")
    for method in ["get_vocab_size", "get_scale", "use_cache"]:
        _, [want] = golden(f"methods.{method}")
        given = numbers.run(method)
        assert isinstance(given, (bool, int, float)) and given == want.item()


def test_arrays_of_any_layout_are_inputs():
    [image], [scores] = golden("../../examples/digits/digits")
    model = sconce.load(GOLDEN / "../../examples/digits/digits.pte")
    gaps = numpy.zeros((1, 1, 16, 16), image.dtype)
    gaps[:, :, ::2, ::2] = image
    backwards = numpy.ascontiguousarray(image[:, :, ::-1])
    shifted = numpy.frombuffer(b"." + image.tobytes(), numpy.uint8)[1:].view(numpy.float32).reshape(image.shape)
    read_only = image.copy()
    read_only.flags.writeable = False
    layouts = {
        "gaps": gaps[:, :, ::2, ::2],
        "backwards": backwards[:, :, ::-1],
        "column-major": numpy.asfortranarray(image),
        "across alignment": shifted,
        "read-only": read_only,
        "big-endian": image.astype(">f4"),
        "broadcast": numpy.broadcast_to(image[0], image.shape),
    }
    for name, layout in layouts.items():
        assert numpy.allclose(model(layout), scores, rtol=1e-4, atol=1e-5), name


def test_scalars_of_numpy_are_tensors_without_dimensions():
    inputs, outputs = golden("zero_dim.a")
    session = sconce.load(GOLDEN / "zero_dim.pte").session()
    for have, want in zip(session.run_flat([one[()] if one.ndim == 0 else one for one in inputs]), outputs):
        check(have, want)


def test_views_compute_what_their_copies_do():
    """Random transpositions, steps, reversals and repetitions of a larger array."""
    chance = numpy.random.default_rng(0)
    session = sconce.load(GOLDEN / "dynamic_image.pte").session()
    [[example], _] = golden("dynamic_image.8x6")
    for _ in range(200):
        shape = (*example.shape[:2], *(2 * chance.integers(2, 7, 2)))
        order = chance.permutation(4)
        steps = chance.choice([-2, -1, 1, 1, 2, 0], 4)
        stored = [1 if steps[dim] == 0 else shape[dim] * abs(steps[dim]) for dim in order]
        base = chance.standard_normal(stored).astype(example.dtype).transpose(numpy.argsort(order))
        view = numpy.broadcast_to(base[tuple(slice(None, None, step or 1) for step in steps)], shape)
        for have, want in zip(session.run_flat([view]), session.run_flat([numpy.ascontiguousarray(view)])):
            check(have, want)


def test_channels_last_memory_is_taken_as_it_is():
    inputs, outputs = golden("channels_last")
    session = sconce.load(GOLDEN / "channels_last.pte").session()
    last = [numpy.ascontiguousarray(one.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2) for one in inputs]
    for have, want in zip(session.run_flat(last), outputs):
        check(have, want)


def test_results_own_their_memory():
    inputs, _ = golden("mlp")
    model = sconce.load(GOLDEN / "mlp.pte")
    first = model(*inputs)
    assert first.base is not None and first.flags.writeable
    kept = first.copy()
    model(*[numpy.zeros_like(one) for one in inputs])
    del model
    gc.collect()
    assert numpy.array_equal(first, kept)
    first[:] = 7
    assert (first == 7).all()


def test_sessions_keep_their_own_state():
    model = sconce.load(GOLDEN / "initial_state.pte")
    steps = [golden(f"initial_state.step{step}") for step in range(3)]
    one, other = model.session(), model.session()
    for inputs, outputs in steps:
        for have, want in zip(one.run_flat(inputs), outputs):
            check(have, want)
    for have, want in zip(other.run_flat(steps[0][0]), steps[0][1]):
        check(have, want)


def test_threads_run_sessions_of_one_model():
    inputs, outputs = golden("convnet")
    model = sconce.load(GOLDEN / "convnet.pte", threads=1)

    def work(_):
        session = model.session()
        for _ in range(50):
            for have, want in zip(session.run_flat(inputs), outputs):
                check(have, want)
        return True

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [True] * 4


def test_python_goes_on_while_a_program_runs():
    """Nobody is asked to let go of the interpreter's lock here: another thread gets it only if a run gives it away."""
    inputs, _ = golden("bert")
    session = sconce.load(GOLDEN / "bert.pte", threads=1).session()
    go, went = threading.Lock(), []

    def other():
        with go:
            went.append(True)

    interval = sys.getswitchinterval()
    go.acquire()
    waiting = threading.Thread(target=other)
    waiting.start()
    sys.setswitchinterval(1000)
    try:
        go.release()
        until = time.monotonic() + 20
        while not went and time.monotonic() < until:
            session.run_flat(inputs)
        during_a_run = bool(went)
    finally:
        sys.setswitchinterval(interval)
        waiting.join()
    assert during_a_run


def test_arguments_go_by_the_names_of_the_export():
    model = sconce.load(sconce.compile(GOLDEN / "pt2" / "attention.pt2"))
    names = [info.name for info in model.method_meta().inputs]
    assert None not in names and len(set(names)) == len(names)
    inputs, outputs = golden("pt2/attention")
    for given, wanted in zip(model(**dict(zip(names, inputs))), outputs, strict=True):
        check(given, wanted)
    with pytest.raises(TypeError, match="takes no keyword unheard: its inputs are"):
        model(unheard=inputs[0])
    with pytest.raises(TypeError, match="twice"):
        model(*inputs, **{names[0]: inputs[0]})
    with pytest.raises(TypeError, match="records no names"):
        sconce.load(GOLDEN / "mlp.pte")(x=numpy.zeros((1, 16), "float32"))
