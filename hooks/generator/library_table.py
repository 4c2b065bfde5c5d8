"""The tables of the libraries above the driver: families of functions, what their calls touch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from hooks.generator.expression import Call, GrammarError, parse_expression
from hooks.generator.functions import Functions
from hooks.generator.library_verbs import LibraryVerbs
from hooks.generator.prototype import Argument, Prototype, parse_prototype
from hooks.generator.row import Library, Passed, Row, TableError, Where
from hooks.generator.table import located, logical_lines

VARIANTS = 2
_LIBRARY = re.compile(r"library (?P<name>\w+)(?P<versions>(?: [\w.]+)*)")
_SET = re.compile(r"set (?P<name>\w+)(?P<places>(?: +\w+)+)")
_ROW = re.compile(
    r"(?P<prototype>[^()]*\(.*\))(?: for (?P<sets>\w+(?:, \w+)*))?(?P<wide> wide)?", re.DOTALL
)
_PASSED = re.compile(r'passed(?: for (?P<sets>\w+(?:, \w+)*))? "(?P<why>[^"]+)"')
_PLACE = re.compile(r"\{(\w+)\}")
_INT = re.compile(r"(?<!long )\bint\b")

Values = dict[str, str]  # what stands for each place of a set, in one function of a family


@dataclass
class _Block:
    """An unindented line and the indented ones below it."""

    where: Where
    text: str
    lines: list[tuple[Where, str]] = field(default_factory=list)


class LibraryTables:
    """Reads the tables of one folder: libraries and sets that one file defines hold in all."""

    def __init__(self, folder: str, types: Set[str], functions: Functions) -> None:
        self.libraries: dict[str, Library] = {}
        self.rows: list[Row] = []
        self._folder = folder
        self._types = types
        self._functions = functions
        self._sets: dict[str, list[Values]] = {}
        self._library: Library | None = None

    def read(self, files: Iterable[Path], root: Path) -> None:
        """Reads all tables. Raises TableError, with file names relative to `root`."""
        tables = [list(_blocks(file.relative_to(root).as_posix(), file)) for file in files]
        for block in (block for table in tables for block in table):
            with located(block.where):
                self._define(block)
        for table in tables:
            self._library = None
            for block in table:
                with located(block.where):
                    self._use(block)
        self._check()

    def _check(self) -> None:
        seen: dict[str, Row] = {}
        for row in self.rows:
            if row.symbol in seen:
                text = f"{row.symbol} is already at {seen[row.symbol].where}"
                raise TableError(row.where, text)
            seen[row.symbol] = row

    def _define(self, block: _Block) -> None:
        found = _SET.fullmatch(block.text)
        if found:
            if found["name"] in self._sets:
                raise GrammarError(f"set '{found['name']}' twice")
            self._sets[found["name"]] = _set(found["places"].split(), block)
        found = _LIBRARY.fullmatch(block.text)
        if found and found["versions"]:
            library = _library(block, found["name"], self._folder, found["versions"].split())
            known = self.libraries.setdefault(library.name, library)
            if known is not library:
                raise GrammarError(f"library '{library.name}' is already at {known.where}")

    def _use(self, block: _Block) -> None:
        if found := _LIBRARY.fullmatch(block.text):
            self._library = self.libraries.get(found["name"])
            if not self._library:
                raise GrammarError(f"library '{found['name']}' has no versions")
        elif _SET.fullmatch(block.text):
            pass
        elif found := _PASSED.fullmatch(block.text):
            self._pass(block, found["why"], found["sets"])
        elif found := _ROW.fullmatch(block.text):
            for values in self._family(found["sets"]):
                text = _filled(found["prototype"], values)
                self._row(block, parse_prototype(text, self._types), values)
                if found["wide"]:
                    self._row(block, wide(parse_prototype(text, self._types)), values)
        else:
            raise GrammarError(f"neither a row nor 'passed', 'set' or 'library': '{block.text}'")

    def _family(self, names: str | None) -> Sequence[Values]:
        values: list[Values] = []
        for name in names.split(", ") if names else []:
            if name not in self._sets:
                known = ", ".join(self._sets)
                raise GrammarError(f"unknown set '{name}'; known: {known}")
            values += self._sets[name]
        return values if names else [{}]

    def _in_library(self) -> Library:
        if not self._library:
            raise GrammarError("no library yet")
        return self._library

    def _pass(self, block: _Block, why: str, sets: str | None) -> None:
        for where, text in block.lines:
            with located(where):
                names = [_filled(name, v) for name in text.split() for v in self._family(sets)]
                for name in dict.fromkeys(names):
                    library = self._in_library().name
                    self.rows.append(Row(where, library, name, 0, None, None, Passed(why)))

    def _row(self, block: _Block, prototype: Prototype, values: Values) -> None:
        if not block.lines:
            raise GrammarError(f"{prototype.symbol} does not say what it touches")
        verbs = LibraryVerbs(prototype, self._functions)
        for where, text in block.lines:
            with located(where):
                verbs.read(_filled(text, values))
        library = self._in_library()
        treatment = verbs.treatment()
        if not isinstance(treatment, Passed) and prototype.result not in library.absent:
            raise GrammarError(f"{library.name} has no 'absent {prototype.result}'")
        self.rows.append(
            Row(block.where, library.name, prototype.symbol, 0, None, prototype, treatment)
        )


def _library(block: _Block, name: str, folder: str, versions: Sequence[str]) -> Library:
    if len(versions) > VARIANTS:
        raise GrammarError(f"more than {VARIANTS} versions")
    absent: dict[str, tuple[str, ...]] = {}
    scalars: Call | None = None
    handle, told, named = "", None, False
    for where, text in block.lines:
        with located(where):
            verb, _, rest = text.partition(" ")
            if verb == "absent":
                kind, *values = rest.split()
                if len(values) not in (1, len(versions)):
                    raise GrammarError(f"'{kind}' needs one value, or {len(versions)}")
                absent[kind] = tuple(values * (len(versions) // len(values)))
            elif verb == "handle":
                handle = rest
            elif verb == "named":
                named = True
            elif verb == "told":
                told = rest
            elif verb == "scalars":
                call = parse_expression(rest)
                if not isinstance(call, Call):
                    raise GrammarError("expected 'scalars FUNCTION(ARGUMENT)'")
                scalars = call
            else:
                raise GrammarError(f"unknown verb '{verb}'")
    if not handle:
        raise GrammarError(f"library '{name}' has no handle")
    return Library(block.where, name, folder, tuple(versions), absent, handle, scalars, named, told)


def wide(prototype: Prototype) -> Prototype:
    """The same function with numbers of 64 bits, as the vendor names and declares it."""
    arguments = tuple(
        Argument(_INT.sub("int64_t", argument.type), argument.name)
        for argument in prototype.arguments
    )
    return Prototype(prototype.result, f"{prototype.symbol}_64", arguments)


def _blocks(name: str, file: Path) -> Iterator[_Block]:
    block: _Block | None = None
    for where, text in logical_lines(name, file.read_text(encoding="utf-8")):
        if not text[0].isspace():
            if block:
                yield block
            block = _Block(where, text)
        elif block:
            block.lines.append((where, text.strip()))
        else:
            raise TableError(where, "an indented line that belongs to nothing")
    if block:
        yield block


def _set(places: Sequence[str], block: _Block) -> list[Values]:
    members: list[Values] = []
    for where, text in block.lines:
        with located(where):
            words = text.split()
            if len(words) != len(places):
                raise GrammarError(f"expected {len(places)} words")
            members.append(dict(zip(places, words, strict=True)))
    return members


def _filled(text: str, values: Mapping[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        if found[1] not in values:
            raise GrammarError(f"nothing stands for '{found[0]}'")
        word = values[found[1]]
        return "" if word == "-" else word.replace("~", " ")

    return _PLACE.sub(value, text)
