"""What a shared library exports, read from its file: loading it would start it."""

import mmap
import re
import struct
from pathlib import Path

import numpy as np

from pump.regular import open_regular

# The ELF specification: the header, section headers and symbols of 64-bit little-endian files.
HEADER = struct.Struct("<4sBB34xQ10xHHH")
SECTION = np.dtype(
    {
        "names": ["type", "offset", "size", "link"],
        "formats": ["<u4", "<u8", "<u8", "<u4"],
        "offsets": [4, 24, 32, 40],
        "itemsize": 64,
    }
)
SYMBOL = np.dtype(
    [
        ("name", "<u4"),
        ("info", "u1"),
        ("other", "u1"),
        ("section", "<u2"),
        ("value", "<u8"),
        ("size", "<u8"),
    ]
)
DYNAMIC_SYMBOLS, FUNCTION, CLASS_64, LITTLE_ENDIAN = 11, 2, 2, 1


def exported_functions(path: Path) -> set[str]:
    """Names of the functions that a library defines for others.

    Raises OSError, and ValueError for what is no 64-bit little-endian ELF file.
    """
    with open_regular(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        head = data[: HEADER.size].ljust(HEADER.size, b"\0")
        magic, word, order, sections_at, size, count, _ = HEADER.unpack(head)
        if (magic, word, order) != (
            b"\x7fELF",
            CLASS_64,
            LITTLE_ENDIAN,
        ) or size != SECTION.itemsize:
            raise ValueError(f"{path} is no 64-bit little-endian ELF file")
        sections = np.frombuffer(data[sections_at : sections_at + count * size], SECTION)
        names: set[str] = set()
        for table in sections[sections["type"] == DYNAMIC_SYMBOLS]:
            symbols = np.frombuffer(_content(data, table), SYMBOL)
            strings = _content(data, sections[table["link"]])
            defined = symbols[(symbols["info"] & 15 == FUNCTION) & (symbols["section"] != 0)]
            names.update(
                strings[at : strings.index(b"\0", at)].decode() for at in defined["name"].tolist()
            )
        return names


def glibc_needed(library: Path) -> tuple[int, ...]:
    """The oldest glibc that has all symbols which the library names."""
    named = re.findall(rb"\0GLIBC_(\d+(?:\.\d+)+)(?=\0)", library.read_bytes())
    return max(tuple(map(int, version.decode().split("."))) for version in named)


def _content(data: mmap.mmap, section: np.void) -> bytes:
    offset = int(section["offset"])
    return data[offset : offset + int(section["size"])]
