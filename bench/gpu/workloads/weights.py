"""Weights of a model that was built without any: on the device, or in host memory between uses.

The latter is what accelerate's CPU offload does: the first blocks stay on the device, as many as
fit; of the others every module copies its weights there before it runs, waits for them, and
releases them behind it. Host memory is pinned here, which is faster than what accelerate uses.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

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
        turns = [
            [Turn(module, self.device) for module in block.modules() if has_weights(module)]
            for block in self.blocks
        ]
        torch.cuda.empty_cache()  # without a GPU nothing
        step()
        sizes = [sum(turn.bytes for turn in block) for block in turns]
        room = int(free_bytes(self.device, sum(sizes)) * ROOM)
        for block, size in zip(turns, sizes, strict=True):
            room -= size
            if room < 0:
                break
            for turn in block:
                turn.stay()


class Turn:
    """A module's weights come before it runs and go behind it."""

    def __init__(self, module: Any, device: str) -> None:
        self.device = device
        self.host = [(parameter, parameter.data) for parameter in own_weights(module)]
        self.bytes = sum(host.nbytes for _, host in self.host)
        self.hooks = [
            module.register_forward_pre_hook(lambda *_: self.come()),
            module.register_forward_hook(lambda *_: self.go()),
        ]

    def come(self) -> None:
        """Blocks until they are there."""
        for parameter, host in self.host:
            parameter.data = host.to(self.device)

    def go(self) -> None:
        for parameter, host in self.host:
            parameter.data = host

    def stay(self) -> None:
        """On the device, for good."""
        for hook in self.hooks:
            hook.remove()
        self.come()
        self.host.clear()


def own_weights(module: Any) -> list[Any]:
    """Without those of the modules in it."""
    return list(module.parameters(recurse=False))


def has_weights(module: Any) -> bool:
    return bool(own_weights(module))


def on_host(weights: Any) -> Any:
    """A copy, pinned where there is a GPU."""
    host = torch.empty_like(weights, device="cpu", pin_memory=torch.cuda.is_available())
    return host.copy_(weights)


def free_bytes(device: str, needed: int) -> int:
    """Of the device; without one half of what is needed, to try both ways."""
    free: int = torch.cuda.mem_get_info()[0] if device == "cuda" else needed // 2
    return free
