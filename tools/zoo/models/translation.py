"""Text to text: transformers' encoders and decoders."""

import torch
from models.hugging import model, row, small, tokens
from row import Method, Row
from torch import nn
from torch.export import Dim

TITLE = "Text encoders with decoders"
BOTH = {
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "decoder_start_token_id": 1,
    "num_hidden_layers": None,
    "num_attention_heads": None,
    "hidden_size": None,
}
SHARED = {
    "d_model": 64,
    "d_kv": 16,
    "d_ff": 128,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
    "num_hidden_layers": None,
    "num_attention_heads": None,
    "hidden_size": None,
}


def pairs(name, kind, base=BOTH, suffix="ForConditionalGeneration", dynamic=False, lengths=(10, 6), **options):
    """A text and the other one so far; with dynamic sizes, both of any length."""

    def runs():
        return [(tokens(a), tokens(b)) for a, b in ([lengths, (4, 9), (16, 3)] if dynamic else [lengths])]

    shapes = ({1: Dim("source", min=2, max=24)}, {1: Dim("target", min=2, max=24)}) if dynamic else None
    make = lambda: model(f"{kind}{suffix}", f"{kind}Config", **small(base | options))
    return row(name, make, runs, ["input_ids", "decoder_input_ids"], ["logits"], shapes, use_cache=False)


class Encoding(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.encoder = model.get_encoder()

    def forward(self, tokens):
        return self.encoder(input_ids=tokens).last_hidden_state


class Decoding(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, memory, tokens):
        return self.model(encoder_outputs=(memory,), decoder_input_ids=tokens, use_cache=False).logits


def methods(name, kind, base, **options):
    """A method for the encoder and one for the decoder, both of any length."""

    def make():
        made = model(f"{kind}ForConditionalGeneration", f"{kind}Config", **small(base | options))
        source, target = {1: Dim("source", min=2, max=24)}, {1: Dim("target", min=2, max=24)}
        memories = [(torch.randn(1, length, 64), tokens(other)) for length, other in ((9, 4), (5, 7))]
        return {
            "encode": Method(Encoding(made), [(tokens(9),), (tokens(5),)], (source,)),
            "decode": Method(Decoding(made), memories, (source, target)),
        }

    return Row(name, make)


class Greedy(nn.Module):
    """T5's best tokens, one after the other, each decoding the whole text so far: generation in one method."""

    def __init__(self, model, length=4):
        super().__init__()
        self.model, self.length = model, length

    def forward(self, tokens):
        memory = self.model.get_encoder()(input_ids=tokens).last_hidden_state
        found = torch.zeros_like(tokens[:, :1])
        for _ in range(self.length):
            logits = self.model(encoder_outputs=(memory,), decoder_input_ids=found, use_cache=False).logits
            found = torch.cat([found, logits[:, -1:].argmax(-1)], 1)
        return found, logits


def greedy():
    return Method(Greedy(model("T5ForConditionalGeneration", "T5Config", **small(SHARED))), [(tokens(7),)])


ROWS = [
    pairs("t5", "T5", SHARED, dynamic=True),
    pairs("t5_gated", "T5", SHARED, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
    pairs("mt5", "MT5", SHARED),
    pairs("umt5", "UMT5", SHARED),
    pairs("bart", "Bart", dynamic=True),
    pairs("mbart", "MBart"),
    pairs("pegasus", "Pegasus"),
    pairs("marian", "Marian", suffix="MTModel", decoder_vocab_size=128),
    pairs("blenderbot", "Blenderbot"),
    pairs("m2m100", "M2M100"),
    pairs("plbart", "PLBart"),
    pairs(
        "prophetnet",
        "ProphetNet",
        hidden_size=64,
        num_encoder_layers=2,
        num_decoder_layers=2,
        num_encoder_attention_heads=4,
        num_decoder_attention_heads=4,
        ngram=2,
        d_model=None,
        encoder_layers=None,
        decoder_layers=None,
        encoder_attention_heads=None,
        decoder_attention_heads=None,
    ),
    methods("t5_encode_decode", "T5", SHARED),
    methods("bart_encode_decode", "Bart", BOTH),
    Row("t5_greedy", greedy, jumps=True),
]
