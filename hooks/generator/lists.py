"""What the linker and the coverage page read about the functions."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hooks.generator.row import Custom, Library, Passed, Recorded, Row, Then, Told

# c10::reportMemoryUsageToProfiler(void*, int64_t, size_t, size_t, Device), of PyTorch's allocator
_FRAMEWORK = ["_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"]
# csrc/interpose/symbols/jump.c
_LEFT_BY = {
    "GLIBC_2.2.5": ["_longjmp", "longjmp", "pthread_exit", "siglongjmp"],
    "GLIBC_2.11": ["__longjmp_chk"],
}
_FIRST_GLIBC = {"x86_64": "GLIBC_2.2.5", "aarch64": "GLIBC_2.17"}


def exported_symbols(rows: Sequence[Row], libraries: Sequence[Library]) -> list[str]:
    """Every symbol that a wrapper is exported as, sorted; a library's with `@` and its version."""
    by_name = {library.name: library for library in libraries}
    symbols = []
    for row in rows:
        library = by_name.get(row.library)
        if row.wrapped and library and not library.named:
            symbols += [f"{row.symbol}@{v}" for v in library.versions]
        elif row.wrapped:
            symbols.append(row.symbol)
            symbols += [f"{row.symbol}_{row.suffix}"] if row.suffix else []
    return sorted(symbols)


def exports_map(rows: Sequence[Row], libraries: Sequence[Library], machine: str) -> str:
    """The linker's version script. Raises KeyError on a machine that CUDA does not run on.

    Our own node comes first: a symbol asked for without a version is looked for there.
    """
    exported = exported_symbols(rows, libraries)
    own = [symbol for symbol in exported if "@" not in symbol]
    nodes = [_node("ULMS", ["ulms_*", *own, *_FRAMEWORK], "    local:\n        *;\n")]
    left_by = _LEFT_BY if machine == "x86_64" else {}
    for glibc in dict.fromkeys([_FIRST_GLIBC[machine], "GLIBC_2.34", *left_by]):
        loader = [] if glibc == "GLIBC_2.11" else ["dlclose", "dlsym", "dlvsym"]
        nodes.append(_node(glibc, [*loader, *left_by.get(glibc, [])]))
    for version in [version for library in libraries for version in library.symbol_versions]:
        mine = [symbol.split("@")[0] for symbol in exported if symbol.endswith(f"@{version}")]
        nodes.append(_node(version, mine))
    return "\n".join(nodes)


def _node(name: str, symbols: Sequence[str], rest: str = "") -> str:
    lines = "".join(f"        {symbol};\n" for symbol in symbols)
    return f"{name} {{\n    global:\n{lines}{rest}}};\n"


def names_json(rows: Sequence[Row]) -> str:
    """The coverage page's source: one object for each symbol, sorted by library and symbol."""
    return json.dumps([_entry(row) for row in rows], indent=1) + "\n"


def _entry(row: Row) -> dict[str, object]:
    status, why, touches = "passed", "", list[str]()
    match row.treatment:
        case Recorded():
            status = "recorded"
            touches = [touch.text for touch in row.treatment.touches]
            touches += [source.text for source in row.treatment.sources]
        case Told():
            status = "recorded"
            touches = [touch.text for touch in row.treatment.touches]
            touches += [row.treatment.note] if row.treatment.note else []
        case Custom():
            status = row.treatment.status
            touches = [row.treatment.note]
        case Then():
            status = "recorded"
            touches = [row.treatment.note]
        case Passed():
            why = row.treatment.why
    return {
        "library": row.library,
        "symbol": row.symbol,
        "base": row.base,
        "since": row.since,
        "twin": row.suffix,
        "status": status,
        "why": why,
        "touches": touches,
    }
