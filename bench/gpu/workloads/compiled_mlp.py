"""Five residual layers by torch.compile(mode="reduce-overhead"), training, bf16 autocast, AdamW."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from bench.gpu.workloads.by_torch import training
from bench.gpu.workloads.sizes import COMPILED_MLP, Layers
from bench.gpu.workloads.work import Work


class Residual(nn.Module):  # type: ignore[misc]
    """Widens, narrows, and adds that."""

    def __init__(self, size: Layers) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size.width)
        self.widen = nn.Linear(size.width, size.inner)
        self.narrow = nn.Linear(size.inner, size.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = nn.functional.gelu(self.widen(self.norm(x)))
        out: torch.Tensor = x + self.narrow(inner)
        return out


def make(device: str, tiny: bool) -> Work:
    """Forward and backward passes are CUDA graphs, the update is not."""
    size = COMPILED_MLP[tiny]
    model = nn.Sequential(*[Residual(size) for _ in range(size.layers)]).to(device)
    x = torch.randn(size.rows, size.width, device=device)

    def loss_by(run: Any) -> Callable[[], torch.Tensor]:
        def loss() -> torch.Tensor:
            torch.compiler.cudagraph_mark_step_begin()
            with torch.autocast(device, dtype=torch.bfloat16):
                out = run(x)
            value: torch.Tensor = out.float().square().mean()
            return value

        return loss

    work = training(loss_by(torch.compile(model, mode="reduce-overhead")), model, ())
    work.uncaptured = training(loss_by(torch.compile(model)), model, ()).step
    return work
