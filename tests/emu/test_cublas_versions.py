"""Versions of a library in one process: who is called."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.conftest import Compile, RunEmulated  # noqa: E402
from tests.emu.blas_builds import CC, INCLUDES, PROGRAMS, build_library  # noqa: E402

pytestmark = pytest.mark.emu


def build_part(folder: Path, file: str, version: str, answer: int, *flags: str) -> Path:
    """A library that answers so."""
    sources = [PROGRAMS / "blas_part.c"]
    return build_library(folder, file, version, sources, f"-DANSWER={answer}", *flags)


def build_user(folder: Path, name: str, library: Path, *flags: str) -> Path:
    """A program, or a plug-in, linked with a library."""
    command = [*CC, *INCLUDES, *flags, f"-Wl,-rpath,{library.parent}", "-o", folder / name]
    command += [PROGRAMS / "blas_user.c", library]
    subprocess.run([str(word) for word in command], check=True)
    return folder / name


def both(run_emulated: RunEmulated, command: Sequence[str | Path]) -> str:
    """The program's output, which is the same with and without ulms.so."""
    plain = run_emulated(command, preloaded=False)
    hooked = run_emulated(command)
    assert plain.returncode == 0, plain.stderr
    assert (hooked.returncode, hooked.stdout, hooked.stderr) == (0, plain.stdout, plain.stderr)
    return plain.stdout


def test_two_versions_in_one_process(run_emulated: RunEmulated, tmp_path: Path) -> None:
    """Each program gets the library it was linked with, or asked by name."""
    old = build_part(tmp_path / "old", "libcublas.so.12", "libcublas.so.12", 12)
    new = build_part(tmp_path / "new", "libcublas.so.13", "libcublas.so.13", 13)
    program = build_user(tmp_path, "program", old)
    plugin = build_user(tmp_path, "plugin", new, "-DPLUGIN", "-shared", "-fPIC")
    out = both(run_emulated, [program, plugin, new, old])
    assert out.splitlines()[:4] == [
        "linked: 13 1014 515",
        "plug-in: 14 1015 516",
        "by name: 14 516 not found",
        "by name: 13 515 not found",
    ]


def test_a_version_not_known(run_emulated: RunEmulated, tmp_path: Path) -> None:
    """A library of a later version is left alone, linked or found by name."""
    library = build_part(tmp_path / "later", "libcublas.so.14", "libcublas.so.14", 14)
    other = build_part(tmp_path / "new", "libcublas.so.13", "libcublas.so.13", 13)
    program = build_user(tmp_path, "program", library)
    out = both(run_emulated, [program, library, other])
    assert out.splitlines()[:2] == ["linked: 15 1016 517", "by name: 15 517 not found"]


def test_a_program_linked_without_versions(run_emulated: RunEmulated, tmp_path: Path) -> None:
    """Linked with a stub: the library that is there serves it, of whatever version, or of none."""
    stub = tmp_path / "stub" / "libcublas.so.12"
    stub.parent.mkdir()
    flags = [*CC, *INCLUDES, "-DANSWER=0", "-shared", "-fPIC", "-Wl,-soname,libcublas.so.12"]
    subprocess.run([*flags, "-o", stub, PROGRAMS / "blas_part.c"], check=True)
    program = build_user(tmp_path, "program", stub)
    assert both(run_emulated, [program, stub]).splitlines()[0] == "linked: 1 1002 503"
    for version in ("libcublas.so.12", "libcublas.so.13"):
        stub.unlink()
        library = build_part(stub.parent, "libcublas.so.12", version, 12)
        out = both(run_emulated, [program, library])
        assert out.splitlines()[:2] == ["linked: 13 1014 515", "by name: 13 515 not found"]


def test_a_renamed_file(run_emulated: RunEmulated, tmp_path: Path) -> None:
    """Python packages rename the libraries they bring; the version of their symbols stays."""
    renamed = "libcublas-7b3f21aa.so.13"
    library = build_part(tmp_path / "package", renamed, "libcublas.so.13", 13)
    program = build_user(tmp_path, "program", library)
    out = both(run_emulated, [program, library])
    assert out.splitlines()[:2] == ["linked: 14 1015 516", "by name: 14 516 not found"]


def test_two_files_of_one_version(run_emulated: RunEmulated, tmp_path: Path) -> None:
    """A second copy, found by name, keeps its own functions."""
    one = build_part(tmp_path / "one", "libcublas.so.13", "libcublas.so.13", 13)
    two = build_part(tmp_path / "two", "libcublas-7b3f21aa.so.13", "libcublas.so.13", 100)
    program = build_user(tmp_path, "program", one)
    assert "by name: 101 603" in both(run_emulated, [program, two])


def test_parts_that_find_each_other_by_name(run_emulated: RunEmulated, tmp_path: Path) -> None:
    """A function that looks its own name up in another part of the library gets that part's."""
    part = build_part(tmp_path / "part", "libcublas_part.so.13", "libcublas_part.so.13", 70)
    library = build_part(
        tmp_path / "new", "libcublas.so.13", "libcublas.so.13", 13, f'-DPART="{part}"'
    )
    program = build_user(tmp_path, "program", library)
    assert "linked: 14 1015 573" in both(run_emulated, [program, library, part])


def test_a_library_that_is_closed_and_opened_again(
    run_emulated: RunEmulated, compiled: Compile, tmp_path: Path
) -> None:
    """It would lie elsewhere then."""
    library = build_part(tmp_path / "new", "libcublas.so.13", "libcublas.so.13", 13)
    plugin = build_user(tmp_path, "plugin", library, "-DPLUGIN", "-shared", "-fPIC")
    command: list[str | Path] = [compiled("reloads", "-ldl"), plugin, library, "answers", "again"]
    assert both(run_emulated, command).splitlines() == ["again: 14 1015 516"] * 2


def test_another_interposer_behind_us(
    run_emulated: RunEmulated, tmp_path: Path, ulms_so: Path
) -> None:
    """A library whose symbols have no version serves every reference, as it does without us."""
    library = build_part(tmp_path / "new", "libcublas.so.13", "libcublas.so.13", 13)
    program = build_user(tmp_path, "program", library)
    other = tmp_path / "other.so"
    flags: list[str | Path] = [*CC, *INCLUDES, "-DANSWER=100", "-shared", "-fPIC", "-o", other]
    subprocess.run([*flags, PROGRAMS / "blas_part.c"], check=True)
    for order in ([ulms_so, other], [other, ulms_so]):
        plain = run_emulated([program], {"LD_PRELOAD": str(other)}, preloaded=False)
        hooked = run_emulated([program], {"LD_PRELOAD": ":".join(map(str, order))})
        assert plain.stdout.splitlines()[0] == "linked: 101 1102 603"
        assert (hooked.returncode, hooked.stdout, hooked.stderr) == (0, plain.stdout, plain.stderr)
