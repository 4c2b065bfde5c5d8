"""The indented lines of a library's row: what a call of it touches."""

from __future__ import annotations

import re
from dataclasses import replace

from hooks.generator.expression import Call, Expression, GrammarError, Name, parse_expression
from hooks.generator.functions import SPAN, Functions
from hooks.generator.prototype import Prototype
from hooks.generator.row import Condition, Custom, LibraryTouch, Passed, Told
from hooks.generator.verbs import MODES, Lines, quoted

LOCALS = ("call", "status", "variant", "device")  # names that a made wrapper uses itself
_TARGET = re.compile(r"(?P<argument>\w+)(?:\[(?P<count>[^\]]+)\])?")
_WHEN = re.compile(r"(?P<left>.+?)\s*(?P<operator>==|!=)\s*(?P<right>.+?)\s+(?P<rest>(?:\w+) .*)")
_OF = re.compile(r"(?P<extent>.*?)(?:(?:^|\s+)of\s+(?P<type>.+))?")


class LibraryVerbs(Lines):
    """The lines of a row of a library."""

    def __init__(self, prototype: Prototype, functions: Functions) -> None:
        super().__init__(prototype)
        self._functions = functions
        self._note: str | None = None
        self._together = False
        self._touches: list[LibraryTouch] = []

    def read(self, text: str) -> None:
        """Takes one line. Raises GrammarError."""
        verb, _, rest = text.partition(" ")
        rest = rest.strip()
        if verb in ("pass", "custom"):
            self._read_whole(verb, rest)
        elif verb == "touches":
            if self._note:
                raise GrammarError("'touches' twice")
            self._note = quoted(rest)
        elif text == "together":
            self._together = True
        elif verb == "when":
            self._when(rest, text)
        elif verb == "scalar":
            mode, _, what = rest.partition(" ")
            self._touches.append(self._touch(mode, what, text, scalar=True))
        else:
            self._touches.append(self._touch(verb, rest, text))

    def treatment(self) -> Told | Custom | Passed:
        """What the lines say together. Raises GrammarError."""
        if self._whole:
            if self._touches or self._note or self._together:
                raise GrammarError("a description beside 'custom' or 'pass'")
            return self._whole
        for argument in self._prototype.arguments:
            if argument.name in LOCALS:
                raise GrammarError(f"argument '{argument.name}' needs another name")
        return Told(tuple(self._touches), self._note, self._together)

    def _when(self, rest: str, text: str) -> None:
        """`CONDITION read WRITTEN`, about a touch above; or `CONDITION TOUCH`."""
        found = _WHEN.fullmatch(rest)
        if not found:
            raise GrammarError("expected 'when A == B TOUCH' or 'when A != B TOUCH'")
        left, right = (parse_expression(found[side]) for side in ("left", "right"))
        self._functions.check(right, self._prototype)
        self._check_left(left)
        condition = Condition(left, found["operator"], right)
        mode, _, what = found["rest"].partition(" ")
        if what.isidentifier() and not self._is_scalar(what):
            if mode != "read":
                raise GrammarError(f"expected 'read {what}'")
            self._also_read(what, condition, text)
        elif mode == "scalar":
            raise GrammarError("a scalar cannot be conditional")
        else:
            self._touches.append(replace(self._touch(mode, what, text), only=condition))

    def _check_left(self, left: Expression) -> None:
        if not (isinstance(left, Name) and self._is_scalar(left.text)):
            found = self._functions.check(left, self._prototype)
            if found == SPAN or found.endswith("*"):
                raise GrammarError(f"a {found} is no number, nor said to be a scalar")

    def _also_read(self, argument: str, condition: Condition, text: str) -> None:
        for i, touch in enumerate(self._touches):
            if touch.argument == argument and touch.mode == "write" and not touch.reads:
                words = f"{touch.text}; {text}"
                self._touches[i] = replace(touch, reads=condition, text=words)
                return
        raise GrammarError(f"'{argument}' is not written above")

    def _is_scalar(self, name: str) -> bool:
        return any(touch.scalar and touch.argument == name for touch in self._touches)

    def _touch(self, mode: str, what: str, text: str, *, scalar: bool = False) -> LibraryTouch:
        if mode not in MODES:
            raise GrammarError(f"unknown verb '{mode}'")
        target, _, rest = what.strip().partition(" ")
        found = _TARGET.fullmatch(target)
        if not found:
            raise GrammarError(f"expected an argument, found '{target}'")
        argument = self._prototype.argument(found["argument"])
        count = parse_expression(found["count"]) if found["count"] else None
        by_value = scalar and argument.type.count("*") == 0
        if argument.type.count("*") < (2 if count else 1) and not by_value:
            wanted = "a device array of addresses" if count else "an address"
            raise GrammarError(f"argument '{argument.name}' is a {argument.type}, not {wanted}")
        if count:
            self._functions.check(count, self._prototype)
        how = _OF.fullmatch(rest.strip())
        assert how
        extent = parse_expression(how["extent"]) if how["extent"] else None
        kind = parse_expression(how["type"]) if how["type"] else None
        if kind:
            self._functions.check(kind, self._prototype)
        if extent is None and not scalar:
            raise GrammarError("expected an extent")
        if extent is not None and self._functions.check(extent, self._prototype) != SPAN:
            raise GrammarError(f"'{how['extent']}' is no extent")
        assert extent is None or isinstance(extent, Call)
        return LibraryTouch(mode, argument.name, count, extent, kind, None, scalar, text)
