"""The programs of `examples/` on a GPU."""

import os
import re
from pathlib import Path

import pytest

from tests.conftest import clean_environment
from tests.examples import PUMP, Place, expected, losses_in

pytestmark = pytest.mark.gpu


@pytest.fixture
def gpu(tmp_path: Path) -> Place:
    """This machine's."""
    kept = {"LD_LIBRARY_PATH", "ULMS_MANAGED_LIMIT"} & set(os.environ)
    env = clean_environment() | {name: os.environ[name] for name in kept}
    return Place(tmp_path, env | {"ULMS_SHARE_DIR": str(tmp_path)})


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_more_than_the_budget_is_filled(gpu: Place, backend: str) -> None:
    gpu.check_larger("512MiB", backend, 128)


def test_a_training_tells_the_same_losses_in_half_of_its_memory(gpu: Place) -> None:
    gpu.check_losses("512MiB", 64)


def test_a_training_is_planned(gpu: Place) -> None:
    lines = gpu.python("plan").splitlines()
    times = [re.fullmatch(r"\d+% of \d+ MiB: ([\d.]+) times .*m", line) for line in lines]
    assert [float(match[1]) >= 1 for match in times if match] == [True, True], lines


def test_two_trainings_share_it(gpu: Place) -> None:
    lines = gpu.python("share").splitlines()
    gpu.run(*PUMP, "share", "stop")
    ends = [float(loss) for line in lines for loss in losses_in(line)]
    assert ends == pytest.approx(expected(8, 20)[-1:] * 2, rel=1e-4)


def test_one_puts_itself_away_and_comes_back(gpu: Place) -> None:
    gpu.check_away()
