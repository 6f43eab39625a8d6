"""Encoders of text, images, and both: transformers' models."""

import torch
from models.hugging import SMALL, mask, model, row, small, tokens
from torch.export import Dim

TITLE = "Encoders (transformers)"
LENGTH = {1: Dim("length", min=4, max=48)}


def text(name, kind, dynamic=False, inputs=("input_ids", "attention_mask"), **options):
    """An encoder of tokens with a mask."""

    def runs():
        lengths = (16, 9, 48) if dynamic else (16,)
        return [(tokens(length), mask(length))[: len(inputs)] for length in lengths]

    make = lambda: model(f"{kind}Model", f"{kind}Config", **small(options))
    return row(name, make, runs, inputs, ["last_hidden_state"], tuple(LENGTH for _ in inputs) if dynamic else None)


def image(name, kind, size=32, output="last_hidden_state", suffix="Model", **options):
    """An encoder of images."""
    shape = {key: value for key, value in SMALL.items() if key.startswith(("hidden", "num", "inter"))}
    make = lambda: model(
        f"{kind}{suffix}", f"{kind}Config", **small(shape | {"image_size": size, "patch_size": 8} | options, {})
    )
    return row(name, make, lambda: [(torch.randn(1, 3, size, size),)], ["pixel_values"], [output])


def pair(name, kind):
    """Images and text in one space."""
    parts = {
        "text_config": SMALL | {"projection_dim": 32, "eos_token_id": 2},
        "vision_config": {**SMALL, "image_size": 32, "patch_size": 8, "projection_dim": 32},
        "projection_dim": 32,
    }
    runs = lambda: [(torch.cat([tokens(11, 2), torch.full((2, 1), 2)], 1), torch.randn(2, 3, 32, 32))]
    inputs, outputs = ["input_ids", "pixel_values"], ["logits_per_image", "text_embeds", "image_embeds"]
    return row(name, lambda: model(f"{kind}Model", f"{kind}Config", **parts), runs, inputs, outputs)


ROWS = [
    text("bert", "Bert", dynamic=True),
    text("roberta", "Roberta", dynamic=True),
    text("distilbert", "DistilBert", dynamic=True, dim=64, n_layers=2, n_heads=4, hidden_dim=128),
    text("albert", "Albert", embedding_size=32),
    text("electra", "Electra", embedding_size=32),
    text("deberta", "Deberta", relative_attention=True, pos_att_type=["c2p", "p2c"]),
    text("deberta_v2", "DebertaV2", relative_attention=True, pos_att_type=["c2p", "p2c"]),
    text("mpnet", "MPNet"),
    text("modernbert", "ModernBert", global_attn_every_n_layers=2, local_attention=8),
    text("squeezebert", "SqueezeBert", embedding_size=64),
    text("mobilebert", "MobileBert", embedding_size=32, intra_bottleneck_size=32, true_hidden_size=32),
    text("funnel", "Funnel", block_sizes=[1, 1], d_model=64, n_head=4, d_head=16, d_inner=128, num_hidden_layers=None),
    text("fnet", "FNet", inputs=("input_ids",)),
    text("convbert", "ConvBert", embedding_size=64),
    text("roformer", "RoFormer", embedding_size=64),
    text("bigbird", "BigBird", attention_type="original_full"),
    text(
        "canine", "Canine", num_hash_functions=4, num_hash_buckets=64, local_transformer_stride=16, downsampling_rate=4
    ),
    text("ernie", "Ernie"),
    text("esm", "Esm", position_embedding_type="rotary", token_dropout=False, mask_token_id=5),
    text("layoutlm", "LayoutLM"),
    image("vit", "ViT"),
    image("deit", "DeiT"),
    image("beit", "Beit"),
    image("dinov2", "Dinov2"),
    image("dinov2_registers", "Dinov2WithRegisters"),
    image("ijepa", "IJepa"),
    image("siglip_vision", "SiglipVision"),
    image("clip_vision", "CLIPVision", output="pooler_output"),
    image(
        "swinv2",
        "Swinv2",
        num_attention_heads=None,
        embed_dim=32,
        depths=[1, 1],
        num_heads=[2, 4],
        window_size=4,
        patch_size=4,
    ),
    image("segformer_encoder", "Segformer", hidden_sizes=[16, 32, 48, 64], num_attention_heads=[1, 2, 3, 4]),
    image("poolformer", "PoolFormer", 64, hidden_sizes=[16, 32, 48, 64]),
    image(
        "hiera",
        "Hiera",
        64,
        image_size=[64, 64],
        patch_size=[7, 7],
        num_attention_heads=None,
        num_hidden_layers=None,
        embed_dim=32,
        depths=[1, 1, 1],
        num_heads=[1, 2, 4],
        embed_dim_multiplier=2.0,
        num_query_pool=2,
    ),
    image(
        "focalnet",
        "FocalNet",
        64,
        embed_dim=32,
        depths=[1, 1],
        hidden_sizes=[32, 64],
        focal_levels=[2, 2],
        focal_windows=[3, 3],
        patch_size=4,
    ),
    pair("clip", "CLIP"),
    pair("siglip", "Siglip"),
]
