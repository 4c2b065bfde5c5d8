"""Memory fits again whose pages left for good: what was mapped there meanwhile takes nothing from
them, and is theirs again.
"""

from pathlib import Path

import pytest

from tests.conftest import RunEmulated
from tests.emu.small_program import run_small
from tests.emu.test_refit import GRANTS, SIZE_MIB

pytestmark = pytest.mark.emu

PARKED = (
    GRANTS
    + """
parts = [allocated(SIZE) for _ in range(60)]
sweep(parts, 1)
assert every.ulms_grant(0, 8 * MIB)
seconds_until(lambda: held() <= 8 * MIB)
assert every.ulms_grant(0, 0)


def all_come():
    sweep(parts[:4], 1)
    return counter("filled_bytes") > 50 * SIZE


seconds_until(all_come)
seconds_until(rests)
fill(parts[0], 1, SIZE)
assert right(parts, 1)
"""
).replace(f"SIZE = {SIZE_MIB} * MIB", "SIZE = 2 * MIB")


@pytest.mark.parametrize("hidden", ["followed", "any"])
def test_what_is_mapped_while_pages_are_away_does_not_keep_them_away(
    run_emulated: RunEmulated, tmp_path: Path, hidden: str
) -> None:
    """With a page less of room moving would not end. Most of the memory is not used."""
    more = {"ULMS_HIDDEN": hidden, "ULMS_PAGE": "2MiB"}
    assert run_small(run_emulated, tmp_path, PARKED, memory="128MiB", **more) == ""


FREED_AWAY = (
    GRANTS
    + """
import os

os.dup2(os.open(LOG, os.O_CREAT | os.O_WRONLY), 2)


class Shape(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "wh"] + [(name, ctypes.c_uint) for name in "fn"]


parts = [allocated(SIZE) for _ in range(30)]
sweep(parts, 1)
array, floats = ctypes.c_void_p(), 0x20
call("cuArrayCreate_v2", ctypes.byref(array), ctypes.byref(Shape(4096, 5 * 1024, floats, 1)))
seconds_until(lambda: counter("evicted_bytes") > 5 * SIZE)
sweep(parts[:3], 1)
call("cuArrayDestroy", array)
for part in parts[3:]:
    call("cuMemFree_v2", part)
del parts[3:]


def fits_again():
    fill(parts[0], 1, SIZE)
    return "everything fits again" in open(LOG).read()


seconds_until(fits_again)
before = counter("placed_bytes")
allocated(61 * SIZE)
seconds_until(lambda: counter("placed_bytes") > before)
"""
).replace(f"SIZE = {SIZE_MIB} * MIB", "SIZE = 2 * MIB")


def test_nothing_stays_set_aside_for_pages_that_were_freed_while_they_were_away(
    run_emulated: RunEmulated, tmp_path: Path
) -> None:
    """What comes then needs all of the memory, and gets it."""
    text = f"LOG = {str(tmp_path / 'log')!r}\n" + FREED_AWAY
    more = {"ULMS_PAGE": "2MiB", "ULMS_LOG_LEVEL": "INFO"}
    assert run_small(run_emulated, tmp_path, text, memory="128MiB", **more) == ""
