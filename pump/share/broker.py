"""The broker: where it is, whether it runs, what it says. One serves a folder."""

import json
import os
import shlex
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from pump._share import ffi
from pump.paths import installed

START_S, ANSWER_S = 5.0, 5.0
ANSWER_BYTES = 1 << 18
_C: Any = ffi.dlopen(None)


class ShareError(RuntimeError):
    """No broker, or none that answers; the text says what to do."""


def folder() -> Path:
    """Where programs of this user meet, as `share/address.c` says it."""
    if named := os.environ.get("ULMS_SHARE_DIR"):
        return Path(named)
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(runtime) / "ulms"
    return Path(f"/tmp/ulms-{os.getuid()}")


def serves(at: Path) -> bool:
    """Whether a broker answers there."""
    try:
        _connect(at).close()
    except ShareError:
        return False
    return True


def start(at: Path, idle_s: float = 0) -> bool:
    """Starts a broker, which ends when nobody was connected for `idle_s` seconds (0: never).

    False: one served the folder already. Raises ShareError.
    """
    if serves(at):
        return False
    words = [str(installed("ulms-broker")), "--dir", str(at), "--idle", f"{idle_s:g}"]
    quiet = subprocess.DEVNULL
    running = subprocess.Popen(
        words, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
    )
    end = time.monotonic() + START_S
    while not serves(at):
        if running.poll() or time.monotonic() > end:
            raise ShareError(f"the broker did not start: `{shlex.join(words)}` says why")
        time.sleep(0.01)
    return True


def status(at: Path) -> dict[str, Any]:
    """What is so now, as `broker/status.c` writes it. Raises ShareError."""
    with _connect(at) as asks:
        asks.send(_message(_C.SHARE_STATUS))
        try:
            found: dict[str, Any] = json.loads(asks.recv(ANSWER_BYTES))
        except (OSError, ValueError) as error:
            raise ShareError(f"the broker of {at} does not answer") from error
    return found


def stop(at: Path) -> None:
    """Ends the broker; programs run on with what they have. Raises ShareError."""
    with _connect(at) as asks:
        asks.send(_message(_C.SHARE_STOP))
        asks.recv(1)


def _connect(at: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.settimeout(ANSWER_S)
    try:
        made.connect(str(at / "broker.sock"))
    except OSError as error:
        made.close()
        raise ShareError(f"no broker serves {at}: `pump share start` starts one") from error
    return made


def _message(kind: int) -> bytes:
    """One that is nothing but its kind."""
    whole = ffi.new("struct share_message *", {"kind": kind, "version": _C.SHARE_VERSION})
    size = ffi.offsetof("struct share_message", "nothing") + ffi.sizeof("struct share_nothing")
    return bytes(ffi.buffer(whole, size))
