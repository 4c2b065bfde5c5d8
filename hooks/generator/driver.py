"""driver.h, and the tables behind it: every function known, by number, name and version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hooks.generator.hot import HOT
from hooks.generator.library_wrappers import absent_name, wrapper_names
from hooks.generator.row import Library, Row
from hooks.generator.text import listed
from hooks.generator.wrappers import custom_prototypes, parameters, wrapper_name

_DRIVER_H = """#ifndef ULMS_DRIVER_H
#define ULMS_DRIVER_H

#include <stdint.h>

#include "cuda/abi.h"
#include "nvml/abi.h"

enum library {{ LIBRARY_CUDA, LIBRARY_NVML, {libraries}LIBRARY_COUNT }};

/* The versions that the symbols of a library above the driver carry: variant v of its rows is for
 * version v. NULL where symbols carry none: dlopen then knows it by its name. */
extern const char *const library_versions[LIBRARY_COUNT][2];
extern const char *const library_names[LIBRARY_COUNT];

/* One number for each symbol whose parameters are known. */
enum api {{
{numbers}
    API_COUNT
}};

/* One version of one function: `base`, asked for with CUDA version `since` or newer until the next
 * row of that base, has this parameter list. thread_suffix is NULL, or what the symbol of the twin
 * for per-thread default streams ends in. wrapper[1] is that twin's, or the same again; both are
 * NULL where the program keeps the library's own function. Above the driver, wrapper[v] is for
 * version v of the library. */
struct api_row {{
    const char *symbol, *base;
    uint32_t since;
    uint8_t library;
    const char *thread_suffix;
    void *wrapper[2];
}};

extern const struct api_row api_rows[API_COUNT];
/* The real functions, variants 0 and 1; NULL until found. Whoever finds them writes them. */
extern void *api_real[API_COUNT][2];
/* Stand in for functions the library lacks: they answer its own "not supported". */
extern void *const api_absent[API_COUNT][2];

/* The row of an exported symbol, twins included: 2 * api + variant, or -1. The variant is 0 above
 * the driver. */
int api_by_symbol(const char *symbol);
/* The driver's newest row for a name, base or symbol, that `version` may have; -1: none. */
int api_by_base(const char *name, uint32_t version);

{types}
/* Written by hand in csrc/interpose; variant 1 was called by the twin's name. */
{customs}
#endif
"""

_DRIVER_FILES = {"cuda": "libcuda.so.1", "nvml": "libnvidia-ml.so.1"}

_LOOK_UP = """
int api_by_symbol(const char *symbol)
{
    size_t low = 0, high = sizeof by_symbol / sizeof *by_symbol;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(symbol, by_symbol[middle].name);
        if (order == 0)
            return by_symbol[middle].key;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}

int api_by_base(const char *name, uint32_t version)
{
    size_t low = 0, high = sizeof by_base / sizeof *by_base; /* first entry past (name, version) */
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(name, by_base[middle].name);
        if (order > 0 || (order == 0 && version >= api_rows[by_base[middle].key].since))
            low = middle + 1;
        else
            high = middle;
    }
    return low && strcmp(name, by_base[low - 1].name) == 0 ? by_base[low - 1].key : -1;
}
"""


def driver_header(rows: Sequence[Row], libraries: Sequence[Library]) -> str:
    """driver.h: numbers, types and look-ups; the types of the driver and of NVML only."""
    hot_first = sorted(rows, key=lambda row: row.symbol not in HOT)
    numbers = "\n".join(f"    API_{row.symbol}," for row in hot_first)
    names = {library.name for library in libraries}
    own = [row for row in rows if row.library not in names]
    types = "".join(
        listed(f"typedef {p.result} (*pfn_{p.symbol})(", parameters(p), ";\n")
        for p in (row.prototype for row in own)
        if p
    )
    constants = "".join(f"LIBRARY_{library.name.upper()}, " for library in libraries)
    return _DRIVER_H.format(
        numbers=numbers, types=types, customs=custom_prototypes(own), libraries=constants
    )


def row_tables(rows: Sequence[Row], libraries: Sequence[Library]) -> str:
    """The tables behind driver.h, for the end of wrappers.c: they name its static functions."""
    by_name = {library.name: library for library in libraries}
    pieces = [
        _absent(rows, by_name),
        _versions(libraries),
        _rows(rows, by_name),
        _by_symbol(rows),
        _by_base(rows),
    ]
    return "\n".join(pieces) + _LOOK_UP


def _absent(rows: Sequence[Row], libraries: Mapping[str, Library]) -> str:
    lines = [
        '#pragma GCC diagnostic ignored "-Wunused-parameter"',
        "#define ABSENT(result, symbol, ...) \\",
        "    static result absent_##symbol(__VA_ARGS__) \\",
        "    { \\",
        "        return NOT_SUPPORTED_##result; \\",
        "    }",
        "#define NOT_SUPPORTED_CUresult CUDA_ERROR_NOT_SUPPORTED",
        "#define NOT_SUPPORTED_nvmlReturn_t NVML_ERROR_NOT_SUPPORTED",
    ]
    for row in rows:
        if row.prototype and row.library not in libraries:
            items = [row.prototype.result, row.symbol, *parameters(row.prototype)]
            lines.append(listed("ABSENT(", items, ""))
    lines += ["", "void *const api_absent[API_COUNT][2] = {"]
    lines += [f"    [API_{row.symbol}] = {{{_stand_ins(row, libraries)}}}," for row in rows]
    lines += ["};", ""]
    return "\n".join(lines)


def _stand_ins(row: Row, libraries: Mapping[str, Library]) -> str:
    library = libraries.get(row.library)
    assert row.prototype
    if library:
        answers = library.absent.get(row.prototype.result, ())
        names = [absent_name(library, row.prototype.result, v) for v in range(len(answers))]
        names *= 1 + library.named
    else:
        names = [f"absent_{row.symbol}"] * 2
    return ", ".join(f"(void *){name}" for name in names) or "NULL"


def _versions(libraries: Sequence[Library]) -> str:
    lines = ["const char *const library_versions[LIBRARY_COUNT][2] = {"]
    for library in libraries:
        versions = ", ".join(f'"{version}"' for version in library.symbol_versions) or "NULL"
        lines.append(f"    [LIBRARY_{library.name.upper()}] = {{{versions}}},")
    files = _DRIVER_FILES | {
        library.name: library.versions[0] for library in libraries if library.named
    }
    lines += ["};", "const char *const library_names[LIBRARY_COUNT] = {"]
    lines += [f'    [LIBRARY_{name.upper()}] = "{file}",' for name, file in files.items()]
    return "\n".join([*lines, "};", ""])


def _rows(rows: Sequence[Row], libraries: Mapping[str, Library]) -> str:
    lines = [
        "#define ROW(symbol, base, since, library, suffix, one, two) \\",
        "    [API_##symbol] = {#symbol,           #base,  since, \\",
        "                      LIBRARY_##library, suffix, {(void *)(one), (void *)(two)}},",
        "const struct api_row api_rows[API_COUNT] = {",
    ]
    for row in rows:
        suffix = f'"_{row.suffix}"' if row.suffix else "NULL"
        functions = ["NULL", "NULL"]
        if row.wrapped and row.library in libraries:
            library = libraries[row.library]
            functions = [*wrapper_names(library, row) * (1 + library.named), "NULL"][:2]
        elif row.wrapped:
            functions = [wrapper_name(row, variant) for variant in (0, 1)]
        items = [row.symbol, row.base, str(row.since), row.library.upper(), suffix, *functions]
        lines.append(listed("    ROW(", items, ""))
    return "\n".join([*lines, "};", "#undef ROW", ""])


def _index(name: str, entries: Sequence[tuple[str, str]]) -> str:
    lines = ["static const struct {", "    const char *name;", "    int key;", f"}} {name}[] = {{"]
    lines += [f'    {{"{text}", {key}}},' for text, key in entries]
    return "\n".join([*lines, "};", ""])


def _by_symbol(rows: Sequence[Row]) -> str:
    entries = []
    for row in rows:
        entries.append((row.symbol, f"2 * API_{row.symbol}"))
        if row.suffix:
            entries.append((f"{row.symbol}_{row.suffix}", f"2 * API_{row.symbol} + 1"))
    return _index("by_symbol", sorted(entries))


def _by_base(rows: Sequence[Row]) -> str:
    entries: set[tuple[str, int, str]] = set()
    for row in rows:
        if row.library == "cuda":
            for name in (row.base, row.symbol):
                entries.add((name, row.since, f"API_{row.symbol}"))
    return _index("by_base", [(name, api) for name, _, api in sorted(entries)])
