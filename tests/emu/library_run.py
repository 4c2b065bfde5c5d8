"""Runs library_caller.py under ulms.so, and reads what each launch touched."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pump.trace import OpKind, TouchMode, TouchSource, Trace, read
from tests.conftest import RunEmulated

CALLER = Path(__file__).with_name("library_caller.py")

Touch = tuple[int, int, str]
"""Bytes from the allocation's start: the first, the one behind the last; the mode."""


def run_calls(
    run: RunEmulated,
    emulator_dir: Path,
    trace: Path,
    calls: Sequence[dict[str, Any]],
    *,
    library: str,
    size: int,
    kernels: str,
    launching: int | None = None,
) -> list[set[Touch]]:
    """What each call's launch touched; `kernels` are "hidden", holding no pointers, or "seen".

    What no library told has the mode "not told". launching: so many of the calls launch; all do.
    """
    lines = [json.dumps({"libraries": [library], "bytes": size}), *map(json.dumps, calls)]
    folders = (emulator_dir, emulator_dir / "library" / library.rsplit(".", 1)[-1])
    env = {"ULMS_TRACE": str(trace), "EMU_LIBRARY": kernels}
    env["LD_LIBRARY_PATH"] = ":".join(map(str, folders))
    ran = run([sys.executable, CALLER], env, stdin="\n".join(lines), timeout=300)
    assert ran.returncode == 0, ran.stderr
    base, *results = [int(line) for line in ran.stdout.split()]
    assert not any(results)
    found = read(trace)
    assert found.complete, found.notes
    launches = launched(found, base)
    assert len(launches) == (len(calls) if launching is None else launching)
    return launches


def launched(trace: Trace, base: int) -> list[set[Touch]]:
    """What each launch touched, relative to `base`."""
    launches = []
    for operation in trace.operations[trace.operations["kind"] == OpKind.LAUNCH]:
        launch = set()
        for touch in trace.touches_of(operation):
            told = touch["source"] == TouchSource.LIBRARY
            mode = TouchMode(touch["mode"]).name.lower() if told else "not told"
            first = int(touch["start"]) - base
            launch.add((first, first + int(touch["bytes"]), mode))
        launches.append(launch)
    return launches


def joined(touches: set[Touch]) -> list[Touch]:
    """Touches in order of address, those side by side with the same mode made one."""
    found: list[Touch] = []
    for first, end, mode in sorted(touches):
        if found and found[-1][1] == first and found[-1][2] == mode:
            found[-1] = (found[-1][0], end, mode)
        else:
            found.append((first, end, mode))
    return found
