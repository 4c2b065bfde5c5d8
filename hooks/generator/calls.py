"""calls.h: every wrapped function, called with arguments that a test draws."""

from __future__ import annotations

from collections.abc import Sequence

from hooks.generator.prototype import Argument, Prototype
from hooks.generator.row import Library, Row
from hooks.generator.text import listed

_HEAD = """
/* Draws an argument of that type, as the tables write it, into `at`. */
typedef void (*draw_function)(const char *type, void *at, size_t bytes);

struct called {
    const char *library, *symbol;
    const char *name[2];    /* as exported; NULL: there is no twin. A library's are one */
    const char *version[2]; /* of a library's symbol; NULL: none */
    int (*call)(void *function, draw_function draw); /* what it answers, where that is a number */
};
"""


def calls_header(rows: Sequence[Row], libraries: Sequence[Library]) -> str:
    """The calls, and `all_calls`, a row for each."""
    by_name = {library.name: library for library in libraries}
    pieces = ['#include "library.h"', _HEAD]
    table = ["static const struct called all_calls[] = {"]
    for row in rows:
        if not row.prototype or not row.wrapped:
            continue
        pieces.append(_call(row.prototype))
        twin = f'"{row.symbol}_{row.suffix}"' if row.suffix else "NULL"
        versions = (
            [f'"{v}"' for v in by_name[row.library].versions] if row.library in by_name else []
        )
        if versions:
            twin = f'"{row.symbol}"' if len(versions) > 1 else "NULL"
        versions = [*versions, "NULL", "NULL"][:2]
        table.append(
            f'    {{"{row.library}", "{row.symbol}", {{"{row.symbol}", {twin}}}, '
            f"{{{', '.join(versions)}}}, call_{row.symbol}}},"
        )
    return "\n".join([*pieces, *table, "};", ""])


def _call(prototype: Prototype) -> str:
    lines = [f"static int call_{prototype.symbol}(void *function, draw_function draw)", "{"]
    if not prototype.arguments:
        lines.append("    (void)draw;")
    for argument in prototype.arguments:
        kind = _variable(argument)
        lines.append(f"    {kind}{'' if kind.endswith('*') else ' '}{argument.name};")
    for argument in prototype.arguments:
        where = ["(void *)&" + argument.name, f"sizeof {argument.name}"]
        lines.append(listed("    draw(", [f'"{argument.type}"', *where], ";"))
    names = [argument.name for argument in prototype.arguments]
    number = prototype.result.endswith(("_t", "CUresult")) or prototype.result == "nvmlReturn_t"
    real = listed(f"((pfn_{prototype.symbol})function)(", names, ";")
    if number:
        lines.append(f"    return (int){real}")
    else:
        lines += [f"    {real}", "    return 0;"]
    return "\n".join([*lines, "}", ""])


def _variable(argument: Argument) -> str:
    """The type without what keeps a variable of it from being set."""
    if argument.is_pointer:
        return argument.type
    return argument.type.removeprefix("const ")
