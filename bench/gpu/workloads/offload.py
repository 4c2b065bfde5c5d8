"""A block's weights in host memory between its uses: by accelerate's hooks, or the same without it.

Either way every module of the block copies its weights to the device before it runs, waits for
them, and releases them behind it. accelerate also empties the framework's cache with each weight.
Importing this imports neither.
"""

from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Protocol


class Offload(Protocol):
    """A block whose weights, `bytes` of them, come and go; the device runs it."""

    bytes: int

    def stay(self) -> None:
        """On the device, for good."""


class Accelerated:
    """By `accelerate.cpu_offload`. It uses the weights where they lie, pinned or not."""

    def __init__(self, block: Any, device: str) -> None:
        import accelerate
        import torch

        self.block, self.device = block, device
        self.bytes = bytes_of(block)
        accelerate.cpu_offload(block, torch.device(device))

    def stay(self) -> None:
        """On the device, for good."""
        from accelerate.hooks import remove_hook_from_module

        remove_hook_from_module(self.block, recurse=True)
        self.block.to(self.device)


class Plain:
    """By hooks of PyTorch's own."""

    def __init__(self, block: Any, device: str) -> None:
        self.block, self.device = block, device
        self.bytes = bytes_of(block)
        self.hooks = [
            hook
            for module in block.modules()
            if (weights := [(each, each.data) for each in module.parameters(recurse=False)])
            for hook in (
                module.register_forward_pre_hook(lambda *_, it=weights: self.come(it)),
                module.register_forward_hook(lambda *_, it=weights: self.go(it)),
            )
        ]

    def come(self, weights: list[tuple[Any, Any]]) -> None:
        """Blocks until they are there."""
        for parameter, host in weights:
            parameter.data = host.to(self.device)

    def go(self, weights: list[tuple[Any, Any]]) -> None:
        """The device's copies are given up."""
        for parameter, host in weights:
            parameter.data = host

    def stay(self) -> None:
        """On the device, for good."""
        for hook in self.hooks:
            hook.remove()
        self.hooks.clear()
        self.block.to(self.device)


def bytes_of(block: Any) -> int:
    """Of all its weights."""
    return sum(weight.nbytes for weight in block.parameters())


def offload(block: Any, device: str) -> Offload:
    """By accelerate where it is installed."""
    return Accelerated(block, device) if find_spec("accelerate") else Plain(block, device)


def way() -> str:
    """Which of them that is, and accelerate's version."""
    return f"accelerate {version('accelerate')}" if find_spec("accelerate") else "plain PyTorch"
