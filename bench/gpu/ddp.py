"""PyTorch DDP over NCCL, a rank a GPU, each with less memory than it needs: the losses are equal.

Every backend runs beside the native program. Managed memory is at most ULMS_MANAGED_LIMIT for all
ranks together.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from bench.gpu import machine, programs
from pump.paths import library

PROGRAM = programs.TESTS / "programs" / "torch_ddp.py"
PORT = 29517
PAGE = 2 << 20


def launch(ranks: int, options: argparse.Namespace, more: dict[str, str]) -> list[programs.Result]:
    """All ranks, to their end; five minutes at most."""
    everyone = dict(os.environ) | more
    everyone |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(PORT), "WORLD_SIZE": str(ranks)}
    everyone |= {"NCCL_NVLS_ENABLE": "0"}  # NVLink multicast stays off
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
    results = []
    try:
        for process in started:
            out, err = process.communicate(timeout=300)
            results.append(programs.result_of(process.returncode, out, err))
    finally:
        for process in started:
            process.kill()
    return results


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write everything there")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--backends", default="um,vmm")
    parser.add_argument("--over", type=float, default=1.5, help="memory needed : memory there is")
    parser.add_argument("--steps", default="4,6", help="warm and timed steps (default 4,6)")
    options = parser.parse_args()
    machine.refuse_unless_safe()
    native = launch(options.ranks, options, {})
    for rank, result in enumerate(native):
        if result.status:
            sys.exit(f"rank {rank} failed by itself: {result.stderr[-2000:]}")
    needs = max(int(str(result.facts["max_reserved"])) for result in native)
    budget = int(needs / options.over) // PAGE * PAGE
    rows: list[dict[str, object]] = []
    lines = []

    def row(backend: str, results: list[programs.Result]) -> None:
        equal = all(
            result.status == 0 and result.numbers == alone.numbers and bool(result.numbers)
            for result, alone in zip(results, native, strict=True)
        )
        times = [statistics.median(r.step_ms) if r.step_ms else float("nan") for r in results]
        lines.append(
            f"{backend:7} {max(times):9.2f} ms  losses equal {equal}  status "
            + " ".join(str(result.status) for result in results)
        )
        print(lines[-1], flush=True)
        rows.append(
            {
                "backend": backend,
                "step_ms": [result.step_ms for result in results],
                "numbers_equal": equal,
                "status": [result.status for result in results],
                "stderr": [r.stderr[-4000:] for r in results if r.status or backend != "native"],
            }
        )

    row("native", native)
    for backend in options.backends.split(","):
        more = {
            "LD_PRELOAD": str(library()),
            "ULMS_BACKEND": backend,
            "ULMS_GPU_MEMORY": str(budget),
            "ULMS_GPU_MEMORY_FACTOR": "100",
            "ULMS_MANAGED_LIMIT": str(machine.LIMIT // options.ranks),
        }
        row(backend, launch(options.ranks, options, more))
    if options.json:
        found = {"machine": machine.describe(), "needs": needs, "budget": budget, "rows": rows}
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    print(f"each rank needs {needs >> 20} MiB and has {budget >> 20}")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
