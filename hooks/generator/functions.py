"""The C functions that a library's rows may call: extents, types and numbers, from extent.h."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from hooks.generator.expression import (
    PRECEDENCE,
    Call,
    Expression,
    GrammarError,
    Name,
    Number,
    Operation,
)
from hooks.generator.prototype import Prototype

SPAN = "struct span"
TYPE = "cudaDataType_t"
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_FUNCTION = re.compile(
    r"^(?:static inline )?(?P<result>struct span|\w+) (?P<name>\w+)"
    r"\((?P<parameters>[^)]*)\)\s*[;{]",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Function:
    """A function a row may call, and the types of what the row gives it.

    A first parameter named `variant` is given by the wrapper, not by the row.
    """

    c_name: str
    result: str
    parameters: tuple[str, ...]
    takes_variant: bool


class Functions:
    """Functions by the name in rows: `library_bytes` is `bytes`; a folder's own come first."""

    def __init__(self, functions: Mapping[str, Function], constants: Set[str]) -> None:
        self._functions = functions
        self._constants = constants

    def check(self, expression: Expression, prototype: Prototype) -> str:
        """The type of an expression: SPAN, a C type, or "number". Raises GrammarError."""
        match expression:
            case Number():
                return "number"
            case Name(text) if text in self._constants:
                return "number"
            case Name(text):
                return prototype.argument(text).type
            case Operation(_, left, right):
                for side in (left, right):
                    self._number(self.check(side, prototype))
                return "number"
            case Call(name, arguments):
                function = self._function(name)
                if len(arguments) != len(function.parameters):
                    raise GrammarError(f"'{name}' takes {len(function.parameters)} operands")
                for wanted, argument in zip(function.parameters, arguments, strict=True):
                    found = self.check(argument, prototype)
                    if (wanted == SPAN) != (found == SPAN):
                        raise GrammarError(f"'{name}' takes a {wanted}, not a {found}")
                    if wanted != SPAN and wanted.endswith("*") != found.endswith("*"):
                        raise GrammarError(f"'{name}' takes a {wanted}, not a {found}")
                return function.result

    def to_c(self, expression: Expression) -> str:
        """The expression in C, inside a wrapper."""
        match expression:
            case Number(text) | Name(text):
                return text
            case Operation(operator, left, right):
                level = PRECEDENCE[operator]
                return f"{self._side(left, level)} {operator} {self._side(right, level + 1)}"
            case Call(name, arguments):
                function = self._function(name)
                items = ["variant"] if function.takes_variant else []
                items += [self.to_c(argument) for argument in arguments]
                return f"{function.c_name}({', '.join(items)})"

    def asked(self, expression: Expression) -> Iterator[tuple[str, str]]:
        """What the expression asks the library: each time the type of the answer, and the C."""
        match expression:
            case Operation(_, left, right):
                yield from self.asked(left)
                yield from self.asked(right)
            case Call(name, arguments):
                function = self._function(name)
                for argument in arguments:
                    yield from self.asked(argument)
                if function.takes_variant:
                    yield function.result, self.to_c(expression)

    def _side(self, expression: Expression, level: int) -> str:
        # 64 bits from the first operand on: the program's own integers may have 32
        text = self.to_c(expression)
        if isinstance(expression, Operation):
            return f"({text})" if PRECEDENCE[expression.operator] < level else text
        return f"(int64_t){text}"

    def _function(self, name: str) -> Function:
        if name not in self._functions:
            known = ", ".join(sorted(self._functions))
            raise GrammarError(f"unknown function '{name}'; known: {known}")
        return self._functions[name]

    @staticmethod
    def _number(found: str) -> None:
        if found == SPAN or found.endswith("*"):
            raise GrammarError(f"a {found} is not a number")


def read_functions(hooks: Path, folder: str, constants: Set[str]) -> Functions:
    """What the shared extent.h and the folder's own declare."""
    functions: dict[str, Function] = {}
    for prefix in ("library", folder):
        header = hooks / prefix / "extent.h"
        if header.exists():
            functions.update(_declared(prefix, header.read_text(encoding="utf-8")))
    return Functions(functions, constants)


def _declared(prefix: str, text: str) -> Iterable[tuple[str, Function]]:
    for found in _FUNCTION.finditer(_COMMENT.sub("", text)):
        if found["name"].startswith(f"{prefix}_"):
            parameters = [" ".join(piece.split()) for piece in found["parameters"].split(",")]
            variant = parameters[0] == "int variant"
            types = [re.sub(r"\w+$", "", piece).strip() for piece in parameters[variant:]]
            function = Function(found["name"], found["result"], tuple(types), variant)
            yield found["name"].removeprefix(f"{prefix}_"), function
