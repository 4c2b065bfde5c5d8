"""What the driver's calls on managed memory take on a real GPU, and launches beside them.

And how fast kernels use what was advised to stay on the host, however that was advised, and what a
program's own calls take on memory of each kind.
The figures behind the choices of backend `um` (`docs/um.md`, ARCHITECTURE.md).
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bench import cli
from bench.gpu import machine
from bench.gpu.compiled import compiled

SOURCES = ("managed_calls", "program_calls")
FAULTS = "a kernel reads what lies on the host"
TOLD = {
    "managed_in": ("in", "gb_s"),
    "managed_out": ("out", "gb_s"),
    "managed_both": ("in and out", "gb_s"),
    "managed_place": ("in, of what was discarded", "us_a_page"),
    "managed_discard": ("discard", "us_a_page"),
    "managed_unadvise": ("take advice back", "us_a_page"),
    "managed_advise": ("advise, on the host", "us_a_page"),
}
"""What a machine's description has of calls beside kernels: GB/s in sum, us for 2 MiB."""


def line(row: dict[str, object]) -> str:
    """A measurement in words."""
    if row["kind"] == "calls":
        calls: list[dict[str, object]] = row["calls"]  # type: ignore[assignment]
        told = "; ".join(f"{c['call']} {c['gb_s']} GB/s, {c['us_a_page']} us/2MiB" for c in calls)
        return f"{row['what']}{', device busy' if row['device_busy'] else ''}: {told}"
    figures = (f"{k} {v}" for k, v in row.items() if k not in ("kind", "what"))
    return f"{row['what']}: {', '.join(figures)}"


def process(name: str, built: Path) -> subprocess.CompletedProcess[str]:
    """One of the programs, to its end: a line of JSON a measurement. Raises CalledProcessError,
    OSError where there is no compiler.
    """
    source = Path(__file__).resolve().parent / f"{name}.cu"
    program = compiled(source, built, "-arch=native", "-lcuda")
    return subprocess.run([program], capture_output=True, text=True, timeout=120, check=False)


def figures(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """For a machine's description. Raises KeyError where one was not measured."""
    told = list(rows)
    seen = {
        row["what"]: row["calls"] for row in told if row["kind"] == "calls" and row["device_busy"]
    }
    found = {}
    for key, (what, unit) in TOLD.items():
        value = sum(call[unit] for call in seen[what])
        found[key] = f"{value:.4g} {'GB/s' if unit == 'gb_s' else 'us'}"
    faults = [row["gb_s"] for row in told if row["what"] == FAULTS]
    return found | ({"managed_fault": f"{faults[0]:.4g} GB/s"} if faults else {})


def described(built: Path) -> dict[str, str]:
    """The same, measured now; nothing where it cannot be. Takes 4 GiB of managed memory."""
    try:
        done = process(SOURCES[0], built)
        return {} if done.returncode else figures(map(json.loads, done.stdout.splitlines()))
    except (subprocess.SubprocessError, OSError, KeyError):
        return {}


def run(name: str, built: Path) -> list[dict[str, object]]:
    """What one of the programs measured, printed. Exits if it fails."""
    done = process(name, built)
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
