"""Operation graphs of cuDNN, built as its frontends do, and the memory that their plans touch."""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.unit.cudnn_program import (  # noqa: E402
    EXACT,
    READ,
    SCRATCH,
    UPDATE,
    WITHIN,
    WRITE,
    Program,
    Told,
)

pytestmark = pytest.mark.unit


@pytest.fixture
def program() -> Program:
    """A program with no descriptors yet."""
    return Program()


@pytest.mark.parametrize("found", [False, True])
@pytest.mark.parametrize(
    ("weight", "kind"), [(0.0, "FLOAT"), (0.5, "FLOAT"), (-1.0, "DOUBLE"), (0.0, "DOUBLE")]
)
@pytest.mark.parametrize(
    ("kind_of", "prefix", "names"),
    [
        ("CONVOLUTION_FORWARD", "CONVOLUTION_FORWARD", ("X", "W", "Y")),
        ("CONVOLUTION_BACKWARD_DATA", "CONVOLUTION_BWD_DATA", ("DY", "W", "DX")),
        ("CONVOLUTION_BACKWARD_FILTER", "CONVOLUTION_BWD_FILTER", ("X", "DY", "DW")),
    ],
)
def test_convolution(
    program: Program,
    kind_of: str,
    prefix: str,
    names: tuple[str, str, str],
    weight: float,
    kind: str,
    found: bool,
) -> None:
    """The last tensor is written, and read when its old content has a weight; 77 is none."""
    sizes = {
        "X": [8, 64, 28, 28],
        "DX": [8, 64, 28, 28],
        "W": [128, 64, 3, 3],
        "DW": [128, 64, 3, 3],
    }
    tensors = {}
    for uid, name in enumerate(names, 1):
        shape = sizes.get(name, [8, 128, 26, 26])
        _, c, h, w = shape
        tensors[name] = program.tensor(uid, shape, [c * h * w, 1, c * w, c], "HALF")
    operation = program.operation(kind_of, prefix, **tensors)
    settings_ = program.make("CONVOLUTION")
    program.set(operation, f"OPERATION_{prefix}_CONV_DESC", "BACKEND_DESCRIPTOR", [settings_])
    program.set(operation, f"OPERATION_{prefix}_ALPHA", kind, [1.0])
    program.set(operation, f"OPERATION_{prefix}_BETA", kind, [weight])
    plan = program.plan([operation], workspace=12345, found=found)
    told = program.execute(
        plan, {1: 1 << 20, 2: 2 << 20, 3: 3 << 20, 77: 7 << 20}, workspace=9 << 20
    )
    expected = {}
    for uid, name in enumerate(names, 1):
        size = int(np.prod(sizes.get(name, [8, 128, 26, 26]))) * 2
        mode = READ if uid < 3 else UPDATE if weight else WRITE
        expected[uid << 20] = [Told(0, size, False, EXACT, mode)]
    expected[9 << 20] = [Told(0, 12345, False, EXACT, SCRATCH)]
    assert told == expected


def test_matmul_bias_gelu(program: Program) -> None:
    """What lies between fused operations is in no memory; scalars are the program's own."""
    a = program.tensor(10, [4, 128, 256])
    b = program.tensor(11, [4, 256, 512], [256 * 512, 1, 256])
    product = program.tensor(12, [4, 128, 512], element="FLOAT", virtual=True)
    bias = program.tensor(13, [1, 1, 512], element="FLOAT")
    sum_ = program.tensor(14, [4, 128, 512], element="FLOAT", virtual=True)
    scale = program.tensor(15, [1, 1, 1], element="FLOAT", by_value=True)
    scaled = program.tensor(16, [4, 128, 512], element="FLOAT", virtual=True)
    out = program.tensor(17, [4, 128, 512])
    operations = [
        program.operation("MATMUL", "MATMUL", ADESC=a, BDESC=b, CDESC=product),
        program.operation("POINTWISE", "POINTWISE", XDESC=product, BDESC=bias, YDESC=sum_),
        program.operation("POINTWISE", "POINTWISE", XDESC=sum_, BDESC=scale, YDESC=scaled),
        program.operation("POINTWISE", "POINTWISE", XDESC=scaled, YDESC=out),
    ]
    told = program.execute(
        program.plan(operations), {uid: uid << 24 for uid in (10, 11, 13, 15, 17)}
    )
    assert told == {
        10 << 24: [Told(0, 4 * 128 * 256 * 2, False, EXACT, READ)],
        11 << 24: [Told(0, 4 * 256 * 512 * 2, False, EXACT, READ)],
        13 << 24: [Told(0, 512 * 4, False, EXACT, READ)],
        17 << 24: [Told(0, 4 * 128 * 512 * 2, False, EXACT, WRITE)],
    }


def norm(program: Program, phase: int, *, layer: bool) -> int:
    """Of x 1 with scale 2, bias 3, mean 4, variance 5, running statistics 6 to 9, to y 10."""
    rows = 32 if layer else 1
    small = [rows, 1, 1, 1] if layer else [1, 64, 1, 1]
    names = {
        "XDESC": program.tensor(1, [32, 64, 8, 8]),
        "SCALE_DESC": program.tensor(2, [1, 64, 1, 1], element="FLOAT"),
        "BIAS_DESC": program.tensor(3, [1, 64, 1, 1], element="FLOAT"),
        "MEAN_DESC": program.tensor(4, small, element="FLOAT"),
        "INV_VARIANCE_DESC": program.tensor(5, small, element="FLOAT"),
        "EPSILON_DESC": program.tensor(20, [1, 1, 1, 1], element="FLOAT", by_value=True),
        "YDESC": program.tensor(10, [32, 64, 8, 8]),
    }
    if not layer:
        for uid, name in enumerate(("INPUT_RUNNING_MEAN", "INPUT_RUNNING_VAR"), 6):
            names[f"{name}_DESC"] = program.tensor(uid, small, element="FLOAT")
        for uid, name in enumerate(("OUTPUT_RUNNING_MEAN", "OUTPUT_RUNNING_VAR"), 8):
            names[f"{name}_DESC"] = program.tensor(uid, small, element="FLOAT")
    operation = program.operation("NORM_FORWARD", "NORM_FWD", **names)
    program.set(operation, "OPERATION_NORM_FWD_PHASE", "NORM_FWD_PHASE", [phase])
    return operation


def test_batch_normalisation_in_training(program: Program) -> None:
    """Statistics are saved; running ones are read and written, here at addresses of their own."""
    modes = program.modes([norm(program, 1, layer=False)], [*range(1, 11), 20])
    assert modes == {
        1: READ,
        2: READ,
        3: READ,
        4: WRITE,
        5: WRITE,
        6: READ,
        7: READ,
        8: WRITE,
        9: WRITE,
        10: WRITE,
    }


def test_running_statistics_in_place(program: Program) -> None:
    """One address for two tensors is told twice: whoever records joins them."""
    plan = program.plan([norm(program, 1, layer=False)])
    told = program.execute(plan, {6: 1 << 20, 8: 1 << 20})
    assert [place.mode for place in told[1 << 20]] == [READ, WRITE]


@pytest.mark.parametrize(("phase", "mode"), [(0, READ), (1, WRITE)])
def test_layer_normalisation(program: Program, phase: int, mode: int) -> None:
    """Mean and variance are inputs in inference."""
    modes = program.modes([norm(program, phase, layer=True)], [*range(1, 11)])
    assert modes == {1: READ, 2: READ, 3: READ, 4: mode, 5: mode, 10: WRITE}


def test_batch_normalisation_backward(program: Program) -> None:
    """Three gradients come out, everything else goes in."""
    inputs = ("XDESC", "MEAN_DESC", "INV_VARIANCE_DESC", "DYDESC", "SCALE_DESC")
    names = {name: program.tensor(uid, [2, 3, 4, 4]) for uid, name in enumerate(inputs, 1)}
    outputs = ("DSCALE_DESC", "DBIAS_DESC", "DXDESC")
    names |= {name: program.tensor(uid, [2, 3, 4, 4]) for uid, name in enumerate(outputs, 6)}
    operation = program.operation("NORM_BACKWARD", "NORM_BWD", **names)
    modes = program.modes([operation], range(1, 9))
    assert modes == {**dict.fromkeys(range(1, 6), READ), **dict.fromkeys(range(6, 9), WRITE)}


def attention(program: Program, batch: int, heads: int, length: int, width: int) -> list[int]:
    """Attention as the frontends compose it: two matrix products around a softmax.

    Tensors are of batches, heads, lengths, widths but lie with the heads inside: q 1, k 2, v 3,
    scale 4, o 9, statistics 10, seed 11, offset 12.
    """
    sizes = [batch, heads, length, width]
    strides = [length * heads * width, width, heads * width, 1]
    turned = [batch, heads, width, length]
    square = [batch, heads, length, length]
    column = [batch, heads, length, 1]

    def virtual(uid: int, shape: Sequence[int]) -> int:
        return program.tensor(uid, shape, element="FLOAT", virtual=True)

    q = program.tensor(1, sizes, strides)
    k = program.tensor(2, turned, [strides[0], strides[1], 1, strides[2]])
    v = program.tensor(3, sizes, strides)
    scale = program.tensor(4, [1, 1, 1, 1], element="FLOAT", by_value=True)
    o = program.tensor(9, sizes, strides)
    statistics = program.tensor(10, column, element="FLOAT")
    seed = program.tensor(11, [1, 1, 1, 1], element="INT64")
    offset = program.tensor(12, [1, 1, 1, 1], element="INT64")
    product, scaled, highest, less = (virtual(20 + i, square) for i in range(4))
    exponent, total, logarithm, chance, mask, kept = (virtual(30 + i, square) for i in range(6))
    point = ("POINTWISE", "POINTWISE")
    random = program.operation("RNG", "RNG", YDESC=mask, SEED=seed, OFFSET_DESC=offset)
    return [
        program.operation("MATMUL", "MATMUL", ADESC=q, BDESC=k, CDESC=product),
        program.operation(*point, XDESC=product, BDESC=scale, YDESC=scaled),
        program.operation("REDUCTION", "REDUCTION", XDESC=scaled, YDESC=highest),
        program.operation(*point, XDESC=scaled, BDESC=highest, YDESC=less),
        program.operation(*point, XDESC=less, YDESC=exponent),
        program.operation("REDUCTION", "REDUCTION", XDESC=exponent, YDESC=total),
        program.operation(*point, XDESC=total, YDESC=logarithm),
        program.operation(*point, XDESC=highest, BDESC=logarithm, YDESC=statistics),
        program.operation(*point, XDESC=exponent, BDESC=total, YDESC=chance),
        random,
        program.operation(*point, XDESC=chance, BDESC=mask, YDESC=kept),
        program.operation("MATMUL", "MATMUL", ADESC=kept, BDESC=v, CDESC=o),
    ]


def test_composed_attention(program: Program) -> None:
    """Many operations, of which only the ends are in memory."""
    plan = program.plan(attention(program, 2, 12, 512, 64), workspace=1 << 16)
    uids = (1, 2, 3, 4, 9, 10, 11, 12)
    told = program.execute(plan, {uid: uid << 28 for uid in uids}, workspace=99 << 28)
    whole = 2 * 12 * 512 * 64 * 2
    assert told == {
        1 << 28: [Told(0, whole, False, EXACT, READ)],
        2 << 28: [Told(0, whole, False, EXACT, READ)],
        3 << 28: [Told(0, whole, False, EXACT, READ)],
        9 << 28: [Told(0, whole, False, EXACT, WRITE)],
        10 << 28: [Told(0, 2 * 12 * 512 * 4, False, EXACT, WRITE)],
        11 << 28: [Told(0, 8, False, EXACT, READ)],
        12 << 28: [Told(0, 8, False, EXACT, READ)],
        99 << 28: [Told(0, 1 << 16, False, EXACT, SCRATCH)],
    }


def test_attention_in_one_operation(program: Program) -> None:
    """The unified form, whose scores a graph of its own works on."""
    inside = program.tensor(50, [2, 4, 16, 16], element="FLOAT", virtual=True)
    bias = program.tensor(51, [1, 4, 16, 16], element="FLOAT")
    biased = program.tensor(52, [2, 4, 16, 16], element="FLOAT", virtual=True)
    scores = program.operation("POINTWISE", "POINTWISE", XDESC=inside, BDESC=bias, YDESC=biased)
    names = ("QDESC", "KDESC", "VDESC", "ODESC", "STATSDESC")
    tensors = {name: program.tensor(uid, [2, 4, 16, 8]) for uid, name in enumerate(names, 1)}
    forward = program.operation("SDPA_FWD", "SDPA_FWD", SUBGRAPH=scores, **tensors)
    assert program.modes([forward], [1, 2, 3, 4, 5, 51]) == {
        1: READ, 2: READ, 3: READ, 4: WRITE, 5: WRITE, 51: READ,
    }  # fmt: skip
    gradients = (
        "QDESC",
        "KDESC",
        "VDESC",
        "ODESC",
        "STATSDESC",
        "DODDESC",
        "DQDESC",
        "DKDESC",
        "DVDESC",
        "DBIAS_DESC",
    )
    tensors = {name: program.tensor(uid, [2, 4, 16, 8]) for uid, name in enumerate(gradients, 1)}
    backward = program.operation("SDPA_BWD", "SDPA_BWD", **tensors)
    assert program.modes([backward], range(1, 11)) == {
        **dict.fromkeys(range(1, 7), READ), **dict.fromkeys(range(7, 10), WRITE), 10: UPDATE,
    }  # fmt: skip


def test_ragged_tensors_are_bounds(program: Program) -> None:
    """Rows of different lengths: the shape is a bound, gaps stay, the offsets are read."""
    offsets = program.tensor(5, [9, 1, 1, 1], element="INT32")
    q = program.tensor(1, [8, 12, 128, 64], ragged=offsets)
    o = program.tensor(2, [8, 12, 128, 64], ragged=offsets)
    plan = program.plan([program.operation("SDPA_FWD", "SDPA_FWD", QDESC=q, ODESC=o)])
    whole = 8 * 12 * 128 * 64 * 2
    assert program.execute(plan, {1: 1 << 20, 2: 2 << 24, 5: 5 << 28}) == {
        1 << 20: [Told(0, whole, True, WITHIN, READ)],
        2 << 24: [Told(0, whole, True, WITHIN, WRITE)],
        5 << 28: [Told(0, 9 * 4, False, EXACT, READ)],
    }
