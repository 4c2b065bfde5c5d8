"""`pump hooks --kernels`: what the machine code in files says."""

import json
import struct
import subprocess
from pathlib import Path

import pytest
import zstandard

from pump.cli import main
from tests.unit.disassembly import BUILD

pytestmark = pytest.mark.unit

ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
CUBIN, ZSTD = 2, 0x8000


def cubin(kernel: str) -> bytes:
    """One for sm_90, with a kernel of tests/reference/kernels.txt."""
    command = [str(BUILD / "read_code"), "cubin", kernel]
    return subprocess.run(command, capture_output=True, check=True).stdout


def library(*cubins: bytes) -> bytes:
    """Something with a fat binary in it, whose entries are packed."""
    entries = b""
    for plain in cubins:
        packed = zstandard.compress(plain)
        size = (CUBIN, 0x101, 64, len(packed), len(packed), 0, 0, 1, 90, 0, 0, ZSTD, 0, len(plain))
        entries += ENTRY.pack(*size) + packed
    header = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries))
    return bytes(1000) + header[:12] + bytes(80) + header + entries + bytes(9)


def test_kernels_of_cubins_and_libraries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = tmp_path / "one.cubin", tmp_path / "other.so"
    one.write_bytes(cubin("d_axpy"))
    other.write_bytes(library(cubin("i_gather"), cubin("f_table")))
    assert main(["hooks", "--json", "--kernels", str(one), str(other)]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["name"], row["verdict"]) for row in rows] == [
        ("d_axpy", "direct"),
        ("i_gather", "indexed"),
        ("f_table", "follows"),
    ]
    assert (rows[0]["architecture"], rows[0]["reads"], rows[0]["writes"]) == (90, [0, 1], [1])
    assert main(["hooks", "--kernels", str(other)]) == 0
    assert "an address was loaded" in capsys.readouterr().out


def test_only_kernels_for_an_architecture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "one.cubin"
    path.write_bytes(cubin("d_axpy"))
    for architecture, status in (("90", 0), ("80", 2), ("100", 2)):
        command = ["hooks", "--kernels", str(path), "--architecture", architecture]
        assert main(command) == status
    assert "holds no kernel" in capsys.readouterr().err


def test_files_that_hold_none_are_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    assert main(["hooks", "--kernels", str(empty)]) == 2
    assert main(["hooks", "--kernels", str(tmp_path / "none")]) == 2
    error = capsys.readouterr().err
    assert "holds no kernel" in error
    assert "No such file" in error
