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
from pump.bench.row import NO_MEMORY, ForeignError, Results, Row, read_results
from pump.bench.systems import BY_NAME, GPU
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


Found = dict[tuple[str, str, float], Timed]


def newest(files: Iterable[Results]) -> Found:
    """Of each program, system and ratio."""
    found: Found = {}
    for file in files:
        for row in file.every:
            key = row.workload, row.system, row.oversubscription
            timed = Timed(row, file.machine.get("gpu", ""), file.machine.get("when", ""))
            if row.device == GPU and (key not in found or timed.order > found[key].order):
                found[key] = timed
    return found


def cell(found: Found, workload: str, system: str, over: float, needs: int) -> str:
    """What is known of it."""
    if timed := found.get((workload, system, over)):
        return timed.text
    with_more = [found[key] for less in OVER if (key := (workload, system, less)) in found]
    for timed in with_more:
        if BY_NAME[system].in_place or timed.row.no_time == NO_MEMORY:
            return timed.text
    if obstacle_of(workload, system, needs):
        return TOO_LARGE if is_managed(system) else CANNOT
    return ""


def table(found: Found) -> list[str]:
    """In Markdown, a line each."""
    systems = [name for name, system in BY_NAME.items() if GPU in system.devices]
    systems = [name for name in systems if name != NATIVE]
    head = ["program", "needs", NATIVE, "over", *systems]
    lines = [_line(head), _line(["---"] * len(head))]
    for workload in sorted({key[0] for key in found}):
        native = found[workload, NATIVE, 1.0]
        needs = native.row.footprint_bytes
        for over in OVER:
            names = [workload, format_size(needs), native.text]
            first = names if over == OVER[0] else [""] * len(names)
            cells = [cell(found, workload, system, over, needs) for system in systems]
            lines.append(_line([*first, f"{over:g}", *cells]))
    return lines


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def read_all(paths: Iterable[Path]) -> list[Results]:
    """Those that are pump-bench's. Raises FormatError, OSError."""
    read = []
    for path in paths:
        try:
            read.append(read_results(path))
        except ForeignError:
            continue
    return read


def page() -> str:
    """docs/all-systems.md."""
    return TEXT + "\n".join(table(newest(read_all(sorted(RESULTS.glob("*.json")))))) + "\n"


if __name__ == "__main__":
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    print(page(), end="")
