"""A kernel that refuses a call has not said what lies in memory: addresses are followed still."""

import errno
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from pump import paths
from pump.trace import OpKind, read
from tests.conftest import Compile, RunEmulated
from tests.emu.test_hidden import BUDGET, BUFFERS, PARTS, STEPS, sums_of
from tests.emu.test_old_driver import POINTERS

pytestmark = pytest.mark.emu

READ, PIPE = "process_vm_readv", "pipe2"
REFUSED = {
    "forbidden": (READ, errno.EPERM),
    "missing": (READ, errno.ENOSYS),
    "as if unreadable": (READ, errno.EFAULT),
    "no pipe either": (f"{READ},{PIPE}", errno.EPERM),
}
WAYS = ("table", "large", "rows", "list", "inside", "from_pinned", "graph_copy", "captured_copy")
"""Of `hidden.c`: those in which a copy brings the addresses."""

Sandbox = Sequence[str | Path]


@pytest.fixture(params=REFUSED)
def sandbox(request: pytest.FixtureRequest, compiled: Compile) -> Sandbox:
    """What stands before a command that runs in one."""
    names, error = REFUSED[request.param]
    return [compiled("sandbox"), names, str(error)]


def warnings(run: CompletedProcess[str]) -> list[str]:
    return [line for line in run.stderr.splitlines() if f"{READ} is refused here" in line]


@pytest.mark.parametrize("way", WAYS)
def test_addresses_that_copies_bring(
    way: str,
    sandbox: Sandbox,
    compiled: Compile,
    run_emulated: RunEmulated,
    run_native: RunEmulated,
    emulator_dir: Path,
) -> None:
    binary = compiled("hidden", str(emulator_dir / "libcuda.so.1"), parts=[*PARTS, "emulated"])
    command = [binary, way, *BUFFERS, *STEPS]
    folders = {"LD_LIBRARY_PATH": f"{emulator_dir}:{paths.emulator_dir() / 'library' / '13'}"}
    native = run_native(command, folders)
    found = run_emulated([*sandbox, *command], {**BUDGET, **folders})
    assert (native.returncode, native.stderr) == (0, "")
    assert found.returncode == 0, found.stderr
    assert sums_of(found) == sums_of(native), found.stderr
    assert len(warnings(found)) == 1
    assert ("ULMS_HIDDEN=any" in warnings(found)[0]) == (PIPE in str(sandbox[1]))


def test_parameters_that_an_old_driver_does_not_tell(
    sandbox: Sandbox,
    compiled: Compile,
    run_emulated: RunEmulated,
    emulator_dir: Path,
    tmp_path: Path,
) -> None:
    command = [*sandbox, compiled("old_driver", str(emulator_dir / "libcuda.so.1")), "page"]
    env = {"EMU_DRIVER_VERSION": "12030", "ULMS_TRACE": str(tmp_path / "trace")}
    done = run_emulated(command, env)
    assert (done.stdout, done.returncode) == ("1 2 3 4 5 6 7 8 done\n", 0)
    trace = read(tmp_path / "trace")
    (launch,) = trace.operations[trace.operations["kind"] == OpKind.LAUNCH]
    found = set(trace.touches_of(launch)["start"])
    if PIPE not in str(sandbox[1]):
        assert len(found) == POINTERS
