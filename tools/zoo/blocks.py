"""What small blocks of weights cost: eager PyTorch on weights rounded to groups of as many bits as ggml's blocks have.

ggml's quantisers search for better scales than these, and its products round activations too, so that a program need not
give the same numbers; it must be about as far above its noise.
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


def rounded(weight, kind):
    """A weight as blocks of a kind have it."""
    if weight.shape[-1] % 32 or weight.numel() < LEAST:
        return weight
    bits, group, offset = BLOCKS["q8_0" if kind.endswith("_k") and weight.shape[-1] % LARGE else kind]
    groups = weight.unflatten(-1, (-1, group))
    low = groups.amin(-1, keepdim=True).clamp(max=0) if offset else -groups.abs().amax(-1, keepdim=True)
    high = groups.amax(-1, keepdim=True) if offset else -low
    step = ((high - low) / (2**bits - 1)).clamp(min=1e-12)
    return (((groups - low) / step).round() * step + low).view_as(weight)


def golden(row, kind):
    """The arrays of the runs of a row on rounded weights, by method."""
    found = {}
    for name, method in row.methods().items():
        module = copy.deepcopy(method.module)
        for own in module.modules():
            if isinstance(own, (nn.Linear, nn.Embedding)):
                own.weight.data = rounded(own.weight.data, kind)
        with torch.no_grad():
            found[name] = list(goldens(module, method.runs))
    return found
