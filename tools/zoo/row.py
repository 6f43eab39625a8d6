"""What a row of the zoo is, and how its weights come to life.

No trained weights are used. Fresh ones hide mistakes: branches that begin at zero, scales of a millionth, signals that
fade from layer to layer. `liven` gives each weight a size at which it matters, and `settle` fits batch norms to what
arrives at them.
"""

import copy
import math
from dataclasses import dataclass
from typing import Any, Callable

import numpy as np
import torch
from torch import nn
from torch.utils._pytree import tree_leaves


@dataclass
class Method:
    """A module and the inputs of runs that follow one another on one session; it is exported with the first."""

    module: nn.Module
    runs: list[tuple]
    # `dynamic_shapes` of torch.export.export.
    dynamic: Any = None
    # Whether torch.export reads the code of the module (needed where state is not in buffers that it knows).
    strict: bool = False


@dataclass
class Row:
    name: str
    # A method, or several by name.
    make: Callable[[], Method | dict[str, Method]]
    # Results that jump at small differences, as those of sorting do: quantised programs are run, not compared.
    jumps: bool = False
    # The export has quantised layers, so that roundings fall differently without any flow's doing.
    quantised: bool = False

    def methods(self):
        """The row's methods by name, the same ones each time."""
        torch.manual_seed(0)
        made = self.make()
        methods = {"forward": made} if isinstance(made, Method) else made
        livened = set()
        for method in methods.values():
            method.module.eval()
            method.module.requires_grad_(False)
            liven(method.module, livened)
            settle(method.module, method.runs[0])
        return methods


class Model(nn.Module):
    """A module whose forward is a function of its parts, which become submodules or buffers by their type."""

    def __init__(self, body, **parts):
        super().__init__()
        self.body = body
        for name, part in parts.items():
            if isinstance(part, torch.Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)

    def forward(self, *args):
        return self.body(self, *args)


def liven(module, done):
    """Gives weights that are constant or tiny a size at which they matter. `done` holds those that were seen already."""
    weights = {id(own.weight) for own in module.modules() if isinstance(own, (nn.Linear, nn.modules.conv._ConvNd))}
    for parameter in module.parameters():
        if id(parameter) in done or not parameter.is_floating_point() or not parameter.numel():
            continue
        done.add(id(parameter))
        value, fan_in = parameter.data, math.prod(parameter.shape[1:])
        constant = bool((value == value.flatten()[0]).all())
        if constant and value.flatten()[0].abs() <= 1e-3:
            value.normal_(0, 0.1 if value.dim() < 2 else min(0.1, fan_in**-0.5))
        elif constant and value.numel() > 1:
            value.mul_(torch.empty_like(value).uniform_(0.7, 1.3))
        elif id(parameter) in weights and value.numel() > 1 and value.float().std() * fan_in**0.5 < 0.5:
            value.mul_(0.8 * fan_in**-0.5 / value.float().std())


def settle(module, inputs):
    """Fits batch norms to what arrives at them on the way of these inputs."""
    norms = [norm for norm in module.modules() if isinstance(norm, nn.modules.batchnorm._BatchNorm)]
    norms = [norm for norm in norms if norm.running_mean is not None]

    def fit(norm, arguments):
        values = arguments[0].transpose(0, 1).flatten(1)
        # One power for all channels, and little of the mean: a deep net that evens out its channels is chaotic before
        # it is trained, so that nothing could be compared.
        power = values.square().mean().item() + 1e-3
        norm.running_mean.normal_(0, 0.1 * power**0.5)
        norm.running_var.uniform_(0.7 * power, 1.4 * power)

    if not norms:
        return
    fitted = {id(buffer) for norm in norms for buffer in norm.buffers()}
    state = [(buffer, buffer.clone()) for buffer in module.buffers() if id(buffer) not in fitted]
    handles = [norm.register_forward_pre_hook(fit) for norm in norms]
    with torch.no_grad():
        module(*copy.deepcopy(inputs))
    for handle in handles:
        handle.remove()
    for buffer, before in state:
        buffer.copy_(before)


def array(value):
    """A value as it stands in an `.npz`."""
    if not isinstance(value, torch.Tensor):
        return np.array(value)
    value = value.detach().contiguous()
    return (value.view(torch.uint16) if value.dtype == torch.bfloat16 else value).numpy().copy()


def arrays(values, name):
    """The leaves of values under their golden names."""
    return {f"{name}{number}": array(leaf) for number, leaf in enumerate(tree_leaves(values))}


def goldens(module, runs):
    """The arrays of each run in eager PyTorch: what goes in before the run may change it, and what comes out."""
    for run in runs:
        inputs = arrays(run, "in")
        with torch.no_grad():
            yield inputs | arrays(module(*run), "out")
