"""The emulated driver: its symbols, and the entry of every function whose parameters are known."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hooks.generator.row import Row
from hooks.generator.text import listed
from hooks.generator.wrappers import parameters

_CALLS = """#include "stream.h"

/* What a driver lacks is not emulated: no body is there. */
"""


def emulator_rows(rows: Sequence[Row]) -> str:
    """Every symbol of the driver as X(symbol, base, since, twin); X(symbol) of those with types."""
    mine = [row for row in rows if row.library == "cuda"]
    each = [f"{row.symbol}, {row.base}, {row.since}, {row.suffix or 'none'}" for row in mine]
    return (
        "/* twin: none, or what the per-thread twin's name ends in. */\n"
        + _list("EMULATOR_ROWS", each)
        + "/* Those whose parameters are known, twins by both names. */\n"
        + _list("EMULATOR_CALLS", [f"{row.symbol}, {name}" for row, name in exported(mine)])
    )


def exported(rows: Sequence[Row]) -> list[tuple[Row, str]]:
    """The names of the driver's functions with known parameters, and of their twins."""
    found = []
    for row in rows:
        if row.library == "cuda" and row.prototype:
            found.append((row, row.symbol))
            found += [(row, f"{row.symbol}_{row.suffix}")] if row.suffix else []
    return found


def emulator_errors(result: str) -> str:
    """Every error in the text of the driver's `result.h` as X(error, words)."""
    each = []
    for name in re.findall(r"^ +(CUDA_\w+) =", result, re.M):
        words = name.removeprefix("CUDA_").removeprefix("ERROR_").replace("_", " ").lower()
        each.append(f'{name}, "{words}"')
    return _list("EMULATOR_ERRORS", each)


def _list(name: str, each: Sequence[str]) -> str:
    """The macro `name(X)`: X of each, in order."""
    return " \\\n".join([f"#define {name}(X)", *(f"    X({items})" for items in each)]) + "\n"


def emulator_bodies(rows: Sequence[Row]) -> str:
    """The declarations of the bodies, which are written by hand."""
    lines = []
    for row in rows:
        if row.library == "cuda" and row.prototype:
            given = [str(argument) for argument in row.prototype.arguments]
            items = ["CUcontext c", *(["CUstream s"] if row.suffix else []), *given]
            lines.append(f"extern BODY const unsigned need_{row.symbol};")
            lines.append(listed(f"BODY CUresult body_{row.symbol}(", items, ";"))
    return "\n".join(lines) + "\n"


def emulator_calls(rows: Sequence[Row]) -> str:
    """The exported functions: each enters, finds its stream if it has one, and calls its body."""
    return "\n".join([_CALLS, *(_entry(row, name) for row, name in exported(rows))])


def _entry(row: Row, name: str) -> str:
    assert row.prototype
    arguments = row.prototype.arguments
    streams = [argument.name for argument in arguments if argument.type == "CUstream"]
    lines = [listed(f"EXPORT CUresult {name}(", parameters(row.prototype), ""), "{"]
    lines.append(f'    ENTER({row.symbol}, "{name}");')
    if row.suffix:
        per_thread = "true" if name != row.symbol else "false"
        lines.append(f"    FIND({(streams or ['NULL'])[0]}, {per_thread});")
    given = [argument.name for argument in arguments]
    items = ["c", *(["s"] if row.suffix else []), *given]
    lines.append(listed(f"    return body_{row.symbol}(", items, ";"))
    return "\n".join([*lines, "}", ""])
