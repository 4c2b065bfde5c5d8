"""Counts the instructions of ulms.so in a hooked launch: no clock is as steady.

12 parameters, 675 argument bytes, 8 of the parameters addresses of blocks picked at random among
those that the framework told.
"""

import os
import subprocess
from pathlib import Path

from bench.micro import callgrind

ROOT = Path(__file__).resolve().parents[2]
LAUNCHES = 2000
FEW, MANY = 10_000, 1_000_000
MOST = 2_465
"""In observe mode, which looks at every argument, at FEW blocks."""
MOST_UNREAD = 123
"""By default, while everything fits: arguments are not looked at."""


def instructions(out: Path, ulms_so: Path, emulator: Path, blocks: int, backend: str) -> int:
    """Of one launch. The folder `out` keeps program and counts."""
    program, counts = out / "launch_main", out / "callgrind.out"
    gen = Path(os.environ.get("PUMP_BUILD_DIR", ROOT / "build" / "dev")) / "gen"
    include = [f"-I{folder}" for folder in (ROOT / "hooks", ROOT / "emulator", ROOT / "csrc", gen)]
    sources = [ROOT / "bench" / "micro" / name for name in ("launch_main.c", "launch.c")]
    build: list[str | Path] = ["cc", "-O2", *include, "-o", program, *sources]
    subprocess.run([*build, emulator / "libcuda.so.1"], check=True)
    env = {"LD_PRELOAD": str(ulms_so), "LD_LIBRARY_PATH": str(emulator), "ULMS_BACKEND": backend}
    tool = callgrind.tool(counts, "--toggle-collect=cuLaunchKernel")
    command = [*tool, str(program), str(blocks), str(LAUNCHES)]
    subprocess.run(command, env=os.environ | env, check=True)
    return callgrind.instructions_in(counts, ulms_so.name) // LAUNCHES
