"""What a row of a table says."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hooks.generator.expression import Call, Expression, Extent
from hooks.generator.prototype import Prototype


class TableError(Exception):
    """What is wrong with a table, as `file:line: text`."""

    def __init__(self, where: Where, text: str) -> None:
        super().__init__(f"{where}: {text}")


@dataclass(frozen=True)
class Where:
    """A line of a table."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Touch:
    """The call touches `extent` from the address in `argument`; `mode` says how."""

    mode: str
    argument: str
    extent: Extent
    text: str


@dataclass(frozen=True)
class HostSource:
    """The call copies `extent` from the address in `source`, perhaps of the host, to `target`.

    `pinned`: of device memory or of what is pinned or managed.
    """

    pinned: bool
    source: str
    target: str
    extent: Extent
    text: str


@dataclass(frozen=True)
class Recorded:
    """Made from the row: an operation with its touches."""

    kind: str
    stream: str | None = None
    object: str | None = None
    touches: tuple[Touch, ...] = ()
    sources: tuple[HostSource, ...] = ()


@dataclass(frozen=True)
class Condition:
    """`left operator right`, operator one of == and !=; left may name a scalar."""

    left: Expression
    operator: str
    right: Expression


@dataclass(frozen=True)
class LibraryTouch:
    """What a library's call touches: `extent` around the address in `argument`.

    With `count`, the argument is a device array of that many addresses. `only` must hold for it,
    and a write that `reads` holds for reads as well. A scalar lies in device memory only when the
    library says so.
    """

    mode: str
    argument: str
    count: Expression | None
    extent: Call | None
    type: Expression | None
    only: Condition | None
    scalar: bool
    text: str
    reads: Condition | None = None


@dataclass(frozen=True)
class Told:
    """Made from the row of a library: its launches touch what the call tells.

    `note` is there when a function written by hand, `touches_<symbol>`, adds to it. Kernels
    `together` are one operation.
    """

    touches: tuple[LibraryTouch, ...] = ()
    note: str | None = None
    together: bool = False


@dataclass(frozen=True)
class Library:
    """A library above the driver. Variant v of a wrapper is for version `versions[v]`.

    One that is `named` has symbols without versions: the only one is its file's name.
    """

    where: Where
    name: str
    folder: str
    versions: tuple[str, ...]
    absent: dict[str, tuple[str, ...]]  # by result type: a missing function's answer, by version
    handle: str  # the type of its handles
    scalars: Call | None  # whether scalars are in device memory; None: never
    named: bool = False
    told: str | None = None  # what its wrappers call in the place of call_told

    @property
    def symbol_versions(self) -> tuple[str, ...]:
        """The versions that its symbols carry."""
        return () if self.named else self.versions


@dataclass(frozen=True)
class Custom:
    """Written by hand as `custom_<symbol>`; `note` says what it does.

    One with a `fast_path` is called only if somebody asks what is launched.
    """

    status: str
    note: str
    fast_path: bool = False


@dataclass(frozen=True)
class Then:
    """The driver's function, and a call of ours if it succeeds; `note` says what that does.

    Where `unless` is an error, the program gets that one instead.
    """

    call: str
    note: str
    unless: str | None


@dataclass(frozen=True)
class Passed:
    """Left alone; `why` says what that leaves unseen, if anything."""

    why: str


@dataclass(frozen=True)
class Row:
    """One symbol. Without a prototype it is only known by name."""

    where: Where
    library: str
    symbol: str
    since: int
    suffix: str | None
    prototype: Prototype | None
    treatment: Recorded | Told | Custom | Then | Passed

    @property
    def base(self) -> str:
        """The name without the version of its parameters: what cuGetProcAddress is asked for."""
        return re.sub(r"_v\d+$", "", self.symbol)

    @property
    def wrapped(self) -> bool:
        """True when programs get a function of ours for it."""
        return not isinstance(self.treatment, Passed)
