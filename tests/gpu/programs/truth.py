"""What one step of a PyTorch program truly touches, as the framework itself knows it.

`record` notes, for each operation that the dispatcher runs, when and on which thread it ran, the
tensors it was given and gave back, and which memory the caching allocator handed out meanwhile.
"""

import gc
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

ADDED, TAKEN_BACK = "alloc", "free_requested"
"""The allocator's words for handing a block out and for getting it back."""


class History:
    """What the caching allocator does from now on. A position counts blocks given and returned."""

    def __init__(self) -> None:
        torch.cuda.memory._record_memory_history("all", context=None)
        self._base = self._count()
        self._past = len(self._entries())
        self.blocks = list(allocated(torch.cuda.memory._snapshot()["segments"]))
        self.segments = self._segments()

    def position(self) -> int:
        """How many blocks were handed out or returned so far."""
        return self._count() - self._base

    def end(self) -> list[tuple[bool, int, int]]:
        """Everything since the start: handed out or not, address, bytes asked for."""
        entries = self._entries()[self._past :]
        self.segments += self._segments()
        torch.cuda.memory._record_memory_history(None)
        return [(e["action"] == ADDED, e["addr"], e["size"]) for e in entries]

    def _count(self) -> int:
        of = torch.cuda.memory_stats_as_nested_dict()["allocation"]["all"]
        return int(of["allocated"]) + int(of["freed"])

    def _entries(self) -> list[dict[str, Any]]:
        every = torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]
        return [entry for entry in every if entry["action"] in (ADDED, TAKEN_BACK)]

    def _segments(self) -> list[tuple[int, int]]:
        every = torch.cuda.memory._snapshot()["segments"]
        return [(segment["address"], segment["total_size"]) for segment in every]


class NoHistory:
    """A device without a caching allocator: all memory stays as it is."""

    blocks: tuple[tuple[int, int], ...] = ()
    segments: tuple[tuple[int, int], ...] = ()

    def position(self) -> int:
        """Nothing ever happens."""
        return 0

    def end(self) -> list[tuple[bool, int, int]]:
        """Nothing did."""
        return []


def allocated(segments: list[dict[str, Any]]) -> Iterator[tuple[int, int]]:
    """Address and bytes asked for of every block that is handed out."""
    for segment in segments:
        at = segment["address"]
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                yield at, block["requested_size"]
            at += block["size"]


class Operations(TorchDispatchMode):  # type: ignore[misc]
    """Notes every operation, those of the backward pass included."""

    def __init__(self, device: str, history: History | NoHistory) -> None:
        super().__init__()
        self.done: list[dict[str, Any]] = []
        self._device = device
        self._history = history

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Runs the operation, and notes it."""
        kwargs = kwargs or {}
        words = func._schema.arguments
        given = {word.name: value for word, value in zip(words, args, strict=False)} | kwargs
        written = {w.name for w in words if w.alias_info is not None and w.alias_info.is_write}
        tensors, storages = [], set()
        for name, value in given.items():
            for role, tensor in self._tensors(name, value):  # now: the operation may resize it
                storages.add(tensor.untyped_storage().data_ptr())
                tensors.append((role, *extent(tensor), name in written))
        before, begin = self._history.position(), time.monotonic_ns()
        result = func(*args, **kwargs)
        end, after = time.monotonic_ns(), self._history.position()
        several = isinstance(result, tuple) and len(func._schema.returns) > 1
        for i, value in enumerate(result if several else (result,)):
            for role, tensor in self._tensors(f"return {i}", value):
                if tensor.untyped_storage().data_ptr() not in storages:  # no view, not in place
                    tensors.append((role, *extent(tensor), True))
        self.done.append(
            {
                "name": str(func),
                "thread": threading.get_native_id(),
                "begin": begin,
                "end": end,
                "before": before,
                "after": after,
                "tensors": tensors,
            }
        )
        return result

    def _tensors(self, role: str, value: Any) -> Iterator[tuple[str, Any]]:
        """Every tensor of the device in a value that has elements, and its role."""
        if isinstance(value, torch.Tensor):
            if value.device.type == self._device and value.numel():
                yield role, value
        elif isinstance(value, list | tuple):
            for i, each in enumerate(value):
                yield from self._tensors(f"{role}[{i}]", each)
        elif isinstance(value, dict):
            for key, each in value.items():
                yield from self._tensors(f"{role}[{key}]", each)


def extent(tensor: Any) -> tuple[int, int, list[int], list[int]]:
    """Address, bytes of an element, sizes and strides in elements."""
    return tensor.data_ptr(), tensor.element_size(), list(tensor.shape), list(tensor.stride())


def held(device: str) -> Iterator[tuple[int, int]]:
    """Address and bytes of the storage of every tensor that Python knows of."""
    for each in gc.get_objects():
        if not issubclass(type(each), torch.Tensor):
            continue
        if each.device.type == device and each.layout == torch.strided:
            storage = each.untyped_storage()
            yield storage.data_ptr(), storage.nbytes()


def record(step: Callable[[], object], device: str) -> dict[str, Any]:
    """Runs one step. Times are nanoseconds of CLOCK_MONOTONIC; `lab.touches.truth` reads it."""
    history = History() if device == "cuda" else NoHistory()
    known = sorted(set(held(device)))
    operations = Operations(device, history)
    begin = time.monotonic_ns()
    with operations:
        step()
    end = time.monotonic_ns()
    count = history.position()
    events = history.end()
    return {
        "begin": begin,
        "end": end,
        "operations": operations.done,
        "held": known,
        "blocks": history.blocks,
        "segments": sorted(set(history.segments)),
        "events": events,
        "events_agree": len(events) == count,
    }
