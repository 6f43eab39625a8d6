"""Segmentation and other maps of an image: torchvision, segmentation_models_pytorch, transformers."""

import segmentation_models_pytorch as smp
import torch
import torchvision.models.segmentation as vision
import transformers
from models.detection import BACKBONE
from models.hugging import Wrapped, small
from row import Method, Row
from torch import nn
from torch.export import Dim

TITLE = "Segmentation and depth"
HIERARCHY = {
    "hidden_sizes": [16, 32, 48, 64],
    "depths": [1, 1, 1, 1],
    "num_attention_heads": [1, 2, 4, 4],
    "decoder_hidden_size": 32,
}


class Mapped(nn.Module):
    """A network of torchvision, whose result is the map called `out`."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, image):
        return self.model(image)["out"]


def torchvision_row(name, dynamic=False, **options):
    """With dynamic sizes, any number of images."""

    def make():
        module = Mapped(getattr(vision, name)(weights=None, weights_backbone=None, num_classes=4, **options))
        batches = (2, 1, 4) if dynamic else (1,)
        shapes = ({0: Dim("batch", min=1, max=4)},) if dynamic else None
        return Method(module, [(torch.randn(batch, 3, 64, 64),) for batch in batches], shapes)

    return Row(name + ("_dynamic" if dynamic else ""), make)


def smp_row(name, encoder="timm-mobilenetv3_small_075", size=64):
    """A decoder of segmentation_models_pytorch."""
    make = lambda: getattr(smp, name)(encoder, encoder_weights=None, classes=3)
    return Row(name.lower(), lambda: Method(make(), [(torch.randn(1, 3, size, size),)]))


def hugging_row(name, make, output="logits", size=64):
    outputs = output if isinstance(output, list) else [output]
    return Row(name, lambda: Method(Wrapped(make(), ["pixel_values"], outputs), [(torch.randn(1, 3, size, size),)]))


def pyramid(kind=transformers.ResNetConfig):
    return kind(**BACKBONE, out_features=["stage1", "stage2", "stage3", "stage4"])


def segformer():
    config = transformers.SegformerConfig(**HIERARCHY, num_labels=4)
    return transformers.SegformerForSemanticSegmentation(config)


def glpn():
    return transformers.GLPNForDepthEstimation(transformers.GLPNConfig(**HIERARCHY))


def upernet():
    config = transformers.UperNetConfig(
        backbone_config=pyramid(),
        hidden_size=32,
        pool_scales=[1, 2],
        num_labels=4,
        auxiliary_in_channels=48,
        auxiliary_channels=16,
    )
    return transformers.UperNetForSemanticSegmentation(config)


def dpt():
    config = transformers.DPTConfig(
        **small(
            {
                "image_size": 64,
                "patch_size": 16,
                "num_hidden_layers": 4,
                "backbone_out_indices": [0, 1, 2, 3],
                "neck_hidden_sizes": [16, 16, 32, 32],
                "fusion_hidden_size": 16,
                "is_hybrid": False,
            }
        )
    )
    return lifted(transformers.DPTForDepthEstimation(config))


def lifted(made):
    """A depth whose last ReLU does not make it zero."""
    made.head.head[-2].bias.data.fill_(1)
    return made


def depth_anything():
    inner = transformers.Dinov2Config(
        **small(
            {
                "image_size": 70,
                "patch_size": 14,
                "num_hidden_layers": 4,
                "out_indices": [1, 2, 3, 4],
                "reshape_hidden_states": False,
                "apply_layernorm": True,
            }
        )
    )
    config = transformers.DepthAnythingConfig(
        backbone_config=inner,
        reassemble_hidden_size=64,
        patch_size=14,
        neck_hidden_sizes=[16, 16, 32, 32],
        fusion_hidden_size=16,
        head_hidden_size=8,
    )
    return transformers.DepthAnythingForDepthEstimation(config)


def mask2former():
    inner = transformers.SwinConfig(
        image_size=64,
        embed_dim=16,
        depths=[1, 1, 1, 1],
        num_heads=[1, 2, 2, 4],
        window_size=4,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )
    config = transformers.Mask2FormerConfig(
        backbone_config=inner,
        hidden_dim=32,
        feature_size=32,
        mask_feature_size=32,
        encoder_feedforward_dim=64,
        dim_feedforward=64,
        encoder_layers=1,
        decoder_layers=2,
        num_attention_heads=4,
        num_queries=6,
        num_labels=4,
    )
    return transformers.Mask2FormerForUniversalSegmentation(config)


def maskformer():
    inner = transformers.SwinConfig(
        image_size=64,
        embed_dim=16,
        depths=[1, 1, 1, 1],
        num_heads=[1, 2, 2, 4],
        window_size=4,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )
    decoder = transformers.DetrConfig(
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        num_queries=6,
        use_timm_backbone=False,
        backbone=None,
        backbone_config=transformers.ResNetConfig(**BACKBONE),
    )
    config = transformers.MaskFormerConfig(
        backbone_config=inner, decoder_config=decoder, fpn_feature_size=32, mask_feature_size=32, num_labels=4
    )
    return transformers.MaskFormerForInstanceSegmentation(config)


def mobilevit():
    config = transformers.MobileViTConfig(
        image_size=64,
        hidden_sizes=[32, 48, 64],
        neck_hidden_sizes=[8, 16, 24, 32, 48, 64, 80],
        num_labels=4,
        aspp_out_channels=32,
        atrous_rates=[2, 4, 6],
    )
    return transformers.MobileViTForSemanticSegmentation(config)


def beit():
    config = transformers.BeitConfig(
        **small(
            {
                "image_size": 64,
                "patch_size": 16,
                "num_hidden_layers": 4,
                "out_indices": [1, 2, 3, 4],
                "num_labels": 4,
                "use_auxiliary_head": False,
            }
        )
    )
    return transformers.BeitForSemanticSegmentation(config)


class Promptable(nn.Module):
    """SAM: an image and points give masks."""

    def __init__(self):
        super().__init__()
        vision = {
            "image_size": 64,
            "patch_size": 8,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "output_channels": 32,
            "window_size": 4,
            "global_attn_indexes": [1],
            "mlp_dim": 64,
            "num_pos_feats": 16,
        }
        prompt = {
            "hidden_size": 32,
            "image_size": 64,
            "patch_size": 8,
            "mask_input_channels": 4,
            "image_embedding_size": 8,
        }
        decoder = {"hidden_size": 32, "mlp_dim": 64, "num_attention_heads": 2, "iou_head_hidden_dim": 32}
        parts = {"vision_config": vision, "prompt_encoder_config": prompt, "mask_decoder_config": decoder}
        self.model = transformers.SamModel(transformers.SamConfig(**parts))

    def forward(self, image, points):
        found = self.model(pixel_values=image, input_points=points)
        return found.pred_masks, found.iou_scores


ROWS = [
    torchvision_row("lraspp_mobilenet_v3_large"),
    torchvision_row("lraspp_mobilenet_v3_large", dynamic=True),
    torchvision_row("deeplabv3_mobilenet_v3_large", aux_loss=False),
    smp_row("Unet"),
    smp_row("UnetPlusPlus"),
    smp_row("Linknet"),
    smp_row("FPN"),
    smp_row("PSPNet"),
    smp_row("PAN", "resnet18", 128),
    smp_row("MAnet"),
    smp_row("DeepLabV3Plus"),
    smp_row("UPerNet"),
    smp_row("Segformer"),
    hugging_row("segformer_hf", segformer),
    hugging_row("upernet_hf", upernet),
    hugging_row("mask2former", mask2former, ["class_queries_logits", "masks_queries_logits"]),
    hugging_row("maskformer", maskformer, ["class_queries_logits", "masks_queries_logits"]),
    hugging_row("mobilevit_deeplab", mobilevit),
    hugging_row("beit_upernet", beit),
    hugging_row("dpt", dpt, "predicted_depth"),
    hugging_row("glpn", glpn, "predicted_depth"),
    hugging_row("depth_anything", depth_anything, "predicted_depth", 70),
    Row("sam", lambda: Method(Promptable(), [(torch.randn(1, 3, 64, 64), torch.rand(1, 1, 2, 2) * 64)])),
]
