"""Programs in C and CUDA that are compiled where they run."""

import shutil
import subprocess
from pathlib import Path


def nvcc() -> str:
    """CUDA's compiler: on the path, or where it is installed by default."""
    return shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"


def compiled(source: Path, into: Path, *flags: str) -> Path:
    """The program made of a source, in a folder. Raises CalledProcessError."""
    into.mkdir(parents=True, exist_ok=True)
    program = into / source.stem
    subprocess.run([nvcc(), "-O2", "-o", str(program), str(source), *flags], check=True)
    return program
