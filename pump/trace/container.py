"""From a file to its header and its whole chunks, whatever happened to it."""

import json
import os
import struct
import zlib
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pump.regular import open_regular
from pump.trace import layout
from pump.trace.errors import Loss, Losses, TraceError

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP = 31  # zlib's window bits for gzip
_PIECE = 1 << 20
HOLDS_MOST = 4 << 30
"""Bytes that a trace may hold: to read it takes several times that."""
EXPANDS_MOST = 32
"""So many times its size a compressed trace may hold; recorded ones hold about 5 times it."""
_TEXT_MOST = 1 << 16
"""Bytes of the line of JSON: as objects it takes many times its size."""
_CHUNK_BEGINS = struct.Struct("<4sII")
_SUMS_MOST = 8
"""Chunks that are not whole cost a sum over what they claim to hold: of all together, so many times
the size."""


@dataclass(frozen=True)
class Container:
    """What a trace file holds, before its records are looked at."""

    path: Path
    data: bytes
    header: np.void
    machine: dict[str, Any]
    starts: npt.NDArray[np.int64]
    """Where the records of each whole chunk begin in the data, in units of 8 bytes."""
    ends: npt.NDArray[np.int64]
    losses: Losses

    @property
    def words(self) -> npt.NDArray[np.uint64]:
        """The data in units of 8 bytes."""
        return np.frombuffer(self.data, dtype="<u8", count=len(self.data) // 8)


def open_container(path: Path) -> Container:
    """Reads header and chunks. Raises TraceError for what is no trace, OSError for no file."""
    losses = Losses()
    data = _load(path, losses)
    if len(data) < layout.FILE_HEADER.itemsize:
        raise TraceError(path, len(data), "not a trace: too short for a header")
    header = np.frombuffer(data, dtype=layout.FILE_HEADER, count=1)[0]
    if header["magic"] != layout.MAGIC:
        raise TraceError(path, 0, "not a trace")
    if header["version"] != layout.VERSION:
        raise TraceError(
            path, 8, f"version {header['version']}; this reader knows {layout.VERSION}"
        )
    machine, start = _read_text(data, header, losses)
    starts, ends = _Chunks(data).find(start, losses)
    return Container(path, data, header, machine, starts, ends, losses)


def load_bytes(path: Path) -> bytes:
    """The bytes of a trace file, uncompressed as far as that goes. Raises TraceError, OSError."""
    return _load(path, Losses())


def _load(path: Path, losses: Losses) -> bytes:
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size  # to read up to a number takes memory for it
        if size > HOLDS_MOST:
            raise TraceError(path, HOLDS_MOST, "larger than a trace may be")
        data = file.read(size)
    return _decompress(data, losses) if data.startswith(_GZIP_MAGIC) else data


def _decompress(packed: bytes, losses: Losses) -> bytes:
    stream = zlib.decompressobj(wbits=_GZIP)
    plain = bytearray()
    reason = ""
    most = min(EXPANDS_MOST * len(packed) + _PIECE, HOLDS_MOST)
    try:
        for at in range(0, len(packed), _PIECE):
            plain += stream.decompress(packed[at : at + _PIECE], most + 1 - len(plain))
            if len(plain) > most:
                reason = f"the compressed file holds more than {EXPANDS_MOST} times its size"
                break
        if not stream.eof and not reason:
            reason = "the compressed file is cut off"
    except zlib.error as error:
        reason = f"the compressed file is damaged ({error})"
    if reason:
        losses.append(Loss(len(plain), 0, f"{reason}: what follows is lost"))
    return bytes(plain)


def _read_text(data: bytes, header: np.void, losses: Losses) -> tuple[dict[str, Any], int]:
    """The line of JSON, and where the chunks begin as far as the header tells."""
    start = layout.FILE_HEADER.itemsize
    size = int(header["text_bytes"])
    text = data[start : start + min(size, _TEXT_MOST)]
    if len(text) == size and zlib.crc32(text) == header["text_crc"]:
        end = start + size // 8 * 8 + 8
        try:
            machine = json.loads(text.decode(errors="replace"))
            if isinstance(machine, dict):
                return machine, end
        except (ValueError, RecursionError):
            pass
        losses.append(Loss(start, size, "the description of machine and program is not JSON"))
        return {}, end
    losses.append(Loss(start, len(text), "the description of machine and program is damaged"))
    return {}, _Chunks(data).next(start)


class _Chunks:
    """Looks for the chunks of a trace's data."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = _SUMS_MOST * len(data) + layout.CHUNK_MAX
        """Bytes of chunks that are not whole and may still be summed up."""

    def find(self, at: int, losses: Losses) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Where the records of the whole chunks from `at` on begin and end, in units of 8 bytes."""
        starts, ends = array("q"), array("q")
        while at < len(self._data):
            end = self._end(at)
            if end:
                starts.append((at + layout.CHUNK.itemsize) // 8)
                ends.append(end // 8)
            else:
                end = self.next(at + 1)
                cut = "" if end < len(self._data) else "cut off or "
                losses.append(Loss(at, end - at, f"a chunk that is {cut}damaged"))
            at = end
        return np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64)

    def next(self, at: int) -> int:
        """Offset of the first whole chunk from `at` on, or the end of the data."""
        while (at := self._data.find(layout.CHUNK_MAGIC, at)) >= 0:
            if self._end(at):
                return at
            at += 1
        return len(self._data)

    def _end(self, at: int) -> int:
        """End of the whole chunk at an offset; 0 when there is none."""
        data = self._data
        if at % 8 or at + layout.CHUNK.itemsize > len(data):
            return 0
        magic, crc, size = _CHUNK_BEGINS.unpack_from(data, at)
        end = at + layout.CHUNK.itemsize + size
        possible = magic == layout.CHUNK_MAGIC and size % 8 == 0 and size <= layout.CHUNK_MAX
        if not possible or end > len(data) or self._left < 0:
            return 0
        if zlib.crc32(memoryview(data)[at + layout.CRC_STARTS : end]) == crc:
            return int(end)
        self._left -= end - at
        return 0
