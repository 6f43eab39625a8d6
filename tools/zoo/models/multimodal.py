"""Several kinds of input at once: transformers' models of images with text, documents, and any sequence of bytes."""

import torch
import transformers
from models.hugging import SMALL, Wrapped, small, tokens
from row import Method, Row

TITLE = "Images with text"
VISION = {key: SMALL[key] for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")}
VISION |= {"image_size": 32, "patch_size": 8, "projection_dim": 32}
TEXT = SMALL | {"projection_dim": 32, "num_key_value_heads": 2, "head_dim": 16}


def picture(size=32, batch=1):
    return torch.randn(batch, 3, size, size)


def words(length, image=0, number=5):
    """Tokens, of which the first few stand for parts of an image."""
    found = tokens(length)
    found[:, 1 : 1 + image] = number
    return found


def mixed(name, kind, suffix, runs, inputs, outputs, extra=None, **options):
    """A model with a configuration in parts."""

    def make():
        config = getattr(transformers, f"{kind}Config")(**options)
        return getattr(transformers, f"{kind}{suffix}")(config)

    return Row(name, lambda: Method(Wrapped(make(), inputs, outputs, **(extra or {})), [runs()]))


PAIR = ["input_ids", "pixel_values"]
STILL = {"use_cache": False}
GENERATE = "ForConditionalGeneration"
ROWS = [
    mixed(
        "blip",
        "Blip",
        GENERATE,
        lambda: (tokens(6), picture()),
        PAIR,
        ["logits"],
        text_config=TEXT | {"encoder_hidden_size": 64, "is_decoder": True},
        vision_config=VISION,
        projection_dim=32,
    ),
    mixed(
        "owlvit",
        "OwlViT",
        "ForObjectDetection",
        lambda: (tokens(6, 2), picture()),
        PAIR,
        ["logits", "pred_boxes"],
        text_config=TEXT | {"projection_dim": 64},
        vision_config=VISION | {"projection_dim": 64},
        projection_dim=64,
    ),
    mixed(
        "altclip",
        "AltCLIP",
        "Model",
        lambda: (tokens(6), picture()),
        PAIR,
        ["logits_per_image"],
        text_config=TEXT | {"project_dim": 32},
        vision_config=VISION,
        projection_dim=32,
    ),
    mixed(
        "clipseg",
        "CLIPSeg",
        "ForImageSegmentation",
        lambda: (tokens(6), picture()),
        PAIR,
        ["logits"],
        text_config=TEXT,
        vision_config=VISION,
        projection_dim=32,
        reduce_dim=16,
        extract_layers=[0, 1],
        decoder_num_attention_heads=4,
        decoder_intermediate_size=32,
    ),
    mixed(
        "git",
        "Git",
        "ForCausalLM",
        lambda: (tokens(6), picture()),
        PAIR,
        ["logits"],
        STILL,
        **small({}),
        vision_config=VISION,
    ),
    mixed(
        "llava",
        "Llava",
        GENERATE,
        lambda: (words(24, 16), picture()),
        PAIR,
        ["logits"],
        STILL,
        text_config=TEXT | {"model_type": "llama"},
        vision_config=VISION | {"model_type": "clip_vision_model"},
        image_token_index=5,
        vision_feature_layer=-1,
    ),
    mixed(
        "idefics3",
        "Idefics3",
        GENERATE,
        lambda: (words(24, 4), picture().unsqueeze(1)),
        PAIR,
        ["logits"],
        STILL,
        text_config=TEXT | {"model_type": "llama"},
        vision_config=VISION,
        image_token_id=5,
        scale_factor=2,
    ),
    mixed(
        "perceiver",
        "Perceiver",
        "Model",
        lambda: (torch.randn(1, 20, 24),),
        ["inputs"],
        ["last_hidden_state"],
        d_model=24,
        num_latents=8,
        d_latents=32,
        num_self_attends_per_block=2,
        num_blocks=2,
        num_self_attention_heads=4,
        num_cross_attention_heads=4,
    ),
    mixed(
        "trocr",
        "VisionEncoderDecoder",
        "Model",
        lambda: (picture(), tokens(5)),
        ["pixel_values", "decoder_input_ids"],
        ["logits"],
        STILL,
        encoder=VISION | {"model_type": "vit"},
        decoder={
            "model_type": "trocr",
            "vocab_size": 128,
            "d_model": 64,
            "decoder_layers": 2,
            "decoder_attention_heads": 4,
            "decoder_ffn_dim": 128,
            "cross_attention_hidden_size": 64,
            "max_position_embeddings": 32,
            "is_decoder": True,
            "add_cross_attention": True,
        },
    ),
    mixed(
        "layoutlmv3",
        "LayoutLMv3",
        "ForTokenClassification",
        lambda: (tokens(6), torch.randint(0, 50, (1, 6, 4)).sort(-1).values, picture()),
        ["input_ids", "bbox", "pixel_values"],
        ["logits"],
        **small(
            {
                "input_size": 32,
                "patch_size": 8,
                "max_2d_position_embeddings": 64,
                "coordinate_size": 8,
                "shape_size": 16,
                "max_rel_pos": 8,
                "rel_pos_bins": 8,
                "rel_2d_pos_bins": 8,
                "max_rel_2d_pos": 16,
                "num_labels": 3,
                "type_vocab_size": 1,
            }
        ),
    ),
    mixed(
        "groupvit",
        "GroupViT",
        "Model",
        lambda: (tokens(6), picture()),
        PAIR,
        ["logits_per_image"],
        text_config=TEXT,
        vision_config=VISION | {"depths": [1, 1], "num_group_tokens": [4, 0], "num_output_groups": [4, 2]},
        projection_dim=32,
        projection_intermediate_dim=32,
    ),
    mixed(
        "qwen2_vl_text",
        "Qwen2VLText",
        "Model",
        lambda: (tokens(9),),
        ["input_ids"],
        ["last_hidden_state"],
        STILL,
        **TEXT,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]},
    ),
    mixed(
        "decision_transformer",
        "DecisionTransformer",
        "Model",
        lambda: (
            torch.randn(1, 5, 6),
            torch.randn(1, 5, 2),
            torch.randn(1, 5, 1),
            torch.arange(5).view(1, 5),
            torch.ones(1, 5),
        ),
        ["states", "actions", "returns_to_go", "timesteps", "attention_mask"],
        ["action_preds"],
        state_dim=6,
        act_dim=2,
        max_ep_len=20,
        n_layer=2,
        n_head=4,
        n_inner=64,
        hidden_size=32,
        vocab_size=1,
        n_positions=64,
    ),
]
