"""Weights of a model that was built without any: on the device, or in host memory between uses.

The latter is accelerate's CPU offload (offload.py): the first blocks stay on the device, as many as
fit; of the others every module copies its weights there before it runs. Host memory is pinned here,
which accelerate leaves to its user and which is faster.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from bench.gpu.workloads.offload import offload

ROOM = 0.9  # of what is free beside a step: as accelerate leaves some


class Weights:
    """Those of `blocks`, modules in the order in which they run: of all the model has."""

    def __init__(self, blocks: Sequence[Any], device: str, spread: float) -> None:
        self.blocks = blocks
        self.device = device
        self.spread = spread
        self.offloaded = False

    def offload(self) -> None:
        """They are to be made in host memory."""
        self.offloaded = True

    def make(self, step: Callable[[], object]) -> None:
        """The same numbers wherever they stay. `step` takes as much memory as any that follows."""
        for module in (module for block in self.blocks for module in block.modules()):
            for name, parameter in module.named_parameters(recurse=False):
                made = torch.empty(parameter.shape, dtype=parameter.dtype, device=self.device)
                if made.dim() > 1:
                    made.normal_(std=self.spread)
                else:
                    made.fill_(1)
                kept = on_host(made) if self.offloaded else made
                setattr(module, name, torch.nn.Parameter(kept, requires_grad=False))
        if self.offloaded:
            self.take_turns(step)

    def take_turns(self, step: Callable[[], object]) -> None:
        """All of them; then those that fit beside a step stay."""
        blocks = [offload(block, self.device) for block in self.blocks]
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        step()
        room = int(free_bytes(self.device, sum(block.bytes for block in blocks)) * ROOM)
        for block in blocks:
            room -= block.bytes
            if room < 0:
                break
            block.stay()


def on_host(weights: Any) -> Any:
    """A copy, pinned where there is a GPU."""
    host = torch.empty_like(weights, device="cpu", pin_memory=torch.cuda.is_available())
    return host.copy_(weights)


def free_bytes(device: str, needed: int) -> int:
    """Of the device, beside the most that was reserved; without one half of what is needed, to try
    both ways.
    """
    if device != "cuda":
        return needed // 2
    free: int = torch.cuda.mem_get_info()[0]
    given_back: int = torch.cuda.max_memory_reserved() - torch.cuda.memory_reserved()
    return free - given_back
