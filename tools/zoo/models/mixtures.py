"""Mixtures of experts: transformers' language models whose layers choose who computes."""

import torch
from models.hugging import model, row, small, tokens
from row import Method, Row
from torch import nn
from torch.export import Dim

TITLE = "Mixtures of experts"
GROUPED = {"num_key_value_heads": 2}
EXPERTS = {
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
}


def chosen(name, kind, how="batched_mm", dynamic=False, **options):
    """`how`: the way transformers computes the experts; `eager` runs each over all tokens where it can."""

    def make():
        made = model(f"{kind}ForCausalLM", f"{kind}Config", **small(EXPERTS | options), experts_implementation=how)
        return made

    runs = lambda: [(tokens(length),) for length in ((8, 3, 20) if dynamic else (8,))]
    shapes = ({1: Dim("length", min=2, max=24)},) if dynamic else None
    return row(name, make, runs, ["input_ids"], ["logits"], shapes, use_cache=False)


class Soft(nn.Module):
    """All experts on all tokens, weighted by the softmax of the router."""

    def __init__(self, width, experts):
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.up = nn.Parameter(torch.randn(experts, width, 2 * width) * width**-0.5)
        self.down = nn.Parameter(torch.randn(experts, 2 * width, width) * width**-0.5)

    def forward(self, x):
        hidden = torch.einsum("btd,edh->bteh", x, self.up).relu()
        each = torch.einsum("bteh,ehd->bted", hidden, self.down)
        return (self.router(x).softmax(-1).unsqueeze(-1) * each).sum(2)


class Gathered(Soft):
    """The two best experts of each token, whose weights are gathered."""

    def forward(self, x):
        scores, best = self.router(x).softmax(-1).topk(2, -1)
        hidden = torch.einsum("btd,btkdh->btkh", x, self.up[best])
        each = torch.einsum("btkh,btkhd->btkd", torch.nn.functional.silu(hidden), self.down[best])
        return (scores.unsqueeze(-1) * each).sum(2)


class Capacity(Soft):
    """Experts choose tokens: each takes the three it scores highest."""

    def forward(self, x):
        flat = x.flatten(0, 1)
        scores, chosen = self.router(flat).softmax(-1).t().topk(3, -1)
        hidden = torch.bmm(flat[chosen], self.up).relu()
        each = torch.bmm(hidden, self.down) * scores.unsqueeze(-1)
        return torch.zeros_like(flat).index_add(0, chosen.flatten(), each.flatten(0, 1)).view_as(x)


def plain(name, kind, jumps=True):
    return Row(name, lambda: Method(kind(32, 4), [(torch.randn(2, 6, 32),)]), jumps)


ROWS = [
    chosen("mixtral", "Mixtral", **GROUPED),
    chosen("mixtral_dynamic", "Mixtral", dynamic=True, **GROUPED),
    chosen("mixtral_grouped_mm", "Mixtral", "grouped_mm", **GROUPED),
    chosen("qwen2_moe", "Qwen2Moe", **GROUPED, shared_expert_intermediate_size=64),
    chosen("qwen3_moe", "Qwen3Moe", **GROUPED, head_dim=16),
    chosen("olmoe", "Olmoe", **GROUPED),
    chosen("phimoe", "Phimoe", **GROUPED),
    chosen("granite_moe", "GraniteMoe", **GROUPED),
    chosen(
        "deepseek_v2",
        "DeepseekV2",
        n_group=1,
        topk_group=1,
        first_k_dense_replace=1,
        n_shared_experts=1,
        q_lora_rank=32,
        kv_lora_rank=32,
        qk_rope_head_dim=8,
        qk_nope_head_dim=8,
        v_head_dim=16,
        head_dim=8,
    ),
    chosen(
        "deepseek_v3",
        "DeepseekV3",
        n_group=2,
        topk_group=1,
        first_k_dense_replace=1,
        n_shared_experts=1,
        q_lora_rank=32,
        kv_lora_rank=32,
        qk_rope_head_dim=8,
        qk_nope_head_dim=8,
        v_head_dim=16,
    ),
    chosen("gpt_oss", "GptOss", **GROUPED, head_dim=16, sliding_window=8),
    chosen("ernie4_5_moe", "Ernie4_5_Moe", **GROUPED, moe_num_experts=4, moe_k=2, moe_num_shared_experts=1),
    chosen("glm4_moe", "Glm4Moe", **GROUPED, head_dim=16, first_k_dense_replace=1, n_group=1, topk_group=1),
    chosen("hunyuan_moe", "HunYuanMoEV1", **GROUPED, head_dim=16, moe_topk=2),
    chosen("dots1", "Dots1", **GROUPED, first_k_dense_replace=1, n_group=1, topk_group=1, n_shared_experts=1),
    chosen("flex_olmo", "FlexOlmo", **GROUPED),
    chosen("jetmoe", "JetMoe", kv_channels=16, num_key_value_heads=2),
    chosen("lfm2_moe", "Lfm2Moe", **GROUPED, num_dense_layers=1, layer_types=["conv", "full_attention"]),
    plain("soft_mixture", Soft, jumps=False),
    plain("gathered_experts", Gathered),
    plain("experts_choose", Capacity),
]
