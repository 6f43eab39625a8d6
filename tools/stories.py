"""The trained 260K-parameter Llama of llama2.c, or a seeded one of any size, as a program that generates text.

usage: stories.py export OUT.pt2 [--weights stories260K.bin]           the trained model
       stories.py export OUT.pt2 --seeded DIM,HIDDEN,LAYERS,HEADS,KV_HEADS,VOCAB,LENGTH
       stories.py tokens COUNT [--weights ... | --seeded ...]          PyTorch's greedy tokens, one line

A call takes one token and its position (int64, one element each) and gives the logits of the next; keys and values stay in
buffers. Beside OUT.pt2 goes OUT.npz with the inputs and logits of the first call.
"""

import argparse
import struct

import numpy
import torch
from torch.nn import functional


class Block(torch.nn.Module):
    """One layer."""

    def __init__(self, config):
        super().__init__()
        dim, hidden, _, heads, kv_heads, _, length = config
        head = dim // heads
        self.heads, self.kv_heads, self.head = heads, kv_heads, head
        self.attention_norm = torch.nn.Parameter(torch.ones(dim))
        self.q = torch.nn.Linear(dim, heads * head, bias=False)
        self.k = torch.nn.Linear(dim, kv_heads * head, bias=False)
        self.v = torch.nn.Linear(dim, kv_heads * head, bias=False)
        self.out = torch.nn.Linear(heads * head, dim, bias=False)
        self.ffn_norm = torch.nn.Parameter(torch.ones(dim))
        self.gate = torch.nn.Linear(dim, hidden, bias=False)
        self.down = torch.nn.Linear(hidden, dim, bias=False)
        self.up = torch.nn.Linear(dim, hidden, bias=False)
        self.register_buffer("keys", torch.zeros(kv_heads, length, head))
        self.register_buffer("values", torch.zeros(kv_heads, length, head))

    def turn(self, x, cos, sin):
        """Rotates neighbours by the angles of the position."""
        pairs = x.view(x.shape[0], x.shape[1], self.head // 2, 2)
        a, b = pairs[..., 0], pairs[..., 1]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(2)

    def forward(self, x, position, cos, sin, mask):
        h = functional.rms_norm(x, x.shape[-1:], self.attention_norm, 1e-5)
        q = self.turn(self.q(h).view(1, self.heads, self.head), cos, sin)
        k = self.turn(self.k(h).view(1, self.kv_heads, self.head), cos, sin)
        v = self.v(h).view(1, self.kv_heads, self.head)
        self.keys[:, position] = k.transpose(0, 1)
        self.values[:, position] = v.transpose(0, 1)
        attended = functional.scaled_dot_product_attention(
            q.transpose(0, 1)[None], self.keys[None], self.values[None], attn_mask=mask, enable_gqa=True
        )
        x = x + self.out(attended[0].transpose(0, 1).reshape(1, self.heads * self.head))
        h = functional.rms_norm(x, x.shape[-1:], self.ffn_norm, 1e-5)
        return x + self.down(functional.silu(self.gate(h)) * self.up(h))


class Llama(torch.nn.Module):
    """The whole model, one token at a time."""

    def __init__(self, config):
        super().__init__()
        dim, _, layers, heads, _, vocabulary, length = config
        head = dim // heads
        self.embedding = torch.nn.Embedding(vocabulary, dim)
        self.blocks = torch.nn.ModuleList(Block(config) for _ in range(layers))
        self.norm = torch.nn.Parameter(torch.ones(dim))
        self.logits = torch.nn.Linear(dim, vocabulary, bias=False)
        self.logits.weight = self.embedding.weight
        angles = torch.outer(torch.arange(length).float(), 10000.0 ** (-torch.arange(0, head, 2).float() / head))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.register_buffer("mask", torch.ones(length, length, dtype=torch.bool).tril())

    def forward(self, token, position):
        x = self.embedding(token)
        cos, sin, mask = self.cos[position], self.sin[position], self.mask[position]
        for block in self.blocks:
            x = block(x, position, cos, sin, mask)
        return self.logits(functional.rms_norm(x, x.shape[-1:], self.norm, 1e-5))


def trained(path):
    """The model in a file of llama2.c."""
    with open(path, "rb") as file:
        config = struct.unpack("7i", file.read(28))
        numbers = torch.from_numpy(numpy.fromfile(file, dtype=numpy.float32))
    dim, hidden, layers, heads, kv_heads, vocabulary, length = config
    assert vocabulary > 0, "the table of the output is that of the input"
    model, at = Llama(config), 0

    def take(*sizes):
        nonlocal at
        count = int(numpy.prod(sizes))
        at += count
        return numbers[at - count : at].view(*sizes).clone()

    kv = dim // heads * kv_heads
    model.embedding.weight.data = take(vocabulary, dim)
    order = [
        ("attention_norm", (dim,)),
        ("q.weight", (dim, dim)),
        ("k.weight", (kv, dim)),
        ("v.weight", (kv, dim)),
        ("out.weight", (dim, dim)),
        ("ffn_norm", (dim,)),
        ("gate.weight", (hidden, dim)),
        ("down.weight", (dim, hidden)),
        ("up.weight", (hidden, dim)),
    ]
    for name, sizes in order:
        for block in model.blocks:
            block.get_parameter(name).data = take(*sizes)
    model.norm.data = take(dim)
    model.logits.weight = model.embedding.weight
    return model.eval()


def seeded(config):
    torch.manual_seed(0)
    model = Llama(config)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.02)
    return model.eval()


def greedy(model, count, first=1):
    """The most likely tokens, one after the other."""
    tokens = [first]
    with torch.no_grad():
        for position in range(count):
            logits = model(torch.tensor([tokens[-1]]), torch.tensor([position]))
            tokens.append(int(logits.argmax()))
    return tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    export = commands.add_parser("export")
    export.add_argument("output")
    tokens = commands.add_parser("tokens")
    tokens.add_argument("count", type=int)
    for command in (export, tokens):
        command.add_argument("--weights", default="stories260K.bin")
        command.add_argument("--seeded", type=lambda text: tuple(int(part) for part in text.split(",")))
    options = parser.parse_args()
    model = seeded(options.seeded) if options.seeded else trained(options.weights)
    if options.command == "tokens":
        print(*greedy(model, options.count))
        return
    inputs = (torch.tensor([1]), torch.tensor([0]))
    with torch.no_grad():
        program = torch.export.export(model, inputs)
        torch.export.save(program, options.output)
        logits = program.module()(*inputs)
    golden = {"in0": inputs[0].numpy(), "in1": inputs[1].numpy(), "out0": logits.numpy()}
    numpy.savez(options.output.removesuffix(".pt2") + ".npz", **golden)


if __name__ == "__main__":
    main()
