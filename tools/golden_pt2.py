"""Exported programs (`.pt2`) that the compiler is tested with: OUT/NAME.pt2 beside NAME.RUN.npz for each run.

usage: golden_pt2.py [OUT]    (default: tests/golden/pt2)

Each case is a small module over a family of operators that only the compiler's rules take apart, exported as
`torch.export` gives it. Dimensions named in `dynamic` have bounds, and the runs have different sizes. The golden values
are those of eager PyTorch: `in0, in1, ...` and `out0, out1, ...`.
"""

import warnings

import torch
import torch.nn.functional as F
import torchvision.ops as boxes
from golden_exports import Case, main
from torch.export import Dim

warnings.filterwarnings("ignore")


class Module(torch.nn.Module):
    """A module whose forward is a function of its parts and the inputs."""

    def __init__(self, body, **parts):
        super().__init__()
        self.body = body
        for name, part in parts.items():
            setattr(self, name, part)
        self.eval().requires_grad_(False)

    def forward(self, *inputs):
        return self.body(self, *inputs)


def normal(*sizes):
    return torch.randn(*sizes)


def recurrent(m, x):
    outputs = [m.lstm(x), m.gru(x), m.tanh(x), m.projected(x)]
    return outputs


def pools(m, x):
    rows = x[:, :, 0]
    return (
        F.avg_pool1d(rows, 3, 2, 1),
        F.max_pool1d(rows, 3, 2, 1, return_indices=True),
        F.adaptive_avg_pool1d(rows, 3),
        F.adaptive_max_pool1d(rows, 2, return_indices=True),
        F.adaptive_avg_pool2d(x, 1),
        F.adaptive_max_pool2d(x, 3),
        F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
        F.fold(F.unfold(x, 3, padding=1, stride=2), x.shape[-2:], 3, padding=1, stride=2),
        F.lp_pool2d(x, 2, 2),
    )


def norms(m, x):
    return (
        F.instance_norm(x, weight=m.weight, bias=m.weight),
        F.group_norm(x, 2, m.weight, None),
        F.batch_norm(x, m.weight, m.weight.abs(), m.weight, None),
        F.rms_norm(x, x.shape[-1:]),
        F.layer_norm(x, x.shape[-2:]),
        F.local_response_norm(x, 3),
        F.normalize(x, p=3.0),
        torch.linalg.vector_norm(x, 1, (1, 2)),
        torch.linalg.norm(x, float("inf"), (-2, -1)),
        F.cosine_similarity(x, x.flip(0)),
        x.std(-1),
        torch.var_mean(x, (0, 2)),
        x.logsumexp(1),
    )


def activations(m, x):
    functions = [F.silu, F.hardswish, F.hardsigmoid, F.mish, F.selu, F.celu, F.softplus, F.softshrink, F.hardshrink]
    functions += [F.logsigmoid, F.relu6, F.tanhshrink, F.softsign, torch.square, torch.frac, torch.exp2, torch.isfinite]
    results = [function(x) for function in functions]
    results += [F.prelu(x, m.slope), F.threshold(x, 0.1, -2.0), F.rrelu(x), F.softmax(x, -1), F.softmin(x, 0)]
    results += [torch.nan_to_num(x / 0.0), x.round(decimals=1), x.clamp_min(0.2), torch.lerp(x, x.square(), 0.7)]
    return results + [torch.addcmul(x, x, x, value=2), torch.where(x > 0, x, 0.5), 2 - x, 1 / x, 3 // x.ceil()]


def attention(m, query, key, value, allowed):
    return (
        F.scaled_dot_product_attention(query, key, value),
        F.scaled_dot_product_attention(query, key, value, attn_mask=allowed),
        F.scaled_dot_product_attention(query, query, query, is_causal=True, scale=0.3),
        F.scaled_dot_product_attention(query, key[:, :1], value[:, :1], enable_gqa=True),
    )


def places(m, x, index):
    hot = F.one_hot(index, 7)
    return (
        hot,
        x.index_add(1, index, x[:, : index.shape[0]], alpha=2),
        x.index_fill(0, index[:1], 3.0),
        x.index_copy(1, index, x[:, : index.shape[0]] * 2),
        torch.take(x, index),
        torch.take_along_dim(x, index.unsqueeze(0), 1),
        torch.triu(x, 1),
        torch.diag_embed(x, 1),
        torch.isin(index, index[1:3]),
        x.masked_fill(x > 0, torch.tensor(2.0)),
        F.embedding_bag(index, m.table, index.new_tensor([0, 2]), mode="mean"),
        torch.argsort(x, dim=1, descending=True, stable=True),
    )


def products(m, x, y):
    vector = y[:, 0]
    return (
        torch.einsum("bij,jk->bik", x, y),
        torch.einsum("...ij,kj->ik...", x, x[0]),
        torch.tensordot(x, y, ([2], [0])),
        torch.baddbmm(y[:3, :4], x[:, :3], y.expand(2, -1, -1), beta=0.5, alpha=2),
        torch.addmv(x[0, :, 0], x[0], vector, beta=2),
        torch.addr(y[:, :3], vector, vector[:3]),
        torch.inner(x, y.T),
        torch.outer(vector, vector),
        torch.kron(x[0, :2, :2], y[:2, :3]),
        torch.linalg.cross(x[:, :, :3], x[:, :, 2:]),
        torch.linalg.multi_dot([x[0], y, y.T]),
        m.bilinear(x, x),
        F.conv1d(x, m.kernel, padding="same"),
        torch.dot(vector, vector),
    )


def shapes(m, x):
    parts = [*x.chunk(3, 1), *torch.tensor_split(x, 3, 2), *x.unbind(0)]
    return (
        parts,
        torch.meshgrid(x[0, 0], x[0, 1], indexing="xy"),
        x.repeat_interleave(2, 1),
        torch.tile(x, (2, 1)),
        torch.rot90(x, 1, (1, 2)),
        x.movedim(0, 2),
        torch.hstack([x, x]),
        torch.block_diag(x[0], x[1]),
        F.pad(x, (2, 1), mode="circular"),
        F.pad(x, (1, 2), mode="reflect"),
        F.pad(x, (1, -1, 2, 0), value=4.0),
        F.channel_shuffle(x.unsqueeze(-1), 2),
        torch.cartesian_prod(x[0, 0, :2], x[0, 1, :3]),
        torch.diff(x, 2),
        torch.eye(3, 4) + torch.linspace(0, 1, 4),
        x.new_full((2,), 7) + torch.zeros_like(x[0, 0, :2]) + torch.ones(2, dtype=torch.long),
    )


def images(m, x):
    return (
        F.interpolate(x[:, :, 0], scale_factor=2.0),
        F.interpolate(x[:, :, 0], size=7, mode="linear", align_corners=True),
        F.interpolate(x, scale_factor=(1.5, 2.0), mode="bilinear"),
        F.interpolate(x, size=(5, 3), mode="bicubic"),
        F.interpolate(x, size=(9, 4), mode="nearest-exact"),
        F.grid_sample(x, F.affine_grid(m.map, (1, 4, 3, 5), align_corners=False), align_corners=False),
        F.pixel_unshuffle(x, 2),
    )


def dynamic_encoder(m, x):
    y = m.norm(x + m.position[: x.shape[1]])
    y = y + m.attention(y, y, y, need_weights=False)[0]
    mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
    heads = y.unflatten(-1, (2, 4)).transpose(1, 2)
    past = F.scaled_dot_product_attention(heads, heads, heads, attn_mask=mask).transpose(1, 2).flatten(2)
    both = torch.cat([F.silu(past), y], -1)
    return both, both.mean(1), torch.stack(both.chunk(2, -1)), F.pad(y, (0, 0, 1, 2)), y.std(1)


def dynamic_image(m, x):
    y = F.hardswish(m.norm(m.conv(x)))
    y = F.max_pool2d(y, 2)
    z = F.interpolate(y, scale_factor=2.0)
    return F.adaptive_avg_pool2d(z, 1).flatten(1), F.avg_pool2d(z, 3, 1, 1), z.softmax(1), y.repeat_interleave(2, 0)


def losses(m, x, y):
    target = (y[:, 0] > 0).long()
    return (
        F.mse_loss(x, y),
        F.smooth_l1_loss(x, y, beta=0.5),
        F.huber_loss(x, y),
        F.cross_entropy(x, target),
        F.nll_loss(F.log_softmax(x, 1), target, weight=x[0].abs()),
        F.binary_cross_entropy_with_logits(x, y.sigmoid()),
        F.kl_div(F.log_softmax(x, 1), y.softmax(1), reduction="batchmean"),
    )


def dropouts(m, x, drawn):
    """What is drawn differs, so outputs are facts about it; probabilities of zero and one leave nothing to chance."""
    kinds = [F.dropout, F.dropout1d, F.alpha_dropout, F.feature_alpha_dropout]
    certain = [kind(x, p, training) for kind in kinds for p, training in [(0.0, True), (1.0, True), (0.5, False)]]
    many = torch.ones(200, 50, device=x.device)
    kept = F.dropout(many, 0.25, True)
    channels = F.dropout2d(many.view(200, 5, 2, 5), 0.5, True)
    alpha, scale = F.alpha_dropout(drawn, 0.3, True), F.alpha_dropout(many, 0.3, True)
    query = many.view(2, 100, 50)
    attention = F.scaled_dot_product_attention(query, query, query, dropout_p=0.4)
    slopes = F.rrelu(-many, 0.2, 0.6, True)
    return certain + [
        ((kept == 0) | (kept == 1 / 0.75)).all(),
        ((kept == 0).float().mean() - 0.25).abs() < 0.03,
        channels.amax((2, 3)) - channels.amin((2, 3)),
        (channels.mean() - 1).abs() < 0.1,
        alpha.mean().abs() < 0.15,
        (alpha.std() - 1).abs() < 0.15,
        (scale > 1).float().mean() > 0.6,
        (attention.mean() - 1).abs() < 0.1,
        attention.std() > 0,
        F.scaled_dot_product_attention(query, query, query, dropout_p=1.0).abs().sum(),
        torch.stack([slopes.min() >= -0.6, slopes.max() <= -0.2, (slopes.mean() + 0.4).abs() < 0.02]),
        F.rrelu(x, 0.3, 0.3, True),
        torch.lstm(x, (m.state, m.state), list(m.lstm.parameters()), True, 2, 1.0, True, False, False),
        (torch.empty_like(many).exponential_() != torch.empty_like(many).exponential_()).any(),
        (m.ones.clone().uniform_() != 1).any(),
    ]


def arguments(m, x, y, index, small):
    """Arguments that change the result in ways that are easily forgotten."""
    return (
        F.embedding_bag(index.view(2, 2), m.table, mode="sum", padding_idx=-1),
        F.embedding_bag(index.view(2, 2), m.table, mode="max", padding_idx=-2),
        torch.linalg.svd(x)[1],
        torch.linalg.svd(x)[2].abs(),
        torch.diff(x, 0, prepend=x, append=x),
        torch.meshgrid(y[0], indexing="xy")[0],
        torch.logsumexp(m.large, 0),
        torch.take_along_dim(x, index.view(1, 4) - 2, 1),
        F.pairwise_distance(small[:2], small[2:]),
        torch.dist(small[:2], small[2:] + 0.5),
        torch.full((2,), 0.5, dtype=torch.bool, device=x.device),
        torch.cross(x[:1, :3], y[:1, :3]),
        torch.linalg.norm(x[:0], float("inf")),
        torch.linalg.matrix_norm(x[:, :0], "nuc"),
        x[:, :0].new_ones(5, 4) @ x.new_ones(4, 0) @ x.new_ones(0, 2),
        torch.linalg.multi_dot([x.T, x[:, :0], x[:0]]),
    )


def complexes(m, x, y):
    square = x @ y.mT
    norms = [torch.linalg.vector_norm(x, p) for p in (0, 1, 2, 3.0, float("inf"), float("-inf"))]
    norms += [torch.linalg.norm(x, p, (0, 1)) for p in (1, -1, float("inf"), "fro")]
    norms += [torch.linalg.norm(x), x.norm(2, 1), torch.linalg.norm(x, dtype=torch.complex128)]
    distances = [torch.dist(x, y, 3), F.l1_loss(x, y), F.pairwise_distance(x, y), F.normalize(x), x.renorm(2, 0, 1.0)]
    products = [torch.vdot(x[0], y[0]), torch.linalg.vecdot(x, y), torch.dot(x[0], y[0]), F.linear(x, y, y[:, 0])]
    products += [torch.addmm(square, x, y.mT, beta=0.5), torch.einsum("ij,kj->ik", x, y)]
    turned = [x.H, x.mH, x.adjoint(), x.mT, x.conj() * y, x.real, x.imag, torch.view_as_real(x), x.angle()]
    asked = [x.isreal(), x.isclose(y), x == y, x != y, torch.isfinite(x / 0), torch.isnan(x / 0), x.count_nonzero()]
    sums = [x.mean(1), x.mean(), x.std(0), x.var(), *torch.var_mean(y, 1), x.cumsum(1), x.sum(0)]
    functions = [torch.exp, torch.log, torch.sqrt, torch.rsqrt, torch.sin, torch.cos, torch.tan, torch.sinh, torch.cosh]
    functions += [torch.tanh, torch.sigmoid, torch.reciprocal, torch.square, torch.sgn, F.silu, torch.log10, torch.log2]
    powers = [x**3, x**y, 2.0**x, x**0.5, 1 / x, 2 - x]
    powers += [x * (2 - 1j), x.real * 1j, torch.full_like(x, 3j), torch.where(x.real > 0, x, 1j), x == 1j]
    index = torch.tensor([1, 0, 1], device=x.device)
    places = [torch.where(x.real > 0, x, y), x.index_add(0, index, y), x.index_put((index[:2],), y[:2], accumulate=True)]
    places += [x.masked_fill(x.imag > 0, 2.0), F.dropout(x, 1.0, True)]
    return norms + distances + products + turned + asked + sums + [f(x) for f in functions] + powers + places


def fourier(m, x, z):
    g, results = torch.fft, []
    for name in ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]:
        value = x if name in ("rfft", "ihfft") else z
        one, two, many = (getattr(g, name + ending) for ending in ("", "2", "n"))
        results += [one(x), one(value, 5, 0, "forward"), one(value, 3, -2, "ortho")]
        results += [two(value, norm="forward"), two(x, (3, 7), (0, 2))]
        results += [many(value), many(value, (2, -1), (2, 0), "ortho")]
    results += [g.fftshift(z), g.ifftshift(z, (0, -1)), g.fftfreq(5, 0.5) + x[0, 0, :5], g.rfftfreq(8) + x[0, 0, :5]]
    return results + [g.rfft(x > 0), g.irfft(x.double()), g.fftn(z.to(torch.complex128))]


def short_time(m, x):
    spectrum = torch.stft(x, 16, 5, 12, m.window, normalized=True, return_complex=True)
    whole = torch.stft(x[0], 16, center=False, onesided=False, return_complex=True)
    pairs = torch.stft(x, 8, 3, pad_mode="constant", return_complex=False)
    return (
        spectrum,
        whole,
        pairs,
        torch.stft(spectrum.flatten(1), 8, onesided=False, return_complex=True),
        torch.istft(spectrum, 16, 5, 12, m.window, normalized=True),
        torch.istft(spectrum, 16, 5, 12, m.window, length=50),
        torch.istft(whole, 16, onesided=False, length=40),
        torch.istft(whole.to(torch.complex128), 16, center=False, onesided=False, return_complex=True),
        torch.istft(torch.view_as_complex(pairs), 8, 3, length=70),
    )


def encoder(m, x):
    return m.layer(x)


def cases_of_arguments():
    parts = dict(lstm=torch.nn.LSTM(5, 4, 2), state=torch.nn.Parameter(normal(2, 3, 4)))
    parts |= dict(ones=torch.nn.Parameter(torch.ones(9)))
    yield "dropouts", Case(Module(dropouts, **parts), [(normal(4, 3, 5), normal(60, 50))])
    small = torch.tensor([[3, 200, 7], [0, 1, 255], [5, 100, 9], [9, 9, 9]], dtype=torch.uint8)
    parts = dict(table=torch.nn.Parameter(normal(4, 3)), large=torch.nn.Parameter(torch.tensor(1000.0)))
    index = torch.tensor([0, 3, 2, 1])
    yield "arguments", Case(Module(arguments, **parts), [(normal(3, 4), normal(3, 4), index, small)])
    x, y = (torch.randn(3, 4, dtype=torch.complex64) for _ in range(2))
    y[0, 1], x[1] = x[0, 1], x[1].real
    yield "complexes", Case(Module(complexes), [(x, y)])
    yield "fourier", Case(Module(fourier), [(normal(2, 3, 6), torch.randn(2, 3, 6, dtype=torch.complex64))])
    window = torch.nn.Parameter(torch.hann_window(12) + 0.1)
    yield "short_time", Case(Module(short_time, window=window), [(normal(2, 60),)])


def bytes_resized(m, x):
    modes = [("bilinear", False), ("bilinear", True), ("bicubic", False), ("bicubic", True)]
    results = [F.interpolate(x, size=(5, 12), mode=mode, antialias=smooth) for mode, smooth in modes]
    results += [F.interpolate(x, scale_factor=(0.6, 1.7), mode=mode, antialias=smooth) for mode, smooth in modes]
    return results + [F.interpolate(x, size=(9, 4), mode=mode, align_corners=True) for mode in ("bilinear", "bicubic")]


def detection(m, x, rois, offsets, scores):
    kept = boxes.nms(rois[:, 1:], scores, 0.3)
    weights = offsets[:, :9].sigmoid()
    return (
        kept,
        rois[kept],
        boxes.batched_nms(rois[:, 1:], scores, rois[:, 0].long(), 0.3),
        boxes.roi_align(x, rois, (2, 3), 0.5, 2),
        boxes.roi_align(x, rois, (2, 3), 0.5, -1, True),
        boxes.roi_pool(x, rois, (2, 3), 0.5),
        boxes.ps_roi_align(x, rois, (2, 3), 0.5, 2),
        boxes.ps_roi_pool(x, rois, (2, 3), 0.5),
        boxes.deform_conv2d(x, offsets, m.filter, m.bias, padding=1, mask=weights),
        boxes.deform_conv2d(x, offsets[:, :, ::2, ::2], m.filter, stride=2, padding=1),
    )


@torch.library.custom_op("transformers::grouped_mm_fallback", mutates_args=())
def grouped_mm(input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    """The operator that transformers registers, for those who have it not."""
    starts = [0, *offs.tolist()]
    return torch.cat([input[start:end] @ own for start, end, own in zip(starts, starts[1:], weight)])


@grouped_mm.register_fake
def _(input, weight, offs):
    return input.new_empty(input.shape[0], weight.shape[2])


def experts(m, x):
    scores, chosen = m.router(x).softmax(-1).topk(2, -1)
    order = chosen.flatten().argsort(stable=True)
    counts = torch.stack([(chosen == expert).sum() for expert in range(4)])
    ends = counts.cumsum(0).to(torch.int32)
    rows = x[order // 2]
    y = F.silu(torch.ops.transformers.grouped_mm_fallback(rows, m.up, ends))
    y = torch.ops.transformers.grouped_mm_fallback(y, m.down, ends) * scores.flatten()[order, None]
    own = torch._grouped_mm(rows, m.up, offs=ends)
    turned = torch._grouped_mm(m.up.transpose(1, 2).contiguous(), rows.T.contiguous(), offs=ends)
    return torch.zeros_like(x).index_add(0, order // 2, y), own, turned


def cases():
    rnn = dict(batch_first=True)
    yield "recurrent", Case(
        Module(
            recurrent,
            lstm=torch.nn.LSTM(3, 4, 2, bidirectional=True),
            gru=torch.nn.GRU(3, 4, bidirectional=True, **rnn),
            tanh=torch.nn.RNN(3, 4, bias=False),
            projected=torch.nn.LSTM(3, 4, proj_size=2, **rnn),
        ),
        [(normal(3, 2, 3),)],
    )
    yield "pools", Case(Module(pools), [(normal(2, 3, 6, 8),)])
    yield "norms", Case(Module(norms, weight=torch.nn.Parameter(normal(4))), [(normal(2, 4, 6),)])
    yield "activations", Case(
        Module(activations, slope=torch.nn.Parameter(normal(3))),
        [(torch.cat([normal(2, 3, 4) * 3, torch.tensor([0.0, -0.0, 25.0, -25.0]).expand(2, 3, 4)], 2),)],
    )
    allowed = torch.tensor([[True, False, True, True], [True] * 4, [False] * 4])
    yield "attention", Case(
        Module(attention), [(normal(2, 2, 3, 8), normal(2, 2, 4, 8), normal(2, 2, 4, 8), allowed)]
    )
    yield "places", Case(
        Module(places, table=torch.nn.Parameter(normal(6, 3))), [(normal(5, 6), torch.tensor([3, 0, 4, 1]))]
    )
    parts = dict(bilinear=torch.nn.Bilinear(5, 5, 2), kernel=torch.nn.Parameter(normal(2, 4, 4)))
    yield "products", Case(Module(products, **parts), [(normal(2, 4, 5), normal(5, 4))])
    yield "shapes", Case(Module(shapes), [(normal(2, 4, 5),)])
    yield "images", Case(Module(images, map=torch.nn.Parameter(normal(1, 2, 3) * 0.5)), [(normal(1, 4, 6, 8),)])
    yield "losses", Case(Module(losses), [(normal(4, 3), normal(4, 3))])
    # The rest of the cases is drawn as before, whatever these draw.
    drawn = torch.random.get_rng_state()
    yield from cases_of_arguments()
    torch.random.set_rng_state(drawn)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    yield "encoder", Case(Module(encoder, layer=layer), [(normal(2, 3, 8),)])
    yield "decomposed", Case(Module(norms, weight=torch.nn.Parameter(normal(4))), [(normal(2, 4, 6),)], decomposed=True)
    parts = dict(
        norm=torch.nn.LayerNorm(8),
        attention=torch.nn.MultiheadAttention(8, 2, batch_first=True),
        position=torch.nn.Parameter(normal(12, 8)),
    )
    yield "dynamic_encoder", Case(
        Module(dynamic_encoder, **parts),
        [(normal(2, 5, 8),), (normal(1, 12, 8),), (normal(3, 2, 8),)],
        dynamic=(({0: Dim("batch", min=1, max=4), 1: Dim("length", min=2, max=12)},),),
    )
    parts = dict(conv=torch.nn.Conv2d(3, 4, 3, padding=1), norm=torch.nn.BatchNorm2d(4))
    height, width = Dim("height", min=2, max=8), Dim("width", min=2, max=8)
    yield "dynamic_image", Case(
        Module(dynamic_image, **parts),
        [(normal(2, 3, 8, 12),), (normal(2, 3, 16, 4),)],
        dynamic=(({2: 2 * height, 3: 2 * width},),),
    )
    yield "bytes_resized", Case(Module(bytes_resized), [(torch.randint(0, 256, (2, 3, 7, 9), dtype=torch.uint8),)])
    corners = torch.rand(12, 2, 2).sort(1).values * torch.tensor([14.0, 12.0])
    rois = torch.cat([torch.arange(12.0).remainder(2)[:, None], corners.flatten(1)], 1)
    parts = dict(filter=torch.nn.Parameter(normal(3, 12, 3, 3)), bias=torch.nn.Parameter(normal(3)))
    yield "detection", Case(
        Module(detection, **parts), [(normal(2, 12, 6, 8), rois, normal(2, 18, 6, 8), torch.rand(12))]
    )
    parts = dict(
        router=torch.nn.Linear(8, 4),
        up=torch.nn.Parameter(normal(4, 8, 16)),
        down=torch.nn.Parameter(normal(4, 16, 8)),
    )
    yield "experts", Case(Module(experts, **parts), [(normal(6, 8),)])


if __name__ == "__main__":
    main(cases, lambda case, run: "" if len(case.runs) == 1 else f".{run}")
