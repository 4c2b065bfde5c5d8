"""Memory behind handles (`cuMemCreate`) that moves: programs see what they would see without.

`handles.c` and `mapped.c` print the same whatever provides their memory. With `vmm` it moves at the
addresses where the program maps it; what the program does beyond that makes it the driver's. With
`um` only XLA's moves, which makes a handle, reserves addresses of just its size and maps it there.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.conftest import Compile, RunEmulated

pytestmark = pytest.mark.emu

MIB = 1 << 20
BLOCK = 4 * MIB
SMALL_DEVICE = {"EMU_MEMORY": f"{10 * BLOCK}"}
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


@pytest.mark.parametrize("backend", ["vmm"])
def test_there_may_be_more_of_it_than_the_device_has(told: Told) -> None:
    """Natively that takes a device of more memory."""
    lines, said = told("blocks", "30", env=SMALL_DEVICE)
    assert (len(lines), said) == (61, "")


@pytest.mark.parametrize("backend", ["vmm"])
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
        what = ("blocks", "4") if after % 2 else ("answers",)
        told(*what, env={"EMU_FAIL": f"{call}:after={after}"})


@pytest.mark.parametrize("backend", ["um"])
def test_without_memory_of_ours_the_driver_makes_it(told: Told) -> None:
    for what in (["answers"], ["ways"], ["blocks", "4"]):
        told(*what, env={"EMU_FAIL": "cuMemAllocManaged:sticky"})


def test_segments_move_or_the_user_is_told(
    compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path, backend: str
) -> None:
    """As PyTorch's expandable segments are: addresses for all that may come, then handles."""
    binary = compiled("handles", str(emulator_dir / "libcuda.so.1"))
    done = run_emulated([binary, "segments", "30"], {"ULMS_BACKEND": backend, **SMALL_DEVICE})
    refused = done.stdout.splitlines()[0]
    if backend == "vmm":
        assert (refused, done.stderr) == ("refused after 30 with 0", "")
        return
    assert refused == "refused after 10 with 2"
    [warning] = done.stderr.splitlines()
    assert warning.startswith("[ulms] WARN: device 0: what the program maps itself")
    assert "expandable_segments" in warning
    assert "ULMS_BACKEND=vmm" in warning


PARTS = ["twice", "elsewhere", "swapped", "holes", "exported", "allowed", "unmapped"]


@pytest.mark.parametrize(("backend", "page"), [("um", "2MiB"), ("vmm", "2MiB"), ("vmm", "4MiB")])
@pytest.mark.parametrize("part", PARTS)
def test_handles_may_be_mapped_in_every_way(
    part: str,
    page: str,
    compiled: Compile,
    run_emulated: RunEmulated,
    run_native: RunEmulated,
    emulator_dir: Path,
    backend: str,
) -> None:
    """Beside memory that moves, where it has moved before itself; also where a call fails once."""
    binary = compiled("mapped", str(emulator_dir / "libcuda.so.1"))
    device = {"EMU_MEMORY": "2GiB"}
    outside = run_native([binary, part], device)
    env = {"ULMS_BACKEND": backend, "ULMS_GPU_MEMORY": "32MiB", "ULMS_PAGE": page, **device}
    under = run_emulated([binary, part], {"ULMS_VERIFY": "1", **env})
    assert outside.returncode == 0
    assert (under.returncode, under.stdout, under.stderr) == (0, outside.stdout, "")


@pytest.mark.parametrize("page", ["2MiB", "8MiB"])
def test_no_handle_is_promised_that_cannot_be_mapped(
    page: str,
    compiled: Compile,
    run_emulated: RunEmulated,
    emulator_dir: Path,
    backend: str,
) -> None:
    """Without a limit of ours: as many as device and host have memory for."""
    binary = compiled("mapped", str(emulator_dir / "libcuda.so.1"))
    env = {"EMU_MEMORY": "128MiB", "ULMS_MANAGED_LIMIT": "256MiB", "ULMS_PAGE": page}
    done = run_emulated([binary, "promised"], {"ULMS_BACKEND": backend, **env})
    assert (done.returncode, done.stdout) == (0, "then 2\nall are mapped\n"), done.stderr


NONE, DESCRIPTOR = 0, 1
"""Handle types."""
MOST = 10
"""Blocks that the device has room for."""


MOVES = {"um": ["xla_cuda_plugin.so"], "vmm": ["xla_cuda_plugin.so", "libother.so"]}
"""By backend, the libraries whose memory behind handles moves."""


@pytest.mark.parametrize("types", [NONE, DESCRIPTOR])
@pytest.mark.parametrize("file", ["libother.so", "xla_cuda_plugin.so", "libnccl.so.2"])
def test_whose_memory_moves_and_what_may_be_exported(
    file: str,
    types: int,
    compiled: Compile,
    run_emulated: RunEmulated,
    emulator_dir: Path,
    backend: str,
    tmp_path: Path,
) -> None:
    """XLA asks for handle types of all its memory, and exports none."""
    moves = file in MOVES[backend]
    library = tmp_path / file
    library.write_bytes(compiled("allocating_library", shared=True).read_bytes())
    library.chmod(0o755)
    binary = compiled("handles", str(emulator_dir / "libcuda.so.1"))
    words = [binary, "library", str(library), str(types), "30"]
    done = run_emulated(words, {"ULMS_BACKEND": backend, **SMALL_DEVICE})
    made, exported = done.stdout.splitlines()
    assert made == ("made 30, then 0" if moves else f"made {MOST}, then 2")
    invalid, unsupported = 1, 801
    refused = invalid if types == NONE else unsupported if moves and backend == "um" else 0
    assert exported == f"export {refused}"
    assert done.returncode == 0
    assert ("ULMS_PLAIN" in done.stderr) == (refused == unsupported)
