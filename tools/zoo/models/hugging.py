"""What the families of transformers' models share: small configurations, and modules with tensors in and out."""

import torch
import transformers
import transformers.generation
from row import Method, Row
from torch import nn

# Sizes that nearly every configuration knows.
SMALL = {
    "vocab_size": 128,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


class Wrapped(nn.Module):
    """A model whose inputs have names and whose results are attributes of what it returns."""

    def __init__(self, model, inputs, outputs, **options):
        super().__init__()
        self.model, self.inputs, self.outputs, self.options = model, inputs, outputs, options

    def forward(self, *given):
        found = self.model(**dict(zip(self.inputs, given)), **self.options)
        results = tuple(getattr(found, name) for name in self.outputs)
        return results[0] if len(results) == 1 else results


def model(name, config, **options):
    """A model by the name of its class, with a configuration by the name of its own."""
    made = getattr(transformers, config)(**options)
    return getattr(transformers, name)(made)


def small(options, base=SMALL):
    """A configuration of small sizes with options of its own; None takes one of them away."""
    return {key: value for key, value in (base | options).items() if value is not None}


def tokens(length, batch=1, vocabulary=128):
    return torch.randint(3, vocabulary, (batch, length))


def mask(length, hidden=3, batch=1):
    """A mask of attention that hides the last positions."""
    own = torch.ones(batch, length, dtype=torch.long)
    own[:, length - hidden :] = 0
    return own


def row(name, make, runs, inputs, outputs, dynamic=None, jumps=False, **options):
    """A row: `make` gives the model, `runs` the tensors of each run."""
    shapes = None if dynamic is None else (dynamic,)
    return Row(name, lambda: Method(Wrapped(make(), inputs, outputs, **options), runs(), shapes), jumps)
