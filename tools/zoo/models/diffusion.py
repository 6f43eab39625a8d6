"""Diffusion: U-Nets, transformers and autoencoders of diffusers, and what follows a step."""

import diffusers
import torch
from row import Method, Row
from torch import nn

TITLE = "Diffusion"
# Widths that group norms divide.
NARROW = {"block_out_channels": (32, 64), "layers_per_block": 1, "norm_num_groups": 8}


class First(nn.Module):
    """A model whose results come as a tuple, of which the first counts. Inputs go by name."""

    def __init__(self, model, *names, **options):
        super().__init__()
        self.model, self.names, self.options = model, names, options

    def forward(self, *inputs):
        return self.model(**dict(zip(self.names, inputs)), **self.options, return_dict=False)[0]


def noised(name, make, channels=4, size=16, length=0, width=32, **options):
    """From an image with noise and the time of the step, under a text if there is one, to the noise."""

    def made():
        inputs = [torch.randn(1, channels, size, size), torch.tensor([500.0])]
        names = ["sample", "timestep"]
        if length:
            inputs.append(torch.randn(1, length, width))
            names.append("encoder_hidden_states")
        return Method(First(make(), *names, **options), [tuple(inputs)])

    return Row(name, made)


def unet():
    return diffusers.UNet2DModel(
        sample_size=16,
        in_channels=3,
        out_channels=3,
        **NARROW,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=16,
    )


def conditional(**options):
    blocks = {
        "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    }
    shape = {"sample_size": 16, "cross_attention_dim": 32, "attention_head_dim": 4} | NARROW | blocks
    return diffusers.UNet2DConditionModel(**shape | options)


class Large(nn.Module):
    """The U-Net of SDXL, which is also given a pooled text and sizes."""

    def __init__(self):
        super().__init__()
        extra = {
            "addition_embed_type": "text_time",
            "addition_time_embed_dim": 8,
            "projection_class_embeddings_input_dim": 32 + 48,
            "transformer_layers_per_block": (1, 2),
            "use_linear_projection": True,
            "attention_head_dim": (2, 4),
        }
        self.model = conditional(
            **extra,
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        )

    def forward(self, sample, timestep, text, pooled, sizes):
        added = {"text_embeds": pooled, "time_ids": sizes}
        return self.model(sample, timestep, text, added_cond_kwargs=added, return_dict=False)[0]


class Controlled(nn.Module):
    """ControlNet beside the U-Net that it steers."""

    def __init__(self):
        super().__init__()
        self.model = conditional()
        self.control = diffusers.ControlNetModel.from_unet(self.model, conditioning_embedding_out_channels=(8, 16))

    def forward(self, sample, timestep, text, hint):
        down, middle = self.control(sample, timestep, text, hint, return_dict=False)
        found = self.model(
            sample,
            timestep,
            text,
            down_block_additional_residuals=down,
            mid_block_additional_residual=middle,
            return_dict=False,
        )
        return found[0]


class Coded(nn.Module):
    """An autoencoder: the mean of the code, and the image that it stands for."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, image):
        code = self.model.encode(image).latent_dist.mean
        return code, self.model.decode(code).sample


class Plain(nn.Module):
    """An autoencoder without a distribution."""

    def __init__(self, model, code):
        super().__init__()
        self.model, self.code = model, code

    def forward(self, image):
        code = getattr(self.model.encode(image), self.code)
        return code, self.model.decode(code).sample


def autoencoder():
    blocks = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
    return diffusers.AutoencoderKL(**NARROW, **blocks, latent_channels=4, sample_size=32)


def autoencoder_methods():
    made = autoencoder()

    class Encode(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = made

        def forward(self, image):
            return made.encode(image).latent_dist.mean

    class Decode(Encode):
        def forward(self, code):
            return self.model.decode(code).sample

    return {
        "encode": Method(Encode(), [(torch.randn(1, 3, 32, 32),)]),
        "decode": Method(Decode(), [(torch.randn(1, 4, 16, 16),)]),
    }


class Sampler(nn.Module):
    """Three steps of DDIM in one method: the schedule is folded into constants."""

    def __init__(self):
        super().__init__()
        self.model = unet()
        self.register_buffer("alphas", torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0))

    def forward(self, x):
        for now, after in ((749, 499), (499, 249), (249, 0)):
            noise = self.model(x, now, return_dict=False)[0]
            alpha, following = self.alphas[now], self.alphas[after]
            clean = (x - (1 - alpha).sqrt() * noise) / alpha.sqrt()
            x = following.sqrt() * clean.clamp(-3, 3) + (1 - following).sqrt() * noise
        return x


def image(name, make, size=32, channels=3, jumps=False):
    return Row(name, lambda: Method(make(), [(torch.randn(1, channels, size, size),)]), jumps)


HEADS = {"num_attention_heads": 2, "attention_head_dim": 16}


def dit():
    options = {
        "num_layers": 2,
        "sample_size": 8,
        "patch_size": 2,
        "in_channels": 4,
        "out_channels": 4,
        "num_embeds_ada_norm": 1000,
    }
    return diffusers.DiTTransformer2DModel(**HEADS, **options, norm_type="ada_norm_zero")


def pixart():
    options = {
        "num_layers": 2,
        "sample_size": 8,
        "in_channels": 4,
        "out_channels": 8,
        "cross_attention_dim": 32,
        "caption_channels": 32,
    }
    return diffusers.PixArtTransformer2DModel(**HEADS, **options, use_additional_conditions=False)


class Flux(nn.Module):
    def __init__(self):
        super().__init__()
        options = {
            "patch_size": 1,
            "in_channels": 16,
            "num_layers": 1,
            "num_single_layers": 1,
            "joint_attention_dim": 32,
            "pooled_projection_dim": 16,
            "axes_dims_rope": (4, 6, 6),
        }
        self.model = diffusers.FluxTransformer2DModel(**HEADS, **options)
        self.register_buffer("places", torch.stack([torch.zeros(16), torch.arange(16) // 4, torch.arange(16) % 4], 1))
        self.register_buffer("words", torch.zeros(6, 3))

    def forward(self, sample, text, pooled, timestep):
        named = {"encoder_hidden_states": text, "pooled_projections": pooled, "timestep": timestep}
        return self.model(sample, **named, img_ids=self.places, txt_ids=self.words, return_dict=False)[0]


def stable3():
    options = {
        "sample_size": 8,
        "patch_size": 2,
        "in_channels": 4,
        "num_layers": 2,
        "joint_attention_dim": 32,
        "caption_projection_dim": 32,
        "pooled_projection_dim": 16,
        "out_channels": 4,
        "pos_embed_max_size": 8,
    }
    return diffusers.SD3Transformer2DModel(**HEADS, **options)


def drawn(*shapes):
    return tuple(torch.randn(1, *shape) for shape in shapes)


TEXT = (6, 32)
ROWS = [
    noised("unet", unet, 3),
    noised("unet_conditional", conditional, length=6),
    Row(
        "unet_sdxl", lambda: Method(Large(), [(*drawn((4, 16, 16)), torch.tensor([500.0]), *drawn(TEXT, (32,), (6,)))])
    ),
    Row(
        "controlnet",
        lambda: Method(Controlled(), [(*drawn((4, 16, 16)), torch.tensor([500.0]), *drawn(TEXT, (3, 32, 32)))]),
    ),
    Row(
        "dit",
        lambda: Method(
            First(dit(), "hidden_states", "timestep", "class_labels"),
            [(*drawn((4, 8, 8)), torch.tensor([500]), torch.tensor([3]))],
        ),
    ),
    Row(
        "pixart",
        lambda: Method(
            First(
                pixart(),
                "hidden_states",
                "encoder_hidden_states",
                "timestep",
                added_cond_kwargs={"resolution": None, "aspect_ratio": None},
            ),
            [(*drawn((4, 8, 8), TEXT), torch.tensor([500]))],
        ),
    ),
    Row(
        "sd3",
        lambda: Method(
            First(stable3(), "hidden_states", "encoder_hidden_states", "pooled_projections", "timestep"),
            [(*drawn((4, 8, 8), TEXT, (16,)), torch.tensor([500.0]))],
        ),
    ),
    Row("flux", lambda: Method(Flux(), [(*drawn((16, 16), TEXT, (16,)), torch.tensor([0.5]))])),
    image("autoencoder_kl", lambda: Coded(autoencoder())),
    image(
        "autoencoder_tiny",
        lambda: Plain(
            diffusers.AutoencoderTiny(
                encoder_block_out_channels=(16, 16),
                decoder_block_out_channels=(16, 16),
                num_encoder_blocks=(1, 1),
                num_decoder_blocks=(1, 1),
            ),
            "latents",
        ),
    ),
    image(
        "vq_model",
        lambda: Plain(
            diffusers.VQModel(
                **NARROW,
                down_block_types=("DownEncoderBlock2D",) * 2,
                up_block_types=("UpDecoderBlock2D",) * 2,
                num_vq_embeddings=16,
            ),
            "latents",
        ),
        jumps=True,
    ),
    image(
        "autoencoder_dc",
        lambda: Plain(
            diffusers.AutoencoderDC(
                latent_channels=4,
                attention_head_dim=8,
                encoder_block_out_channels=(16, 32),
                decoder_block_out_channels=(16, 32),
                encoder_layers_per_block=(1, 1),
                decoder_layers_per_block=(1, 1),
                encoder_block_types=("ResBlock", "EfficientViTBlock"),
                decoder_block_types=("ResBlock", "EfficientViTBlock"),
                encoder_qkv_multiscales=((), (5,)),
                decoder_qkv_multiscales=((), (5,)),
            ),
            "latent",
        ),
    ),
    Row("autoencoder_methods", autoencoder_methods),
    image("ddim_sampler", Sampler, 16),
]
