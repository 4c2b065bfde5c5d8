"""`pump sim --tenants`: copies of programs that share one GPU."""

from dataclasses import dataclass

from rich.table import Table

from pump.sim.link import figure
from pump.sim.peers import brokered, paged, swapped
from pump.sim.resident import PAGE_BYTES, Program, recorded
from pump.sim.sequence import Sequence
from pump.sim.tenants import Machine, Shared
from pump.sizes import format_size
from pump.terminal.tables import table

SPAN_NS = 10_000_000_000
TURN_NS = 1_000_000_000
"""Of whole processes, where no length was asked for."""
WAYS = {
    "fault": "kernels fault, LRU",
    "swap": "whole processes in turns",
    "broker": "the broker's policy",
}


@dataclass(frozen=True)
class Together:
    """One run: what all do in sum, as a part of one alone; bytes a second."""

    sequence: str
    tenants: int
    footprint: int
    over: float  # needs of all : memory
    way: str
    total: float
    least: float | None = None  # what one does, the one that does least
    bytes_in: float | None = None
    bytes_out: float | None = None


def share(
    name: str, sequence: Sequence, tenants: int, over: float, turn_ms: float
) -> list[Together]:
    """Copies of a program in too little memory: each way."""
    program = recorded(name, sequence)
    memory = int(tenants * program.need / over) // PAGE_BYTES * PAGE_BYTES
    machine = Machine(int(figure("vmm.swap") * 1e9))
    turn_ns = int(turn_ms * 1e6)
    programs = [program] * tenants
    runs = {
        "swap": swapped(machine, programs, memory, turn_ns or TURN_NS, SPAN_NS),
        "broker": brokered(machine, programs, memory, turn_ns, SPAN_NS),
    }
    faults = paged(programs, memory, figure("um.fault") * 1e9)
    return [
        Together(name, tenants, program.need, over, "fault", faults),
        *(row(program, tenants, over, way, run) for way, run in runs.items()),
    ]


def row(program: Program, tenants: int, over: float, way: str, run: Shared) -> Together:
    """One run as it is shown."""
    rates = (run.moved_in / run.span_ns * 1e9, run.moved_out / run.span_ns * 1e9)
    return Together(
        program.name, tenants, program.need, over, way, run.total, min(run.parts), *rates
    )


def share_table(rows: list[Together]) -> Table:
    """One row a run."""
    columns = ("sequence", ">tenants", ">each needs", ">over", "", ">in sum", ">least", ">in GB/s")
    cells = [
        (
            one.sequence,
            str(one.tenants),
            format_size(one.footprint),
            f"{one.over:g}",
            WAYS[one.way],
            f"{one.total:.1%}",
            "" if one.least is None else f"{one.least:.1%}",
            "" if one.bytes_in is None else f"{one.bytes_in / 1e9:.1f}",
            "" if one.bytes_out is None else f"{one.bytes_out / 1e9:.1f}",
        )
        for one in rows
    ]
    return table((*columns, ">out"), cells, leaves=("each needs", "out", "in GB/s", "tenants"))
