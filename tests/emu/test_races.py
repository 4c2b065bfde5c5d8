"""Data races of ulms.so's threads and a program's, found by ThreadSanitizer in random programs.

`libulms_linked.so`, of the preset `tsan`, is ulms.so instrumented, for programs that are linked
with it. Neither they nor the emulated device are: its memory has no shadow.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import BUILD, ROOT
from tests.random_programs import SOURCES, Case, Judge, compile_program

pytestmark = pytest.mark.emu

LIBRARY = BUILD.parent / "tsan" / "libulms_linked.so"
SANITIZER = "ignore_noninstrumented_modules=1 halt_on_error=1 exitcode=66"
CASES = [
    *(
        Case(seed, setup, 3.0)
        for seed in (1, 2, 4)
        for setup in ("ahead", "lru", "none", "vmm", "observe")
    ),
    Case(7, "ahead", 2.0, count=3),
    Case(8, "ahead", 3.0, fail="cuEventRecord:after=20"),
    Case(9, "lru", 3.0, fail="cuMemPrefetchAsync:after=9"),
]


def link(objects: list[Path], into: Path, emulator: Path) -> Path:
    """A program with the sanitizer's run-time library and the instrumented ulms.so."""
    target = into / "watched_program"
    libraries = ["-Wl,--no-as-needed", str(LIBRARY), str(emulator / "libcuda.so.1")]
    command = ["cc", "-fsanitize=thread", "-o", str(target), *map(str, objects), *libraries]
    subprocess.run(command, check=True)
    return target


@pytest.fixture(scope="module")
def judges(tmp_path_factory: pytest.TempPathFactory, emulator_dir: Path) -> tuple[Judge, Judge]:
    """Of the native program, and of the one that is watched."""
    if not LIBRARY.exists():
        pytest.skip("no ThreadSanitizer build: cmake --build --preset tsan")
    into = tmp_path_factory.mktemp("races")
    native = Judge(compile_program(into))
    includes = [f"-I{ROOT / folder}" for folder in ("hooks", "csrc", "emulator")]
    compile_only = ["cc", "-std=gnu11", "-O1", "-g", "-c", *includes, f"-I{BUILD / 'gen'}"]
    subprocess.run([*compile_only, *map(str, SOURCES)], check=True, cwd=into)
    watched = Judge(link(sorted(into.glob("*.o")), into, emulator_dir), launcher=without_aslr())
    return native, watched


def without_aslr() -> tuple[str, ...]:
    """What starts a program where its memory lies as the sanitizer of gcc 12 needs it."""
    prefix = ("setarch", "-R")
    works = (
        shutil.which("setarch") and subprocess.run([*prefix, "true"], check=False).returncode == 0
    )
    return prefix if works else ()


@pytest.mark.parametrize("case", CASES, ids=Case.command)
def test_no_races(judges: tuple[Judge, Judge], case: Case, emulator_dir: Path) -> None:
    native, watched = judges
    environment = native.environment(case)
    del environment["LD_PRELOAD"]
    environment["LD_LIBRARY_PATH"] = f"{LIBRARY.parent}:{emulator_dir}"
    environment["TSAN_OPTIONS"] = SANITIZER
    found = watched.run(case, environment)
    assert (found.status, found.stderr[-6000:]) == (0, "")
    assert found.stdout == native.truth(case).stdout
