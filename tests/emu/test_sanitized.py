"""Random programs on an instrumented ulms.so, and tenants of an instrumented broker: data races and
wrong accesses.

`libulms_linked.so`, of the presets `tsan` and `asan`, is for programs that are linked with it.
Neither they nor the emulated device are instrumented: its memory has no shadow.
"""

import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.emulator.run import build
from pump.share.broker import suspend
from tests.conftest import BUILD, PATIENCE_S, ROOT
from tests.emu.shared_device import SHAPES, STEPS, Device, said
from tests.random_programs import SOURCES, Case, Judge
from tests.tenants import broker

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
SEEDS = {"tsan": (1, 4), "asan": (1, 5)}
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


def link(objects: list[Path], into: Path, preset: str, emulator: Path, *more: str) -> Path:
    """A program with the sanitizer's run-time library and the instrumented ulms.so."""
    target = into / f"watched_program_{preset}"
    emulated = [str(emulator / name) for name in ("libcuda.so.1", "libnvidia-ml.so.1")]
    libraries = ["-Wl,--no-as-needed", str(library(preset)), *more, *emulated]
    command = ["cc", f"-fsanitize={SANITIZERS[preset]}", "-o", str(target), *map(str, objects)]
    subprocess.run([*command, *libraries], check=True)
    return target


def compiled(sources: list[Path], into: Path) -> list[Path]:
    """A program that is not linked."""
    includes = [f"-I{ROOT / folder}" for folder in ("", "hooks", "csrc", "emulator")]
    compile_only = ["cc", "-std=gnu11", "-O1", "-g", "-c", *includes, f"-I{BUILD / 'gen'}"]
    subprocess.run([*compile_only, *map(str, sources)], check=True, cwd=into)
    return sorted(into.glob("*.o"))


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return compiled(SOURCES, tmp_path_factory.mktemp("sanitized"))


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


@pytest.mark.parametrize("preset", SANITIZERS)
def test_no_report_of_who_shares(preset: str, emulator_dir: Path, tmp_path: Path) -> None:
    """Neither while programs share a device, nor when one is killed or stopped or its host memory
    goes to a file, nor at the end.
    """
    plain = build(tmp_path)
    objects = compiled([ROOT / "tests" / "programs" / "um_speed.c"], tmp_path)
    blas = [str(path) for path in tmp_path.glob("lib*.so*")]
    program = link(objects, tmp_path, preset, emulator_dir, *blas, f"-Wl,-rpath,{tmp_path}")
    instrumented = library(preset).parent
    paths = [str(instrumented), str(emulator_dir), str(tmp_path)]
    environment = {"LD_PRELOAD": "", "LD_LIBRARY_PATH": ":".join(paths), "EMU_TIME": "20"} | OPTIONS
    environment["ULMS_FILE_DIR"] = str(tmp_path)
    started = [*without_aslr(), str(instrumented / "ulms-broker")]
    with broker(started, tmp_path / "share") as running:
        device = Device(plain, tmp_path / "share", emulator_dir, running)

        def start(shape: str, backend: str, share: str) -> subprocess.Popen[str]:
            words = [str(program), shape, *SHAPES[shape], str(STEPS[shape])]
            return device.run([*without_aslr(), *words], backend, share, **environment)

        alone = {shape: said(device.start(shape, "")) for shape in SHAPES}
        killed, first, second = (
            start("infer", "vmm", "a"),
            start("train", "vmm", "b,limit=0.5"),
            start("infer", "um", "a,memory=96MiB"),
        )
        device.wait_for(3)
        killed.kill()
        killed.communicate()
        device.wait_until(lambda tenant: tenant["group"] == "b" and tenant["operations"])
        suspend(device.folder, "b", suspended=True, folder=str(tmp_path))
        device.wait_until(lambda tenant: tenant["filed"])
        suspend(device.folder, "b", suspended=False)
        running.send_signal(signal.SIGSTOP)
        with pytest.raises(subprocess.TimeoutExpired):
            first.wait(0.2)
        running.send_signal(signal.SIGCONT)
        for shape, tenant in ("train", first), ("infer", second):
            out, complaints = tenant.communicate(timeout=PATIENCE_S)
            assert (tenant.returncode, complaints) == (0, "")
            assert alone[shape] in out.splitlines()
        running.terminate()
        _, log = running.communicate(timeout=PATIENCE_S)
        assert (running.returncode, log.count("\n")) == (0, 2), log
