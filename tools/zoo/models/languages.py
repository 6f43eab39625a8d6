"""Language models: transformers' decoders, whole sequences of any length, and token by token with caches."""

import torch
from models.hugging import model, row, small, tokens
from row import Method, Row
from torch.export import Dim
from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

TITLE = "Language models (transformers)"
KEPT = 32


def whole(name, kind, suffix="ForCausalLM", dynamic=False, config=None, **options):
    """All positions at once."""
    runs = lambda: [(tokens(length),) for length in ((12, 5, 40) if dynamic else (12,))]
    make = lambda: model(f"{kind}{suffix}", f"{config or kind}Config", **small(options))
    shapes = ({1: Dim("length", min=2, max=48)},) if dynamic else None
    return row(name, make, runs, ["input_ids"], ["logits"], shapes, use_cache=False)


def kept(made):
    """A model that keeps keys and values in buffers, as transformers exports it for devices."""
    made.generation_config.cache_implementation = "static"
    made.generation_config.use_cache = True
    return TorchExportableModuleWithStaticCache(made, batch_size=1, max_cache_len=KEPT, device=torch.device("cpu"))


class Stepping(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, position):
        return self.model(input_ids=input_ids, cache_position=position)


def step(length, start):
    return tokens(length), torch.arange(start, start + length)


def cached(name, kind, dynamic=False, strict=True, **options):
    """Tokens one by one, or, with dynamic sizes, a prompt and then its continuation.

    Exported without `strict`, the cache is no buffer but a constant that is written.
    """

    def make():
        module = Stepping(kept(model(f"{kind}ForCausalLM", f"{kind}Config", **small(options))))
        if not dynamic:
            return Method(module, [step(1, place) for place in range(4)], strict=strict)
        length = Dim("length", min=1, max=16)
        return Method(module, [step(5, 0), step(1, 5), step(1, 6), step(9, 7)], ({1: length}, {0: length}), strict)

    return Row(name, make)


def methods(name, kind, **options):
    """A method for prompts and one for single tokens, in one program."""

    def make():
        made = model(f"{kind}ForCausalLM", f"{kind}Config", **small(options))
        prompts, single = [step(8, 0), step(8, 8)], [step(1, place) for place in range(3)]
        return {
            "prefill": Method(Stepping(kept(made)), prompts, strict=True),
            "decode": Method(Stepping(kept(made)), single, strict=True),
        }

    return Row(name, make)


GROUPED = {"num_key_value_heads": 2}
ROWS = [
    whole("llama", "Llama", dynamic=True, **GROUPED),
    whole(
        "llama_rope_scaling",
        "Llama",
        **GROUPED,
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 1e4,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
    ),
    whole("qwen2", "Qwen2", dynamic=True, **GROUPED),
    whole("qwen3", "Qwen3", dynamic=True, **GROUPED, head_dim=16),
    whole("gemma", "Gemma", dynamic=True, **GROUPED, head_dim=16),
    whole("gemma2", "Gemma2", **GROUPED, head_dim=16, sliding_window=8),
    whole("gemma3", "Gemma3", config="Gemma3Text", **GROUPED, head_dim=16, sliding_window=8),
    whole("phi", "Phi", dynamic=True),
    whole("phi3", "Phi3", **GROUPED),
    whole("gpt2", "GPT2", "LMHeadModel", dynamic=True, n_embd=64, n_layer=2, n_head=4),
    whole(
        "gpt_neo",
        "GPTNeo",
        attention_types=[[["global", "local"], 1]],
        num_layers=2,
        num_heads=4,
        window_size=8,
        num_hidden_layers=None,
        num_attention_heads=None,
    ),
    whole("gptj", "GPTJ", n_embd=64, n_layer=2, n_head=4, rotary_dim=8),
    whole("gpt_neox", "GPTNeoX"),
    whole("opt", "OPT", dynamic=True, ffn_dim=128, word_embed_proj_dim=64),
    whole("bloom", "Bloom", dynamic=True, n_layer=2, n_head=4),
    whole("falcon", "Falcon", multi_query=True, new_decoder_architecture=False),
    whole("falcon_alibi", "Falcon", alibi=True, multi_query=False, new_decoder_architecture=False),
    whole("mpt", "Mpt", d_model=64, n_heads=4, n_layers=2),
    whole("stablelm", "StableLm", **GROUPED),
    whole("starcoder2", "Starcoder2", **GROUPED),
    whole("codegen", "CodeGen", n_embd=64, n_layer=2, n_head=4, rotary_dim=8, n_ctx=64),
    whole("olmo2", "Olmo2", **GROUPED),
    whole("cohere", "Cohere", **GROUPED),
    whole("cohere2", "Cohere2", **GROUPED, sliding_window=8),
    whole("granite", "Granite", **GROUPED),
    whole("smollm3", "SmolLM3", **GROUPED),
    whole("mistral", "Mistral", dynamic=True, **GROUPED, sliding_window=8),
    whole("persimmon", "Persimmon"),
    whole("biogpt", "BioGpt"),
    whole("ernie4_5", "Ernie4_5", **GROUPED),
    whole("glm4", "Glm4", **GROUPED, head_dim=16),
    whole("nemotron", "Nemotron", **GROUPED, head_dim=16),
    whole("diffllama", "DiffLlama", **GROUPED),
    whole("bitnet", "BitNet", **GROUPED),
    whole("apertus", "Apertus", **GROUPED),
    whole(
        "xglm",
        "XGLM",
        d_model=64,
        num_layers=2,
        attention_heads=4,
        ffn_dim=128,
        num_hidden_layers=None,
        num_attention_heads=None,
    ),
    cached("llama_cache", "Llama", **GROUPED),
    cached("llama_cache_constant", "Llama", strict=False, **GROUPED),
    cached("llama_cache_dynamic", "Llama", dynamic=True, **GROUPED),
    cached("qwen2_cache", "Qwen2", **GROUPED),
    cached("qwen3_cache_dynamic", "Qwen3", dynamic=True, **GROUPED, head_dim=16),
    cached("gemma_cache", "Gemma", **GROUPED, head_dim=16),
    cached("gemma2_cache", "Gemma2", **GROUPED, head_dim=16, sliding_window=8),
    cached("phi_cache", "Phi"),
    cached("phi3_cache", "Phi3", **GROUPED),
    cached("smollm3_cache", "SmolLM3", **GROUPED),
    cached("mistral_cache", "Mistral", **GROUPED, sliding_window=None),
    cached("gpt_neox_cache", "GPTNeoX"),
    cached("olmo2_cache", "Olmo2", **GROUPED),
    methods("llama_prefill_decode", "Llama", **GROUPED),
    methods("qwen3_prefill_decode", "Qwen3", **GROUPED, head_dim=16),
]
