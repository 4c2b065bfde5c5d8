"""Frames that `vmm` gives back to the driver, as the program takes memory that stays plain."""

from pathlib import Path

import pytest

from tests.conftest import RunEmulated
from tests.emu.small_program import run_small

pytestmark = pytest.mark.emu
MEMORY, PAGE, PARTS, PLAIN = 64 << 20, 4 << 20, 32, 5
PROGRAM = """
import time


def used():
    used, total = ctypes.c_uint64(), ctypes.c_uint64()
    assert driver.emu_device_memory(0, ctypes.byref(used), ctypes.byref(total)) == 0
    return used.value


def settled():  # who looks after it does so once a second
    before = None
    while before != (before := (counter("mapped_bytes"), used())):
        time.sleep(2.2)
    return before


parts = [allocated(PAGE) for _ in range(PARTS)]
for step in range(8):
    for i, part in enumerate(parts):
        fill(part, 100 * step + i, PAGE)
before, _ = settled()
plain = [allocated(MIB) for _ in range(PLAIN)]
for _ in range(100):  # who looks may not run for seconds
    mapped, most = settled()
    if most <= MEMORY:
        break
assert all(words_of(part, PAGE) == {700 + i} for i, part in enumerate(parts))
print(mapped - before, most)
"""


def test_only_who_was_mapped_there_is_mapped_anew(
    tmp_path: Path, run_emulated: RunEmulated
) -> None:
    """Half of the parts are away, most of them mapped at frames that stay."""
    text = f"MEMORY, PAGE, PARTS, PLAIN = {MEMORY}, {PAGE}, {PARTS}, {PLAIN}\n" + PROGRAM
    told = run_small(run_emulated, tmp_path, text, memory="64MiB", ULMS_PAGE="4MiB")
    mapped, used = map(int, told.split())
    assert mapped <= (PARTS * PAGE - MEMORY) / 2
    assert used <= MEMORY
