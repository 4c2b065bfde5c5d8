"""What unit tests share."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from pump.predict import plan
from pump.share import broker
from tests.unit.bench_machine import GIB, Machine

FEW_FACTORS = (100, 90, 50)
FEW_SHARES = (0.6, 1.0, 1.1)


@pytest.fixture(autouse=True)
def one_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are played in pytest's own processes, which are as many as there are processors: others
    would only read everything anew. Tests that want more say so.
    """
    alone = SimpleNamespace(sched_getaffinity=lambda process: {0})
    monkeypatch.setattr("pump.predict.processes.os", alone)


def play_few(patch: pytest.MonkeyPatch) -> None:
    """Of budgets `pump plan` plays only as many as tell."""
    patch.setattr(plan, "FACTORS", FEW_FACTORS)
    patch.setattr(plan, "SHARES", FEW_SHARES)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same."""
    play_few(monkeypatch)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(6 * GIB)
    monkeypatch.setenv("ULMS_MANAGED_LIMIT", "8GiB")
    monkeypatch.setattr("pump.bench.machine.has_gpu", lambda: True)
    monkeypatch.setattr("bench.gpu.run.subprocess.run", made.run)
    monkeypatch.setattr("bench.gpu.run.find_spec", lambda name: name)
    return made


@pytest.fixture(name="folder")
def a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where programs meet, and no broker is left behind."""
    monkeypatch.setenv("ULMS_SHARE_DIR", str(tmp_path / "share"))
    yield tmp_path / "share"
    if broker.serves(tmp_path / "share"):
        broker.stop(tmp_path / "share")
