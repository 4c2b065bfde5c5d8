"""Other libraries that stand between a program and the driver: each sees its calls, and we see
them, too."""

import platform
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest

from tests.conftest import BUILD, ROOT, Compile, RunEmulated

pytestmark = pytest.mark.emu

ALLOCATIONS, LAUNCHES = 2, 3
"""Of the program."""
SEEN = f"[ulms] INFO: {LAUNCHES} kernels in {LAUNCHES} launches"
WAYS = ["linked", "handle", "default", "next", "proc"]
FINDS = ["NEXT", "HANDLE", "PROC", "NEXT_PROC"]

Interposer = Callable[[str, str], Path]
Counts = dict[str, tuple[int, int]]


@pytest.fixture
def interposer(tmp_path: Path, emulator_dir: Path) -> Interposer:
    """Makes an interposer of a name that finds functions so."""

    def build(name: str, find: str) -> Path:
        target = tmp_path / f"lib{name}.so"
        command = ["cc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
        command += [f"-I{folder}" for folder in (ROOT / "hooks", BUILD / "gen")]
        command += [f"-DFIND={find}", f'-DNAME="{name}"', "-o", str(target)]
        command += [str(ROOT / "tests" / "programs" / "interposer.c")]
        command += [str(emulator_dir / "libcuda.so.1")] if find == "PROC" else []
        subprocess.run(command, check=True)
        return target

    return build


@pytest.fixture
def program(compiled: Compile, emulator_dir: Path) -> Path:
    return compiled("interposed", str(emulator_dir / "libcuda.so.1"))


def counts(errors: str) -> Counts:
    """What interposers told: allocations and launches."""
    told = re.findall(r"^(\w+): (\d+) allocations, (\d+) launches$", errors, re.MULTILINE)
    return {name: (int(allocations), int(launches)) for name, allocations, launches in told}


def run(
    run_emulated: RunEmulated,
    command: Sequence[Path | str],
    backend: str,
    preload: Sequence[Path],
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Counts:
    """The program's result is right, and ulms.so saw each launch once."""
    plain = run_emulated(command, settings, preloaded=False)
    assert (plain.returncode, plain.stdout.splitlines()[-1]) == (0, "4.0"), plain.stderr
    env = {
        **settings,
        "ULMS_BACKEND": backend,
        "ULMS_LOG_LEVEL": "INFO",
        "ULMS_GPU_MEMORY": "64MiB",
    }
    env["LD_PRELOAD"] = ":".join(map(str, preload))
    done = run_emulated(command, env)
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
    assert done.stderr.count(SEEN) == 1, done.stderr
    assert "WARN" not in done.stderr
    return counts(done.stderr)


@pytest.mark.parametrize("backend", ["observe", "um", "vmm"])
@pytest.mark.parametrize("find", FINDS)
@pytest.mark.parametrize("way", WAYS)
def test_one_behind_us_sees_every_call(
    way: str,
    find: str,
    backend: str,
    run_emulated: RunEmulated,
    program: Path,
    interposer: Interposer,
    ulms_so: Path,
) -> None:
    """Its allocations are those that the backend leaves to the driver."""
    told = run(run_emulated, [program, way], backend, [ulms_so, interposer("other", find)])
    allocations = ALLOCATIONS if backend == "observe" else told["other"][0]
    assert told == {"other": (allocations, LAUNCHES)}


@pytest.mark.parametrize("find", FINDS)
@pytest.mark.parametrize("way", WAYS)
def test_one_before_us_sees_what_it_would_see(
    way: str,
    find: str,
    run_emulated: RunEmulated,
    program: Path,
    interposer: Interposer,
    ulms_so: Path,
) -> None:
    other = interposer("other", find)
    alone = run_emulated([program, way], {"LD_PRELOAD": str(other)}, preloaded=False)
    assert alone.stdout == "4.0\n"
    assert run(run_emulated, [program, way], "um", [other, ulms_so]) == counts(alone.stderr)


@pytest.mark.parametrize("find", FINDS)
def test_several_see_every_call(
    find: str, run_emulated: RunEmulated, program: Path, interposer: Interposer, ulms_so: Path
) -> None:
    """One behind another that is behind us is called by the other, if that looks for the next."""
    first, second, third = (interposer(name, find) for name in ("first", "second", "third"))
    told = run(run_emulated, [program, "linked"], "observe", [first, ulms_so, second, third])
    assert told["first"] == told["second"] == (ALLOCATIONS, LAUNCHES)
    assert told["third"] == ((ALLOCATIONS, LAUNCHES) if find == "NEXT" else (0, 0))


Forwarding = Callable[..., Path]


@pytest.fixture
def forwarding(tmp_path: Path) -> Forwarding:
    """Makes a driver that finds another's functions so; with what flags it is linked."""
    if platform.machine() != "x86_64":
        pytest.skip("written for x86-64")

    def build(find: str, flag: str, file: str = "libcuda.so.1") -> Path:
        target = tmp_path / "forwarding" / file
        target.parent.mkdir()
        command = ["cc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
        command += ["-fno-toplevel-reorder", f"-DFIND={find}", flag, "-o", str(target)]
        command += [f"-I{folder}" for folder in (ROOT / "hooks", BUILD / "gen")]
        subprocess.run([*command, str(ROOT / "tests/programs/forwarding.c")], check=True)
        return target

    return build


@pytest.mark.parametrize("backend", ["observe", "um", "vmm"])
@pytest.mark.parametrize("find", ["HANDLE", "PROC"])
@pytest.mark.parametrize("flag", ["-Wl,-soname,libcuda.so.1", "-Wl,-z,now"], ids=["named", "not"])
def test_a_driver_that_forwards(
    flag: str,
    find: str,
    backend: str,
    run_emulated: RunEmulated,
    compiled: Compile,
    program: Path,
    forwarding: Forwarding,
    emulator_dir: Path,
    ulms_so: Path,
) -> None:
    """It finds another libcuda.so.1 by name, and gets that one's functions."""
    folder = forwarding(find, flag).parent
    env = {
        "LD_LIBRARY_PATH": f"{folder}:{emulator_dir}",
        "REAL_CUDA": str(emulator_dir / "libcuda.so.1"),
    }
    loading = compiled("ways", "-ldl")
    commands: list[list[str | Path]] = [[program, way] for way in WAYS]
    commands += [[loading, "proc"], [loading, "old-dlsym"]]
    for command in commands:
        run(run_emulated, command, backend, [ulms_so], env)


@pytest.mark.parametrize("backend", ["observe", "um", "vmm"])
@pytest.mark.parametrize("ours_first", [True, False])
@pytest.mark.parametrize("file", ["libother.so", "libcuda.so.1"])
@pytest.mark.parametrize("find", ["HANDLE", "PROC", "NEXT"])
def test_one_that_takes_every_function(
    find: str,
    file: str,
    ours_first: bool,
    backend: str,
    run_emulated: RunEmulated,
    program: Path,
    forwarding: Forwarding,
    emulator_dir: Path,
    ulms_so: Path,
) -> None:
    """Preloaded before us or behind us; a file that is named as the driver is none, by a path."""
    other = forwarding(find, "-Wl,-z,now", file)
    env = {"REAL_CUDA": str(emulator_dir / "libcuda.so.1")}
    for way in WAYS:
        preload = [ulms_so, other] if ours_first else [other, ulms_so]
        run(run_emulated, [program, way], backend, preload, env)
