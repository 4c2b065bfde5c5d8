"""A mixture of experts (8, each word takes 2), training, 8 x 512 tokens, bf16 autocast, AdamW."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from bench.gpu.workloads.by_torch import training
from bench.gpu.workloads.sizes import MOE, Experts
from bench.gpu.workloads.work import Work


class Mixture(nn.Module):  # type: ignore[misc]
    """Each row goes through the experts that it chooses, and adds what they give."""

    def __init__(self, size: Experts) -> None:
        super().__init__()
        self.chosen = size.chosen
        self.choose = nn.Linear(size.width, size.experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(
                nn.Linear(size.width, size.inner), nn.GELU(), nn.Linear(size.inner, size.width)
            )
            for _ in range(size.experts)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shares, choices = self.choose(x).float().softmax(-1).topk(self.chosen)
        shares = shares / shares.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows, place = torch.where(choices == i)
            given = expert(x[rows]) * shares[rows, place, None]
            out = out.index_add(0, rows, given.to(out.dtype))
        return out


class Block(nn.Module):  # type: ignore[misc]
    """Attention, then experts."""

    def __init__(self, size: Experts) -> None:
        super().__init__()
        self.heads = size.heads
        self.norms = nn.ModuleList(nn.LayerNorm(size.width) for _ in range(2))
        self.look = nn.Linear(size.width, 3 * size.width)
        self.seen = nn.Linear(size.width, size.width)
        self.mixture = Mixture(size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.look(self.norms[0](x)).view(batch, length, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.seen(seen.transpose(1, 2).reshape(batch, length, width))
        mixed: torch.Tensor = self.mixture(self.norms[1](x).view(-1, width))
        return x + mixed.view(batch, length, width)


class Model(nn.Module):  # type: ignore[misc]
    """Predicts the next word."""

    def __init__(self, size: Experts) -> None:
        super().__init__()
        self.words = nn.Embedding(size.words, size.width)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.head = nn.Linear(size.width, size.words, bias=False)

    def forward(self, words: torch.Tensor) -> Any:
        x = self.words(words)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def make(device: str, tiny: bool) -> Work:
    """How many words an expert gets differs from step to step."""
    size = MOE[tiny]
    model = Model(size).to(device)
    words = torch.randint(0, size.words, (size.batch, size.length), device=device)

    def loss() -> torch.Tensor:
        with torch.autocast(device, dtype=torch.bfloat16):
            scores = model(words)
        return functional.cross_entropy(
            scores[:, :-1].flatten(0, 1).float(), words[:, 1:].flatten()
        )

    return training(loss, model, list(model.blocks))
