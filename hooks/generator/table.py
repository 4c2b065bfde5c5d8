"""The tables: which functions there are, which version of each, and what a call of it touches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hooks.generator.expression import GrammarError
from hooks.generator.prototype import Prototype, parse_prototype
from hooks.generator.row import Passed, Row, TableError, Where
from hooks.generator.verbs import Verbs

SUFFIXES = ("ptds", "ptsz")


@dataclass
class _Draft:
    """A row while its indented lines are read."""

    where: Where
    since: int
    prototype: Prototype
    suffix: str | None
    lines: list[tuple[Where, str]] = field(default_factory=list)


_ROW = re.compile(r"(?P<since>\d+)\s+(?P<prototype>[^()]*\(.*\))(?:\s+(?P<suffix>\w+))?", re.DOTALL)
_PASSED = re.compile(r'passed\s+"(?P<why>[^"]+)"')
_NAME = re.compile(r"(?P<since>\d+)\s+(?P<symbol>\w+)(?:\s+(?P<suffix>\w+))?")


def read_tables(files: Sequence[Path], root: Path, library: str, types: Set[str]) -> list[Row]:
    """Reads all tables of one library. Raises TableError, with file names relative to `root`."""
    rows = [row for file in files for row in read_table(file, root, library, types)]
    _check(rows)
    return rows


def read_table(file: Path, root: Path, library: str, types: Set[str]) -> list[Row]:
    """Reads one table by itself. Raises TableError."""
    name = file.relative_to(root).as_posix()
    rows: list[Row] = []
    draft: _Draft | None = None
    why: str | None = None

    def finish() -> None:
        nonlocal draft
        if draft:
            rows.append(_row(draft, library))
        draft = None

    for where, text in logical_lines(name, file.read_text(encoding="utf-8")):
        with located(where):
            if not text[0].isspace():
                finish()
                why = None
                if found := _PASSED.fullmatch(text):
                    why = found["why"]
                else:
                    draft = _draft(where, text, types)
            elif draft:
                draft.lines.append((where, text.strip()))
            elif why:
                rows.append(_name(where, text.strip(), library, why))
            else:
                raise GrammarError("an indented line that belongs to nothing")
    finish()
    return rows


def logical_lines(file: str, text: str) -> Iterator[tuple[Where, str]]:
    """Lines without comments; a prototype whose parenthesis is open goes on in the next line."""
    kept = ""
    start = 0
    for number, line in enumerate(text.splitlines(), 1):
        line = line.split("#", 1)[0].rstrip()
        if not line and not kept:
            continue
        start = start if kept else number
        kept = f"{kept} {line.strip()}" if kept else line
        if kept.count("(") <= kept.count(")"):
            yield Where(file, start), kept
            kept = ""
    if kept:
        raise TableError(Where(file, start), "a parenthesis is never closed")


def _suffix(word: str | None) -> str | None:
    if word is not None and word not in SUFFIXES:
        raise GrammarError(f"unknown word '{word}'; known: {', '.join(SUFFIXES)}")
    return word


def _draft(where: Where, text: str, types: Set[str]) -> _Draft:
    found = _ROW.fullmatch(text)
    if not found:
        raise GrammarError(f"neither a row nor 'passed \"why\"': '{text}'")
    prototype = parse_prototype(found["prototype"], types)
    return _Draft(where, int(found["since"]), prototype, _suffix(found["suffix"]))


def _name(where: Where, text: str, library: str, why: str) -> Row:
    found = _NAME.fullmatch(text)
    if not found:
        raise GrammarError(f"expected 'version symbol': '{text}'")
    since, symbol, suffix = int(found["since"]), found["symbol"], _suffix(found["suffix"])
    return Row(where, library, symbol, since, suffix, None, Passed(why))


def _row(draft: _Draft, library: str) -> Row:
    if not draft.lines:
        raise TableError(draft.where, f"{draft.prototype.symbol} does not say what it touches")
    prototype = draft.prototype
    verbs = Verbs(prototype)
    for where, text in draft.lines:
        with located(where):
            verbs.read(text)
    with located(draft.where):
        treatment = verbs.treatment()
    return Row(
        draft.where, library, prototype.symbol, draft.since, draft.suffix, prototype, treatment
    )


@contextmanager
def located(where: Where) -> Iterator[None]:
    """Tells where a mistake is: GrammarError becomes TableError."""
    try:
        yield
    except GrammarError as error:
        raise TableError(where, str(error)) from None


def _check(rows: Sequence[Row]) -> None:
    """No symbol twice; a later version of a wrapped name must not fall to the older wrapper."""
    seen: dict[str, Row] = {}
    for row in rows:
        if row.symbol in seen:
            raise TableError(row.where, f"{row.symbol} is already at {seen[row.symbol].where}")
        seen[row.symbol] = row
    wrapped: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: row.since):
        if row.wrapped:
            wrapped.setdefault(row.base, row)
    versions: dict[tuple[str, int], Row] = {}
    for row in rows:
        older = wrapped.get(row.base)
        if older and not row.prototype and row.since > older.since:
            text = f"{row.symbol} needs a prototype: {older.symbol} has a wrapper"
            raise TableError(row.where, text)
        twin = versions.setdefault((row.base, row.since), row)
        if twin is not row:
            raise TableError(row.where, f"{row.symbol} starts at the version of {twin.symbol}")
