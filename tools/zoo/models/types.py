"""Other element types, images as bytes, and models that torchao quantised before the export."""

import torch
import torch.nn.functional as F
import torchvision
from row import Method, Row, liven, settle
from torch import nn
from torch.export import Dim

TITLE = "Element types and quantised exports"
WIDTH = 32


class Block(nn.Module):
    """A layer of a decoder over embedded tokens."""

    def __init__(self, kind=torch.float32):
        super().__init__()
        self.embed, self.norm = nn.Embedding(60, WIDTH), nn.RMSNorm(WIDTH)
        self.project, self.leave = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)
        self.to(kind)

    def forward(self, tokens):
        x = self.embed(tokens)
        q, k, v = self.project(self.norm(x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.leave(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.silu(self.up(self.norm(x))))


class Small(nn.Module):
    """A few convolutions with norms."""

    def __init__(self):
        super().__init__()
        part = lambda a, b, step: [nn.Conv2d(a, b, 3, step, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
        self.body = nn.Sequential(*part(3, 16, 2), *part(16, 32, 2), *part(32, 32, 1))
        self.leave = nn.Linear(32, 10)

    def forward(self, x):
        return self.leave(self.body(x).mean((2, 3)))


class Prepared(nn.Module):
    """An image as bytes, of any size: cut, made smaller, normalised, classified, the five best."""

    def __init__(self):
        super().__init__()
        self.model = Small()
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1))
        self.register_buffer("width", torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1))

    def forward(self, image):
        x = image.permute(2, 0, 1).float().unsqueeze(0) / 255
        x = F.interpolate(x, size=(32, 32), mode="bilinear", antialias=True, align_corners=False)
        return self.model((x - self.mean) / self.width).softmax(-1).topk(5)


class Mixed(nn.Module):
    """Products in half precision, the rest not."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, 64), nn.Linear(64, 8)

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            y = self.second(F.gelu(self.first(x)))
        return y.float().log_softmax(-1)


class Whole(nn.Module):
    """Whole numbers only: a histogram, its sums, positions by search, bits."""

    def forward(self, x):
        counts = torch.zeros(16, dtype=torch.long).index_add(0, x, torch.ones_like(x))
        sums = counts.cumsum(0)
        place = torch.searchsorted(sums, torch.arange(0, 40, 4))
        bits = (x.unsqueeze(1) >> torch.arange(4)) & 1
        return (
            counts,
            place,
            bits.to(torch.uint8),
            (x % 3 == 0) | (x > 12),
            torch.bucketize(x, torch.tensor([3, 7, 11])),
        )


class Chosen(nn.Module):
    """Results whose sizes depend on the values."""

    def forward(self, x):
        positive = x[x > 0]
        rows = (x.sum(1) > 0).nonzero().squeeze(1)
        return positive, rows, x.index_select(0, rows).mean(0)


class Each(nn.Module):
    """A function of one sample over a batch, by `vmap`."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 6))

    def forward(self, x, y):
        return torch.vmap(lambda a, b: torch.tanh(a @ self.weight) @ b)(x, y)


def typed(name, kind):
    return Row(name, lambda: Method(Block(kind), [(torch.randint(0, 60, (2, 9)),)]))


def image(name, kind, layout=torch.contiguous_format):
    def make():
        module = Small().to(kind).to(memory_format=layout)
        return Method(module, [(torch.randn(1, 3, 32, 32).to(kind).to(memory_format=layout),)])

    return Row(name, make)


def quantised(name, make, inputs, **options):
    """PT2E: what XNNPACK's quantiser of the official exporter makes of a module, which torch then exports again."""

    def made():
        from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
            XNNPACKQuantizer,
            get_symmetric_quantization_config,
        )
        from torchao.quantization.pt2e import allow_exported_model_train_eval
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

        module, given = make().eval().requires_grad_(False), inputs()
        liven(module, set())
        settle(module, given)
        quantiser = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(**options))
        prepared = prepare_pt2e(torch.export.export(module, given).module(), quantiser)
        prepared(*given)
        converted = convert_pt2e(prepared)
        allow_exported_model_train_eval(converted)
        return Method(converted, [given])

    return Row(name, made, quantised=True)


class Weights(nn.Module):
    """Weights of 8 bits with a scale for each row, widened when they are used."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.randint(-127, 128, (8, WIDTH), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(8, 1) / 127)

    def forward(self, x):
        return F.linear(x, self.weight.float() * self.scale)


def two_layers():
    return nn.Sequential(nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, 8))


def photo(*size):
    return (torch.randint(0, 256, (*size, 3), dtype=torch.uint8),)


def photos():
    sizes = {0: Dim("rows", min=16, max=96), 1: Dim("columns", min=16, max=96)}
    return Method(Prepared(), [photo(64, 48), photo(40, 40), photo(33, 90)], (sizes,))


def whole():
    return Method(Whole(), [(torch.randint(0, 16, (40,)),)])


def chosen():
    return Method(Chosen(), [(torch.randn(6, 5),) for _ in range(3)])


ROWS = [
    typed("decoder_bfloat16", torch.bfloat16),
    typed("decoder_float16", torch.float16),
    typed("decoder_float64", torch.float64),
    image("convolutions_bfloat16", torch.bfloat16),
    image("convolutions_float16", torch.float16),
    image("convolutions_float64", torch.float64),
    image("convolutions_channels_last", torch.float32, torch.channels_last),
    Row("autocast", lambda: Method(Mixed(), [(torch.randn(3, WIDTH),)])),
    Row("photo_one_size", lambda: Method(Prepared(), [photo(64, 48)])),
    Row("photo_any_size", photos),
    Row("whole_numbers", whole),
    Row("sizes_by_values", chosen),
    Row("vmap", lambda: Method(Each(), [(torch.randn(3, 6), torch.randn(3, 6))])),
    Row("weights_int8", lambda: Method(Weights(), [(torch.randn(3, WIDTH),)])),
    quantised("pt2e_convolutions", Small, lambda: (torch.randn(1, 3, 32, 32),), is_per_channel=True),
    quantised("pt2e_per_tensor", Small, lambda: (torch.randn(1, 3, 32, 32),), is_per_channel=False),
    quantised(
        "pt2e_linear_dynamic", two_layers, lambda: (torch.randn(3, WIDTH),), is_per_channel=True, is_dynamic=True
    ),
    quantised(
        "pt2e_mobilenet_v2",
        lambda: torchvision.models.mobilenet_v2(num_classes=10),
        lambda: (torch.randn(1, 3, 64, 64),),
        is_per_channel=True,
    ),
]
