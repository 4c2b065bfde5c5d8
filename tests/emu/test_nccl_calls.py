"""Every call of NCCL that tells what it touches, at random on the look-alike: alone and in groups.

What is recorded of each is compared with bytes that are computed without the tables.
"""

import random
import sys
from collections.abc import Callable
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import ROOT, RunEmulated
from tests.emu.library_run import Touch, run_calls

sys.path.insert(0, str(ROOT))

from hooks.gen import shipped
from hooks.generator.row import Told

pytestmark = pytest.mark.emu

LIBRARY = "libnccl.so.2"
ROOM = 1 << 16
READ, WRITE = 1, 2
MODES = {READ: "read", WRITE: "write", READ | WRITE: "update"}
WIDTHS = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)
"""Bytes of an element, by the number of its type."""
SYMBOLS = sorted(
    row.symbol
    for row in shipped().rows
    if row.library == "nccl" and isinstance(row.treatment, Told)
)
Used = list[tuple[int, int, int]]
"""Of memory: first byte, bytes, how."""


class Drawn:
    """Arguments of one call, of a rank whose two buffers are in a place of their own."""

    def __init__(self, rng: random.Random, place: int, room: int) -> None:
        self.type = rng.randrange(len(WIDTHS))
        self.width = WIDTHS[self.type]
        self.ranks = rng.randint(1, 5)
        self.rank = rng.randrange(self.ranks)
        self.root = rng.randrange(self.ranks)
        self.count = rng.choice([0, 1, rng.randint(2, room // 2 // self.ranks // self.width)])
        self.in_place = rng.random() < 0.5
        self.one, self.two = place, place + room // 2
        self.own = place + self.rank * self.count * self.width
        self.slot = self.count * self.width
        self.all = self.ranks * self.slot
        self.is_root = self.rank == self.root


def buffers(x: Drawn, name: str) -> tuple[int, int]:
    """Where a call sends from and receives, in place as it may be."""
    gathers = name in ("AllGather", "Gather")
    if not x.in_place or name == "AlltoAll":
        return x.one, x.two
    if name in ("ReduceScatter", "Scatter") or gathers:
        return (x.own, x.one) if gathers else (x.one, x.own)
    return x.one, x.one


def used(x: Drawn, name: str, send: int, receive: int) -> Used:
    """What a call of the rank reads and writes."""
    sent, received = (send, x.slot, READ), (receive, x.slot, WRITE)
    rest = [(receive + i * x.slot, x.slot, WRITE) for i in range(x.ranks)]
    if x.in_place and name in ("AllGather", "Gather"):
        del rest[x.rank]
    keeps = x.in_place and x.is_root
    does: dict[str, Callable[[], Used]] = {
        "AllReduce": lambda: [sent, received],
        "Reduce": lambda: [sent, received] if x.is_root else [sent],
        "Broadcast": lambda: ([sent] if x.is_root else []) + ([] if keeps else [received]),
        "Bcast": lambda: [sent if x.is_root else (send, x.slot, WRITE)],
        "AllGather": lambda: [sent, *rest],
        "ReduceScatter": lambda: [(send, x.all, READ), received],
        "AlltoAll": lambda: [(send, x.all, READ), (receive, x.all, WRITE)],
        "Gather": lambda: [sent, *(rest if x.is_root else [])],
        "Scatter": lambda: (
            ([(send, x.all, READ)] if x.is_root else []) + ([] if keeps else [received])
        ),
        "Send": lambda: [sent],
        "Recv": lambda: [(send, x.slot, WRITE)],
        "PutSignal": lambda: [sent],
    }
    return does[name]()


def drawn(rng: random.Random, symbol: str, place: int, room: int) -> tuple[dict[str, Any], Used]:
    """A call, and what it uses."""
    name = symbol.removeprefix("nccl").removesuffix("Config")
    x = Drawn(rng, place, room)
    send, receive = buffers(x, name)
    words: list[list[Any]] = [["pointer", {"device": send}]]
    if name not in ("Bcast", "Send", "Recv", "PutSignal"):
        words.append(["pointer", {"device": receive}])
    words += [["size_t", x.count], ["int", x.type]]
    if name in ("AllReduce", "Reduce", "ReduceScatter"):
        words.append(["int", 0])
    if name in ("Reduce", "Broadcast", "Bcast", "Gather", "Scatter", "Send", "Recv", "PutSignal"):
        words.append(["int", x.root])
    if name == "PutSignal":
        words += [["pointer", None], ["size_t", 8], ["int", 0], ["int", 0], ["unsigned", 0]]
    words += [["pointer", {"ranks": x.ranks, "rank": x.rank}], ["pointer", None]]
    if symbol.endswith("Config"):
        words.append(["pointer", None])
    return call(symbol, words), used(x, name, send, receive)


def call(symbol: str, words: list[list[Any]]) -> dict[str, Any]:
    return {"library": LIBRARY, "symbol": symbol, "result": "int", "arguments": words}


def painted(uses: Used) -> list[Touch]:
    """The bytes used, in order, those side by side with the same mode as one."""
    how = np.zeros(ROOM, dtype=np.uint8)
    for first, size, mode in uses:
        how[first : first + size] |= mode
    found, at = [], 0
    for mode, run in groupby(how.tolist()):
        end = at + len(list(run))
        found += [(at, end, MODES[mode])] if mode else []
        at = end
    return found


def recorded(touches: set[Touch]) -> list[Touch]:
    """The same of what was recorded, all of which the library told."""
    modes = {name: mode for mode, name in MODES.items()}
    return painted([(first, end - first, modes[mode]) for first, end, mode in touches])


def test_there_are_all_of_them() -> None:
    assert len(SYMBOLS) == 20


@pytest.fixture(params=["seen", "hidden"])
def launched(
    run_emulated: RunEmulated, emulator_dir: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> Callable[..., Any]:
    """Makes calls; what each launch touched, by kernels that hold pointers or none."""
    kernels, trace = request.param, tmp_path / "trace"
    which = {"library": LIBRARY, "size": ROOM, "kernels": kernels}
    return partial(run_calls, run_emulated, emulator_dir, trace, **which)


def test_extents_and_directions(launched: Callable[..., Any]) -> None:
    rng = random.Random(49)
    every = [drawn(rng, symbol, 0, ROOM) for symbol in SYMBOLS for _ in range(12)]
    calls, uses = zip(*every, strict=True)
    found = launched(calls)
    for one, does, launch in zip(calls, uses, found, strict=True):
        told = [use for use in does if use[1]]
        assert not told or recorded(launch) == painted(told), one


def test_a_group_is_what_its_calls_are_together(launched: Callable[..., Any]) -> None:
    """Also of groups in groups. One that is only simulated launches nothing."""
    rng = random.Random(94)
    start, end = call("ncclGroupStart", []), call("ncclGroupEnd", [])
    calls: list[dict[str, Any]] = []
    launches: list[Used] = []
    for _ in range(20):
        simulated = rng.random() < 0.2
        many = rng.randint(1, 8)
        room = ROOM // many
        every = [drawn(rng, rng.choice(SYMBOLS), i * room, room) for i in range(many)]
        within = rng.randrange(many + 1)
        inside = [one for one, _ in every]
        calls += [start, *inside[:within], start, *inside[within:], end]
        calls.append(call("ncclGroupSimulateEnd", [["pointer", None]]) if simulated else end)
        launches += [] if simulated else [[use for _, uses in every for use in uses]] * many
    found = launched(calls, launching=len(launches))
    for uses, launch in zip(launches, found, strict=True):
        told = [use for use in uses if use[1]]
        assert not told or recorded(launch) == painted(told)
