"""The broker: where it is, whether it runs, what it says. One serves a folder."""

import fcntl
import json
import os
import shlex
import socket
import struct
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from pump._share import ffi
from pump.paths import installed

START_S, ANSWER_S = 5.0, 5.0
PROGRAM_IDLE_S = 10.0
"""A broker that was started for programs ends so long after the last one."""
HIGH = 200
"""Programs close low descriptors."""
ANSWER_BYTES = 1 << 18
_C: Any = ffi.dlopen(None)


class ShareError(RuntimeError):
    """No broker, or none that answers; the text says what to do."""


def folder() -> Path:
    """Where programs of this user meet, as `share/address.c` says it."""
    if named := os.environ.get("ULMS_SHARE_DIR"):
        return Path(named).absolute()
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(runtime).absolute() / "ulms"
    return Path(f"/tmp/ulms-{os.getuid()}")


def serves(at: Path) -> bool:
    """Whether a broker answers there."""
    try:
        _connect(at).close()
    except ShareError:
        return False
    return True


def start(at: Path, idle_s: float = 0, config: Path | None = None) -> bool:
    """Starts a broker, which ends when nobody was connected for `idle_s` seconds (0: never).

    False: one served the folder already. Raises ShareError.
    """
    if serves(at):
        return False
    words = [str(installed("ulms-broker")), "--dir", str(at), "--idle", f"{idle_s:g}", "--log"]
    if config:
        words += ["--config", str(config)]
    quiet = subprocess.DEVNULL
    # no child of this process, which becomes the program: a checkpoint takes a program's children
    between = ["sh", "-c", '"$@" &', "sh", *words]
    starter = subprocess.Popen(
        between, stdin=quiet, stdout=quiet, stderr=subprocess.PIPE, start_new_session=True
    )
    assert starter.stderr
    with starter.stderr as said:
        starter.wait()
        os.set_blocking(said.fileno(), False)
        end, told = time.monotonic() + START_S, b""
        while not serves(at):
            more = said.read()
            if more == b"" and told:
                raise ShareError(f"the broker did not start: {told.decode().strip()}")
            told += more or b""
            if time.monotonic() > end:
                raise ShareError(f"the broker does not answer: `{shlex.join(words)}`")
            time.sleep(0.01)
    return True


def start_for_program(at: Path) -> None:
    """Starts a broker unless one serves, which stays while this process lives, whatever program it
    becomes, or a child that inherited its descriptors. Raises ShareError.
    """
    start(at, PROGRAM_IDLE_S)
    _hold(at)
    if not _listens(at):  # it was about to end, and may not have seen that
        start(at, PROGRAM_IDLE_S)


def _hold(at: Path) -> None:
    """Opens what endpoint_is_held (broker/endpoint.h) asks for; a broker of before has none."""
    with suppress(OSError):
        low = os.open(at / "programs", os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            fcntl.fcntl(low, fcntl.F_DUPFD, HIGH)
        except OSError:  # so many are not allowed
            os.set_inheritable(low, True)
        else:
            os.close(low)


def _listens(at: Path) -> bool:
    """Whether it still reads what it is told."""
    try:
        with _connect(at) as asks:
            asks.send(_message("SHARE_STATUS"))
            return bool(asks.recv(ANSWER_BYTES))
    except TimeoutError:
        return True  # it is stopped
    except (OSError, ShareError):
        return False


def numbers_processes_alike(at: Path) -> bool:
    """Whether a process has the number here that the broker tells: not where one of both is in
    another container. Raises ShareError.
    """
    with _connect(at) as asks:
        pid, _, _ = struct.unpack("3i", asks.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    try:
        own, its = (Path(f"/proc/{each}/ns/pid").readlink() for each in ("self", pid))
    except PermissionError:  # of another user, or guarded: not known
        return True
    except OSError:
        return False
    return own == its


def status(at: Path) -> dict[str, Any]:
    """What is so now, as `broker/status.c` writes it. Raises ShareError."""
    with _connect(at) as asks:
        asks.send(_message("SHARE_STATUS"))
        try:
            answer = asks.recv(ANSWER_BYTES)
            if why := _refusal(answer):
                raise ShareError(f"{at}: {why}")
            found: dict[str, Any] = json.loads(answer.decode(errors="replace"))
        except (OSError, ValueError) as error:
            raise ShareError(f"the broker of {at} does not answer") from error
    return found


def configure(at: Path, words: str) -> None:
    """Changes a group: `NAME,key=value,...`, as after `--share`. Raises ShareError."""
    text = os.fsencode(words)
    if len(text) >= _C.SHARE_TEXT_MAX:
        raise ShareError(f"{words}: fewer than {_C.SHARE_TEXT_MAX} letters are accepted")
    with _connect(at) as asks:
        asks.send(_message("SHARE_SET", "set", {"text": text}))
        _told(asks, at, words)


def suspend(
    at: Path, who: str, *, suspended: bool, folder: str = "", context: str = "STAYS"
) -> None:
    """Suspends or resumes a group, or the process of that number. Host memory goes to a file in
    the folder, if one is named. Their context STAYS, LEAVES, which they let go of then, or IS_BACK.
    Raises ShareError.
    """
    text = os.fsencode(who)
    if len(text) >= _C.SHARE_NAME_MAX:
        raise ShareError(f"{who}: fewer than {_C.SHARE_NAME_MAX} letters are accepted")
    path = os.fsencode(folder)
    if len(path) >= _C.SHARE_TEXT_MAX:
        raise ShareError(f"{folder}: fewer than {_C.SHARE_TEXT_MAX} letters are accepted")
    of = getattr(_C, f"SHARE_CONTEXT_{context}")
    said = {"who": text, "suspended": suspended, "context": of, "folder": path}
    with _connect(at) as asks:
        asks.send(_message("SHARE_SUSPEND", "suspend", said))
        _told(asks, at, who)


def stay(at: Path) -> None:
    """The broker that serves there does not end by itself. Raises ShareError."""
    with _connect(at) as asks:
        asks.send(_message("SHARE_STAY"))
        _told(asks, at, "start")


def stop(at: Path) -> None:
    """Ends the broker; programs run on with what they have. Raises ShareError."""
    with _connect(at) as asks:
        asks.send(_message("SHARE_STOP"))
        with suppress(ConnectionError):  # it ended
            _told(asks, at, "stop")


def _connect(at: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.settimeout(ANSWER_S)
    try:
        made.connect(str(at / "broker.sock"))
    except OSError as error:
        made.close()
        if isinstance(error, PermissionError):
            raise ShareError(f"the broker of {at} obeys another user, and root") from error
        raise ShareError(
            f"no broker serves {at} (ULMS_SHARE_DIR): `pump run --share NAME` or `pump share start`"
            " starts one"
        ) from error
    return made


def _told(asks: socket.socket, at: Path, words: str) -> None:
    """What the broker answers; nothing, if it ends. Raises ShareError if it refuses."""
    try:
        answer = asks.recv(ANSWER_BYTES)
    except TimeoutError as error:
        raise ShareError(f"the broker of {at} does not answer") from error
    if why := _refusal(answer):
        raise ShareError(f"{words}: {why}")
    whole = _read(answer)
    if answer and (whole.kind, whole.version) != (_C.SHARE_WELCOME, _C.SHARE_VERSION):
        raise ShareError(f"{words}: the broker of {at} is of another version")


def _refusal(answer: bytes) -> str:
    """Why the broker refuses; "": it does not."""
    whole = _read(answer)
    refused = whole.kind == _C.SHARE_REFUSED
    return ffi.string(whole.refused.why).decode(errors="replace") if refused else ""


def _read(answer: bytes) -> Any:
    whole = ffi.new("struct share_message *")
    ffi.memmove(whole, answer, min(len(answer), ffi.sizeof(whole[0])))
    return whole


def _message(kind: str, part: str = "nothing", fields: dict[str, object] | None = None) -> bytes:
    """One of a kind, with the fields of its part."""
    head = {"kind": getattr(_C, kind), "version": _C.SHARE_VERSION}
    whole = ffi.new("struct share_message *", head | {part: fields or {}})
    size = ffi.offsetof("struct share_message", part) + ffi.sizeof(f"struct share_{part}")
    return bytes(ffi.buffer(whole, size))
