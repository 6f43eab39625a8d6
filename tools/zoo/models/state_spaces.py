"""State-space models and linear recurrences: transformers' models, and the bare recurrences with their state kept."""

import torch
import torch.nn.functional as F
from models.hugging import model, row, small, tokens
from row import Method, Row
from torch import nn
from torch._higher_order_ops.scan import scan
from torch.export import Dim

TITLE = "State-space models"
SPACE = {"state_size": 8, "conv_kernel": 4, "expand": 2, "time_step_rank": 4}
HEADS = {"head_dim": 16, "num_heads": 8, "n_groups": 2, "chunk_size": 8}
MAMBA = {"mamba_d_state": 8, "mamba_d_conv": 4, "mamba_expand": 2}


def whole(name, kind, suffix="ForCausalLM", dynamic=False, **options):
    runs = lambda: [(tokens(length),) for length in ((12, 7, 20) if dynamic else (12,))]
    make = lambda: model(f"{kind}{suffix}", f"{kind}Config", **small(options))
    shapes = ({1: Dim("length", min=2, max=24)},) if dynamic else None
    return row(name, make, runs, ["input_ids"], ["logits"], shapes, use_cache=False)


class Selective(nn.Module):
    """Mamba's recurrence, token by token; the state and the window of the convolution stay in buffers."""

    def __init__(self, width=32, state=8, window=4):
        super().__init__()
        self.enter, self.leave = nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.filter, self.bias = nn.Parameter(torch.randn(width, window) / 2), nn.Parameter(torch.randn(width) / 4)
        self.select, self.step = nn.Linear(width, 2 * state), nn.Linear(width, width)
        self.decay = nn.Parameter(torch.arange(1.0, state + 1).log().repeat(width, 1))
        self.direct = nn.Parameter(torch.randn(width))
        self.register_buffer("state", torch.zeros(1, width, state))
        self.register_buffer("seen", torch.zeros(1, width, window))

    def forward(self, x):
        value, gate = self.enter(x).chunk(2, -1)
        self.seen.copy_(torch.cat([self.seen[:, :, 1:], value.unsqueeze(-1)], -1))
        value = F.silu((self.seen * self.filter).sum(-1) + self.bias)
        into, out = self.select(value).chunk(2, -1)
        step = F.softplus(self.step(value))
        kept = torch.exp(-step.unsqueeze(-1) * self.decay.exp())
        self.state.copy_(self.state * kept + (step * value).unsqueeze(-1) * into.unsqueeze(1))
        y = (self.state * out.unsqueeze(1)).sum(-1) + self.direct * value
        return self.leave(y * F.silu(gate))


class Diagonal(nn.Module):
    """A real diagonal recurrence (S4D, LRU) over a sequence, by `scan`."""

    def __init__(self, width=32):
        super().__init__()
        self.decay, self.enter, self.leave = (
            nn.Parameter(torch.rand(width)),
            nn.Linear(width, width),
            nn.Linear(width, width),
        )

    def forward(self, x):
        kept = torch.sigmoid(self.decay)
        step = lambda state, value: ((own := state * kept + value), own.clone())
        _, states = scan(step, torch.zeros_like(x[0]), self.enter(x))
        return self.leave(F.gelu(states))


class Retention(nn.Module):
    """RetNet's retention in its parallel form: products with powers of a decay for each head."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads, self.project, self.leave = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm = nn.GroupNorm(heads, width)
        self.register_buffer("decay", 1 - 2.0 ** (-2 - torch.arange(heads)))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.project(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        place = torch.arange(length)
        apart = place[:, None] - place[None, :]
        weight = torch.where(apart >= 0, self.decay[:, None, None] ** apart.clamp(min=0), 0.0)
        y = (q @ k.transpose(-1, -2) * weight) @ v
        y = self.norm(y.transpose(1, 2).reshape(batch * length, width)).view(batch, length, width)
        return self.leave(y)


class Delta(nn.Module):
    """DeltaNet's rule, token by token: the state is corrected towards each new value."""

    def __init__(self, width=32):
        super().__init__()
        self.project, self.rate = nn.Linear(width, 3 * width), nn.Linear(width, 1)
        self.register_buffer("state", torch.zeros(1, width, width))

    def forward(self, x):
        q, k, v = self.project(x).chunk(3, -1)
        k, rate = F.normalize(k, dim=-1), torch.sigmoid(self.rate(x))
        held = torch.einsum("bij,bj->bi", self.state, k)
        self.state.add_(torch.einsum("bi,bj->bij", rate * (v - held), k))
        return torch.einsum("bij,bj->bi", self.state, q)


class Weighted(nn.Module):
    """RWKV's weighted sum of values, token by token, with its running maximum."""

    def __init__(self, width=32):
        super().__init__()
        self.project, self.leave = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.decay, self.first = nn.Parameter(-torch.rand(width)), nn.Parameter(torch.randn(width))
        self.register_buffer("above", torch.zeros(1, width))
        self.register_buffer("below", torch.zeros(1, width))
        self.register_buffer("most", torch.full((1, width), -1e30))

    def forward(self, x):
        key, value, gate = self.project(x).chunk(3, -1)
        top = torch.maximum(self.most, self.first + key)
        old, new = torch.exp(self.most - top), torch.exp(self.first + key - top)
        y = (old * self.above + new * value) / (old * self.below + new)
        top = torch.maximum(self.most + self.decay, key)
        old, new = torch.exp(self.most + self.decay - top), torch.exp(key - top)
        self.above.copy_(old * self.above + new * value)
        self.below.copy_(old * self.below + new)
        self.most.copy_(top)
        return self.leave(torch.sigmoid(gate) * y)


def stepwise(name, kind):
    return Row(name, lambda: Method(kind(), [(torch.randn(1, 32),) for _ in range(4)]))


def sequence(name, kind, *sizes, dynamic=None):
    return Row(name, lambda: Method(kind(), [(torch.randn(*size),) for size in sizes], dynamic))


ROWS = [
    whole("mamba", "Mamba", **SPACE),
    whole(
        "lfm2_dynamic",
        "Lfm2",
        dynamic=True,
        num_key_value_heads=2,
        layer_types=["conv", "full_attention"],
        block_multiple_of=32,
    ),
    whole("falcon_mamba", "FalconMamba", **SPACE),
    whole("mamba2", "Mamba2", **SPACE | HEADS),
    whole(
        "jamba",
        "Jamba",
        **MAMBA,
        num_key_value_heads=2,
        num_experts=2,
        num_experts_per_tok=1,
        use_mamba_kernels=False,
        attn_layer_period=2,
        attn_layer_offset=1,
        expert_layer_period=2,
        expert_layer_offset=1,
        mamba_dt_rank=4,
    ),
    whole(
        "bamba",
        "Bamba",
        **MAMBA,
        num_key_value_heads=2,
        mamba_n_heads=8,
        mamba_d_head=16,
        mamba_n_groups=2,
        mamba_chunk_size=8,
        attn_layer_indices=[1],
    ),
    whole(
        "zamba2",
        "Zamba2",
        num_key_value_heads=4,
        mamba_d_state=8,
        mamba_ngroups=2,
        n_mamba_heads=8,
        mamba_headdim=16,
        chunk_size=8,
        layers_block_type=["mamba", "hybrid"],
        use_mem_rope=True,
        attention_head_dim=32,
        attention_hidden_size=128,
        num_mem_blocks=1,
    ),
    whole(
        "falcon_h1",
        "FalconH1",
        **MAMBA,
        num_key_value_heads=2,
        mamba_n_heads=8,
        mamba_d_head=16,
        mamba_n_groups=2,
        mamba_chunk_size=8,
        mamba_d_ssm=128,
        head_dim=16,
    ),
    whole(
        "nemotron_h",
        "NemotronH",
        num_key_value_heads=2,
        head_dim=16,
        ssm_state_size=8,
        mamba_num_heads=8,
        mamba_head_dim=16,
        n_groups=2,
        chunk_size=8,
        num_hidden_layers=None,
        layers_block_type=["mamba", "attention", "mlp"],
        mlp_hidden_act="relu2",
    ),
    whole(
        "granite_moe_hybrid",
        "GraniteMoeHybrid",
        **MAMBA,
        num_key_value_heads=2,
        mamba_n_heads=8,
        mamba_d_head=16,
        mamba_n_groups=2,
        mamba_chunk_size=8,
        layer_types=["mamba", "attention"],
        num_local_experts=2,
        num_experts_per_tok=1,
        shared_intermediate_size=64,
        position_embedding_type="nope",
        experts_implementation="batched_mm",
    ),
    whole("rwkv", "Rwkv", attention_hidden_size=64, context_length=32, hidden_size=64),
    whole(
        "recurrent_gemma",
        "RecurrentGemma",
        num_key_value_heads=1,
        head_dim=16,
        lru_width=64,
        attention_window_size=8,
        block_types=["recurrent", "attention"],
        num_hidden_layers=2,
    ),
    whole("lfm2", "Lfm2", num_key_value_heads=2, layer_types=["conv", "full_attention"], block_multiple_of=32),
    whole(
        "qwen3_next",
        "Qwen3Next",
        num_key_value_heads=2,
        head_dim=16,
        linear_num_value_heads=4,
        linear_num_key_heads=2,
        linear_key_head_dim=16,
        linear_value_head_dim=16,
        layer_types=["linear_attention", "full_attention"],
        num_experts=2,
        num_experts_per_tok=1,
        moe_intermediate_size=32,
        shared_expert_intermediate_size=32,
        experts_implementation="batched_mm",
    ),
    whole(
        "xlstm",
        "xLSTM",
        embedding_dim=64,
        num_heads=4,
        hidden_size=64,
        num_blocks=2,
        chunk_size=4,
        qk_dim_factor=0.5,
        v_dim_factor=1.0,
    ),
    stepwise("selective_step", Selective),
    stepwise("delta_step", Delta),
    stepwise("weighted_step", Weighted),
    sequence("diagonal_scan", Diagonal, (9, 2, 32)),
    sequence("retention", Retention, (2, 9, 32), (2, 4, 32), (2, 16, 32), dynamic=({1: Dim("length", min=2, max=16)},)),
]
