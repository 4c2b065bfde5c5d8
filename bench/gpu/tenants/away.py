"""How fast a program leaves a GPU and comes back, beside the driver's own checkpoint."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.gpu.tenants import PIECE
from bench.gpu.tenants.group import Group, TenantError, steps_of
from pump import checkpoint
from pump.cli.tenants import counted, each
from pump.nvml import Nvml
from pump.share import broker

DIRTY_GIB, DRIVER_GIB, WHOLLY_GIB = 60, 16, 5
GIB, MIB = 1 << 30, 1 << 20
LAYERS = 10
PINNED_GIB_S = 2.0  # fewer than the background pins
DIRTY_S, SPAN_S, ORDERED_S = 2.0, 4.0, 0.05
AWAY_S = 60.0
SHARE = "g"
OUT, BACK = "60 GiB, all dirty", "60 GiB, back to the last byte"
Figures = Iterator[tuple[str, list[float]]]


def measured(logs: Path, rounds: int, link_out: float) -> Figures:
    """What is measured, and each round's figure (`BARS` has the units). link_out: bytes a second of
    plain copies.
    """
    found = dict(dirty(logs / "dirty", rounds, link_out))
    yield from found.items()
    yield from decoder(logs / "decoder", rounds)
    yield from wholly(logs / "wholly", rounds)
    taken, brought = by_driver(logs / "driver")
    times = statistics.median(found[OUT]), statistics.median(found[BACK])
    out, back = (each / DIRTY_GIB for each in times)
    yield "out, beside the driver's checkpoint", [taken / DRIVER_GIB / out]
    yield "in, beside it", [brought / DRIVER_GIB / back]


def dirty(logs: Path, rounds: int, link_out: float) -> Figures:
    """All of the memory has changed each time, and its place on the host is pinned."""
    out, first, back, stays = [], [], [], []
    used = Nvml().used()
    host = (DIRTY_GIB + 2) * GIB
    with Group([f"pieces-{DIRTY_GIB}"], [f"{SHARE},pin"], logs, host=host) as group:
        time.sleep(DIRTY_GIB / PINNED_GIB_S)
        for _ in range(rounds):
            group.step(DIRTY_S)
            out.append(put_away(group))
            stays.append((Nvml().used() - used) / MIB)
            times = bring_back(group, DIRTY_GIB * GIB // PIECE)
            first.append(times[0] * 1e3)
            back.append(times[-1])
    yield OUT, out
    yield "60 GiB, beside copying it", [s * link_out / (DIRTY_GIB * GIB) for s in out]
    yield BACK, back
    yield "first operation after it", first
    yield "stays: the context", stays


def decoder(logs: Path, rounds: int) -> Figures:
    """Weights that the host has, from the second time on."""
    with Group([f"decoder-{LAYERS}"], [f"{SHARE},pin"], logs) as group:
        out = []
        for _ in range(1 + rounds):
            group.step(DIRTY_S)
            out.append(put_away(group))
            bring_back(group, 1)
    yield "a decoder of 15 GiB, once more", out[1:]


def wholly(logs: Path, rounds: int) -> Figures:
    """With its context, by the commands."""
    left = []
    used = Nvml().used()
    with Group([f"pieces-{WHOLLY_GIB}"], [SHARE], logs) as group:
        for _ in range(rounds):
            group.step(DIRTY_S)
            pump(group, "suspend", SHARE, "--with-context")
            left.append((Nvml().used() - used) / MIB)
            pump(group, "resume", SHARE)
    yield "stays: with --with-context", left


def by_driver(logs: Path) -> tuple[float, float]:
    """Seconds out and in of a native program, by the driver alone."""
    with Group([f"pieces-{DRIVER_GIB}"], [None], logs) as group:
        pid = group.tenants[0].process.pid

        def took(change: Callable[[], checkpoint.Outcome]) -> float:
            began = time.monotonic()
            if error := change().error:
                raise TenantError(f"the driver's checkpoint: {error}")
            return time.monotonic() - began

        taken = took(lambda: checkpoint.take(pid, AWAY_S, lambda: True))
        return taken, took(lambda: checkpoint.bring(pid))


def put_away(group: Group) -> float:
    """Seconds until all that leaves has left."""
    broker.suspend(group.at, SHARE, suspended=True)
    end = time.monotonic() + AWAY_S
    while time.monotonic() < end:
        [found] = counted(each(group.status()))
        if "away_ns" in found:
            return float(found["away_ns"]) / 1e9
        time.sleep(0.01)
    raise TenantError(f"not away in {AWAY_S:g} s: {found}")


def bring_back(group: Group, count: int) -> list[float]:
    """Seconds from the order to resume to the end of each of so many steps, for which the program
    waits already.
    """
    [tenant] = group.tenants
    begin = time.monotonic_ns()
    tenant.order(begin, begin + int(SPAN_S * 1e9))
    time.sleep(ORDERED_S)
    resumed = time.monotonic_ns()
    broker.suspend(group.at, SHARE, suspended=False)
    ends = steps_of(tenant.answer(SPAN_S + AWAY_S), SPAN_S).ends
    if len(ends) < count:
        raise TenantError(f"{len(ends)} steps of {count} in {SPAN_S:g} s")
    return [end - (resumed - begin) / 1e9 for end in ends[:count]]


def pump(group: Group, *words: str) -> None:
    """Raises TenantError."""
    env = os.environ | {"ULMS_SHARE_DIR": str(group.at)}
    command = [sys.executable, "-P", "-m", "pump", *words]
    if subprocess.run(command, env=env, check=False).returncode:
        raise TenantError(f"pump {' '.join(words)}")
