"""How long the driver's calls on managed memory take on a real GPU, and launches beside them.

It also measures how fast kernels use memory that was advised to stay on the host. `pump plan` and
`bench.gpu.predict` play moves of backend `um` with these figures.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import cli
from bench.gpu import machine
from bench.gpu.compiled import compiled
from pump.bench.machine import figure_in
from pump.sim.link import UM_ONE, Cost, Link, with_contexts

SOURCE = "managed_calls"
TAKES = 4 << 30
"""Bytes of managed memory (`PARTS` of `PART` in managed_calls.cu)."""
TOLD = {
    "managed_in": ("in", "gb_s", "rate_in"),
    "managed_out": ("out", "gb_s", "rate_out"),
    "managed_both": ("in and out", "gb_s", "rate_both"),
    "managed_place": ("in, of what was discarded", "us_a_page", "place"),
    "managed_discard": ("discard", "us_a_page", "discard"),
    "managed_unadvise": ("take advice back", "us_a_page", "drop_ns"),
    "managed_advise": ("advise, on the host", "us_a_page", "keep_ns"),
}
"""What a machine's description has: of which calls beside kernels, GB/s in sum or us for 2 MiB, and
what of the model of managed memory that is. Not faults: one kernel's alone come in at 1 to 4 GB/s,
those of steps at 8 to 9.
"""
MOVERS, MOVERS_WHAT = "managed_movers", "1 in, in four streams, and 7 out, a context each"
"""The same of both ways as movers of backend `um` call, a context each, in sum: files of before
e04534c have none, those of before a138d51 that of other movers.
"""


def line(row: dict[str, object]) -> str:
    """A measurement in words."""
    if row["kind"] == "calls":
        calls: list[dict[str, object]] = row["calls"]  # type: ignore[assignment]
        told = "; ".join(f"{c['call']} {c['gb_s']} GB/s, {c['us_a_page']} us/2MiB" for c in calls)
        return f"{row['what']}{', device busy' if row['device_busy'] else ''}: {told}"
    figures = (f"{k} {v}" for k, v in row.items() if k not in ("kind", "what"))
    return f"{row['what']}: {', '.join(figures)}"


def process(built: Path) -> subprocess.CompletedProcess[str]:
    """The program, to its end: a line of JSON a measurement. Raises CalledProcessError, and OSError
    if there is no compiler.
    """
    source = Path(__file__).resolve().parent / f"{SOURCE}.cu"
    program = compiled(source, built, "-arch=native", "-lcuda")
    return subprocess.run([program], capture_output=True, text=True, timeout=120, check=False)


def figures(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """For a machine's description. Raises KeyError where one was not measured."""
    seen = {
        row["what"]: row["calls"] for row in rows if row["kind"] == "calls" and row["device_busy"]
    }
    told = {key: (what, unit) for key, (what, unit, _) in TOLD.items()}
    if MOVERS_WHAT in seen:
        told[MOVERS] = MOVERS_WHAT, "gb_s"
    return {
        key: f"{sum(call[unit] for call in seen[what]):.4g} {'GB/s' if unit == 'gb_s' else 'us'}"
        for key, (what, unit) in told.items()
    }


def managed_as(machine: Mapping[str, str]) -> Link:
    """Managed memory as a machine's description has it; what that lacks is as in pump.sim.link.
    Where it does not say what calls from several contexts take, movers share one. Raises ValueError
    where a figure is none.
    """
    found: dict[str, Any] = {}
    for key, (_, _, of) in TOLD.items():
        if text := machine.get(key):
            figure, known = figure_in(text), getattr(UM_ONE, of)
            found[of] = known._replace(alone=figure) if isinstance(known, Cost) else figure
    one = replace(UM_ONE, **found)
    return with_contexts(one) if MOVERS in machine else one


def described(built: Path) -> dict[str, str]:
    """The same, measured now; nothing where it cannot be, or takes more than the limit allows."""
    if machine.managed_limit() < TAKES:
        return {}
    try:
        done = process(built)
        return {} if done.returncode else figures(map(json.loads, done.stdout.splitlines()))
    except (subprocess.SubprocessError, OSError, KeyError):
        return {}


def main() -> None:
    parser = cli.parser(__doc__, builds=True)
    options = parser.parse_args()
    machine.refuse_unless_safe()
    if machine.managed_limit() < TAKES:
        parser.error("it takes 4 GiB of managed memory: ULMS_MANAGED_LIMIT is less")
    done = process(options.built)
    rows = [json.loads(text) for text in done.stdout.splitlines()]
    for row in rows:
        print(line(row))
    if done.returncode:
        sys.exit(f"{SOURCE} ended with status {done.returncode}: {done.stderr[-2000:]}")
    cli.write(options.json, {"machine": machine.describe(), "measurements": rows})


if __name__ == "__main__":
    main()
