"""Everything else: series and tables, probabilities, control, optimisation within a network, unusual layers."""

import math

import torch
import torch.nn.functional as F
import transformers
from models.hugging import Wrapped
from row import Method, Row
from torch import nn
from torch._higher_order_ops.while_loop import while_loop

TITLE = "Series, tables, control and unusual layers"


def fed(name, make, *sizes, jumps=False):
    return Row(name, lambda: Method(make(), [tuple(torch.randn(*size) for size in sizes)]), jumps)


def layers(*sizes, kind=nn.ReLU):
    found = [part for a, b in zip(sizes, sizes[1:]) for part in (nn.Linear(a, b), kind())]
    return nn.Sequential(*found[:-1])


class Blocks(nn.Module):
    """N-BEATS: each block explains a part of the past and forecasts what follows of it."""

    def __init__(self, past=24, ahead=6):
        super().__init__()
        self.past, self.blocks = past, nn.ModuleList(layers(past, 32, 32, past + ahead) for _ in range(3))

    def forward(self, x):
        forecast = 0
        for block in self.blocks:
            back, ahead = block(x).split([self.past, block[-1].out_features - self.past], -1)
            x, forecast = x - back, forecast + ahead
        return forecast


class Decomposed(nn.Module):
    """DLinear: a moving mean and what is left, each continued by a linear layer."""

    def __init__(self, past=24, ahead=6):
        super().__init__()
        self.trend, self.rest = nn.Linear(past, ahead), nn.Linear(past, ahead)

    def forward(self, x):
        padded = torch.cat([x[:, :1].repeat(1, 2, 1), x, x[:, -1:].repeat(1, 2, 1)], 1).transpose(1, 2)
        trend = F.avg_pool1d(padded, 5, 1)
        return (self.trend(trend) + self.rest(x.transpose(1, 2) - trend)).transpose(1, 2)


class Dilated(nn.Module):
    """TCN: causal convolutions with growing reach, weights under a norm of their own."""

    def __init__(self, width=16):
        super().__init__()
        norm = nn.utils.parametrizations.weight_norm
        self.layers = nn.ModuleList(norm(nn.Conv1d(4 if not i else width, width, 3, dilation=2**i)) for i in range(3))
        self.skip, self.leave = nn.Conv1d(4, width, 1), nn.Conv1d(width, 2, 1)

    def forward(self, x):
        y = x
        for number, layer in enumerate(self.layers):
            y = layer(F.pad(y, (2 << number, 0))).relu()
        return self.leave(y + self.skip(x))


class Gated(nn.Module):
    """WaveNet: gated convolutions whose skips are summed."""

    def __init__(self, width=12):
        super().__init__()
        self.enter = nn.Conv1d(1, width, 1)
        self.gates = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=2**i) for i in range(4))
        self.mix = nn.ModuleList(nn.Conv1d(width, 2 * width, 1) for _ in range(4))
        self.leave = nn.Sequential(nn.ReLU(), nn.Conv1d(width, 16, 1), nn.ReLU(), nn.Conv1d(16, 8, 1))

    def forward(self, x):
        x, skips = self.enter(x), 0
        for number, (gate, mix) in enumerate(zip(self.gates, self.mix)):
            value, open_ = gate(F.pad(x, (1 << number, 0))).chunk(2, 1)
            back, skip = mix(value.tanh() * open_.sigmoid()).chunk(2, 1)
            x, skips = x + back, skips + skip
        return self.leave(skips)


class Spectral(nn.Module):
    """A Fourier layer (FNO): the lowest frequencies are mixed, the rest dropped."""

    def __init__(self, width=8, kept=5):
        super().__init__()
        self.kept, self.enter, self.leave = kept, nn.Conv1d(1, width, 1), nn.Conv1d(width, 1, 1)
        self.real = nn.Parameter(torch.randn(width, width, kept) / width)
        self.imaginary = nn.Parameter(torch.randn(width, width, kept) / width)

    def forward(self, x):
        y = self.enter(x)
        found = torch.fft.rfft(y)
        low = torch.einsum("bik,iok->bok", found[..., : self.kept], torch.complex(self.real, self.imaginary))
        whole = F.pad(low, (0, found.shape[-1] - self.kept))
        return self.leave(F.gelu(torch.fft.irfft(whole, n=x.shape[-1]) + y))


class Long(nn.Module):
    """Hyena's long convolution: by products of spectra, twice as long as the sequence."""

    def __init__(self, width=8, length=16):
        super().__init__()
        self.filter, self.gate = nn.Parameter(torch.randn(width, length) / 4), nn.Linear(width, 2 * width)

    def forward(self, x):
        value, gate = self.gate(x).transpose(1, 2).chunk(2, 1)
        size = 2 * x.shape[1]
        found = torch.fft.irfft(torch.fft.rfft(value, n=size) * torch.fft.rfft(self.filter, n=size), n=size)
        return (found[..., : x.shape[1]] * gate).transpose(1, 2)


class Tabular(nn.Module):
    """FT-Transformer: each column is a token."""

    def __init__(self, numbers=5, kinds=3, width=16):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.randn(numbers, width)), nn.Parameter(torch.randn(numbers, width))
        self.tables = nn.ModuleList(nn.Embedding(10, width) for _ in range(kinds))
        self.first = nn.Parameter(torch.randn(1, 1, width))
        layer = nn.TransformerEncoderLayer(width, 2, 32, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.leave = nn.Linear(width, 2)

    def forward(self, numbers, kinds):
        columns = numbers.unsqueeze(-1) * self.scale + self.shift
        others = torch.stack([table(kinds[:, number]) for number, table in enumerate(self.tables)], 1)
        tokens = torch.cat([self.first.expand(len(numbers), -1, -1), columns, others], 1)
        return self.leave(self.body(tokens)[:, 0])


class Factorised(nn.Module):
    """DeepFM: products of pairs by the square of sums, beside a deep network."""

    def __init__(self, fields=4, width=8):
        super().__init__()
        self.table, self.linear = nn.Embedding(40, width), nn.Embedding(40, 1)
        self.deep = layers(fields * width, 16, 1)
        self.register_buffer("starts", torch.arange(fields) * 10)

    def forward(self, x):
        index = x + self.starts
        found = self.table(index)
        pairs = (found.sum(1).square() - found.square().sum(1)).sum(1, keepdim=True) / 2
        return torch.sigmoid(self.linear(index).sum(1) + pairs + self.deep(found.flatten(1)))


class Sparse(nn.Module):
    """TabNet's attention: sparsemax, by sorting and cumulative sums."""

    def __init__(self, width=12):
        super().__init__()
        self.score, self.leave = nn.Linear(width, width), nn.Linear(width, 3)

    def forward(self, x):
        z = self.score(x)
        ordered = z.sort(-1, descending=True).values
        sums, rank = ordered.cumsum(-1) - 1, torch.arange(1.0, z.shape[-1] + 1)
        count = (rank * ordered > sums).sum(-1, keepdim=True)
        limit = sums.gather(-1, count - 1) / count
        return self.leave(x * (z - limit).clamp(min=0))


class Coupled(nn.Module):
    """RealNVP with invertible mixing: the image of a point, and how the flow stretches space there."""

    def __init__(self, width=6):
        super().__init__()
        self.mix = nn.Parameter(torch.linalg.qr(torch.randn(width, width))[0])
        self.nets = nn.ModuleList(layers(width // 2, 16, width, kind=nn.Tanh) for _ in range(2))

    def forward(self, x):
        log = torch.linalg.slogdet(self.mix)[1]
        x = x @ self.mix
        for net in self.nets:
            a, b = x.chunk(2, -1)
            scale, shift = net(a).chunk(2, -1)
            scale = scale.tanh()
            x, log = torch.cat([b * scale.exp() + shift, a], -1), log + scale.sum(-1)
        return x, log - 0.5 * (x.square() + math.log(2 * math.pi)).sum(-1)


class Densities(nn.Module):
    """A mixture of Gaussians whose parts depend on the input, and the likelihood of a value."""

    def __init__(self, parts=4):
        super().__init__()
        self.net = layers(5, 16, 3 * parts, kind=nn.ELU)

    def forward(self, x, y):
        weight, mean, width = self.net(x).chunk(3, -1)
        width = F.softplus(width) + 1e-2
        log = -0.5 * ((y - mean) / width).square() - width.log() - 0.5 * math.log(2 * math.pi)
        return torch.logsumexp(weight.log_softmax(-1) + log, -1)


class Process(nn.Module):
    """A Gaussian process: kernel, Cholesky, two solutions of triangles."""

    def __init__(self, count=12):
        super().__init__()
        self.register_buffer("known", torch.rand(count, 2) * 3)
        self.register_buffer("values", torch.randn(count, 1))

    def forward(self, x):
        kernel = lambda a, b: torch.exp(-torch.cdist(a, b).square() / 2)
        factor = torch.linalg.cholesky(kernel(self.known, self.known) + 0.1 * torch.eye(len(self.known)))
        weights = torch.cholesky_solve(self.values, factor)
        across = kernel(x, self.known)
        left = torch.linalg.solve_triangular(factor, across.t(), upper=False)
        return across @ weights, 1 - left.square().sum(0)


class Filtered(nn.Module):
    """A Kalman filter whose estimate and certainty stay in buffers."""

    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.zeros(4, 1))
        self.register_buffer("spread", torch.eye(4))
        self.register_buffer("go", torch.eye(4) + 0.1 * torch.diag(torch.ones(2), 2))
        self.register_buffer("see", torch.eye(2, 4))

    def forward(self, seen):
        state, spread = self.go @ self.state, self.go @ self.spread @ self.go.t() + 0.01 * torch.eye(4)
        gain = torch.linalg.solve(self.see @ spread @ self.see.t() + 0.1 * torch.eye(2), self.see @ spread).t()
        self.state.copy_(state + gain @ (seen - self.see @ state))
        self.spread.copy_((torch.eye(4) - gain @ self.see) @ spread)
        return self.state.squeeze(1).clone()


class Differential(nn.Module):
    """A neural differential equation, by Runge and Kutta in a loop of the program."""

    def __init__(self, width=6):
        super().__init__()
        self.net = layers(width, 16, width, kind=nn.Tanh)

    def forward(self, x):
        def step(count, x):
            a = self.net(x)
            b = self.net(x + a / 20)
            c = self.net(x + b / 20)
            return count + 1, x + (a + 2 * b + 2 * c + self.net(x + c / 10)) / 60

        return while_loop(lambda count, x: (count < 10).squeeze(), step, (torch.zeros(1, dtype=torch.long), x))[1]


class Spikes(nn.Module):
    """Neurons that fire above a threshold; their voltage stays in a buffer."""

    def __init__(self):
        super().__init__()
        self.enter, self.leave = nn.Linear(8, 16), nn.Linear(16, 3)
        self.register_buffer("voltage", torch.zeros(1, 16))

    def forward(self, x):
        voltage = 0.9 * self.voltage + self.enter(x)
        fired = (voltage > 1).float()
        self.voltage.copy_(voltage - fired)
        return self.leave(fired), voltage


class Duel(nn.Module):
    """A policy from images: value and advantages, the best action."""

    def __init__(self):
        super().__init__()
        self.eyes = nn.Sequential(nn.Conv2d(4, 8, 8, 4), nn.ReLU(), nn.Conv2d(8, 8, 4, 2), nn.ReLU(), nn.Flatten())
        self.value, self.advantage = layers(72, 16, 1), layers(72, 16, 4)

    def forward(self, x):
        y = self.eyes(x)
        advantage = self.advantage(y)
        found = self.value(y) + advantage - advantage.mean(1, keepdim=True)
        return found, found.argmax(1)


class Actor(nn.Module):
    """SAC: an action squeezed into its limits, and its likelihood, from noise that is given."""

    def __init__(self):
        super().__init__()
        self.net, self.critic = layers(6, 32, 4), layers(8, 32, 1)

    def forward(self, x, noise):
        mean, log = self.net(x).chunk(2, -1)
        width = log.clamp(-5, 2).exp()
        raw = mean + width * noise
        action = raw.tanh()
        log = (-0.5 * noise.square() - width.log()).sum(-1) - (2 * (math.log(2) - raw - F.softplus(-2 * raw))).sum(-1)
        return action, log, self.critic(torch.cat([x, action], -1))


class Decoded(nn.Module):
    """A conditional random field: the best path, forwards by maxima, backwards by their places."""

    def __init__(self, tags=5):
        super().__init__()
        self.emit, self.follow = nn.Linear(8, tags), nn.Parameter(torch.randn(tags, tags))

    def forward(self, x):
        scores = self.emit(x)
        best, places = scores[:, 0], []
        for place in range(1, x.shape[1]):
            most, where = (best.unsqueeze(2) + self.follow).max(1)
            best = most + scores[:, place]
            places.append(where)
        last = best.argmax(1, keepdim=True)
        path = [last]
        for where in reversed(places):
            path.append(where.gather(1, path[-1]))
        return torch.cat(path[::-1], 1), best.amax(1)


class Capsules(nn.Module):
    """Capsules that agree: votes are weighted by what they led to, three times."""

    def __init__(self):
        super().__init__()
        self.image, self.votes = nn.Conv2d(1, 32, 5, 2), nn.Parameter(torch.randn(1, 144, 4, 8, 8) * 0.1)

    def squash(self, x):
        power = x.square().sum(-1, keepdim=True)
        return x * power / (1 + power) / (power + 1e-8).sqrt()

    def forward(self, x):
        inner = self.squash(self.image(x).view(x.shape[0], -1, 8))
        votes = torch.einsum("bij,zikjl->bikl", inner, self.votes)
        routes = torch.zeros(votes.shape[:3])
        for _ in range(3):
            found = self.squash((routes.softmax(2).unsqueeze(-1) * votes).sum(1))
            routes = routes + (votes * found.unsqueeze(1)).sum(-1)
        return found.norm(dim=-1)


class Random(nn.Module):
    """Performer: attention as products of positive random features, and its causal form by cumulative sums."""

    def __init__(self, width=16, features=24):
        super().__init__()
        self.project = nn.Linear(width, 3 * width)
        self.register_buffer("features", torch.randn(width, features))

    def forward(self, x):
        q, k, v = self.project(x).chunk(3, -1)
        kernel = lambda y: torch.exp(y @ self.features / 4 - y.square().sum(-1, keepdim=True) / 32 - 1)
        q, k = kernel(q), kernel(k)
        sums = torch.einsum("blf,blv->blfv", k, v).cumsum(1)
        return torch.einsum("blf,blfv->blv", q, sums) / (q * k.cumsum(1)).sum(-1, keepdim=True)


class Splines(nn.Module):
    """KAN: sums of B-splines on each edge."""

    def __init__(self, inputs=4, outputs=3, knots=5, order=3):
        super().__init__()
        self.order, self.base = order, nn.Linear(inputs, outputs)
        self.register_buffer("knots", (torch.arange(-order, knots + order + 1) * 2 / knots - 1).repeat(inputs, 1))
        self.weight = nn.Parameter(torch.randn(outputs, inputs, knots + order) * 0.3)

    def forward(self, x):
        x, t = x.tanh().unsqueeze(-1), self.knots
        bases = ((x >= t[:, :-1]) & (x < t[:, 1:])).to(x.dtype)
        for k in range(1, self.order + 1):
            left = (x - t[:, : -k - 1]) / (t[:, k:-1] - t[:, : -k - 1]) * bases[..., :-1]
            bases = left + (t[:, k + 1 :] - x) / (t[:, k + 1 :] - t[:, 1:-k]) * bases[..., 1:]
        return self.base(F.silu(x.squeeze(-1))) + torch.einsum("bik,oik->bo", bases, self.weight)


class Equilibrium(nn.Module):
    """Sinkhorn's matching: scores become a doubly stochastic matrix."""

    def __init__(self):
        super().__init__()
        self.left, self.right = layers(4, 16, 8), layers(4, 16, 8)

    def forward(self, a, b):
        scores = self.left(a) @ self.right(b).transpose(1, 2) / 0.5
        for _ in range(5):
            scores = scores - scores.logsumexp(2, keepdim=True)
            scores = scores - scores.logsumexp(1, keepdim=True)
        return scores.exp()


class Quaternions(nn.Module):
    """A skeleton: rotations as quaternions, chained from bone to bone, move the points of a mesh."""

    def __init__(self, bones=4):
        super().__init__()
        self.register_buffer("offsets", torch.randn(bones, 3))
        self.weights = nn.Parameter(torch.randn(10, bones))
        self.register_buffer("mesh", torch.randn(10, 3))

    def forward(self, pose):
        w, x, y, z = F.normalize(pose, dim=-1).unbind(-1)
        rows = [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)]
        rows += [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)]
        rows += [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)]
        turn = torch.stack(rows, -1).unflatten(-1, (3, 3))
        rotation, place, chain = turn[:, 0], torch.zeros_like(pose[:, 0, :3]), []
        for bone in range(pose.shape[1]):
            place = place + torch.einsum("bij,j->bi", rotation, self.offsets[bone])
            rotation = rotation @ turn[:, bone]
            chain.append(torch.einsum("bij,vj->bvi", rotation, self.mesh) + place.unsqueeze(1))
        return torch.einsum("vk,bkvi->bvi", self.weights.softmax(-1), torch.stack(chain, 1))


def series(name, kind, suffix, inputs, output, *shapes, **options):
    """A model of transformers for series."""
    make = lambda: getattr(transformers, f"{kind}{suffix}")(getattr(transformers, f"{kind}Config")(**options))
    runs = lambda: [tuple(torch.randn(*shape) for shape in shapes)]
    return Row(name, lambda: Method(Wrapped(make(), inputs, [output]), runs()))


PATCHES = {"context_length": 32, "patch_length": 8, "patch_stride": 8, "num_input_channels": 2, "prediction_length": 8}
PATCHES |= {"d_model": 16, "num_attention_heads": 2, "ffn_dim": 32, "num_hidden_layers": 2}
ROWS = [
    fed("n_beats", Blocks, (2, 24)),
    fed("d_linear", Decomposed, (2, 24, 3)),
    fed("tcn", Dilated, (2, 4, 20)),
    fed("wavenet", Gated, (1, 1, 32)),
    series(
        "patch_tst",
        "PatchTST",
        "ForPrediction",
        ["past_values"],
        "prediction_outputs",
        (1, 32, 2),
        **PATCHES,
        loss="mse",
    ),
    series(
        "patch_tsmixer",
        "PatchTSMixer",
        "ForPrediction",
        ["past_values"],
        "prediction_outputs",
        (1, 32, 2),
        **PATCHES,
        loss="mse",
    ),
    fed("fourier_operator", Spectral, (2, 1, 32)),
    fed("hyena", Long, (2, 16, 8)),
    Row("ft_transformer", lambda: Method(Tabular(), [(torch.randn(3, 5), torch.randint(0, 10, (3, 3)))])),
    Row("deep_fm", lambda: Method(Factorised(), [(torch.randint(0, 10, (3, 4)),)])),
    fed("sparsemax", Sparse, (3, 12)),
    fed("real_nvp", Coupled, (5, 6)),
    fed("mixture_density", Densities, (5, 5), (5, 1)),
    fed("gaussian_process", Process, (4, 2)),
    Row("kalman", lambda: Method(Filtered(), [(torch.randn(2, 1),) for _ in range(4)])),
    fed("neural_ode", Differential, (2, 6)),
    Row("spiking", lambda: Method(Spikes(), [(torch.randn(1, 8) * 2,) for _ in range(4)]), jumps=True),
    fed("dueling_dqn", Duel, (1, 4, 40, 40), jumps=True),
    fed("soft_actor", Actor, (3, 6), (3, 2)),
    fed("crf_viterbi", Decoded, (2, 7, 8), jumps=True),
    fed("capsules", Capsules, (1, 1, 16, 16)),
    fed("performer", Random, (2, 10, 16)),
    fed("kan", Splines, (5, 4)),
    fed("sinkhorn", Equilibrium, (2, 6, 4), (2, 6, 4)),
    fed("skinning", Quaternions, (2, 4, 4)),
]
