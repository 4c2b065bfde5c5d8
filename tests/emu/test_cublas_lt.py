"""cublasLt's products and transforms: what descriptors say against elements numbered by numpy."""

import json
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.conftest import RunEmulated  # noqa: E402
from tests.emu.blas_elements import Offsets, strided  # noqa: E402
from tests.emu.blas_types import BITS, COMPLEX  # noqa: E402
from tests.emu.library_run import Touch, joined, run_calls  # noqa: E402

pytestmark = pytest.mark.emu

LIBRARY = "libcublasLt.so.13"
SLOT, SLOTS = 4 << 20, 16
COLUMNS, ROWS, COL32, COL4_4R2_8C, COL32_2R_4R4 = range(5)
HOST, DEVICE, VECTORS, VECTOR_ZERO, VECTOR_HOST = range(5)
STRIDED, ARRAY, GROUPED = range(3)
FLOAT, INTEGER, NARROW = 0, 3, 28  # of 32 bits, of 8 bits, of 8 bits
RELU, BIAS, GELU, AUX, GRADIENT, GRADIENT_A, GRADIENT_B = 2, 4, 32, 128, 16, 256, 512
DRELU, DGELU = 8 | AUX, 64 | AUX
EPILOGUES = [1, RELU, RELU | AUX, BIAS, RELU | BIAS, RELU | AUX | BIAS, DRELU, DRELU | GRADIENT]
EPILOGUES += [GELU, GELU | AUX, GELU | BIAS, GELU | AUX | BIAS, DGELU, DGELU | GRADIENT]
EPILOGUES += [GRADIENT_A, GRADIENT_B]


@dataclass
class Layout:
    """A matrix layout as it is set."""

    type: int
    rows: int
    cols: int
    ld: int
    order: int = COLUMNS
    count: int = 1
    stride: int = 0
    plane: int = 0
    mode: int = STRIDED
    more: list[list[Any]] = field(default_factory=list)

    def word(self) -> dict[str, Any]:
        """For the caller."""
        words = [["int", self.type], ["int64_t", self.rows]]
        words += [["int64_t", self.cols], ["int64_t", self.ld]]
        attributes = [[1, "int", self.order], [5, "int", self.count], [6, "int64_t", self.stride]]
        attributes += [[7, "int64_t", self.plane], [8, "int", self.mode], *self.more]
        return {
            "make": ["cublasLtMatrixLayoutCreate", words],
            "set": ["cublasLtMatrixLayoutSetAttribute", *attributes],
        }

    def one(self) -> Offsets:
        """The elements of one matrix; of tiles, whole ones."""
        rows, cols, ld = self.rows, self.cols, self.ld
        if self.order == COLUMNS:
            return np.add.outer(np.arange(cols) * ld, np.arange(rows)).ravel()
        if self.order == ROWS:
            return np.add.outer(np.arange(rows) * ld, np.arange(cols)).ravel()
        height = {COL32: 1, COL4_4R2_8C: 8, COL32_2R_4R4: 32}[self.order]
        tiles = -(-rows // height)
        groups = np.arange(-(-cols // 32))
        return np.add.outer(groups * ld, np.arange(tiles * height * 32)).ravel()

    def all(self) -> Offsets:
        """The elements of all matrices of a strided batch."""
        return strided(self.one(), self.count, self.stride)


def dense(one: Offsets, whole: Offsets) -> bool:
    """True when nothing lies between the elements of a matrix, nor between matrices."""
    return all(np.unique(part).size == np.ptp(part) + 1 for part in (one, whole))


class Call:
    """One call, built operand by operand, with what it must touch."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.touches: set[Touch] = set()
        self.slots = iter(range(1, SLOTS))
        self.words: list[list[Any]] = []
        self.symbol = "cublasLtMatmul"

    def place(self) -> int:
        """An offset of its own in the allocation."""
        return next(self.slots) * SLOT + SLOT // 2 + 256 * self.chance.randint(0, 99)

    def add(
        self, start: int, one: Offsets, bits: int, mode: str, whole: Offsets | None = None
    ) -> None:
        """Elements from an offset on; `one` of a batch, and all of it."""
        whole = one if whole is None else whole
        if whole.size == 0:
            return
        if mode == "write" and not dense(one, whole):
            mode = "update"
        first, last = int(whole.min()), int(whole.max())
        self.touches.add((start + first * bits // 8, start - (-(last + 1) * bits // 8), mode))

    def matrix(self, layout: Layout, start: int, mode: str) -> None:
        """A matrix, or a batch of them."""
        bits = BITS[layout.type]
        if layout.plane:
            for at in (start, start + layout.plane):
                self.add(at, layout.one(), bits // 2, mode, layout.all())
        else:
            self.add(start, layout.one(), bits, mode, layout.all())

    def json(self) -> dict[str, Any]:
        """For the caller."""
        return {
            "library": LIBRARY,
            "symbol": self.symbol,
            "result": "int",
            "arguments": self.words,
        }


def pointer(value: Any) -> list[Any]:
    """A pointer argument."""
    return ["pointer", value]


def device(at: int) -> list[Any]:
    """An address in the allocation."""
    return pointer({"device": at})


def random_layout(chance: random.Random, rows: int, cols: int, kind: int, count: int) -> Layout:
    """Any order, leading dimension, stride and, of complex numbers, planes."""
    order = chance.choice([COLUMNS, COLUMNS, ROWS, COL32, COL4_4R2_8C, COL32_2R_4R4])
    up = {COL32: rows * 32, COL4_4R2_8C: -(-rows // 8) * 256, COL32_2R_4R4: -(-rows // 32) * 1024}
    least = {COLUMNS: rows, ROWS: cols, **up}[order]
    ld = least + chance.choice([0, 0, 8, 64])
    stride = chance.choice([0, 1 << 14, (1 << 14) + 64]) if count > 1 else 0
    plane = chance.choice([0, 1 << 20]) if kind in COMPLEX else 0
    return Layout(kind, rows, cols, ld, order, count, stride, plane)


def scalar(kind: int, value: int) -> dict[str, str]:
    """A scalar in host memory, zero or not."""
    return {"host": ("01" if value else "00") * (BITS[kind] // 8)}


def add_scalars(call: Call, mode: int, kind: int, rows: int, beta: int) -> tuple[list[Any], bool]:
    """alpha and beta as words, and whether C is read."""
    words = []
    one, column = np.arange(1), np.arange(rows)
    lengths = {
        HOST: (None, None),
        DEVICE: (one, one),
        VECTORS: (column, column),
        VECTOR_ZERO: (column, None),
        VECTOR_HOST: (column, None),
    }[mode]
    for value, elements in zip((1, beta), lengths, strict=True):
        if elements is None:
            words.append(pointer(scalar(kind, value)))
        else:
            at = call.place()
            call.add(at, elements, BITS[kind], "read")
            words.append(device(at))
    return words, mode in (DEVICE, VECTORS) or (mode != VECTOR_ZERO and beta != 0)


def add_epilogue(call: Call, epilogue: int, out: Layout, scale: int) -> list[list[Any]]:
    """Bias and auxiliary matrix, as attributes of the product; scale: the type of alpha."""
    attributes: list[list[Any]] = [[7, "int", epilogue]]
    gradient = epilogue & (GRADIENT | GRADIENT_A | GRADIENT_B)
    if epilogue & BIAS or gradient:
        at, kind = call.place(), call.chance.choice([None, 0, 2])
        stride = call.chance.choice([0, 100]) if out.count > 1 else 0
        length = np.arange(out.cols if epilogue & GRADIENT_B else out.rows)
        whole = strided(length, out.count, stride)
        usual = scale if out.type == INTEGER else out.type
        bits = BITS[usual if kind is None else kind]
        call.add(at, length, bits, "write" if gradient else "read", whole)
        attributes += [[8, "size_t", {"device": at}], [10, "int64_t", stride]]
        attributes += [] if kind is None else [[26, "int", kind]]
    if epilogue & AUX:
        at, ld = call.place(), -(-out.rows // 128) * 128
        stride = call.chance.choice([0, 1 << 15]) if out.count > 1 else 0
        mask = bool(epilogue & (RELU | 8))
        one = np.add.outer(np.arange(out.cols) * ld, np.arange(out.rows)).ravel()
        mode = "read" if epilogue & (8 | 64) else "write"
        bits = 1 if mask else BITS[out.type]
        call.add(at, one, bits, mode, strided(one, out.count, stride))
        attributes += [[11, "size_t", {"device": at}], [12, "int64_t", ld]]
        attributes += [[13, "int64_t", stride]]
    return attributes


def product(chance: random.Random, epilogue: int) -> Call:
    """A random cublasLtMatmul."""
    call = Call(chance)
    m, n, k = (chance.randint(1, 70) for _ in range(3))
    count = chance.choice([1, 1, 3])
    kind = chance.choice([0, 1, 2, 14, 3, 4, 6])
    scale = chance.choice([0, 1, 4] if kind in COMPLEX else [0, 1])
    mode = chance.choice([HOST, HOST, DEVICE, VECTORS, VECTOR_ZERO, VECTOR_HOST])
    shapes = [(m, k), (k, n), (m, n), (m, n)]
    a, b, c, d = (random_layout(chance, *shape, kind, count) for shape in shapes)
    places = [call.place() for _ in range(4)]
    in_place = chance.random() < 0.5
    if in_place:
        c, places[2] = d, places[3]
    scalars, reads_c = add_scalars(call, mode, scale, m, chance.choice([0, 1]))
    attributes = [[2, "int", mode], *add_epilogue(call, epilogue, d, scale)]
    call.matrix(a, places[0], "read")
    call.matrix(b, places[1], "read")
    call.matrix(d, places[3], "update" if reads_c and in_place else "write")
    if reads_c and not in_place:
        call.matrix(c, places[2], "read")
    room, at = chance.choice([0, 1 << 20]), call.place()
    if room:
        call.add(at, np.arange(room), 8, "scratch")
    made: dict[str, list[Any]] = {
        "make": ["cublasLtMatmulDescCreate", [["int", 68], ["int", scale]]]
    }
    made["set"] = ["cublasLtMatmulDescSetAttribute", *attributes]
    call.words = [pointer(None), pointer(made), scalars[0]]
    for layout, place in ((a, places[0]), (b, places[1])):
        call.words += [device(place), pointer(layout.word())]
    call.words += [scalars[1], device(places[2]), pointer(c.word())]
    call.words += [device(places[3]), pointer(d.word()), pointer(None), device(at)]
    call.words += [["size_t", room], pointer(None)]
    return call


def transform(chance: random.Random) -> Call:
    """A random cublasLtMatrixTransform."""
    call = Call(chance)
    call.symbol = "cublasLtMatrixTransform"
    kind, count = chance.choice([0, 2, 3]), chance.choice([1, 4])
    on_device, beta = chance.choice([0, 1]), chance.choice([0, 1])
    layouts = [
        random_layout(chance, chance.randint(1, 50), chance.randint(1, 50), kind, count)
        for _ in range(3)
    ]
    places = [call.place() for _ in range(3)]
    scalars, reads_b = add_scalars(call, on_device, 0, 1, beta)
    call.matrix(layouts[0], places[0], "read")
    if reads_b:
        call.matrix(layouts[1], places[1], "read")
    call.matrix(layouts[2], places[2], "write")
    made: dict[str, list[Any]] = {"make": ["cublasLtMatrixTransformDescCreate", [["int", 0]]]}
    made["set"] = ["cublasLtMatrixTransformDescSetAttribute", [1, "int", on_device]]
    operands = [[device(p), pointer(one.word())] for p, one in zip(places, layouts, strict=True)]
    call.words = [pointer(None), pointer(made), scalars[0], *operands[0], scalars[1]]
    call.words += [*operands[1], *operands[2], pointer(None)]
    return call


def touched(
    run: RunEmulated, emulator_dir: Path, tmp_path: Path, calls: list[Call]
) -> list[set[Touch]]:
    """What each call touched."""
    lines = [call.json() for call in calls]
    trace, size = tmp_path / "trace", SLOT * SLOTS
    return run_calls(run, emulator_dir, trace, lines, library=LIBRARY, size=size, kernels="hidden")


def check(run: RunEmulated, emulator_dir: Path, tmp_path: Path, calls: list[Call]) -> None:
    """Every call touched what it must, and nothing else."""
    for call, found in zip(calls, touched(run, emulator_dir, tmp_path, calls), strict=True):
        assert joined(found) == joined(call.touches), json.dumps(call.json())


@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_products(
    epilogue: int, run_emulated: RunEmulated, emulator_dir: Path, tmp_path: Path
) -> None:
    """Every epilogue, with random shapes, orders, types, batches and places of scalars."""
    chance = random.Random(epilogue)
    calls = [product(chance, epilogue) for _ in range(40)]
    check(run_emulated, emulator_dir, tmp_path, calls)


def test_transforms(run_emulated: RunEmulated, emulator_dir: Path, tmp_path: Path) -> None:
    """B is read unless its factor is zero."""
    chance = random.Random(1)
    check(run_emulated, emulator_dir, tmp_path, [transform(chance) for _ in range(60)])


def narrow(
    scales: list[tuple[int, int, int, int, str]], behind: int = 0, out: int = NARROW
) -> Call:
    """A product of 8-bit numbers; scales: pointer, attribute of the mode, mode, bytes, how.

    A bias is given likewise, with the epilogue for a mode. They lie `behind` bytes behind where
    they lie otherwise.
    """
    call = Call(random.Random(2))
    m, n, k = 256, 192, 384
    a, b, d = Layout(NARROW, k, m, k), Layout(NARROW, k, n, k), Layout(out, m, n, m)
    places = [call.place() for _ in range(3)]
    for layout, place, how in zip((a, b, d), places, ("read", "read", "write"), strict=True):
        call.matrix(layout, place, how)
    attributes: list[list[Any]] = [[3, "int", 1]]
    for attribute, mode_attribute, mode, size, how in scales:
        at = call.place() + behind
        attributes.append([attribute, "size_t", {"device": at}])
        attributes += [[mode_attribute, "int", mode]] if mode_attribute else []
        call.add(at, np.arange(size), 8, how)
    made: dict[str, list[Any]] = {"make": ["cublasLtMatmulDescCreate", [["int", 68], ["int", 0]]]}
    made["set"] = ["cublasLtMatmulDescSetAttribute", *attributes]
    zero, one = (pointer(scalar(0, value)) for value in (0, 1))
    call.words = [pointer(None), pointer(made), one, device(places[0]), pointer(a.word())]
    call.words += [device(places[1]), pointer(b.word()), zero, device(places[2])]
    call.words += [pointer(d.word()), device(places[2]), pointer(d.word()), pointer(None)]
    call.words += [pointer(None), ["size_t", 0], pointer(None)]
    return call


def test_narrow_numbers(run_emulated: RunEmulated, emulator_dir: Path, tmp_path: Path) -> None:
    """Scales of every mode, and maxima, for matrices of 8 bits."""
    one = [(17, 0, 0, 4, "read"), (18, 0, 0, 4, "read"), (20, 0, 0, 4, "read")]
    one += [(21, 0, 0, 4, "update"), (23, 0, 0, 4, "read"), (24, 0, 0, 4, "update")]
    calls = [narrow(one), narrow([])]
    # of A, k x m as it lies, and of B, k x n
    sizes = {
        1: (24 * 256, 24 * 256),  # a byte each 16, in tiles of 128 by 4
        2: (12 * 256, 12 * 256),
        3: (256 * 4, 192 * 4),
        4: (3 * 256 * 4, 3 * 192 * 4),
        5: (4 * 2 * 4, 4 * 2 * 4),
        6: (4, 4),
        12: (256 * 4, 192 * 4),
        13: (3 * 256 * 4, 3 * 192 * 4),
    }
    calls += [
        narrow([(17, 31, mode, a, "read"), (18, 32, mode, b, "read")])
        for mode, (a, b) in sizes.items()
    ]
    check(run_emulated, emulator_dir, tmp_path, calls)


def test_scales_reach_over_addresses_of_before(
    run_emulated: RunEmulated, emulator_dir: Path, tmp_path: Path
) -> None:
    """Where one was once seen is no bound of what the mode tells."""
    calls = [narrow([(17, 31, 0, 4, "read")], 1024), narrow([(17, 31, 2, 12 * 256, "read")])]
    check(run_emulated, emulator_dir, tmp_path, calls)


@pytest.mark.parametrize("out", [NARROW, FLOAT])
def test_the_bias_of_narrow_numbers(
    out: int, run_emulated: RunEmulated, emulator_dir: Path, tmp_path: Path
) -> None:
    """Of 16 bits, unless its type is set."""
    call = narrow([(8, 7, BIAS, 2 * 256, "read")], out=out)
    check(run_emulated, emulator_dir, tmp_path, [call])


@pytest.mark.parametrize("mode", [ARRAY, GROUPED])
def test_arrays_of_matrices(
    mode: int, run_emulated: RunEmulated, emulator_dir: Path, tmp_path: Path
) -> None:
    """Addresses in device memory; of groups, whose shapes are there too, the blocks are known."""
    call = Call(random.Random(3))
    shapes = Layout(2, 16, 16, 16, count=2, mode=mode)
    arrays, lists = [], []
    if mode == GROUPED:
        for attribute in (9, 10, 11):
            at = call.place()
            lists.append([attribute, "size_t", {"device": at}])
            call.add(at, np.arange(2), 32, "read")
        shapes.more = lists
    for how in ("read", "read", "write"):
        at = call.place()
        targets = [call.place() for _ in range(2)]
        arrays.append(pointer({"array": at, "of": targets}))
        call.add(at, np.arange(2), 64, "read")
        if mode == ARRAY:
            for target in targets:
                call.add(target, shapes.one(), 16, how)
    made: dict[str, list[Any]] = {"make": ["cublasLtMatmulDescCreate", [["int", 68], ["int", 0]]]}
    made["set"] = ["cublasLtMatmulDescSetAttribute"]
    zero, one = (pointer(scalar(0, value)) for value in (0, 1))
    word = pointer(shapes.word())
    call.words = [pointer(None), pointer(made), one, arrays[0], word, arrays[1], word, zero]
    call.words += [arrays[2], word, arrays[2], word, pointer(None)]
    call.words += [pointer(None), ["size_t", 0], pointer(None)]
    if mode == ARRAY:
        check(run_emulated, emulator_dir, tmp_path, [call])
        return
    (found,) = touched(run_emulated, emulator_dir, tmp_path, [call])
    assert {touch for touch in found if touch[2] != "not told"} == call.touches
    starts = {target for _, array in arrays for target in array["of"]}
    assert {first for first, _, mode in found if mode == "not told"} == starts
