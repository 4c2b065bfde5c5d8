"""Which functions of CUDA and its libraries ulms.so knows, and what it makes of each."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pump import paths

# What a status means. Written by hooks/gen.py.
STATUSES = {
    "recorded": "device work: its touches are recorded",
    "accounted": "allocates, frees or names memory: the ledger follows it",
    "answered": "asks for memory information: answered from the ledger",
    "passed": "reaches its library unseen; `why` says why",
}


@dataclass(frozen=True)
class Function:
    """One version of a function of a library."""

    library: str
    symbol: str
    base: str
    since: int  # CUDA version from which the base name means this one: 12020 is 12.2; 0: no matter
    status: str
    why: str
    touches: tuple[str, ...]


def load(path: Path | None = None) -> list[Function]:
    """Every function known. Raises NotBuiltError where nothing is built, OSError, ValueError."""
    rows = json.loads((path or paths.coverage()).read_text(encoding="utf-8"))
    return [
        Function(
            row["library"],
            row["symbol"],
            row["base"],
            int(row["since"]),
            row["status"],
            row.get("why") or "",
            tuple(row.get("touches") or ()),
        )
        for row in rows
    ]


def matching(functions: Iterable[Function], words: Iterable[str]) -> list[Function]:
    """The functions whose symbol contains any of the words, in any case; all without words."""
    wanted = [word.lower() for word in words]
    return [
        function
        for function in functions
        if not wanted or any(word in function.symbol.lower() for word in wanted)
    ]


def totals(functions: Iterable[Function]) -> dict[str, Counter[str]]:
    """Functions of each library by status."""
    counts: dict[str, Counter[str]] = {}
    for function in functions:
        counts.setdefault(function.library, Counter())[function.status] += 1
    return counts
