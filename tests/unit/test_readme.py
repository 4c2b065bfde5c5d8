"""What the README says systems reach is what docs/bench.md has, to the millisecond.

`pump-bench` prints the table there, in a minute and more, so that no test can.
"""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
STEPS = {
    "ResNet-50 training": "resnet50",
    "GPT-2 medium training": "gpt2-medium",
    "8B decoding, a token": "decode-8b",
}
COLUMNS = ("native", "um-demand", "um-pump", "um", "vmm", "bound")
OVER = "2"


def cells(line: str) -> list[str]:
    """Of a row of a table."""
    return [cell.strip() for cell in line.strip("|").split("|")]


def table_behind(text: str, heading: str) -> list[list[str]]:
    """The rows of the first table behind it, without the lines below its head."""
    behind = text[text.index(heading) :]
    found = re.search(r"(?:^\|.*\n)+", behind, flags=re.MULTILINE)
    assert found
    head, _, *rows = found[0].splitlines()
    return [cells(line) for line in (head, *rows)]


def test_what_the_readme_says_is_what_the_bench_printed() -> None:
    printed = (ROOT / "docs" / "bench.md").read_text(encoding="utf-8")
    head, *rows = table_behind(printed, "## What comes out")
    reached: dict[str, list[str]] = {}
    step = ""
    for row in rows:
        step = row[0] or step
        if row[head.index("over")] == OVER:
            reached[step] = [row[head.index(name)] for name in COLUMNS]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    _, *said = table_behind(readme, "## What it reaches")
    assert {row[0]: row[2:] for row in said} == {
        name: [str(round(float(ms))) for ms in reached[step]] for name, step in STEPS.items()
    }
