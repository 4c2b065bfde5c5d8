"""Callgrind: how a program runs under it, and what it counted."""

import re
import subprocess
from pathlib import Path


def tool(counts: Path, *options: str) -> list[str]:
    """What stands before a program's command so that its counts go to a file."""
    return ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={counts}", *options]


def instructions_in(counts: Path, name: str) -> int:
    """Of one object, library or program: what it calls in others left out."""
    names: dict[str, str] = {}
    total, here, called = 0, False, False
    for line in counts.read_text().splitlines():
        if named := re.match(r"(c?)ob=(\(\d+\))(?: (.+))?$", line):
            callee, number, path = named.groups()
            names[number] = path or names[number]  # told where it stands first, callee or not
            here = here if callee else Path(names[number]).name == name
        elif line.startswith("calls="):
            called = True
        elif re.fullmatch(r"[+*-]?\d* \d+", line):
            total += int(line.split()[1]) if here and not called else 0
            called = False
    return total


def inclusive(counts: Path, event: str = "Ir") -> dict[str, int]:
    """Of each function, what it calls included."""
    show = ["--threshold=100", "--inclusive=yes", f"--show={event}", f"--sort={event}"]
    listing = subprocess.run(
        ["callgrind_annotate", *show, counts], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    found = re.findall(r"^ *([\d,]+) \([^)]*\) +\S*:(\w+) \[", listing, re.MULTILINE)
    return {function: int(number.replace(",", "")) for number, function in found}
