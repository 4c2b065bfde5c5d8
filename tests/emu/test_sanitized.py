"""Random programs on an instrumented ulms.so: data races with its threads, and wrong accesses.

`libulms_linked.so`, of the presets `tsan` and `asan`, is for programs that are linked with it.
Neither they nor the emulated device are instrumented: its memory has no shadow.
"""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import BUILD, ROOT
from tests.random_programs import SOURCES, Case, Judge

pytestmark = pytest.mark.emu

SANITIZERS = {"tsan": "thread", "asan": "address,undefined"}
OPTIONS = {
    "TSAN_OPTIONS": "ignore_noninstrumented_modules=1 halt_on_error=1 exitcode=66",
    "ASAN_OPTIONS": "detect_leaks=0 exitcode=66",  # the library lives as long as its process
}
SETUPS = ("ahead", "none", "vmm", "observe")
MORE = [
    Case(7, "ahead", 2.0, count=3),
    Case(8, "ahead", 3.0, fail="cuEventRecord:after=20"),
    Case(9, "pump", 3.0, fail="cuMemPrefetchAsync:after=9"),
]
SEEDS = {"tsan": (1, 2, 4), "asan": (1, 5)}
CASES = [
    (preset, case)
    for preset in SANITIZERS
    for case in (*(Case(seed, setup, 3.0) for seed in SEEDS[preset] for setup in SETUPS), *MORE)
]


def library(preset: str) -> Path:
    """Skips where it is not built."""
    path = BUILD.parent / preset / "libulms_linked.so"
    if not path.exists():
        pytest.skip(f"no sanitizer build: cmake --build --preset {preset}")
    return path


def link(objects: list[Path], into: Path, preset: str, emulator: Path) -> Path:
    """A program with the sanitizer's run-time library and the instrumented ulms.so."""
    target = into / f"watched_program_{preset}"
    emulated = [str(emulator / name) for name in ("libcuda.so.1", "libnvidia-ml.so.1")]
    libraries = ["-Wl,--no-as-needed", str(library(preset)), *emulated]
    command = ["cc", f"-fsanitize={SANITIZERS[preset]}", "-o", str(target), *map(str, objects)]
    subprocess.run([*command, *libraries], check=True)
    return target


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The program, compiled and not linked."""
    into = tmp_path_factory.mktemp("sanitized")
    includes = [f"-I{ROOT / folder}" for folder in ("hooks", "csrc", "emulator")]
    compile_only = ["cc", "-std=gnu11", "-O1", "-g", "-c", *includes, f"-I{BUILD / 'gen'}"]
    subprocess.run([*compile_only, *map(str, SOURCES)], check=True, cwd=into)
    return sorted(into.glob("*.o"))


@pytest.fixture(scope="module")
def native(random_program: Path) -> Judge:
    """Of the program without ulms.so."""
    return Judge(random_program)


@pytest.fixture(scope="module")
def watched(objects: list[Path], emulator_dir: Path) -> Callable[[str], Judge]:
    """Of the program on the library of a preset."""
    judges: dict[str, Judge] = {}

    def judge(preset: str) -> Judge:
        if preset not in judges:
            program = link(objects, objects[0].parent, preset, emulator_dir)
            judges[preset] = Judge(program, launcher=without_aslr())
        return judges[preset]

    return judge


def without_aslr() -> tuple[str, ...]:
    """What starts a program where its memory lies as the sanitizer of gcc 12 needs it."""
    prefix = ("setarch", "-R")
    works = (
        shutil.which("setarch") and subprocess.run([*prefix, "true"], check=False).returncode == 0
    )
    return prefix if works else ()


@pytest.mark.parametrize(
    ("preset", "case"), CASES, ids=[f"{preset} {case.command()}" for preset, case in CASES]
)
def test_no_report(
    native: Judge,
    watched: Callable[[str], Judge],
    preset: str,
    case: Case,
    emulator_dir: Path,
) -> None:
    judge = watched(preset)
    environment = native.environment(case)
    del environment["LD_PRELOAD"]
    environment["LD_LIBRARY_PATH"] = f"{library(preset).parent}:{emulator_dir}"
    found = judge.run(case, environment | OPTIONS)
    assert (found.status, found.reports()[-6000:]) == (0, "")
    assert found.stdout == native.truth(case).stdout
