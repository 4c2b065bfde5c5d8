"""The emulator's libraries: each function told launches one kernel that holds all its pointers."""

from __future__ import annotations

from collections.abc import Sequence

from hooks.generator.prototype import Prototype
from hooks.generator.row import Library, Row, Told
from hooks.generator.text import listed
from hooks.generator.wrappers import parameters

_HEAD = """#include "{folder}/abi.h"

#include "library/lookalike.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

/* The stream that the handle is set to. */
CUstream lookalike_stream_{name}({handle} handle);
"""


def lookalike(library: Library, rows: Sequence[Row]) -> str:
    """The C source of the library's functions that launch what their rows tell."""
    pieces = [_HEAD.format(folder=library.folder, name=library.name, handle=library.handle)]
    for row in rows:
        if row.library != library.name or not isinstance(row.treatment, Told):
            continue
        if row.prototype and not _builds(row.prototype):
            pieces.append(_function(library, row.prototype))
    return "\n".join(pieces)


def lookalike_map(library: Library, variant: int) -> str:
    """The version script of the library's file: its symbols carry its version."""
    symbols = f"    global:\n        {library.folder}*;\n    local:\n        *;\n"
    version = "" if library.named else f"{library.versions[variant]} "
    return f"{version}{{\n{symbols}}};\n"


def _builds(prototype: Prototype) -> bool:
    """Whether it changes a graph and launches nothing: such functions are written by hand."""
    return any(argument.type == "cudaGraph_t" for argument in prototype.arguments)


def _function(library: Library, prototype: Prototype) -> str:
    stream = "NULL"
    for argument in prototype.arguments:
        if argument.type == library.handle:
            stream = f"lookalike_stream_{library.name}({argument.name})"
        if argument.type == "cudaStream_t":
            stream = argument.name
    held = [argument.name for argument in prototype.arguments if argument.is_pointer]
    answers = library.absent[prototype.result]
    run = f"lookalike_run({stream}, held, {len(held)})"
    lines = [
        listed(f"{prototype.result} {prototype.symbol}(", parameters(prototype), ""),
        "{",
        listed("    LOOKALIKE_HELD(", held, ";"),
    ]
    if prototype.result == "void":
        lines.append(f"    {run};")
    else:
        lines.append(f"    bool ran = {run};")
        failed = f"({prototype.result}){answers[-1]}"
        lines.append(f"    return ran ? ({prototype.result}){_zero(prototype.result)} : {failed};")
    return "\n".join([*lines, "}", ""])


def _zero(result: str) -> str:
    return "{0}" if result.startswith("cu") and result.endswith("Complex") else "0"
