"""From a file to its header and its whole chunks, whatever happened to it."""

import json
import mmap
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pump.trace import layout
from pump.trace.errors import Loss, TraceError

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP = 31  # zlib's window bits for gzip
_PIECE = 1 << 20

Bytes = bytes | mmap.mmap


@dataclass(frozen=True)
class Span:
    """The records of one whole chunk: where they are in the data, in units of 8 bytes."""

    start: int
    end: int


@dataclass(frozen=True)
class Container:
    """What a trace file holds, before its records are looked at."""

    path: Path
    data: Bytes
    header: np.void
    machine: dict[str, Any]
    spans: list[Span]
    losses: list[Loss]

    @property
    def words(self) -> npt.NDArray[np.uint64]:
        """The data in units of 8 bytes."""
        return np.frombuffer(self.data, dtype="<u8", count=len(self.data) // 8)


def open_container(path: Path) -> Container:
    """Reads header and chunks. Raises TraceError for what is no trace, OSError for no file."""
    losses: list[Loss] = []
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
    spans = _find_chunks(data, start, losses)
    return Container(path, data, header, machine, spans, losses)


def load_bytes(path: Path) -> Bytes:
    """The bytes of a trace file, uncompressed as far as that goes. Raises OSError."""
    return _load(path, [])


def _load(path: Path, losses: list[Loss]) -> Bytes:
    with path.open("rb") as file:
        if file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC:
            file.seek(0)
            return _decompress(file.read(), losses)
        size = file.seek(0, 2)
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""


def _decompress(packed: bytes, losses: list[Loss]) -> bytes:
    stream = zlib.decompressobj(wbits=_GZIP)
    plain = bytearray()
    reason = ""
    try:
        for at in range(0, len(packed), _PIECE):
            plain += stream.decompress(packed[at : at + _PIECE])
        if not stream.eof:
            reason = "the compressed file is cut off"
    except zlib.error as error:
        reason = f"the compressed file is damaged ({error})"
    if reason:
        losses.append(Loss(len(plain), 0, f"{reason}: what follows is lost"))
    return bytes(plain)


def _read_text(data: Bytes, header: np.void, losses: list[Loss]) -> tuple[dict[str, Any], int]:
    """The line of JSON, and where the chunks begin as far as the header tells."""
    start = layout.FILE_HEADER.itemsize
    size = int(header["text_bytes"])
    text = data[start : start + size]
    if len(text) == size and zlib.crc32(text) == header["text_crc"]:
        end = start + size // 8 * 8 + 8
        try:
            machine = json.loads(text.decode(errors="replace"))
            if isinstance(machine, dict):
                return machine, end
        except ValueError:
            pass
        losses.append(Loss(start, size, "the description of machine and program is not JSON"))
        return {}, end
    losses.append(Loss(start, len(text), "the description of machine and program is damaged"))
    first = _next_chunk(data, start)
    return {}, first


def _next_chunk(data: Bytes, at: int) -> int:
    """Offset of the first whole chunk from `at` on, or the end of the data."""
    while (at := data.find(layout.CHUNK_MAGIC, at)) >= 0:
        if _chunk_end(data, at):
            return at
        at += 1
    return len(data)


def _chunk_end(data: Bytes, at: int) -> int:
    """End of the whole chunk at an offset; 0 when there is none."""
    if at % 8 or at + layout.CHUNK.itemsize > len(data):
        return 0
    head = np.frombuffer(data, dtype=layout.CHUNK, count=1, offset=at)[0]
    size = int(head["bytes"])
    end = at + layout.CHUNK.itemsize + size
    whole = head["magic"] == layout.CHUNK_MAGIC and size % 8 == 0 and size <= layout.CHUNK_MAX
    if not whole or end > len(data):
        return 0
    return end if zlib.crc32(data[at + layout.CRC_STARTS : end]) == head["crc"] else 0


def _find_chunks(data: Bytes, at: int, losses: list[Loss]) -> list[Span]:
    spans = []
    while at < len(data):
        end = _chunk_end(data, at)
        if end:
            spans.append(Span((at + layout.CHUNK.itemsize) // 8, end // 8))
        else:
            end = _next_chunk(data, at + 1)
            reason = "a damaged chunk" if end < len(data) else "a chunk that is cut off or damaged"
            losses.append(Loss(at, end - at, reason))
        at = end
    return spans
