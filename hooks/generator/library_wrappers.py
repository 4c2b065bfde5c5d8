"""The wrappers of libraries: launches inside a library's call touch what was told of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from hooks.generator.expression import Expression, GrammarError, Name
from hooks.generator.functions import Functions
from hooks.generator.hot import PRODUCTS
from hooks.generator.prototype import Argument, Prototype
from hooks.generator.row import Condition, Custom, Library, LibraryTouch, Row, TableError, Told
from hooks.generator.text import listed
from hooks.generator.wrappers import parameters

# what a pointer to such elements holds; None: bytes
_ELEMENTS = {
    "void": None,
    "char": None,
    "unsigned char": None,
    "float": "CUDA_R_32F",
    "double": "CUDA_R_64F",
    "int": "CUDA_R_32I",
    "int32_t": "CUDA_R_32I",
    "int64_t": "CUDA_R_64I",
    "cuComplex": "CUDA_C_32F",
    "cuDoubleComplex": "CUDA_C_64F",
    "__half": "CUDA_R_16F",
    "__nv_bfloat16": "CUDA_R_16BF",
}

_HEAD = """
#include "library.h"

#include "base/hot.h"
#include "driver/home.h"
#include "driver/real.h"
#include "library/call.h"
"""

_EXPORT = """
/* Each version of the library has a wrapper of its own: programs bind by the version they were
 * linked with. None is the default: a program linked with a library without versions, as the
 * toolkit's stubs are, asks for none, and keeps whatever library there is. */
#define DEFAULT(function) __attribute__((alias(#function), visibility("default")))
#define EXPORT(function, symbol, version) \\
    extern __typeof__(function) export_##function DEFAULT(function); \\
    __asm__(".symver export_" #function ", " #symbol version)
#define EXPORT_NAMED(function, symbol) extern __typeof__(function) symbol DEFAULT(function)
"""


def wrapper_names(library: Library, row: Row) -> list[str]:
    """The C functions that programs get, one a version of the library."""
    tails = [version.rsplit(".", 1)[-1] for version in library.versions]
    return [f"of_{tail}_{row.symbol}" for tail in tails]


def absent_name(library: Library, result: str, variant: int) -> str:
    """The C function that stands in for a missing one."""
    kind = "".join(letter for letter in result if letter.isalnum() or letter == "_")
    return f"absent_{library.name}_{kind}_{variant}"


def library_header(libraries: Sequence[Library], rows: Sequence[Row]) -> str:
    """library.h: types, and the declarations of what is written by hand."""
    lines = ["#ifndef ULMS_LIBRARY_H", "#define ULMS_LIBRARY_H", "", '#include "driver.h"']
    lines += ['#include "library/extent.h"']
    for folder in dict.fromkeys(library.folder for library in libraries):
        lines += [f'#include "{folder}/abi.h"', f'#include "{folder}/extent.h"']
    lines += ["", "struct call;"]
    lines += [f"void {library.told}(struct call *call);" for library in libraries if library.told]
    lines.append("")
    by_name = {library.name: library for library in libraries}
    for row in rows:
        prototype = row.prototype
        assert prototype
        head = f"typedef {prototype.result} (*pfn_{row.symbol})("
        lines.append(listed(head, parameters(prototype), ";"))
        items = ["int variant", *(str(argument) for argument in prototype.arguments)]
        match row.treatment:
            case Custom():
                head = f"{prototype.result} custom_{row.symbol}("
                lines.append(listed(head, items, ";"))
            case Told(_, note) if note:
                head = f"void touches_{row.symbol}("
                lines.append(listed(head, ["struct call *call", *items], ";"))
        if row.wrapped:
            names = ", ".join(wrapper_names(by_name[row.library], row))
            lines.append(f"__typeof__(*(pfn_{row.symbol})0) {names};")
    for library in libraries:
        for result, answers in library.absent.items():
            for variant in range(len(answers)):
                lines.append(f"{result} {absent_name(library, result, variant)}(void);")
    return "\n".join([*lines, "", "#endif", ""])


def library_wrappers(
    libraries: Sequence[Library], rows: Sequence[Row], functions: Functions
) -> str:
    """The wrappers of all libraries of one folder. Raises TableError."""
    pieces = [_HEAD, _EXPORT]
    for library in libraries:
        pieces.append(_absent(library))
        for row in rows:
            if row.library == library.name and row.wrapped:
                assert row.prototype
                try:
                    if isinstance(row.treatment, Told):
                        body = _Body(library, row.prototype, row.treatment, functions)
                        pieces.append(body.text())
                except GrammarError as error:
                    raise TableError(row.where, str(error)) from None
                pieces.append(_exports(library, row, row.prototype))
    return "\n".join(pieces)


def _absent(library: Library) -> str:
    lines = []
    for result, answers in library.absent.items():
        for variant, answer in enumerate(answers):
            value = "" if result == "void" else f" ({result}){answer}"
            lines += [
                f"{result} {absent_name(library, result, variant)}(void)",
                "{",
                f"    return{value};",
                "}",
                "",
            ]
    return "\n".join(lines)


def _exports(library: Library, row: Row, prototype: Prototype) -> str:
    made = "wrap" if isinstance(row.treatment, Told) else "custom"
    hot = "HOT_CALL " if row.symbol in PRODUCTS else ""
    empty = prototype.result == "void"
    back = "" if empty else "return "
    lines = []
    for variant, name in enumerate(wrapper_names(library, row)):
        actual = [argument.name for argument in prototype.arguments]
        lines += [
            listed(f"{hot}{prototype.result} {name}(", parameters(prototype), ""),
            "{",
            "    if (home_left())" + (" {" if empty else ""),
            listed(f"        {back}REAL({row.symbol}, {variant})(", actual, ";"),
            *(["        return;", "    }"] if empty else []),
            listed(f"    {back}{made}_{row.symbol}(", [str(variant), *actual], ";"),
            "}",
            f"EXPORT_NAMED({name}, {row.symbol});"
            if library.named
            else f'EXPORT({name}, {row.symbol}, "@{library.versions[variant]}");',
            "",
        ]
    return "\n".join(lines)


class _Body:
    """`wrap_<symbol>`: open, touches, the real call, close."""

    def __init__(
        self, library: Library, prototype: Prototype, told: Told, functions: Functions
    ) -> None:
        self._library = library
        self._prototype = prototype
        self._told = told
        self._functions = functions
        self._scalars = {touch.argument: touch for touch in told.touches if touch.scalar}
        self._device = library.scalars is not None and any(
            prototype.argument(name).is_pointer for name in self._scalars
        )
        made = [touch for touch in told.touches if self._device or not touch.scalar]
        uses = Counter(c for touch in made for _, c in self._asked(touch))
        self._often = {c for c, n in uses.items() if n > 1}
        self._answers: dict[str, str] = {}  # local variables by the C that they stand for

    def text(self) -> str:
        prototype = self._prototype
        symbol = prototype.symbol
        arguments = [argument.name for argument in prototype.arguments]
        head = ["int variant", *(str(argument) for argument in prototype.arguments)]
        real = f"REAL({symbol}, variant)("
        empty = prototype.result == "void"
        hot = "HOT_CALL " if symbol in PRODUCTS else ""
        lines = [
            listed(f"static {hot}{prototype.result} wrap_{symbol}(", head, ""),
            "{",
            f"    struct call *call = call_open(API_{symbol}, {self._use()});",
            "    if (!call)" + (" {" if empty else ""),
            listed(f"        {'' if empty else 'return '}{real}", arguments, ";"),
        ]
        if empty:
            lines += ["        return;", "    }"]
        lines.append("    if (call_tells(call)) {")
        if self._device:
            assert self._library.scalars
            self._functions.check(self._library.scalars, prototype)
            lines.append(f"        bool device = {self._functions.to_c(self._library.scalars)};")
        for touch in self._told.touches:
            lines += [*self._ask_once(touch), *map(self._answered, self._touch(touch))]
        if self._told.note:
            lines.append(listed(f"        touches_{symbol}(", ["call", "variant", *arguments], ";"))
        if self._library.told:
            lines += ["    }", f"    {self._library.told}(call);"]
        else:
            lines += ["        call_told(call);", "    }"]
        if empty:
            lines += [listed(f"    {real}", arguments, ";"), "    call_close(call);", "}", ""]
        else:
            lines.append(listed(f"    {prototype.result} status = {real}", arguments, ";"))
            lines += ["    call_close(call);", "    return status;", "}", ""]
        return "\n".join(lines)

    def _use(self) -> str:
        if any(argument.type == "cudaGraph_t" for argument in self._prototype.arguments):
            return "CALL_BUILDS"
        if self._library.told:
            return "CALL_WHOLE"
        return "CALL_TOGETHER" if self._told.together else "CALL_LAUNCHES"

    def _asked(self, touch: LibraryTouch) -> Iterator[tuple[str, str]]:
        expressions: list[Expression | None] = [touch.extent, touch.type, touch.count]
        for condition in filter(None, (touch.only, touch.reads)):
            scalar = self._scalar(condition)
            expressions += [scalar.type] if scalar else [condition.left, condition.right]
        for expression in expressions:
            if expression:
                yield from self._functions.asked(expression)

    def _ask_once(self, touch: LibraryTouch) -> Iterator[str]:
        """What a touch that always happens asks the library, and some touch asks again."""
        if touch.only or touch.scalar:
            return
        for kind, question in self._asked(touch):
            if question in self._often and question not in self._answers:
                name = f"answer_{len(self._answers)}"
                yield f"        {kind} {name} = {question};"
                self._answers[question] = name

    def _answered(self, line: str) -> str:
        for question in sorted(self._answers, key=len, reverse=True):  # one may hold another
            line = line.replace(question, self._answers[question])
        return line

    def _touch(self, touch: LibraryTouch) -> list[str]:
        argument = self._prototype.argument(touch.argument)
        if touch.scalar and not self._device:
            return []
        span = self._functions.to_c(touch.extent) if touch.extent else "library_count(1)"
        mode = f"TOUCH_{touch.mode.upper()}"
        if touch.reads:
            mode = f"{self._condition(touch.reads)} ? TOUCH_UPDATE : TOUCH_WRITE"
        bits = self._bits(argument, touch)
        start = f"(addr_t)(uintptr_t){argument.name}"
        if touch.count:
            count = self._functions.to_c(touch.count)
            call = listed("call_array(", ["call", start, count, span, bits, mode], ";")
        else:
            call = listed("call_touch(", ["call", start, span, bits, mode], ";")
        only = "device" if touch.scalar else ""
        if touch.only:
            only = self._condition(touch.only)
        indent = " " * (12 if only else 8)
        lines = [f"        if ({only})"] if only else []
        return [*lines, "\n".join(indent + line for line in call.splitlines())]

    def _bits(self, argument: Argument, touch: LibraryTouch) -> str:
        if touch.type:
            return f"library_bits({self._functions.to_c(touch.type)})"
        element = _element(argument, 2 if touch.count else 1)
        return f"library_bits({element})" if element else "8"

    def _condition(self, condition: Condition) -> str:
        right = self._functions.to_c(condition.right)
        scalar = self._scalar(condition)
        if not scalar:
            return f"{self._functions.to_c(condition.left)} {condition.operator} {right}"
        if right != "0" or condition.operator != "!=":
            raise GrammarError("a scalar is compared with '!= 0' only")
        kind = self._scalar_type(scalar)
        argument = self._prototype.argument(scalar.argument)
        place = scalar.argument if argument.is_pointer else f"&{scalar.argument}"
        known = f"library_is_zero({place}, {kind})"
        return f"(device || !{known})" if self._device else f"!{known}"

    def _scalar(self, condition: Condition) -> LibraryTouch | None:
        left = condition.left
        return self._scalars.get(left.text) if isinstance(left, Name) else None

    def _scalar_type(self, scalar: LibraryTouch) -> str:
        if scalar.type:
            return self._functions.to_c(scalar.type)
        argument = self._prototype.argument(scalar.argument)
        element = _element(argument, 1 if argument.is_pointer else 0)
        if not element:
            raise GrammarError(f"of what type is the scalar '{scalar.argument}'?")
        return element


def _element(argument: Argument, depth: int) -> str | None:
    words = argument.type.replace("*", " * ").split()
    name = " ".join(word for word in words if word not in ("const", "*"))
    if words.count("*") != depth or name not in _ELEMENTS:
        raise GrammarError(f"what does '{argument.name}', a {argument.type}, point to?")
    return _ELEMENTS[name]
