"""C prototypes as the vendor writes them."""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass

from hooks.generator.expression import GrammarError

_BUILTIN = frozenset(
    [
        "const",
        "void",
        "char",
        "short",
        "int",
        "long",
        "float",
        "double",
        "unsigned",
        "size_t",
        "int32_t",
        "int64_t",
    ]
)
_PROTOTYPE = re.compile(r"(?P<result>[\w ]+?)\s+(?P<symbol>\w+)\s*\((?P<arguments>.*)\)", re.DOTALL)
_ARGUMENT = re.compile(r"(?P<type>.*[\s*])(?P<name>\w+)(?P<array>\[\])?", re.DOTALL)


@dataclass(frozen=True)
class Argument:
    """One argument: its type without the name, and the name."""

    type: str
    name: str

    @property
    def is_pointer(self) -> bool:
        """True for what C calls a pointer; a device address (CUdeviceptr) is none."""
        return self.type.endswith("*")

    def __str__(self) -> str:
        return f"{self.type}{'' if self.is_pointer else ' '}{self.name}"


@dataclass(frozen=True)
class Prototype:
    """An exported function."""

    result: str
    symbol: str
    arguments: tuple[Argument, ...]

    def argument(self, name: str) -> Argument:
        """The argument of that name. Raises GrammarError."""
        for argument in self.arguments:
            if argument.name == name:
                return argument
        raise GrammarError(f"unknown argument '{name}' of {self.symbol}")


def parse_prototype(text: str, types: Set[str]) -> Prototype:
    """Reads `result symbol(type name, ...)`; types are C's or in `types`. Raises GrammarError."""
    found = _PROTOTYPE.fullmatch(text.strip())
    if not found:
        raise GrammarError(f"not a prototype: '{text.strip()}'")
    _check_type(found["result"], types)
    inside = " ".join(found["arguments"].split())
    pieces = [] if inside == "void" else inside.split(",")
    arguments = tuple(_argument(piece.strip(), types) for piece in pieces)
    seen = [argument.name for argument in arguments]
    for name in seen:
        if seen.count(name) > 1:
            raise GrammarError(f"two arguments named '{name}'")
    return Prototype(found["result"], found["symbol"], arguments)


def _argument(text: str, types: Set[str]) -> Argument:
    found = _ARGUMENT.fullmatch(text)
    if not found:
        raise GrammarError(f"not an argument: '{text}'")
    _check_type(found["type"], types)
    kind = found["type"].strip() + (" *" if found["array"] else "")
    return Argument(kind.replace("* *", "**"), found["name"])


def _check_type(text: str, types: Set[str]) -> None:
    words = text.replace("*", " ").split()
    if not set(words) - {"const"}:
        raise GrammarError(f"not a type: '{text.strip()}'")
    for word in words:
        if word not in _BUILTIN and word not in types:
            raise GrammarError(f"unknown type '{word}'")
