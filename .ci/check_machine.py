"""Says in words what this machine lacks to build PUMP. Runs before anything is installed."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator


def problems() -> Iterator[str]:
    """One line for each thing that is missing, with what to install on Debian or Ubuntu."""
    if sys.version_info < (3, 11):
        found = ".".join(map(str, sys.version_info[:2]))
        yield f"Python 3.11 or newer is needed, this is {found}: make PYTHON=python3.11 ..."
    if not os.environ.get("OFFLINE"):
        try:
            import ensurepip  # noqa: F401
            import venv  # noqa: F401
        except ImportError:
            yield "this Python cannot make virtual environments: apt install python3-venv"
    compiler = os.environ.get("CC", "cc")
    if not shutil.which(compiler):
        yield f"no C compiler ({compiler}): apt install gcc libc6-dev"
    else:
        try_it = subprocess.run(
            [compiler, "-x", "c", "-fsyntax-only", "-"],
            input=b"#include <stdio.h>\n",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        if try_it.returncode != 0:
            yield "the C compiler finds no C library headers: apt install libc6-dev"
    if os.environ.get("OFFLINE"):
        for tool in ("cmake", "ninja"):
            if not shutil.which(tool):
                yield f"{tool} is needed: put it on PATH or its wheel into WHEELS"


def main() -> int:
    """Prints the problems; exit status 1 when there is one."""
    found = list(problems())
    for line in found:
        print("make: " + line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
