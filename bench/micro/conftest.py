"""What benches tell beside pytest-benchmark's table: lines below it, and in a file if asked."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pump.bench import machine

LINES = pytest.StashKey[list[str]]()


@pytest.fixture
def tell(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Takes a line for the end of the report."""
    return pytestconfig.stash.setdefault(LINES, []).append


def pytest_addoption(parser: pytest.Parser) -> None:
    told = "write what benches tell, and the machine, into this file"
    parser.addoption("--told", type=Path, metavar="FILE", help=told)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for line in config.stash.get(LINES, []):
        terminalreporter.write_line(line)
    path: Path | None = config.getoption("--told")
    if path:
        kept = {"machine": machine.describe(), "told": config.stash.get(LINES, [])}
        path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
