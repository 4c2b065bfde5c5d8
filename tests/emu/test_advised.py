"""Managed memory of which the program itself says where it is to lie."""

from pathlib import Path

import pytest

from tests.conftest import RunEmulated
from tests.emu.small_program import run_small

pytestmark = pytest.mark.emu
LARGE_MIB, SMALL_MIB, ARRAYS, ROUNDS = 32, 4, 6, 4
PROGRAM = f"""
def managed(size):
    start = ctypes.c_uint64()
    call("cuMemAllocManaged", ctypes.byref(start), ctypes.c_size_t(size), 1)
    return start


def advised(advice, device):
    call("cuMemAdvise", large, ctypes.c_size_t({LARGE_MIB} * MIB), advice, device)


def attribute(which):
    value = ctypes.c_int()
    size = ctypes.c_size_t({LARGE_MIB} * MIB)
    call("cuMemRangeGetAttribute", ctypes.byref(value), ctypes.c_size_t(4), which, large, size)
    return value.value


large = managed({LARGE_MIB} * MIB)
small = [allocated({SMALL_MIB} * MIB) for _ in range({ARRAYS})]
for each in {{ADVICE}}:
    advised(*each)
before = 0
for i in range({ROUNDS}):
    before = counter("evicted_bytes") if i == 1 else before
    fill(large, i, {LARGE_MIB} * MIB)
    for k, start in enumerate(small):
        fill(start, i + k, {SMALL_MIB} * MIB)
        assert words_of(start, 4096) == {{{{i + k}}}}
assert words_of(large, {LARGE_MIB} * MIB) == {{{{{ROUNDS} - 1}}}}
print(counter("evicted_bytes") - before, *map(attribute, (1, 2)))
"""
"""What is advised is larger than the budget; all else fits into it."""
READ_MOSTLY, PREFERRED, UNPREFERRED, ACCESSED = 1, 3, 4, 5
HOST = -1


@pytest.mark.parametrize(
    ("advice", "left", "mostly", "preferred"),
    [
        ([(PREFERRED, HOST), (ACCESSED, 0)], True, 0, HOST),
        ([(READ_MOSTLY, 0)], True, 1, None),
        ([(UNPREFERRED, HOST)], False, 0, None),
    ],
)
def test_what_the_program_advises_is_left_to_it(
    advice: list[tuple[int, int]],
    left: bool,
    mostly: int,
    preferred: int | None,
    tmp_path: Path,
    run_emulated: RunEmulated,
) -> None:
    text = PROGRAM.format(ADVICE=advice)
    memory = f"{(ARRAYS + 4) * SMALL_MIB}MiB"
    told = run_small(run_emulated, tmp_path, text, memory=memory, ULMS_BACKEND="um")
    evicted, is_mostly, is_preferred = map(int, told.split())
    assert (evicted == 0) == left
    assert is_mostly == mostly
    assert preferred is None or is_preferred == preferred


@pytest.mark.parametrize("backend", ["observe", "vmm"])
def test_where_nothing_of_it_moves_advice_is_only_advice(
    backend: str, tmp_path: Path, run_emulated: RunEmulated
) -> None:
    text = PROGRAM.format(ADVICE=[(PREFERRED, HOST), (ACCESSED, 0)])
    told = run_small(run_emulated, tmp_path, text, memory="1GiB", ULMS_BACKEND=backend)
    assert told.split() == ["0", "0", str(HOST)]
