"""Exported programs (`.pt2`) with state, branches, loops, writes through views and sizes that follow from others.

usage: golden_flow.py [OUT]    (default: tests/golden/pt2)

OUT/NAME.pt2 beside NAME.stepN.npz: runs that follow one another on one session. The golden values are those of eager
PyTorch. Programs whose name ends in `_core` are exported after `run_decompositions()`.
"""

import warnings

import torch
import torch.nn.functional as F
from golden_exports import Case, main
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

warnings.filterwarnings("ignore")
normal = torch.randn


class Cache(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.arange(32.0).reshape(1, 8, 4))
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x, place):
        self.cache[:, place] = self.linear(x)
        return (self.cache * 2).sum(1)


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("before", torch.ones(1))

    def forward(self, x):
        self.before.copy_(self.count)
        self.count.add_(1)
        return x + self.count, self.before + 0


class Swap(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.ones(2))
        self.register_buffer("b", torch.full((2,), 5.0))

    def forward(self, x):
        old = self.a.clone()
        self.a.copy_(self.b)
        self.b.copy_(old + x)
        return self.a - self.b


class Views(torch.nn.Module):
    def forward(self, x):
        whole = x.clone()
        below = whole[1:]
        below[0].mul_(2)
        flat = whole.view(-1)
        flat[3:6] += 1
        turned = whole.t()
        turned[0] = 7
        upper, lower = whole.chunk(2, 0)
        lower.neg_()
        whole.unbind(0)[1].zero_()
        whole.permute(1, 0).unsqueeze(0)[:, 1, :].add_(3)
        return whole, below, flat, turned, upper


class Argument(torch.nn.Module):
    def forward(self, x, y):
        x.add_(y)
        return x * 2


class Branch(torch.nn.Module):
    def forward(self, x, switch):
        yes, no = (lambda a: (a + 1, a.sum())), (lambda a: (a * 2, a.max()))
        return torch.cond(switch.sum() > 0, yes, no, (x,))


class Branches(torch.nn.Module):
    def forward(self, x, switch):
        inner = lambda a: torch.cond(a.sum() > 0, lambda b: b.sin(), lambda b: b.cos(), (a,))
        return torch.cond(switch.sum() > 0, inner, lambda a: a * 2, (x,)) + 1


class Map(torch.nn.Module):
    def forward(self, rows, y):
        return map_over(lambda row, y: row * y + 1, rows, y)


class Scan(torch.nn.Module):
    def forward(self, first, rows):
        return scan(lambda carry, row: (carry * 0.5 + row, (carry + row).relu()), first, rows)


class While(torch.nn.Module):
    def forward(self, i, x, y):
        body = lambda i, x, y: (i + 1, y.clone(), x * 1.5)
        return while_loop(lambda i, x, y: (i < 5).squeeze(), body, (i, x, y))


class Sizes(torch.nn.Module):
    def forward(self, x, y):
        with torch.no_grad():
            rows = x.reshape(x.shape[0] * 2, -1) + 1
        rows = rows[1:]
        rows[0].mul_(2)
        return torch.cat([rows, y]), {"turned": rows.t(), "number": x.shape[0] * 3}


class Batch(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, 2, 1)
        self.linear, self.norm = torch.nn.Linear(4, 5), torch.nn.LayerNorm(5)

    def forward(self, x):
        y = F.adaptive_avg_pool2d(self.conv(x).relu(), 1).flatten(1)
        y = self.norm(self.linear(y))
        return torch.softmax(y, -1), y.view(y.shape[0] * 5)


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(16, 48)

    def forward(self, x):
        batch, length, width = x.shape
        query, key, value = self.project(x).view(batch, length, 3, 4, 4).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return y.transpose(1, 2).reshape(batch, length, width)


class Number(torch.nn.Module):
    def forward(self, x, n):
        k = n.item()
        torch._check(k >= 0)
        torch._check(k <= 8)
        return x * k


class Found(torch.nn.Module):
    def forward(self, x):
        return x.nonzero(), x[x > 0].sum()


class Nested(torch.nn.Module):
    def forward(self, named, pair, factor=2.0):
        return [named["a"] + pair[0], (pair[1] * factor,)], named["b"]


class Returned(torch.nn.Module):
    def forward(self, x, y):
        return x, y + 1, x


class ChannelsLast(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)

    def forward(self, x):
        return self.conv(x).relu() * 2


class Norms(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.first = torch.nn.Conv2d(3, 4, 3, bias=False), torch.nn.BatchNorm2d(4)
        self.back, self.second = torch.nn.ConvTranspose2d(4, 5, 3, bias=False), torch.nn.BatchNorm2d(5)
        for norm in (self.first, self.second):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
            norm.weight.data.normal_()
            norm.bias.data.normal_()

    def forward(self, x):
        return self.second(self.back(self.first(self.conv(x)).relu()))


class Held(torch.nn.Module):
    """Keeps what it writes into a tensor that is no buffer."""

    def __init__(self):
        super().__init__()
        self.held = [torch.zeros(3)]

    def forward(self, x):
        self.held[0].add_(x)
        return self.held[0] * 2


class InPlace(torch.nn.Module):
    """Operators that write into their argument, or give it other sizes."""

    def forward(self, x):
        y = x.clone()
        y.floor_divide_(2).pow_(2).add_(x).pow_(x).ldexp_(torch.ones(4))
        turned = x.clone().t_().mul_(2)
        turned.unsqueeze_(0).add_(1)
        joined = x.clone()
        row = joined[0]
        joined.swapaxes_(0, 1)
        joined[1] = 5
        return y, turned.squeeze_(0) + 1, joined * 2, row + 0


class Multiple(torch.nn.Module):
    """The size of the input is a multiple of the dimension, and one more."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(1, 4, 10, 5)

    def forward(self, x, rows):
        return self.conv(x).flatten(1), rows[1:].reshape(2, -1)


class Unbounded(torch.nn.Module):
    """Sizes that only the values of an input tell."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 4)

    def forward(self, x, times):
        rows = x.repeat_interleave(times, 0)
        y = self.linear(torch.cat([rows, x])).relu()
        count = times[0].item()
        return F.layer_norm(y, (4,)), y.softmax(0) @ x @ x.T, rows.sort(stable=True, dim=0), torch.ones(count, count).tril()


class Batches(torch.nn.Module):
    """`vmap`, of what meets element by element and of what does not."""

    def forward(self, x, y):
        both = torch.vmap(torch.vmap(lambda a, b: (a * b).exp() - y, in_dims=(None, 0)), in_dims=(0, None))
        products = torch.vmap(lambda a, b: a @ b, in_dims=(0, None))
        rows = torch.vmap(lambda row: torch.where(row.sum() > 0, row, -row).cumsum(0) * y)
        pairs = torch.vmap(torch.vmap(torch.dot, in_dims=(None, 0)), in_dims=(0, None))
        picked = torch.vmap(lambda row, place: row[place], randomness="same")
        places = torch.arange(x.shape[0]) % x.shape[1]
        return both(x, x), products(x[:, None], x.T), rows(x), pairs(x, x), picked(x, places)


def linear_step(a, b):
    return a[0] * b[0], a[1] * b[0] + b[1]


class Running(torch.nn.Module):
    """Associative scans, as one call and as torch takes them apart."""

    def forward(self, x, y):
        return (
            associative_scan(torch.add, x, 0, combine_mode="pointwise"),
            associative_scan(linear_step, (x, y), 0, combine_mode="pointwise"),
            associative_scan(linear_step, (x, y), 1, reverse=True, combine_mode="pointwise"),
            associative_scan(torch.maximum, x, 1, reverse=True, combine_mode="generic"),
            associative_scan(torch.add, x[:1], 0, combine_mode="pointwise"),
        )


@torch.compiler.nested_compile_region
def region(x, y):
    return (x * y).sin()


class Wrapped(torch.nn.Module):
    """Graphs that other graphs only wrap; with casts that torch makes by itself."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x, y):
        with torch.no_grad():
            z = region(x, y) + region(y, x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            products = self.linear(z), torch.cat([self.linear(x), y])
            with torch.autocast("cpu", enabled=False):
                exact = x @ y.T
        return products[0].float(), products[1], exact


def cases():
    places = [(normal(1, 1, 4), torch.tensor([place])) for place in (2, 3, 0)]
    yield "state_cache", Case(Cache(), places, core=True)
    yield "state_counter", Case(Counter(), [(normal(3),) for _ in range(3)], core=True)
    yield "state_swap", Case(Swap(), [(normal(2),) for _ in range(3)], core=True)
    yield "views", Case(Views(), [(normal(4, 6),)], core=True)
    yield "batch_norms", Case(Norms(), [(normal(1, 3, 6, 6),)], core=True)
    yield "argument", Case(Argument(), [(normal(3), normal(3))])
    yes, no = torch.ones(2), -torch.ones(2)
    yield "branch", Case(Branch(), [(normal(2, 3), switch) for switch in (yes, no, yes)])
    inputs = [(normal(2, 3).abs(), yes), (-normal(2, 3).abs(), yes), (normal(2, 3), no)]
    yield "branches", Case(Branches(), inputs)
    yield "map", Case(Map(), [(normal(4, 3), normal(3)) for _ in range(2)])
    yield "scan", Case(Scan(), [(normal(3), normal(5, 3)) for _ in range(2)])
    yield "while", Case(While(), [(torch.tensor([i]), normal(3), normal(3)) for i in (0, 1, 7)])
    batch = Dim("batch", min=2, max=16)
    yield "sizes", Case(Sizes(), [(normal(n, 6), normal(3, 3)) for n in (4, 2, 16, 5)], ({0: batch}, None))
    yield "batch", Case(Batch(), [(normal(n, 3, 8, 8),) for n in (2, 6, 3)], ({0: Dim("n", min=2, max=6)},))
    length = Dim("length", min=2, max=9)
    yield "causal", Case(Attention(), [(normal(2, n, 16),) for n in (5, 3, 9)], ({1: length},))
    yield "number", Case(Number(), [(normal(3), torch.tensor(n)) for n in (4, 2)])
    yield "found", Case(Found(), [(normal(3, 4),) for _ in range(2)])
    yield "nested", Case(Nested(), [({"a": normal(2), "b": normal(3)}, (normal(2), normal(2)))])
    yield "returned", Case(Returned(), [(normal(2), normal(2))])
    image = normal(1, 3, 6, 6).to(memory_format=torch.channels_last)
    yield "channels_last", Case(ChannelsLast().to(memory_format=torch.channels_last), [(image,)])
    n = Dim("n", min=2, max=8)
    inputs = [(normal(1, 1, 10 * n), normal(2 * n + 1)) for n in (4, 8, 2)]
    yield "multiple", Case(Multiple(), inputs, ({2: 10 * n}, {0: 2 * n + 1}))
    yield "in_place", Case(InPlace(), [(torch.rand(3, 4) + 1,)])
    yield "held", Case(Held(), [(normal(3),) for _ in range(3)])
    times = [torch.tensor(times) for times in ([1, 2, 0, 3], [40, 200, 7, 0], [0, 0, 0, 1])]
    yield "unbounded", Case(Unbounded(), [(normal(4, 3), times) for times in times], core=True)
    yield "batches", Case(Batches(), [(normal(4, 3), normal(3))])
    yield "running", Case(Running(), [(normal(4, 3).sigmoid(), normal(4, 3))])
    yield "wrapped", Case(Wrapped(), [(normal(3, 4), normal(3, 4))], strict=True)


if __name__ == "__main__":
    main(cases, lambda case, run: f".step{run}")
