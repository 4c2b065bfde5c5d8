"""What benches tell beside pytest-benchmark's table: lines below it."""

from collections.abc import Callable

import pytest

LINES = pytest.StashKey[list[str]]()


@pytest.fixture
def tell(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Takes a line for the end of the report."""
    return pytestconfig.stash.setdefault(LINES, []).append


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for line in config.stash.get(LINES, []):
        terminalreporter.write_line(line)
