"""What a program under ulms.so reports of itself when its steps have ended."""

import json
import sys
from pathlib import Path

import pytest

from tests.conftest import RunEmulated

pytestmark = pytest.mark.emu

PROGRAMS = Path(__file__).resolve().parents[1] / "gpu" / "programs"
PIECES, MIB = 8, 1 << 20
PROGRAM = f"""
import sys
sys.path.insert(0, {str(PROGRAMS)!r})
import driver, report
driver.begin()
beside = driver.allocate({4 * MIB})
driver.must(driver.cuda.cuMemFree_v2(driver.Pointer(beside)), "cuMemFree")
pieces = [driver.allocate({2 * MIB}) for _ in range({PIECES})]

def step():
    for piece in pieces:
        driver.must(driver.fill(piece, 1, {2 * MIB}), "cuMemsetD8")

report.report([1.0], report.run_steps(step, driver.cuda.cuCtxSynchronize, 2, 4))
"""


def test_it_tells_what_it_took_and_what_was_held(run_emulated: RunEmulated) -> None:
    env = {
        "ULMS_BACKEND": "vmm",
        "ULMS_GPU_MEMORY": f"{PIECES}MiB",
        "ULMS_GPU_MEMORY_FACTOR": "100",
    }
    env |= {"REPORT_COUNTERS": "held_ns,evicted_bytes"}
    done = run_emulated([sys.executable, "-c", PROGRAM], env)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.removeprefix("REPORT "))
    assert told["charged"] == PIECES * 2 * MIB  # not what it gave back before
    assert told["counters"]["evicted_bytes"] > 0
    held = sum(ns for ns, _ in told["held"].values())
    assert "cuMemsetD8_v2" in told["held"]
    assert held == told["counters"]["held_ns"]
