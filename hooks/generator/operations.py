"""What cuDNN's graphs and fused operations do with what attributes and labels name."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from hooks.generator.row import TableError
from hooks.generator.table import logical_lines

_KIND = re.compile(r"(?P<number>\d+) (?P<name>\w+)")
_ATTRIBUTE = re.compile(r"\s+(?P<number>\d+) (?P<name>\w+) (?P<role>[a-z]+)")
_LABEL = re.compile(r"(?P<number>\d+) (?P<name>\w+) (?P<mode>[a-z]+)")


@dataclass(frozen=True)
class Operations:
    """The vendor's constants by name; by number, roles of attributes and modes of labels."""

    constants: dict[str, int] = field(default_factory=dict)
    roles: dict[int, str] = field(default_factory=dict)
    modes: dict[int, str] = field(default_factory=dict)


def read_operations(hooks: Path) -> Operations:
    """All tables of roles and of labels. Raises TableError."""
    found = Operations()
    for file in [*sorted(hooks.glob("*/*.roles")), *sorted(hooks.glob("*/*.labels"))]:
        _read(file.relative_to(hooks).as_posix(), file.read_text(encoding="utf-8"), found)
    return found


def _read(file: str, table: str, found: Operations) -> None:
    for where, text in logical_lines(file, table):
        if attribute := _ATTRIBUTE.fullmatch(text):
            name, number = f"CUDNN_ATTR_OPERATION_{attribute['name']}", int(attribute["number"])
            if number in found.roles:
                raise TableError(where, f"attribute {number} twice")
            found.roles[number] = attribute["role"]
        elif (label := _LABEL.fullmatch(text)) and file.endswith(".labels"):
            name, number = f"CUDNN_PTR_{label['name']}", int(label["number"])
            found.modes[number] = label["mode"]
        elif kind := _KIND.fullmatch(text):
            name = f"CUDNN_BACKEND_OPERATION_{kind['name']}_DESCRIPTOR"
            number = int(kind["number"])
        else:
            raise TableError(where, "neither 'NUMBER NAME' nor 'NUMBER NAME role'")
        if name in found.constants:
            raise TableError(where, f"{name} twice")
        found.constants[name] = number


def elements(prefix: str, values: dict[int, str]) -> str:
    """The elements of an array of constants that begin with `prefix`, by number."""
    rows = sorted(values.items())
    return "".join(f"[{number}] = {prefix}{value.upper()},\n" for number, value in rows)


def named(constants: dict[str, int]) -> str:
    """The constants as C knows them, but for labels."""
    rows = [row for row in constants.items() if not row[0].startswith("CUDNN_PTR_")]
    return "".join(f"#define {name} {number}\n" for name, number in rows)
