"""What small blocks of weights cost: eager PyTorch on weights rounded to groups of as many bits as ggml's blocks have.

Products round what they multiply with these weights to blocks of 8 bits, so that is done here too. ggml's quantisers search
for better scales than these, so that a program need not give the same numbers; it must be about as far above its noise.
"""

import copy

import torch
from row import goldens
from torch import nn

# Bits, weights that share a scale, and whether they share an offset too.
BLOCKS = {
    "q8_0": (8, 32, False),
    "q4_0": (4, 32, False),
    "q4_k": (4, 32, True),
    "q5_k": (5, 32, True),
    "q6_k": (6, 16, False),
}
# Rows of large blocks are multiples of this; others become q8_0.
LARGE = 256
# Fewer weights stay as they are.
LEAST = 1024


def suited(columns, kind):
    """The kind of blocks for rows of so many weights."""
    return "q8_0" if kind.endswith("_k") and columns % LARGE else kind


def in_groups(values, bits, group, offset):
    groups = values.unflatten(-1, (-1, group))
    low = groups.amin(-1, keepdim=True).clamp(max=0) if offset else -groups.abs().amax(-1, keepdim=True)
    high = groups.amax(-1, keepdim=True) if offset else -low
    step = ((high - low) / (2**bits - 1)).clamp(min=1e-12)
    return (((groups - low) / step).round() * step + low).view_as(values)


def is_rounded(weight):
    return weight.shape[-1] % 32 == 0 and weight.numel() >= LEAST


def rounded(weight, kind):
    """A weight as blocks of a kind have it."""
    return in_groups(weight, *BLOCKS[suited(weight.shape[-1], kind)]) if is_rounded(weight) else weight


def rounds_operands(kind):
    """A hook for a linear layer on weights of a kind: rounds what they are multiplied with."""

    def hook(layer, arguments):
        [values] = arguments
        group = LARGE if suited(values.shape[-1], kind).endswith("_k") else 32
        return (in_groups(values, 8, group, False),)

    return hook


def golden(row, kind):
    """The arrays of the runs of a row on rounded weights, by method."""
    found = {}
    for name, method in row.methods().items():
        module = copy.deepcopy(method.module)
        for own in module.modules():
            if isinstance(own, nn.Linear) and is_rounded(own.weight):
                own.register_forward_pre_hook(rounds_operands(kind))
            if isinstance(own, (nn.Linear, nn.Embedding)):
                own.weight.data = rounded(own.weight.data, kind)
        with torch.no_grad():
            found[name] = list(goldens(module, method.runs))
    return found
