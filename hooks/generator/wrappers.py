"""wrappers.c: the functions that programs get instead of the driver's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hooks.generator.expression import Extent, to_c
from hooks.generator.hot import LAUNCHES, MEMSETS, QUESTIONS
from hooks.generator.prototype import Argument, Prototype
from hooks.generator.row import Custom, Recorded, Row, Then
from hooks.generator.text import listed

_HEAD = """
#include "base/hot.h"
#include "cuda/extent.h"
#include "driver/home.h"
#include "driver/node.h"
#include "driver/fast_path.h"
#include "driver/session.h"
#include "driver/within.h"
#include "interpose/record/bounds.h"
#include "interpose/record/parameters.h"
#include "interpose/record/wrap.h"
#include "interpose/wrappers/graph.h"

/* Tables name the static functions: the address of an exported one may be another library's. */
#define EXPORT(function, symbol) \\
    extern __typeof__(function) symbol __attribute__((alias(#function), visibility("default")))
"""


def parameters(prototype: Prototype) -> list[str]:
    """What a declaration has between its parentheses."""
    return [str(argument) for argument in prototype.arguments] or ["void"]


def wrapper_name(row: Row, variant: int) -> str:
    """The C function of variant 0, or of variant 1: the twin for per-thread default streams."""
    return f"{'thread' if variant and row.suffix else 'plain'}_{row.symbol}"


def wrappers(rows: Sequence[Row]) -> str:
    """The wrappers of all wrapped rows."""
    pieces = [_HEAD]
    for row in rows:
        if not row.prototype:
            continue
        if isinstance(row.treatment, Recorded):
            pieces.append(_body(row.prototype, row.treatment))
        if isinstance(row.treatment, Then):
            pieces.append(_then(row.prototype, row.treatment))
        if row.wrapped:
            pieces.append(_exports(row, row.prototype))
    return "\n".join(pieces)


def custom_prototypes(rows: Iterable[Row]) -> str:
    """The declarations of the wrappers that are written by hand."""
    lines = []
    for row in rows:
        if row.prototype and isinstance(row.treatment, Custom):
            head = f"{row.prototype.result} custom_{row.symbol}("
            items = ["int variant", *(str(argument) for argument in row.prototype.arguments)]
            lines.append(listed(head, items, ";"))
    return "\n".join(lines) + "\n"


def _body(prototype: Prototype, recorded: Recorded) -> str:
    symbol = prototype.symbol
    variant = ["int variant", *(str(argument) for argument in prototype.arguments)]
    actual = [argument.name for argument in prototype.arguments]
    real = f"REAL({symbol}, variant)("
    kind = f"OP_{recorded.kind.upper()}"
    stream = f"stream_key(variant, {recorded.stream or 'NULL'})"
    lines = [
        listed(f"static {prototype.result} wrap_{symbol}(", variant, ""),
        "{",
        "    struct op op;",
        listed("    if (!wrap_open(", ["&op", f"API_{symbol}", kind, stream], ")"),
        listed(f"        return {real}", actual, ";"),
    ]
    if recorded.object:
        lines.append(f"    op.object = {_object(prototype.argument(recorded.object))};")
    for touch in recorded.touches:
        start = _address(prototype.argument(touch.argument))
        items = ["&op", start, _extent(touch.extent), f"TOUCH_{touch.mode.upper()}"]
        lines.append(listed("    wrap_touch(", items, ";"))
    lines.append("    wrap_admit(&op);")
    lines.append(listed(f"    {prototype.result} status = RUN(&op, {real}", actual, ");"))
    for source in recorded.sources:
        target = _address(prototype.argument(source.target))
        items = ["&op", target, _host(prototype.argument(source.source)), _extent(source.extent)]
        lines.append("    if (status == CUDA_SUCCESS)")
        look = "wrap_pinned" if source.pinned else "wrap_pointers"
        lines.append(listed(f"        {look}(", items, ";"))
    lines += ["    wrap_close(&op, status);", "    return status;", "}", ""]
    return "\n".join(lines)


def _then(prototype: Prototype, then: Then) -> str:
    symbol = prototype.symbol
    variant = ["int variant", *(str(argument) for argument in prototype.arguments)]
    actual = [argument.name for argument in prototype.arguments]
    before, after = f"    {prototype.result} status = ", ";"
    if then.unless:
        before, after = f"{before}parameters_taken({then.unless} ?: ", ");"
    lines = [
        listed(f"static {prototype.result} wrap_{symbol}(", variant, ""),
        "{",
        listed(f"{before}REAL({symbol}, variant)(", actual, after),
        "    if (status == CUDA_SUCCESS && session_on)",
        f"        {then.call};",
        "    return status;",
        "}",
        "",
    ]
    return "\n".join(lines)


def _exports(row: Row, prototype: Prototype) -> str:
    made = "custom" if isinstance(row.treatment, Custom) else "wrap"
    hot = "HOT " if row.symbol in {*LAUNCHES, *MEMSETS, *QUESTIONS} else ""
    lines = []
    for variant in (0, 1) if row.suffix else (0,):
        name = wrapper_name(row, variant)
        exported = f"{row.symbol}_{row.suffix}" if variant else row.symbol
        actual = [argument.name for argument in prototype.arguments]
        lines += [listed(f"static {hot}{prototype.result} {name}(", parameters(prototype), ""), "{"]
        passed = listed(f"        return REAL({row.symbol}, {variant})(", actual, ";")
        ours = listed(f"{made}_{row.symbol}(", [str(variant), *actual], ";")
        if row.symbol in QUESTIONS:  # takes no lock, and has to be cheap
            lines += ["    if (home_left())", passed, f"    return {ours}"]
        else:
            lines += _entered(row, variant, prototype, passed, ours)
        lines += ["}", f"EXPORT({name}, {exported});", ""]
    return "\n".join(lines)


def _entered(row: Row, variant: int, prototype: Prototype, passed: str, ours: str) -> list[str]:
    """The body of a wrapper that passes where its thread is in one, in a handler of a signal.

    What calls the program back, on this thread, is none that it is in.
    """
    back = any(argument.type.endswith("Callback") for argument in prototype.arguments)
    lines = ["    struct within within;"]
    if fast_path := _fast_path(row):
        actual = [argument.name for argument in prototype.arguments]
        real = listed(f"        CUresult status = REAL({row.symbol}, {variant})(", actual, ";")
        leave = f"        return fast_path_exit(status, {fast_path});"
        lines += ["    if (fast_path_enter(&within)) {", *_bounded([real, leave], row), "    }"]
    in_one = "(within_any() && within_still(&within))" if back else "!within_enter(&within)"
    lines += [f"    if (home_left() || {in_one})", passed]
    lines += [f"    {prototype.result} answer = {ours}"]
    lines += ["    within_leave(&within);", "    return answer;"]
    return lines


def _bounded(passes: list[str], row: Row) -> list[str]:
    """The lines of an operation that passes, if what it touches stays within its allocations."""
    if not (row.prototype and isinstance(row.treatment, Recorded)):
        return passes
    kept = [
        f"bounds_kept({_address(row.prototype.argument(t.argument))}, {_extent(t.extent)})"
        for t in row.treatment.touches
    ]
    test = f"        if ({' && '.join(kept)}) {{"
    return [
        test,
        *("    " + line for line in passes),
        "        }",
        "        fast_path_turn_back();",
    ]


def _fast_path(row: Row) -> str | None:
    """What passes while nobody asks for operations, of enum op_kind; None: nothing does."""
    if isinstance(row.treatment, Custom):
        return "OP_LAUNCH" if row.treatment.fast_path else None
    memset = isinstance(row.treatment, Recorded) and row.treatment.kind == "memset"
    return "OP_MEMSET" if memset else None


def _object(argument: Argument) -> str:
    if argument.type == "CUstream":
        return f"stream_key(variant, {argument.name})"
    return f"(uint64_t)(uintptr_t){argument.name}"


def _address(argument: Argument) -> str:
    return f"(addr_t)(uintptr_t){argument.name}" if argument.is_pointer else argument.name


def _host(argument: Argument) -> str:
    return argument.name if argument.is_pointer else f"(const void *)(uintptr_t){argument.name}"


def _extent(extent: Extent) -> str:
    operands = [to_c(operand) for operand in extent.operands]
    return operands[0] if extent.form == "bytes" else f"extent_{extent.form}({', '.join(operands)})"
