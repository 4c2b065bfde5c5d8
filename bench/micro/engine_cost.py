"""Counts the instructions that the engine takes an operation: no clock is as steady.

100 000 pages of 2 MiB; an operation reads two ranges and updates a third, as a kernel does: four
pages, issued, admitted and retired; all operations together touch every page once a period. Half of
the pages fit, and moves are done the moment they are given out: they bring and take away as many
pages as an operation touches. Learning is included.
"""

import subprocess
from pathlib import Path

from bench.micro import built, callgrind

PAGES = 100_000
TIMES = 100_000
MOST = 9_000
"""An operation may take so many. With them the engine decides a million in a second if a core runs
nine in a nanosecond, as it does while nobody shares it.
"""


def instructions(out: Path) -> int:
    """Of an operation and its moves; the folder keeps the counts."""
    program = built.compiled(out / "engine_main", "engine", ("engine_main.c",))
    counts = out / "callgrind.out"
    tool = callgrind.tool(counts, "--toggle-collect=loop_engine")
    words = ["ahead", *map(str, (PAGES, PAGES // 2, TIMES))]
    subprocess.run([*tool, str(program), *words], check=True)
    return callgrind.inclusive(counts)["loop_engine"] // TIMES
