"""Programs on a real GPU that must do under every backend what they do alone, and as soon."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.gpu import programs
from pump.paths import library

pytestmark = pytest.mark.gpu

PROGRAMS = Path(__file__).parent / "programs"
BACKENDS = ["observe", "um", "vmm"]
MOVING = ["um", "vmm"]
ANSWERS = ["overruns", "alias", "swap", "advice"]
PATIENCE_S = 60


def environment(backend: str | None, memory: str) -> dict[str, str]:
    if backend is None:
        return dict(os.environ)
    moves = {"ULMS_GPU_MEMORY": memory} if backend != "observe" else {}
    ours = {"LD_PRELOAD": str(library()), "ULMS_BACKEND": backend, "ULMS_MANAGED_LIMIT": "2GiB"}
    return {**os.environ, **ours, **moves}


def run(words: list[str], backend: str | None, memory: str = "64MiB") -> tuple[str, float]:
    """What it printed, and how many seconds it took."""
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / words[0]), *words[1:]],
        env=environment(backend, memory),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout, time.monotonic() - start


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_driver_answers_alike(name: str, backend: str) -> None:
    native, _ = run(["answers.py", name], None)
    under, _ = run(["answers.py", name], backend)
    assert under == native


@pytest.mark.parametrize("what", ["alloc", "launch"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_gate_of_the_program_s_own_keeps_no_call_longer(what: str, backend: str) -> None:
    """The gate opens after four seconds, for which the driver's own cuMemAlloc waits."""
    native = json.loads(run(["gates.py", what], None)[0])
    under = json.loads(run(["gates.py", what], backend)[0])
    assert native["right"]
    assert under["right"]
    assert under["seconds"] < max(1.5 * native["seconds"], native["seconds"] + 0.5), (native, under)


def test_the_driver_s_prefetch_waits_for_a_copy_behind_a_gate() -> None:
    """The emulator holds that lock, too (emulator/README.md, "Locks"): so movers prefetch."""
    said = json.loads(run(["gates.py", "prefetch"], None)[0])
    assert not said["closed"], said


@pytest.mark.parametrize("backend", MOVING)
def test_a_program_bound_to_one_core_is_as_fast(backend: str) -> None:
    """Threads of ours do not share its core. Over budget, so that they have work to do."""
    free, one = (
        sorted(json.loads(run(["memsets.py", "16", "12", cores], backend, "384MiB")[0])["step_ms"])
        for cores in ("0", "1")
    )
    assert one[6] < 2 * free[6] + 5, (free, one)


@pytest.mark.parametrize("backend", BACKENDS)
def test_exit_in_a_signal_s_handler_ends_the_program(backend: str) -> None:
    random.seed(1)
    took = []
    for _ in range(8):
        child = subprocess.Popen(
            [sys.executable, str(PROGRAMS / "memsets.py"), "48", "endless"],
            env=environment(backend, "512MiB"),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert child.stdout
        assert child.stdout.readline() == "ready\n"
        time.sleep(random.random() * 0.4 + 0.2)
        start = time.monotonic()
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        took.append(time.monotonic() - start)
    assert max(took) < 5, took


def test_expandable_segments_move(tmp_path: Path) -> None:
    """PyTorch's own text on running out of memory tells users to set them."""
    more = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    native = programs.run(
        "resnet", tmp_path, observe=False, count=False, warm=2, timed=4, more=more
    )
    under = programs.run(
        "resnet",
        tmp_path,
        observe=False,
        count=False,
        warm=2,
        timed=4,
        more={
            **more,
            **environment("vmm", "3200MiB"),
            "ULMS_MANAGED_LIMIT": "8GiB",  # vmm takes none of it, but keeps to it
            "REPORT_COUNTERS": "filled_bytes,evicted_bytes",
        },
    )
    assert (native.status, under.status) == (0, 0), under.stderr
    assert programs.numbers_equal([native, under]), (native.numbers, under.numbers)
    moved = under.facts["counters"]
    assert isinstance(moved, dict)
    assert all(moved.values()), moved


@pytest.mark.parametrize("backend", MOVING)
def test_a_budget_changes_under_a_program(backend: str) -> None:
    said = json.loads(run(["refit.py"], backend, "2GiB")[0])
    assert said["right"], said
    assert said["leaves_s"] < 0.5, said
    assert said["rests_s"] < 5, said
    assert said["meanwhile_ms"] > 2 * said["before_ms"], said
    assert said["after_ms"] < 1.2 * said["before_ms"] + 0.2, said
