"""The machines of two results side by side."""

from collections.abc import Iterable, Mapping
from contextlib import suppress

from rich.table import Table

from pump.bench.machine import figure_in
from pump.bench.row import Row
from pump.predict.systems import GPU
from pump.terminal.tables import table

Machine = Mapping[str, str]
WAYS = ("in", "out", "both")
LINK = 0.05
"""Links whose rates differ by no more than this share are alike."""


def machines_table(names: tuple[str, str], machines: tuple[Machine, Machine]) -> Table:
    """What decides how fast they are, and the commit."""
    lines = [
        ("GPU", *(told.get("gpu", "") for told in machines)),
        ("link in, out, both", *map(link_of, machines)),
        ("commit", *(told.get("commit", "") for told in machines)),
    ]
    return table(("", *names), lines)


def link_of(machine: Machine) -> str:
    """Its rates."""
    rates = [machine.get(f"link_{way}", "") for way in WAYS]
    return ", ".join(rates) if all(rates) else "not measured"


def unlike(machines: tuple[Machine, Machine], rows: Iterable[Row]) -> str:
    """Why times of rows that both have are those of two machines; "" where they are of one kind.
    Virtual time is the same on all.
    """
    if not any(row.device == GPU for row in rows):
        return ""
    found = []
    if machines[0].get("gpu") != machines[1].get("gpu"):
        found.append("the GPU")
    found += [f"the link ({far:.0%})"] if (far := apart(machines)) > LINK else []
    if not found:
        return ""
    return f"{' and '.join(found)} differ{'s' * (len(found) == 1)}: these are times of two machines"


def apart(machines: tuple[Machine, Machine]) -> float:
    """The largest share by which a rate differs that was measured of both; 0: none was."""
    ratios = [1.0]
    for way in WAYS:
        with suppress(KeyError, ValueError):
            before, after = (figure_in(told[f"link_{way}"]) for told in machines)
            ratios.append(max(before, after) / min(before, after))
    return max(ratios) - 1
