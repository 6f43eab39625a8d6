"""Speech: encoders and decoders from sound to text and back, codecs, separation."""

import torch
import torchaudio.models as audio
import transformers
from models.hugging import model, row, small, tokens
from row import Method, Row
from torch import nn
from torch.export import Dim

TITLE = "Speech and sound"
BOTH = {
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "decoder_start_token_id": 1,
}
WAVES = {
    "conv_dim": [16, 32],
    "conv_kernel": [10, 8],
    "conv_stride": [5, 4],
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "feat_proj_dropout": 0.0,
    "mask_time_prob": 0.0,
    "vocab_size": 30,
}


def written(name, make, features, inputs, length=6, dynamic=False):
    """Sound and the text so far give the next tokens; with dynamic sizes, for texts of any length."""

    def runs():
        return [(torch.randn(*features), tokens(own, vocabulary=60)) for own in ((6, 3, 11) if dynamic else (length,))]

    shapes = (None, {1: Dim("length", min=2, max=16)}) if dynamic else None
    return row(name, make, runs, inputs, ["logits"], shapes, use_cache=False)


def whisper():
    options = {"num_mel_bins": 16, "max_source_positions": 20, "max_target_positions": 32}
    return model("WhisperForConditionalGeneration", "WhisperConfig", **small(BOTH | options))


def speech2text():
    options = {
        "input_feat_per_channel": 16,
        "conv_channels": 32,
        "conv_kernel_sizes": [3, 3],
        "max_source_positions": 64,
        "max_target_positions": 32,
        "num_conv_layers": 2,
    }
    return model("Speech2TextForConditionalGeneration", "Speech2TextConfig", **small(BOTH | options))


def moonshine():
    options = {
        "encoder_num_hidden_layers": 1,
        "decoder_num_hidden_layers": 1,
        "encoder_num_attention_heads": 4,
        "decoder_num_attention_heads": 4,
        "decoder_start_token_id": 1,
        "num_hidden_layers": None,
        "num_attention_heads": None,
    }
    return model("MoonshineForConditionalGeneration", "MoonshineConfig", **small(options))


class Spoken(nn.Module):
    """SpeechT5: from tokens and the spectrogram so far to the next frames."""

    def __init__(self):
        super().__init__()
        options = {
            **BOTH,
            "hidden_size": 64,
            "positional_dropout": 0.0,
            "num_mel_bins": 16,
            "speech_decoder_prenet_units": 32,
            "speech_decoder_postnet_units": 32,
            "speech_decoder_prenet_dropout": 0.0,
            "speaker_embedding_dim": 16,
        }
        self.model = model("SpeechT5ForTextToSpeech", "SpeechT5Config", **small(options))

    def forward(self, tokens, frames, speaker):
        return self.model(
            input_ids=tokens, decoder_input_values=frames, speaker_embeddings=speaker, use_cache=False
        ).spectrogram


class Whispering(nn.Module):
    """Whisper token by token: keys and values of the text so far stay in buffers, those of the sound are inputs."""

    def __init__(self, model, kept=16):
        super().__init__()
        self.decoder, self.head = model.model.decoder, model.proj_out
        for number, layer in enumerate(self.decoder.layers):
            shape = 1, layer.self_attn.num_heads, kept, layer.self_attn.head_dim
            self.register_buffer(f"keys{number}", torch.zeros(shape))
            self.register_buffer(f"values{number}", torch.zeros(shape))

    def forward(self, token, position, sound):
        y = self.decoder.embed_tokens(token) + self.decoder.embed_positions.weight[position]
        for number, layer in enumerate(self.decoder.layers):
            own, normal = layer.self_attn, layer.self_attn_layer_norm(y)
            split = lambda x, heads=own.num_heads: x.unflatten(-1, (heads, -1)).transpose(1, 2)
            keys, values = getattr(self, f"keys{number}"), getattr(self, f"values{number}")
            keys[:, :, position] = split(own.k_proj(normal))
            values[:, :, position] = split(own.v_proj(normal))
            seen = torch.arange(keys.shape[2]) <= position
            found = nn.functional.scaled_dot_product_attention(
                split(own.q_proj(normal)), keys, values, seen.view(1, 1, 1, -1)
            )
            y = y + own.out_proj(found.transpose(1, 2).flatten(2))
            cross, normal = layer.encoder_attn, layer.encoder_attn_layer_norm(y)
            parts = split(cross.q_proj(normal)), split(cross.k_proj(sound)), split(cross.v_proj(sound))
            found = nn.functional.scaled_dot_product_attention(*parts)
            y = y + cross.out_proj(found.transpose(1, 2).flatten(2))
            y = y + layer.fc2(layer.activation_fn(layer.fc1(layer.final_layer_norm(y))))
        return self.head(self.decoder.layer_norm(y))


class Listening(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.encoder = model.model.encoder

    def forward(self, features):
        return self.encoder(features).last_hidden_state


def whisper_methods():
    made = whisper()
    steps = [(tokens(1, vocabulary=60), torch.tensor([place]), torch.randn(1, 20, 64)) for place in range(3)]
    return {"encode": Method(Listening(made), [(torch.randn(1, 16, 40),)]), "decode": Method(Whispering(made), steps)}


def waves(name, kind, suffix="ForCTC", output="logits", dynamic=False, **options):
    """A classifier of pieces of a wave; with dynamic sizes, for waves of any length."""
    make = lambda: model(f"{kind}{suffix}", f"{kind}Config", **small(WAVES | options))
    runs = lambda: [(torch.randn(1, length),) for length in ((800, 640, 1200) if dynamic else (800,))]
    shapes = ({1: 20 * Dim("twentieths", min=16, max=64)},) if dynamic else None
    return row(name, make, runs, ["input_values"], [output], shapes)


class Lengths(nn.Module):
    """A model of torchaudio that wants lengths beside sound, and gives them back."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, sound, lengths):
        return self.model(sound, lengths)[0]


class Codec(nn.Module):
    """A sound to numbers of codes and back."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, sound):
        codes = self.model.encode(sound).audio_codes
        return codes, self.model.decode(audio_codes=codes).audio_values


def dac():
    options = {
        "encoder_hidden_size": 8,
        "downsampling_ratios": [2, 4],
        "decoder_hidden_size": 16,
        "n_codebooks": 2,
        "codebook_size": 16,
        "codebook_dim": 4,
    }
    return transformers.DacModel(transformers.DacConfig(**options))


def fed(name, make, *sizes, jumps=False):
    return Row(name, lambda: Method(make(), [tuple(torch.randn(*size) for size in sizes)]), jumps)


def with_lengths(name, make, sound, lengths):
    return Row(name, lambda: Method(Lengths(make()), [(torch.randn(*sound), torch.tensor(lengths))]))


class Vocoder(nn.Module):
    """HiFi-GAN's generator: transposed convolutions and dilated ones, from a spectrogram to a wave."""

    def __init__(self):
        super().__init__()
        options = {
            "model_in_dim": 16,
            "upsample_initial_channel": 32,
            "upsample_rates": [4, 2],
            "upsample_kernel_sizes": [8, 4],
            "resblock_kernel_sizes": [3, 5],
            "resblock_dilation_sizes": [[1, 3], [1, 3]],
        }
        self.model = transformers.SpeechT5HifiGan(transformers.SpeechT5HifiGanConfig(**options))

    def forward(self, spectrogram):
        return self.model(spectrogram)


class Layers(nn.Module):
    """The layers of torchaudio's Conformer under a mask, which it makes of lengths in a way that cannot be exported."""

    def __init__(self):
        super().__init__()
        self.layers = audio.Conformer(32, 4, 64, 2, 7).conformer_layers

    def forward(self, sound, hidden):
        for layer in self.layers:
            sound = layer(sound, hidden)
        return sound


def conformer():
    hidden = torch.arange(20).view(1, 20) >= 17
    return Method(Layers(), [(torch.randn(20, 1, 32), hidden)])


def spectra(name, kind, suffix="ForCTC", **options):
    make = lambda: model(f"{kind}{suffix}", f"{kind}Config", **small(options))
    return row(name, make, lambda: [(torch.randn(1, 40, 16),)], ["input_features"], ["logits"])


AST = {"num_mel_bins": 16, "max_length": 40, "patch_size": 8, "frequency_stride": 8, "time_stride": 8}
ROWS = [
    written("whisper", whisper, (1, 16, 40), ["input_features", "decoder_input_ids"]),
    written("whisper_dynamic", whisper, (1, 16, 40), ["input_features", "decoder_input_ids"], dynamic=True),
    Row("whisper_encode_decode", whisper_methods),
    written("speech2text", speech2text, (1, 40, 16), ["input_features", "decoder_input_ids"]),
    written("moonshine", moonshine, (1, 1600), ["input_values", "decoder_input_ids"]),
    Row("speecht5_speaks", lambda: Method(Spoken(), [(tokens(7), torch.randn(1, 8, 16), torch.randn(1, 16))])),
    waves("wav2vec2", "Wav2Vec2"),
    waves("wav2vec2_dynamic", "Wav2Vec2", dynamic=True),
    waves("hubert", "Hubert"),
    waves("wavlm", "WavLM", num_buckets=16, max_bucket_distance=32),
    waves("unispeech", "UniSpeech"),
    waves("data2vec_audio", "Data2VecAudio", num_conv_pos_embeddings=2, conv_pos_kernel_size=3),
    waves("wav2vec2_conformer", "Wav2Vec2Conformer", position_embeddings_type="relative", conv_depthwise_kernel_size=5),
    waves("sew", "SEW", squeeze_factor=2),
    spectra(
        "wav2vec2_bert",
        "Wav2Vec2Bert",
        feature_projection_input_dim=16,
        conv_depthwise_kernel_size=5,
        position_embeddings_type="relative_key",
        mask_time_prob=0.0,
    ),
    row(
        "ast",
        lambda: model("ASTForAudioClassification", "ASTConfig", **small(AST)),
        lambda: [(torch.randn(1, 40, 16),)],
        ["input_values"],
        ["logits"],
    ),
    Row("conformer", conformer),
    with_lengths(
        "emformer",
        lambda: audio.Emformer(32, 4, 64, 2, 4, right_context_length=2, left_context_length=4),
        (1, 18, 32),
        [16],
    ),
    fed("wav2letter", lambda: audio.Wav2Letter(num_classes=20, input_type="mfcc", num_features=13), (1, 13, 60)),
    fed("conv_tasnet", lambda: audio.ConvTasNet(2, 16, 32, 3, 16, 32, 3, 1), (1, 1, 640)),
    fed("hifi_gan", Vocoder, (20, 16)),
    fed("dac", lambda: Codec(dac()), (1, 1, 320), jumps=True),
]
