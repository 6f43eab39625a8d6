"""Recurrent nets: over sequences, and step by step with what they remember in buffers."""

import torch
import torch.nn.functional as F
from row import Method, Row
from torch import nn
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

TITLE = "Recurrent nets"
WIDTH = 24


class Tagger(nn.Module):
    """A recurrent layer of torch's over tokens, and a linear one on each of its results."""

    def __init__(self, kind, **options):
        super().__init__()
        self.embed = nn.Embedding(50, WIDTH)
        self.layer = getattr(nn, kind)(WIDTH, WIDTH, batch_first=True, **options)
        width = (2 if options.get("bidirectional") else 1) * options.get("proj_size", WIDTH)
        self.leave = nn.Linear(width, 7)

    def forward(self, x):
        return self.leave(self.layer(self.embed(x))[0])


class Streaming(nn.Module):
    """A layer that is given pieces of a sequence and keeps its state between them."""

    def __init__(self, kind):
        super().__init__()
        self.layer, self.leave = getattr(nn, kind)(WIDTH, WIDTH, 2), nn.Linear(WIDTH, 3)
        self.register_buffer("hidden", torch.zeros(2, 1, WIDTH))
        if kind == "LSTM":
            self.register_buffer("cell", torch.zeros(2, 1, WIDTH))

    def forward(self, x):
        if isinstance(self.layer, nn.LSTM):
            y, (hidden, cell) = self.layer(x, (self.hidden, self.cell))
            self.cell.copy_(cell)
        else:
            y, hidden = self.layer(x, self.hidden)
        self.hidden.copy_(hidden)
        return self.leave(y)


class Cells(nn.Module):
    """Cells of torch's, unrolled."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = (
            nn.LSTMCell(8, WIDTH),
            nn.GRUCell(WIDTH, WIDTH),
            nn.RNNCell(WIDTH, WIDTH, nonlinearity="relu"),
        )

    def forward(self, x):
        h = c = g = r = x.new_zeros(x.shape[1], WIDTH)
        results = []
        for value in x.unbind(0):
            h, c = self.first(value, (h, c))
            g = self.second(h, g)
            r = self.third(g, r)
            results.append(r)
        return torch.stack(results), c


class ConvolutionalMemory(nn.Module):
    """ConvLSTM over images, unrolled."""

    def __init__(self, channels=8):
        super().__init__()
        self.channels, self.gates = channels, nn.Conv2d(3 + channels, 4 * channels, 3, padding=1)

    def forward(self, x):
        h = c = x.new_zeros(x.shape[0], self.channels, *x.shape[3:])
        for image in x.unbind(1):
            i, f, o, g = self.gates(torch.cat([image, h], 1)).chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return h


class Translator(nn.Module):
    """An encoder, and a decoder with additive attention that feeds its best token back in a loop."""

    def __init__(self, vocabulary=30):
        super().__init__()
        self.embed, self.encoder = nn.Embedding(vocabulary, WIDTH), nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.cell, self.score = nn.GRUCell(2 * WIDTH, WIDTH), nn.Linear(2 * WIDTH, 1)
        self.leave = nn.Linear(WIDTH, vocabulary)

    def forward(self, x):
        memory, hidden = self.encoder(self.embed(x))
        hidden, token, logits = hidden[0], x[:, 0], []
        for _ in range(5):
            spread = hidden.unsqueeze(1).expand(-1, memory.shape[1], -1)
            weight = self.score(torch.cat([memory, spread], -1).tanh()).softmax(1)
            hidden = self.cell(torch.cat([self.embed(token), (weight * memory).sum(1)], -1), hidden)
            logits.append(self.leave(hidden))
            token = logits[-1].argmax(-1)
        return torch.stack(logits, 1)


class UntilStill(nn.Module):
    """A recurrence that goes on until its state hardly changes, or 20 times."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(WIDTH, WIDTH) * 0.05), nn.Parameter(torch.randn(WIDTH))

    def forward(self, x):
        going = lambda count, state, change: ((count < 20) & (change > 1e-3)).squeeze()

        def step(count, state, change):
            after = torch.tanh(x + state @ self.weight + self.bias)
            return count + 1, after, (after - state).abs().max().reshape(1)

        start = torch.zeros(1, dtype=torch.long), torch.zeros_like(x), torch.ones(1)
        return while_loop(going, step, start)[1]


class Quasi(nn.Module):
    """QRNN: gates by convolution, then sums with forgetting."""

    def __init__(self):
        super().__init__()
        self.gates = nn.Conv1d(8, 3 * WIDTH, 2)

    def forward(self, x):
        z, f, o = self.gates(F.pad(x, (1, 0))).chunk(3, 1)
        z, f, o = torch.tanh(z), torch.sigmoid(f), torch.sigmoid(o)
        state, results = torch.zeros_like(z[:, :, 0]), []
        for place in range(x.shape[2]):
            state = f[:, :, place] * state + (1 - f[:, :, place]) * z[:, :, place]
            results.append(state * o[:, :, place])
        return torch.stack(results, 2)


class Reader(nn.Module):
    """CRNN: convolutions over a line of text, a bidirectional LSTM over its columns."""

    def __init__(self):
        super().__init__()
        layer = lambda a, b, pool: [nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(pool)]
        self.images = nn.Sequential(*layer(1, 16, 2), *layer(16, 32, (2, 1)), *layer(32, 32, (2, 1)))
        self.columns, self.leave = nn.LSTM(64, WIDTH, bidirectional=True, batch_first=True), nn.Linear(2 * WIDTH, 37)

    def forward(self, x):
        columns = self.images(x).permute(0, 3, 1, 2).flatten(2)
        return self.leave(self.columns(columns)[0]).log_softmax(-1)


class VoiceActivity(nn.Module):
    """A detector of speech as devices have it: frames, convolutions, an LSTM whose state stays, a probability."""

    def __init__(self):
        super().__init__()
        self.frames = nn.Conv1d(1, 34, 64, 32, bias=False)
        self.encoder = nn.Sequential(
            nn.Conv1d(17, 16, 3, padding=1), nn.ReLU(), nn.Conv1d(16, WIDTH, 3, 2, 1), nn.ReLU()
        )
        self.memory, self.leave = nn.LSTMCell(WIDTH, WIDTH), nn.Linear(WIDTH, 1)
        self.register_buffer("hidden", torch.zeros(2, 1, WIDTH))

    def forward(self, x):
        real, imaginary = self.frames(x.unsqueeze(1)).chunk(2, 1)
        features = self.encoder(torch.sqrt(real**2 + imaginary**2 + 1e-6)).mean(-1)
        h, c = self.memory(features, (self.hidden[0], self.hidden[1]))
        self.hidden.copy_(torch.stack([h, c]))
        return torch.sigmoid(self.leave(h))


class TwoPaths(nn.Module):
    """DPRNN: recurrence within pieces, then across them."""

    def __init__(self):
        super().__init__()
        path = lambda: nn.ModuleList(
            [nn.LSTM(WIDTH, WIDTH, bidirectional=True, batch_first=True), nn.Linear(2 * WIDTH, WIDTH)]
        )
        self.within, self.across = path(), path()

    def forward(self, x):
        batch, pieces, length, width = x.shape
        y = self.within[1](self.within[0](x.reshape(-1, length, width))[0]).view_as(x) + x
        turned = y.transpose(1, 2).reshape(-1, pieces, width)
        z = self.across[1](self.across[0](turned)[0]).view(batch, length, pieces, width)
        return z.transpose(1, 2) + y


def words(name, kind, dynamic=False, **options):
    """Sentences; with dynamic sizes, any number of them."""

    def make():
        sizes = [(2, 9), (1, 9), (4, 9)] if dynamic else [(2, 9)]
        shapes = ({0: Dim("batch", min=1, max=4)},) if dynamic else None
        return Method(Tagger(kind, **options), [(torch.randint(0, 50, size),) for size in sizes], shapes)

    return Row(name, make)


def waves():
    sizes = {"n_res_block": 2, "n_rnn": 32, "n_fc": 32, "kernel_size": 5, "n_freq": 12, "n_hidden": 16, "n_output": 16}
    from torchaudio.models import WaveRNN

    return WaveRNN([2, 2, 5], 16, 20, **sizes)


def deep_speech():
    from torchaudio.models import DeepSpeech

    return DeepSpeech(16, n_hidden=32, n_class=20)


def fed(name, make, *sizes, jumps=False):
    return Row(name, lambda: Method(make(), [(torch.randn(*size),) for size in sizes]), jumps)


ROWS = [
    words("rnn", "RNN"),
    words("rnn_relu", "RNN", nonlinearity="relu", num_layers=2),
    words("gru", "GRU"),
    words("gru_bidirectional", "GRU", bidirectional=True, num_layers=2),
    words("lstm", "LSTM"),
    words("lstm_bidirectional", "LSTM", bidirectional=True, num_layers=2),
    words("lstm_projected", "LSTM", proj_size=12),
    words("lstm_dynamic", "LSTM", dynamic=True),
    words("gru_dynamic", "GRU", dynamic=True, bidirectional=True),
    fed("lstm_streaming", lambda: Streaming("LSTM"), *[(4, 1, WIDTH)] * 3),
    fed("gru_streaming", lambda: Streaming("GRU"), *[(4, 1, WIDTH)] * 3),
    fed("cells", Cells, (5, 2, 8)),
    fed("conv_lstm", ConvolutionalMemory, (1, 4, 3, 12, 12)),
    Row("seq2seq_attention", lambda: Method(Translator(), [(torch.randint(0, 30, (2, 7)),)]), jumps=True),
    fed("until_still", UntilStill, (2, WIDTH), (2, WIDTH), jumps=True),
    fed("qrnn", Quasi, (2, 8, 10)),
    fed("crnn", Reader, (1, 1, 16, 48)),
    fed("voice_activity", VoiceActivity, *[(1, 512)] * 3),
    fed("dual_path", TwoPaths, (1, 3, 5, WIDTH)),
    fed("deep_speech", deep_speech, (1, 1, 12, 16)),
    Row("wave_rnn", lambda: Method(waves(), [(torch.randn(1, 1, 80), torch.randn(1, 1, 12, 8))])),
]
