"""What the commands that measure have in common: options, the file they write, how they end."""

import argparse
import json
import signal
import sys
from collections.abc import Mapping
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


def write(path: Path | None, result: Mapping[str, object]) -> None:
    """The file that was asked for, if one was."""
    if path:
        path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def end_with_children() -> None:
    """A time limit ends a process by SIGTERM: as at any other end, its children go with it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
