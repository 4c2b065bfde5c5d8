"""Threads and processes that end while pages move take nothing with them."""

from itertools import product
from pathlib import Path

import pytest

from tests.conftest import Compile, RunEmulated

pytestmark = pytest.mark.emu

MOVING = {"ULMS_GPU_MEMORY": "8MiB", "ULMS_GPU_MEMORY_FACTOR": "100", "ULMS_MANAGED_LIMIT": "1GiB"}
"""Two of the program's ten blocks."""
TIMES = "5"


@pytest.mark.parametrize(
    ("backend", "part"),
    [
        *product(("observe", "um", "vmm"), ("children", "cancelled")),
        *product(("um", "vmm"), ("watched",)),
    ],
)
def test_the_others_go_on(
    compiled: Compile,
    run_emulated: RunEmulated,
    emulator_dir: Path,
    tmp_path: Path,
    backend: str,
    part: str,
) -> None:
    """`children` exit at once; a thread that is `cancelled` while it is held still issues what it
    was about to. `observe` traces: there, too, a thread of ours has to be ended. What the program
    said before pages moved that is to be done at its exit is `watched` by none of ours."""
    command = [compiled("ends", str(emulator_dir / "libcuda.so.1")), part]
    more = {"ULMS_TRACE": str(tmp_path / "trace")} if backend == "observe" else MOVING
    native = run_emulated(command, preloaded=False)
    under = run_emulated(command, {"ULMS_BACKEND": backend, **more})
    assert (native.returncode, native.stderr) == (0, "")
    assert (under.returncode, under.stderr, under.stdout) == (0, "", native.stdout)


def test_what_is_under_way_at_the_end_is_waited_for(
    compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path
) -> None:
    """Another thread's operation uses pages that a mover just maps, or the next mover moves them
    back, while the process ends: neither finds them half-way."""
    command = [compiled("ends", str(emulator_dir / "libcuda.so.1")), "meanwhile"]
    under = {**MOVING, "ULMS_BACKEND": "vmm", "ULMS_PAGE": "4MiB", "ULMS_VERIFY": "1"}
    for delay in (0, 1) * 5:
        slow = {"EMU_FAIL": f"cuMemSetAccess:sticky:delay={delay}"}
        done = run_emulated(command, {**under, "ULMS_GPU_MEMORY": "12MiB", **slow})
        assert (done.returncode, done.stderr, done.stdout) == (0, "", "meanwhile\n")


ENDS = ("exit", "quick_exit", "_exit", "abort", "exec", "other_exit", "other_abort")
"""Ways of ending: in a handler of SIGTERM, wherever that interrupts, or from another thread."""


@pytest.mark.parametrize("time", ["0", "1"], ids=["fast", "timed"])
@pytest.mark.parametrize("backend", ["observe", "um", "vmm"])
def test_a_process_ends_at_once_wherever_it_is(
    compiled: Compile,
    run_emulated: RunEmulated,
    emulator_dir: Path,
    tmp_path: Path,
    backend: str,
    time: str,
) -> None:
    """The thread that ends it may hold any lock of ours, or of the driver's that movers wait for.
    What exits removes its counters."""
    program = compiled("exits", str(emulator_dir / "libcuda.so.1"))
    more = {} if backend == "observe" else {**MOVING, "ULMS_GPU_MEMORY": "16MiB"}
    env = {"ULMS_BACKEND": backend, "EMU_TIME": time, "EMU_MEMORY": "1GiB", **more}
    for way in ENDS:
        folder = tmp_path / way
        folder.mkdir()
        files = {"ULMS_STATS": str(folder / "%p")}
        under = run_emulated([program, way, TIMES], {**env, **files})
        assert under.stdout == f"{way}: {TIMES} of {TIMES} ended well, 0 late\n", under.stderr
        if way in ("exit", "other_exit"):
            assert list(folder.iterdir()) == []


@pytest.mark.parametrize("backend", ["observe", "um", "vmm"])
def test_a_destructor_frees_after_ours(
    compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path, tmp_path: Path, backend: str
) -> None:
    """What was allocated before is used, told of and freed as it would be without us."""
    driver, counters = str(emulator_dir / "libcuda.so.1"), tmp_path / "counters"
    library = compiled("frees_last", driver, "-DPLUGIN", shared=True)
    program = [compiled("frees_last", str(library), driver)]
    env = {"COUNTERS": str(counters), "EMU_MEMORY": "1GiB"}
    native = run_emulated(program, env, preloaded=False)
    limit = "1GiB" if backend == "observe" else "16MiB"
    more = {"ULMS_BACKEND": backend, "ULMS_GPU_MEMORY": limit, "ULMS_STATS": str(counters)}
    under = run_emulated(program, {**env, **more})
    assert native.stdout.startswith("the counters are gone\n")
    assert (native.returncode, native.stderr) == (0, "")
    assert (under.returncode, under.stderr, under.stdout) == (0, "", native.stdout)
