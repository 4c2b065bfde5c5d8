"""What `make wheels` made: with how old a C library it runs, and that it serves where nothing else
is. Bare systems are made by debootstrap where that is installed; kept in build/roots.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import pytest

from tests.conftest import PATIENCE_S, ROOT
from tests.emu.small_program import DRIVER

pytestmark = [pytest.mark.emu, pytest.mark.slow, pytest.mark.alone]

DIST = Path(os.environ.get("PUMP_WHEELS", ""))
OLDEST = (2, 17)
LOADER_SPARES = 1536
ALLOWED_S, TO_START_S = 30, 0.05
STARTS = 10
UBUNTU = {
    "x86_64": "http://archive.ubuntu.com/ubuntu",
    "aarch64": "http://ports.ubuntu.com/ubuntu-ports",
}
SUITES: dict[str, tuple[str, ...]] = {
    "bookworm": (),
    **dict.fromkeys(("jammy", "noble"), (UBUNTU.get(platform.machine(), ""), "gutsy")),
}
"""With what debootstrap needs to know of those that it may not: where they lie, and whose steps
they are made by.
"""
STEP = ROOT / "bench" / "traces" / "hash-join.ulms.gz"
PROGRAM = """
starts = [allocated(32 * MIB) for _ in range(4)]
for word, start in enumerate(starts):
    fill(start, word, 32 * MIB)
assert [words_of(start, 32 * MIB) for start in starts] == [{0}, {1}, {2}, {3}]
print("evicted:", counter("evicted_bytes") > 0)
"""
"""It uses twice as much as it may have."""
TRIED = """set -e
"$PYTHON" -m venv "$PLACE/venv"
"$PLACE/venv/bin/python" -m pip install -q --no-index --find-links "$PLACE/wheels" ulms
LD_LIBRARY_PATH=$("$PLACE/venv/bin/pump" lib --emulator)
export LD_LIBRARY_PATH
"$PLACE/venv/bin/pump" doctor
"$PLACE/venv/bin/pump" run --memory 64MiB -- "$PLACE/venv/bin/python" "$PLACE/program.py"
"$PLACE/venv/bin/pump" plan "$PLACE/step.ulms.gz" --memory 2GiB --backend vmm
"""


@dataclass(frozen=True)
class Place:
    """A system: what its programs are started by, where it lies, and its Python."""

    start: tuple[str, ...]
    root: Path
    python: str

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """With these variables alone."""
        return subprocess.run(
            [*self.start, *command],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )


@pytest.fixture(scope="module")
def wheels() -> dict[str, Path]:
    """By machine."""
    if not DIST.name:
        pytest.skip("`make wheels` makes and tries them")
    return {path.stem.partition("_2_17_")[2]: path for path in DIST.glob("*.whl")}


def bare_system(suite: str) -> Place:
    """One that debootstrap makes, with Python and no compiler."""
    root = ROOT / "build" / "roots" / suite
    if not (root / "made").exists():
        if not shutil.which("debootstrap"):
            pytest.skip("debootstrap is not installed")
        options = ["--variant=minbase", "--include=python3,python3-venv"]
        if SUITES[suite]:
            options.append("--components=main,universe")
        command = ["debootstrap", *options, suite, str(root), *SUITES[suite]]
        made = subprocess.run(command, stdout=subprocess.PIPE, check=False)
        if made.returncode != 0:
            shutil.rmtree(root)
            pytest.skip(f"no {suite} to be had: {made.stdout.decode().splitlines()[-1]}")
        (root / "made").touch()
    alone = (str(shutil.which("unshare")), "--mount", "--pid", "--fork")
    into = (f"--mount-proc={root}/proc", str(shutil.which("chroot")), str(root))
    return Place((*alone, *into), root, "/usr/bin/python3")


def this_system(python: str) -> Place:
    """With no program to be found by its name."""
    command = [str(shutil.which(python)), "-c", "import sys; print(sys.executable)"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"no {python} here")
    return Place((), Path("/"), found.stdout.strip())


@pytest.fixture(params=[*SUITES, "nothing on PATH", "python3.10"])
def place(request: pytest.FixtureRequest) -> Place:
    """Debian 12, Ubuntu 22.04 and 24.04, and this system."""
    if request.param in SUITES:
        return bare_system(request.param)
    return this_system("python3.10" if request.param == "python3.10" else sys.executable)


def worked_s() -> float:
    """What processors did for programs that have ended; a busy machine takes longer."""
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def start_s(place: Place, *command: str) -> float:
    """What it takes at least."""
    took = []
    for _ in range(STARTS):
        before = worked_s()
        place.run(*command).check_returncode()
        took.append(worked_s() - before)
    return min(took)


def compiled(wheel: Path, into: Path) -> dict[str, Path]:
    """All that is compiled, by name in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(into)
    return {
        str(path.relative_to(into)): path
        for path in into.rglob("*")
        if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"
    }


def shown(option: str, library: Path) -> str:
    """What readelf says of it."""
    command = ["readelf", "-W", option, str(library)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def glibc_of(library: Path) -> tuple[int, ...]:
    """The newest version that it asks for."""
    needs = shown("-V", library).partition("Version needs section")[2]
    versions = re.findall(r"Name: GLIBC_([0-9.]+)", needs)
    return max(tuple(map(int, version.split("."))) for version in versions)


def test_all_that_is_compiled_runs_with_an_old_c_library(
    wheels: dict[str, Path], tmp_path: Path
) -> None:
    assert set(wheels) == {"x86_64", "aarch64"}
    for machine, path in wheels.items():
        found = compiled(path, tmp_path / machine)
        assert {"pump/ulms.so", "pump/ulms-broker", "pump/libpolicy.so"} <= set(found)
        assert {name for name, it in found.items() if glibc_of(it) > OLDEST} == set()


def test_a_program_can_open_the_library(wheels: dict[str, Path], tmp_path: Path) -> None:
    """As `pump doctor` does: the loader has few bytes for each thread left by then."""
    for machine, path in wheels.items():
        headers = shown("-l", compiled(path, tmp_path / machine)["pump/ulms.so"])
        (line,) = (line.split() for line in headers.splitlines() if line.startswith("  TLS "))
        assert int(line[5], 16) <= LOADER_SPARES
        assert int(line[-1], 16) <= (64 if machine == "x86_64" else 16)


def test_debug_symbols_lie_apart(wheels: dict[str, Path], tmp_path: Path) -> None:
    for machine, path in wheels.items():
        for whole, folder in ((False, DIST), (True, DIST / "debug")):
            library = compiled(folder / path.name, tmp_path / machine / folder.name)["pump/ulms.so"]
            sections = shown("-S", library)
            assert (".symtab" in sections, ".debug_info" in sections) == (whole, whole)


def test_a_container_has_the_library_of_its_machine(wheels: dict[str, Path]) -> None:
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    (source,) = re.findall(r"^COPY (\S+) /ulms.so$", text, re.M)
    for container, machine in (("amd64", "x86_64"), ("arm64", "aarch64")):
        copied = DIST / source.replace("${TARGETARCH}", container)
        assert copied.read_bytes() == zipfile.ZipFile(wheels[machine]).read("pump/ulms.so")


def test_it_serves_without_a_compiler(
    wheels: dict[str, Path], place: Place, tmp_path: Path
) -> None:
    folder = place.root / "tmp" / "ulms" if place.start else tmp_path
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    version = place.run(place.python, "-c", "import sys; print(*sys.version_info[:2], sep='.')")
    options = ["--only-binary=:all:", "--python-version", version.stdout.strip()]
    for glibc in ("2_17", "2_28"):
        options += ["--platform", f"manylinux_{glibc}_{platform.machine()}"]
    command = [sys.executable, "-m", "pip", "download", "-qq", "-d", str(folder / "wheels")]
    subprocess.run([*command, *options, str(wheels[platform.machine()])], check=True)
    shutil.copy(STEP, folder / "step.ulms.gz")
    (folder / "program.py").write_text(DRIVER + PROGRAM, encoding="utf-8")
    (folder / "try").write_text(TRIED, encoding="utf-8")
    inside = "/" / folder.relative_to(place.root)
    before = worked_s()
    done = place.run("/bin/sh", f"{inside}/try", PYTHON=place.python, PLACE=str(inside), PATH="")
    worked = worked_s() - before
    print(done.stdout, f"\n{worked:.1f} s of processors")
    assert done.returncode == 0, done.stdout
    assert "Emulated GPU" in done.stdout
    assert "evicted: True" in done.stdout
    assert "pump run --backend vmm" in done.stdout
    assert worked < ALLOWED_S
    pump, python = (f"{inside}/venv/bin/{name}" for name in ("pump", "python"))
    took, bare = start_s(place, pump, "run", "--", "/bin/true"), start_s(place, python, "-c", "")
    print(f"pump run: {1000 * took:.0f} ms, of them Python {1000 * bare:.0f} ms")
    assert took - bare < TO_START_S
