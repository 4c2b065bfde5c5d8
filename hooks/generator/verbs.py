"""The indented lines of a row: what becomes of a call."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from hooks.generator.expression import Extent, GrammarError, names, parse_extent, to_c
from hooks.generator.prototype import Prototype
from hooks.generator.row import Custom, HostSource, Passed, Recorded, Then, Touch

KINDS = ("launch", "copy", "memset", "graph", "host", "record", "after", "wait")
MODES = ("read", "write", "update", "scratch")
STATUSES = ("recorded", "accounted", "answered")
FORMS = {"bytes": 1, "rows": 3}  # form of an extent: number of its operands
LOCALS = ("op", "status", "variant")  # names that a made wrapper uses itself


class Lines:
    """Those of one row: `read` each, then ask for the `treatment`."""

    def __init__(self, prototype: Prototype) -> None:
        self._prototype = prototype
        self._whole: Custom | Passed | None = None

    def _read_whole(self, verb: str, rest: str) -> None:
        """`pass` or `custom`, beside which nothing else stands."""
        if self._whole:
            raise GrammarError("'custom' or 'pass' twice")
        status, _, note = rest.partition(" ")
        if verb == "pass":
            self._whole = Passed(quoted(rest))
        elif status in STATUSES:
            self._whole = Custom(status, quoted(note.strip()))
        else:
            raise GrammarError(f"unknown status '{status}'; known: {', '.join(STATUSES)}")


class Verbs(Lines):
    """The lines of a row of the driver."""

    def __init__(self, prototype: Prototype) -> None:
        super().__init__(prototype)
        self._once: dict[str, str] = {}
        self._touches: list[Touch] = []
        self._sources: list[HostSource] = []

    def read(self, text: str) -> None:
        """Takes one line. Raises GrammarError."""
        verb, _, rest = text.partition(" ")
        rest = rest.strip()
        if verb in ("pass", "custom"):
            self._read_whole(verb, rest)
        elif verb in ("then", "unless", "note"):
            self._set_once(verb, quoted(rest) if verb == "note" else rest)
        elif verb == "fast_path":
            self._set_once(verb, rest)
        elif verb == "kind":
            if rest not in KINDS:
                raise GrammarError(f"unknown kind '{rest}'; known: {', '.join(KINDS)}")
            self._set_once(verb, rest)
        elif verb == "stream":
            self._set_once(verb, self._typed(rest, ("CUstream",)))
        elif verb == "object":
            self._set_once(verb, self._typed(rest, ("CUcontext", "CUevent", "CUstream")))
        elif verb in MODES:
            argument, _, extent = rest.partition(" ")
            self._touches.append(Touch(verb, self._address(argument), self._extent(extent), text))
        elif verb in ("host", "pinned"):
            self._sources.append(self._source(verb, rest, text))
        else:
            raise GrammarError(f"unknown verb '{verb}'")

    def treatment(self) -> Recorded | Custom | Then | Passed:
        """What the lines say together. Raises GrammarError."""
        whole = self._whole
        line = self._once.pop("fast_path", None)
        if line is not None and (line or not isinstance(whole, Custom)):
            raise GrammarError("'fast_path' stands alone, below 'custom'")
        if whole:
            if self._once or self._touches or self._sources:
                raise GrammarError("a description beside 'custom' or 'pass'")
            fast_path = line is not None
            return replace(whole, fast_path=fast_path) if isinstance(whole, Custom) else whole
        if "then" in self._once:
            return self._then(self._once)
        if "kind" not in self._once:
            raise GrammarError("no kind")
        for argument in self._prototype.arguments:
            if argument.name in LOCALS:
                raise GrammarError(f"argument '{argument.name}' needs another name")
        once = self._once
        touches, sources = tuple(self._touches), tuple(self._sources)
        return Recorded(once["kind"], once.get("stream"), once.get("object"), touches, sources)

    def _then(self, once: dict[str, str]) -> Then:
        if "note" not in once or not once.keys() <= {"then", "unless", "note"} or self._touches:
            raise GrammarError("'then' takes a 'note', and 'unless' beside it")
        return Then(once["then"], once["note"], once.get("unless"))

    def _set_once(self, verb: str, value: str) -> None:
        if verb in self._once:
            raise GrammarError(f"'{verb}' twice")
        self._once[verb] = value

    def _typed(self, name: str, types: Sequence[str]) -> str:
        argument = self._prototype.argument(name)
        if argument.type not in types:
            wanted = " or ".join(types)
            raise GrammarError(f"argument '{name}' is a {argument.type}, not a {wanted}")
        return name

    def _address(self, name: str) -> str:
        argument = self._prototype.argument(name)
        if not argument.is_pointer and argument.type != "CUdeviceptr":
            raise GrammarError(f"argument '{name}' is a {argument.type}, not an address")
        return name

    def _extent(self, text: str) -> Extent:
        extent = parse_extent(text.strip())
        if extent.form not in FORMS:
            raise GrammarError(f"unknown extent '{extent.form}'; known: {', '.join(FORMS)}")
        if len(extent.operands) != FORMS[extent.form]:
            raise GrammarError(f"'{extent.form}' takes {FORMS[extent.form]} operands")
        for operand in extent.operands:
            to_c(operand)
            for name in names(operand):
                argument = self._prototype.argument(name)
                if argument.is_pointer or argument.type.startswith("CU"):
                    raise GrammarError(f"argument '{name}' is a {argument.type}, not a number")
        return extent

    def _source(self, verb: str, words: str, text: str) -> HostSource:
        source, _, rest = words.partition(" into ")
        target, _, extent = rest.strip().partition(" ")
        if not extent:
            raise GrammarError(f"expected '{verb} SOURCE into TARGET bytes(...)'")
        address = self._address
        extent_of = self._extent(extent)
        return HostSource(
            verb == "pinned", address(source.strip()), address(target), extent_of, text
        )


def quoted(text: str) -> str:
    """The words between quotes. Raises GrammarError."""
    found = re.fullmatch(r'"([^"]+)"', text)
    if not found:
        raise GrammarError(f"expected words in quotes, found '{text}'")
    return found[1]
