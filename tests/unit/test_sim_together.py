"""Calls whose kernels are one operation: recorded steps have them as backends take them."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from hooks.gen import shipped  # noqa: E402
from hooks.generator.row import Told  # noqa: E402
from pump import paths  # noqa: E402
from pump.sim.recorded import TOGETHER, lies_in, parts_of, sequence_of, work_of  # noqa: E402
from pump.sim.sequence import Operation, SequenceError  # noqa: E402
from pump.trace import OpFlag, OpKind, Trace, read  # noqa: E402

pytestmark = [pytest.mark.unit, pytest.mark.slow]

READ, WRITE, UPDATE = 1, 2, 3


@pytest.fixture(scope="module")
def lstm() -> Trace:
    """Its kernels and memsets are nearly all in calls of cuDNN, three a step."""
    return read(paths.traces()["lstm"])


def test_they_begin_as_the_tables_have_them() -> None:
    told = {row.symbol: row.treatment for row in shipped().rows if row.library == "cudnn"}
    together = {name for name, how in told.items() if isinstance(how, Told) and how.together}
    assert together == {
        name for name, how in told.items() if name.startswith(TOGETHER) and isinstance(how, Told)
    }
    assert len(together) == 11


def test_a_call_is_one_operation(lstm: Trace) -> None:
    whole = sequence_of(lstm)
    apart = sequence_of(replace(lstm, apis=dict.fromkeys(lstm.apis, "cuLaunchKernel")))
    assert (whole.operations(), apart.operations()) == (36, 3257)
    assert whole.native_ns() == apart.native_ns()
    most = [
        sum(touch.bytes for touch in event.touches) >> 30
        for event in whole.steps[-1]
        if isinstance(event, Operation)
    ]
    assert most.count(1) == 3


def test_what_touches_anything_else_is_none_of_it(lstm: Trace) -> None:
    rows = work_of(lstm)
    parts = parts_of(lstm, rows)
    first = set(parts.values())
    assert not first & parts.keys()
    inside = rows[[lstm.api_name(api).startswith(TOGETHER) for api in rows["api"]]]
    assert set(inside["serial"].tolist()) == first | parts.keys()
    serial = int(inside[inside["kind"] == OpKind.MEMSET]["serial"][0])
    row = rows[rows["serial"] == serial][0]
    touches = lstm.touches.copy()
    touches["start"][int(row["first_touch"])] = 1 << 20
    other = parts_of(replace(lstm, touches=touches), rows)
    assert serial in parts
    assert serial not in other
    kernels = inside[inside["kind"] == OpKind.LAUNCH]["serial"]
    behind = int(kernels[kernels > serial][0])
    assert behind in parts
    assert behind not in other


def test_where_a_call_begins_may_be_told(lstm: Trace) -> None:
    rows = work_of(lstm).copy()
    first = set(parts_of(lstm, rows).values())
    rows["flags"][np.isin(rows["serial"], sorted(first))] |= np.uint8(OpFlag.WHOLE)
    assert set(parts_of(lstm, rows).values()) == first
    one, *_, last = sorted(
        part for part, whole in parts_of(lstm, rows).items() if whole == min(first)
    )
    middle = rows[(rows["serial"] > one) & (rows["serial"] < last)]["serial"][0]
    rows["flags"][rows["serial"] == middle] |= np.uint8(OpFlag.HIDES)
    parts = parts_of(lstm, rows)
    assert parts[one] == min(first)
    assert not parts.keys() & set(
        rows["serial"][(rows["serial"] >= middle) & (rows["serial"] <= last)]
    )


def test_times_that_are_lost_are_told_of_parts_too(lstm: Trace) -> None:
    parts = parts_of(lstm, work_of(lstm))
    known = lstm.retirements[~np.isin(lstm.retirements["operation"], list(parts))]
    with pytest.raises(SequenceError, match=r"knows when 3\d of 3257 ran"):
        sequence_of(replace(lstm, retirements=known))


@pytest.mark.parametrize(
    ("touch", "inside"),
    [
        ((100, 50, READ), True),
        ((100, 50, WRITE), False),
        ((149, 1, READ), True),
        ((149, 2, READ), False),
        ((99, 2, READ), False),
        ((220, 10, UPDATE), True),
        ((220, 10, READ), True),
        ((150, 60, READ), False),
    ],
)
def test_a_part_writes_what_may_be_written(touch: tuple[int, int, int], inside: bool) -> None:
    assert lies_in(touch, [(100, 50, READ), (200, 100, WRITE)]) is inside
