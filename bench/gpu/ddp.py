"""PyTorch DDP over NCCL, a rank a GPU, each with less memory than it needs: the losses are equal.

Every backend runs beside the native program. Managed memory is at most ULMS_MANAGED_LIMIT for all
ranks together.
"""

import argparse
import os
import statistics
import subprocess
import sys
import threading

from bench import cli
from bench.gpu import machine, programs
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


def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--backends", default=",".join(BACKENDS))
    parser.add_argument("--over", type=float, default=1.5, help="memory needed : memory there is")
    parser.add_argument("--steps", default="4,6", help="warm and timed steps (default 4,6)")
    parser.add_argument(
        "--limit", type=float, default=120, help="seconds that a run may take (default 120)"
    )
    options = parser.parse_args()
    backends = cli.backends(parser, options.backends, BACKENDS)
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
            result.status == 0 and programs.numbers_equal([alone, result])
            for result, alone in zip(results, native, strict=True)
        )
        times = [statistics.median(r.step_ms) if r.step_ms else float("nan") for r in results]
        lines.append(
            f"{backend:10} {max(times):9.2f} ms  losses equal {equal}  status "
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
        cli.write(
            options.json,
            {"machine": machine.describe(), "needs": needs, "budget": budget, "rows": rows},
        )

    row("native", native)
    for backend in backends:
        more = {
            "LD_PRELOAD": str(library()),
            **BACKENDS[backend],
            "ULMS_GPU_MEMORY": str(budget),
            "ULMS_GPU_MEMORY_FACTOR": "100",
            "ULMS_MANAGED_LIMIT": str(machine.LIMIT // options.ranks),
        }
        row(backend, launch(options.ranks, options, more))
    print(f"each rank needs {needs >> 20} MiB and has {budget >> 20}")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
