"""Tenants of the broker for tests: they speak its protocol, well or badly, and hold no memory."""

import mmap
import os
import runpy
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cffi import FFI

from pump.share.broker import serves
from tests.conftest import PATIENCE_S

ROOT = Path(__file__).parents[1]
HEADERS = ("broker/policy.h", "share/message.h", "share/page.h")
GIB = 1 << 30
GPU = b"a gpu's own uuid"

ffi = FFI()
built = runpy.run_path(
    str(ROOT / "pump/_build_ulms.py")
)  # no part of the package that is installed
for header in HEADERS:
    ffi.cdef(built["declarations"]((ROOT / header).read_text(encoding="utf-8")))
constants: Any = ffi.dlopen(None)


def message(kind: str, **fields: object) -> bytes:
    """One of a kind: `HELLO` with the fields of share_hello, and so on."""
    part = kind.lower()
    whole = ffi.new("struct share_message *")
    whole.kind = getattr(constants, f"SHARE_{kind}")
    whole.version = constants.SHARE_VERSION
    for name, value in fields.items():
        to: Any = getattr(whole, part, None)
        setattr(to if hasattr(to, name) else to.policy, name, value)
    head = ffi.offsetof("struct share_message", "hello")
    member = dict(ffi.typeof("struct share_message").fields).get(part)
    size = ffi.sizeof(member.type if member else "struct share_nothing")
    return bytes(ffi.buffer(whole, head + size))


class RefusedError(Exception):
    """With the broker's reason."""


class Tenant:
    """One that has joined."""

    def __init__(self, folder: Path, group: str = "g", gpu: bytes = GPU, **fields: object) -> None:
        self.socket = connect(folder)
        hello = {"capacity": 16 * GIB, "rate": 50 * 10**9, "group": group.encode(), "gpu": gpu}
        self.socket.send(message("HELLO", **(hello | fields)))
        answer, files, _, _ = socket.recv_fds(self.socket, 4096, 1)
        got = ffi.from_buffer("struct share_message *", answer.ljust(4096, b"\0"))
        if got.kind == constants.SHARE_REFUSED:
            raise RefusedError(ffi.string(got.refused.why).decode())
        self.page = mmap.mmap(files[0], constants.SHARE_PAGE_BYTES, prot=mmap.PROT_READ)
        self.file = files[0]
        self.view = ffi.from_buffer("struct share_page *", self.page)

    def lease(self) -> Any:
        """The latest; waits for the first."""
        while self.view.lease.serial == 0 or self.view.sequence % 2:
            pass
        return self.view.lease

    def says(self, kind: str, **fields: object) -> None:
        """Sends a message of that kind."""
        self.socket.send(message(kind, **fields))

    def acknowledges(self) -> bool:
        """Says that it holds what it may."""
        lease = self.lease()
        self.says("ACKNOWLEDGE", serial=lease.serial, held=lease.budget)
        return True

    def ends(self) -> None:
        """As by a kill: its socket closes."""
        self.socket.close()
        os.close(self.file)


def connect(folder: Path) -> socket.socket:
    """A connection that has said nothing."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.settimeout(5)
    made.connect(str(folder / "broker.sock"))
    return made


def wait_until_it_serves(running: subprocess.Popen[Any], folder: Path) -> None:
    """The broker of the folder; or until it has ended."""
    end = time.monotonic() + PATIENCE_S
    while not serves(folder) and running.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.001)


@contextmanager
def broker(
    program: Path | Sequence[str], folder: Path, *words: str
) -> Iterator[subprocess.Popen[str]]:
    """One that serves the folder until the block ends."""
    command = [str(program)] if isinstance(program, Path) else [*program]
    with subprocess.Popen(
        [*command, "--dir", folder, *words], stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            wait_until_it_serves(running, folder)
            yield running
        finally:
            running.kill()
