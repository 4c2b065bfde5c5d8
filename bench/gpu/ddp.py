"""PyTorch DDP or FSDP over NCCL, a rank a GPU, with less memory than it needs: losses are equal.

Every backend runs beside the native program, and counts what it moves. Managed memory is at most
ULMS_MANAGED_LIMIT for all ranks together.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import cli
from bench.gpu import machine, programs
from bench.gpu.counters import COUNTERS_IN, COUNTERS_OUT, asked_for, sum_of
from pump.bench.markdown import caption, markdown
from pump.paths import library

PROGRAM = programs.TESTS / "programs" / "torch_ddp.py"
PORT = 29517
PAGE = 2 << 20
BACKENDS = {
    "um": {"ULMS_BACKEND": "um"},
    "vmm": {"ULMS_BACKEND": "vmm"},
    "vmm-verify": {"ULMS_BACKEND": "vmm", "ULMS_VERIFY": "1"},
}
"""What the library is told. With ULMS_VERIFY every write that no operation showed is named."""


def launch(ranks: int, options: argparse.Namespace, more: dict[str, str]) -> list[programs.Result]:
    """All ranks, to their end, or to that of the time: then they are killed, and told so."""
    everyone = dict(os.environ) | more
    everyone |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(PORT), "WORLD_SIZE": str(ranks)}
    everyone |= {"NCCL_NVLS_ENABLE": "0"}  # NVLink multicast stays off
    everyone |= {"DDP_SHARDED": "1"} if options.sharded else {}
    command = [sys.executable, str(PROGRAM), *options.steps.split(",")]
    started = [
        subprocess.Popen(
            command,
            env=everyone | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]

    def kill() -> None:
        for process in started:
            process.kill()

    late = threading.Timer(options.limit, kill)
    late.start()
    try:
        said = [process.communicate() for process in started]
    finally:
        late.cancel()
        kill()
    return [
        programs.result_of(process.returncode, out, err)
        for process, (out, err) in zip(started, said, strict=True)
    ]


def environment(backend: str, budget: int, ranks: int) -> dict[str, str]:
    """What every rank of so many is told, which may have so many bytes. Raises NotBuiltError."""
    more = {
        "LD_PRELOAD": str(library()),
        "ULMS_GPU_MEMORY": str(budget),
        "ULMS_GPU_MEMORY_FACTOR": "100",
        "ULMS_MANAGED_LIMIT": str(machine.LIMIT // ranks),
    }
    return more | BACKENDS[backend] | asked_for()


def row(
    backend: str, native: Sequence[programs.Result], results: Sequence[programs.Result]
) -> dict[str, object]:
    """What each rank said: step times, bytes moved over all timed steps, whether losses are those
    of its native run.
    """
    equal = all(
        result.status == 0 and programs.numbers_equal([alone, result])
        for result, alone in zip(results, native, strict=True)
    )
    return {
        "backend": backend,
        "step_ms": [result.step_ms for result in results],
        "counters": [result.facts.get("counters", {}) for result in results],
        "numbers_equal": equal,
        "status": [result.status for result in results],
        "stderr": [r.stderr[-4000:] for r in results if r.status or backend != "native"],
    }


def line(row: Mapping[str, Any]) -> str:
    """A row in words: the slowest rank's time, and what each moved in a step, in and out."""
    times = [statistics.median(steps) if steps else math.nan for steps in row["step_ms"]]
    moved = [
        f"{gb_a_step(counters, COUNTERS_IN, steps)}+{gb_a_step(counters, COUNTERS_OUT, steps)}"
        for counters, steps in zip(row["counters"], row["step_ms"], strict=True)
    ]
    return (
        f"{row['backend']:10} {max(times):9.2f} ms  GB in+out a step {' '.join(moved)}"
        f"  losses equal {row['numbers_equal']}  status {' '.join(map(str, row['status']))}"
    )


def gb_a_step(counters: Mapping[str, float], names: Sequence[str], step_ms: Sequence[float]) -> str:
    """1e9 bytes; "-" where nobody counted."""
    moved = sum_of(counters, names, 1e9)
    return "-" if moved is None or not step_ms else f"{moved / len(step_ms):.2f}"


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The slowest rank's time, and what the first rank moved in a step, in Markdown."""
    lines = []
    for row in rows:
        counters, steps = row["counters"][0], row["step_ms"][0]
        moved = [gb_a_step(counters, way, steps) for way in (COUNTERS_IN, COUNTERS_OUT)]
        slowest = max(statistics.median(ms) for ms in row["step_ms"])
        lines.append([row["backend"], f"{slowest:.1f}", *moved])
    return markdown(["", "ms a step", "GB in a step, first rank", "out"], lines)


def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument("--show", type=Path, help="measure nothing, print this file as a table")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--sharded", action="store_true", help="parameters too: FSDP")
    parser.add_argument("--backends", default=",".join(BACKENDS))
    parser.add_argument("--over", type=float, default=1.5, help="memory needed : memory there is")
    parser.add_argument("--steps", default="4,6", help="warm and timed steps (default 4,6)")
    parser.add_argument(
        "--limit", type=float, default=120, help="seconds that a run may take (default 120)"
    )
    options = parser.parse_args()
    if options.show:
        told = json.loads(options.show.read_text(encoding="utf-8"))
        print(f"{caption(told['machine'])}\n\n{table(told['rows'])}")
        return
    backends = cli.backends(parser, options.backends, BACKENDS)
    machine.refuse_unless_safe()
    native = launch(options.ranks, options, {})
    for rank, result in enumerate(native):
        if result.status:
            sys.exit(f"rank {rank} failed by itself: {result.stderr[-2000:]}")
    needs = max(int(str(result.facts["max_reserved"])) for result in native)
    budget = int(needs / options.over) // PAGE * PAGE
    rows: list[dict[str, object]] = []
    found = {"machine": machine.describe(), "needs": needs, "budget": budget, "rows": rows}

    def keep(backend: str, results: list[programs.Result]) -> None:
        rows.append(row(backend, native, results))
        print(line(rows[-1]), flush=True)
        cli.write(options.json, found)

    keep("native", native)
    for backend in backends:
        keep(backend, launch(options.ranks, options, environment(backend, budget, options.ranks)))
    print(f"each rank needs {needs >> 20} MiB and has {budget >> 20}")
    print(*map(line, rows), sep="\n")


if __name__ == "__main__":
    main()
