"""What all tests share: the boundary each test declares, and programs on the emulated device.

Every test carries exactly one of the marks `unit`, `emu`, `gpu`; collection fails otherwise. Tests
that need a GPU are skipped, and counted, where there is no driver or managed memory is not limited.
"""

import ctypes
import fcntl
import gc
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import settings

from pump import paths
from pump.preload import preload
from pump.sizes import GIB, parse_size
from tests.random_programs import OURS, compile_program

BOUNDARIES = ("unit", "emu", "gpu")
MANAGED_LIMIT = 8 * GIB  # managed memory beyond what is free can hang a GPU for everybody
ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("PUMP_BUILD_DIR", ROOT / "build" / "dev"))
WHOLE, NOT_WHOLE = "-Wl,--whole-archive", "-Wl,--no-whole-archive"
BUILT_WRAPPERS = (WHOLE, str(BUILD / "libwrappers.a"), NOT_WHOLE)
"""What links all wrappers that were generated."""
TRACE_WRITER = (
    "trace_writer",
    *(
        str(path)
        for part in ("csrc/base", "csrc/observe", "share")
        for path in (ROOT / part).glob("*.c")
    ),
    "-ftls-model=initial-exec",
)
"""What `compiled` makes the program of that writes traces and counters."""
PATIENCE_S = 180
"""How long a program may take, on a busy machine, before it is said to hang."""

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")  # on a busy machine any example may take long

os.environ.pop("COLUMNS", None)  # readline sets it, which pytest loads: tables are narrow then

RunEmulated = Callable[..., subprocess.CompletedProcess[str]]
Compile = Callable[..., Path]


def gpu_obstacle() -> str | None:
    """Why tests that need a GPU cannot run here; None when they can."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no NVIDIA driver"
    try:
        limited = parse_size(os.environ.get("ULMS_MANAGED_LIMIT", "")) <= MANAGED_LIMIT
    except ValueError:
        limited = False
    return None if limited else "ULMS_MANAGED_LIMIT is not set to 8GiB or less"


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """A shell lets its background jobs ignore SIGINT, and so would all programs of the tests."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Checks the marks; skips tests that need a GPU where they cannot run."""
    wrong = [
        item.nodeid
        for item in items
        if sum(item.get_closest_marker(mark) is not None for mark in BOUNDARIES) != 1
    ]
    if wrong:
        raise pytest.UsageError(f"mark each as exactly one of {BOUNDARIES}: {', '.join(wrong)}")
    gpu_items = [item for item in items if item.get_closest_marker("gpu")]
    obstacle = gpu_obstacle() if gpu_items else None
    if obstacle:
        for item in gpu_items:
            item.add_marker(pytest.mark.skip(reason=f"gpu: {obstacle}"))


def pytest_collection_finish() -> None:
    gc.freeze()  # thousands of tests are not looked through again and again


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line that counts the tests skipped for want of a GPU."""
    skipped = terminalreporter.stats.get("skipped", [])
    tests = [report for report in skipped if isinstance(report, pytest.TestReport)]
    count = sum("gpu" in report.keywords for report in tests)
    if count:
        terminalreporter.write_line(f"{count} gpu tests skipped: {gpu_obstacle()}")


@pytest.fixture(scope="session")
def ulms_so() -> Path:
    """The installed `ulms.so`."""
    return paths.library()


@pytest.fixture(scope="session")
def emulator_dir() -> Path:
    """The directory of the emulated `libcuda.so.1`."""
    return paths.emulator_dir()


DEFAULTS = {"ULMS_BACKEND": "observe", "ULMS_PAGE": "2MiB"}
"""Of a test that says nothing else: programs are small, and hold a few of the smallest pages."""


def clean_environment() -> dict[str, str]:
    """This process's environment without anything that steers ulms.so or the emulator."""
    return {name: value for name, value in os.environ.items() if not name.startswith(OURS)}


@pytest.fixture(scope="session")
def run_emulated(emulator_dir: Path) -> RunEmulated:
    """Runs a command on the emulated device, under `ulms.so` or, with `preloaded=False`, plain."""

    def run(
        command: Sequence[str | Path],
        env: Mapping[str, str] | None = None,
        *,
        preloaded: bool = True,
        stdin: str = "",
        timeout: float = PATIENCE_S,
    ) -> subprocess.CompletedProcess[str]:
        base = {**clean_environment(), "LD_LIBRARY_PATH": str(emulator_dir)}
        words = [str(word) for word in command]
        settings = preload(words, {}, base=base).environment(base) if preloaded else base
        return subprocess.run(
            words,
            env={**settings, **DEFAULTS, **(env or {})},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def run_native(run_emulated: RunEmulated) -> RunEmulated:
    """Runs a command on the emulated device without `ulms.so`: once, as it says the same again."""
    known: dict[object, subprocess.CompletedProcess[str]] = {}

    def run(
        command: Sequence[str | Path], env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        key = tuple(map(str, command)), frozenset((env or {}).items())
        if key not in known:
            known[key] = run_emulated(command, env, preloaded=False)
        return known[key]

    return run


def made_once(target: Path, make: Callable[[Path], object]) -> Path:
    """`target`, made by the first of pytest's processes that asks for it; the others wait."""
    with target.with_name(f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            unfinished = target.with_name(f"{target.name}.unfinished")
            make(unfinished)
            unfinished.rename(target)
    return target


@pytest.fixture(scope="session")
def common_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this run that all of pytest's processes share."""
    own = tmp_path_factory.getbasetemp()
    common = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "common"
    common.mkdir(exist_ok=True)
    return common


@pytest.fixture(scope="session")
def compiled(common_folder: Path) -> Compile:
    """Compiles tests/programs/NAME.c with more flags; with `shared` to a shared library.

    `parts`: each of NAME_PART.c belongs to the program, too.
    """

    def build(name: str, *flags: str, parts: Sequence[str] = (), shared: bool = False) -> Path:
        sources = [name, *(f"{name}_{part}" for part in parts)]
        command = ["cc", "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"]
        command += [f"-I{ROOT / folder}" for folder in ("", "hooks", "csrc", "emulator")]
        command += [f"-I{BUILD / 'gen'}"]
        command += ["-shared", "-fPIC"] if shared else []
        command += [str(ROOT / "tests" / "programs" / f"{source}.c") for source in sources]
        command += flags
        return made_once(
            common_folder / (f"lib{name}.so" if shared else name),
            lambda target: subprocess.run([*command, "-o", str(target)], check=True),
        )

    return build


@pytest.fixture(scope="session")
def random_program(common_folder: Path) -> Path:
    """tests/programs/random_program.c, compiled."""
    return made_once(common_folder / "random_program", compile_program)
