"""The small expressions of a table row: C arithmetic over the arguments of the call."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(r"\s*(?:(?P<number>\d+)|(?P<name>[A-Za-z_]\w*)|(?P<sign>[-+*/%(),]))")
PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2}


class GrammarError(ValueError):
    """A row says something that cannot be read; the text names what."""


@dataclass(frozen=True)
class Number:
    """A decimal integer."""

    text: str


@dataclass(frozen=True)
class Name:
    """An argument of the call."""

    text: str


@dataclass(frozen=True)
class Operation:
    """`left operator right`, with C's precedence."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Call:
    """`name(argument, ...)`: a function of the library's extent.h."""

    name: str
    arguments: tuple[Expression, ...]


Expression = Number | Name | Operation | Call


@dataclass(frozen=True)
class Extent:
    """How much is touched: a form, such as `bytes` or `rows`, and its operands."""

    form: str
    operands: tuple[Expression, ...]


def parse_extent(text: str) -> Extent:
    """Reads `form(expression, ...)`. Raises GrammarError."""
    parser = _Parser(text)
    form = parser.name()
    parser.expect("(")
    operands = parser.list()
    parser.expect_end()
    return Extent(form, operands)


def parse_expression(text: str) -> Expression:
    """Reads an expression. Raises GrammarError."""
    parser = _Parser(text)
    found = parser.expression()
    parser.expect_end()
    return found


def names(expression: Expression) -> Iterator[str]:
    """The arguments an expression mentions, left to right."""
    match expression:
        case Name(text):
            yield text
        case Operation(_, left, right):
            yield from names(left)
            yield from names(right)
        case Call(_, arguments):
            for argument in arguments:
                yield from names(argument)


def to_c(expression: Expression) -> str:
    """In C, with no parentheses but those it needs. Raises GrammarError at a call."""
    match expression:
        case Number(text) | Name(text):
            return text
        case Operation(operator, left, right):
            level = PRECEDENCE[operator]
            return f"{_operand(left, level)} {operator} {_operand(right, level + 1)}"
        case Call(name, _):
            raise GrammarError(f"no function is known here, not even '{name}'")


def _operand(expression: Expression, level: int) -> str:
    text = to_c(expression)
    loose = isinstance(expression, Operation) and PRECEDENCE[expression.operator] < level
    return f"({text})" if loose else text


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))

    def expression(self, level: int = 1) -> Expression:
        left = self._atom()
        while self._tokens and PRECEDENCE.get(self._tokens[0], 0) >= level:
            operator = self._tokens.pop(0)
            left = Operation(operator, left, self.expression(PRECEDENCE[operator] + 1))
        return left

    def name(self) -> str:
        if not self._tokens or not self._tokens[0].isidentifier():
            raise GrammarError(f"expected a name in '{self._text}'")
        return self._tokens.pop(0)

    def accept(self, sign: str) -> bool:
        if self._tokens[:1] != [sign]:
            return False
        self._tokens.pop(0)
        return True

    def list(self) -> tuple[Expression, ...]:
        """What stands between parentheses, the second one included."""
        items = [self.expression()]
        while self.accept(","):
            items.append(self.expression())
        self.expect(")")
        return tuple(items)

    def expect(self, sign: str) -> None:
        if not self.accept(sign):
            raise GrammarError(f"expected '{sign}' in '{self._text}'")

    def expect_end(self) -> None:
        if self._tokens:
            raise GrammarError(f"unexpected '{self._tokens[0]}' in '{self._text}'")

    def _atom(self) -> Expression:
        if self.accept("("):
            inner = self.expression()
            self.expect(")")
            return inner
        if self._tokens and self._tokens[0].isdigit():
            return Number(self._tokens.pop(0))
        name = self.name()
        return Call(name, self.list()) if self.accept("(") else Name(name)


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if not found:
            raise GrammarError(f"unexpected '{text[at:].strip()[0]}' in '{text}'")
        yield found.group().strip()
        at = found.end()
