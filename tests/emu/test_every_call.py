"""What holds of every hook: a program made of the tables calls each wrapped function."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import BUILD, Compile, RunEmulated

pytestmark = pytest.mark.emu

BACKENDS = ("observe", "um", "vmm")
STACK_BYTES = 4096
CALLS = "6"
LIMITED = {"ULMS_GPU_MEMORY": "24MiB", "ULMS_GPU_MEMORY_FACTOR": "100"}
STUCK_S = 60
"""A call that waits for the loader is told after so long."""
EVERYTHING = {"ULMS_LOG_LEVEL": "DEBUG", "ULMS_STATS": "{}/stats-%p", "ULMS_TRACE": "{}/trace-%p"}


@pytest.fixture(scope="module")
def environment(emulator_dir: Path) -> dict[str, str]:
    """With the libraries above the driver, in which nothing is launched."""
    folders = [emulator_dir, *(emulator_dir / "library" / version for version in ("12", "9", "2"))]
    return {
        "LD_LIBRARY_PATH": ":".join(map(str, folders)),
        "LD_BIND_NOW": "1",  # the dynamic linker's use of the stack is not ours
        "EMU_LIBRARY": "idle",
        "EMU_MEMORY": "1GiB",
        "ULMS_MANAGED_LIMIT": "1GiB",
    }


@pytest.fixture(scope="module")
def every_call(compiled: Compile, emulator_dir: Path) -> Path:
    """The program; its functions come from the tables."""
    libraries = [str(emulator_dir / name) for name in ("libcuda.so.1", "libnvidia-ml.so.1")]
    return compiled("every_call", *libraries, "-rdynamic", parts=["draw", "child"])


@pytest.fixture(scope="module")
def stack_use(compiled: Compile, emulator_dir: Path) -> Path:
    """The program whose calls do much."""
    libraries = [str(emulator_dir / name) for name in ("libcuda.so.1", "libnvidia-ml.so.1")]
    return compiled("stack_use", *libraries, "-rdynamic")


@pytest.fixture(scope="module")
def holder(compiled: Compile) -> Path:
    """The library whose constructor holds the loader's locks."""
    return compiled("loader_holder", shared=True)


def wrapped() -> set[str]:
    """Functions with a wrapper: of the driver with its twins for per-thread streams."""
    rows = json.loads((BUILD / "gen" / "names.json").read_text(encoding="utf-8"))
    mine = [row for row in rows if row["status"] != "passed"]
    twins = {f"{row['symbol']}_{row['twin']}" for row in mine if row["twin"]}
    return twins | {row["symbol"] for row in mine}


def called(stdout: str) -> int:
    """How many functions the program says it called."""
    return int(stdout.splitlines()[-1].split()[0])


def stacks(stdout: str) -> dict[str, int]:
    """The most bytes of the stack, by what was called."""
    used: dict[str, int] = {}
    for line in stdout.splitlines():
        if line.startswith("stack "):
            _, name, number = line.split()
            used[name] = max(used.get(name, 0), int(number))
    return used


def excess(native: str, under: str) -> dict[str, int]:
    """What takes more than it may beyond its native run."""
    before = stacks(native)
    more = {name: used - before[name] for name, used in stacks(under).items()}
    assert more.keys() == before.keys()
    return {name: number for name, number in more.items() if number > STACK_BYTES}


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_wrapper_uses_much_of_the_stack(
    run_emulated: RunEmulated,
    run_native: RunEmulated,
    every_call: Path,
    environment: dict[str, str],
    backend: str,
) -> None:
    """Whatever the arguments, and also where the driver refuses."""
    command = [every_call, "stack", CALLS]
    native = run_native(command, environment)
    under = run_emulated(command, {**environment, "ULMS_BACKEND": backend, **LIMITED})
    assert (native.returncode, under.returncode) == (0, 0), under.stderr
    assert stacks(under.stdout).keys() == wrapped()
    assert excess(native.stdout, under.stdout) == {}


@pytest.mark.parametrize("told", [{}, EVERYTHING], ids=["silent", "told"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_no_call_that_does_much_uses_much_of_the_stack(
    run_emulated: RunEmulated,
    run_native: RunEmulated,
    stack_use: Path,
    environment: dict[str, str],
    tmp_path: Path,
    backend: str,
    told: dict[str, str],
) -> None:
    """The start of the session, the first move, tables, graphs; and all that is logged."""
    native = run_native([stack_use], environment)
    more = {name: value.format(tmp_path) for name, value in told.items()}
    more |= {} if backend == "observe" else LIMITED
    under = run_emulated([stack_use], {**environment, "ULMS_BACKEND": backend, **more})
    assert (native.returncode, under.returncode) == (0, 0), under.stderr
    assert excess(native.stdout, under.stdout) == {}


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_wrapper_calls_the_loader(
    run_emulated: RunEmulated,
    every_call: Path,
    holder: Path,
    environment: dict[str, str],
    backend: str,
) -> None:
    """Its locks are another thread's all the while, that of the list of objects, too."""
    env = {**environment, "ULMS_BACKEND": backend, **LIMITED}
    under = run_emulated([every_call, "loader", CALLS, holder], env)
    assert (under.returncode, under.stdout) == (0, f"{called(under.stdout)} called\n")
    assert called(under.stdout) == len(wrapped())


@pytest.mark.parametrize("told", [{}, EVERYTHING], ids=["silent", "told"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_no_call_that_does_much_calls_the_loader(
    run_emulated: RunEmulated,
    stack_use: Path,
    holder: Path,
    environment: dict[str, str],
    tmp_path: Path,
    backend: str,
    told: dict[str, str],
) -> None:
    """Nor does the start of the session, which lists the objects."""
    more = {name: value.format(tmp_path) for name, value in told.items()}
    more |= {} if backend == "observe" else LIMITED
    env = {**environment, "ULMS_BACKEND": backend, **more}
    try:
        under = run_emulated([stack_use, holder], env, timeout=STUCK_S)
    except subprocess.TimeoutExpired as hang:
        pytest.fail(f"hangs after {hang.stdout!r}")
    assert under.returncode == 0, under.stderr


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_call_that_fails_changes_no_books(
    run_emulated: RunEmulated, every_call: Path, environment: dict[str, str], backend: str
) -> None:
    """What is free, used and in the ledger stays, what the limits still give out, and so does what
    the program has.
    """
    limit = {"ULMS_GPU_MEMORY": "32MiB", "ULMS_MANAGED_LIMIT": "32MiB", "ULMS_PAGE": "2MiB"}
    under = run_emulated(
        [every_call, "books", CALLS], {**environment, "ULMS_BACKEND": backend, **limit}
    )
    assert under.returncode == 0, under.stderr
    assert under.stdout == f"{called(under.stdout)} called\n"
    assert called(under.stdout) == len(wrapped())


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_wrapper_takes_a_lock_in_a_child(
    run_emulated: RunEmulated,
    run_native: RunEmulated,
    every_call: Path,
    environment: dict[str, str],
    backend: str,
) -> None:
    """Nothing that may be one can be written there, and the driver alone answers."""
    command = [every_call, "child", CALLS]
    native = run_native(command, environment)
    under = run_emulated(command, {**environment, "ULMS_BACKEND": backend, **LIMITED})
    assert (under.returncode, under.stdout) == (0, native.stdout), under.stderr
    children = [line.split() for line in under.stdout.splitlines() if line.startswith("child ")]
    assert {name for _, name, *_ in children} == wrapped()
    assert {status for _, _, status, *_ in children} == {"0"}
