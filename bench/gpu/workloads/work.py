"""A step of a program, and what its framework must tell: neither imports a framework."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol, SupportsFloat, cast

from bench.gpu.workloads import VARIANTS, framework_of, module_of


@dataclass
class Work:
    """`step` runs once; `numbers` grow by what it computed. The rest is for the variants."""

    step: Callable[[], object]
    numbers: Sequence[SupportsFloat]
    blocks: Sequence[Any] = field(default_factory=tuple)  # to compute twice, not keep
    offload: Callable[[], None] | None = None  # states, or weights, are to be in host memory
    begin: Callable[[], object] | None = None  # once, before the first step, after a change
    tolerance: float = 0.0  # numbers of two runs differ by no more: of their size
    uncaptured: Callable[[], object] | None = None  # a step that replays no graph; needs no begin


class Framework(Protocol):
    """A module `by_FRAMEWORK` of this folder."""

    def begin(self, device: str) -> None:
        """Before the framework's first use: every run computes the same numbers, by the same
        kernels. Raises ValueError where it does not know the device.
        """

    def wait(self) -> object:
        """Until the device has done all."""

    def reserved(self) -> int:
        """Bytes of the device that the framework held at most; 0: it does not say."""

    def version(self) -> dict[str, str]:
        """By its name."""


def made(
    name: str, device: str, tiny: bool, variant: str = VARIANTS[0], uncaptured: bool = False
) -> tuple[Work, Framework]:
    """A workload, all done that comes before its first step. Raises ImportError, ValueError."""
    by = cast(Framework, import_module(f"{__package__}.by_{framework_of(name)}"))
    by.begin(device)
    work: Work = module_of(name).make(device, tiny)
    if variant != VARIANTS[0]:  # of PyTorch's programs alone
        import_module(f"{__package__}.by_torch").change(work, variant)
    if uncaptured and work.uncaptured:
        work.step, work.begin = work.uncaptured, None
    if work.begin:
        work.begin()
    return work, by
