"""What cuBLAS's functions touch, by BLAS's definitions: every element, written out with numpy.

Independent of the hook tables: nothing here is computed from an extent; elements are enumerated.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tests.emu.blas_elements import (
    Offsets,
    banded,
    banded_triangle,
    full,
    in_bytes,
    packed,
    stored,
    strided,
    triangle,
    vector,
)
from tests.emu.blas_types import Values


@dataclass(frozen=True)
class Operand:
    """Elements touched, relative to the address in an argument, or to each in a device array.

    `mode` is read, write, update, or `beta`: written, and read unless the scalar beta is zero.
    `one` are the elements of one matrix where `offsets` are those of several: a matrix with gaps
    counts as one that keeps some of what was there, even where others fill them.
    """

    name: str
    offsets: Offsets
    mode: str
    array: int | None = None  # how many addresses the argument is an array of
    first: int = 0  # the first of them meant
    scalar: str = "beta"
    place: int = 0  # which element of a list of scalars
    factor: str | None = None  # a scalar; where it is known to be zero, nothing is touched
    one: Offsets | None = None

    @property
    def dense(self) -> bool:
        """True when nothing lies between the elements."""
        parts = [self.offsets] if self.one is None else [self.offsets, self.one]
        return all(np.unique(part).size == np.ptp(part) + 1 for part in parts)


def side_order(a: Values, name: str = "side") -> int:
    """The order of the square matrix beside an m x n matrix."""
    return int(a["m"] if a[name] in (0, "L", "l") else a["n"])


def _half_band(a: Values) -> Offsets:
    return banded_triangle(a["uplo"], a["lda"], a["n"], a["k"], a.get("diag", "N"))


def lengths(a: Values) -> tuple[int, int]:
    """Of x and y in y = op(A) x."""
    return (a["n"], a["m"]) if a["trans"] in (0, "N", "n") else (a["m"], a["n"])


Rule = Callable[[Values], list[Operand]]


def _x_y(mode_x: str, mode_y: str) -> Rule:
    return lambda a: [
        Operand("x", vector(a["n"], a["incx"]), mode_x),
        Operand("y", vector(a["n"], a["incy"]), mode_y),
    ]


def _x(mode: str) -> Rule:
    return lambda a: [Operand("x", vector(a["n"], a["incx"]), mode)]


def _matrix_vector(matrix: Callable[[Values], tuple[str, Offsets]]) -> Rule:
    def rule(a: Values) -> list[Operand]:
        of_x, of_y = lengths(a) if "trans" in a else (a["n"], a["n"])
        return [
            Operand(*matrix(a), "read"),
            Operand("x", vector(of_x, a["incx"]), "read"),
            Operand("y", vector(of_y, a["incy"]), "beta"),
        ]

    return rule


def _solve(matrix: Callable[[Values], tuple[str, Offsets]]) -> Rule:
    return lambda a: [
        Operand(*matrix(a), "read"),
        Operand("x", vector(a["n"], a["incx"]), "update"),
    ]


def _rank(matrix: Callable[[Values], tuple[str, Offsets]], *, rows: str = "n") -> Rule:
    def rule(a: Values) -> list[Operand]:
        found = [
            Operand("x", vector(a[rows], a["incx"]), "read"),
            Operand(*matrix(a), "update"),
        ]
        return found + ([Operand("y", vector(a["n"], a["incy"]), "read")] if "y" in a else [])

    return rule


def _product(a: Values) -> list[Operand]:
    return [
        Operand("A", stored(a["transa"], a["lda"], a["m"], a["k"]), "read"),
        Operand("B", stored(a["transb"], a["ldb"], a["k"], a["n"]), "read"),
        Operand("C", full(a["ldc"], a["m"], a["n"]), "beta"),
    ]


def _batched(rule: Rule, count: str, names: Mapping[str, str]) -> Rule:
    """The rule's matrices through arrays of addresses."""
    return lambda a: [
        Operand(names.get(o.name, o.name), o.offsets, o.mode, array=a[count]) for o in rule(a)
    ]


def _strided(rule: Rule) -> Rule:
    def several(a: Values, o: Operand) -> Operand:
        offsets = strided(o.offsets, a["batchCount"], a[f"stride{o.name}"])
        return Operand(o.name, offsets, o.mode, one=o.offsets)

    return lambda a: [several(a, operand) for operand in rule(a)]


def _grouped(a: Values) -> list[Operand]:
    found = []
    first = 0
    for group, size in enumerate(a["group_size"]):
        shape = {name: a[f"{name}_array"][group] for name in ("m", "n", "k", "lda", "ldb", "ldc")}
        shape |= {name: a[f"{name}_array"][group] for name in ("transa", "transb")}
        for o in _product(shape):
            name = f"{o.name}array"
            found.append(Operand(name, o.offsets, o.mode, size, first, "beta_array", place=group))
        first += size
    return found


def _squared(a: Values) -> list[Operand]:
    found = [Operand("A", stored(a["trans"], a["lda"], a["n"], a["k"]), "read")]
    if "B" in a:
        found.append(Operand("B", stored(a["trans"], a["ldb"], a["n"], a["k"]), "read"))
    return [*found, Operand("C", triangle(a["uplo"], a["ldc"], a["n"]), "beta")]


def _beside(a: Values) -> list[Operand]:
    return [
        Operand("A", triangle(a["uplo"], a["lda"], side_order(a)), "read"),
        Operand("B", full(a["ldb"], a["m"], a["n"]), "read"),
        Operand("C", full(a["ldc"], a["m"], a["n"]), "beta"),
    ]


def _triangular(a: Values) -> list[Operand]:
    """trsm in place; trmm in place, or into C."""
    out = "C" in a
    found = [
        Operand("A", triangle(a["uplo"], a["lda"], side_order(a), a["diag"]), "read"),
        Operand("B", full(a["ldb"], a["m"], a["n"]), "read" if out else "update"),
    ]
    return found + ([Operand("C", full(a["ldc"], a["m"], a["n"]), "write")] if out else [])


def _copy(names: Mapping[str, str], mode: str) -> Rule:
    """Copies between host and device: only the device's side."""

    def rule(a: Values) -> list[Operand]:
        if "rows" in a:
            elements = full(a[names["step"]], a["rows"], a["cols"])
        else:
            elements = vector(a["n"], a[names["step"]])
        return [Operand(names["memory"], in_bytes(elements, a["elemSize"]), mode)]

    return rule


def _square(name: str, ld: str, mode: str) -> Callable[[Values], Operand]:
    return lambda a: Operand(name, full(a[ld], a["n"], a["n"]), mode, array=a["batchSize"])


def _count(name: str, mode: str, count: Callable[[Values], int]) -> Callable[[Values], Operand]:
    return lambda a: Operand(name, np.arange(max(count(a), 0), dtype=np.int64), mode)


def _each(*operands: Callable[[Values], Operand]) -> Rule:
    return lambda a: [operand(a) for operand in operands]


_BATCH_NAMES = {"A": "Aarray", "B": "Barray", "C": "Carray", "x": "xarray", "y": "yarray"}
_GENERAL = _matrix_vector(lambda a: ("A", full(a["lda"], a["m"], a["n"])))
_PIVOTS = ("P", lambda a: a["n"] * a["batchSize"])
_INFO = _count("info", "write", lambda a: a["batchSize"])

# In this order: the first whose pattern is the whole name without cublas, _v2 and _64.
RULES: list[tuple[str, Rule]] = [
    (r"\w*(rotg|rotmg)|Rotm?gEx", lambda a: []),
    (r"\w+(nrm2|asum)|(Nrm2|Asum|Iamax|Iamin)Ex|I\w(amax|amin)", _x("read")),
    (r"\w(dot|dotu|dotc)|(Dot|Dotc)Ex", _x_y("read", "read")),
    (r"\w+scal|ScalEx", _x("update")),
    (r"\w?[aA]xpy(Ex)?", _x_y("read", "update")),
    (r"\w?[cC]opy(Ex)?", _x_y("read", "write")),
    (r"\w*(swap|rot|rotm)|(Swap|Rot|Rotm)Ex", _x_y("update", "update")),
    (r"\wgemv", _GENERAL),
    (r"\w+gemvBatched", _batched(_GENERAL, "batchCount", _BATCH_NAMES)),
    (r"\w+gemvStridedBatched", _strided(_GENERAL)),
    (
        r"\wgbmv",
        _matrix_vector(lambda a: ("A", banded(a["lda"], a["m"], a["n"], a["kl"], a["ku"]))),
    ),
    (r"\w(sy|he)mv", _matrix_vector(lambda a: ("A", triangle(a["uplo"], a["lda"], a["n"])))),
    (r"\w(sb|hb)mv", _matrix_vector(lambda a: ("A", _half_band(a)))),
    (r"\w(sp|hp)mv", _matrix_vector(lambda a: ("AP", packed(a["n"])))),
    (r"\wtr[ms]v", _solve(lambda a: ("A", triangle(a["uplo"], a["lda"], a["n"], a["diag"])))),
    (r"\wtb[ms]v", _solve(lambda a: ("A", _half_band(a)))),
    (r"\wtp[ms]v", _solve(lambda a: ("AP", packed(a["n"], a["uplo"], a["diag"])))),
    (r"\wger[uc]?", _rank(lambda a: ("A", full(a["lda"], a["m"], a["n"])), rows="m")),
    (r"\w(sy|he)r2?", _rank(lambda a: ("A", triangle(a["uplo"], a["lda"], a["n"])))),
    (r"\w(sp|hp)r2?", _rank(lambda a: ("AP", packed(a["n"])))),
    (r"\w*([gG]emm|gemm3m)(Ex)?", _product),
    (
        r"\w*([gG]emm|gemm3m)Batched(Ex)?",
        _batched(_product, "batchCount", _BATCH_NAMES),
    ),
    (r"\w*([gG]emm|gemm3m)StridedBatched(Ex)?", _strided(_product)),
    (r"\w?[gG]emmGroupedBatched(Ex)?", _grouped),
    (r"\w(sy|he)(rk|r2k|rkx)(Ex|3mEx)?", _squared),
    (r"\w(sy|he)mm", _beside),
    (r"\wtr[ms]m", _triangular),
    (r"\wtrsmBatched", _batched(_triangular, "batchCount", {})),
    (
        r"\wgeam",
        lambda a: [
            Operand("A", stored(a["transa"], a["lda"], a["m"], a["n"]), "read", factor="alpha"),
            Operand("B", stored(a["transb"], a["ldb"], a["m"], a["n"]), "read", factor="beta"),
            Operand("C", full(a["ldc"], a["m"], a["n"]), "write"),
        ],
    ),
    (
        r"\wdgmm",
        lambda a: [
            Operand("A", full(a["lda"], a["m"], a["n"]), "read"),
            Operand("x", vector(side_order(a, "mode"), a["incx"]), "read"),
            Operand("C", full(a["ldc"], a["m"], a["n"]), "write"),
        ],
    ),
    (
        r"\wtpttr",
        lambda a: [
            Operand("AP", packed(a["n"]), "read"),
            Operand("A", triangle(a["uplo"], a["lda"], a["n"]), "write"),
        ],
    ),
    (
        r"\wtrttp",
        lambda a: [
            Operand("A", triangle(a["uplo"], a["lda"], a["n"]), "read"),
            Operand("AP", packed(a["n"]), "write"),
        ],
    ),
    (
        r"Uint8gemmBias",
        lambda a: [
            *_product(a)[:2],
            Operand("C", stored(a["transc"], a["ldc"], a["m"], a["n"]), "write"),
        ],
    ),
    (
        r"\wmatinvBatched",
        _each(_square("A", "lda", "read"), _square("Ainv", "lda_inv", "write"), _INFO),
    ),
    (
        r"\wgetrfBatched",
        _each(_square("A", "lda", "update"), _count("P", "write", _PIVOTS[1]), _INFO),
    ),
    (
        r"\wgetriBatched",
        _each(
            _square("A", "lda", "read"),
            _count("P", "read", _PIVOTS[1]),
            _square("C", "ldc", "write"),
            _INFO,
        ),
    ),
    (
        r"\wgetrsBatched",
        lambda a: [
            _square("Aarray", "lda", "read")(a),
            _count("devIpiv", "read", _PIVOTS[1])(a),
            Operand("Barray", full(a["ldb"], a["n"], a["nrhs"]), "update", a["batchSize"]),
        ],
    ),
    (
        r"\wgeqrfBatched",
        lambda a: [
            Operand("Aarray", full(a["lda"], a["m"], a["n"]), "update", a["batchSize"]),
            Operand("TauArray", vector(min(a["m"], a["n"]), 1), "write", a["batchSize"]),
        ],
    ),
    (
        r"\wgelsBatched",
        lambda a: [
            Operand("Aarray", full(a["lda"], a["m"], a["n"]), "update", a["batchSize"]),
            Operand(
                "Carray", full(a["ldc"], max(a["m"], a["n"]), a["nrhs"]), "update", a["batchSize"]
            ),
            _count("devInfoArray", "write", lambda a: a["batchSize"])(a),
        ],
    ),
    (r"SetVector(Async)?", _copy({"memory": "devicePtr", "step": "incy"}, "write")),
    (r"GetVector", _copy({"memory": "x", "step": "incx"}, "read")),
    (r"GetVectorAsync", _copy({"memory": "devicePtr", "step": "incx"}, "read")),
    (r"SetMatrix(Async)?", _copy({"memory": "B", "step": "ldb"}, "write")),
    (r"GetMatrix(Async)?", _copy({"memory": "A", "step": "lda"}, "read")),
]

# Scalars and results, in device memory when the handle says so: mode and number of elements.
_SCALARS: list[tuple[str, dict[str, tuple[str, int]]]] = [
    (
        r"\wrotg|RotgEx",
        {"a": ("update", 1), "b": ("update", 1), "c": ("write", 1), "s": ("write", 1)},
    ),
    (
        r"\wrotmg|RotmgEx",
        {
            **dict.fromkeys(("d1", "d2", "x1"), ("update", 1)),
            "y1": ("read", 1),
            "param": ("write", 5),
        },
    ),
    (r"\wrotm|RotmEx", {"param": ("read", 5)}),
    (r"\w+rot|RotEx", {"c": ("read", 1), "s": ("read", 1)}),
    (
        r".*",
        {"alpha": ("read", 1), "beta": ("read", 1), "result": ("write", 1)},
    ),
]


def stem(symbol: str) -> str:
    """The function's name without the library's, the version's and the width's parts."""
    return re.sub(r"(_v2)?(_64)?$", "", symbol.removeprefix("cublas"))


def operands(symbol: str, a: Values) -> list[Operand]:
    """What a call touches apart from scalars. Raises KeyError for a function not known here."""
    for pattern, rule in RULES:
        if re.fullmatch(pattern, stem(symbol)):
            return rule(a)
    raise KeyError(symbol)


def scalars(symbol: str) -> dict[str, tuple[str, int]]:
    """Arguments that are scalars or results: mode, and number of elements."""
    for pattern, found in _SCALARS:
        if re.fullmatch(pattern, stem(symbol)):
            return found
    return {}
