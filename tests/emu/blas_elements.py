"""Where the elements of BLAS's matrices and vectors lie: each written out with numpy."""

from typing import Any

import numpy as np
import numpy.typing as npt

Offsets = npt.NDArray[np.int64]
NOTHING = np.zeros(0, dtype=np.int64)


def full(ld: int, rows: int, cols: int) -> Offsets:
    """A matrix by columns."""
    if rows <= 0 or cols <= 0:
        return NOTHING
    return np.add.outer(np.arange(cols) * ld, np.arange(rows)).ravel()


def stored(trans: Any, ld: int, rows: int, cols: int) -> Offsets:
    """A matrix that is rows x cols once transposed as `trans` says."""
    plain = trans in (0, "N", "n")
    return full(ld, rows, cols) if plain else full(ld, cols, rows)


def is_lower(uplo: Any) -> bool:
    """cublasFillMode_t, or a letter."""
    return uplo in (0, "L", "l")


def is_unit(diag: Any) -> bool:
    """True when the diagonal is all ones, which nobody reads. cublasDiagType_t, or a letter."""
    return diag in (1, "U", "u")


def cells(rows: int, cols: int) -> tuple[Offsets, Offsets]:
    """Row and column of every element, column behind column."""
    col, row = np.indices((max(cols, 0), max(rows, 0)))
    return row.ravel(), col.ravel()


def in_triangle(row: Offsets, col: Offsets, uplo: Any, diag: Any) -> npt.NDArray[np.bool_]:
    """Which of the elements are in one triangle, and not ones by definition."""
    inside = row >= col if is_lower(uplo) else row <= col
    return inside & (row != col) if is_unit(diag) else inside


def triangle(uplo: Any, ld: int, n: int, diag: Any = "N") -> Offsets:
    """One triangle."""
    row, col = cells(n, n)
    return (row + col * ld)[in_triangle(row, col, uplo, diag)]


def packed(n: int, uplo: Any = "U", diag: Any = "N") -> Offsets:
    """One triangle without gaps."""
    row, col = cells(n, n)
    stored = in_triangle(row, col, uplo, "N")
    numbers = np.cumsum(stored) - 1
    return numbers[stored & in_triangle(row, col, uplo, diag)]


def banded(ld: int, rows: int, cols: int, below: int, above: int) -> Offsets:
    """A band around the diagonal, which is stored as a row: each column above and below it."""
    row, col = cells(rows, cols)
    inside = (row - col <= below) & (col - row <= above)
    return (above + row - col + col * ld)[inside]


def banded_triangle(uplo: Any, ld: int, n: int, width: int, diag: Any = "N") -> Offsets:
    """One triangle of a band."""
    row, col = cells(n, n)
    inside = in_triangle(row, col, uplo, diag) & (abs(row - col) <= width)
    return ((0 if is_lower(uplo) else width) + row - col + col * ld)[inside]


def vector(n: int, step: int) -> Offsets:
    """BLAS's vectors: with a negative step the first element lies last."""
    if n <= 0:
        return NOTHING
    start = -(n - 1) * step if step < 0 else 0
    return np.asarray(start + np.arange(n) * step, dtype=np.int64)


def strided(offsets: Offsets, count: int, stride: int) -> Offsets:
    """The same elements again and again, `stride` elements apart."""
    if count <= 0 or offsets.size == 0:
        return NOTHING
    return np.add.outer(np.arange(count) * stride, offsets).ravel()


def in_bytes(offsets: Offsets, size: int) -> Offsets:
    """Elements of `size` bytes as their bytes."""
    return np.add.outer(offsets * size, np.arange(size)).ravel()
