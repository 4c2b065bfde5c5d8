"""What a checkpoint on a disk says of itself, with the length and the checksum of each of its
files. A folder without it is none.
"""

import hashlib
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from pump.regular import read_regular

NAME = "checkpoint.json"
FORMAT = 1
AT_ONCE = 8
PIECE_BYTES = 64 << 20
"""What is summed up as one: several at a time, also of one file."""
READ_BYTES = 1 << 20
Sum = tuple[int, list[str]]
"""Bytes of a file, and the checksum of each of its pieces."""


class ManifestError(Exception):
    """The folder holds no checkpoint, or a damaged one. One line."""


def write(folder: Path, facts: dict[str, Any], told: Callable[[int], object]) -> None:
    """Makes a checkpoint of what lies in the folder, once all of it is on the disk. `told` gets how
    many bytes more were read. Raises OSError.
    """
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    names = [str(path.relative_to(folder)) for path in paths]
    for path in paths:
        sync(path)
    files = dict(zip(names, _sums(paths, told), strict=True))
    found = {"format": FORMAT} | facts | {"files": files}
    text = json.dumps(found | {"sha256": _own_sum(found)}, indent=1) + "\n"
    # the last one: a folder that has it is whole
    with (folder / f"{NAME}.new").open("x", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    (folder / f"{NAME}.new").rename(folder / NAME)
    for within in {folder, *(path.parent for path in paths)}:
        sync(within)


def read(folder: Path) -> dict[str, Any]:
    """What it says. Raises ManifestError."""
    try:
        found = json.loads(read_regular(folder / NAME))
    except OSError as error:
        raise ManifestError(f"{folder} is no checkpoint: {NAME}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"{folder} is damaged: {NAME} is no JSON") from error
    if not isinstance(found, dict) or not isinstance(found.get("format"), int):
        raise ManifestError(f"{folder} is damaged: {NAME} is not what `pump checkpoint` writes")
    if found["format"] != FORMAT:
        raise ManifestError(
            f"{folder} has format {found['format']}, and this version of pump reads {FORMAT}"
        )
    if found.pop("sha256", None) != _own_sum(found):
        raise ManifestError(f"{folder} is damaged: {NAME} has another content")
    return found


def _own_sum(found: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()


def verify(folder: Path, found: dict[str, Any], told: Callable[[int], object]) -> None:
    """Whether all files are what they were. Raises ManifestError."""
    files = found["files"]
    for name, (size, _) in files.items():
        try:
            now = (folder / name).stat().st_size
        except OSError as error:
            raise ManifestError(f"{folder} is damaged: {name}: {error.strerror}") from error
        if now != size:
            raise ManifestError(f"{folder} is damaged: {name} has {now} bytes, and had {size}")
    try:
        sums = _sums([folder / name for name in files], told)
    except OSError as error:
        raise ManifestError(f"{folder} is damaged: {error}") from error
    for (name, was), now_is in zip(files.items(), sums, strict=True):
        if list(now_is) != was:
            raise ManifestError(f"{folder} is damaged: {name} has another content")


def sync(path: Path) -> None:
    """The content of a file, or the names in a folder, are on the disk then. Raises OSError."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def size(folder: Path) -> int:
    """Bytes of what lies in the folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _sums(paths: list[Path], told: Callable[[int], object]) -> list[Sum]:
    """Of each file. Raises OSError."""
    sizes = [path.stat().st_size for path in paths]
    starts = [range(0, size, PIECE_BYTES) for size in sizes]
    of_all = [path for path, of_one in zip(paths, starts, strict=True) for _ in of_one]
    # hashlib and the disk let other threads run
    with ThreadPoolExecutor(min(AT_ONCE, os.cpu_count() or 1)) as pool:
        found = pool.map(partial(_sum_up, told=told), of_all, chain(*starts))
        return [(size, list(islice(found, len(n)))) for size, n in zip(sizes, starts, strict=True)]


def _sum_up(path: Path, start: int, told: Callable[[int], object]) -> str:
    """The checksum of a piece."""
    digest, left = hashlib.sha256(), PIECE_BYTES
    with path.open("rb", buffering=0) as file:
        file.seek(start)
        while left > 0 and (piece := file.read(min(left, READ_BYTES))):
            digest.update(piece)
            left -= len(piece)
            told(len(piece))
    return digest.hexdigest()
