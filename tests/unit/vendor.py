"""What the audits share: where the vendor's headers are, and what the C compiler says of ours."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest


def folders(variable: str, header: str, usual: Iterable[Path]) -> list[Path]:
    """Every one that holds the header, once each: those that the variable names, and the usual."""
    named = [Path(word) for word in os.environ.get(variable, "").split(":") if word]
    found = [path.resolve() for path in [*named, *usual] if (path / header).is_file()]
    return list(dict.fromkeys(found))


def includes(
    variable: str, header: str, usual: Iterable[Path], version: Callable[[Path], object]
) -> Any:
    """A fixture of that name: each of these folders, or a test that is skipped."""
    reason = f"no {header} of the vendor's here: name its directory in {variable}"
    found = [pytest.param(path, id=str(version(path))) for path in folders(variable, header, usual)]
    none = pytest.param(None, id="none", marks=pytest.mark.skip(reason=reason))

    @pytest.fixture(name="include", params=found or [none])
    def include(request: pytest.FixtureRequest) -> Path:
        path = request.param
        assert isinstance(path, Path)
        return path

    return include


def compiler(*options: str) -> list[str]:
    """The C compiler's command."""
    path = shutil.which("cc") or shutil.which("gcc")
    assert path, "a C compiler builds everything here"
    return [path, "-std=gnu11", "-w", *options]


def bad_lines(
    command: Sequence[str], source: str, lines: Sequence[str], path: Path
) -> dict[int, str]:
    """Which of the lines do not compile behind `source`: index and the compiler's first words."""
    path.write_text(source + "#line 1\n" + "\n".join(lines) + "\n", encoding="utf-8")
    command = [*command, "-fsyntax-only", "-fmax-errors=0", str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    errors: dict[int, str] = {}
    for line, text in re.findall(
        rf"^{re.escape(str(path))}:(\d+):\d+: error: (.*)", ran.stderr, re.M
    ):
        errors.setdefault(int(line) - 1, text)
    assert ran.returncode == 0 or errors, ran.stderr
    return errors
