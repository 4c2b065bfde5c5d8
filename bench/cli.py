"""What the commands that measure have in common: options, the file they write, how they end."""

import argparse
import json
import signal
import sys
from collections.abc import Collection, Mapping
from pathlib import Path


def parser(doc: str | None, *, builds: bool = False) -> argparse.ArgumentParser:
    """Of a command that its module's text describes; with --built if it compiles programs."""
    made = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--json", type=Path, help="write everything there")
    if builds:
        made.add_argument(
            "--built", type=Path, default=Path("build/gpu"), help="where programs are built"
        )
    return made


def backends(made: argparse.ArgumentParser, asked: str, known: Collection[str]) -> list[str]:
    """Those of --backends, separated by commas; the command ends if one is not known."""
    words = asked.split(",")
    if not {*words} <= {*known}:
        made.error(f"--backends: of {', '.join(known)}, separated by commas")
    return words


def named(text: str) -> tuple[str, Path]:
    """`NAME=FILE`. Raises ValueError."""
    name, found, path = text.partition("=")
    if not found:
        raise ValueError(text)
    return name, Path(path)


def write(path: Path | None, result: Mapping[str, object]) -> None:
    """The file that was asked for, if one was."""
    if path:
        path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def end_with_children() -> None:
    """A time limit ends a process by SIGTERM: as at any other end, its children go with it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
