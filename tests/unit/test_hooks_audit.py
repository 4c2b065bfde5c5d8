"""The hook tables and our own declarations against the vendor's headers, wherever one is installed.

`PUMP_CUDA_INCLUDE` may name more include directories, separated by ':'. What is newer than a header
may be missing from it; whatever it has must agree. A header newer than our tables makes the tests
fail and name what the tables lack.
"""

import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from hooks.gen import HOOKS, shipped  # noqa: E402
from hooks.generator.abi import declarations  # noqa: E402
from hooks.generator.wrappers import parameters  # noqa: E402
from tests.unit import vendor  # noqa: E402

pytestmark = pytest.mark.unit

ROWS = [row for row in shipped().rows if row.library == "cuda"]
ABI = declarations((HOOKS / "cuda").glob("**/*.h"))
ABI_VERSION = int(
    re.findall(r"#define CUDA_ABI_VERSION (\d+)", (HOOKS / "cuda/abi.h").read_text("utf-8"))[0]
)
# Declared as far as every version has them; met only inside CUgraphNodeParams, whose size is fixed.
PREFIXES = {
    "CUDA_CHILD_GRAPH_NODE_PARAMS",
    "CUDA_EVENT_RECORD_NODE_PARAMS",
    "CUDA_HOST_NODE_PARAMS_v2",
}
# Structures of which only the address is handed on.
OPAQUE = {
    "CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS",
    "CUDA_RESOURCE_VIEW_DESC",
    "CUarrayMapInfo",
    "CUcheckpointCheckpointArgs",
    "CUcheckpointRestoreArgs",
    "CUcheckpointUnlockArgs",
    "CUctxCigParam",
    "CUexecAffinityParam",
}
# Grew with the versions: compared with the newest header only.
GROWN = {"CU_CTX_FLAGS_MASK"}
# In drivers of their version, and in the next header only.
LATE = {
    "cuGreenCtxGetId",
    "cuLaunchHostFunc_v2",
    "cuMemBatchDecompressAsync",
    "cuStreamBeginCaptureToCig",
    "cuStreamEndCaptureToCig",
}
# For later use: newer versions give parts of them names.
UNUSED_FIELD = re.compile(r"\.(reserved\d?|pad)$")
TWIN = re.compile(r"_(ptds|ptsz)$")


def header_version(include: Path) -> int:
    """CUDA_VERSION of the header."""
    text = (include / "cuda.h").read_text(encoding="utf-8")
    return int(re.findall(r"#define CUDA_VERSION (\d+)", text)[0])


STANDARD = "#include <stddef.h>\n#include <stdint.h>"
PACKAGES = sorted(Path(sysconfig.get_path("platlib")).glob("nvidia/*/include"))
USUAL = [Path("/usr/local/cuda/include"), *PACKAGES]
include = vendor.includes("PUMP_CUDA_INCLUDE", "cuda.h", USUAL, header_version)


def vendor_source(include: Path) -> str:
    """C that brings in every declaration of the header, those for old programs too."""
    return f'#define __CUDA_API_VERSION_INTERNAL\n#include "{include}/cuda.h"\n'


def output(source: str, path: Path) -> str:
    """What the C program prints."""
    path.write_text(source, encoding="utf-8")
    program = path.with_suffix("")
    subprocess.run([*vendor.compiler(), "-o", str(program), str(path)], check=True)
    return subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout


def declared_symbols(include: Path) -> set[str]:
    """Every symbol that the header declares, twins and old versions included."""
    command = [*vendor.compiler(), "-E", "-P", "-x", "c", "-"]
    text = subprocess.run(
        command, input=vendor_source(include), capture_output=True, text=True, check=True
    ).stdout
    return set(re.findall(r"\bCUresult\s+(cu\w+)\s*\(", text))


def in_other_header(symbol: str) -> bool:
    """True for functions that graphics and profiling headers declare, not cuda.h."""
    return bool(re.search(r"^cu(GL|EGL|VDPAU|WGL|Profiler)|(EGL|VDPAU|Egl|GLReg)", symbol))


def expressions(version: int) -> list[str]:
    """What must be the same number on both sides: sizes, offsets, values."""
    left_out = {"CUDA_ABI_VERSION"} | (GROWN if version < ABI_VERSION else set())
    fields = [f for f in ABI.fields if not UNUSED_FIELD.search(f)]
    constants = ABI.constants - left_out
    found = [f"sizeof({name})" for name in ABI.types - PREFIXES - OPAQUE]
    for field in fields:
        kind, _, path = field.partition(".")
        found += [f"offsetof({kind}, {path})", f"sizeof((({kind} *)0)->{path})"]
    found += [f"(long long)(intptr_t)({name})" for name in constants]
    members = ("eventRecord", "graph", "host")
    longer = {f"sizeof(((CUgraphNodeParams *)0)->{member})" for member in members}
    return sorted(set(found) - longer)


def printing(head: str, lines: Iterable[str]) -> str:
    """A C program that prints each expression and its value."""
    prints = [f'    printf("%s = %lld\\n", "{one}", (long long)({one}));' for one in lines]
    return "\n".join([STANDARD, "#include <stdio.h>", head, "int main(void)", "{", *prints, "}"])


def test_layouts_and_values(include: Path, tmp_path: Path) -> None:
    """Sizes, offsets, widths of fields and values of constants are the vendor's."""
    wanted = expressions(header_version(include))
    assert len(wanted) > 1000, "the reader of our headers finds what they declare"
    head = f"{STANDARD}\n{vendor_source(include)}"
    probes = [f"void probe_{i}(void) {{ (void)({one}); }}" for i, one in enumerate(wanted)]
    found = vendor.bad_lines(vendor.compiler(), head, probes, tmp_path / "probe.c")
    missing = {wanted[i] for i in found}
    present = [one for one in wanted if one not in missing]
    assert not missing or header_version(include) < ABI_VERSION, sorted(missing)
    assert len(present) > 0.7 * len(wanted)
    ours = output(printing(f'#include "{HOOKS}/cuda/abi.h"\n', present), tmp_path / "ours.c")
    theirs = output(printing(vendor_source(include), present), tmp_path / "theirs.c")
    assert not sorted(set(ours.splitlines()) ^ set(theirs.splitlines()))
    assert len(ours.splitlines()) == len(present)


def test_error_codes_are_complete(include: Path) -> None:
    """Every error that the header can name is known here."""
    text = (include / "cuda.h").read_text(encoding="utf-8")
    theirs = set(re.findall(r"^\s+(CUDA_SUCCESS|CUDA_ERROR_\w+)\s*=", text, re.MULTILINE))
    assert len(theirs) > 80
    assert not sorted(theirs - ABI.constants), "errors that hooks/cuda/abi/result.h lacks"


def test_prototypes(include: Path, tmp_path: Path) -> None:
    """Every prototype in the tables is the vendor's, twins included."""
    version = header_version(include)
    symbols = declared_symbols(include)
    names: list[str] = []
    lines: list[str] = []
    for row in ROWS:
        if not row.prototype or row.since > version:
            continue
        twins = [f"{row.symbol}_{row.suffix}"] if row.suffix else []
        if row.symbol in LATE and row.symbol not in symbols:
            continue
        for symbol in [row.symbol, *twins]:
            assert symbol in symbols, f"{row.where}: {symbol} is not in the header of {version}"
            ours = f"{row.prototype.result} (*)({', '.join(parameters(row.prototype))})"
            names.append(f"{row.where}: {symbol}")
            lines.append(
                f"_Static_assert(__builtin_types_compatible_p(__typeof__(&{symbol}), {ours}), "
                f'"{symbol}");'
            )
    assert len(lines) > 300
    head, path = vendor_source(include), tmp_path / "prototypes.c"
    wrong = vendor.bad_lines(vendor.compiler(), head, lines, path)
    assert not wrong, [f"{names[i]}: {text}" for i, text in wrong.items()]


def test_every_function_is_known(include: Path) -> None:
    """The header declares nothing that the tables lack, and the tables nothing it should have."""
    version = header_version(include)
    symbols = declared_symbols(include)
    known = {row.symbol for row in ROWS}
    known |= {f"{row.symbol}_{row.suffix}" for row in ROWS if row.suffix}
    assert len(symbols) > 500
    assert not sorted(symbols - known), "functions that no table names"
    claimed = {row.symbol for row in ROWS if row.since <= version}
    late = LATE if version < ABI_VERSION else set()
    absent = {symbol for symbol in claimed - symbols - late if not in_other_header(symbol)}
    assert not sorted(absent), f"functions that CUDA {version} does not have"


def test_graphics_and_profiler_functions_are_known(include: Path) -> None:
    """The functions of the smaller headers, where they are there, are known by name."""
    bases = {row.base for row in ROWS} | {row.symbol for row in ROWS}
    for name in ("cudaGL.h", "cudaEGL.h", "cudaVDPAU.h", "cudaProfiler.h"):
        path = include / name
        if path.is_file():
            found = set(re.findall(r"CUresult CUDAAPI (cu\w+)\(", path.read_text(encoding="utf-8")))
            unknown = {s for s in found if TWIN.sub("", s) not in bases}
            assert not sorted(unknown), f"functions of {name} that no table names"


def versions_of(include: Path) -> set[tuple[str, int, str]]:
    """(base, version, twin) of every function pointer type of cudaTypedefs.h; twin may be ''."""
    text = (include / "cudaTypedefs.h").read_text(encoding="utf-8")
    found = re.findall(r"\bPFN_(\w+?)_v(\d+)(?:_(ptds|ptsz))?\)", text)
    return {(base, int(version), twin) for base, version, twin in found}


def test_versions(include: Path) -> None:
    """A row starts at the version that the vendor gives its parameter list, and no other."""
    listed = versions_of(include)
    assert len(listed) > 400
    plain = {(base, version) for base, version, twin in listed if not twin}
    starts = {(row.base, row.since) for row in ROWS}
    assert not sorted(plain - starts), "versions that no table has"
    bases = {base for base, _ in plain}
    version = header_version(include)
    rows = [row for row in ROWS if row.base in bases and row.since <= version]
    wrong = [row for row in rows if (row.base, row.since) not in plain and row.symbol not in LATE]
    assert not [f"{row.where}: {row.symbol} does not start at {row.since}" for row in wrong]


def test_twins(include: Path) -> None:
    """Where the vendor has a per-thread twin of a version, the row that serves it says so."""
    wrong = []
    for base, version, twin in versions_of(include):
        older = [row for row in ROWS if row.base == base and row.since <= version]
        serving = max(older, key=lambda row: row.since, default=None)
        if twin and (serving is None or serving.suffix != twin):
            wrong.append(f"{base} {version} {twin}")
    assert not sorted(wrong)
