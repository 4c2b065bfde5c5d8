"""Compiles loops of the micro-benchmarks with folders of the library, optimised as it is."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
LOOPS = {
    "trace": (("trace_loop.c",), ("csrc/base", "share", "csrc/observe")),
    "ledger": (("loops.c",), ("csrc/base", "share", "csrc/ledger")),
    "scan": (
        ("scan_loop.c", "launch.c"),
        ("csrc/base", "share", "csrc/code", "csrc/ledger", "csrc/launch"),
    ),
    "engine": (("engine_loop.c",), ("csrc/engine",)),
}
"""The files of each, and the folders that they are compiled with."""


def compiled(target: Path, loop: str, main: Iterable[str] = ()) -> Path:
    """A library; with a file that has `main`, a program."""
    names, folders = LOOPS[loop]
    sources = [HERE / name for name in (*names, *main)]
    sources += [path for name in folders for path in sorted((ROOT / name).glob("*.c"))]
    include = [f"-I{ROOT / name}" for name in ("csrc", "hooks", "emulator", ".")]
    command = ["cc", "-std=gnu11", "-O2", "-pthread", "-ftls-model=initial-exec", *include]
    command += [] if main else ["-fPIC", "-shared", "-Wl,-z,defs"]
    subprocess.run([*command, "-o", str(target), *map(str, sources)], check=True)
    return target
