"""What unit tests share."""

from types import SimpleNamespace

import pytest


@pytest.fixture(autouse=True)
def one_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are played in pytest's own processes, which are as many as there are processors: others
    would only read everything anew. Tests that want more say so.
    """
    alone = SimpleNamespace(sched_getaffinity=lambda process: {0})
    monkeypatch.setattr("pump.bench.processes.os", alone)
