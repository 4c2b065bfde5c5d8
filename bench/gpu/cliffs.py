"""Why a step takes longer where memory is short: a line a run, and what was held longest.

`python -m bench.gpu.cliffs FILE.json TRACE...`: rows of `pump-bench run --device gpu`; of recorded
steps it says how large they are.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pump.bench.row import Row, read_results
from pump.predict.systems import ALIKE

COUNTED = ("opaque", "untrusted", "launches_blind", "graphs_cut", "surprises")
COLUMNS = (
    *("program", "over", "system", "ms", "x native", "GB in", "faulted", "in place", "GB out"),
    *("held ms", "opaque", "untrusted", "blind", "cut", "surprises", "GiB there", ""),
)
NAME, HELD = 48, 3
"""Characters of a kernel's name, and kernels of a run."""
TRACE_MOST = 2 << 20
PAGE = 2 << 20


def line(row: Row) -> tuple[str, ...]:
    """Of a run; a step's share of what was counted."""
    if row.failed:
        none = [""] * (len(COLUMNS) - 4)
        return (row.workload, f"{row.oversubscription:g}", row.system, *none, row.failed[:60])

    def counted(name: str, unit: float = 1) -> str:
        return f"{row.counters[name] / unit:.3g}" if name in row.counters else ""

    def told(value: float | None, unit: float) -> str:
        return "" if value is None else f"{value / unit:.3g}"

    return (
        row.workload,
        f"{row.oversubscription:g}",
        row.system,
        f"{row.ms:.1f}",
        f"{row.ms / row.native_ms:.2f}",
        told(row.bytes_in, 1e9),
        told(row.faults, 1e9 / PAGE),
        counted("in_place_bytes", 1e9),
        told(row.bytes_out, 1e9),
        told(row.gate_ms, 1),
        *map(counted, COUNTED),
        told(row.resident_bytes, 1 << 30),
        (row.no_time or "") if row.numbers_equal else "NUMBERS DIFFER",
    )


def held(row: Row) -> str:
    """What was held longest, and for how many bytes it waited; "": nothing was."""
    most = sorted(row.held.items(), key=lambda each: -each[1][0])[:HELD]
    told = [f"{name[:NAME]} {ms:.1f} ms for {mib:.0f} MiB" for name, (ms, mib) in most]
    place = f"{row.workload} {row.oversubscription:g} {row.system}"
    return f"{place}: {'; '.join(told)}" if told else ""


def main(words: Sequence[str]) -> None:
    every, traces = read_results(Path(words[0])).every, [Path(word) for word in words[1:]]
    first, second = ALIKE
    rows = [
        row
        for row in every
        if row.system != second or replace(row, system=first) not in every  # the same row
    ]
    programs = list(dict.fromkeys(row.workload for row in rows))
    rows.sort(key=lambda row: (programs.index(row.workload), row.oversubscription))
    for text in filter(None, map(held, rows)):
        print(text)
    for trace in traces:
        size = trace.stat().st_size
        print(f"{trace.name}: {size >> 10} KiB{', TOO LARGE' * (size > TRACE_MOST)}")
    lines = [COLUMNS, *map(line, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for cells in lines:
        print(" ".join(map(str.rjust, cells, widths)).rstrip())


if __name__ == "__main__":
    main(sys.argv[1:])
