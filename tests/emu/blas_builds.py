"""Libraries that pass for cuBLAS, compiled with the file name and the version that a test wants."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "programs"
INCLUDES = [f"-I{ROOT / folder}" for folder in ("hooks", "emulator")]
CC = ["cc", "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]


def build_library(folder: Path, file: str, version: str, sources: list[Path], *flags: str) -> Path:
    """A shared library whose symbols carry a version; its name is its file's."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / f"{file}.map"
    script.write_text(f"{version} {{ global: *; }};\n", encoding="utf-8")
    options = ["-shared", "-fPIC", f"-Wl,-soname,{file}", f"-Wl,--version-script={script}", *flags]
    command = [*CC, *INCLUDES, *options, "-o", folder / file, *sources]
    subprocess.run([str(word) for word in command], check=True)
    return folder / file
