"""Puts what commands print between the marks of README.md and docs/.

A mark is `<!-- printed by `COMMAND` -->`, and `<!-- end -->` ends it. `python -m bench.pages`
writes the pages anew; `--check` writes nothing and names those that differ. A mark with `slowly`
before `by` takes minutes: it is skipped unless --slow asks for it.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MARK = re.compile(
    r"(<!-- printed (slowly )?by `([^`]*)` -->\n)(.*?)(\n<!-- end -->)", flags=re.DOTALL
)
MODULES = {"pump": ["-m", "pump"], "pump-bench": ["-m", "pump.bench"], "python": []}


def printed(command: str) -> str:
    """What a command of this repository prints. Raises CalledProcessError."""
    name, *words = shlex.split(command)
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-P", *MODULES[name], *words],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def filled(page: str, slow: bool = False) -> str:
    """A page with what its commands print now."""

    def section(mark: re.Match[str]) -> str:
        told = mark[4] if mark[2] and not slow else printed(mark[3])
        return f"{mark[1]}{told}{mark[5]}"

    return MARK.sub(section, page)


def pages() -> list[Path]:
    """Those that have marks."""
    every = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [path for path in every if MARK.search(path.read_text(encoding="utf-8"))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("pages", nargs="*", type=Path, help="(default: all that have marks)")
    parser.add_argument("--check", action="store_true", help="write nothing, name what differs")
    parser.add_argument("--slow", action="store_true", help="also what takes minutes")
    options = parser.parse_args()
    stale = []
    for path in options.pages or pages():
        before = path.read_text(encoding="utf-8")
        if (after := filled(before, options.slow)) == before:
            continue
        stale.append(path)
        if not options.check:
            path.write_text(after, encoding="utf-8")
    for path in stale:
        print(path)
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
