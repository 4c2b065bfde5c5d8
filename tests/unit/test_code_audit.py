"""The decoder of machine code against nvdisasm, on the code in libraries (`make audit`)."""

import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.disassembly import BUILD, Row, disagreements, disassembled

pytestmark = [pytest.mark.unit, pytest.mark.slow]

FOLDER = Path(os.environ.get("PUMP_AUDIT", "none"))
NVDISASM = next(FOLDER.glob("nvidia/*/bin/nvdisasm"), None)
LIBRARIES = [
    *FOLDER.glob("bitsandbytes/libbitsandbytes_cuda13?.so"),
    *FOLDER.glob("cupy/cuda/cub.*.so"),
]
FUNCTIONS = 40  # that are disassembled at a time: nvdisasm needs memory for all registers of all


def functions(cubin: Path) -> list[int]:
    """The indexes of a cubin's kernels among its symbols."""
    data = cubin.read_bytes()
    table, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    sections = [struct.unpack_from("<IIQQQQ", data, table + 64 * i) for i in range(count)]
    at, size = next((s[4], s[5]) for s in sections if s[1] == 2)
    kinds = [struct.unpack_from("<BB", data, at + 24 * i + 4) for i in range(size // 24)]
    return [i for i, (info, other) in enumerate(kinds) if info & 15 == 2 and other & 0x10]


def rows_of(cubin: Path, architecture: int, chosen: list[int]) -> Iterator[list[Row]]:
    """Of these kernels. nvdisasm cannot follow the flow of some."""
    option = ("-fun", ",".join(map(str, chosen)))
    try:
        yield list(disassembled(str(NVDISASM), cubin, architecture, *option))
    except subprocess.CalledProcessError:
        half = len(chosen) // 2
        for part in (chosen[:half], chosen[half:]) if half else ():
            yield from rows_of(cubin, architecture, part)


def rows(architecture: int, folder: Path) -> Iterator[list[Row]]:
    """What nvdisasm says of the cubins in the libraries, some kernels at a time."""
    for library in LIBRARIES:
        command = list(map(str, (BUILD / "read_code", "cubins", architecture, library, folder)))
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for cubin in map(Path, printed.splitlines()):
            found = functions(cubin)
            for first in range(0, len(found), FUNCTIONS):
                yield from rows_of(cubin, architecture, found[first : first + FUNCTIONS])


@pytest.mark.skipif(not (NVDISASM and LIBRARIES), reason="PUMP_AUDIT names no wheels' folder")
@pytest.mark.parametrize("architecture", [80, 90, 100, 120])
def test_a_million_instructions_are_decoded_as_nvdisasm_does(
    architecture: int, tmp_path: Path
) -> None:
    count, wrong = 0, list[str]()
    for some in rows(architecture, tmp_path):
        count += len(some)
        wrong += disagreements(some)
    print(f"sm_{architecture}: {count} instructions")
    assert wrong == []
    assert count > 1_000_000
