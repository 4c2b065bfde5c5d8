"""A program to be run: will LD_PRELOAD reach it?"""

import platform
import shutil
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

from pump.doctor.finding import Finding, note, ok, problem
from pump.regular import read_regular

# Of the ELF header: machine at 18; program headers' offset at 32, size at 54, count at 56.
ELF_HEADER_BYTES = 64
PROGRAM_INTERPRETER = 3  # PT_INTERP: the dynamic loader that a program asks for
MACHINES = {62: "x86_64", 183: "aarch64"}


def findings(command: str) -> Iterator[Finding]:
    """What there is to say about a program, by path or by name on PATH."""
    found = shutil.which(command)
    if found is None:
        yield problem(command, "not found, or not executable", "check the name and PATH")
        return
    path = Path(found)
    if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
        yield problem(command, "runs with another user's rights: LD_PRELOAD is ignored", "copy it")
    try:
        content = read_regular(path)
    except OSError as error:
        yield note(command, f"cannot be read: {error.strerror}")
        return
    if content[:2] == b"#!":
        line = content[2:].split(b"\n", 1)[0].decode(errors="replace").strip()
        if not line:
            yield problem(command, "its first line names no interpreter", "write it: #!/bin/sh")
            return
        yield note(
            command, f"a script for {line}", f"ask about that: pump doctor {line.split()[0]}"
        )
    elif content[:4] != b"\x7fELF" or len(content) < ELF_HEADER_BYTES:
        yield problem(command, "not a program this system runs", "check the file")
    else:
        yield elf_finding(command, content)


def elf_finding(command: str, content: bytes) -> Finding:
    """What an ELF program's headers tell."""
    (number,) = struct.unpack_from("<H", content, 18)
    machine = MACHINES.get(number, f"machine {number}")
    if content[4] != 2 or machine != platform.machine():
        bits = 64 if content[4] == 2 else 32
        text = f"for {machine}, {bits} bits; ulms.so is for {platform.machine()}"
        return problem(command, text, "run a build for this machine")
    (table,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    for index in range(count):
        (kind,) = struct.unpack_from("<I", content, table + index * size)
        if kind == PROGRAM_INTERPRETER:
            return ok(command, "dynamically linked: ulms.so reaches it")
    return problem(command, "statically linked: LD_PRELOAD has no effect", "link it dynamically")
