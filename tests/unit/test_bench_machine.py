"""Which commit a result was made at."""

import subprocess
from pathlib import Path

import pytest

from pump.bench import machine

pytestmark = pytest.mark.unit

IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@example.org")


def git(root: Path, *words: str) -> str:
    command = ["git", "-C", str(root), *IDENTITY, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one file, where machine looks for the checkout."""
    git(tmp_path, "init", "-q")
    (tmp_path / "file").write_text("one")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-q", "-m", "one")
    monkeypatch.setattr(machine, "checkout", lambda: tmp_path)
    monkeypatch.delenv("PUMP_COMMIT", raising=False)
    return tmp_path


def test_a_tree_that_differs_says_so(checkout: Path) -> None:
    commit = git(checkout, "rev-parse", "HEAD")
    (checkout / "new").write_text("not in the repository")
    assert machine.describe()["commit"] == commit
    (checkout / "file").write_text("two")
    assert machine.describe()["commit"] == commit + "+"


def test_what_is_told_comes_first(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUMP_COMMIT", "abc")
    assert machine.describe()["commit"] == "abc"


def test_without_a_repository_it_is_unknown(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PUMP_COMMIT", raising=False)
    for nowhere in (None, tmp_path_factory.mktemp("empty")):
        monkeypatch.setattr(machine, "checkout", lambda nowhere=nowhere: nowhere)
        assert machine.describe()["commit"] == "unknown"
