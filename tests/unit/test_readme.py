"""The tables of README.md and docs/ are what their commands print."""

import re
import subprocess
from pathlib import Path

import pytest

from bench import pages
from tests.conftest import ROOT

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("path", pages.pages(), ids=lambda path: path.name)
def test_a_page_has_what_its_commands_print(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    assert page == pages.filled(page), f"python -m bench.pages {path.relative_to(ROOT)}"


def test_what_is_between_the_marks_is_replaced() -> None:
    page = "a\n<!-- printed by `pump --version` -->\nold\n<!-- end -->\nb\n"
    new = pages.filled(page)
    assert new.startswith("a\n<!-- printed by `pump --version` -->\npump ")
    assert new.endswith("\n<!-- end -->\nb\n")
    slow = page.replace("printed by", "printed slowly by")
    assert pages.filled(slow) == slow


def test_a_command_that_fails_fills_nothing() -> None:
    page = "<!-- printed by `pump-bench table none.json` -->\n\n<!-- end -->\n"
    with pytest.raises(subprocess.CalledProcessError):
        pages.filled(page)


def test_every_result_file_is_cited() -> None:
    """By a page, by code or by a test; what nobody cites goes."""
    texts = [
        path.read_text(encoding="utf-8")
        for folder in ("docs", "pump", "bench", "csrc", "emulator", "tests", "lab")
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix in (".md", ".py", ".c", ".h") and path.parent.name != "results"
    ]
    texts.append((ROOT / "README.md").read_text(encoding="utf-8"))
    cited = "\n".join(texts)
    results = [path.name for path in (ROOT / "bench" / "results").glob("*.json")]
    assert [name for name in results if name not in cited] == []


MOST_WORDS = 25_000


def test_what_there_is_to_read_is_bounded() -> None:
    """All documents together, and the plan of the house."""
    words = [
        len(path.read_text(encoding="utf-8").split())
        for path in ROOT.rglob("*.md")
        if not re.search(r"(^|/)(\.|build/)", path.relative_to(ROOT).as_posix())
    ]
    assert len(words) > 40
    assert sum(words) <= MOST_WORDS
    plan = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert len(plan.splitlines()) <= 250
