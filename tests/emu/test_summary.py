"""What is said of a program: one line if memory was short; at INFO a line at the start, and at the
end what could not be matched.
"""

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pump import binding
from tests.conftest import Compile, RunEmulated
from tests.emu.small_program import DRIVER

pytestmark = pytest.mark.emu

Said = Callable[[Mapping[str, str]], list[str]]

LIMITS = {"ULMS_GPU_MEMORY": "1536MiB", "ULMS_GPU_MEMORY_FACTOR": "70"}
UNMATCHED = "[ulms] INFO:   no known address in "


@pytest.fixture
def said(compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path) -> Said:
    """What a program with launches of either kind makes ulms.so say, line by line."""
    command = [compiled("unmatched", str(emulator_dir / "libcuda.so.1"))]

    def run(env: Mapping[str, str]) -> list[str]:
        done = run_emulated(command, {"ULMS_LOG_LEVEL": "INFO", "EMU_DEVICES": "2", **env})
        assert (done.returncode, done.stdout) == (0, "")
        return done.stderr.splitlines()

    return run


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize(
    ("mode", "budget"),
    [
        ("um", "90 %"),
        ("vmm", "90 %"),
        ("observe", "100 %"),
    ],
)
def test_the_first_line_says_that_it_is_on(
    mode: str, budget: str, limited: bool, said: Said
) -> None:
    """Its version, the mode, the device, and what of its memory there is."""
    memory = f"capacity 8.00 GiB, budget {budget}"
    if limited:
        budget = "70 %" if mode != "observe" else budget
        memory = f"capacity 1.50 GiB (limit), budget {budget}"
    lines = said({"ULMS_BACKEND": mode, **(LIMITS if limited else {})})
    assert lines[0] == (
        f"[ulms] INFO: ulms {binding.version()} on: backend {mode}, "
        f"device Emulated GPU (2 in all), {memory}"
    )
    assert sum("on: backend" in line for line in lines) == 1


def test_what_is_off_says_nothing(said: Said) -> None:
    assert said({"ULMS_BACKEND": "off"}) == []


@pytest.mark.parametrize("mode", ["um", "vmm", "observe"])
def test_every_failing_match_is_listed_by_function(mode: str, said: Said) -> None:
    lines = [line for line in said({"ULMS_BACKEND": mode}) if line.startswith(UNMATCHED)]
    assert sorted(line.removeprefix(UNMATCHED) for line in lines) == [
        "1 of 3 launches of fill",
        "2 of 2 launches of spin",
    ]


SWEPT = """
starts = [allocated(64 * MIB) for _ in range(18)]
for _ in range(3):
    for start in starts:
        fill(start, 1, 64 * MIB)
"""


def test_a_program_whose_memory_was_short_learns_it_from_one_line(
    run_emulated: RunEmulated, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(DRIVER + SWEPT, encoding="utf-8")
    done = run_emulated(
        [sys.executable, program], {"ULMS_BACKEND": "um", "ULMS_GPU_MEMORY": "512MiB"}
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(
        r"\[ulms\] WARN: memory was short: 1\.12 GiB were allocated at most on device 0, which has"
        r" 0\.50; [\d.]+ came in, [\d.]+ went out, operations were held [\d.]+ s; `--backend vmm`"
        r" may be faster \(README: Which backend\)\n",
        done.stderr,
    )
