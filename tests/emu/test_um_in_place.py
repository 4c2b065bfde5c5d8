"""What happens to memory that lies on the host, where kernels use it.

`um_in_place.c` works through more memory than its budget again and again, and frees, writes and
allocates in between; what it computes must be what it computes without `ulms.so`. Modelled times
(`EMU_TIME`) are long enough that a sweep in place, of which there is little to do, is the shorter.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import Compile, RunEmulated
from tests.emu.counters import counters_in

pytestmark = pytest.mark.emu

MIB = 1 << 20
PAGE = 2 * MIB
BUDGET = 28 * MIB
BLOCKS = 24
"""Pages of all blocks, as in the program."""
SMALL = 8 * (MIB - 512)
"""Bytes of the small memory that it takes for a while."""
WORD = 4
"""Bytes of the small memory that it has all the time."""
SWEEPS = 6


@dataclass(frozen=True)
class Result:
    """What a run printed: its sums; after each phase the bytes used on the host, and the pages
    that the driver was told to keep there; those that are elsewhere; the counters."""

    sums: list[list[str]]
    in_place: dict[str, int]
    advised: dict[str, int]
    astray: int
    counters: dict[str, int]


Run = Callable[..., Result]


@pytest.fixture
def run(compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path) -> Run:
    """Runs um_in_place.c both ways, and compares; what it said under ulms.so."""
    binary = compiled("um_in_place", str(emulator_dir / "libcuda.so.1"))

    def once(env: Mapping[str, str] | None) -> Result:
        command = [binary, str(SWEEPS)]
        done = run_emulated(command, env, preloaded=env is not None)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        words = [line.split() for line in done.stdout.splitlines()]
        lies = [line for line in words if line[0] == "is" and line[1] != "not"]
        return Result(
            [line for line in words if line[0] not in ("is", "counter")],
            {name: int(count) for _, name, count, _ in lies},
            {name: int(pages) for _, name, _, pages in lies},
            sum(int(line[2]) for line in words if line[:2] == ["is", "not"]),
            counters_in(done.stdout),
        )

    def both(**env: str) -> Result:
        settings = {
            "ULMS_GPU_MEMORY": str(BUDGET),
            "ULMS_GPU_MEMORY_FACTOR": "100",
            "ULMS_MANAGED_LIMIT": "1GiB",
            **env,
        }
        found = once(settings)
        assert found.sums == once(None).sums
        return found

    return both


def expected(small: int) -> int:
    """Bytes that find no place beside so much small memory."""
    return BLOCKS * PAGE - (BUDGET - small) // PAGE * PAGE


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_what_does_not_fit_lies_on_the_host(run: Run, backend: str) -> None:
    """Through writes, frees and new memory at the same place; as much as there is no room for."""
    found = run(ULMS_BACKEND=backend, EMU_TIME="10", ULMS_VERIFY="1")
    phases = ["settled", "updated", "written", "reused", "shrunk", "grown", "fits"]
    without_room = dict.fromkeys(phases, expected(WORD))
    without_room |= {"shrunk": expected(WORD + SMALL), "fits": 0}
    assert found.in_place == without_room
    managed = backend == "um"
    assert found.advised == {
        name: bytes_ // PAGE if managed else 0 for name, bytes_ in without_room.items()
    }
    assert found.astray == 0
    counters = found.counters
    assert counters["in_place_bytes"] == counters["in_place_written_bytes"] > 0  # by launches
    assert counters["move_failures"] == counters["faulted_bytes"] == counters["violations"] == 0


@pytest.mark.parametrize("call", ["cuMemAdvise", "cuMemPrefetchAsync"])
@pytest.mark.parametrize("when", ["", ":sticky", ":after=30", ":after=31:sticky"])
def test_what_the_driver_refuses(run: Run, call: str, when: str) -> None:
    found = run(ULMS_BACKEND="um", EMU_TIME="3", EMU_FAIL=call + when)
    assert found.counters["move_failures"] > 0
