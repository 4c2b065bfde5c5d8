"""The reader of zstd frames (`csrc/code/zstd.c`) against zstd's own library.

`tests/reference/zstd.txt` has some of these frames for `tests/c/test_code_zstd.c`, which damages
them; `python -m tests.unit.test_code_zstd` writes it.
"""

import struct
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
import zstandard

from tests.unit.disassembly import BUILD

pytestmark = pytest.mark.unit

FRAMES = Path(__file__).parents[1] / "reference" / "zstd.txt"
KINDS = ("zeros", "noise", "words", "bits", "skewed", "records", "mixed")
SIZES = (0, 1, 5, 40, 300, 3000, 30_000, 140_000)
LEVELS = (-50, -5, *range(1, 23))


def content(kind: str, size: int) -> bytes:
    """Bytes that packers treat in different ways."""
    r = np.random.default_rng(size)
    match kind:
        case "zeros":
            return bytes(size)
        case "noise":
            return r.bytes(size)
        case "words":
            words = [r.bytes(length) for length in r.integers(2, 9, 200)]
            return b" ".join(words[i] for i in r.integers(0, 200, size // 2 + 1))[:size]
        case "bits":
            return bytes(r.integers(48, 50, size, np.uint8))
        case "skewed":
            return r.exponential(5.0, size).astype(np.uint8).tobytes()
        case "records":
            rows = np.empty((size // 16 + 1, 4), np.uint32)
            rows[:, 0], rows[:, 1] = np.arange(len(rows)), 9
            rows[:, 2:] = r.integers(0, 99, (len(rows), 2))
            return rows.tobytes()[:size]
        case _:
            return b"".join(content(k, size // 6 + 1) for k in KINDS[:6])[:size]


def packed(data: bytes, level: int, *, told: bool = True) -> bytes:
    """A frame, which tells the bytes of its content or not."""
    compressor = zstandard.ZstdCompressor(level=level, write_content_size=told)
    frame: bytes = compressor.compress(data)
    return frame


def unpacked(frames: Iterable[tuple[bytes, int]]) -> Iterator[bytes | None]:
    """What each holds, if it is so many bytes; None for those that are refused."""
    asked = list(frames)
    lines = b"".join(struct.pack("<II", len(frame), size) + frame for frame, size in asked)
    command = [str(BUILD / "read_code"), "zstd"]
    out = subprocess.run(command, input=lines, capture_output=True, check=True).stdout
    at = 0
    for _, size in asked:
        whole = out[at]
        yield out[at + 1 : at + 1 + size] if whole else None
        at += 1 + size * whole
    assert at == len(out)


@pytest.mark.parametrize("kind", KINDS)
def test_frames_are_unpacked_as_they_were_packed(kind: str) -> None:
    contents = [content(kind, size) for size in SIZES]
    cases = [(data, level) for data in contents for level in LEVELS if len(data) < 9000]
    cases += [(data, level) for data in contents[-2:] for level in (-5, 1, 3, 6, 13, 19)]
    frames = [packed(data, level, told=level % 2 == 0) for data, level in cases]
    sizes = (len(data) for data, _ in cases)
    found = unpacked(zip(frames, sizes, strict=True))
    wrong = [
        (len(data), level) for (data, level), out in zip(cases, found, strict=True) if out != data
    ]
    assert wrong == []


def test_megabytes_are_unpacked() -> None:
    data = content("mixed", 2 << 20) + content("words", 1 << 20)
    assert list(unpacked([(packed(data, level), len(data)) for level in (1, 4)])) == [data, data]


def test_parts_of_frames_and_other_sizes_are_refused() -> None:
    data = content("mixed", 3000)
    frame = packed(data, 19)
    short = [(frame[:end], len(data)) for end in range(len(frame))]
    other = [(frame, len(data) + 1), (frame, len(data) - 1), (frame + b"\0", len(data))]
    assert set(unpacked(short + other)) == {None}


def digest(data: bytes) -> int:
    """FNV-1a."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return value


def main() -> None:
    """Writes frames of all kinds, small enough to be kept."""
    cases = [
        (kind, size, level) for kind in KINDS for size, level in ((40, 3), (900, 1), (2500, 19))
    ]
    cases += [
        ("records", 150_000, 19),
        ("words", 9000, 22),
        ("zeros", 300_000, 3),
        ("skewed", 7000, -5),
    ]
    with FRAMES.open("w") as file:
        for kind, size, level in cases:
            data = content(kind, size)
            file.write(f"{size} {digest(data):016x} {packed(data, level).hex()}\n")


if __name__ == "__main__":
    main()
