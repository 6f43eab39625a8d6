"""What operators without a PyTorch form compute, written down plainly. Functions take the arguments of the operator."""

import torch
from torch.nn import functional as F


def tile_crop(image, size):
    channels, height, width = image.shape
    tiles = image.reshape(channels, height // size, size, width // size, size).permute(1, 3, 0, 2, 4)
    return tiles.reshape(-1, channels, size, size)


# ---- Attention; tensors are [batch, position, head, feature] ----


def attention(query, key, value, start, mask, dropout, causal, scale):
    """Without a mask a query sees the keys up to the last query, or up to its own position if it is causal."""
    if mask is None:
        last = start + query.size(1)
        key, value = key[:, :last], value[:, :last]
        mask = torch.zeros(query.size(1), last)
        if causal:
            mask.masked_fill_(torch.ones_like(mask).triu(start + 1).bool(), -torch.inf)
    shared = query.size(2) // key.size(2)
    key, value = (x.repeat_interleave(shared, 2).transpose(1, 2).float() for x in (key, value))
    answer = F.scaled_dot_product_attention(query.transpose(1, 2).float(), key, value, mask.float(), scale=scale)
    return answer.transpose(1, 2).contiguous().to(query.dtype)


def cached_attention(query, key, value, keys, values, start, length, mask, dropout, causal, scale):
    keys[:, start : start + length], values[:, start : start + length] = key, value
    return attention(query, keys, values, start, mask, dropout, causal, scale)


def quantized_attention(query, key, value, start, mask, dropout, causal, scale, *parameters):
    *parameters, heads_first = parameters
    order = (lambda x: x.transpose(1, 2)) if heads_first else (lambda x: x)
    zero_points, scales = parameters[::2], parameters[1::2]
    tensors = [(x.float() - zero) * by for x, zero, by in zip((query, key, value), zero_points, scales)]
    return order(attention(*map(order, tensors), start, mask, dropout, causal, scale)).contiguous()


def update_cache(value, cache, start):
    cache[:, start : start + value.size(1)] = value
    return value.new_zeros(1)


def update_cache_at(value, cache, start, indices):
    for batch, positions in enumerate(indices):
        cache[batch, positions] = value[batch]
    return value.new_zeros(1)


# ---- Others for language models ----


def hadamard(x):
    matrix = torch.ones(1, 1)
    while len(matrix) < x.size(-1):
        matrix = torch.kron(torch.tensor([[1.0, 1.0], [1.0, -1.0]]), matrix)
    return (x.float() @ matrix / len(matrix) ** 0.5).to(x.dtype)


def delta_rule(query, key, value, decay, beta, state):
    """At every token the state forgets, then what it answers to the key is moved towards the value."""
    decay = decay.unsqueeze(-1) if decay.dim() == 3 else decay
    answers = []
    for t in range(query.size(2)):
        state = state * decay[:, :, t].unsqueeze(-1)
        answered = torch.einsum("bhk,bhkv->bhv", key[:, :, t], state)
        step = (value[:, :, t] - answered) * beta[:, :, t].unsqueeze(-1)
        state = state + torch.einsum("bhk,bhv->bhkv", key[:, :, t], step)
        shared = state.repeat_interleave(query.size(1) // key.size(1), 1)
        answers.append(torch.einsum("bhk,bhkv->bhv", query[:, :, t], shared))
    return torch.stack(answers, 2), state


EXPERT_SCALE = 0.125


def mixture(first, second):
    """The mixture of experts with these integer weights; the packed ones among its arguments are the same."""

    def experts(x, router, bias, packed_first, packed_second, chosen, count, hidden, dim, group, bits, function, scale):
        scores = x @ router.T
        if function == "sigmoid":
            scores = scores.sigmoid()
            choice = (scores + bias).topk(chosen).indices
            weights = scores.gather(1, choice)
            weights = weights / weights.sum(1, keepdim=True) * scale
        else:
            weights, choice = scores.topk(chosen)
            weights = weights.softmax(1)
        answers = []
        for w13, w2 in zip(first, second):
            gate, up = (x @ (w13.float() * EXPERT_SCALE).T).split(hidden, 1)
            answers.append((F.silu(gate) * up) @ (w2.float() * EXPERT_SCALE).T)
        taken = torch.stack(answers, 1).gather(1, choice.unsqueeze(-1).expand(-1, -1, dim))
        return (taken * weights.unsqueeze(-1)).sum(1)

    return experts


def pack_experts(matrices, bits):
    """Integer matrices in TorchAO's universal layout: a header, then for every eight rows and every group of 32 columns
    the integers, eight scales and eight sums. Integers come in steps of 8 columns, row after row. With four bits, plus
    eight, the low halves of 16 bytes hold 16 integers and the high halves the next.
    """
    return torch.stack([pack(matrix, bits) for matrix in matrices])


def pack(matrix, bits):
    parts = [torch.zeros(64, dtype=torch.uint8)]
    for eight in matrix.split(8):
        for group in eight.split(32, 1):
            for step in group.split(8, 1):
                integers = step.reshape(-1)
                if bits == 4:
                    low, high = (integers.view(torch.uint8) + 8).reshape(-1, 2, 16).unbind(1)
                    integers = low | high << 4
                parts.append(integers.reshape(-1).view(torch.uint8))
            parts.append(torch.full([8], EXPERT_SCALE).view(torch.uint8))
            parts.append(group.sum(1, dtype=torch.int32).view(torch.uint8))
    return torch.cat(parts)


# ---- Quantized ----


def quantized_add(a, a_scale, a_zero, a_low, a_high, b, b_scale, b_zero, b_low, b_high, scale, zero, low, high):
    total = (a.float() - a_zero) * a_scale + (b.float() - b_zero) * b_scale
    return torch.clamp((total / scale).round() + zero, low, high).to(a.dtype)


def mixed_mm(x, weight, scales, zero_points):
    """A scale for each row of the weight."""
    return x @ (weight.to(x.dtype) * scales.unsqueeze(1))


def mixed_linear(x, weight, scales, zero_points, dtype):
    """A scale for each row of the weight, or for each group of columns in it."""
    scales = scales.reshape(len(weight), -1)
    scales = scales.repeat_interleave(weight.size(1) // scales.size(1), 1)
    return (x @ (weight.to(x.dtype) * scales).T).to(dtype or x.dtype)
