"""Networks over images in time."""

import torch
import torchvision.models.video as vision
from models.hugging import Wrapped, model, small
from row import Method, Row
from torch import nn

TITLE = "Video"


def clip(name, make, shape):
    return Row(name, lambda: Method(make(), [(torch.randn(1, *shape),)]))


def plain(name, shape=(3, 8, 32, 32), **options):
    return clip(name, lambda: getattr(vision, name)(weights=None, num_classes=10, **options), shape)


def residual(block, maker, stem):
    """ResNets over time with a block in each stage and narrow stages."""
    kinds = [maker] * 4 if not isinstance(maker, list) else maker
    return lambda: vision.VideoResNet(block, kinds, [1, 1, 1, 1], stem, num_classes=10)


def multiscale():
    block = lambda heads, inputs, outputs, pool: vision.mvit.MSBlockConfig(
        heads, inputs, outputs, [3, 3, 3], [3, 3, 3], pool, [1, 2, 2]
    )
    blocks = [block(1, 32, 64, [1, 1, 1]), block(2, 64, 64, [1, 2, 2]), block(2, 64, 64, [1, 1, 1])]
    return vision.MViT(
        (32, 32),
        8,
        blocks,
        residual_pool=True,
        residual_with_cls_embed=False,
        rel_pos_embed=True,
        proj_after_attn=True,
        num_classes=10,
    )


def swin():
    return vision.SwinTransformer3d([2, 4, 4], 32, [2, 2], [2, 4], [4, 4, 4], num_classes=10)


def hugging(name, kind, output="last_hidden_state", suffix="Model", frames=4, size=32, **options):
    shape = {"image_size": size, "patch_size": 16, "num_frames": frames, "vocab_size": None}
    make = lambda: model(f"{kind}{suffix}", f"{kind}Config", **small(shape | options))
    inputs = [options.pop("inputs", "pixel_values")]
    return clip(name, lambda: Wrapped(make(), inputs, [output]), (frames, 3, size, size))


class Shift(nn.Module):
    """TSM: some channels of each image are taken from the one before and the one after."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.leave = nn.Conv2d(3, 16, 3, 2, 1), nn.Conv2d(16, 16, 3, 2, 1), nn.Linear(16, 10)

    def forward(self, x):
        batch, time = x.shape[:2]
        y = self.first(x.flatten(0, 1)).relu()
        z = y.view(batch, time, *y.shape[1:])
        shifted = torch.zeros_like(z)
        shifted[:, :-1, :4] = z[:, 1:, :4]
        shifted[:, 1:, 4:8] = z[:, :-1, 4:8]
        shifted[:, :, 8:] = z[:, :, 8:]
        y = self.second(shifted.flatten(0, 1)).relu()
        return self.leave(y.mean((2, 3)).view(batch, time, -1).mean(1))


class SlowFast(nn.Module):
    """Two rates of images, joined by a convolution over time."""

    def __init__(self):
        super().__init__()
        self.slow, self.fast = (
            nn.Conv3d(3, 16, (1, 5, 5), (1, 2, 2), (0, 2, 2)),
            nn.Conv3d(3, 4, (5, 5, 5), (1, 2, 2), (2, 2, 2)),
        )
        self.join = nn.Conv3d(4, 8, (5, 1, 1), (4, 1, 1), (2, 0, 0))
        self.norm, self.leave = nn.BatchNorm3d(24), nn.Linear(28, 10)

    def forward(self, x):
        slow, fast = self.slow(x[:, :, ::4]).relu(), self.fast(x).relu()
        slow = self.norm(torch.cat([slow, self.join(fast)], 1)).relu()
        return self.leave(torch.cat([slow.mean((2, 3, 4)), fast.mean((2, 3, 4))], 1))


class Flow(nn.Module):
    """RAFT in small: all pairs of places, looked up around a flow that is corrected again and again."""

    def __init__(self, radius=2):
        super().__init__()
        self.radius, side = radius, 2 * radius + 1
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 7, 2, 3), nn.InstanceNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, 2, 1)
        )
        self.cell, self.correct = nn.Conv2d(side * side + 2 + 16, 16, 3, padding=1), nn.Conv2d(16, 2, 3, padding=1)

    def forward(self, first, second):
        one, two = self.features(first), self.features(second)
        batch, width, height, columns = one.shape
        pairs = torch.einsum("bchw,bcij->bhwij", one, two) / width**0.5
        volume = pairs.reshape(batch * height * columns, 1, height, columns)
        rows, cols = torch.meshgrid(torch.arange(float(height)), torch.arange(float(columns)), indexing="ij")
        base = torch.stack([cols, rows], -1).expand(batch, -1, -1, -1)
        reach = torch.arange(-self.radius, self.radius + 1.0)
        window = torch.stack(torch.meshgrid(reach, reach, indexing="xy"), -1)
        scale = torch.tensor([columns - 1.0, height - 1.0]) / 2
        flow, hidden = torch.zeros_like(base), torch.tanh(one)
        for _ in range(3):
            places = (base + flow).reshape(-1, 1, 1, 2) + window
            around = nn.functional.grid_sample(volume, places / scale - 1, align_corners=True)
            around = around.reshape(batch, height, columns, -1).permute(0, 3, 1, 2)
            hidden = torch.tanh(self.cell(torch.cat([around, flow.permute(0, 3, 1, 2), hidden], 1)))
            flow = flow + self.correct(hidden).permute(0, 2, 3, 1)
        return flow


ROWS = [
    clip(
        "r3d", residual(vision.resnet.BasicBlock, vision.resnet.Conv3DSimple, vision.resnet.BasicStem), (3, 4, 32, 32)
    ),
    clip(
        "mc3",
        residual(
            vision.resnet.BasicBlock,
            [vision.resnet.Conv3DSimple] + [vision.resnet.Conv3DNoTemporal] * 3,
            vision.resnet.BasicStem,
        ),
        (3, 4, 32, 32),
    ),
    clip(
        "r2plus1d",
        residual(vision.resnet.BasicBlock, vision.resnet.Conv2Plus1D, vision.resnet.R2Plus1dStem),
        (3, 4, 32, 32),
    ),
    plain("s3d", (3, 16, 224, 224)),
    clip("mvit", multiscale, (3, 8, 32, 32)),
    clip("swin3d", swin, (3, 4, 32, 32)),
    hugging("videomae", "VideoMAE", tubelet_size=2),
    hugging("timesformer", "Timesformer", attention_type="divided_space_time"),
    hugging("vivit", "Vivit", video_size=[4, 32, 32], tubelet_size=[2, 16, 16], image_size=32),
    hugging(
        "vjepa2",
        "VJEPA2",
        inputs="pixel_values_videos",
        crop_size=32,
        frames_per_clip=4,
        tubelet_size=2,
        pred_hidden_size=32,
        pred_num_attention_heads=2,
        pred_num_hidden_layers=1,
        pred_num_mask_tokens=1,
        image_size=None,
        num_frames=None,
    ),
    clip("temporal_shift", Shift, (4, 3, 32, 32)),
    clip("slow_fast", SlowFast, (3, 8, 32, 32)),
    Row("raft", lambda: Method(Flow(), [(torch.randn(1, 3, 48, 64), torch.randn(1, 3, 48, 64))])),
]
