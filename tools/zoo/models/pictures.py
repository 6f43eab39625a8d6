"""Images to images, and places in images: written with torch alone."""

import torch
import torch.nn.functional as F
from row import Method, Row
from torch import nn
from torch.export import Dim

TITLE = "Images to images, places in images"


def conv(inputs, outputs, size=3, **options):
    return nn.Conv2d(inputs, outputs, size, padding=size // 2, **options)


class Upscaled(nn.Module):
    """ESPCN, EDSR: residual blocks, then channels become pixels."""

    def __init__(self, width=16, scale=2):
        super().__init__()
        self.enter = conv(3, width)
        self.blocks = nn.ModuleList(nn.Sequential(conv(width, width), nn.ReLU(), conv(width, width)) for _ in range(2))
        self.leave = nn.Sequential(conv(width, 3 * scale**2), nn.PixelShuffle(scale))

    def forward(self, x):
        y = self.enter(x)
        for block in self.blocks:
            y = y + 0.5 * block(y)
        return self.leave(y) + F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False)


class Weighed(nn.Module):
    """RCAN: channels weighed by their means."""

    def __init__(self, width=16):
        super().__init__()
        self.enter, self.inner, self.leave = (
            conv(3, width),
            nn.Sequential(conv(width, width), nn.PReLU(width)),
            conv(width, 3),
        )
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, 4, 1), nn.ReLU(), nn.Conv2d(4, width, 1), nn.Sigmoid()
        )

    def forward(self, x):
        y = self.inner(self.enter(x))
        return x + self.leave(y * self.weigh(y))


class Simple(nn.Module):
    """NAFNet: halves multiply each other, norms over channels, pixels unshuffled and shuffled back."""

    def __init__(self, width=12):
        super().__init__()
        self.enter, self.leave = nn.Conv2d(12, width, 1), nn.Conv2d(width, 12, 1)
        self.norm, self.wide = nn.LayerNorm(width), nn.Conv2d(width, 2 * width, 1)
        self.deep, self.back = (
            nn.Conv2d(2 * width, 2 * width, 3, padding=1, groups=2 * width),
            nn.Conv2d(width, width, 1),
        )

    def forward(self, x):
        y = self.enter(F.pixel_unshuffle(x, 2))
        z = self.norm(y.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        a, b = self.deep(self.wide(z)).chunk(2, 1)
        y = y + self.back(a * b * (a * b).mean((2, 3), keepdim=True))
        return x + F.pixel_shuffle(self.leave(y), 2)


class Styled(nn.Module):
    """Fast style transfer: reflected edges, norms of each image, nearest pixels."""

    def __init__(self, width=8):
        super().__init__()
        block = lambda a, b, size, step: nn.Sequential(
            nn.ReflectionPad2d(size // 2), nn.Conv2d(a, b, size, step), nn.InstanceNorm2d(b, affine=True)
        )
        self.down = nn.Sequential(block(3, width, 9, 1), nn.ReLU(), block(width, 2 * width, 3, 2), nn.ReLU())
        self.inner = nn.Sequential(block(2 * width, 2 * width, 3, 1), nn.ReLU(), block(2 * width, 2 * width, 3, 1))
        self.up = nn.Sequential(
            nn.Upsample(scale_factor=2, mode="nearest"), block(2 * width, width, 3, 1), nn.ReLU(), block(width, 3, 9, 1)
        )

    def forward(self, x):
        y = self.down(x)
        return self.up(y + self.inner(y)).tanh()


class Adapted(nn.Module):
    """AdaIN: the means and widths of one image's features for those of another."""

    def __init__(self, width=16):
        super().__init__()
        self.encode = nn.Sequential(conv(3, width), nn.LeakyReLU(0.2), conv(width, width, stride=2))
        self.decode = nn.Sequential(nn.ConvTranspose2d(width, width, 4, 2, 1), nn.ReLU(), conv(width, 3))

    def forward(self, content, style):
        a, b = self.encode(content), self.encode(style)
        normal = (a - a.mean((2, 3), keepdim=True)) / (a.std((2, 3), keepdim=True) + 1e-5)
        return self.decode(normal * b.std((2, 3), keepdim=True) + b.mean((2, 3), keepdim=True))


class Modulated(nn.Module):
    """StyleGAN2: weights that the style scales and norms undo, by convolution in groups."""

    def __init__(self, width=8, style=12):
        super().__init__()
        self.map = nn.Sequential(nn.Linear(style, style), nn.LeakyReLU(0.2), nn.Linear(style, style))
        self.first, self.weight = (
            nn.Parameter(torch.randn(1, width, 4, 4)),
            nn.Parameter(torch.randn(width, width, 3, 3)),
        )
        self.affine, self.colour, self.noise = (
            nn.Linear(style, width),
            conv(width, 3, 1),
            nn.Parameter(torch.randn(8, 8) / 8),
        )

    def forward(self, z):
        style = self.affine(self.map(z / z.square().mean(1, keepdim=True).add(1e-8).sqrt())) + 1
        weight = self.weight.unsqueeze(0) * style[:, None, :, None, None]
        weight = weight * weight.square().sum((2, 3, 4), keepdim=True).add(1e-8).rsqrt()
        x = F.interpolate(self.first, scale_factor=2, mode="bilinear", align_corners=False).expand(len(z), -1, -1, -1)
        x = F.conv2d(x.reshape(1, -1, 8, 8), weight.flatten(0, 1), padding=1, groups=len(z)).view(len(z), -1, 8, 8)
        return self.colour(F.leaky_relu(x + self.noise, 0.2))


class Generator(nn.Module):
    """DCGAN: from a vector by transposed convolutions."""

    def __init__(self, width=16):
        super().__init__()
        up = lambda a, b, *rest: [nn.ConvTranspose2d(a, b, 4, *rest, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
        self.body = nn.Sequential(
            *up(20, width, 1, 0), *up(width, 8, 2, 1), nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Tanh()
        )

    def forward(self, z):
        return self.body(z)


class Turned(nn.Module):
    """A spatial transformer: the image decides how it is turned, then is read."""

    def __init__(self):
        super().__init__()
        self.look = nn.Sequential(nn.Conv2d(1, 8, 7), nn.MaxPool2d(2), nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten())
        self.six, self.read = (
            nn.Linear(72, 6),
            nn.Sequential(nn.Conv2d(1, 8, 5, 2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10)),
        )
        self.read(torch.zeros(1, 1, 28, 28))

    def forward(self, x):
        change = self.six(self.look(x)).view(-1, 2, 3) * 0.2 + torch.eye(2, 3)
        grid = F.affine_grid(change, list(x.shape), align_corners=False)
        return self.read(F.grid_sample(x, grid, align_corners=False, padding_mode="border"))


class Points(nn.Module):
    """Key points: the mean place of each map, and the hard one with a quarter of a pixel towards its neighbour."""

    def __init__(self, points=5):
        super().__init__()
        self.maps = nn.Sequential(
            conv(3, 16, stride=2), nn.ReLU(), nn.ConvTranspose2d(16, 16, 2, 2), nn.ReLU(), conv(16, points, 1)
        )

    def forward(self, x):
        maps = self.maps(x)
        height, width = maps.shape[2:]
        share = maps.flatten(2).softmax(-1).view_as(maps)
        soft = torch.stack(
            [(share.sum(2) * torch.arange(float(width))).sum(-1), (share.sum(3) * torch.arange(float(height))).sum(-1)],
            -1,
        )
        best = maps.flatten(2).argmax(-1)
        return soft, torch.stack([best % width, torch.div(best, width, rounding_mode="floor")], -1)


class Tracked(nn.Module):
    """SiamFC: the features of a patch are the filter for those of the search region."""

    def __init__(self, width=8):
        super().__init__()
        self.eyes = nn.Sequential(nn.Conv2d(3, width, 5, 2), nn.ReLU(), nn.Conv2d(width, width, 3))

    def forward(self, patch, region):
        a, b = self.eyes(patch), self.eyes(region)
        batch, width = a.shape[:2]
        found = F.conv2d(
            b.reshape(1, -1, *b.shape[2:]), a.reshape(batch * width, 1, *a.shape[2:]), groups=batch * width
        )
        return found.view(batch, width, *found.shape[2:]).sum(1)


class Stereo(nn.Module):
    """Two views: a volume of all shifts, convolutions in three dimensions, the mean shift."""

    def __init__(self, width=8, shifts=6):
        super().__init__()
        self.shifts, self.eyes = shifts, nn.Sequential(conv(3, width, stride=2), nn.ReLU(), conv(width, width))
        self.volume = nn.Sequential(nn.Conv3d(2 * width, 8, 3, padding=1), nn.ReLU(), nn.Conv3d(8, 1, 3, padding=1))

    def forward(self, left, right):
        a, b = self.eyes(left), self.eyes(right)
        pairs = [torch.cat([a, F.pad(b, (shift, 0))[..., : b.shape[3]]], 1) for shift in range(self.shifts)]
        cost = self.volume(torch.stack(pairs, 2)).squeeze(1)
        return (cost.softmax(1) * torch.arange(float(self.shifts)).view(1, -1, 1, 1)).sum(1)


class Faces(nn.Module):
    """BlazeFace: blocks with padding on one side and channels added by zeros, anchors flattened."""

    def __init__(self):
        super().__init__()
        self.enter = nn.Conv2d(3, 16, 5, 2)
        self.deep, self.wide = nn.Conv2d(16, 16, 3, 2, groups=16), nn.Conv2d(16, 24, 1)
        self.scores, self.boxes = nn.Conv2d(24, 2, 1), nn.Conv2d(24, 32, 1)

    def forward(self, x):
        y = self.enter(F.pad(x, (1, 2, 1, 2))).relu()
        z = self.wide(self.deep(F.pad(y, (0, 2, 0, 2))))
        y = (z + F.pad(F.max_pool2d(y, 2), (0, 0, 0, 0, 0, 8))).relu()
        flat = lambda maps, each: maps.permute(0, 2, 3, 1).reshape(maps.shape[0], -1, each)
        return flat(self.boxes(y), 16), flat(self.scores(y), 1).clamp(-100, 100).sigmoid()


class Patches(nn.Module):
    """Swin by hand: shifted windows by rolling, with a table of relative places and a mask."""

    def __init__(self, width=16, window=4):
        super().__init__()
        self.window, self.qkv, self.leave = window, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, 2))
        place = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        apart = (place[:, :, None] - place[:, None]).permute(1, 2, 0) + window - 1
        self.register_buffer("index", apart[..., 0] * (2 * window - 1) + apart[..., 1])

    def forward(self, x):
        batch, height, width, channels = x.shape
        w = self.window
        y = torch.roll(x, (-w // 2, -w // 2), (1, 2))
        y = y.view(batch, height // w, w, width // w, w, channels).transpose(2, 3).reshape(-1, w * w, channels)
        q, k, v = self.qkv(y).view(len(y), w * w, 3, 2, -1).permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(q, k, v, self.table[self.index].permute(2, 0, 1))
        y = self.leave(found.transpose(1, 2).flatten(2)).view(batch, height // w, width // w, w, w, channels)
        return x + torch.roll(y.transpose(2, 3).reshape(x.shape), (w // 2, w // 2), (1, 2))


class Sharpened(nn.Module):
    """An image pipeline: colours by a matrix, a blur by a fixed filter, a curve looked up between its points."""

    def __init__(self):
        super().__init__()
        self.register_buffer("matrix", torch.randn(3, 3) / 3 + torch.eye(3))
        self.register_buffer("blur", (torch.tensor([1.0, 4, 6, 4, 1]) / 16).repeat(3, 1, 1))
        self.curve = nn.Parameter(torch.linspace(0, 1, 17) ** 0.7)

    def forward(self, x):
        x = torch.einsum("ij,bjhw->bihw", self.matrix, x)
        smooth = F.conv2d(F.pad(x, (2, 2, 2, 2), mode="replicate"), self.blur.unsqueeze(2), groups=3)
        smooth = F.conv2d(smooth, self.blur.unsqueeze(3), groups=3)
        place = (x + 0.5 * (x - smooth)).clamp(0, 1) * 16
        low = place.floor().clamp(max=15)
        index = low.long()
        return torch.lerp(self.curve[index], self.curve[index + 1], place - low)


def image(name, make, *shapes, jumps=False):
    return Row(name, lambda: Method(make(), [tuple(torch.rand(*shape) for shape in shapes)]), jumps)


def any_size():
    """The upscaler on images of several sizes."""
    sizes = {2: Dim("rows", min=8, max=64), 3: Dim("columns", min=8, max=64)}
    return Method(Convolved(), [(torch.rand(1, 3, *size),) for size in ((16, 24), (30, 10), (64, 33))], (sizes,))


class Convolved(nn.Module):
    """DnCNN: the noise in an image of any size."""

    def __init__(self, width=12):
        super().__init__()
        inner = [part for _ in range(2) for part in (conv(width, width, bias=False), nn.BatchNorm2d(width), nn.ReLU())]
        self.body = nn.Sequential(conv(3, width), nn.ReLU(), *inner, conv(width, 3))

    def forward(self, x):
        return x - self.body(x)


ROWS = [
    Row("dncnn_dynamic", any_size),
    image("edsr", Upscaled, (1, 3, 16, 20)),
    image("rcan", Weighed, (1, 3, 24, 24)),
    image("nafnet", Simple, (1, 3, 16, 16)),
    image("style_transfer", Styled, (1, 3, 32, 32)),
    image("adain", Adapted, (1, 3, 24, 24), (1, 3, 24, 24)),
    image("style_gan", Modulated, (2, 12)),
    image("dcgan", Generator, (2, 20, 1, 1)),
    image("spatial_transformer", Turned, (2, 1, 28, 28)),
    image("key_points", Points, (1, 3, 24, 32), jumps=True),
    image("siamese_tracker", Tracked, (2, 3, 15, 15), (2, 3, 31, 31)),
    image("stereo", Stereo, (1, 3, 16, 32), (1, 3, 16, 32)),
    image("blaze_face", Faces, (1, 3, 64, 64)),
    image("shifted_windows", Patches, (1, 8, 8, 16)),
    image("image_pipeline", Sharpened, (1, 3, 20, 20)),
]
