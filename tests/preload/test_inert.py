"""Programs that are not CUDA programs, or have no driver, do not notice ulms.so."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import PATIENCE_S, Compile

pytestmark = pytest.mark.emu

PYTHON_SUBPROCESS = """
import subprocess, sys, threading
out = subprocess.run(["sh", "-c", "echo in a shell; exit 3"], capture_output=True, text=True)
print(out.stdout, out.returncode, threading.active_count())
print(open("/proc/self/status").read().split("Threads:")[1].split()[0])
"""

COMMANDS: dict[str, list[str]] = {
    "true": ["/bin/true"],
    "false": ["/bin/false"],
    "bash": [
        "bash",
        "-c",
        "echo $BASHPID >/dev/null; echo out; echo err >&2; (exit 5); echo $?; exit 7",
    ],
    "pipeline": ["sh", "-c", "seq 1000 | sort -r | head -3"],
    "python-subprocess": [sys.executable, "-c", PYTHON_SUBPROCESS],
    "threads": ["sh", "-c", "grep Threads /proc/self/status"],
    "open-files": ["sh", "-c", "ls /proc/self/fd | wc -l"],
    "killed": ["sh", "-c", "kill -9 $$"],
}


def environment(ulms_so: Path | None, **env: str) -> dict[str, str]:
    settings = {k: v for k, v in os.environ.items() if not k.startswith(("ULMS_", "LD_"))} | env
    return settings | ({"LD_PRELOAD": str(ulms_so)} if ulms_so else {})


def run(command: Sequence[str], ulms_so: Path | None, **env: str) -> tuple[int, str, str]:
    settings = environment(ulms_so, **env)
    done = subprocess.run(
        command, env=settings, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_same_output_status_threads(name: str, ulms_so: Path) -> None:
    command = COMMANDS[name]
    loud = {"ULMS_LOG_LEVEL": "DEBUG", "ULMS_STATS": "on", "ULMS_GPU_MEMORY": "1GiB"}
    assert run(command, ulms_so, **loud) == run(command, None)


def test_leaves_no_file_behind(ulms_so: Path, tmp_path: Path) -> None:
    trace, counters = tmp_path / "trace", Path("/dev/shm")
    settings = environment(ulms_so, ULMS_TRACE=str(trace), ULMS_STATS="on")
    before = set(counters.iterdir())
    pipe = subprocess.PIPE
    with subprocess.Popen(["/bin/true"], env=settings, stdout=pipe, stderr=pipe) as program:
        assert program.communicate(timeout=PATIENCE_S) == (b"", b"")
    assert program.returncode == 0
    assert not trace.exists()
    # Other programs on this machine come and go there, too.
    assert not set(counters.glob(f"ulms-{program.pid}-*")) - before


def test_bad_options_are_not_read_without_cuda(ulms_so: Path) -> None:
    assert run(["/bin/true"], ulms_so, ULMS_BACKEND="nonsense") == (0, "", "")


def needed(library: Path) -> set[str]:
    listing = subprocess.run(
        ["readelf", "-dW", library], capture_output=True, text=True, check=True
    )
    return {
        line.split("[")[1].rstrip("]") for line in listing.stdout.splitlines() if "(NEEDED)" in line
    }


def test_needs_only_the_c_library(ulms_so: Path) -> None:
    assert needed(ulms_so) <= {"libc.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"}


def test_probing_for_a_driver_that_is_not_there(compiled: Compile, ulms_so: Path) -> None:
    probe = [str(compiled("probe"))]
    plain = run(probe, None)
    assert "default 0 next 0 self 0 unknown 0" in plain[1]
    assert run(probe, ulms_so) == plain


@pytest.mark.parametrize("ours_first", [True, False])
def test_other_interposers_still_find_the_next(
    compiled: Compile, ulms_so: Path, ours_first: bool
) -> None:
    other = compiled("next", shared=True)
    order = [ulms_so, other] if ours_first else [other, ulms_so]
    preload = ":".join(str(path) for path in order)
    assert run([str(compiled("call_next"))], None, LD_PRELOAD=preload) == (0, "1 1\n", "")
