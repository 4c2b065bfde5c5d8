"""Memory behind handles (`cuMemCreate`) that moves: programs see what they would see without.

`handles.c` prints the same whatever provides its memory. XLA makes a handle, reserves addresses of
just its size and maps it there; that memory is replaced, and may be more than there is. Where the
addresses turn out to be others, the driver makes it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.conftest import Compile, RunEmulated

pytestmark = pytest.mark.emu

MIB = 1 << 20
BLOCK = 8 * MIB
SMALL_DEVICE = {"EMU_MEMORY": f"{80 * MIB}"}
"""Of which 9 tenths hold nine blocks."""

Told = Callable[..., tuple[list[str], str]]


@pytest.fixture(params=["um", "vmm"])
def backend(request: pytest.FixtureRequest) -> str:
    """Each of the backends that replace memory."""
    return str(request.param)


@pytest.fixture
def told(
    compiled: Compile,
    run_emulated: RunEmulated,
    run_native: RunEmulated,
    emulator_dir: Path,
    backend: str,
) -> Told:
    """Runs handles.c both ways; what it printed, which was the same, and its stderr."""
    binary = compiled("handles", str(emulator_dir / "libcuda.so.1"))

    def run(*words: str, env: Mapping[str, str] | None = None) -> tuple[list[str], str]:
        under = run_emulated([binary, *words], {"ULMS_BACKEND": backend, **(env or {})})
        outside = run_native([binary, *words])
        assert (outside.returncode, outside.stderr) == (0, "")
        assert (under.returncode, under.stdout) == (0, outside.stdout), under.stderr
        return under.stdout.splitlines(), under.stderr

    return run


@pytest.mark.parametrize("what", ["answers", "ways", "contexts"])
def test_programs_see_what_the_driver_would_show(what: str, told: Told) -> None:
    lines, said = told(what)
    assert said == ""
    assert lines[-1] == "all of it back: 1"


def test_there_may_be_more_of_it_than_the_device_has(told: Told) -> None:
    """Natively that takes a device of more memory."""
    lines, said = told("blocks", "30", env=SMALL_DEVICE)
    assert (len(lines), said) == (61, "")


def test_handles_meet_the_limit_of_what_may_move(
    compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path, backend: str
) -> None:
    binary = compiled("handles", str(emulator_dir / "libcuda.so.1"))
    env = {"ULMS_BACKEND": backend, "ULMS_MANAGED_LIMIT": f"{4 * BLOCK}"}
    done = run_emulated([binary, "blocks", "5"], env)
    assert (done.returncode, done.stderr) == (1, "cuMemCreate(&handle, bytes, &prop, 0): error 2\n")
    assert run_emulated([binary, "blocks", "4"], env).returncode == 0


CALLS = {
    "um": ["cuMemAllocManaged", "cuMemPrefetchAsync"],
    "vmm": ["cuMemCreate", "cuMemMap", "cuMemUnmap", "cuMemSetAccess", "cuMemAddressReserve"],
}


@pytest.mark.parametrize(
    ("backend", "call"), [(name, call) for name, calls in CALLS.items() for call in calls]
)
def test_a_failure_of_a_call_of_our_own_does_not_show(call: str, told: Told) -> None:
    """Once: the program's call, which is made then in the place of ours, is not refused."""
    for after in range(12):
        env = {"EMU_FAIL": f"{call}:after={after}"}
        told("answers", env=env)
        told("blocks", "4", env=env)


@pytest.mark.parametrize("backend", ["um"])
def test_without_memory_of_ours_the_driver_makes_it(told: Told) -> None:
    for what in (["answers"], ["ways"], ["blocks", "4"]):
        told(*what, env={"EMU_FAIL": "cuMemAllocManaged:sticky"})


def test_what_stays_plain_for_its_addresses_is_told_where_there_is_no_more(
    compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path, backend: str
) -> None:
    """As PyTorch's expandable segments are: addresses for all that may come, then handles."""
    binary = compiled("handles", str(emulator_dir / "libcuda.so.1"))
    done = run_emulated([binary, "segments", "30"], {"ULMS_BACKEND": backend, **SMALL_DEVICE})
    assert done.stdout.splitlines()[0] == "refused after 10 with 2"
    [warning] = done.stderr.splitlines()
    assert warning.startswith("[ulms] WARN: device 0: out of memory: ")
    assert "expandable_segments" in warning


NONE, DESCRIPTOR = 0, 1
"""Handle types."""
MOST = 10
"""Blocks that the device has room for."""


@pytest.mark.parametrize(
    ("file", "types", "moves"),
    [
        ("libother.so", NONE, True),
        ("libother.so", DESCRIPTOR, False),
        ("xla_cuda_plugin.so", NONE, True),
        ("xla_cuda_plugin.so", DESCRIPTOR, True),
        ("libnccl.so.2", NONE, False),
        ("libnccl.so.2", DESCRIPTOR, False),
    ],
)
def test_what_may_be_exported_stays_plain_but_for_who_always_asks_for_it(
    file: str,
    types: int,
    moves: bool,
    compiled: Compile,
    run_emulated: RunEmulated,
    emulator_dir: Path,
    backend: str,
    tmp_path: Path,
) -> None:
    """XLA asks for handle types of all its memory."""
    library = tmp_path / file
    library.write_bytes(compiled("allocating_library", shared=True).read_bytes())
    library.chmod(0o755)
    binary = compiled("handles", str(emulator_dir / "libcuda.so.1"))
    words = [binary, "library", str(library), str(types), "30"]
    done = run_emulated(words, {"ULMS_BACKEND": backend, **SMALL_DEVICE})
    made, exported = done.stdout.splitlines()
    assert made == ("made 30, then 0" if moves else f"made {MOST}, then 2")
    invalid, unsupported = 1, 801
    refused = invalid if types == NONE else unsupported if moves else 0
    assert exported == f"export {refused}"
    assert done.returncode == 0
    assert ("ULMS_PLAIN" in done.stderr) == (refused == unsupported)
