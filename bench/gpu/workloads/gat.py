"""A graph attention network (PyTorch Geometric), training, 80 000 nodes, 400 000 edges, AdamW."""

from typing import Any

import torch
from torch_geometric.nn import GATConv

from bench.gpu.workloads.by_torch import training
from bench.gpu.workloads.sizes import GAT, Graph
from bench.gpu.workloads.work import Work

TOLERANCE = 1e-5
"""Nodes add what they receive by atomics, in any order. On a CPU, 41 steps with edges in other
orders differed by 1e-7, and by 5e-5 if a 160th of the nodes had lost their features.
"""


class Network(torch.nn.Module):  # type: ignore[misc]
    """Layers of attention, then a score for each class."""

    def __init__(self, size: Graph) -> None:
        super().__init__()
        hidden = size.heads * size.width
        widths = [size.features, *[hidden] * (size.layers - 1)]
        self.layers = torch.nn.ModuleList(
            GATConv(before, size.width, heads=size.heads) for before in widths
        )
        self.head = torch.nn.Linear(hidden, size.classes)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> Any:
        for layer in self.layers:
            x = torch.nn.functional.elu(layer(x, edges))
        return self.head(x)


def make(device: str, tiny: bool) -> Work:
    """Every node has a class. As its users run it: the deterministic sum is another program."""
    torch.use_deterministic_algorithms(False)
    size = GAT[tiny]
    model = Network(size).to(device)
    x = torch.randn(size.nodes, size.features, device=device)
    edges = torch.randint(0, size.nodes, (2, size.edges), device=device)
    classes = torch.randint(0, size.classes, (size.nodes,), device=device)

    def loss() -> torch.Tensor:
        return torch.nn.functional.cross_entropy(model(x, edges), classes)

    work = training(loss, model, list(model.layers))
    work.tolerance = TOLERANCE
    return work
