"""Nothing of ours calls the loader: dlopen holds its lock while the constructors of a library run,
and such a constructor may wait for a thread that uses CUDA."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from pump import paths

pytestmark = [pytest.mark.unit, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("PUMP_BUILD_DIR", ROOT / "build" / "dev"))
LOADER = "dlopen dlmopen dlclose dlsym dlvsym dladdr dladdr1 dlinfo dlerror __tls_get_addr"
LOADING = "backtrace backtrace_symbols pthread_cancel pthread_exit iconv_open getpwuid getpwnam"
"""These load a library, at the first call at least."""
FORBIDDEN = {*LOADER.split(), *LOADING.split()}
DLSYM = "csrc/interpose/symbols/dlsym.c"
ALLOWED = {DLSYM: {"dladdr", "dlclose", "dlopen"}}
"""Only where the program itself is calling the loader; the real ones are found by `elf_next`."""


TARGETS = ("ulms", "wrappers", "core_static", "backend_parts", "code")
"""What `ulms.so` is made of, and what will be part of it."""


def objects() -> dict[str, Path]:
    """The object files of `ulms.so`, by the path of their source. Those of sources that are gone
    stay behind in a build.
    """
    folders = [BUILD / "CMakeFiles" / f"{target}.dir" for target in TARGETS]
    found = {
        path.relative_to(folder).with_suffix("").as_posix(): path
        for folder in folders
        for path in folder.rglob("*.c.o")
    }
    return {
        name: path
        for name, path in found.items()
        if any((root / name).exists() for root in (ROOT, BUILD))
    }


def symbols(objects: dict[str, Path], option: str) -> dict[str, set[str]]:
    """Names in object files, without versions, by the path of the source."""
    command = ["nm", "--format=posix", "--print-file-name", option, *map(str, objects.values())]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.partition(": ") for line in text.splitlines()]
    found: dict[str, set[str]] = {str(path): set() for path in objects.values()}
    for path, _, row in rows:
        found[path].add(row.split()[0].split("@")[0])
    return {name: found[str(path)] for name, path in objects.items()}


def test_every_source_is_looked_at() -> None:
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "csrc").rglob("*.c")}
    sources |= {f"gen/{path.name}" for path in (BUILD / "gen").glob("wrappers*.c")}
    assert sources <= set(objects())
    assert len(sources) > 100


def test_only_one_file_calls_the_loader() -> None:
    found = symbols(objects(), "--undefined-only")
    forbidden = {name: used & FORBIDDEN for name, used in found.items() if used & FORBIDDEN}
    assert forbidden == ALLOWED


def test_nothing_of_ours_calls_that_file() -> None:
    """All that it defines is for programs."""
    offered = symbols({DLSYM: objects()[DLSYM]}, "--defined-only")[DLSYM]
    users = {name: path for name, path in objects().items() if name != DLSYM}
    used = set().union(*symbols(users, "--undefined-only").values())
    assert "dlsym" in offered
    assert offered & used == set()


def test_calls_of_ours_are_bound_at_once() -> None:
    """Binding at the first call may wait for the loader."""
    command: list[str | Path] = ["readelf", "-dW", paths.library()]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert re.search("BIND_NOW|Flags: NOW", text)
