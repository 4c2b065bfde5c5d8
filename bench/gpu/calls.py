"""What the driver's calls on managed memory take on a real GPU, and launches beside them.

And how fast kernels use what was advised to stay on the host, however that was advised, and what a
program's own calls take on memory of each kind.
The figures behind the choices of backend `um` (`docs/um.md`, ARCHITECTURE.md).
"""

import json
import subprocess
import sys
from pathlib import Path

from bench import cli
from bench.gpu import machine
from bench.gpu.compiled import compiled

SOURCES = ("managed_calls", "program_calls")


def line(row: dict[str, object]) -> str:
    """A measurement in words."""
    if row["kind"] == "calls":
        calls: list[dict[str, object]] = row["calls"]  # type: ignore[assignment]
        told = "; ".join(f"{c['call']} {c['gb_s']} GB/s, {c['us_a_page']} us/2MiB" for c in calls)
        return f"{row['what']}{', device busy' if row['device_busy'] else ''}: {told}"
    figures = (f"{k} {v}" for k, v in row.items() if k not in ("kind", "what"))
    return f"{row['what']}: {', '.join(figures)}"


def run(name: str, built: Path) -> list[dict[str, object]]:
    """What one of the programs measured, printed. Exits if it fails."""
    source = Path(__file__).resolve().parent / f"{name}.cu"
    program = compiled(source, built, "-arch=native", "-lcuda")
    done = subprocess.run([program], capture_output=True, text=True, timeout=120, check=False)
    rows = [json.loads(text) for text in done.stdout.splitlines()]
    for row in rows:
        print(line(row))
    if done.returncode:
        sys.exit(f"{name} ended with status {done.returncode}: {done.stderr[-2000:]}")
    return rows


def main() -> None:
    parser = cli.parser(__doc__, builds=True)
    parser.add_argument(
        "--only",
        choices=SOURCES,
        help="one of its programs: calls of ours, calls of a program's own",
    )
    options = parser.parse_args()
    machine.refuse_unless_safe()
    rows = [
        row for name in SOURCES if options.only in (None, name) for row in run(name, options.built)
    ]
    cli.write(options.json, {"machine": machine.describe(), "measurements": rows})


if __name__ == "__main__":
    main()
