"""Results as Markdown: the tables of README.md and docs/."""

from collections.abc import Iterable, Mapping, Sequence

from pump.bench.report import cell_of
from pump.bench.row import Results, Row
from pump.bench.steps import described
from pump.predict.systems import BY_NAME, SIM, title_of
from pump.sizes import format_size
from pump.terminal.command import UsageError

SHARES = {1.0: "all", 1.5: "2/3", 2.0: "1/2", 3.0: "1/3"}
"""Of the memory that a step needs, by over-subscription."""
WORDS = {1.5: "two thirds", 2.0: "half", 3.0: "a third"}
"""The same in a sentence."""
UNKNOWN, MISSING, NEVER = "unknown", "not measured", "-"


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table."""
    first, *others = (f"| {' | '.join(line)} |" for line in [head, *rows])
    return "\n".join([first, "|---" * len(head) + "|", *others])


def caption(machine: Mapping[str, str], simulated: bool = False) -> str:
    """Where figures are from, a sentence."""
    if simulated:
        return f"Predicted in virtual time for an H200, commit {commit_of(machine)}."
    return captions([machine])


def captions(machines: Iterable[Mapping[str, str]]) -> str:
    """The same of several: a sentence for each GPU and driver."""
    found: dict[tuple[str, str], dict[str, list[str]]] = {}
    for one in machines:
        days = found.setdefault((one["gpu"], one["driver"]), {})
        days.setdefault(one["when"][:10], []).append(commit_of(one))
    return " ".join(
        f"{gpu}, driver {driver}, commit "
        + "; ".join(f"{', '.join(commits)}, {day}" for day, commits in sorted(days.items()))
        + "."
        for (gpu, driver), days in found.items()
    )


def commit_of(machine: Mapping[str, str]) -> str:
    """Short; `+` where files had changed."""
    commit = machine.get("commit", "none")
    return f"{commit[:7]}{'+' * commit.endswith('+')}"


def step_table(found: Results, ratios: Sequence[float], systems: Sequence[str]) -> str:
    """Milliseconds a step: a line a workload and ratio, a column a system, and the bound. Raises
    UsageError.
    """
    there = [row for row in found.every if row.system in systems]
    lines: list[list[str]] = []
    for name in dict.fromkeys(row.workload for row in there):
        rows = [row for row in there if row.workload == name and row.oversubscription in ratios]
        for place, ratio in enumerate(sorted({row.oversubscription for row in rows})):
            here = {row.system: row for row in rows if row.oversubscription == ratio}
            one = next(iter(here.values()))
            step = "" if place else f"{described(name)} ({format_size(one.footprint_bytes)})"
            share = [SHARES.get(ratio, f"1/{ratio:g}")] if len(ratios) > 1 else []
            times = [cell_of(here[s]) if s in here else missing(s, rows) for s in systems]
            lines.append([step, *share, f"{one.native_ms:.1f}", *times, bound_of(here.values())])
    if not lines:
        ran = ", ".join(f"{each:g}" for each in sorted({row.oversubscription for row in there}))
        raise UsageError(
            f"nothing was run with these ratios and systems: there are {ran or 'none'}"
        )
    share = ["memory"] if len(ratios) > 1 else []
    head = ["step (memory it needs)", *share, "everything fits", *map(title_of, systems)]
    device = {row.device for row in there}
    told = caption(found.machine, device == {SIM})
    return f"{told}\n\n{markdown([*head, 'least possible'], lines)}"


def missing(system: str, rows: Iterable[Row]) -> str:
    """Why a workload's row lacks it: it was not tried at all, or not there."""
    return MISSING if any(row.system == system for row in rows) else NEVER


def bound_of(rows: Iterable[Row]) -> str:
    """Of any of them."""
    known = [row.bound_ms for row in rows if row.bound_ms]
    return f"{known[0]:.1f}" if known else UNKNOWN


def systems_in(found: Results) -> list[str]:
    """Those that the results have, in order."""
    present = {row.system for row in found.every} - {"native", "oracle"}
    return [name for name in BY_NAME if name in present]
