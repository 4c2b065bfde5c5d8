"""A trace's summary as a page of tables."""

from pathlib import Path

from rich.console import Group, RenderableType

from pump.sizes import format_size
from pump.terminal.render import Name
from pump.terminal.tables import table
from pump.trace import FunctionUse, HeldUse, MoveUse, Paging, Summary, TouchSource

FUNCTIONS_SHOWN = 20

# Who told the extent of a touch, in words; csrc/types.h has them in this order.
SOURCES = {
    TouchSource.CALL: "the call's own arguments",
    TouchSource.LIBRARY: "a library's descriptors",
    TouchSource.FRAMEWORK: "the framework's allocator",
    TouchSource.OBSERVED: "the next pointer observed",
    TouchSource.ALLOCATION: "nothing better: the whole allocation",
}


def summary_page(summary: Summary, functions: int | None = None) -> RenderableType:
    """Everything a summary says; the kernels with most device time only, when `functions` limits
    them."""
    shown = summary.functions[:functions]
    hidden = len(summary.functions) - len(shown)
    parts: list[RenderableType] = [
        head(summary),
        table(("operations", ">number"), operation_rows(summary)),
        table(
            ("kernel", ">launches", ">device time", ">mean", ">touched", "unmatched"),
            map(function_row, shown),
            leaves=("mean", "unmatched", "touched"),
        ),
    ]
    if hidden:
        parts.append(f"... and {hidden} more kernels (--all)\n")
    parts += paging_tables(summary.paging, functions)
    parts += [
        table(("the extent of a touch was told by", ">touches"), source_rows(summary)),
        table(("memory", ">"), memory_rows(summary)),
    ]
    return Group(*summary.notes, *parts)


def head(summary: Summary) -> str:
    """Who was traced, where, for how long."""
    where = f" on {summary.device}" if summary.device else ""
    threads = "1 thread" if summary.threads == 1 else f"{summary.threads} threads"
    name = Path(summary.program).name or "a program"
    return f"{name}{where}: {time_text(summary.span_ns)}, {threads}"


def operation_rows(summary: Summary) -> list[tuple[str, str]]:
    """Operations by kind, and what they amount to."""
    words = {"launch": "kernel launches", "copy": "copies", "memset": "memsets"}
    words |= {"graph": "graph launches", "host": "host functions", "record": "events recorded"}
    words |= {"after": "streams made to wait", "wait": "waits of the host"}
    rows = [
        (words[kind.name.lower()], f"{count:,}")
        for kind, count in summary.operations.items()
        if count
    ]
    rows.append(("kernels run, in graphs too", f"{summary.kernels:,}"))
    rows.append(("bytes copied", format_size(summary.copied_bytes)))
    rows.append(("bytes touched", format_size(summary.touched_bytes)))
    for name, count in (("captured, not run", summary.captured), ("failed", summary.failed)):
        if count:
            rows.append((name, f"{count:,}"))
    return rows


def function_row(use: FunctionUse) -> tuple[object, ...]:
    """A kernel and what its launches amount to."""
    time = time_text(use.device_ns) if use.timed else ""
    mean = time_text(use.device_ns / use.timed) if use.timed else ""
    missed = [f"{use.unmatched} of {use.launches}"] if use.unmatched else []
    missed += [f"{use.blind} of unknown layout"] if use.blind else []
    return (
        Name(use.name),
        f"{use.launches:,}",
        time,
        mean,
        format_size(use.touched_bytes),
        ", ".join(missed),
    )


def source_rows(summary: Summary) -> list[tuple[str, str]]:
    """Touches by who told their extent."""
    return [(SOURCES[source], f"{count:,}") for source, count in summary.touches.items() if count]


def memory_rows(summary: Summary) -> list[tuple[str, str]]:
    """Allocations, blocks, hidden pointers."""
    return [
        ("allocations", f"{summary.allocations:,}"),
        ("given back", f"{summary.freed:,}"),
        ("most held at a time", format_size(summary.peak_bytes)),
        ("blocks told by the framework", f"{summary.blocks:,}"),
        ("copies that held device addresses", f"{summary.tables:,}"),
        ("addresses in them", f"{summary.table_pointers:,}"),
    ]


def paging_tables(paging: Paging, held: int | None) -> list[RenderableType]:
    """What moved and what was held; nothing where all memory fitted."""
    parts: list[RenderableType] = []
    if paging.counters.get("paged_bytes"):
        parts.append(table(("pages", ">"), page_rows(paging.counters)))
    if paging.moves:
        names = ("moves of pages", ">number", ">bytes", ">a second", ">time", ">median", ">longest")
        parts.append(
            table(names, map(move_row, paging.moves), leaves=("median", "longest", "a second"))
        )
    if paging.held:
        total = f"held for their pages: {time_text(paging.held_ns)} in all"
        rows = map(held_row, paging.held[:held])
        parts.append(table((total, ">times", ">time", ">waited for"), rows))
    return parts


def page_rows(counters: dict[str, int]) -> list[tuple[str, str]]:
    """How well pages were there in time."""

    def share(part: str, *whole: str) -> str:
        total = sum(counters.get(name, 0) for name in whole)
        return f"{100 * counters.get(part, 0) / total:.1f} %" if total else ""

    rows = [
        ("touched, once not everything fitted", format_size(counters["paged_bytes"])),
        ("of these, there already", share("hit_bytes", "paged_bytes")),
        ("operations that waited for theirs", f"{counters.get('late', 0):,}"),
        ("operations run without", f"{counters.get('short_operations', 0):,}"),
        ("operations that came as predicted", share("predicted", "predicted", "surprises")),
        ("filled ahead of need", share("early_bytes", "filled_bytes")),
        ("filled for nothing", share("useless_bytes", "filled_bytes")),
        ("left to kernels to bring in", format_size(counters.get("faulted_bytes", 0))),
        ("used in place", format_size(counters.get("in_place_bytes", 0))),
    ]
    return [row for row in rows if row[1]]


def move_row(use: MoveUse) -> tuple[str, ...]:
    """The moves of one kind."""
    speed = f"{format_size(use.bytes / use.ns * 1e9)}" if use.ns else ""
    times = map(time_text, (use.ns, use.median_ns, use.longest_ns))
    return use.what, f"{use.moves:,}", format_size(use.bytes), speed, *times


def held_row(use: HeldUse) -> tuple[object, ...]:
    """A kernel, or a call, that was held."""
    return Name(use.name), f"{use.times:,}", time_text(use.ns), format_size(use.missing_bytes)


def time_text(ns: float) -> str:
    """A time in nanoseconds in the unit that suits it."""
    for unit, name in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if ns >= unit:
            return f"{ns / unit:.2f} {name}"
    return f"{ns:.0f} ns"
