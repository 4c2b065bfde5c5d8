"""How far greedy choice and the plan are from the least that the link allows (`docs/plan.md`).

Prints a table over recorded sequences, links and over-subscription, in virtual time; without scipy
(the extra `bench`) it has no bound.
"""

import argparse
import importlib.util
from pathlib import Path

from bench.bound import core
from pump.sim.link import LINKS
from pump.sim.period import page_times, period_of
from pump.sim.sequence import read_sequence

TRACES = Path(__file__).resolve().parents[1] / "traces"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.bound", description=__doc__)
    parser.add_argument("--traces", type=Path, default=TRACES, help="a folder of sequences")
    parser.add_argument(
        "--over", type=float, nargs="+", default=[1.5, 2.0, 3.0], help="times memory"
    )
    parser.add_argument("--intervals", type=int, default=60, help="of the bound; more are closer")
    options = parser.parse_args()
    bounded = importlib.util.find_spec("scipy") is not None
    print("ms an iteration, and over the bound; GB an iteration in and out")
    print(
        f"{'trace':8}{'link':>5}{'over':>6}{'native':>9}{'greedy':>9}{'plan':>9}{'bound':>9}"
        f"{'greedy':>9}{'plan':>7}{'used':>8}  {'greedy':>12}{'plan':>12}"
    )
    for path in sorted(options.traces.glob("*.txt")):
        sequence = read_sequence(path)
        for name, rates in sorted(LINKS.items()):
            period, link = period_of(sequence, rates.page_bytes), page_times(rates)
            planner = core.Planner(period)
            for over in options.over:
                budget = int(period.pages / over)
                choice = planner.search(budget, link)
                if choice is None:
                    print(f"{path.stem:8}{name:>5}{over:6}  an operation is larger than the budget")
                    continue
                least = None
                if bounded:
                    from pump.bench.bound import bound

                    least = bound(period, budget, link, options.intervals)
                print_row(path.stem, name, over, period, choice, least, rates.page_bytes)


def print_row(
    trace: str,
    link: str,
    over: float,
    period: core.Period,
    choice: core.Choice,
    least: float | None,
    page_bytes: int,
) -> None:
    """One line of the table."""
    ways = (choice.greedy, choice.plan)
    times = [sum(period.durations), *(way.ns for way in ways), *([least] if least else [])]
    cells = [f"{ns / 1e6:9.1f}" for ns in times] + ([] if least else [f"{'':9}"])
    over_bound = [f"{way.ns / least:.3f}" if least else "" for way in ways]
    used = "plan" if choice.plan.ns < choice.greedy.ns else "greedy"
    moved = [
        "/".join(f"{pages * page_bytes / 1e9:.2f}" for pages in (way.pages_in, way.pages_out))
        for way in ways
    ]
    print(
        f"{trace:8}{link:>5}{over:6}{''.join(cells)}{over_bound[0]:>9}{over_bound[1]:>7}{used:>8}"
        f"  {moved[0]:>12}{moved[1]:>12}",
        flush=True,
    )


if __name__ == "__main__":
    main()
