"""The tables and declarations of NCCL against the vendor's header and library, wherever one is.

`PUMP_NCCL_INCLUDE` may name more include directories, separated by ':'; the wheels nvidia-nccl-*
hold one. A version newer than our tables makes the tests fail and name what the tables lack.
"""

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from hooks.gen import HOOKS, shipped  # noqa: E402
from hooks.generator.abi import declarations  # noqa: E402
from hooks.generator.row import Passed  # noqa: E402
from hooks.generator.wrappers import parameters  # noqa: E402
from tests.unit import vendor  # noqa: E402

pytestmark = pytest.mark.unit

ROWS = [row for row in shipped().rows if row.library == "nccl"]
KNOWN = {row.symbol for row in ROWS}
ABI = declarations((HOOKS / "nccl").glob("*.h"))
CUDA = """
#pragma once
#include <stddef.h>
#include <stdint.h>
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
"""
PARTS = ("cuda_runtime.h", "cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h")


def header_version(include: Path) -> str:
    """As in 2.31."""
    text = (include / "nccl.h").read_text(encoding="utf-8")
    return ".".join(re.findall(rf"#define NCCL_{p} (\d+)", text)[0] for p in ("MAJOR", "MINOR"))


PACKAGES = Path(sysconfig.get_path("platlib")).glob("nvidia/nccl/include")
include = vendor.includes("PUMP_NCCL_INCLUDE", "nccl.h", PACKAGES, header_version)


@pytest.fixture
def compiler(include: Path, tmp_path: Path) -> list[str]:
    """The C compiler's command, with the parts of CUDA that the header names."""
    for name in PARTS:
        (tmp_path / name).write_text('#include "parts.h"\n', encoding="utf-8")
    (tmp_path / "parts.h").write_text(CUDA, encoding="utf-8")
    return vendor.compiler(f"-I{tmp_path}", f"-I{include}")


def header(compiler: list[str]) -> str:
    """The vendor's header as the compiler reads it."""
    command = [*compiler, "-E", "-P", "-x", "c", "-include", "nccl.h", "/dev/null"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_prototypes_and_values(compiler: list[str], tmp_path: Path) -> None:
    """Ours are the vendor's, where its version has the function or the constant."""
    text = header(compiler)
    has = set(re.findall(r"\bp?nccl\w+", text))
    rows = [row for row in ROWS if row.prototype and row.symbol in has]
    types = sorted(set(re.findall(r"\bnccl\w+_t\b", (HOOKS / "nccl/abi.h").read_text("utf-8"))))
    lines = [f"typedef struct {one} {one};" for one in types if one not in has]
    for row in rows:
        assert row.prototype
        ours = f"{row.prototype.result} (*)({', '.join(parameters(row.prototype))})"
        lines.append(
            f"_Static_assert(__builtin_types_compatible_p(__typeof__(&{row.symbol}), {ours}), "
            f'"{row.symbol}");'
        )
    mine = (HOOKS / "nccl/abi.h").read_text(encoding="utf-8")
    values = {n: v for n, v in re.findall(r"(nccl\w+) = (\w+),", mine) if n in has}
    lines += [f'_Static_assert({name} == {value}, "{name}");' for name, value in values.items()]
    wrong = vendor.bad_lines(compiler, '#include "nccl.h"\n', lines, tmp_path / "lines.c")
    assert not wrong, [f"{lines[i]}: {text}" for i, text in wrong.items()]
    assert len(rows) >= 13
    assert values.keys() >= ABI.constants - {"ncclFloat8e4m3", "ncclFloat8e5m2"}


def test_every_function_is_known(include: Path, compiler: list[str]) -> None:
    """Of the header, and of the library beside it."""
    declared = re.findall(r"\b(p?nccl[A-Z]\w+)\s*\([^;()]*\)\s*;", header(compiler))
    assert len(declared) > 50
    assert not sorted(set(declared) - KNOWN)
    files = list((include.parent / "lib").glob("libnccl.so.2"))
    if not files or not shutil.which("nm"):
        pytest.skip("no library beside the header, or no nm")
    command: list[str | Path] = ["nm", "-D", "--defined-only", files[0]]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    exported = re.findall(r" [TW] (p?nccl[A-Z]\w+)(@\S+)?$", text, re.MULTILINE)
    assert len(exported) > 50
    assert not sorted({name for name, _ in exported} - KNOWN)
    assert not any(version for _, version in exported), "they carry no versions"


def test_what_is_passed_says_why() -> None:
    """No function is left out without words."""
    passed = [row for row in ROWS if isinstance(row.treatment, Passed)]
    assert all(isinstance(r.treatment, Passed) and len(r.treatment.why) > 15 for r in passed)
    assert len(ROWS) - len(passed) == 24
