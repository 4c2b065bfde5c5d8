"""The programs of `examples/` on the emulated device."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import clean_environment
from tests.examples import FOLDER, PUMP, Place, expected, losses_in

pytestmark = pytest.mark.emu

PROGRAMS = ("larger.c", "train.py", "plan.py", "share.py", "away.py")
LINES_BELOW = 40
DEVICE = 96 << 20
"""Of a device that two programs share, which need 128 MiB each."""


@pytest.fixture
def emulated(tmp_path: Path) -> Place:
    """An emulated device, and what is shared there."""
    env = clean_environment() | {"ULMS_MANAGED_LIMIT": "1GiB", "ULMS_PAGE": "2MiB"}
    env |= {"ULMS_SHARE_DIR": str(tmp_path), "EMU_SHARED": str(tmp_path / "device")}
    return Place(tmp_path, env, ("--emulator",))


def test_there_are_five_short_programs_and_the_page_names_each_file() -> None:
    for name in PROGRAMS:
        assert len((FOLDER / name).read_text(encoding="utf-8").splitlines()) < LINES_BELOW, name
    files = {path.name for path in FOLDER.iterdir() if path.is_file()} - {"README.md"}
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([^`]+)`", page, re.M)) == files >= set(PROGRAMS)


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_more_than_the_budget_is_filled(emulated: Place, backend: str) -> None:
    emulated.check_larger("64MiB", backend, 16)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name.endswith(".py")])
def test_the_command_in_the_first_lines_starts_the_program(emulated: Place, name: str) -> None:
    emulated.check_first_lines(name)
    if name in ("share.py", "away.py"):
        emulated.run(*PUMP, "share", "stop")


def test_a_training_tells_the_same_losses_in_half_of_its_memory(emulated: Place) -> None:
    emulated.check_losses("32MiB", 4)


def test_a_training_is_planned(emulated: Place) -> None:
    lines = emulated.python("plan").splitlines()
    times = [re.fullmatch(r"(\d+)% of 128 MiB: ([\d.]+) times .*m", line) for line in lines]
    found = [(match[1], float(match[2]) >= 1) for match in times if match]
    assert found == [("75", True), ("50", True)], lines


def test_two_trainings_share_a_device_too_small_for_one(emulated: Place) -> None:
    small = Place(emulated.folder, {**emulated.env, "EMU_MEMORY": str(DEVICE)}, ("--emulator",))
    lines = small.python("share").splitlines()
    small.run(*PUMP, "share", "stop")
    assert [line.split(":")[0] for line in lines] == ["first,request=0.7", "second"]
    assert [float(loss) for line in lines for loss in losses_in(line)] == pytest.approx(
        expected(8, 20)[-1:] * 2, rel=1e-4
    )


def test_two_trainings_end_as_one_that_fails(emulated: Place) -> None:
    env = {**emulated.env, "ULMS_MANAGED_LIMIT": "2MiB"}
    command = [sys.executable, str(FOLDER / "share.py"), "--emulator"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    emulated.run(*PUMP, "share", "stop")
    assert done.returncode == 1
    assert "cuMemAlloc_v2: error 2" in done.stderr
    assert "Traceback" not in done.stderr


def test_one_puts_itself_away_and_comes_back(emulated: Place) -> None:
    emulated.check_away()
