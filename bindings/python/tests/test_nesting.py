"""Nested inputs and outputs, in both ways of writing them."""

from __future__ import annotations

import json
from collections import OrderedDict, namedtuple

import numpy
import pytest
from conftest import GOLDEN, golden

import sconce
from sconce._nesting import LEAF, Node, flatten, parse, unflatten

Point = namedtuple("Point", ["x", "y"])


def spec(kind=None, context=None, *children):
    return {"type": kind, "context": context, "children_spec": list(children)}


PAIR = Node("tuple", (LEAF, LEAF))


@pytest.mark.parametrize(
    ("text", "nesting"),
    [
        ("", None),
        ("$", LEAF),
        ("T2#1#1($,$)", PAIR),
        ("L1#2(T2#1#1($,$))", Node("list", (PAIR,))),
        ("D2#1#2('a':$,7:T2#1#1($,$))", Node("dict", (LEAF, PAIR), ("a", 7))),
        ("T2#1#0($,D0())", Node("tuple", (LEAF, Node("dict", (), ())))),
        ("T2#1#0($,D0)", Node("tuple", (LEAF, Node("dict", (), ())))),
        ("C(my.Type)1#1($)", Node("custom", (LEAF,), None, "my.Type")),
        ("T2#1#1($,$", None),
        ("T2#1#1($,$)x", None),
        ("D1#1($)", None),
        ("what", None),
        (json.dumps([1, spec()]), LEAF),
        (json.dumps([2, spec()]), None),
        ("[1, {}]", None),
        ("[1", None),
        ("[" * 100000, None),
        (json.dumps([1, spec("builtins.tuple", "null", spec(), spec())]), PAIR),
        (json.dumps([1, spec("builtins.dict", '["a"]', spec())]), Node("dict", (LEAF,), ("a",))),
        (json.dumps([1, spec("builtins.dict", '["a", "b"]', spec())]), None),
        (json.dumps([1, spec("some.Output", '["a"]', spec())]), Node("some.Output", (LEAF,), ("a",), "some.Output")),
    ],
)
def test_both_texts_are_read(text, nesting):
    assert parse(text) == nesting


@pytest.mark.parametrize(
    "value",
    [
        1,
        (1, 2),
        [1, (2, [3])],
        {"a": 1, "b": (2, 3)},
        OrderedDict(z=1, a=[2]),
        Point(1, (2, 3)),
        ((1, {"k": 2}), {}),
    ],
)
def test_what_is_flattened_comes_back(value):
    def text_of(value):
        if isinstance(value, Point):
            return spec("collections.namedtuple", f"{__name__}.Point", *map(text_of, value))
        if isinstance(value, OrderedDict):
            return spec("collections.OrderedDict", json.dumps(list(value)), *map(text_of, value.values()))
        if isinstance(value, dict):
            return spec("builtins.dict", json.dumps(list(value)), *map(text_of, value.values()))
        if isinstance(value, (tuple, list)):
            return spec(f"builtins.{type(value).__name__}", "null", *map(text_of, value))
        return spec()

    nesting = parse(json.dumps([1, text_of(value)]))
    flat = flatten(nesting, value, "value")
    assert flat == sorted(flat) and len(flat) == nesting.leaves
    again = unflatten(nesting, iter(flat))
    assert again == value and type(again) is type(value)


def test_a_named_tuple_that_nobody_knows_is_a_tuple():
    nesting = parse(json.dumps([1, spec("collections.namedtuple", "nowhere.Point", spec(), spec())]))
    assert unflatten(nesting, iter([1, 2])) == (1, 2)


def test_misfits_are_named():
    nesting = Node("tuple", (LEAF, Node("dict", (LEAF,), ("mask",))))
    with pytest.raises(sconce.Error, match=r"x must be a tuple of 2, not a tuple of 1"):
        flatten(nesting, (1,), "x")
    with pytest.raises(sconce.Error, match=r"x\[1\] must be a dict with 'mask', not a dict with 'mark'"):
        flatten(nesting, (1, {"mark": 2}), "x")
    with pytest.raises(sconce.Error, match=r"x\[1\] must be a dict with 'mask', not a value of type int"):
        flatten(nesting, (1, 2), "x")


def test_a_model_takes_and_gives_containers():
    [a, b, c, d], [total, first, second] = golden("containers")
    model = sconce.load(GOLDEN / "containers.pte")
    given = model([a, b], {"b": d, "a": c})
    assert list(given) == ["sum", "parts"]
    assert isinstance(given["parts"], list) and isinstance(given["parts"][1], tuple)
    for have, want in zip([given["sum"], given["parts"][0], *given["parts"][1]], [total, first, second]):
        assert numpy.allclose(have, want, rtol=1e-4, atol=1e-5)
    assert numpy.allclose(model(a, b, c, d)["sum"], total, rtol=1e-4, atol=1e-5)
    with pytest.raises(
        sconce.Error, match=r"the arguments of `forward`\[0\] must be a list of 2, not a value of type ndarray"
    ):
        model(a, {"a": c, "b": d})
