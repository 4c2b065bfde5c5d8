"""Has the CUDA driver take another process's context from the GPU, or bring it back, and prints an
Outcome as JSON.

Run in a process of its own (COMMAND), without `ulms.so`. Standard library only.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

COMMAND = (sys.executable, "-I", __file__)
SINCE = 12080  # CUDA 12.8, driver 570
RUNNING, LOCKED, CHECKPOINTED, FAILED = range(4)  # CUprocessState
NOT_READY, NOT_SUPPORTED = 600, 801  # CUresult
ARGUMENT_BYTES = 64
LOOK_S, CHANGES, MOST_S = 0.05, 100, 1e6
STOPPED, RESUMED = "stopped\n", "it was resumed meanwhile"
MEANS = {
    NOT_READY: "what runs on the GPU has not ended in time",
    NOT_SUPPORTED: "the driver takes no managed memory, nor any of another process",
}


@dataclass
class Outcome:
    """What became of it: "", or why it is not so, and whether the driver was asked at all."""

    error: str = ""
    asked: bool = True


class RefusedError(Exception):
    """By the driver; the text says of what."""


class UnableError(RefusedError):
    """It was not asked."""


def take(pid: int, seconds: float, lets_go: Callable[[], bool]) -> Outcome:
    """From the GPU. Where that fails, or the process does not let go of it any more when the driver
    has stopped it, it has it as before.
    """
    outcome = _helped("take", pid, seconds, lets_go)
    if not outcome.error and not lets_go():
        outcome = Outcome(bring(pid).error or RESUMED)
    return outcome


def bring(pid: int) -> Outcome:
    """Back to it, from whatever state; nothing happens to one that has it."""
    return _helped("bring", pid, 0, lambda: True)


def able() -> str:
    """Why the driver cannot take a context; "": it can. It is not asked for any."""
    return _helped("able", 0, 0, lambda: True).error


def milliseconds(seconds: float) -> int:
    """As the driver takes them: to it, 0 is no limit."""
    return max(1, round(1000 * min(seconds, MOST_S)))


def _helped(verb: str, pid: int, seconds: float, lets_go: Callable[[], bool]) -> Outcome:
    bare = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    words = [*COMMAND, verb, str(pid), str(milliseconds(seconds))]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, env=bare, stdin=pipe, stdout=pipe, text=True) as helper:
        assert helper.stdin
        assert helper.stdout
        said = helper.stdout.readline()
        if said == STOPPED:
            said = helper.communicate("go\n" if lets_go() else "")[0]
    try:
        return Outcome(**json.loads(said))
    except ValueError:
        return Outcome(f"the helper ended with {helper.returncode}")


class _Driver:
    def __init__(self, pid: int) -> None:
        self.pid = ctypes.c_int(pid)
        try:
            self.cuda = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise UnableError(str(error)) from error
        version = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        if version.value < SINCE:
            is_for = f"{version.value // 1000}.{version.value % 1000 // 10}"
            raise UnableError(f"the driver is for CUDA {is_for}: 12.8 (driver 570) can do it")

    def begin(self) -> None:
        """Raises UnableError."""
        try:
            self.call("cuInit", 0)
        except RefusedError as error:
            raise UnableError(str(error)) from error

    def call(self, name: str, *arguments: object) -> None:
        """Raises RefusedError."""
        status = getattr(self.cuda, name)(*arguments)
        if status:
            why = f"{name} gives error {status}"
            raise RefusedError(f"{MEANS[status]} ({why})" if status in MEANS else why)

    def change(self, name: str, first: int = 0) -> None:
        """The process's state. Raises RefusedError."""
        arguments = ctypes.create_string_buffer(
            first.to_bytes(ARGUMENT_BYTES, sys.byteorder), ARGUMENT_BYTES
        )
        self.call(f"cuCheckpointProcess{name}", self.pid, arguments)

    def state(self) -> int:
        found = ctypes.c_int()
        self.call("cuCheckpointProcessGetState", self.pid, ctypes.byref(found))
        return found.value

    def take(self, limit_ms: int) -> None:
        if self.state() == RUNNING:
            self.change("Lock", limit_ms)
        try:
            if self.state() == LOCKED:
                print(STOPPED, end="", flush=True)
                if not sys.stdin.readline():
                    raise RefusedError(RESUMED)
                self.change("Checkpoint")
        except RefusedError:
            self.bring()
            raise

    def bring(self) -> None:
        """Another process may do the same: who comes second finds it done."""
        steps = {LOCKED: "Unlock", CHECKPOINTED: "Restore"}
        for _ in range(CHANGES):
            state = self.state()
            if state == RUNNING:
                return
            if state == FAILED:
                break
            try:
                self.change(steps[state]) if state in steps else time.sleep(LOOK_S)
            except RefusedError:
                if self.state() == state:
                    raise
        raise RefusedError(f"the driver leaves the process in state {self.state()}")


def main(verb: str, pid: int, limit_ms: int) -> Outcome:
    """In the helper, which the terminal's interrupt does not end halfway."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        driver = _Driver(pid)
        if verb == "able":
            return Outcome()
        driver.begin()
        driver.take(limit_ms) if verb == "take" else driver.bring()
    except RefusedError as error:
        return Outcome(str(error), not isinstance(error, UnableError))
    return Outcome()


if __name__ == "__main__":
    print(json.dumps(asdict(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))))
