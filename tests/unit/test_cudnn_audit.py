"""The tables and declarations of cuDNN against the vendor's headers and library, wherever one is.

`PUMP_CUDNN_INCLUDE` may name more include directories, separated by ':'; the wheels nvidia-cudnn-*
hold one. A version newer than our tables makes the tests fail and name what the tables lack.
"""

import re
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

TABLES = shipped()
OPERATIONS = TABLES.operations.constants
ROWS = [row for row in TABLES.rows if row.library == "cudnn"]
LIBRARY = next(library for library in TABLES.libraries if library.name == "cudnn")
ABI = declarations((HOOKS / "cudnn").glob("**/*.h"))
ABI_VERSION = int(
    re.findall(r"#define CUDNN_ABI_VERSION (\d+)", (HOOKS / "cudnn/abi.h").read_text("utf-8"))[0]
)
# The parts of CUDA that cuDNN's headers name.
CUDA = """
#include <stddef.h>
typedef struct CUstream_st *cudaStream_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef int libraryPropertyType;
#define __LIBRARY_TYPES_H__
"""
# Numbers of our own, or of other headers.
OURS = {"CUDNN_ABI_VERSION"}
# Structures of which only the address is handed on.
OPAQUE = re.compile(r"AlgoPerf_t$")
# Gone from version 9.
GONE = {"sizeof(cudnnAlgorithmPerformance_t)"}
# Kinds of constants of which all are known here.
COMPLETE = r"CUDNN_(ATTR_(?:OPERATION|TENSOR|VARIANT_PACK)_\w+|BACKEND_\w+_DESCRIPTOR|DATA_\w+)"


def header_version(include: Path) -> int:
    """CUDNN_VERSION of the header, as version 9 counts: major * 10000 + minor * 100 + patch."""
    text = (include / "cudnn_version.h").read_text(encoding="utf-8")
    major, minor, patch = (
        int(re.findall(rf"#define CUDNN_{part}\s+(\d+)", text)[0])
        for part in ("MAJOR", "MINOR", "PATCHLEVEL")
    )
    return major * 10000 + minor * 100 + patch


PACKAGES = Path(sysconfig.get_path("platlib")) / "nvidia/cudnn/include"
include = vendor.includes("PUMP_CUDNN_INCLUDE", "cudnn.h", [PACKAGES], header_version)


def vendor_source(include: Path) -> str:
    """C that brings in all headers of cuDNN."""
    headers = [path for path in include.glob("cudnn*.h") if not re.search(r"_v\d+\.h$", path.name)]
    return "".join(f'#include "{path}"\n' for path in sorted(headers))


@pytest.fixture
def compiler(tmp_path: Path) -> list[str]:
    """The C compiler's command; finds the parts of CUDA that the headers name."""
    for name in ("cuda_runtime.h", "cuda_runtime_api.h", "library_types.h"):
        (tmp_path / name).write_text('#include "parts.h"\n', encoding="utf-8")
    (tmp_path / "parts.h").write_text(f"#pragma once\n{CUDA}", encoding="utf-8")
    return vendor.compiler(f"-I{tmp_path}")


def preprocessed(compiler: list[str], include: Path) -> str:
    """All declarations of the headers, without the compiler's own lines."""
    command = [*compiler, "-E", "-P", "-x", "c", "-"]
    source = vendor_source(include)
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout


def declared_symbols(compiler: list[str], include: Path) -> set[str]:
    """Every function that the headers declare."""
    text = preprocessed(compiler, include)
    return set(re.findall(r"\b(cudnn[A-Z]\w*)\s*\([^()]*\)\s*;", text))


def test_constants_and_sizes(include: Path, compiler: list[str], tmp_path: Path) -> None:
    """Values of constants and sizes of what is passed by value are the vendor's."""
    constants = sorted((ABI.constants | OPERATIONS.keys()) - OURS)
    types = sorted(name for name in ABI.types if not OPAQUE.search(name))
    wanted = [*(f"(long long)({name})" for name in constants)]
    wanted += [f"sizeof({name})" for name in types]
    assert len(wanted) > 400, "the reader of our headers finds what they declare"
    probes = [f"void probe_{i}(void) {{ (void)({one}); }}" for i, one in enumerate(wanted)]
    missing = vendor.bad_lines(compiler, vendor_source(include), probes, tmp_path / "probe.c")
    lacking = sorted({wanted[i] for i in missing} - GONE)
    assert not lacking or header_version(include) < ABI_VERSION, lacking
    present = [one for i, one in enumerate(wanted) if i not in missing]
    assert len(present) > 0.6 * len(wanted)
    values = []
    ours = "".join(f"#define {name} {value}\n" for name, value in OPERATIONS.items())
    ours = f'#include "cudnn/abi.h"\n{ours}'
    for name, head in (("ours", ours), ("theirs", vendor_source(include))):
        prints = [f'    printf("{one} = %lld\\n", (long long)({one}));' for one in present]
        body = "\n".join(["#include <stdio.h>", head, "int main(void)", "{", *prints, "}"])
        (tmp_path / f"{name}.c").write_text(body, encoding="utf-8")
        program = tmp_path / name
        flags = [f"-I{HOOKS}"] if name == "ours" else []
        subprocess.run([*compiler, *flags, "-o", program, f"{program}.c"], check=True)
        ran = subprocess.run([program], capture_output=True, text=True, check=True)
        values.append(set(ran.stdout.splitlines()))
    assert not sorted(values[0] ^ values[1])
    assert len(values[0]) == len(present)


def test_missing_functions_answer_as_the_vendor_would(include: Path, compiler: list[str]) -> None:
    """Each version's "not supported" is what a function answers that its library lacks."""
    text = preprocessed(compiler, include)
    theirs = re.findall(r"\bCUDNN_STATUS_NOT_SUPPORTED\s*=\s*(\d+)", text)[0]
    major = header_version(include) // 10000
    versions = dict(zip(LIBRARY.versions, LIBRARY.absent["cudnnStatus_t"], strict=True))
    assert versions[f"libcudnn.so.{major}"] == theirs


def test_kinds_of_constants_are_complete(include: Path, compiler: list[str]) -> None:
    """No attribute, descriptor or element type of the vendor's is unknown here."""
    text = preprocessed(compiler, include)
    theirs = {found[0] for found in re.finditer(rf"\b{COMPLETE}\b", text)}
    assert len(theirs) > 150
    assert not sorted(theirs - ABI.constants - OPERATIONS.keys())


def test_prototypes(include: Path, compiler: list[str], tmp_path: Path) -> None:
    """Every prototype in the tables is the vendor's."""
    symbols = declared_symbols(compiler, include)
    typed = [row for row in ROWS if row.prototype and row.symbol in symbols]
    assert len(typed) > 60
    lines = []
    for row in typed:
        assert row.prototype
        ours = f"{row.prototype.result} (*)({', '.join(parameters(row.prototype))})"
        check = f"__builtin_types_compatible_p(__typeof__(&{row.symbol}), {ours})"
        lines.append(f'_Static_assert({check}, "{row.symbol}");')
    wrong = vendor.bad_lines(compiler, vendor_source(include), lines, tmp_path / "prototypes.c")
    assert not wrong, [f"{typed[i].where}: {text}" for i, text in wrong.items()]


def test_every_declared_function_is_known(include: Path, compiler: list[str]) -> None:
    """The headers declare nothing that the tables lack; the newest lacks no row of version 9."""
    symbols = declared_symbols(compiler, include)
    known = {row.symbol for row in ROWS}
    assert len(symbols) > 200
    assert not sorted(symbols - known), "functions that no table names"


def test_every_exported_function_is_known(include: Path) -> None:
    """Nor does the library export one, declared or not."""
    found = sorted(include.parent.glob("lib/libcudnn.so.*"))
    if not found:
        pytest.skip("no libcudnn.so beside the headers")
    command = ["nm", "-D", "--defined-only", "--without-symbol-versions", str(found[0])]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    exported = set(re.findall(r" T (cudnn\w+)", ran.stdout))
    assert len(exported) > 200
    assert not sorted(exported - {row.symbol for row in ROWS})


def test_no_function_with_an_address_is_passed_by_mistake(
    include: Path, compiler: list[str]
) -> None:
    """What the tables pass takes no handle together with a plain address, but for these."""
    known = {
        "cudnnGetMultiHeadAttnWeights",  # tells where weights lie
        "cudnnGetRNNLinLayerBiasParams",
        "cudnnGetRNNLinLayerMatrixParams",
        "cudnnGetRNNWeightParams",
        "cudnnRestoreAlgorithm",  # host memory
        "cudnnRestoreDropoutDescriptor",  # keeps the address
        "cudnnSaveAlgorithm",  # host memory
    }
    text = " ".join(preprocessed(compiler, include).split())
    passed = {row.symbol for row in ROWS if isinstance(row.treatment, Passed)}
    address = re.compile(r"\b(?:const )?void \*(?!\*)\s*\w+")
    found = set()
    for symbol, arguments in re.findall(r"\b(cudnn[A-Z]\w*)\s*\(([^()]*)\)\s*;", text):
        if symbol in passed and "cudnnHandle_t" in arguments and address.search(arguments):
            found.add(symbol)
    assert not sorted(found - known)
