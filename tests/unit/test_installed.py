"""Libraries on this machine, and what they export that no table names."""

import subprocess
from pathlib import Path

import pytest

from pump import coverage, installed, paths
from pump.cli import main
from pump.elf import exported_functions

pytestmark = pytest.mark.unit

SOURCE = """
int cublasSgemm_v2(void) { return 0; }
int cublasOfTomorrow(void) { return 0; }
static int cublasOfItsOwn(void) { return 0; }
int cublas_lower(void) { return cublasOfItsOwn(); }
int cublasValue = 1;
int abs(int);
int cublasCalls(void) { return abs(cublasValue); }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a cuBLAS that has two functions which no table names."""
    source = tmp_path / "blas.c"
    source.write_text(SOURCE, encoding="utf-8")
    library = tmp_path / "libcublas.so.13"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    (tmp_path / "libcublas.so.13.1").symlink_to(library.name)
    return tmp_path


def test_functions_that_a_library_defines(folder: Path) -> None:
    names = exported_functions(folder / "libcublas.so.13")
    assert {name for name in names if name.startswith("cublas")} == {
        "cublasSgemm_v2",
        "cublasOfTomorrow",
        "cublas_lower",
        "cublasCalls",
    }
    assert "abs" not in names


def test_what_is_no_library_is_told(folder: Path) -> None:
    text = folder / "text"
    text.write_text("text " * 99, encoding="utf-8")
    with pytest.raises(ValueError, match="no 64-bit little-endian ELF file"):
        exported_functions(text)
    text.write_bytes(b"")
    with pytest.raises(ValueError, match="empty"):
        exported_functions(text)


def test_functions_that_no_table_names(folder: Path) -> None:
    (folder / "libcudnn.so.9").write_text("a script for the linker", encoding="utf-8")
    (one,) = installed.find(coverage.load(), [folder, folder])
    assert (one.library, one.path) == ("cublas", folder / "libcublas.so.13")
    assert (one.exported, one.unknown) == (3, ("cublasCalls", "cublasOfTomorrow"))


def test_twins_of_the_driver_are_known() -> None:
    """Functions for the default stream of each thread, which the emulated driver exports, too."""
    (one,) = installed.find(coverage.load(), [paths.emulator_dir()])
    assert any(name.endswith("_ptsz") for name in exported_functions(one.path))
    assert (one.library, one.unknown) == ("cuda", ())


def test_the_page_tells_of_this_machine(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{folder}")
    assert main(["hooks"]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if str(folder) in line)
    assert line.split() == [
        *("cublas", str(folder / "libcublas.so.13"), "3", "cublasCalls,", "cublasOfTomorrow")
    ]
