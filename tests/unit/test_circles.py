"""No file of a folder needs, by way of others of that folder, a file that needs it.

What a file needs is what its object file does not define (`nm`).
"""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import BUILD

pytestmark = pytest.mark.unit

FOLDERS = ("backend/vmm", "backend/um", "code", "frames")
DEFINED = "BCDRTVW"


@cache
def objects() -> dict[str, Path]:
    """The library's object files, by the file of `csrc` without `.c`."""
    found: dict[str, Path] = {}
    for path in BUILD.rglob("*.o"):
        if name := re.search(r"/csrc/(.*)\.c\.o$", str(path)):
            found.setdefault(name[1], path)
    return found


@cache
def symbols(file: str) -> tuple[frozenset[str], frozenset[str]]:
    """What a file defines for others, and what it needs of others."""
    command = ["nm", "-g", "--format=posix", str(objects()[file])]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [line.split()[:2] for line in text.splitlines()]
    defined = frozenset(name for name, kind in rows if kind in DEFINED)
    return defined, frozenset(name for name, kind in rows if kind == "U")


def needs(folder: str) -> dict[str, set[str]]:
    """The files of a folder that each of them needs."""
    files = [file for file in objects() if file.rpartition("/")[0] == folder]
    owner = {name: file for file in files for name in symbols(file)[0]}
    return {file: {owner[n] for n in symbols(file)[1] & owner.keys()} - {file} for file in files}


def circle(left: dict[str, set[str]]) -> set[str]:
    """Those that stand in a circle, or need one that does."""
    while done := {file for file in left if not left[file] & left.keys()}:
        left = {file: left[file] for file in left.keys() - done}
    return set(left)


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_circle_of_files(folder: str) -> None:
    found = needs(folder)
    assert len(found) > 1
    assert any(found.values())
    assert circle(found) == set()


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set()}) == set("abcd")
    assert circle({"a": {"b"}, "b": set()}) == set()
