"""What is known of cuDNN's backend descriptors: extents, and what happens when little is known."""

import ctypes
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.array_utils import byte_bounds

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from hooks.generator.operations import read_operations  # noqa: E402
from hooks.generator.row import TableError  # noqa: E402
from tests.unit.cudnn_program import (  # noqa: E402
    BLOCK,
    EXACT,
    READ,
    SCRATCH,
    UPDATE,
    VALUES,
    WITHIN,
    WRITE,
    Program,
    Told,
    library,
)

pytestmark = pytest.mark.unit

# numpy's type for each element type, where it has one
ELEMENTS = {
    "FLOAT": np.float32,
    "DOUBLE": np.float64,
    "HALF": np.float16,
    "BFLOAT16": np.uint16,
    "INT8": np.int8,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP8_E4M3": np.uint8,
    "COMPLEX_FP64": np.complex128,
}


@pytest.fixture
def program() -> Program:
    """A program with no descriptors yet."""
    return Program()


def numpy_bytes(sizes: Sequence[int], strides: Sequence[int], element: str) -> tuple[int, int]:
    """First and last byte that numpy's view of such a tensor reaches, from its first element."""
    kind = np.dtype(ELEMENTS[element])
    bytes_ = [stride * kind.itemsize for stride in strides]
    array = np.lib.stride_tricks.as_strided(np.zeros(1, kind), sizes, bytes_)
    low, high = byte_bounds(array)
    return low - array.ctypes.data, high - array.ctypes.data


def has_holes(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """True unless every element between the first and the last belongs to the tensor, once."""
    offsets = sum(np.indices(sizes)[i] * stride for i, stride in enumerate(strides))
    places = np.unique(offsets)
    whole = bool(places[-1] - places[0] + 1 == len(places))
    return not (whole and len(places) == np.prod(sizes))


@st.composite
def layouts(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Sizes, and strides in any order of the dimensions: with gaps, overlapping, backwards."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    order = draw(st.permutations(range(len(sizes))))
    strides = [0] * len(sizes)
    step = 1
    for i in order:
        strides[i] = max(1, step + draw(st.sampled_from([0, 0, 0, 1, 3, -1])))
        step = strides[i] * sizes[i]
    back = draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)))
    return sizes, [
        -stride if turned else stride for stride, turned in zip(strides, back, strict=True)
    ]


@settings(max_examples=150)
@given(
    layout=layouts(),
    element=st.sampled_from(sorted(ELEMENTS)),
    role=st.sampled_from(["X", "Y"]),
)
def test_extents_are_numpys(layout: tuple[list[int], list[int]], element: str, role: str) -> None:
    """From the first byte to the last, as strides say; holes are seen."""
    program = Program()
    sizes, strides = layout
    tensor = program.tensor(7, sizes, strides, element)
    operation = program.operation("RESHAPE", "RESHAPE", **{f"{role}DESC": tensor})
    told = program.execute(program.plan([operation]), {7: 1 << 30})[1 << 30]
    low, high = numpy_bytes(sizes, strides, element)
    mode = READ if role == "X" else WRITE
    assert told == [Told(low, high, has_holes(sizes, strides), EXACT, mode)]


@pytest.mark.parametrize(
    ("element", "bits"), [("BOOLEAN", 1), ("FP4_E2M1", 4), ("INT4", 4), ("UINT4", 4)]
)
@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 1001])
def test_small_elements_share_bytes(program: Program, element: str, bits: int, n: int) -> None:
    """Elements of less than a byte; the last byte counts whole."""
    tensor = program.tensor(1, [n], [1], element)
    plan = program.plan([program.operation("RESHAPE", "RESHAPE", XDESC=tensor)])
    (told,) = program.execute(plan, {1: 4096})[4096]
    assert (told.low, told.high) == (0, int(np.ceil(n * bits / 8)))


def test_vectors_of_elements(program: Program) -> None:
    """Sizes and strides count vectors."""
    tensor = program.tensor(1, [2, 3, 4, 5], None, "INT8", vector=32)
    plan = program.plan([program.operation("RESHAPE", "RESHAPE", XDESC=tensor)])
    assert program.execute(plan, {1: 4096})[4096][0].high == 2 * 3 * 4 * 5 * 32


def test_unknown_element_type_tells_the_block(program: Program) -> None:
    """A type of a newer cuDNN: how far it reaches is not made up."""
    tensor = program.tensor(1, [8], [1])
    program.set(tensor, "TENSOR_DATA_TYPE", "DATA_TYPE", [99])
    plan = program.plan([program.operation("RESHAPE", "RESHAPE", XDESC=tensor)])
    assert program.execute(plan, {1: 4096})[4096][0].reach == BLOCK


def test_what_one_operation_makes_another_reads(program: Program) -> None:
    """A tensor in memory between two operations: what it held before is not read."""
    middle = program.tensor(2, [64])
    first = program.operation("RESHAPE", "RESHAPE", XDESC=program.tensor(1, [64]), YDESC=middle)
    second = program.operation("RESHAPE", "RESHAPE", XDESC=middle, YDESC=program.tensor(3, [64]))
    for order in ([first, second], [second, first]):
        copies = Program()
        graph = copies.make("OPERATIONGRAPH")
        copies.set(graph, 801, "BACKEND_DESCRIPTOR", order)
        plan = copies.make("EXECUTION_PLAN")
        copies.set(plan, 401, "BACKEND_DESCRIPTOR", [graph])
        library().descriptor_planned(ctypes.c_void_p(plan), ctypes.c_int64(0))
        told = copies.execute(plan, {1: 4096, 2: 8192, 3: 12288})
        assert [told[at][0].mode for at in (4096, 8192, 12288)] == [READ, WRITE, WRITE]


def test_one_operation_in_place(program: Program) -> None:
    """The same tensor in and out: it is worked on."""
    both = program.tensor(1, [64])
    operation = program.operation("POINTWISE", "POINTWISE", XDESC=both, YDESC=both)
    assert program.modes([operation], [1]) == {1: UPDATE}


def test_concatenation(program: Program) -> None:
    """With an input already in its place, the output keeps that part."""
    for index, mode in ((-1, WRITE), (0, UPDATE)):
        parts = [program.tensor(uid, [4, 4]) for uid in (1, 2)]
        operation = program.operation("CONCAT", "CONCAT", OUTPUT_DESC=program.tensor(3, [8, 4]))
        program.set(operation, "OPERATION_CONCAT_INPUT_DESCS", "BACKEND_DESCRIPTOR", parts)
        program.set(operation, "OPERATION_CONCAT_INPLACE_INDEX", "INT64", [index])
        assert program.modes([operation], [1, 2, 3]) == {1: READ, 2: READ, 3: mode}


def test_an_attribute_set_again_replaces(program: Program) -> None:
    """What was set before is used no more."""
    operation = program.operation("RESHAPE", "RESHAPE", XDESC=program.tensor(1, [64]))
    program.set(
        operation, "OPERATION_RESHAPE_XDESC", "BACKEND_DESCRIPTOR", [program.tensor(2, [8])]
    )
    assert program.modes([operation], [1, 2]) == {2: READ}


def test_unknown_attributes_count_as_both(program: Program) -> None:
    """An operation of a newer cuDNN: its tensors may be read and written."""
    operation = program.make("OPERATION_SOFTMAX")
    program.set(operation, 9999, "BACKEND_DESCRIPTOR", [program.tensor(1, [64])])
    assert program.modes([operation], [1]) == {1: UPDATE}


def test_tensors_never_seen(program: Program) -> None:
    """A tensor made before recording began: the blocks at addresses that nothing is known of."""
    known = program.tensor(1, [64])
    operation = program.operation("RESHAPE", "RESHAPE", XDESC=known, YDESC=0xDEAD00)
    told = program.execute(program.plan([operation]), {1: 4096, 2: 8192})
    assert told[4096][0] == Told(0, 128, False, EXACT, READ)
    assert (told[8192][0].reach, told[8192][0].mode) == (BLOCK, UPDATE)


def test_operations_never_seen(program: Program) -> None:
    """One of a graph's operations was made before recording began: so with its tensors."""
    one = program.tensor(1, [64])
    operation = program.operation("RESHAPE", "RESHAPE", XDESC=one, YDESC=program.tensor(2, [64]))
    told = program.execute(program.plan([operation, 0xDEAD00]), {1: 4096, 2: 8192, 3: 12288})
    assert told[4096][0] == Told(0, 128, False, EXACT, READ)
    assert told[8192][0] == Told(0, 128, False, EXACT, WRITE)
    assert (told[12288][0].reach, told[12288][0].mode) == (BLOCK, UPDATE)


def test_plans_from_files(program: Program) -> None:
    """Such a plan has no graph: whole blocks, but its workspace is known."""
    plan = program.make("EXECUTION_PLAN")
    library().descriptor_planned(ctypes.c_void_p(plan), ctypes.c_int64(777))
    told = program.execute(plan, {1: 4096, 2: 8192}, workspace=12288)
    assert [(told[at][0].reach, told[at][0].mode) for at in (4096, 8192)] == [(BLOCK, UPDATE)] * 2
    assert told[12288] == [Told(0, 777, False, EXACT, SCRATCH)]


def test_unknown_plans(program: Program) -> None:
    """Nothing is known of the plan: no workspace may be called one."""
    told = program.execute(0xBEEF00, {1: 4096}, workspace=12288)
    assert {at: (places[0].reach, places[0].mode) for at, places in told.items()} == {
        4096: (BLOCK, UPDATE),
        12288: (BLOCK, UPDATE),
    }


def test_other_shapes_for_one_execution(program: Program) -> None:
    """Shapes that only the library can read: the block."""
    operation = program.operation(
        "RESHAPE", "RESHAPE", XDESC=program.tensor(1, [64]), YDESC=program.tensor(2, [64])
    )
    told = program.execute(program.plan([operation]), {1: 4096, 2: 8192}, reshaped=[2])
    assert (told[4096][0].reach, told[8192][0].reach) == (EXACT, BLOCK)
    assert told[8192][0].mode == WRITE


def test_one_tensor_described_twice(program: Program) -> None:
    """The longer description holds; a bound holds against an exact extent, holes against none."""
    offsets = program.tensor(9, [3, 1], element="INT32")
    pairs = [
        (program.tensor(1, [64]), program.tensor(1, [16]), Told(0, 128, False, EXACT, WRITE)),
        (
            program.tensor(1, [64]),
            program.tensor(1, [2, 8], [10, 1]),
            Told(0, 128, True, EXACT, WRITE),
        ),
        (
            program.tensor(1, [64]),
            program.tensor(1, [2, 8], ragged=offsets),
            Told(0, 32, True, WITHIN, WRITE),
        ),
    ]
    for pair in pairs:
        for first, second in (pair[:2], pair[1::-1]):
            operations = [
                program.operation("RESHAPE", "RESHAPE", YDESC=first),
                program.operation("RESHAPE", "RESHAPE", XDESC=second),
            ]
            graph = program.make("EXECUTION_PLAN")
            program.set(graph, 401, "BACKEND_DESCRIPTOR", operations)
            library().descriptor_planned(ctypes.c_void_p(graph), ctypes.c_int64(0))
            assert program.execute(graph, {1: 4096})[4096] == [pair[2]]


def test_constants_are_in_no_memory(program: Program) -> None:
    """Nor is a tensor that is virtual after all."""
    constant, virtual = program.tensor(1, [1]), program.tensor(2, [64])
    program.set(constant, "TENSOR_CONSTANT_VALUE", "FLOAT", [1.0])
    program.set(virtual, "TENSOR_IS_VIRTUAL", "BOOLEAN", [True])
    operation = program.operation("POINTWISE", "POINTWISE", XDESC=constant, YDESC=virtual)
    program.set(
        operation, "OPERATION_POINTWISE_BDESC", "BACKEND_DESCRIPTOR", [program.tensor(3, [64])]
    )
    settings_ = program.make("POINTWISE")
    program.set(operation, "OPERATION_POINTWISE_PW_DESCRIPTOR", "BACKEND_DESCRIPTOR", [settings_])
    assert program.modes([operation], [1, 2, 3, 4]) == {3: READ}


@pytest.mark.parametrize("taker", ["configuration", "tensor"])
def test_what_the_library_hands_out(program: Program, taker: str) -> None:
    """An engine configuration takes the last graph it was filled from; a tensor takes none."""
    tensor, config = program.tensor(3, [64]), program.make("ENGINECFG")
    for uid in (1, 2):
        graph = program.make("OPERATIONGRAPH")
        operation = program.operation("RESHAPE", "RESHAPE", XDESC=program.tensor(uid, [64]))
        program.set(graph, 801, "BACKEND_DESCRIPTOR", [operation])
        program.share(graph, [tensor, config, 0, 0xDEAD00])
    reader = program.operation("RESHAPE", "RESHAPE", XDESC=tensor)
    part, uid = (config, 2) if taker == "configuration" else (reader, 3)
    assert program.modes([part], [1, 2, 3]) == {uid: READ}


def test_destroyed_and_emptied(program: Program) -> None:
    """Nothing is left of a descriptor that is gone, or made empty for another use."""
    plan = program.plan([program.operation("RESHAPE", "RESHAPE", XDESC=program.tensor(1, [64]))])
    library().descriptor_emptied(ctypes.c_void_p(plan))
    library().descriptor_planned(ctypes.c_void_p(plan), ctypes.c_int64(0))
    assert program.execute(plan, {1: 4096})[4096][0].reach == BLOCK
    program.destroy(plan)
    assert not library().descriptor_is_plan(ctypes.c_void_p(plan))


def test_settings_are_not_kept(program: Program) -> None:
    """A kernel cache, made for another graph, adds nothing to a plan."""
    graph = program.make("OPERATIONGRAPH")
    other = program.operation("RESHAPE", "RESHAPE", XDESC=program.tensor(5, [64]))
    program.set(graph, 801, "BACKEND_DESCRIPTOR", [other])
    cache = program.make("KERNEL_CACHE")
    program.set(cache, 2400, "BACKEND_DESCRIPTOR", [graph])
    mine = program.operation("RESHAPE", "RESHAPE", XDESC=program.tensor(1, [64]))
    plan = program.make("EXECUTION_PLAN")
    program.set(plan, 401, "BACKEND_DESCRIPTOR", [mine])
    program.set(plan, 406, "BACKEND_DESCRIPTOR", [cache])
    library().descriptor_planned(ctypes.c_void_p(plan), ctypes.c_int64(0))
    assert list(program.execute(plan, {1: 4096, 5: 8192})) == [4096]


@pytest.mark.parametrize(
    ("table", "message"),
    [("10 RESHAPE in", ":1: neither"), ("10 X\n    7 Y in\n    7 Z out", ":3: attribute 7 twice")],
)
def test_mistakes_in_a_table_of_roles(tmp_path: Path, table: str, message: str) -> None:
    (tmp_path / "cudnn").mkdir()
    (tmp_path / "cudnn/a.roles").write_text(table, encoding="utf-8")
    with pytest.raises(TableError, match=message):
        read_operations(tmp_path)


def test_every_attribute_of_operations_has_a_role() -> None:
    """Each that the declarations name is said to be read, written or neither."""
    named = {n: v for n, v in VALUES.items() if n.startswith("CUDNN_ATTR_OPERATION_")}
    assert len(named) > 250
    assert not sorted(name for name, value in named.items() if library().role_of(value) == 0)
    assert library().role_of(-1) == library().role_of(1 << 20) == 0
