"""Threads of ours: bound to nothing that the program's are bound to, and no more than needed."""

import os
from pathlib import Path

import pytest

from tests.conftest import RunEmulated
from tests.emu.small_program import run_small

pytestmark = pytest.mark.emu

BLOCKS, SIZE_MIB, MEMORY_MIB = 24, 4, 40

THREADS = """
import os
import signal
import sys


def ours():
    told = {}
    for tid in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{tid}/status") as file:
            status = dict(line[:-1].split(":\\t", 1) for line in file if ":\\t" in line)
        if status["Name"].startswith("ulms-"):
            told[int(tid)] = status
    return told
"""
SWEEPS = f"""
parts = [allocated({SIZE_MIB} * MIB) for _ in range({BLOCKS})]
for turn in range(3):
    for i, part in enumerate(parts):
        fill(part, i + turn, {SIZE_MIB} * MIB)
assert all(words_of(part, {SIZE_MIB} * MIB) == {{i + 2}} for i, part in enumerate(parts))
"""
BOUND = (
    THREADS
    + """
every_processor = os.sched_getaffinity(0)
os.sched_setaffinity(0, {min(every_processor)})
try:
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
except PermissionError:
    pass
"""
    + SWEEPS
    + """
program, faults = signal.Signals, {"SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP", "SIGSYS"}
assert ours()
for tid, status in ours().items():
    assert os.sched_getaffinity(tid) == every_processor, status["Name"]
    assert os.sched_getscheduler(tid) == os.SCHED_OTHER, status["Name"]
    open_signals = {s.name for s in signal.Signals if not int(status["SigBlk"], 16) >> s - 1 & 1}
    assert open_signals - {"SIGKILL", "SIGSTOP"} == faults, status["Name"]
print("free")
"""
)
TOLD = THREADS + "WORK\nprint(len(ours()))\n"
ONE_BLOCK = f"fill(allocated({SIZE_MIB} * MIB), 1, {SIZE_MIB} * MIB)"
FEW = (
    f"""
import os
import resource

fill(allocated({SIZE_MIB} * MIB), 1, {SIZE_MIB} * MIB)
words_of(allocated({SIZE_MIB} * MIB), {SIZE_MIB} * MIB)
os.setresuid(54321, 54321, 54321)
most = len(os.listdir("/proc/self/task")) + MORE
resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
"""
    + SWEEPS
    + "print('right')"
)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor binds everybody")
@pytest.mark.parametrize("verify", ["0", "1"])
@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_threads_of_ours_are_bound_to_nothing(
    backend: str, verify: str, tmp_path: Path, run_emulated: RunEmulated
) -> None:
    env = {"ULMS_BACKEND": backend, "ULMS_VERIFY": verify}
    env["ULMS_TRACE"] = str(tmp_path / "trace")
    told = run_small(run_emulated, tmp_path, BOUND, memory=f"{MEMORY_MIB}MiB", **env)
    assert told == "free\n"


@pytest.mark.parametrize(("backend", "most"), [("observe", 0), ("um", 1), ("vmm", 0)])
def test_while_everything_fits_there_are_hardly_any(
    backend: str, most: int, tmp_path: Path, run_emulated: RunEmulated
) -> None:
    program = TOLD.replace("WORK", ONE_BLOCK)
    told = run_small(run_emulated, tmp_path, program, memory="1GiB", ULMS_BACKEND=backend)
    assert int(told) <= most


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes its user")
@pytest.mark.parametrize("more", range(6))
@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_a_program_that_may_have_few_threads_gets_on(
    backend: str, more: int, tmp_path: Path, run_emulated: RunEmulated
) -> None:
    program = FEW.replace("MORE", str(more))
    told = run_small(
        run_emulated, tmp_path, program, memory=f"{MEMORY_MIB}MiB", ULMS_BACKEND=backend
    )
    assert told == "right\n"
