"""How fast a thread of a program is on this host: plain Python, alone and while the link is busy.

Without ulms.so. A loop that needs no GPU and little memory is timed again and again, now alone, now
beside another process that copies pinned memory both ways. On a virtual machine, whose processors
are shared with what is not seen, it may be at half its speed for seconds; then so is a program
that launches kernels.
"""

import argparse
import statistics
import subprocess
import sys
import time

from bench import cli
from bench.gpu import link, machine

TURNS, SECONDS = 6, 3.0
ROUNDS, KEYS = 60_000, 997
SLOW = 1.5
"""Times the quickest tenth: what takes longer counts as slow."""


def loop_ms() -> float:
    """How long the loop took now."""
    kept: dict[int, list[int]] = {}
    began = time.perf_counter()
    for i in range(ROUNDS):
        kept[i % KEYS] = [i]
    return (time.perf_counter() - began) * 1e3


def timed(seconds: float) -> list[float]:
    """Times of the loop for so long, one after the other."""
    end = time.monotonic() + seconds
    found = [loop_ms()]
    while time.monotonic() < end:
        found.append(loop_ms())
    return found


def copy(seconds: float) -> None:
    """Copies both ways for so long; prints a line when it begins, GB/s at the end."""
    import torch

    send = link.sender()
    print(flush=True)
    began, copied = time.perf_counter(), 0
    while time.perf_counter() < began + seconds:
        send(0)
        send(1)
        torch.cuda.synchronize()
        copied += 2 * link.BYTES
    print(copied / (time.perf_counter() - began) / 1e9, flush=True)


def beside_copies(seconds: float, rates: list[float]) -> list[float]:
    """Times of the loop beside a process that copies; how fast goes into `rates`. Raises
    CalledProcessError.
    """
    command = [sys.executable, "-m", "bench.gpu.host", "--copy", str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        told = iter(process.stdout or ())
        next(told, None)
        times = timed(seconds)
        rates += map(float, told)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return times


def line(name: str, turns: list[list[float]], quick: float) -> str:
    """What is seen first: medians of each turn, and what part was slow."""
    every = [ms for turn in turns for ms in turn]
    slow = sum(ms > SLOW * quick for ms in every) / len(every)
    medians = " ".join(f"{statistics.median(turn):.2f}" for turn in turns)
    return (
        f"{name:13} {statistics.median(every):6.2f} ms in the median, {slow:.0%} slower than"
        f" {SLOW} x {quick:.2f}; turns {medians}"
    )


def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument("--turns", type=int, default=TURNS, help=f"of each (default {TURNS})")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help=f"of a turn (default {SECONDS:g})"
    )
    parser.add_argument("--copy", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.copy:
        copy(options.copy)
        return
    machine.refuse_unless_safe()
    cli.end_with_children()
    rates: list[float] = []
    found: dict[str, list[list[float]]] = {"alone": [], "beside copies": []}
    for _ in range(options.turns):
        found["alone"].append(timed(options.seconds))
        found["beside copies"].append(beside_copies(options.seconds, rates))
    quick = statistics.quantiles([ms for turn in found["alone"] for ms in turn], n=10)[0]
    for name, turns in found.items():
        print(line(name, turns, quick))
    print(f"copied {statistics.median(rates):.1f} GB/s")
    result = {"machine": machine.describe(), "loop_ms": found, "copied_gb_s": rates}
    cli.write(options.json, result)


if __name__ == "__main__":
    main()
