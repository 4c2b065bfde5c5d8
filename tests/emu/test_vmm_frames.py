"""Frames of `vmm` are made as memory comes, and ahead: no launch waits for one."""

from pathlib import Path

import pytest

from tests.conftest import RunEmulated
from tests.emu.small_program import run_small

pytestmark = pytest.mark.emu
PROGRAM = """
MAKES, PART, PARTS, STEPS, TRIES = b"cuMemCreate", 4 * MIB, 8, 4, 5
driver.emu_calls.restype = driver.emu_calls_spared.restype = ctypes.c_uint64


def steps():
    for step in range(STEPS):
        for i, part in enumerate(parts):
            fill(part, 100 * step + i, PART)


driver.emu_spare(MAKES)  # counts what this thread makes
parts = [allocated(PART) for _ in range(PARTS)]
here = driver.emu_calls_spared(MAKES)
assert here > 0
for _ in range(TRIES):  # those made ahead may be few at first
    made, moved = driver.emu_calls(MAKES), counter("evicted_bytes")
    steps()
    if driver.emu_calls(MAKES) == made and counter("evicted_bytes") > moved:
        break
else:
    raise AssertionError(made, driver.emu_calls(MAKES))
assert driver.emu_calls_spared(MAKES) == here
assert all(words_of(part, PART) == {100 * (STEPS - 1) + i} for i, part in enumerate(parts))
"""


@pytest.mark.parametrize("hidden", ["followed", "known", "any"])
def test_none_is_made_once_a_program_repeats_itself(
    hidden: str, tmp_path: Path, run_emulated: RunEmulated
) -> None:
    """Nor does the program's own thread make any but for what it allocates."""
    run_small(run_emulated, tmp_path, PROGRAM, memory="14MiB", ULMS_PAGE="2MiB", ULMS_HIDDEN=hidden)
