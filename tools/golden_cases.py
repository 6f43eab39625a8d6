"""The golden programs: one function per case, in the order of the README.

Each covers one feature of the file format or of the runtime, as small as it gets while still showing the feature.
A case without a seed of its own relies on `golden.py`, which seeds torch from the case's name.
"""

import torch
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.passes.external_constants_pass import delegate_external_constants_pass_unlifted
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

from golden_export import Case, Model, Run, with_short_paths, without_segments

CASES = {}


def case(covers, official=None):
    """Registers a case under its function's name. `official` says how the official runtime departs, if it does."""

    def register(make):
        make.covers, make.official = covers, official
        CASES[make.__name__] = make
        return make

    return register


def perceptron():
    return Model(
        lambda self, x: torch.softmax(self.second(torch.relu(self.first(x))), -1),
        first=nn.Linear(16, 32),
        second=nn.Linear(32, 8),
    )


def settled(model):
    """Gives batch norms statistics that are not the identity."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    return model


def unplanned(inputs=True, outputs=True):
    return {"memory_planning_pass": MemoryPlanningPass(alloc_graph_input=not inputs, alloc_graph_output=not outputs)}


# ---- Small networks ----


@case("Two linear layers and a softmax; also bundled with its test inputs (`.bpte`).")
def mlp():
    return Case(perceptron(), [Run((torch.randn(1, 16),))], bundled=True)


@case("Convolution, batch norm, ReLU, max pooling, adaptive average pooling (even and uneven windows), linear.")
def convnet():
    def body(self, x):
        x = F.max_pool2d(torch.relu(self.norm(self.stem(x))), 3, stride=2, padding=1)
        x = torch.relu(self.wide(x))
        even = F.adaptive_avg_pool2d(x, 1).flatten(1)
        return self.head(even), F.adaptive_avg_pool2d(x, (3, 2))

    model = Model(
        body,
        stem=nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False),
        norm=nn.BatchNorm2d(8),
        wide=nn.Conv2d(8, 12, 3, groups=2, dilation=2, padding=1),
        head=nn.Linear(12, 10),
    )
    return Case(settled(model), [Run((torch.randn(2, 3, 28, 28),))])


@case("A mobile block: expand, depthwise 5x5, hardswish, squeeze-and-excite, project, residual.")
def mobile_block():
    def body(self, x):
        y = F.hardswish(self.norm(self.expand(x)))
        y = F.hardswish(self.depthwise(y))
        gate = self.excite(torch.relu(self.squeeze(y.mean((2, 3), keepdim=True))))
        return x + self.project(y * F.hardsigmoid(gate))

    model = Model(
        body,
        expand=nn.Conv2d(8, 24, 1, bias=False),
        norm=nn.BatchNorm2d(24),
        depthwise=nn.Conv2d(24, 24, 5, padding=2, groups=24),
        squeeze=nn.Conv2d(24, 8, 1),
        excite=nn.Conv2d(8, 24, 1),
        project=nn.Conv2d(24, 8, 1),
    )
    return Case(settled(model), [Run((torch.randn(1, 8, 9, 9),))])


@case("Two LSTM layers, unrolled over five steps, with the final states as outputs.")
def lstm():
    def body(self, x):
        y, (hidden, cell) = self.cells(x)
        return self.head(y[:, -1]), hidden, cell

    model = Model(body, cells=nn.LSTM(8, 12, num_layers=2, batch_first=True), head=nn.Linear(12, 4))
    return Case(model, [Run((torch.randn(1, 5, 8),))])


@case("A BERT encoder (two layers, hidden 32) over token ids with a padding mask.")
def bert():
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=16, attn_implementation="sdpa",
    )
    model = Model(
        lambda self, ids, mask: self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state,
        encoder=BertModel(config, add_pooling_layer=False),
    )
    ids, mask = torch.randint(0, 50, (2, 12)), torch.ones(2, 12, dtype=torch.long)
    mask[1, 7:] = 0
    return Case(model, [Run((ids, mask))])


@case("Norms that a plan has as one step each: by the root mean square, as exporters write it in three ways, and by groups.")
def norms():
    def body(self, x, image):
        first = self.norm(x)
        second = first * torch.rsqrt((first * first).mean(-1, keepdim=True) + 1e-6) * self.weight
        third = self.weight * (second / torch.sqrt(second.pow(2).mean((-2, -1), keepdim=True) + 1e-5))
        return third, torch.log_softmax(second, 1), self.groups(image).relu()

    groups = nn.GroupNorm(2, 6)
    nn.init.uniform_(groups.weight), nn.init.uniform_(groups.bias)
    norm = nn.RMSNorm(24, eps=1e-5)
    nn.init.uniform_(norm.weight)
    model = Model(body, norm=norm, groups=groups, weight=nn.Parameter(torch.rand(24)))
    return Case(model, [Run((torch.randn(2, 5, 24), torch.randn(2, 6, 3, 5)))])


@case("Operators that join a plan: parts and their repetition, extremes, windows with borders, powers, enlarged images.")
def joined():
    def body(self, x):
        a, b, c = torch.unbind(x, 1)
        stacked = torch.stack([b, a, c.pow(3)], -1) + 0.5 * a.unsqueeze(-1).expand(2, 8, 10, 3)
        pooled = F.avg_pool2d(x, 3, stride=2, padding=1)
        cells = F.adaptive_avg_pool2d(pooled, (2, 5)).amax((2, 3), keepdim=True)
        bright = F.interpolate(pooled.relu(), scale_factor=2.05, mode="bilinear")
        near = F.interpolate(bright.abs(), scale_factor=(2.3, 1.1), mode="nearest")
        chosen = (1 - x).masked_fill(x < 0, 7.0).round().sum((1, 2)) / stacked.amin(-1).sum((0, 1))
        return stacked, torch.sub(pooled, cells, alpha=2).erf(), near.neg(), chosen.reciprocal()

    return Case(Model(body), [Run((torch.randn(2, 3, 8, 10),))])


# ---- Control flow ----


def branching(self, x):
    return torch.cond(x.sum() > 0, lambda x: torch.sin(x) * 2, lambda x: (x - 1).cos(), (x,))


def branch_runs():
    x = torch.rand(3, 4) + 0.1
    return [Run((x,), "positive"), Run((-x,), "negative")]


@case("`torch.cond`: JumpFalse, MoveCall; one run per branch.")
def cond():
    return Case(Model(branching), branch_runs())


@case("`torch.cond` inside a branch of `torch.cond`, two results per branch.")
def cond_nested():
    def inner(x):
        return torch.cond(x.max() > 2, lambda x: (x * 2, x + 1), lambda x: (x * 3, x + 2), (x,))

    def body(self, x):
        first, second = torch.cond(x.sum() > 0, inner, lambda x: (x.abs(), x.neg()), (x,))
        return first + self.offset, second

    runs = [Run((torch.full((2, 3), value),), suffix) for suffix, value in (("a", 1.0), ("b", 3.0), ("c", -1.0))]
    return Case(Model(body, offset=torch.randn(3)), runs)


@case("`map` over the first dimension: a loop of JumpFalse, `et_copy_index` and prim arithmetic.")
def map_loop():
    from torch._higher_order_ops.map import map as over_rows

    def body(self, rows, bias):
        return over_rows(lambda row, bias: torch.sin(row) * row + bias, rows, bias) + 1

    return Case(Model(body), [Run((torch.randn(5, 3), torch.randn(3)))])


@case("`scan` with a carried state.")
def scan_loop():
    from torch._higher_order_ops.scan import scan

    def step(carry, row):
        carry = carry * 0.5 + row
        return carry, carry * carry

    def body(self, start, rows):
        return scan(step, start, rows)

    return Case(Model(body), [Run((torch.randn(3), torch.randn(4, 3)))])


# ---- Dynamic shapes ----


@case("A batch of 1 to 8 (bounded dynamic shape), three sizes on one session.")
def dynamic_batch():
    runs = [Run((torch.randn(size, 16),), f"b{size}") for size in (3, 1, 8)]
    return Case(perceptron(), runs, dynamic=({0: Dim("batch", min=1, max=8)},))


@case("Self-attention over a sequence of 2 to 16 tokens: symbolic sizes, dynamic views (`et_view`), causal mask.")
def dynamic_sequence():
    def body(self, x):
        batch, length, width = x.shape
        q, k, v = self.project(x).view(batch, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.join(y.transpose(1, 2).reshape(batch, length, width))

    model = Model(body, project=nn.Linear(8, 24), join=nn.Linear(8, 8))
    runs = [Run((torch.randn(1, length, 8),), f"s{length}") for length in (5, 2, 16)]
    return Case(model, runs, dynamic=({1: Dim("length", min=2, max=16)},))


@case("Convolution and pooling over an image whose height and width are dynamic.")
def dynamic_image():
    def body(self, x):
        return F.max_pool2d(torch.relu(self.conv(x)), 2)

    model = Model(body, conv=nn.Conv2d(2, 4, 3, padding=1))
    sizes = ((8, 6), (4, 10), (12, 12))
    runs = [Run((torch.randn(1, 2, height, width),), f"{height}x{width}") for height, width in sizes]
    height, width = (2 * Dim(name, min=2, max=6) for name in ("half_height", "half_width"))
    return Case(model, runs, dynamic=({2: height, 3: width},))


@case("Arithmetic on symbolic sizes: `sym_size`, `add`, `mul`, `floordiv`, and an `arange` of the result.")
def symbolic_sizes():
    def body(self, x):
        n = x.shape[0]
        ramp = torch.arange(n * 2 + 1, dtype=torch.float32)
        return ramp * 0.5, x.reshape(n * 4).unsqueeze(0), torch.ones(n // 2 + 1) - 0.5

    runs = [Run((torch.randn(size, 4),), f"n{size}") for size in (6, 3, 10)]
    return Case(Model(body), runs, dynamic=({0: Dim("n", min=2, max=10)},))


@case(
    "`nonzero`: an output whose size depends on the data, with a bound; its dim order is 1, 0.",
    official="ignores the output's dim order and gives the indices transposed",
)
def data_dependent():
    def body(self, x):
        indices = torch.nonzero(x > 0)
        torch._check(indices.shape[0] <= 12)
        return indices

    x = torch.randn(3, 4)
    return Case(Model(body), [Run((x,), "some"), Run((-x.abs(),), "none"), Run((x.abs() + 1,), "all")])


# ---- State ----


@case("A key/value cache written by `index_put` at the given position, kept between runs; four steps on one session.")
def kv_cache():
    def body(self, x, position):
        q, k, v = self.project(x).chunk(3, -1)
        self.keys[:, position] = k
        self.values[:, position] = v
        scores = q @ self.keys.transpose(1, 2) / 8**0.5
        scores = scores.masked_fill(torch.arange(6) > position, float("-inf"))
        return torch.softmax(scores, -1) @ self.values

    model = Model(body, project=nn.Linear(8, 24), keys=torch.zeros(1, 6, 8), values=torch.zeros(1, 6, 8))
    runs = [Run((torch.randn(1, 1, 8), torch.tensor([step])), f"step{step}") for step in range(4)]
    return Case(model, runs)


@case(
    "The same cache rewritten in place (`index_put_`, the exporter's reinplace pass), buffer names in the file.",
    official="ends the process, since its `index_put_` does not broadcast the values",
)
def kv_cache_inplace():
    made = kv_cache()
    made.config = {"run_reinplace_pass": True, "emit_mutable_buffer_names": True}
    return made


@case("Mutable buffers with an initial state (mutable data segment), float and integer; three steps.")
def initial_state():
    def body(self, x):
        self.level.mul_(0.5).add_(x)
        self.count.add_(1)
        return self.level + self.count, self.count.clone()

    model = Model(body, level=torch.tensor([1.0, -2.0, 3.0]), count=torch.tensor(40))
    runs = [Run((torch.randn(3),), f"step{step}") for step in range(3)]
    return Case(model, runs, config={"passes": [InitializedMutableBufferPass(["level", "count"])]})


# ---- Methods, constants, segments ----


@case("Two methods with shared weights, and constant methods: int, float, bool, string, tuple, tensor.")
def methods():
    table = nn.Embedding(10, 6)
    encode = Model(lambda self, ids: self.table(ids).mean(1), table=table)
    decode = Model(lambda self, x: torch.log_softmax(x @ self.table.weight.t(), -1), table=table)
    constants = {
        "get_vocab_size": 10,
        "get_scale": 0.25,
        "use_cache": True,
        "get_name": "sconce",
        "get_shape": (2, 3.5, False),
        "get_table": torch.arange(6, dtype=torch.float32).reshape(2, 3),
    }
    runs = [
        Run((torch.randint(0, 10, (2, 3)),), method="encode"),
        Run((torch.randn(2, 6),), method="decode"),
        *(Run((), method=name) for name, value in constants.items() if not isinstance(value, str)),
    ]
    return Case({"encode": encode, "decode": decode}, runs, constants=constants)


@case("Constants kept outside the program, in a `.ptd` file keyed by parameter name.")
def external_constants():
    return Case(perceptron(), [Run((torch.randn(2, 16),))], config={"external_constants": True})


@case("No constants at all: a bare FlatBuffer without extended header or segment data.")
def no_constants():
    return Case(Model(lambda self, x, y: x * y + x), [Run((torch.randn(2, 3), torch.randn(2, 3)))])


@case("Constants aligned to 64 bytes and segments to 1024: a longer padded header.")
def wide_alignment():
    config = {"constant_tensor_alignment": 64, "segment_alignment": 1024}
    return Case(perceptron(), [Run((torch.randn(1, 16),))], config=config)


@case(
    "The old layout: constants in `Program.constant_buffer`, no constant segment, no extended header.",
    official="the published build no longer reads this layout",
)
def constant_buffer():
    return Case(perceptron(), [Run((torch.randn(1, 16),))], finish=without_segments)


@case("A stack trace for every instruction.")
def stacktrace():
    return Case(perceptron(), [Run((torch.randn(1, 16),))], config={"emit_stacktrace": True}, finish=with_short_paths)


@case("Equal constants stored once and used by several operators; integer, bool and float64 constants.")
def shared_constants():
    weight = torch.randn(4, 4)
    model = Model(
        lambda self, x: (x @ self.a + x @ self.b, x.double() + self.c, torch.where(self.d, x, self.e[0])),
        a=weight, b=weight.clone(), c=torch.randn(4, dtype=torch.float64), d=torch.tensor([True, False, True, False]),
        e=torch.tensor([7.0]),
    )
    return Case(model, [Run((torch.randn(2, 4),))])


# ---- Memory plans ----


@case("Neither inputs nor outputs in the memory plan: the caller supplies their memory.")
def unplanned_io():
    return Case(perceptron(), [Run((torch.randn(1, 16),))], config=unplanned())


@case("Inputs in the memory plan, outputs not.")
def unplanned_outputs():
    return Case(perceptron(), [Run((torch.randn(1, 16),))], config=unplanned(inputs=False))


@case("Unplanned inputs and outputs with a dynamic batch.")
def unplanned_dynamic():
    made = dynamic_batch()
    made.config = unplanned()
    return made


@case(
    "`torch.cond` with unplanned inputs and outputs: the declared arena is smaller than what its branches use.",
    official="refuses to load the method, because the declared arena is too small",
)
def cond_unplanned():
    def body(self, flag, x):
        return torch.cond(flag, lambda x: torch.sin(x) * 2 + 1, lambda x: (x - 1).cos(), (x,))

    x = torch.randn(3, 4)
    runs = [Run((torch.tensor(True), x), "true"), Run((torch.tensor(False), x), "false")]
    return Case(Model(body), runs, config=unplanned())


class SecondArena(MemoryPlanningPass):
    """Puts the results of `mul` into memory id 2."""

    def run(self, graph_module, graph_signature=None):
        for node in graph_module.graph.nodes:
            if node.op == "call_function" and "mul" in str(node.target):
                node.meta["spec"].mem_id = 2
        return super().run(graph_module, graph_signature)


@case("Two planned arenas (memory ids 1 and 2).")
def two_arenas():
    model = Model(lambda self, x, y: torch.relu(x * y) * (x + y) + torch.sin(x * 2))
    return Case(model, [Run((torch.randn(3, 5), torch.randn(3, 5)))], config={"memory_planning_pass": SecondArena()})


@case("Static views share their base's memory, no instruction; `squeeze` and views that are outputs stay copies.")
def views():
    def body(self, x):
        y = (x + 1).view(2, 6).squeeze(0).unsqueeze(1).flatten()
        z = y.view(3, 4)
        return z * 2, y.view(4, 3).sum(0), z

    return Case(Model(body), [Run((torch.randn(1, 2, 6),))])


@case("The same chain with every view kept as a `view_copy`.")
def views_copied():
    made = views()
    made.config = {"remove_view_copy": False}
    return made


@case("In-place operators in the source (`add_`, `mul_`, `clamp_`, slice assignment) on intermediate tensors.")
def inplace():
    def body(self, x):
        y = x.clone()
        y.add_(1).mul_(self.scale).clamp_(-1, 2)
        y[:, 1:3] = x[:, :2]
        y[0] = 5
        return y, x

    return Case(Model(body, scale=torch.randn(4)), [Run((torch.randn(3, 4),))])


# ---- Inputs and outputs ----


@case("Inputs that are not tensors: int, float, bool, None, between tensors.")
def scalar_inputs():
    def body(self, x, times, offset, negate, missing, y):
        z = x * times + offset + y
        return -z if negate and missing is None else z

    return Case(Model(body), [Run((torch.randn(2, 3), 3, 0.5, True, None, torch.randn(3)))])


@case("Outputs that are not tensors: a size known only at run time, int, float, bool and None constants.")
def scalar_outputs():
    def body(self, x):
        return x.shape[0], x + 1, 7, x.shape[0] * 2 + 1, 2.5, True, None

    runs = [Run((torch.randn(size, 2),), f"n{size}") for size in (4, 2)]
    return Case(Model(body), runs, dynamic=({0: Dim("n", min=2, max=8)},))


@case("Nested containers of inputs and outputs (list, tuple, dict), flattened in order.")
def containers():
    def body(self, pair, named):
        return {"sum": pair[0] + pair[1], "parts": [named["a"] * 2, (named["b"].sum(),)]}

    args = ([torch.randn(2), torch.randn(2)], {"a": torch.randn(3), "b": torch.randn(2, 2)})
    return Case(Model(body), [Run(args)])


@case("Outputs that are an input, a constant, or the same value twice.")
def passed_through():
    def body(self, x):
        y = torch.tanh(x)
        return x, y, y, self.table

    return Case(Model(body, table=torch.randn(2, 2)), [Run((torch.randn(3),))])


@case("Channels-last input and output (dim order 0, 2, 3, 1), and a change of dim order inside.")
def channels_last():
    def body(self, x):
        y = torch.relu(self.conv(x))
        return y, y.to(memory_format=torch.contiguous_format) * 2

    model = Model(body, conv=nn.Conv2d(3, 4, 3, padding=1)).to(memory_format=torch.channels_last)
    return Case(model, [Run((torch.randn(2, 3, 5, 6).to(memory_format=torch.channels_last),))])


@case("Zero-dim tensors in and out, mixed with a vector.")
def zero_dim():
    model = Model(lambda self, s, x: (s * 2 + 1, x * s, x.sum(), torch.where(s > 0, s, x.max())))
    return Case(model, [Run((torch.tensor(1.5), torch.randn(4)), "a"), Run((torch.tensor(-0.5), torch.randn(4)), "b")])


@case(
    "Tensors without elements: element-wise, `cat` with a full tensor, sum and matrix product over nothing.",
    official="leaves the matrix product unwritten instead of zero",
)
def empty():
    model = Model(lambda self, x, y: (x + 1, torch.cat([x, y]), x.sum(0), x.t() @ x))
    return Case(model, [Run((torch.randn(0, 3), torch.randn(2, 3)))])


@case("A user input changed in place: written back with `copy_`, and returned before the other output.")
def input_mutation():
    def body(self, x, y):
        x.add_(1)
        return x * y

    return Case(Model(body), [Run((torch.randn(2, 3), torch.randn(3)))], mutated_inputs=(0,))


# ---- Operators' arguments and dtypes ----


@case("Kinds of argument: tensor list, optional tensor list, string, optional scalar, float list, several outputs.")
def argument_kinds():
    def body(self, x, rows):
        top, where = torch.topk(x, 2, dim=-1)
        left, right = torch.split(x, [3, 1], dim=1)
        return (
            torch.cat([left, right, x], 1), x[:, rows], F.gelu(x, approximate="tanh"), torch.clamp(x, min=-0.25),
            F.interpolate(x.view(1, 1, 4, 4), scale_factor=(2.0, 1.5), mode="bilinear"), top, where,
            torch.div(x, 0.3, rounding_mode="floor"),
        )

    return Case(Model(body), [Run((torch.randn(4, 4), torch.tensor([2, 0, 2])))])


@case("Mixed dtypes in one operator: PyTorch's promotion rules, integer division, float scalars on integers.")
def promotion():
    def body(self, f, i, u, b):
        return f + i, i * u, u + b, i / 2, i * 1.5, b + b, torch.where(b, f, i), i // u, f.to(torch.float64) * i

    args = (
        torch.randn(4), torch.tensor([-7, 3, 0, 9]), torch.tensor([2, 4, 200, 255], dtype=torch.uint8),
        torch.tensor([True, False, True, False]),
    )
    return Case(Model(body), [Run(args)])


def arithmetic(dtype):
    """`add`, `mul`, `where`, comparison and conversions in one dtype."""

    def body(self, x, y):
        return x + y, x * y, torch.where(x > y, x, y), x == y, x.to(torch.float32), y.to(torch.int64)

    if dtype == torch.bool:
        x, y = torch.rand(3, 5) > 0.5, torch.rand(5) > 0.5
    elif dtype.is_floating_point:
        x, y = torch.randn(3, 5).mul(4).to(dtype), torch.randn(5).mul(4).to(dtype)
    else:
        x, y = torch.randint(0, 100, (3, 5)).to(dtype), torch.randint(0, 100, (5,)).to(dtype)
    return Case(Model(body), [Run((x, y))])


DTYPES = ("int64", "int32", "int16", "int8", "uint8", "bool", "float64", "float16", "bfloat16")
for dtype_name in DTYPES:

    def make(dtype=getattr(torch, dtype_name)):
        return arithmetic(dtype)

    make.__name__ = f"dtype_{dtype_name}"
    case(f"`{dtype_name}` through add, mul, where, comparison and conversions.")(make)


# ---- Quantised ----


def quantized(model, args, dynamic=False):
    """The model after the official post-training flow: int8 weights per channel, activations per tensor."""
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    recipe = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=dynamic)
    prepared = prepare_pt2e(torch.export.export(model, args).module(), XNNPACKQuantizer().set_global(recipe))
    prepared(*args)
    return convert_pt2e(prepared)


def quantized_convnet():
    def body(self, x):
        return self.head(torch.relu(self.conv(x)).mean((2, 3)))

    model = Model(body, conv=nn.Conv2d(3, 6, 3, padding=1), head=nn.Linear(6, 4))
    args = (torch.randn(1, 3, 6, 6),)
    return Case(quantized(model, args), [Run(args)])


@case("Int8 weights per channel and activations per tensor, as plain `quantized_decomposed` operators.")
def quantized_static():
    return quantized_convnet()


@case("Int8 weights, activations quantised at run time (`choose_qparams`, quantise with tensor parameters).")
def quantized_dynamic():
    args = (torch.randn(3, 8),)
    model = quantized(Model(lambda self, x: self.linear(x), linear=nn.Linear(8, 6)), args, dynamic=True)
    return Case(model, [Run(args)])


# ---- Delegates ----


@case("Linear and ReLU delegated to XNNPACK: payload in a segment, weights as named data.")
def xnnpack():
    model = Model(lambda self, x: torch.relu(self.linear(x)), linear=nn.Linear(16, 8))
    return Case(model, [Run((torch.randn(2, 16),))], xnnpack=True)


@case("The same with the payload inline in the FlatBuffer.")
def xnnpack_inline():
    made = xnnpack()
    made.config = {"extract_delegate_segments": False}
    return made


@case("Two delegate calls around an operator that stays outside, with a dynamic batch.")
def xnnpack_split():
    def body(self, x):
        return self.second(torch.cumsum(F.gelu(self.first(x)), -1))

    model = Model(body, first=nn.Linear(8, 12), second=nn.Linear(12, 4))
    runs = [Run((torch.randn(size, 8),), f"b{size}") for size in (2, 5, 1)]
    return Case(model, runs, dynamic=({0: Dim("batch", min=1, max=6)},), xnnpack=True)


@case("A convolution delegated to XNNPACK, which computes in channels-last: the transposes are inside the payload.")
def xnnpack_conv():
    def body(self, x):
        return F.max_pool2d(F.hardtanh(self.conv(x), 0, 6), 2)

    model = Model(body, conv=nn.Conv2d(3, 8, 3, padding=1))
    return Case(model, [Run((torch.randn(1, 3, 8, 8),))], xnnpack=True)


@case("Two delegate calls around an image that is enlarged by its nearest pixels, which stays outside.")
def xnnpack_enlarged():
    def body(self, x):
        y = torch.relu(self.small(x))
        return self.large(torch.cat([F.interpolate(y, scale_factor=2), F.interpolate(y, size=(10, 12))], 1))

    model = Model(body, small=nn.Conv2d(3, 4, 3, padding=1), large=nn.Conv2d(8, 5, 3, padding=1))
    return Case(model, [Run((torch.randn(1, 3, 5, 6),))], xnnpack=True)


def many_taps():
    """Filters of more than 256 taps: patches of an image, a long row, groups, single channels, transposed."""

    def body(self, image, row):
        x = self.transposed(self.single(self.groups(self.patches(image))))
        return x, self.row(row)

    model = Model(
        body,
        patches=nn.Conv2d(1, 4, 32, stride=8),
        groups=nn.Conv2d(4, 4, 17, padding=8, groups=2),
        single=nn.Conv2d(4, 4, (1, 257), padding=(0, 128), groups=4),
        transposed=nn.ConvTranspose2d(4, 2, 17, stride=2, padding=8),
        row=nn.Conv1d(2, 3, 257, padding=128),
    )
    return model, (torch.randn(1, 1, 48, 56), torch.randn(1, 2, 40))


@case("Filters of more than 256 taps.")
def xnnpack_many_taps():
    model, args = many_taps()
    return Case(model, [Run(args)], xnnpack=True)


@case("Filters of more than 256 taps, in int8.")
def xnnpack_many_taps_quantized():
    model, args = many_taps()
    return Case(quantized(model, args), [Run(args)], xnnpack=True)


@case("The int8 network of `quantized_static` delegated to XNNPACK.")
def xnnpack_quantized():
    made = quantized_convnet()
    made.xnnpack = True
    return made


@case(
    "An int8 part that ends in a pad: the exporter forgets to mark its output, and gives the pad a float input.",
    official="refuses the pad's types",
)
def xnnpack_unmarked():
    def body(self, x):
        return torch.cumsum(F.pad(self.conv(x), [1, 1, 0, 2]), -1)

    args = (torch.randn(1, 3, 5, 5),)
    model = Model(body, conv=nn.Conv2d(3, 4, 3))
    return Case(quantized(model, args), [Run(args)], xnnpack=True)


@case("XNNPACK with its weights outside, as opaque named data in a `.ptd` file.")
def xnnpack_external():
    args = (torch.randn(2, 16),)
    model = Model(lambda self, x: torch.relu(self.linear(x)), linear=nn.Linear(16, 8))
    module = torch.export.export(model, args).module()
    delegate_external_constants_pass_unlifted(module, lambda node: "weights")
    return Case(module, [Run(args)], xnnpack=True)
