"""Step times that `python -m bench.gpu.oversubscribe` measured, beside what virtual time predicts.

Prints a table in Markdown. A recorded step is played for each program: of bench/traces, or what
`pump trace` wrote and --step names. Programs without one are told and left out. What the driver's
calls take differs between machines: --calls has what `python -m bench.gpu.calls` saw on the same.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from pump.cli.command import UsageError
from pump.sim.engine import CompiledEngine
from pump.sim.link import UM, Cost, Link
from pump.sim.recorded import open_sequence
from pump.sim.sequence import Sequence, SequenceError
from pump.sim.simulator import Simulator, settings_for

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "bench" / "results" / "h200-um.json"
STEPS = {"resnet": ROOT / "bench" / "traces" / "resnet.txt"}
NEAR = 0.15
"""A prediction is near that differs by no more than this share."""
DECIDES = ("csrc/engine", "csrc/backend")
"""What a measured step time depends on, of this repository."""


@dataclass(frozen=True)
class Predicted:
    """A measured run and its prediction. Milliseconds a step; bytes a step, None: not measured."""

    program: str
    footprint: int  # bytes
    budget: str  # a share of the footprint, or "all"
    policy: str
    measured_ms: float
    predicted_ms: float
    measured_in: float | None
    predicted_in: float

    @property
    def ratio(self) -> float:
        """Predicted : measured."""
        return self.predicted_ms / self.measured_ms

    @property
    def near(self) -> bool:
        return abs(self.ratio - 1) <= NEAR


def predictions(
    measured: Mapping[str, Any], steps: Mapping[str, Path], link: Link, left_out: list[str]
) -> Iterator[Predicted]:
    """Every row that ran and whose program's step is known. Raises SequenceError, OSError."""
    for program in measured["programs"]:
        name = program["program"]
        if name not in steps:
            left_out.append(name)
            continue
        sequence = open_sequence(steps[name])
        for row in program["rows"]:
            if row["status"] or not row["step_ms"]:
                continue
            budget = row["budget_bytes"] or program["footprint"]
            ms, bytes_in = play(sequence, budget, row["policy"], link)
            brought = bytes_brought(row)
            yield Predicted(
                name,
                program["footprint"],
                row["budget"],
                row["policy"],
                median(row["step_ms"]),
                ms,
                brought,
                bytes_in,
            )


def play(sequence: Sequence, budget: int, policy: str, link: Link) -> tuple[float, float]:
    """Milliseconds and bytes in of a step in virtual time."""
    pages = min(budget, sequence.footprint(link.page_bytes)) // link.page_bytes
    engine = CompiledEngine(settings_for(link, policy, pages * link.page_bytes))
    result = Simulator(engine, link, policy).run(sequence)
    return result.step_ms, result.bytes_in


def link_of(calls: Mapping[str, Any]) -> Link:
    """Managed memory as `python -m bench.gpu.calls` saw it beside kernels. Raises KeyError."""
    seen = {
        row["what"]: row["calls"]
        for row in calls["measurements"]
        if row["kind"] == "calls" and row["device_busy"]
    }

    def page_ns(what: str) -> float:
        cost: float = seen[what][0]["us_a_page"] * 1e3
        return cost

    return replace(
        UM,
        rate_in=seen["in"][0]["gb_s"],
        rate_out=seen["out"][0]["gb_s"],
        rate_both=sum(call["gb_s"] for call in seen["in and out"]),
        place=Cost(page_ns("in, of what was discarded"), UM.place.beside),
        discard=Cost(page_ns("discard"), UM.discard.beside),
        drop_ns=page_ns("take advice back"),
        keep_ns=page_ns("advise, on the host"),
    )


def bytes_brought(row: Mapping[str, Any]) -> float | None:
    """A step, over the link, as counted; None: the run counted nothing."""
    counters = row.get("counters") or {}
    if not {"filled_bytes", "faulted_bytes"} <= counters.keys():
        return None
    total: int = counters["filled_bytes"] + counters["faulted_bytes"]
    total += counters.get("in_place_bytes", 0)
    return total / len(row["step_ms"])


def markdown(rows: list[Predicted]) -> str:
    """A line a run."""
    lines = [
        "| program | needs | budget | policy | measured ms | predicted ms | ratio | within 15 % |"
        " GB in, measured | predicted |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        counted = "" if row.measured_in is None else f"{row.measured_in / 1e9:.2f}"
        lines.append(
            f"| {row.program} | {row.footprint / 2**30:.1f} GiB | {row.budget} | {row.policy}"
            f" | {row.measured_ms:.1f} | {row.predicted_ms:.1f} | {row.ratio:.2f}"
            f" | {'yes' if row.near else '**no**'} | {counted} | {row.predicted_in / 1e9:.2f} |"
        )
    return "\n".join(lines)


def summary(rows: list[Predicted]) -> str:
    """How many are near, and the mean miss."""
    near = sum(row.near for row in rows)
    miss = geometric_mean(max(row.ratio, 1 / row.ratio) for row in rows)
    return f"{near} of {len(rows)} within 15 %; off by a factor of {miss:.2f} in the mean"


def changed_since(commit: str) -> bool | None:
    """The engine or the backends have changed since a commit. None: git does not tell."""
    command = ["git", "-C", str(ROOT), "diff", "--quiet", commit, "--", *DECIDES]
    try:
        status = subprocess.run(command, capture_output=True, check=False).returncode
    except FileNotFoundError:
        return None
    return {0: False, 1: True}.get(status)


def step_of(text: str) -> tuple[str, Path]:
    """`NAME=FILE`. Raises ValueError."""
    name, found, path = text.partition("=")
    if not found:
        raise ValueError(text)
    return name, Path(path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("result", nargs="?", type=Path, default=RESULT, metavar="RESULT.json")
    parser.add_argument(
        "--step",
        action="append",
        type=step_of,
        default=[],
        metavar="NAME=FILE",
        help="the recorded step of a program",
    )
    parser.add_argument(
        "--calls",
        type=Path,
        metavar="CALLS.json",
        help="what calls took on that machine (default: the figures of pump.sim.link)",
    )
    options = parser.parse_args()
    measured = json.loads(options.result.read_text(encoding="utf-8"))
    link = link_of(json.loads(options.calls.read_text(encoding="utf-8"))) if options.calls else UM
    left_out: list[str] = []
    try:
        rows = list(predictions(measured, STEPS | dict(options.step), link, left_out))
    except (SequenceError, UsageError) as error:
        sys.exit(str(error))
    machine = measured["machine"]
    print(f"{options.result.name}: {machine['gpu']}, commit {machine['commit'][:7]}", end="")
    changed = changed_since(machine["commit"])
    told = {True: "engine or backends have changed since", False: "as here"}
    print(f" ({told[changed]})\n" if changed is not None else "\n")
    if rows:
        print(f"{markdown(rows)}\n\n{summary(rows)}")
    for name in left_out:
        print(f"no recorded step of {name}: trace one and give --step {name}=FILE")


if __name__ == "__main__":
    main()
