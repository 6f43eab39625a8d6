"""Gather and scatter: graphs, point clouds, tables of features, written with torch's own operators."""

import torch
import torch.nn.functional as F
from row import Method, Row
from torch import nn
from torch.export import Dim

TITLE = "Graphs and point clouds"
NODES, EDGES, WIDTH = 12, 30, 16


class Convolution(nn.Module):
    """GCN: sums over neighbours, divided by the roots of degrees."""

    def __init__(self, inputs=WIDTH, outputs=WIDTH):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x, edges):
        source, target = edges[0], edges[1]
        degree = torch.ones_like(x[:, 0]).index_add(0, target, torch.ones_like(target, dtype=x.dtype))
        weight = (degree[source] * degree[target]).rsqrt()
        y = self.linear(x)
        return torch.zeros_like(y).index_add(0, target, y[source] * weight.unsqueeze(1)) + y / degree.unsqueeze(1)


class Mean(nn.Module):
    """GraphSAGE: the mean of neighbours beside the node itself."""

    def __init__(self):
        super().__init__()
        self.own, self.others = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, edges):
        place = edges[1].unsqueeze(1).expand(-1, x.shape[1])
        mean = torch.zeros_like(x).scatter_reduce(0, place, x[edges[0]], "mean", include_self=False)
        return F.normalize(self.own(x) + self.others(mean), dim=-1)


class Most(Mean):
    """Its relative that takes the largest of what comes in."""

    def forward(self, x, edges):
        place = edges[1].unsqueeze(1).expand(-1, x.shape[1])
        most = torch.zeros_like(x).scatter_reduce(0, place, F.relu(self.others(x))[edges[0]], "amax")
        return self.own(x) + most


class Isomorphism(nn.Module):
    """GIN: sums of neighbours through a small network, then a sum over each graph."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(WIDTH, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, WIDTH))
        self.own = nn.Parameter(torch.tensor(0.1))

    def forward(self, x, edges, graph):
        y = self.inner((1 + self.own) * x + torch.zeros_like(x).index_add(0, edges[1], x[edges[0]]))
        return torch.zeros(3, WIDTH).index_add(0, graph, y)


class Attention(nn.Module):
    """GAT: a softmax over the edges that meet in a node."""

    def __init__(self, heads=2):
        super().__init__()
        self.heads, self.linear = heads, nn.Linear(WIDTH, WIDTH * heads)
        self.from_source = nn.Parameter(torch.randn(heads, WIDTH) / 4)
        self.to_target = nn.Parameter(torch.randn(heads, WIDTH) / 4)

    def forward(self, x, edges):
        source, target = edges[0], edges[1]
        y = self.linear(x).view(-1, self.heads, WIDTH)
        score = (y * self.from_source).sum(-1)[source] + (y * self.to_target).sum(-1)[target]
        score, place = F.leaky_relu(score, 0.2), target.unsqueeze(1).expand(-1, self.heads)
        most = torch.full((x.shape[0], self.heads), -1e9).scatter_reduce(0, place, score, "amax")
        weight = (score - most[target]).exp()
        total = torch.zeros_like(most).scatter_add(0, place, weight)
        weight = weight / (total[target] + 1e-9)
        found = torch.zeros_like(y).index_add(0, target, y[source] * weight.unsqueeze(-1))
        return found.flatten(1)


class Messages(nn.Module):
    """MPNN: a matrix for each edge, a GRU for each node, steps one after the other."""

    def __init__(self):
        super().__init__()
        self.edge, self.cell, self.leave = (
            nn.Linear(4, WIDTH * WIDTH),
            nn.GRUCell(WIDTH, WIDTH),
            nn.Linear(2 * WIDTH, 1),
        )

    def forward(self, x, edges, kinds):
        matrices, state = self.edge(kinds).view(-1, WIDTH, WIDTH) / WIDTH, x
        for _ in range(3):
            message = torch.bmm(matrices, state[edges[0]].unsqueeze(-1)).squeeze(-1)
            state = self.cell(torch.zeros_like(x).index_add(0, edges[1], message), state)
        return self.leave(torch.cat([x, state], -1)).sum()


class Relations(nn.Module):
    """R-GCN: a weight for each kind of edge, as a sum of few bases."""

    def __init__(self, kinds=3, bases=2):
        super().__init__()
        self.bases, self.mix = (
            nn.Parameter(torch.randn(bases, WIDTH, WIDTH) / 4),
            nn.Parameter(torch.randn(kinds, bases)),
        )

    def forward(self, x, edges, kind):
        weight = torch.einsum("kb,bij->kij", self.mix, self.bases)
        message = torch.einsum("ei,eij->ej", x[edges[0]], weight[kind])
        return x + torch.zeros_like(x).index_add(0, edges[1], message)


class Equivariant(nn.Module):
    """EGNN: positions move along the edges by what distances and features say."""

    def __init__(self):
        super().__init__()
        self.edge = nn.Sequential(nn.Linear(2 * WIDTH + 1, 32), nn.SiLU(), nn.Linear(32, WIDTH), nn.SiLU())
        self.move, self.node = nn.Linear(WIDTH, 1), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x, place, edges):
        apart = place[edges[0]] - place[edges[1]]
        message = self.edge(torch.cat([x[edges[0]], x[edges[1]], apart.square().sum(1, keepdim=True)], 1))
        moved = place.index_add(0, edges[1], apart * self.move(message).tanh())
        return self.node(torch.cat([x, torch.zeros_like(x).index_add(0, edges[1], message)], 1)), moved


class Continuous(nn.Module):
    """SchNet: filters from distances in Gaussian windows, energies summed over molecules."""

    def __init__(self):
        super().__init__()
        self.embed, self.filters = (
            nn.Embedding(10, WIDTH),
            nn.Sequential(nn.Linear(8, WIDTH), nn.Softplus(), nn.Linear(WIDTH, WIDTH)),
        )
        self.leave = nn.Linear(WIDTH, 1)
        self.register_buffer("centres", torch.linspace(0, 4, 8))

    def forward(self, atoms, place, edges):
        distance = torch.linalg.vector_norm(place[edges[0]] - place[edges[1]], dim=1)
        window = torch.exp(-((distance.unsqueeze(1) - self.centres) ** 2) * 2)
        cut = 0.5 * (torch.cos(distance.clamp(max=5) * torch.pi / 5) + 1)
        x = self.embed(atoms)
        message = x[edges[0]] * self.filters(window) * cut.unsqueeze(1)
        x = x.index_add(0, edges[1], message)
        return self.leave(F.softplus(x)).sum(0)


class Points(nn.Module):
    """PointNet: a network for each point, the largest over all, a turn of the cloud by a network of its own."""

    def __init__(self):
        super().__init__()
        each = lambda *sizes: nn.Sequential(
            *[layer for a, b in zip(sizes, sizes[1:]) for layer in (nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU())]
        )
        self.turn, self.nine = each(3, 16, 32), nn.Linear(32, 9)
        self.body, self.leave = each(3, 16, 64), nn.Linear(64, 5)

    def forward(self, x):
        turn = self.nine(self.turn(x).amax(2)).view(-1, 3, 3) + torch.eye(3)
        return self.leave(self.body(torch.bmm(turn, x)).amax(2))


class Groups(nn.Module):
    """PointNet++: far points by turns, the nearest around each, the largest within each group."""

    def __init__(self, centres=6, near=4):
        super().__init__()
        self.centres, self.near, self.inner = (
            centres,
            near,
            nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, WIDTH)),
        )

    def forward(self, points):
        distance, chosen = torch.full_like(points[:, 0], 1e9), [torch.zeros((), dtype=torch.long)]
        for _ in range(self.centres - 1):
            distance = torch.minimum(distance, (points - points[chosen[-1]]).square().sum(1))
            chosen.append(distance.argmax())
        centre = points[torch.stack(chosen)]
        near = torch.cdist(centre, points).topk(self.near, largest=False).indices
        return self.inner(points[near] - centre.unsqueeze(1)).amax(1), centre


class Edges(nn.Module):
    """DGCNN: the nearest in the space of features, networks on differences."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def around(self, x, layer):
        square = x.square().sum(-1)
        near = (square.unsqueeze(2) + square.unsqueeze(1) - 2 * x @ x.transpose(1, 2)).topk(5, largest=False).indices
        batch = torch.arange(x.shape[0]).view(-1, 1, 1)
        others = x[batch, near]
        own = x.unsqueeze(2).expand_as(others)
        return F.leaky_relu(layer(torch.cat([own, others - own], -1)), 0.2).amax(2)

    def forward(self, x):
        return self.around(self.around(x, self.first), self.second).amax(1)


class Voxels(nn.Module):
    """PointPillars: points become cells of a map by scatter, then convolutions."""

    def __init__(self, side=8):
        super().__init__()
        self.side, self.inner, self.map = side, nn.Linear(4, 16), nn.Conv2d(16, 8, 3, padding=1)

    def forward(self, points):
        cells = (points[:, :2] * self.side).long().clamp(0, self.side - 1)
        place = cells[:, 1] * self.side + cells[:, 0]
        features = self.inner(points).relu()
        grid = torch.zeros(self.side**2, 16).scatter_reduce(0, place.unsqueeze(1).expand(-1, 16), features, "amax")
        return self.map(grid.t().reshape(1, 16, self.side, self.side))


class Recommender(nn.Module):
    """DLRM: tables of features, sums over bags, products of all pairs."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Sequential(nn.Linear(5, WIDTH), nn.ReLU())
        self.tables = nn.ModuleList(nn.EmbeddingBag(40, WIDTH, mode="sum") for _ in range(3))
        self.top = nn.Sequential(nn.Linear(WIDTH + 6, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, dense, sparse):
        x = self.dense(dense)
        parts = torch.stack([x, *[table(sparse[:, number]) for number, table in enumerate(self.tables)]], 1)
        row, column = torch.tril_indices(4, 4, -1)
        products = torch.bmm(parts, parts.transpose(1, 2))[:, row, column]
        return torch.sigmoid(self.top(torch.cat([x, products], 1)))


class Hashed(nn.Module):
    """A field of radiance: corners of cells hashed into a table, as InstantNGP does it, and a small network."""

    def __init__(self, size=64):
        super().__init__()
        self.size, self.table = size, nn.Parameter(torch.randn(3, size, 2))
        self.inner = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
        self.register_buffer("primes", torch.tensor([1, 2654435761, 805459861]))
        self.register_buffer("corners", torch.tensor([[i >> 2 & 1, i >> 1 & 1, i & 1] for i in range(8)]))

    def forward(self, points):
        found = []
        for level in range(3):
            scaled = points * (4 << level)
            low = scaled.floor().long()
            part = (scaled - low).unsqueeze(1)
            hashed = (low.unsqueeze(1) + self.corners) * self.primes
            index = (hashed[..., 0] ^ hashed[..., 1] ^ hashed[..., 2]) % self.size
            weight = torch.where(self.corners.bool(), part, 1 - part).prod(-1)
            found.append((self.table[level][index] * weight.unsqueeze(-1)).sum(1))
        return self.inner(torch.cat(found, -1)).sigmoid()


class Memory(nn.Module):
    """A memory of features by number, that a run reads and writes: TGN's."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(WIDTH + 4, WIDTH)
        self.register_buffer("memory", torch.zeros(NODES, WIDTH))

    def forward(self, source, target, event):
        before = self.memory[source]
        after = self.cell(torch.cat([self.memory[target], event], 1), before)
        self.memory.index_copy_(0, source, after)
        return (after * self.memory[target]).sum(1)


def edges(count=EDGES, nodes=NODES):
    return torch.randint(0, nodes, (2, count))


def graph(name, kind, *more, dynamic=False):
    """A graph, with what else the network wants; with dynamic sizes, of any number of nodes and edges."""

    def run(nodes, count):
        return torch.randn(nodes, WIDTH), edges(count, nodes), *[own(nodes, count) for own in more]

    sizes = [(NODES, EDGES), (5, 40), (20, 7)] if dynamic else [(NODES, EDGES)]
    shapes = ({0: Dim("nodes", min=2, max=32)}, {1: Dim("edges", min=2, max=64)}) if dynamic else None
    return Row(name, lambda: Method(kind(), [run(*size) for size in sizes], shapes))


def cloud(name, kind, *shape, jumps=False):
    return Row(name, lambda: Method(kind(), [(torch.rand(*shape),)]), jumps)


def placed(kind):
    return Method(kind(), [(torch.randn(NODES, WIDTH), torch.randn(NODES, 3), edges())])


def molecule():
    return Method(Continuous(), [(torch.randint(0, 10, (NODES,)), torch.randn(NODES, 3), edges())])


def events():
    runs = [(torch.randperm(NODES)[:4], torch.randint(0, NODES, (4,)), torch.randn(4, 4)) for _ in range(3)]
    return Method(Memory(), runs)


ROWS = [
    graph("gcn", Convolution),
    graph("gcn_dynamic", Convolution, dynamic=True),
    graph("sage_mean", Mean),
    graph("sage_max", Most),
    graph("sage_max_dynamic", Most, dynamic=True),
    graph("gin", Isomorphism, lambda nodes, count: torch.randint(0, 3, (nodes,)).sort().values),
    graph("gat", Attention),
    graph("gat_dynamic", Attention, dynamic=True),
    graph("mpnn", Messages, lambda nodes, count: torch.randn(count, 4)),
    graph("rgcn", Relations, lambda nodes, count: torch.randint(0, 3, (count,))),
    Row("egnn", lambda: placed(Equivariant)),
    Row("schnet", molecule),
    cloud("pointnet", Points, 2, 3, 40),
    cloud("pointnet2", Groups, 40, 3, jumps=True),
    cloud("dgcnn", Edges, 2, 24, 3, jumps=True),
    cloud("point_pillars", Voxels, 50, 4, jumps=True),
    cloud("hash_grid", Hashed, 20, 3, jumps=True),
    Row("dlrm", lambda: Method(Recommender(), [(torch.randn(4, 5), torch.randint(0, 40, (4, 3, 6)))])),
    Row("temporal_memory", events),
]
