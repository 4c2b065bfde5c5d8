"""What the driver's calls of a step of `um` take by themselves, added up, beside the step.

Of a file of `pump-bench run --device gpu --json` that has what calls on managed memory took on its
machine, beside kernels: each page that a step moved counts with that. Where the driver does one
thing at a time no step is shorter than the sum. The last column says how many times as fast as
um-demand `um` would be then if dead pages cost nothing, too.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.gpu.calls import managed_as
from bench.gpu.run import PAGE
from pump.bench.row import FormatError, Row, read_results
from pump.sim.link import Link

NEEDED = ("managed_in", "managed_out", "managed_place", "managed_discard")
HEADINGS = ("program", "over", "um", "calls", "of live pages", "um-demand : live")


@dataclass(frozen=True)
class Summed:
    """A step of `um`. Milliseconds."""

    row: Row
    live: float
    dead: float
    demand: float | None  # the step of um-demand; None: not measured

    def cells(self) -> tuple[str, ...]:
        """As HEADINGS says."""
        bar = f"{self.demand / self.live:.2f}" if self.demand else ""
        times = (f"{self.row.ms:.1f}", f"{self.live + self.dead:.1f}", f"{self.live:.1f}")
        return (self.row.workload, f"{self.row.oversubscription:g}", *times, bar)


def summed(rows: Sequence[Row], machine: Mapping[str, str]) -> list[Summed]:
    """The rows of `um` that had dead pages: others use memory where it lies. Raises FormatError
    where the machine's figures lack.
    """
    if missing := [name for name in NEEDED if name not in machine]:
        raise FormatError(f"without {', '.join(missing)}: calls on managed memory were not timed")
    link = managed_as(machine).under(held=False)
    demand = {row.run._replace(system=""): row.ms for row in rows if row.system == "um-demand"}
    moved = [row for row in rows if row.system == "um" and row.counters.get("dead_bytes", 0) > PAGE]
    return [one(row, link, demand.get(row.run._replace(system=""))) for row in moved]


def one(row: Row, link: Link, demand: float | None) -> Summed:
    """Of a row that has bytes and counters."""
    live = (row.bytes_in or 0) / link.rate_in + (row.bytes_out or 0) / link.rate_out
    dead = row.counters["dead_bytes"] / PAGE / 2  # each comes and leaves, and counts twice
    dead *= link.place.alone + link.discard.alone
    return Summed(row, live / 1e6, dead / 1e6, demand)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("result", type=Path, metavar="RESULT.json")
    options = parser.parse_args()
    try:
        results = read_results(options.result)
        found = summed(results.rows, results.machine)
    except (FormatError, OSError) as error:
        sys.exit(f"{options.result}: {error}")
    print("| " + " | ".join(HEADINGS) + " |\n" + "|---" * len(HEADINGS) + "|")
    for each in found:
        print("| " + " | ".join(each.cells()) + " |")


if __name__ == "__main__":
    main()
