"""Memory that one process shares with another: under `vmm` as natively, under `um` refused.

`ipc.c` is both processes. The exporter holds twice what may be there at a time and works on it, so
that its pages move; what it shares meets other allocations within a page of 8 MiB.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Compile, RunEmulated

pytestmark = pytest.mark.emu

TWICE, ALL = "40MiB", "1GiB"
"""What the exporter may have on the device, of 82 MiB."""

Said = tuple[list[str], list[str]]
Ipc = Callable[..., Said]


@pytest.fixture
def ipc(
    compiled: Compile, run_emulated: RunEmulated, run_native: RunEmulated, emulator_dir: Path
) -> Ipc:
    """What a part of ipc.c prints, and what the library says."""
    binary = compiled("ipc", str(emulator_dir / "libcuda.so.1"))

    def run(part: str, memory: str | None = None, backend: str = "vmm", **env: str) -> Said:
        settings = {
            "ULMS_BACKEND": backend,
            "ULMS_GPU_MEMORY": memory,
            "ULMS_GPU_MEMORY_FACTOR": "100",
            "ULMS_PAGE": "8MiB",
            **env,
        }
        command = [binary, part]
        done = run_emulated(command, settings) if memory else run_native(command)
        assert done.returncode == 0, done.stderr
        said = done.stderr.splitlines()
        return done.stdout.splitlines(), said

    return run


@pytest.mark.parametrize(("memory", "page"), [(TWICE, "2MiB"), (TWICE, "8MiB"), (ALL, "8MiB")])
@pytest.mark.parametrize("part", ["read", "twice", "widow", "asked"])
def test_is_what_it_is_natively(ipc: Ipc, part: str, memory: str, page: str) -> None:
    """Content on both sides, neighbours, addresses, errors; a killed process harms nobody."""
    assert ipc(part, memory, ULMS_PAGE=page) == ipc(part)


@pytest.mark.parametrize("page", [2, 8])
def test_the_budget_is_kept_with_what_is_shared(ipc: Ipc, page: int) -> None:
    """And one page: the old frame of a page goes once the new one has its content."""
    most = str((40 + page) << 20)
    assert ipc("read", TWICE, ULMS_PAGE=f"{page}MiB", IPC_MOST=most) == ipc("read")


@pytest.mark.parametrize("importer", ["observe", "um"])
def test_the_importer_may_have_any_backend(ipc: Ipc, importer: str) -> None:
    assert ipc("read", TWICE, IPC_IMPORTER=importer) == ipc("read")


@pytest.mark.parametrize("memory", [TWICE, ALL])
def test_the_exporter_is_killed(ipc: Ipc, memory: str) -> None:
    """What is open stays; what is not is refused at once, though a child has the files still."""
    native, _ = ipc("orphan")
    done, said = ipc("orphan", memory)
    assert done == native
    assert len(said) == 1
    assert "another process cannot be opened" in said[0]


@pytest.mark.parametrize("memory", [TWICE, ALL])
def test_nobody_is_given_what_comes_where_freed_memory_was(ipc: Ipc, memory: str) -> None:
    """Natively undefined: here what is open holds what it held."""
    assert ipc("freed", memory) == (
        ["closed", "importer 0", "exporter finds y", "exporter 0"],
        [],
    )


@pytest.mark.parametrize("memory", [TWICE, ALL])
def test_handles_of_nothing(ipc: Ipc, memory: str) -> None:
    done, said = ipc("bad", memory)
    native, _ = ipc("bad")
    assert done == [native[0], "changed 1", "freed 1", *native[1:]]
    assert len(said) == 2


@pytest.mark.parametrize(
    "failing", ["cuMemCreate", "cuMemMap", "cuMemUnmap", "cuMemSetAccess", "cuMemcpyAsync"]
)
def test_what_the_driver_refuses_harms_nobody(ipc: Ipc, failing: str) -> None:
    """The importer gets an error or the memory; the exporter keeps its content."""
    env = {"EMU_FAIL": ",".join(f"{failing}:after={after}" for after in range(40, 400, 3))}
    done, _ = ipc("read", ALL, **env)
    assert done[-1] == "exporter 0"
    assert done[-2] in ("importer 0", "importer 1")
    leaves = failing == "cuMemUnmap"  # what was shared before may still be mapped there
    assert not [line for line in done if "content" in line or ("neighbours" in line and not leaves)]


def test_the_program_s_own_work_that_does_not_end_is_not_waited_for(ipc: Ipc) -> None:
    """Sharing waits until the exporter is at rest: the importer is told, in bounded time."""
    done, said = ipc("busy", ALL)
    assert done == ["opened 0", "work ends", "opened 1", "importer 0", "exporter 0"]
    assert any("does not end" in line for line in said)


def test_um_names_the_setting_that_makes_it_work(ipc: Ipc) -> None:
    """Managed memory has no handle: the program gets the driver's answer, the user one line."""
    done, said = ipc("refused", TWICE, backend="um")
    assert done == ["refused 1", "refused 1"]
    assert len(said) == 1
    assert re.match(r"\[ulms\] ERROR: .*ULMS_BACKEND=vmm.*ULMS_PLAIN", said[0])
