"""PyTorch as a program's framework, and what a program can do itself when memory is short."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm as BatchNorm
from torch.utils.checkpoint import checkpoint

from bench.gpu.workloads.work import Work

Loss = Callable[[], torch.Tensor]


def begin(device: str) -> None:
    """Every run computes the same numbers, by the same kernels."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.manual_seed(0)
    # an error, not a warning: with warnings only, attention's backward pass stays nondeterministic
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cudnn.benchmark = False


def wait() -> None:
    """Until the device has done all."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def reserved() -> int:
    """What its allocator took."""
    return int(torch.cuda.max_memory_reserved()) if torch.cuda.is_available() else 0


def version() -> dict[str, str]:
    """By its name."""
    return {"torch": torch.__version__}


def training(loss: Loss, model: Any, blocks: Sequence[Any], rate: float = 1e-4) -> Work:
    """Forward, backward, AdamW."""
    states = States(model, rate)
    numbers: list[torch.Tensor] = []

    def step() -> None:
        value = loss()
        value.backward()
        states.update()
        numbers.append(value.detach())

    return Work(step, numbers, blocks, states.offload)


class States:
    """AdamW's, on the device or in host memory."""

    def __init__(self, model: Any, rate: float) -> None:
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.rate = rate
        self.host: list[Any] = []
        self.optimizer = torch.optim.AdamW(self.parameters, lr=rate)

    def offload(self) -> None:
        """Weights to update and states live in host memory; gradients go there, weights return."""
        self.host = [p.detach().to("cpu", copy=True).requires_grad_() for p in self.parameters]
        self.optimizer = torch.optim.AdamW(self.host, lr=self.rate)

    def update(self) -> None:
        for host, parameter in zip(self.host, self.parameters, strict=bool(self.host)):
            host.grad = parameter.grad.to("cpu")
        self.optimizer.step()
        with torch.no_grad():
            for host, parameter in zip(self.host, self.parameters, strict=bool(self.host)):
                parameter.copy_(host)
        for parameter in self.parameters:
            parameter.grad = None


def change(work: Work, variant: str) -> None:
    """Makes the work a variant. Raises ValueError where that is not possible."""
    if variant == "save-on-cpu":
        plain = work.step

        def saved() -> None:
            with torch.autograd.graph.save_on_cpu(pin_memory=torch.cuda.is_available()):
                plain()

        work.step = saved
    elif variant == "checkpointing":
        if not work.blocks:
            raise ValueError("it has no blocks to compute twice")
        for block in work.blocks:
            block.forward = computed_twice(block)
    elif variant == "offload":
        if not work.offload:
            raise ValueError("it has nothing to keep in host memory")
        work.offload()


def computed_twice(block: Any) -> Callable[..., Any]:
    """Its `forward`, which keeps its input alone and runs again when gradients are needed."""
    return partial(
        checkpoint,
        block.forward,
        use_reentrant=False,
        context_fn=lambda: (nullcontext(), statistics_kept(block)),
    )


@contextmanager
def statistics_kept(block: Any) -> Iterator[None]:
    """While it is computed again: its batch norms compute alike, and leave running statistics and
    the count of batches as the first time left them.
    """
    norms = [module for module in block.modules() if isinstance(module, BatchNorm)]
    states = [(norm.momentum, norm.num_batches_tracked) for norm in norms]
    for norm in norms:
        norm.momentum, norm.num_batches_tracked = 0.0, None
    try:
        yield
    finally:
        for norm, (momentum, count) in zip(norms, states, strict=True):
            norm.momentum, norm.num_batches_tracked = momentum, count
