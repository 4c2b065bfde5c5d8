"""What the headers of types beside the tables declare. Reads our own regular style, not any C."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_BODY = r"\{(?P<body>(?:[^{}]|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\})*)\}"  # four levels deep
_ENUM = re.compile(r"typedef enum \{(?P<body>[^}]*)\} (?P<name>\w+);")
_RECORD = re.compile(rf"typedef (?:struct|union) {_BODY} (?P<name>\w+);")
_ALIAS = re.compile(r"typedef [\w *]*?\b(?P<name>\w+);|typedef [\w *]+\(\*(?P<function>\w+)\)")
_MACRO = re.compile(r"^#define (?P<name>\w+) +\S", re.MULTILINE)
_MEMBER = re.compile(
    rf"\s*(?:(?:struct|union) {_BODY}(?: (?P<inner>\w+))?|[^;{{]*?(?P<name>\w+)(?:\[[^;]*\])?);"
)


@dataclass(frozen=True)
class Declarations:
    """Names of types; of constants, macros too; and `type.field.field` of records."""

    types: frozenset[str]
    constants: frozenset[str]
    fields: frozenset[str]


def declarations(headers: Iterable[Path]) -> Declarations:
    """Everything that the headers declare."""
    types: set[str] = set()
    constants: set[str] = set()
    fields: set[str] = set()
    for header in headers:
        text = _COMMENT.sub("", header.read_text(encoding="utf-8"))
        constants.update(found["name"] for found in _MACRO.finditer(text))
        for found in _ENUM.finditer(text):
            types.add(found["name"])
            constants.update(re.findall(r"(\w+) =", found["body"]))
        for found in _RECORD.finditer(text):
            types.add(found["name"])
            fields.update(f"{found['name']}.{path}" for path in _paths(found["body"]))
        for found in _ALIAS.finditer(text):
            types.add(found["name"] or found["function"])
    return Declarations(frozenset(types), frozenset(constants), frozenset(fields))


def _paths(body: str) -> Iterator[str]:
    for member in _MEMBER.finditer(body):
        if member["name"]:
            yield member["name"]
        elif member["inner"]:
            yield member["inner"]
            yield from (f"{member['inner']}.{path}" for path in _paths(member["body"]))
        else:
            yield from _paths(member["body"])
