"""The tables and declarations of cuBLAS against the vendor's headers and libraries, if any.

`PUMP_CUBLAS_INCLUDE` may name more include directories, separated by ':'; the wheels
nvidia-cublas* hold one, with the libraries beside it. A version newer than our tables makes the
tests fail and name what the tables lack.
"""

import os
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

LIBRARIES = ("cublas", "cublasLt")
ROWS = [row for row in shipped().rows if row.library in LIBRARIES]
KNOWN = {row.symbol for row in ROWS}
ABI = declarations((HOOKS / "cublas").glob("**/*.h"))
SHARED = declarations([HOOKS / "library" / "abi.h"])
# The two interfaces of cuBLAS exclude each other.
HEADERS = {"new": ("cublas_v2.h", "cublasLt.h", "cublasXt.h"), "old": ("cublas.h",)}
# The parts of CUDA that cuBLAS's headers name.
CUDA = """
#pragma once
#include <stddef.h>
typedef struct CUstream_st *cudaStream_t;
typedef struct { float x, y; } cuComplex;
typedef struct { double x, y; } cuDoubleComplex;
typedef struct { unsigned short x; } __half;
typedef struct { unsigned short x; } __nv_bfloat16;
typedef enum cudaDataType_t { CUDA_R_32F } cudaDataType;
typedef enum cudaDataType_t cudaDataType_t;
typedef int libraryPropertyType;
typedef int cudaEmulationStrategy, cudaEmulationMantissaControl;
typedef int cudaEmulationSpecialValuesSupport;
#define CUBLASAPI
"""
PARTS = ["driver_types.h", "cuda_runtime.h", "cuda_runtime_api.h", "cuComplex.h"]
PARTS += ["cuda_fp16.h", "cuda_bf16.h", "library_types.h"]
LIBRARY_FILES = ("libcublas.so.1?", "libcublasLt.so.1?")


def header_version(include: Path) -> str:
    """As in 13.1.0."""
    text = (include / "cublas_api.h").read_text(encoding="utf-8")
    parts = [re.findall(rf"#define CUBLAS_VER_{p} (\d+)", text)[0] for p in ("MAJOR", "MINOR")]
    return ".".join(parts)


PACKAGES = sorted(Path(sysconfig.get_path("platlib")).glob("nvidia/*/include"))
USUAL = [Path("/usr/local/cuda/include"), *PACKAGES]
include = vendor.includes("PUMP_CUBLAS_INCLUDE", "cublas_api.h", USUAL, header_version)


@pytest.fixture
def headers(include: Path, tmp_path: Path) -> Path:
    """The vendor's headers, with what they show to C++ only, beside the parts of CUDA they name."""
    for path in include.glob("cublas*.h"):
        text = path.read_text(encoding="utf-8")
        text = re.sub(r"#if defined\(__cplusplus\)\n(?=CUBLASAPI)", "#if 1\n", text)
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    for name in PARTS:
        (tmp_path / name).write_text('#include "parts.h"\n', encoding="utf-8")
    (tmp_path / "parts.h").write_text(CUDA, encoding="utf-8")
    return tmp_path


def source(interface: str) -> str:
    """C that brings in the headers of one interface."""
    return "".join(f'#include "{name}"\n' for name in HEADERS[interface])


def declared(headers: Path, interface: str) -> set[str]:
    """Every function that the headers of one interface declare."""
    command = [*vendor.compiler(f"-I{headers}"), "-E", "-P", "-x", "c", "-"]
    ran = subprocess.run(
        command, input=source(interface), capture_output=True, text=True, check=True
    )
    text = re.sub(r"static \w*inline[^;{]*\{[^{}]*\}", "", ran.stdout)  # not the library's
    return set(re.findall(r"\b(cublas\w+)\s*\([^;()]*\)\s*;", text))


def values(headers: Path, head: str, folders: list[Path], names: list[str]) -> list[str]:
    """Each name with its number, printed by a program."""
    path = headers / "values.c"
    prints = [f'    printf("%s = %lld\\n", "{one}", (long long)({one}));' for one in names]
    lines = ["#include <stdint.h>", "#include <stdio.h>", head, "int main(void)", "{", *prints, "}"]
    path.write_text("\n".join(lines), encoding="utf-8")
    program = headers / "values"
    options = [f"-I{folder}" for folder in folders]
    command = [*vendor.compiler(*options), "-o", str(program), str(path)]
    subprocess.run(command, check=True)
    return subprocess.run(program, capture_output=True, text=True, check=True).stdout.splitlines()


def test_prototypes(headers: Path) -> None:
    """Every prototype in the tables is the vendor's, where its version has the function."""
    compared = 0
    for interface in HEADERS:
        symbols = declared(headers, interface)
        rows = [row for row in ROWS if row.prototype and row.symbol in symbols]
        lines = []
        for row in rows:
            assert row.prototype
            ours = f"{row.prototype.result} (*)({', '.join(parameters(row.prototype))})"
            lines.append(
                f"_Static_assert(__builtin_types_compatible_p(__typeof__(&{row.symbol}), {ours}), "
                f'"{row.symbol}");'
            )
        wrong = vendor.bad_lines(
            vendor.compiler(f"-I{headers}"), source(interface), lines, headers / "lines.c"
        )
        assert not wrong, [f"{rows[i].where}: {rows[i].symbol}: {wrong[i]}" for i in wrong]
        compared += len(rows)
    assert compared > 600


def test_every_function_declared_is_known(headers: Path) -> None:
    """The headers declare nothing that the tables lack."""
    for interface in HEADERS:
        symbols = declared(headers, interface)
        assert len(symbols) > 150
        assert not sorted(symbols - KNOWN), "functions that no table names"


def test_every_function_exported_is_known(include: Path) -> None:
    """The libraries beside the headers export nothing that the tables lack."""
    files = [path for name in LIBRARY_FILES for path in (include.parent / "lib").glob(name)]
    if not files or not shutil.which("nm"):
        pytest.skip("no library beside the headers, or no nm")
    for path in files:
        command: list[str | Path] = ["nm", "-D", "--defined-only", "--format=posix", path]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        exported = re.findall(r"^(\w+)@*\S* T ", text, re.MULTILINE)
        assert len(exported) > 100
        assert not sorted(set(exported) - KNOWN), f"functions of {path.name} that no table names"


def test_symbols_carry_the_versions(include: Path) -> None:
    """Each library's symbols have the version that the tables name: programs bind by it."""
    versions = {v for library in shipped().libraries for v in library.versions}
    files = [path for name in LIBRARY_FILES for path in (include.parent / "lib").glob(name)]
    if not files or not shutil.which("nm"):
        pytest.skip("no library beside the headers, or no nm")
    for path in files:
        command: list[str | Path] = ["nm", "-D", "--defined-only", path]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert set(re.findall(r" T \w+@@(\S+)", text)) == {path.name} <= versions
        assert not re.findall(r" T \w+$", text, re.MULTILINE)


def test_values(headers: Path) -> None:
    """Values of constants are the vendor's, where its version has them."""
    wanted = sorted(ABI.constants)
    head = source("new")
    probes = [f"void probe_{i}(void) {{ (void)({one}); }}" for i, one in enumerate(wanted)]
    command = vendor.compiler(f"-I{headers}")
    missing = {wanted[i] for i in vendor.bad_lines(command, head, probes, headers / "lines.c")}
    present = [one for one in wanted if one not in missing]
    assert len(present) > 0.7 * len(wanted), sorted(missing)
    ours = values(headers, '#include "cublas/abi.h"', [HOOKS], present)
    assert ours == values(headers, head, [headers], present)


def test_data_types(headers: Path, include: Path) -> None:
    """Numbers of element types are the vendor's: a wrong one would be a wrong size."""
    named = [Path(word) for word in os.environ.get("PUMP_CUDA_INCLUDE", "").split(":") if word]
    runtime = [include, *include.parents[1].glob("*/include"), *named]
    found = next((path for path in runtime if (path / "library_types.h").is_file()), None)
    if not found:
        pytest.skip("no library_types.h of the vendor's beside the headers")
    text = (found / "library_types.h").read_text(encoding="utf-8")
    theirs = {n: int(v) for n, v in re.findall(r"^\s*(CUDA_[RC]_\w+)\s*=\s*(\d+)", text, re.M)}
    assert len(theirs) > 30
    mine = values(headers, '#include "library/abi.h"', [HOOKS], sorted(SHARED.constants))
    ours = {n: int(v) for n, v in (line.split(" = ") for line in mine)}
    assert {n: v for n, v in ours.items() if n in theirs} == {
        n: ours.get(n, v) for n, v in theirs.items()
    }


def test_what_is_passed_says_why() -> None:
    """No function is left out without words."""
    passed = [row for row in ROWS if isinstance(row.treatment, Passed)]
    assert all(isinstance(r.treatment, Passed) and len(r.treatment.why) > 15 for r in passed)
    assert len(ROWS) - len(passed) > 640
