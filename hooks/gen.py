#!/usr/bin/env python3
"""Writes what is made from the hook tables: wrappers, the symbols they export, lists.

    gen.py --out DIRECTORY [--machine x86_64]

Runs on Python's standard library alone, before anything is installed. A file whose content would
not change is left as it is, so that nothing is built again for it.
"""

from __future__ import annotations

import argparse
import platform
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hooks.generator.abi import declarations
from hooks.generator.calls import calls_header
from hooks.generator.driver import driver_header, row_tables
from hooks.generator.emulator import (
    emulator_bodies,
    emulator_calls,
    emulator_errors,
    emulator_rows,
)
from hooks.generator.functions import Functions, read_functions
from hooks.generator.hot import check_hot
from hooks.generator.library_table import LibraryTables
from hooks.generator.library_wrappers import library_header, library_wrappers
from hooks.generator.lists import exports_map, names_json
from hooks.generator.lookalike import lookalike, lookalike_map
from hooks.generator.operations import Operations, elements, named, read_operations
from hooks.generator.row import Library, Row, TableError
from hooks.generator.table import read_tables
from hooks.generator.text import header
from hooks.generator.wrappers import wrappers

HOOKS = Path(__file__).resolve().parent
DRIVERS = ("cuda", "nvml")
FOLDERS = ("cublas", "cudnn", "nccl")  # of libraries above the driver


@dataclass(frozen=True)
class Tables:
    """All rows, sorted by library and symbol, and what they refer to."""

    rows: list[Row]
    libraries: list[Library]
    functions: dict[str, Functions]  # by folder
    operations: Operations  # of cuDNN's graphs

    def of(self, *names: str) -> list[Row]:
        """The rows of these libraries that have a prototype."""
        return [row for row in self.rows if row.prototype and row.library in names]


def read_all(hooks: Path) -> Tables:
    """Every table. Raises TableError."""
    tables = Tables([], [], {}, read_operations(hooks))
    types: frozenset[str] = frozenset()
    for name in DRIVERS:
        types |= declarations((hooks / name).glob("**/*.h")).types
        found = read_tables(sorted((hooks / name).glob("*.hooks")), hooks, name, types)
        tables.rows.extend(sorted(found, key=lambda row: row.symbol))
    shared = declarations((hooks / "library").glob("*.h"))
    for folder in FOLDERS:
        own = declarations((hooks / folder).glob("**/*.h"))
        constants = shared.constants | own.constants
        tables.functions[folder] = read_functions(hooks, folder, constants)
        reader = LibraryTables(folder, types | shared.types | own.types, tables.functions[folder])
        reader.read(sorted((hooks / folder).glob("*.hooks")), hooks)
        tables.libraries.extend(reader.libraries.values())
        tables.rows.extend(sorted(reader.rows, key=lambda row: (row.library, row.symbol)))
    return tables


@cache
def shipped() -> Tables:
    """Those of this folder, read once: nobody changes them."""
    return read_all(HOOKS)


def outputs(tables: Tables, machine: str) -> dict[str, str]:
    """The text of every file to write, by name."""
    rows, libraries = tables.rows, tables.libraries
    typed = [row for row in rows if row.prototype]
    drivers = tables.of(*DRIVERS)
    above = tables.of(*(library.name for library in libraries))
    made = {
        "driver.h": header("The functions whose parameters are known.")
        + driver_header(typed, libraries),
        "library.h": header("The functions of the libraries above the driver.")
        + library_header(libraries, above),
        "wrappers.c": header("The wrappers, and the tables that find them.")
        + '#include <string.h>\n#include "library.h"\n'
        + wrappers(drivers)
        + row_tables(typed, libraries),
        "exports.map": exports_map(rows, libraries, machine),
        "emulator_rows.h": header("Every function of the driver.")
        + emulator_rows(rows)
        + emulator_errors((HOOKS / "cuda" / "abi" / "result.h").read_text(encoding="utf-8")),
        "emulator_bodies.h": header("What the emulated functions do.") + emulator_bodies(rows),
        "emulator_calls.c": header("The emulated functions.") + emulator_calls(rows),
        "calls.h": header("Every wrapped function, called.") + calls_header(typed, libraries),
        "cudnn_roles.h": header("What operations of cuDNN's graphs do with their tensors.")
        + elements("ROLE_", tables.operations.roles),
        "cudnn_operations.h": header("Operations of cuDNN's graphs, and their attributes.")
        + named(tables.operations.constants),
        "cudnn_labels.h": header("What fused operations of cuDNN do with what labels name.")
        + elements("TOUCH_", tables.operations.modes),
        "names.json": names_json(rows),
    }
    for folder in FOLDERS:
        mine = [library for library in libraries if library.folder == folder]
        made[f"wrappers_{folder}.c"] = header(
            "The wrappers of a library above the driver."
        ) + library_wrappers(mine, above, tables.functions[folder])
    for library in libraries:
        made[f"lookalike_{library.name}.c"] = header(
            "What a library answers where there is none."
        ) + lookalike(library, above)
        for variant, version in enumerate(library.versions):
            name = f"lookalike_{library.name}_{version.rsplit('.', 1)[-1]}.map"
            made[name] = lookalike_map(library, variant)
    return made


def main(arguments: list[str] | None = None) -> int:
    """The command; returns its exit status, 1 when a table is wrong."""
    parser = argparse.ArgumentParser(description="Write what is made from the hook tables.")
    parser.add_argument("--out", type=Path, required=True, help="directory to write into")
    parser.add_argument("--machine", default=platform.machine(), choices=["x86_64", "aarch64"])
    options = parser.parse_args(arguments)
    try:
        tables = shipped()
        check_hot(tables.rows)
        made = outputs(tables, options.machine)
    except TableError as error:
        print(error, file=sys.stderr)
        return 1
    options.out.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        path = options.out / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
