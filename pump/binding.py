"""`ulms.so` through its C interface (csrc/ulms.h), by cffi."""

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pump import paths
from pump.regular import read_regular


@dataclass(frozen=True)
class Option:
    """An environment variable that ulms.so reads."""

    name: str
    aliases: tuple[str, ...]
    default: str  # "" for not set
    accepts: str
    help: str


@cache
def ffi() -> Any:
    """What cffi knows of csrc/ulms.h. Raises NotBuiltError where nothing is built."""
    try:
        from pump import _ulms
    except ImportError as error:
        raise paths.NotBuiltError(
            "pump/_ulms.py is not built: run `make`, or install the package with pip"
        ) from error
    return _ulms.ffi


@cache
def library() -> Any:
    """The library, loaded into this process; one and the same where it is preloaded already."""
    return ffi().dlopen(str(paths.library()))


def version() -> str:
    """The version of ulms.so."""
    return text(library().ulms_version())


def kernel_trusted(name: str) -> bool:
    """The kernel of that name, as compiled, is known to use only memory that its arguments show."""
    return bool(library().ulms_kernel_trusted(name.encode()))


def option_rows() -> list[Option]:
    """Every option, in the order in which ulms.so reads them."""
    rows = [library().ulms_option(i) for i in range(library().ulms_option_count())]
    return [
        Option(
            text(row.name),
            tuple(text(row.aliases).split()),
            *map(text, (row.fallback, row.accepts, row.help)),
        )
        for row in rows
    ]


def default_of(name: str) -> str:
    """What an option is where nobody sets it. Raises StopIteration for what is none."""
    return next(option.default for option in option_rows() if option.name == name)


def share_accepts(words: str) -> str:
    """What ulms.so accepts in the place of what is wrong with a value of ULMS_SHARE; "": nothing
    is.
    """
    return text(library().ulms_share_accepts(os.fsencode(words)))


def text(pointer: Any) -> str:
    """A C string as text; "" for NULL."""
    return ffi().string(pointer).decode(errors="replace") if pointer else ""


@dataclass(frozen=True)
class Kernel:
    """What the machine code of a kernel says. Reads, writes: the words of 8 bytes of its parameters
    at which it may read, and write, memory.
    """

    name: str
    architecture: int
    verdict: str
    reason: str
    instructions: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]


def kernels(path: Path, architecture: int) -> list[Kernel]:
    """Those in a cubin, a fat binary or a library, for devices of that architecture (90: sm_90); 0:
    for any. Raises OSError.
    """
    found: list[Kernel] = []

    def told(k: Any, _: object) -> None:
        head = text(k.name), k.architecture, text(k.verdict), text(k.reason), k.instructions
        found.append(Kernel(*head, words(k.reads), words(k.writes)))

    callback = ffi().callback("ulms_kernel_told", told)
    data = read_regular(path)
    library().ulms_kernels(ffi().from_buffer(data), len(data), architecture, callback, ffi().NULL)
    return found


def words(parts: Any) -> tuple[int, ...]:
    """The numbers of the bits that are set."""
    return tuple(n for n in range(64 * len(parts)) if parts[n // 64] >> n % 64 & 1)
