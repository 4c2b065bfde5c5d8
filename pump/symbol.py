"""Kernels' names as people read them: the compiler's are mangled, long, perhaps cut off."""

import ctypes
import re
from collections.abc import Callable
from functools import cache

MOST = 100
"""Characters: of a longer name, arguments of functions go, then those of templates, deepest first.
Those of the outermost template stay."""
DEEPEST = 4
ANONYMOUS = "(anonymous namespace)::"
HIDDEN = "_GLOBAL_"  # begins the identifier of a namespace without a name
# What stands between identifiers and has digits: literals, what stood before, the ends of lambdas.
_TOKEN = re.compile(r"L[a-z]n?\d+E|[ST][0-9A-Z]*_|E\d*_(?!GLOBAL)|(\d+)|.", re.DOTALL)

# The namespace that CUB and Thrust put all into: their version, and what they were compiled for.
_VERSION = re.compile(r"\b(?:CUB|THRUST)_\d+(?:_SM)?(?:_\d+)*(?:_NS)?(?:::|$)")

_PARENTHESES = re.compile(r"\([^()]*\)")


@cache
def readable(name: str) -> str:
    """A C++ name without what it returns and takes; arguments of templates shortened. A name that
    was cut off, or for which there is no libstdc++: its identifiers. Others: as they are.
    """
    if not name.startswith("_Z"):
        return name
    whole = _demangled(name)
    if not whole:
        return _outline(name) or name
    whole = _VERSION.sub("", whole.replace(ANONYMOUS, "").removeprefix("void "))
    return _short(_without_arguments(whole))


CUT = "..."


def shortened(name: str, most: int) -> str:
    """Readable, with at most so many characters: without arguments of templates, deepest first,
    and if that is not enough without its middle.
    """
    short = readable(name)
    for depth in range(DEEPEST, -1, -1):
        if len(short) <= most:
            return short
        short = _collapsed(short, depth)
    if len(short) <= most:
        return short
    tail = (most - len(CUT)) // 3
    return short[: most - len(CUT) - tail] + CUT + short[len(short) - tail :]


@cache
def _demangler() -> Callable[[bytes], bytes | None] | None:
    """Of the C++ library that numpy needs, too; None: it is not there."""
    try:
        demangle = ctypes.CDLL("libstdc++.so.6")["__cxa_demangle"]
        free = ctypes.CDLL(None)["free"]
    except (OSError, AttributeError):
        return None
    demangle.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    demangle.restype = ctypes.c_void_p
    free.argtypes = [ctypes.c_void_p]

    def demangled(name: bytes) -> bytes | None:
        text = demangle(name, None, None, None)
        if not text:
            return None
        found = ctypes.string_at(text)
        free(text)
        return found

    return demangled


def _demangled(name: str) -> str | None:
    demangle = _demangler()
    found = demangle(name.encode(errors="replace")) if demangle else None
    return found.decode(errors="replace") if found else None


def _without_arguments(name: str) -> str:
    """Without the parentheses that it ends in."""
    depth = 0
    for at in range(len(name) - 1, 0, -1):
        depth += {")": 1, "(": -1}.get(name[at], 0)
        if not depth:
            return name[:at] if name[at] == "(" else name
    return name


def _short(name: str) -> str:
    if len(name) > MOST:
        name = name.replace("::operator()", "")
        while (fewer := _PARENTHESES.sub("", name)) != name:
            name = fewer
        name = name.replace(" const", "")
    for depth in range(DEEPEST, 0, -1):
        if len(name) <= MOST:
            break
        name = _collapsed(name, depth)
    return name


def _collapsed(name: str, most: int) -> str:
    """With `<...>` in place of arguments of templates deeper than that."""
    kept, depth = [], 0
    for letter in name:
        if letter == ">" and depth:
            depth -= 1
        if depth <= most:
            kept.append(letter)
        if letter == "<":
            depth += 1
            if depth == most + 1:
                kept.append("...")
    return "".join(kept)


def _outline(name: str) -> str:
    """Identifiers in the order in which they stand; behind the first `<`, those of arguments."""
    path: list[str] = []
    inner: list[str] | None = None
    at = len("_Z")
    while token := _TOKEN.match(name, at):
        at = token.end()
        if token[1]:
            end = at + int(token[1])
            identifier, at = name[at:end], end
            hidden = identifier.startswith(HIDDEN) or _VERSION.fullmatch(identifier)
            if identifier and not hidden:
                (path if inner is None else inner).append(identifier)
        elif token[0] == "I" and inner is None:
            inner = []
    short = "::".join(path)
    return short if inner is None else f"{short}<{', '.join([*inner, '...'])}>"
