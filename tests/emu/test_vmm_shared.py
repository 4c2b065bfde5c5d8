"""Allocations that meet on a page, under `vmm`: a framework's, and one of the program's own."""

from pathlib import Path

import pytest

from tests.conftest import RunEmulated
from tests.emu.small_program import run_small

pytestmark = pytest.mark.emu
BLOCK = """
class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int8), ("index", ctypes.c_int8)]


def block(start, size, live):
    tell = every._ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
    tell.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_size_t, ctypes.c_size_t, Device]
    tell(start.value, size if live else -size, 0, 0, Device(1, 0))
"""
PROGRAM = """
PARTS, MINE = 6, 0xC0FFEE

segment, mine = allocated(4 * MIB + 2 * MIB), allocated(2 * MIB + 4 * MIB)
assert mine.value == segment.value + 6 * MIB  # both are on the second page
fill(mine, MINE, 6 * MIB)
block(segment, 6 * MIB, True)
fill(segment, 1, 6 * MIB)
parts = [allocated(4 * MIB) for _ in range(PARTS)]
for step in range(6):
    for i, part in enumerate(parts):
        fill(part, 10 * step + i, 4 * MIB)
    if step == 2:  # while it is on the device
        fill(segment, 3, 6 * MIB)
        block(segment, 6 * MIB, False)
assert words_of(mine, 6 * MIB) == {MINE}
assert [words_of(part, 4 * MIB) for part in parts] == [{50 + i} for i in range(PARTS)]
call("cuMemFree_v2", segment)
again = allocated(6 * MIB)
assert again.value == segment.value
fill(again, 7, 6 * MIB)
for i, part in enumerate(parts):
    fill(part, i, 4 * MIB)
assert words_of(mine, 6 * MIB) == {MINE}
assert words_of(again, 6 * MIB) == {7}
call("cuMemFree_v2", mine)
assert words_of(again, 6 * MIB) == {7}
print(counter("evicted_bytes"))
"""


@pytest.mark.parametrize("hidden", ["followed", "known", "any"])
def test_what_a_framework_takes_back_is_not_its_neighbour_s(
    hidden: str, tmp_path: Path, run_emulated: RunEmulated
) -> None:
    told = run_small(
        run_emulated,
        tmp_path,
        BLOCK + PROGRAM,
        memory="16MiB",
        ULMS_PAGE="4MiB",
        ULMS_HIDDEN=hidden,
    )
    assert int(told) > 0


FITS = """
for mib in SIZES:
    fill(allocated(mib * MIB), mib, mib * MIB)
print(counter("placed_bytes"), counter("paged_bytes"))
"""


@pytest.mark.parametrize(
    ("sizes", "moves"),
    [((6, 6, 10), False), ((6, 6, 6, 4), False), ((22,), False), ((6, 6, 14), True)],
)
def test_what_fits_by_its_bytes_fits(
    sizes: tuple[int, ...], moves: bool, tmp_path: Path, run_emulated: RunEmulated
) -> None:
    """22 MiB are five and a half pages: a sixth may be used in part."""
    text = FITS.replace("SIZES", str(list(sizes)))
    told = run_small(run_emulated, tmp_path, text, memory="22MiB", ULMS_PAGE="4MiB")
    placed, paged = map(int, told.split())
    assert (paged > 0) == moves
    assert placed == 24 << 20 or moves


SEGMENTS = """
whole, first = allocated(256 * MIB), allocated(6 * MIB)
block(first, USED * MIB, True)
second = allocated(6 * MIB)
block(second, USED * MIB, True)
third = allocated(6 * MIB)
fill(third, 3, 6 * MIB)
print(second.value - first.value == 6 * MIB, third.value - second.value == 6 * MIB)
print(second.value % (4 * MIB), counter("placed_bytes"), counter("paged_bytes"))
"""


@pytest.mark.parametrize(("used", "apart"), [(4, True), (5, False), (6, False)])
def test_segments_whose_end_is_not_used_share_no_page(
    used: int, apart: bool, tmp_path: Path, run_emulated: RunEmulated
) -> None:
    """Where the framework uses one page of the first, the next have their pages for themselves."""
    text = BLOCK + SEGMENTS.replace("USED", str(used))
    told = run_small(run_emulated, tmp_path, text, memory="512MiB", ULMS_PAGE="4MiB").split()
    assert told[:2] == (["False", "False"] if apart else ["True", "True"])
    assert (told[2] == "0") == apart


def test_the_newest_segment_tells_for_the_next(tmp_path: Path, run_emulated: RunEmulated) -> None:
    """The first is given up, and its place, the lowest of all, is given out again."""
    text = """
whole, full = allocated(256 * MIB), [allocated(6 * MIB) for _ in range(2)]
for segment in full:
    block(segment, 6 * MIB, True)
block(full[0], 6 * MIB, False)
call("cuMemFree_v2", full[0])
again = allocated(6 * MIB)
block(again, 4 * MIB, True)
apart = allocated(6 * MIB)
block(apart, 6 * MIB, True)
shares = allocated(6 * MIB)
print(again.value == full[0].value, apart.value % (4 * MIB), shares.value - full[1].value)
"""
    told = run_small(run_emulated, tmp_path, BLOCK + text, memory="512MiB", ULMS_PAGE="4MiB")
    assert told.split() == ["True", "0", str(6 << 20)]


@pytest.mark.parametrize(
    ("memory", "factor", "fits"),
    [(305, 90, True), (300, 90, False), (280, 100, True), (274, 100, False)],
)
def test_padding_takes_what_the_factor_leaves_out(
    memory: int, factor: int, fits: bool, tmp_path: Path, run_emulated: RunEmulated
) -> None:
    """274 MiB are used. The second and the third segment pad a page's worth, beside half a page."""
    told = run_small(
        run_emulated,
        tmp_path,
        BLOCK + SEGMENTS.replace("USED", "4"),
        memory=f"{memory}MiB",
        ULMS_GPU_MEMORY_FACTOR=str(factor),
        ULMS_PAGE="4MiB",
    )
    placed, paged = map(int, told.split()[3:])
    assert (placed, paged) == (280 << 20, 0) if fits else paged > 0


MANY = """
pieces = [allocated(SIZE) for _ in range(COUNT)]
placed = counter("placed_bytes")
for step in range(2):
    for i, piece in enumerate(pieces):
        fill(piece, 100 * step + i, SIZE)
assert [words_of(piece, SIZE) for piece in pieces] == [{100 + i} for i in range(COUNT)]
for piece in pieces:
    call("cuMemFree_v2", piece)
again = [allocated(SIZE) for _ in range(COUNT)]
print(placed, counter("evicted_bytes"))
"""


@pytest.mark.parametrize("mib", [1, 3])
@pytest.mark.parametrize(("memory", "moves"), [("32MiB", True), ("1GiB", False)])
def test_many_that_are_small_share_pages(
    mib: int, memory: str, moves: bool, tmp_path: Path, run_emulated: RunEmulated
) -> None:
    """What takes no more than an eighth of what there is stays plain; on a page there are 8 MiB."""
    text = MANY.replace("SIZE", f"{mib} * MIB").replace("COUNT", "24")
    more = {"ULMS_PAGE": "8MiB", "ULMS_MANAGED_LIMIT": "2GiB"}
    told = run_small(run_emulated, tmp_path, text, memory=memory, **more)
    placed, evicted = map(int, told.split())
    assert (placed > 0) == (evicted > 0) == moves
    assert placed <= 32 << 20
