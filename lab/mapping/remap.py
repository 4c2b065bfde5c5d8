"""What mapping memory anew takes on a real GPU, and how many bytes a second can be moved so.

The figures behind the choices of backend `vmm` (`docs/vmm.md`): whether a call over many
handles is cheaper than many calls, whether threads wait for each other in the driver, and what
handles of 2 to 32 MiB reach in sum of both directions; and what a handle takes beside what a step
does, kernels and copies both ways. No managed memory.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench import cli
from bench.gpu import machine
from bench.gpu.compiled import compiled

HERE = Path(__file__).resolve().parent
PROGRAMS = {"busy": "remap_busy.cu", "calls": "remap.c", "swaps": "remap_swaps.c"}
"""By what they are told to measure."""
TIMEOUT_S = 400


def line(row: dict[str, object]) -> str:
    """A measurement in words."""
    return ", ".join(f"{name} {value}" for name, value in row.items())


def measured(program: Path) -> Iterator[dict[str, object]]:
    """What it prints, as it comes. Exits where it fails: what it had measured is kept."""
    with subprocess.Popen(
        ["timeout", str(TIMEOUT_S), program], stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout
        for text in run.stdout:
            yield json.loads(text)
    if run.returncode:
        sys.exit(f"{program.name} ended with status {run.returncode}")


def main() -> None:
    parser = cli.parser(__doc__, builds=True)
    parser.add_argument(
        "--only",
        choices=PROGRAMS,
        help="mapping beside what a step does (ten seconds); beside copies; swaps",
    )
    options = parser.parse_args()
    machine.refuse_unless_safe()
    rows: list[dict[str, object]] = []
    result: dict[str, object] = {"machine": machine.describe(), "measurements": rows}
    for name, source in PROGRAMS.items():
        if options.only not in (None, name):
            continue
        program = compiled(HERE / source, options.built, "-arch=native", "-lcuda", "-lpthread")
        for row in measured(program):
            rows.append(row)
            print(line(row), flush=True)
            cli.write(options.json, result)


if __name__ == "__main__":
    main()
