"""Detection of objects, with what follows the network: boxes from offsets, the best scores, suppression of overlaps."""

import torch
import torch.nn.functional as F
import transformers
import torchvision.models.detection as vision
from models.hugging import small
from row import Method, Row
from torch import nn
from torchvision.models.detection.image_list import ImageList
from torchvision.ops import batched_nms, box_convert, clip_boxes_to_image, nms, roi_align

TITLE = "Detection"
BACKBONE = {
    "num_channels": 3,
    "embedding_size": 16,
    "hidden_sizes": [16, 32, 48, 64],
    "depths": [1, 1, 1, 1],
    "layer_type": "basic",
}
QUERIES = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "num_queries": 12,
    "num_labels": 5,
}


class SingleShot(nn.Module):
    """SSD of torchvision: its boxes and anchors as they are, of which the best of each class stay."""

    def __init__(self, model, keep=8):
        super().__init__()
        self.model, self.keep = model, keep

    def forward(self, image):
        images = ImageList(image, [tuple(image.shape[2:])])
        features = list(self.model.backbone(image).values())
        found, [anchors] = self.model.head(features), self.model.anchor_generator(images, features)
        boxes = self.model.box_coder.decode_single(found["bbox_regression"][0], anchors)
        boxes = clip_boxes_to_image(boxes, tuple(image.shape[2:]))
        scores, best = found["cls_logits"][0].softmax(-1)[:, 1:].topk(self.keep, 0)
        labels = torch.arange(scores.shape[1]).expand_as(scores)
        boxes, scores, labels = boxes[best.flatten()], scores.flatten(), labels.flatten()
        keep = batched_nms(boxes, scores, labels, 0.5)
        return boxes[keep], scores[keep], labels[keep]


def vision_row(name, size=64):
    def make():
        model = getattr(vision, name)(weights=None, weights_backbone=None, num_classes=5)
        return Method(SingleShot(model), [(torch.rand(1, 3, size, size),)])

    return Row(name, make, jumps=True)


class Decoded(nn.Module):
    """Queries become boxes in pixels with their best labels, the most certain first."""

    def __init__(self, model, size, keep=5):
        super().__init__()
        self.model, self.size, self.keep = model, size, keep

    def forward(self, pixel_values):
        found = self.model(pixel_values=pixel_values)
        scores, labels = found.logits.softmax(-1)[..., :-1].max(-1)
        scores, best = scores.topk(self.keep, -1)
        boxes = box_convert(found.pred_boxes, "cxcywh", "xyxy") * self.size
        return scores, labels.gather(1, best), boxes.gather(1, best.unsqueeze(-1).expand(-1, -1, 4))


def queries(name, kind, size=64, suffix="ForObjectDetection", **options):
    """DETR and its relatives."""

    def make():
        config = getattr(transformers, f"{kind}Config")(**small(QUERIES | options, {}))
        return Method(
            Decoded(getattr(transformers, f"{kind}{suffix}")(config), size), [(torch.randn(1, 3, size, size),)]
        )

    return Row(name, make, jumps=True)


def backbone():
    return transformers.ResNetConfig(**BACKBONE, out_features=["stage2", "stage3", "stage4"])


def last():
    return transformers.ResNetConfig(**BACKBONE, out_features=["stage4"])


def layer(inputs, outputs, stride=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.SiLU())


def pyramid():
    return nn.ModuleList(
        [nn.Sequential(layer(3, 16, 2), layer(16, 24, 2), layer(24, 32, 2)), layer(32, 32, 2), layer(32, 32, 2)]
    )


class AnchorFree(nn.Module):
    """YOLOv8's head: distances to the sides as expectations over 8 bins, the best boxes of fixed number."""

    def __init__(self, classes=4):
        super().__init__()
        self.levels = pyramid()
        self.boxes = nn.ModuleList(nn.Conv2d(32, 4 * 8, 1) for _ in range(3))
        self.classes = nn.ModuleList(nn.Conv2d(32, classes, 1) for _ in range(3))

    def forward(self, x):
        boxes, scores = [], []
        for number, level in enumerate(self.levels):
            x = level(x)
            height, width, stride = x.shape[2], x.shape[3], 8 << number
            bins = self.boxes[number](x).view(x.shape[0], 4, 8, -1).softmax(2)
            sides = (bins * torch.arange(8.0).view(1, 1, 8, 1)).sum(2)
            rows, columns = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij")
            centre = torch.stack([columns.flatten(), rows.flatten()])
            boxes.append(torch.cat([centre - sides[:, :2], centre + sides[:, 2:]], 1) * stride)
            scores.append(self.classes[number](x).flatten(2).sigmoid())
        boxes, scores = torch.cat(boxes, 2).transpose(1, 2), torch.cat(scores, 2).transpose(1, 2)
        best, labels = scores.max(-1)
        best, chosen = best.topk(10, -1)
        return boxes.gather(1, chosen.unsqueeze(-1).expand(-1, -1, 4)), best, labels.gather(1, chosen)


class Suppressed(AnchorFree):
    """The same with suppression of overlaps, so that the number of boxes depends on the image."""

    def forward(self, x):
        boxes, scores, labels = super().forward(x)
        keep = batched_nms(boxes[0], scores[0], labels[0], 0.5)
        return boxes[0][keep], scores[0][keep], labels[0][keep]


class AnchorBased(nn.Module):
    """YOLOv5's head: three shapes for each cell, products of certainty and class, suppression of overlaps."""

    def __init__(self, classes=4):
        super().__init__()
        self.levels, self.count = pyramid(), 5 + classes
        self.heads = nn.ModuleList(nn.Conv2d(32, 3 * self.count, 1) for _ in range(3))
        self.register_buffer("anchors", torch.tensor([[8.0, 12], [16, 10], [20, 24]]))

    def forward(self, x):
        found = []
        for number, level in enumerate(self.levels):
            x = level(x)
            batch, _, height, width = x.shape
            y = self.heads[number](x).view(batch, 3, self.count, height, width).permute(0, 1, 3, 4, 2).sigmoid()
            grid = torch.stack(torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")[::-1], -1)
            centre = (y[..., :2] * 2 + grid - 0.5) * (8 << number)
            size = (y[..., 2:4] * 2) ** 2 * self.anchors.view(1, 3, 1, 1, 2) * (1 << number)
            found.append(torch.cat([centre, size, y[..., 4:]], -1).flatten(1, 3))
        [found] = torch.cat(found, 1)
        boxes, (scores, labels) = box_convert(found[:, :4], "cxcywh", "xyxy"), (found[:, 4:5] * found[:, 5:]).max(-1)
        keep = nms(boxes, scores, 0.45)[:20]
        return boxes[keep], scores[keep], labels[keep]


class Centres(nn.Module):
    """CenterNet: peaks of a map are objects; a maximum over neighbours takes the place of suppression."""

    def __init__(self, classes=3):
        super().__init__()
        self.body = nn.Sequential(layer(3, 16, 2), layer(16, 32, 2), layer(32, 32))
        self.heat, self.size, self.offset = nn.Conv2d(32, classes, 1), nn.Conv2d(32, 2, 1), nn.Conv2d(32, 2, 1)

    def forward(self, x):
        y = self.body(x)
        heat = self.heat(y).sigmoid()
        heat = heat * (F.max_pool2d(heat, 3, 1, 1) == heat)
        scores, places = heat.flatten(1).topk(8)
        cells = heat.shape[2] * heat.shape[3]
        labels, places = places // cells, places % cells
        take = lambda values: values.flatten(2).gather(2, places.unsqueeze(1).expand(-1, 2, -1))
        centre = torch.stack([places % heat.shape[3], places // heat.shape[3]], 1) + take(self.offset(y))
        half = take(self.size(y)).exp() / 2
        return torch.cat([centre - half, centre + half], 1).transpose(1, 2) * 4, scores, labels


class TwoStages(nn.Module):
    """The second stage of Faster R-CNN alone: regions of a map, aligned, classified and refined."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(layer(3, 16, 2), layer(16, 16, 2))
        self.hidden, self.classes, self.refine = nn.Linear(16 * 49, 32), nn.Linear(32, 4), nn.Linear(32, 16)

    def forward(self, x, boxes):
        regions = roi_align(self.body(x), [boxes], (7, 7), 0.25, sampling_ratio=2)
        y = self.hidden(regions.flatten(1)).relu()
        return self.classes(y).softmax(-1), boxes.repeat(1, 4) + self.refine(y)


def image(name, make, size=64, jumps=True):
    return Row(name, lambda: Method(make(), [(torch.randn(1, 3, size, size),)]), jumps)


def regions():
    corner, extent = torch.rand(6, 2) * 32, torch.rand(6, 2) * 24 + 4
    return Method(TwoStages(), [(torch.randn(1, 3, 64, 64), torch.cat([corner, corner + extent], 1))])


def pixels(name, make, size=64):
    """Detectors whose queries are the patches themselves."""
    return Row(name, lambda: Method(Decoded(make(), size), [(torch.randn(1, 3, size, size),)]), jumps=True)


def yolos():
    options = {"image_size": [64, 64], "patch_size": 16, "num_detection_tokens": 8, "num_labels": 5}
    return transformers.YolosForObjectDetection(transformers.YolosConfig(**small(options)))


ROWS = [
    vision_row("ssdlite320_mobilenet_v3_large"),
    image("anchor_free", AnchorFree),
    image("anchor_free_nms", Suppressed),
    image("anchor_based_nms", AnchorBased),
    image("centre_net", Centres),
    Row("roi_head", regions),
    queries("detr", "Detr", use_timm_backbone=False, backbone=None, backbone_config=last()),
    queries("conditional_detr", "ConditionalDetr", use_timm_backbone=False, backbone=None, backbone_config=last()),
    queries(
        "deformable_detr",
        "DeformableDetr",
        use_timm_backbone=False,
        backbone=None,
        backbone_config=backbone(),
        num_feature_levels=3,
        decoder_layers=2,
        disable_custom_kernels=True,
    ),
    queries(
        "dab_detr",
        "DabDetr",
        use_timm_backbone=False,
        backbone=None,
        backbone_config=last(),
        hidden_size=32,
        d_model=None,
    ),
    queries("table_transformer", "TableTransformer", use_timm_backbone=False, backbone=None, backbone_config=last()),
    queries(
        "rt_detr",
        "RTDetr",
        backbone_config=transformers.RTDetrResNetConfig(**BACKBONE, out_features=["stage2", "stage3", "stage4"]),
        encoder_hidden_dim=32,
        encoder_in_channels=[32, 48, 64],
        decoder_in_channels=[32, 32, 32],
        anchor_image_size=[64, 64],
        disable_custom_kernels=True,
    ),
    queries(
        "rt_detr_v2",
        "RTDetrV2",
        backbone_config=transformers.RTDetrResNetConfig(**BACKBONE, out_features=["stage2", "stage3", "stage4"]),
        encoder_hidden_dim=32,
        encoder_in_channels=[32, 48, 64],
        decoder_in_channels=[32, 32, 32],
        anchor_image_size=[64, 64],
        decoder_layers=2,
    ),
    pixels("yolos", yolos),
]
