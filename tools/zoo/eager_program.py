"""Runs a program operator by operator with eager PyTorch.

The operators are found by name among torch's; a program with quantised weights thus gives what PyTorch computes with
these very weights. Values that share planned memory share it here too: arenas are plain bytes, and each result is
copied to where the program wants it.
"""

import math

import numpy as np
import torch
import torch.ao.quantization.fx._decomposed  # registers the others
from executorch.exir import schema
from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.exir.scalar_type import ScalarType

DTYPES = {
    ScalarType.BYTE: torch.uint8,
    ScalarType.CHAR: torch.int8,
    ScalarType.SHORT: torch.int16,
    ScalarType.INT: torch.int32,
    ScalarType.LONG: torch.int64,
    ScalarType.HALF: torch.float16,
    ScalarType.FLOAT: torch.float32,
    ScalarType.DOUBLE: torch.float64,
    ScalarType.COMPLEX64: torch.complex64,
    ScalarType.COMPLEX128: torch.complex128,
    ScalarType.BOOL: torch.bool,
    ScalarType.BFLOAT16: torch.bfloat16,
    ScalarType.UINT16: torch.uint16,
}
# Operators on numbers, and those without a twin in torch.
NUMBERS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "truediv": lambda a, b: a / b,
    "mod": lambda a, b: a % b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "gt": lambda a, b: a > b,
    "lt": lambda a, b: a < b,
    "ge": lambda a, b: a >= b,
    "le": lambda a, b: a <= b,
    "neg": lambda a: -a,
    "sym_float": float,
    "sym_max": max,
    "sym_min": min,
    "ceil": math.ceil,
    "round": round,
    "trunc": math.trunc,
}


class Place:
    """A tensor value: where its bytes lie, and its sizes at the moment."""

    def __init__(self, spec, storage, offset):
        self.dtype, self.order = DTYPES[spec.scalar_type], list(spec.dim_order)
        self.sizes, self.storage, self.offset = list(spec.sizes), storage, offset

    def read(self):
        count, bytes_each = math.prod(self.sizes), self.dtype.itemsize
        flat = self.storage[self.offset : self.offset + count * bytes_each]
        if self.offset % bytes_each:
            flat = flat.clone()
        strides, step = [0] * len(self.sizes), 1
        for dimension in reversed(self.order):
            strides[dimension] = step
            step *= self.sizes[dimension]
        return flat.view(self.dtype).as_strided(self.sizes, strides)

    def write(self, value):
        if value.dtype != self.dtype:
            raise TypeError(f"a result is {value.dtype}, the program wants {self.dtype}")
        self.sizes = list(value.shape)
        own = value.clone()
        needed = self.offset + own.numel() * self.dtype.itemsize
        if needed > len(self.storage):
            raise ValueError(f"a result of {list(value.shape)} does not fit the memory planned for it")
        self.read().copy_(own)


class Session:
    """A method of a program with its memory, which lasts from run to run."""

    def __init__(self, program, name=None):
        file = deserialize_pte_binary(program)
        self.file, plans = file, file.program.execution_plan
        self.plan = next(plan for plan in plans if name in (None, plan.name))
        self.arenas = [torch.zeros(size, dtype=torch.uint8) for size in self.plan.non_const_buffer_sizes]
        self.values = [self.value(own.val) for own in self.plan.values]
        names = [(own.name, own.overload) for own in self.plan.operators]
        self.operators = [operator(*own) for own in names]

    def value(self, spec):
        match spec:
            case schema.Tensor():
                return self.tensor(spec)
            case schema.Int():
                return spec.int_val
            case schema.Bool():
                return spec.bool_val
            case schema.Double():
                return float(spec.double_val)
            case schema.String():
                return spec.string_val
            case schema.Null():
                return None
        return spec

    def tensor(self, spec):
        size = math.prod(spec.sizes) * DTYPES[spec.scalar_type].itemsize
        planned, index = spec.allocation_info, spec.data_buffer_idx
        if planned is None:
            return Place(spec, data(self.file.program.constant_buffer, index, size), 0)
        place = Place(spec, self.arenas[planned.memory_id], planned.memory_offset)
        if index:
            place.storage[place.offset : place.offset + size] = data(self.file.mutable_data, index, size)
        return place

    def get(self, index):
        """What an operator sees of a value."""
        value = self.values[index]
        match value:
            case Place():
                return value.read()
            case schema.IntList() | schema.TensorList():
                return [self.get(item) for item in value.items]
            case schema.OptionalTensorList():
                return [None if item < 0 else self.get(item) for item in value.items]
            case schema.BoolList() | schema.DoubleList():
                return list(value.items)
        return value

    def set(self, index, result):
        value = self.values[index]
        if isinstance(value, Place):
            value.write(result)
        elif isinstance(value, schema.TensorList):
            for item, part in zip(value.items, result, strict=True):
                self.set(item, part)
        else:
            self.values[index] = result

    def run(self, *inputs):
        for index, given in zip(self.plan.inputs, inputs, strict=True):
            self.set(index, given)
        [chain] = self.plan.chains
        at = 0
        while at < len(chain.instructions):
            call = chain.instructions[at].instr_args
            at += 1
            match call:
                case schema.KernelCall():
                    try:
                        self.operators[call.op_index](self, call.args)
                    except Exception as error:
                        own = self.plan.operators[call.op_index]
                        error.add_note(f"instruction {at - 1}, {own.name}.{own.overload}")
                        raise
                case schema.MoveCall():
                    self.values[call.move_to] = self.values[call.move_from]
                case schema.JumpFalseCall():
                    if not bool(self.get(call.cond_value_index)):
                        at = call.destination_instruction
                case schema.FreeCall():
                    pass
                case _:
                    raise ValueError(f"no word for {type(call).__name__}")
        results = [self.get(index) for index in self.plan.outputs]
        return [result.clone() if isinstance(result, torch.Tensor) else result for result in results]


def data(buffers, index, size):
    """The bytes of a buffer, zeros for none. Equal ones lie in one place, where only the last of them has a length."""
    found = bytearray()
    while index and len(found) < size:
        found += buffers[index].storage
        index += 1
    return torch.frombuffer(found[:size] or bytearray(max(size, 1)), dtype=torch.uint8)


def operator(name, overload):
    """What carries out an operator: a function of the session and the numbers of its arguments."""
    space, _, word = name.partition("::")
    if space == "executorch_prim" and word in NUMBERS:
        return lambda session, args: session.set(args[-1], NUMBERS[word](*map(session.get, args[:-1])))
    if (own := OWN.get(word)) is not None:
        return own
    packet = getattr(getattr(torch.ops, space), word)
    overloads = packet.overloads()
    plain = "default" if overload == "out" else overload.removesuffix("_out")
    # Some names differ in case alone.
    plain = next((own for own in overloads if own.lower() == plain.lower()), plain)
    # The functional form of quantisation is PyTorch's own; the other one comes with the official runtime.
    if overload not in overloads or (space == "quantized_decomposed" and plain in overloads):
        return functional(getattr(packet, plain))
    return writing(getattr(packet, overload))


def functional(function):
    parameters, count = function._schema.arguments, len(function._schema.returns)

    def call(session, args):
        positional, keywords = arguments(parameters, map(session.get, args[: len(parameters)]))
        results = function(*positional, **keywords)
        for index, result in zip(args[len(parameters) :], results if count > 1 else [results]):
            session.set(index, result)

    return call


def writing(function):
    """An operator that writes into tensors: it gets empty ones, so that nothing it reads can be overwritten."""
    parameters = function._schema.arguments
    is_out = [parameter.is_out for parameter in parameters]

    def call(session, args):
        given, outs = [], []
        for index, out in zip(args, is_out):
            if not out:
                given.append(session.get(index))
                continue
            value = session.values[index]
            lists = value.items if isinstance(value, schema.TensorList) else None
            fresh = [torch.empty(0, dtype=session.values[item].dtype) for item in lists or [index]]
            outs.append((index, fresh if lists is not None else fresh[0]))
            given.append(outs[-1][1])
        positional, keywords = arguments(parameters, given)
        function(*positional, **keywords)
        for index, result in outs:
            session.set(index, result)

    return call


def arguments(parameters, values):
    positional, keywords = [], {}
    for parameter, value in zip(parameters, values):
        kind = str(parameter.real_type)
        if isinstance(value, int) and not isinstance(value, bool) and "ScalarType" in kind:
            value = DTYPES[ScalarType(value)]
        elif "MemoryFormat" in kind or "Layout" in kind or "Device" in kind or "Generator" in kind:
            value = None
        if parameter.kwarg_only:
            keywords[parameter.name] = value
        else:
            positional.append(value)
    return positional, keywords


def view(session, args):
    source, sizes, out = session.values[args[0]], session.get(args[1]), session.values[args[2]]
    out.sizes = list(source.read().reshape(sizes).shape)
    out.storage, out.offset = source.storage, source.offset


def copy_index(session, args):
    """Writes a row of a tensor that grows row by row."""
    into, row, index = session.values[args[0]], session.get(args[1]), session.get(args[2])
    into.sizes = [index + 1, *row.shape]
    into.read()[index].copy_(row)


def converted(session, args):
    out = session.values[args[-1]]
    session.set(args[-1], session.get(args[0]).to(out.dtype).contiguous())


OWN = {
    "et_view": view,
    "et_copy_index": copy_index,
    "_to_dim_order_copy": converted,
    "_clone_dim_order": converted,
    "_to_copy": converted,
    "_local_scalar_dense": lambda session, args: session.set(args[-1], session.get(args[0]).item()),
    "item": lambda session, args: session.set(args[-1], session.get(args[0]).item()),
    "sym_size": lambda session, args: session.set(args[-1], session.values[args[0]].sizes[session.get(args[1])]),
    "sym_numel": lambda session, args: session.set(args[-1], math.prod(session.values[args[0]].sizes)),
}


def run(program, method, goldens):
    """The outputs of runs that follow one another, with the inputs of golden files."""
    session = Session(program, method)
    for golden in goldens:
        with np.load(golden) as arrays:
            count = sum(name.startswith("in") for name in arrays.files)
            inputs = [tensor(session, session.plan.inputs[number], arrays[f"in{number}"]) for number in range(count)]
        with torch.no_grad():
            yield session.run(*inputs)


def tensor(session, index, array):
    """An array as the value that a method takes."""
    value = session.values[index]
    if not isinstance(value, Place):
        return array.item()
    own = torch.from_numpy(np.ascontiguousarray(array)).reshape(array.shape)
    return own.view(torch.bfloat16) if value.dtype == torch.bfloat16 and own.dtype == torch.uint16 else own
