"""Copies and memsets that leave their allocation are refused as the driver refuses them.

The calls are all that the tables have: of rows of kind copy and memset they are made here, from
their arguments; `overruns.c` has the others by hand.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hooks.gen import shipped
from hooks.generator.prototype import Argument
from hooks.generator.row import Custom, Recorded, Row
from tests.conftest import ROOT, Compile, RunEmulated

pytestmark = pytest.mark.emu

MIB = 1 << 20
INVALID_VALUE = 1
SIZES = {"even": 8 * MIB, "odd": 5 * MIB + 300, "small": 2 * MIB - 4}
DEVICE = {"EMU_MEMORY": "1GiB", "EMU_DRIVER_VERSION": "13020"}
NOT_EMULATED = {"cuGraphAddNode_v3", "cuGraphNodeSetParams_v2"}
"""Nor does the emulated driver tell of them."""
PASSED_ON = {
    "const CUDA_MEMCPY3D *",
    "const CUDA_MEMSET_NODE_PARAMS *",
    "CUgraphNodeParams *",
}
"""Parameters by which a graph gets copies and memsets."""


def rows() -> list[Row]:
    return [row for row in shipped().of("cuda") if row.wrapped]


def made_rows() -> list[Row]:
    """Rows of which the table says all. What has the size of a word has no end to choose."""
    kinds = {"copy", "memset"}
    return [
        row
        for row in rows()
        if isinstance(row.treatment, Recorded)
        and row.treatment.kind in kinds
        and not row.symbol.startswith("cuStreamWriteValue")
    ]


def value(row: Row, argument: Argument) -> str:
    """What the call gets for an argument; a name that nobody knows here is a failure."""
    assert isinstance(row.treatment, Recorded)
    extents = " ".join(touch.text for touch in row.treatment.touches)
    element = re.search(r"\* (\d)", extents)
    by_type = {
        "CUstream": "stream",
        "CUcontext": "context",
        "CUarray": "array",
        "const void *": "host",
        "void *": "host",
        "CUmemcpyAttributes *": "&attributes",
        "unsigned char": "3",
        "unsigned short": "3",
        "unsigned int": "3",
    }
    by_name = {
        "dst": "at.to",
        "dstDevice": "at.to",
        "src": "at.from",
        "srcDevice": "at.from",
        "ByteCount": "at.size",
        "size": "at.size",
        "dstOffset": "0",
        "srcOffset": "0",
        "dstPitch": "at.pitch",
        "N": f"at.size / {element[1] if element else 1}",
        "Width": f"at.width / {element[1] if element else 1}",
        "Height": "at.rows",
    }
    return by_name.get(argument.name) or by_type[argument.type]


def made_header() -> str:
    """`overruns_made.h`."""
    lines, calls = [], []
    for row in made_rows():
        assert row.prototype
        values = ", ".join(value(row, argument) for argument in row.prototype.arguments)
        captured = any(argument.type == "CUstream" for argument in row.prototype.arguments)
        for symbol in (row.symbol, *([f"{row.symbol}_{row.suffix}"] if row.suffix else [])):
            lines.append(f"extern __typeof__(*(pfn_{row.symbol})NULL) {symbol};")
            lines.append(f"static CUresult make_{symbol}(void) {{ return {symbol}({values}); }}")
            calls.append(f'{{"{symbol}", make_{symbol}, {str(captured).lower()}}},')
    return "\n".join([*lines, "static const struct call made_calls[] = {", *calls, "};\n"])


Program = Callable[[int, int, int, dict[str, str]], str]


@pytest.fixture
def overruns(
    compiled: Compile,
    tmp_path_factory: pytest.TempPathFactory,
    emulator_dir: Path,
    run_emulated: RunEmulated,
    run_native: RunEmulated,
) -> Program:
    """Compares what the program prints with its native run; what both print."""
    folder = tmp_path_factory.mktemp("overruns")
    (folder / "overruns_made.h").write_text(made_header(), encoding="utf-8")
    program = compiled("overruns", f"-I{folder}", str(emulator_dir / "libcuda.so.1"))

    def run(seed: int, calls: int, size: int, env: dict[str, str]) -> str:
        command = [program, str(seed), str(calls), str(size)]
        native = run_native(command, DEVICE)
        assert native.returncode == 0, native.stderr
        done = run_emulated(command, {**DEVICE, **env})
        assert done.stdout == native.stdout
        assert done.returncode == 0, done.stderr
        return native.stdout

    return run


@pytest.mark.parametrize("limit", [None, 32 * MIB], ids=["fits", "moves"])
@pytest.mark.parametrize(
    "size", [8 * MIB, 5 * MIB + 300, 2 * MIB - 4], ids=["even", "odd", "small"]
)
@pytest.mark.parametrize("backend", ["observe", "um", "vmm"])
def test_what_leaves_its_allocation_is_refused(
    backend: str, size: int, limit: int | None, overruns: Program
) -> None:
    env = {"ULMS_BACKEND": backend}
    if limit and backend != "observe":
        env["ULMS_GPU_MEMORY"] = str(limit * size // (8 * MIB))
    said = [overruns(seed, 150, size, env) for seed in range(3)]
    for answer in (0, INVALID_VALUE):
        assert all(f": {answer}, " in each for each in said)


def test_every_copy_and_memset_of_the_tables_is_called() -> None:
    text = (ROOT / "tests/programs/overruns.c").read_text(encoding="utf-8")
    copies = {
        row.symbol for row in rows() if row.where.file.endswith(("copy.hooks", "memset.hooks"))
    }
    graphs = {
        row.symbol
        for row in rows()
        if row.prototype
        and isinstance(row.treatment, Custom)
        and not row.symbol.endswith("GetParams")
        and any(argument.type in PASSED_ON for argument in row.prototype.arguments)
    }
    made = {row.symbol for row in made_rows()}
    missing = {symbol for symbol in copies | graphs if not re.search(rf"\b{symbol}\b", text)}
    assert missing - made <= NOT_EMULATED
