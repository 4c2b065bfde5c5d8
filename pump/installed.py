"""The vendor's libraries on this machine, and which of their functions no table names."""

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pump.coverage import Function
from pump.elf import exported_functions

FILES = {
    "cuda": r"libcuda\.so\.1",
    "cublas": r"libcublas\.so\.\d+",
    "cublasLt": r"libcublasLt\.so\.\d+",
    "cudnn": r"libcudnn\.so\.\d+",
    "nccl": r"libnccl\.so\.\d+",
}
"""What a library's file is called."""
TWIN = re.compile(r"_pt(ds|sz)$")  # the driver's, for the default stream of each thread
USUAL = (
    "/usr/local/cuda/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib/wsl/lib",
)


@dataclass(frozen=True)
class Installed:
    """One library's file: how many functions it exports, and those that no table names."""

    library: str
    path: Path
    exported: int
    unknown: tuple[str, ...]


def folders(variables: Mapping[str, str]) -> Iterator[Path]:
    """Where libraries may lie: as the loader is told, beside Python's packages, and the usual."""
    yield from (Path(part) for part in variables.get("LD_LIBRARY_PATH", "").split(":") if part)
    for packages in (Path(part) for part in sys.path if part):
        yield from sorted(packages.glob("nvidia/*/lib"))
    yield from _cached()
    yield from map(Path, USUAL)


def _cached() -> list[Path]:
    """The folders that the loader's cache names; none where it cannot be asked."""
    try:
        command = ["ldconfig", "-p"]
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return []
    found = re.findall(r"=> (/\S*)/lib(?:cuda|cublas|cublasLt|cudnn|nccl)\.so\.\d+$", said, re.M)
    return [Path(folder) for folder in dict.fromkeys(found)]


def find(functions: Iterable[Function], where: Iterable[Path]) -> list[Installed]:
    """Every library that lies in one of the folders, once. What cannot be read is left out."""
    known: dict[str, set[str]] = {}
    for function in functions:
        known.setdefault(function.library, set()).add(function.symbol)
    found: dict[Path, Installed] = {}
    for folder in where:
        for path in sorted(folder.glob("lib*.so.*")):
            library = next(
                (name for name, file in FILES.items() if re.fullmatch(file, path.name)), ""
            )
            if library and path.resolve() not in found:
                try:
                    found[path.resolve()] = _audit(library, path, known.get(library, set()))
                except (OSError, ValueError):
                    continue
    return list(found.values())


def _audit(library: str, path: Path, known: set[str]) -> Installed:
    prefix = "cu" if library == "cuda" else library
    ours = re.compile(rf"{prefix}[A-Z]")
    exported = {name for name in exported_functions(path) if ours.match(name)}
    unknown = {name for name in exported if TWIN.sub("", name) not in known}
    return Installed(library, path, len(exported), tuple(sorted(unknown)))
