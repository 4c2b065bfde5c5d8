"""The manual page of `pump`: it is what the parser says, and `man` shows it."""

import os
import re
import shutil
import subprocess

import pytest

from pump.cli import program
from tests.conftest import PATIENCE_S, ROOT
from tests.unit.test_snapshots import as_of_3_11, parsers

pytestmark = pytest.mark.unit

PAGE = ROOT / "docs" / "pump.1"


@as_of_3_11
def test_the_page_is_what_the_parser_says() -> None:
    pytest.importorskip("argparse_manpage")
    from bench import manual

    assert PAGE.read_text(encoding="utf-8") == manual.page(), "python -m bench.manual >docs/pump.1"


def is_man_db() -> bool:
    """Other kinds of `man`, and the placeholder in small images, do not take its options."""
    if not shutil.which("man"):
        return False
    words = ["man", "--version"]
    said = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    return bool(re.match(r"man \d", said.stdout))


@pytest.mark.skipif(not is_man_db(), reason="without man-db")
def test_man_shows_every_command_and_option() -> None:
    """And warns of nothing."""
    shown = subprocess.run(
        ["man", "--warnings=w", "-l", str(PAGE)],
        env=os.environ | {"MANWIDTH": "400", "LC_ALL": "C", "MAN_KEEP_FORMATTING": ""},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert shown.stderr == ""
    lines = [line.strip() for line in shown.stdout.splitlines()]
    for words, parser in parsers(program().parser()):
        assert not words or " ".join(["pump", *words]) in lines
        options = {*parser._option_string_actions} - {"-h", "--help"}
        assert [o for o in options if not any(o in line for line in lines)] == []
    assert "EXIT STATUS" in lines
