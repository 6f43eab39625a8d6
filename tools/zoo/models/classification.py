"""Classification of images: torchvision's architectures, the smallest of each, cut down where even that is large."""

import torch
import torchvision.models as vision
from row import Method, Row
from torch import nn
from torchvision.models.convnext import CNBlockConfig
from torchvision.models.resnet import Bottleneck

TITLE = "Classification (torchvision)"


def image(name, make, size=64):
    return Row(name, lambda: Method(make(), [(torch.randn(1, 3, size, size),)]))


def plain(name, size=64, **options):
    return image(name, lambda: vision.get_model(name, weights=None, num_classes=10, **options), size)


def classified(name, inputs):
    """A network whose classifier is made smaller."""
    module = vision.get_model(name, weights=None)
    module.classifier = nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Dropout(), nn.Linear(64, 10))
    return module


def residual(**options):
    return lambda: vision.ResNet(Bottleneck, [1, 1, 1, 1], num_classes=10, **options)


def convnext():
    settings = [CNBlockConfig(width, following, 2) for width, following in ((32, 64), (64, 96), (96, None))]
    return vision.ConvNeXt(settings, 0.0, num_classes=10)


def maxvit():
    return vision.MaxVit((64, 64), 32, 2, [32, 48], [1, 1], 16, 0.0, num_classes=10)


def swin(block):
    shape = {"embed_dim": 32, "depths": [2, 2, 2], "num_heads": [2, 4, 8], "window_size": [4, 4], "patch_size": [4, 4]}
    if block is None:
        return lambda: vision.SwinTransformer(**shape, num_classes=10)
    merging = vision.swin_transformer.PatchMergingV2
    return lambda: vision.SwinTransformer(**shape, num_classes=10, block=block, downsample_layer=merging)


def transformer():
    return vision.VisionTransformer(64, 16, num_layers=3, num_heads=4, hidden_dim=128, mlp_dim=256, num_classes=10)


ROWS = [
    image("alexnet", lambda: classified("alexnet", 9216)),
    image("convnext", convnext),
    plain("densenet121"),
    plain("efficientnet_b0"),
    plain("efficientnet_v2_s"),
    plain("googlenet", init_weights=False, aux_logits=False),
    plain("inception_v3", 96, init_weights=False, aux_logits=False),
    image("maxvit", maxvit),
    plain("mnasnet0_5"),
    plain("mobilenet_v2"),
    plain("mobilenet_v3_small"),
    plain("mobilenet_v3_large"),
    plain("regnet_x_400mf"),
    plain("regnet_y_400mf"),
    plain("resnet18"),
    image("resnet50", residual()),
    image("resnext50_32x4d", residual(groups=32, width_per_group=4)),
    image("wide_resnet50_2", residual(width_per_group=128)),
    plain("shufflenet_v2_x0_5"),
    plain("squeezenet1_1"),
    image("swin_t", swin(None)),
    image("swin_v2_t", swin(vision.swin_transformer.SwinTransformerBlockV2)),
    image("vgg11_bn", lambda: classified("vgg11_bn", 25088)),
    image("vit", transformer),
]
