"""All programs under all systems: the newest time of each, of bench/results. Prints a page of docs.

Of an H200 where there is one, else of another GPU. With less memory a program takes as long that
leaves all on the host, and runs out of memory once more.
"""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.gpu.run import is_managed, obstacle_of
from pump.bench.machine import LIMIT
from pump.bench.row import NO_MEMORY, Results, Row, Run, results_at
from pump.bench.systems import BY_NAME, GPU, systems_on
from pump.sizes import format_size

RESULTS = Path(__file__).resolve().parents[1] / "results"
OVER = (1.5, 2.0, 3.0)
NATIVE = "native"
PREFERRED = "H200"
TOO_LARGE, CANNOT, OTHER_GPU, DIFFERS = "too large", "-", "*", "≠"
TEXT = f"""# All programs under all systems

Milliseconds a step on a GPU, of programs that need 1.5, 2 and 3 times the memory they may use: the
newest time that [bench/results](../bench/results) has of each, whatever the machine and the commit.
What is to be compared was measured in one run, in [bench.md](bench.md), with the bound. Printed by
`python -m bench.gpu.cells`.

- `{OTHER_GPU}`: of an H100, where there is none of an H200
- `{DIFFERS}`: the program came to other numbers than natively
- `{NO_MEMORY}`: it ran out of memory, and does with less
- `{TOO_LARGE}`: it needs more managed memory than {format_size(LIMIT)}, which all programs may have
  together on a GPU that others use
- `{CANNOT}`: that cannot be done to this program

"""


@dataclass(frozen=True)
class Timed:
    """A row, and the machine that it is of."""

    row: Row
    gpu: str
    when: str

    @property
    def order(self) -> tuple[bool, str]:
        """What is wanted more is larger."""
        return PREFERRED in self.gpu, self.when

    @property
    def text(self) -> str:
        """Its cell."""
        mark = "" if PREFERRED in self.gpu else OTHER_GPU
        differs = DIFFERS if self.row.numbers_equal is False else ""
        return (self.row.no_time or f"{self.row.ms:.1f}{differs}") + mark


Found = dict[Run, Timed]


def newest(files: Iterable[Results]) -> Found:
    """Of each program, system and ratio."""
    found: Found = {}
    for file in files:
        for row in file.every:
            timed = Timed(row, file.machine.get("gpu", ""), file.machine.get("when", ""))
            before = found.get(row.run)
            if row.device == GPU and (not before or timed.order > before.order):
                found[row.run] = timed
    return found


def cell(found: Found, workload: str, system: str, over: float, needs: int) -> str:
    """What is known of it."""
    at = {ratio: found.get(Run(workload, GPU, system, ratio)) for ratio in (over, *OVER)}
    for ratio, timed in at.items():
        runs_out = ratio < over and timed and timed.row.no_time == NO_MEMORY
        if timed and (ratio == over or BY_NAME[system].in_place or runs_out):
            return timed.text
    if obstacle_of(workload, system, needs):
        return TOO_LARGE if is_managed(system) else CANNOT
    return ""


def table(found: Found) -> list[str]:
    """In Markdown, a line each."""
    systems = [system.name for system in systems_on(GPU) if system.name != NATIVE]
    head = ["program", "needs", NATIVE, "over", *systems]
    lines = [_line(head), _line(["---"] * len(head))]
    for workload in sorted({run.workload for run in found}):
        native = found[Run(workload, GPU, NATIVE, 1.0)]
        needs = native.row.footprint_bytes
        for over in OVER:
            names = [workload, format_size(needs), native.text]
            first = names if over == OVER[0] else [""] * len(names)
            cells = [cell(found, workload, system, over, needs) for system in systems]
            lines.append(_line([*first, f"{over:g}", *cells]))
    return lines


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def page() -> str:
    """docs/all-systems.md."""
    return TEXT + "\n".join(table(newest(results_at(RESULTS)))) + "\n"


if __name__ == "__main__":
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    print(page(), end="")
