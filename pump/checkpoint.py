"""Has the CUDA driver take another process's context from the GPU, or bring it back, and prints an
Outcome as JSON.

Run in a process of its own (COMMAND), without `ulms.so`. Standard library only.
"""

import ctypes
import json
import os
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
LOOK_S, CHANGES = 0.05, 100
STOPPED, RESUMED = "stopped\n", "it was resumed meanwhile"
MEANS = {
    NOT_READY: "what runs on the GPU has not ended in time",
    NOT_SUPPORTED: "the driver takes no managed memory, nor any of another process",
}


@dataclass
class Outcome:
    """What became of it: "", or why it is not so."""

    error: str = ""


class RefusedError(Exception):
    """By the driver; the text says of what."""


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


def _helped(verb: str, pid: int, seconds: float, lets_go: Callable[[], bool]) -> Outcome:
    bare = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    words = [*COMMAND, verb, str(pid), str(round(seconds * 1000))]
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
            raise RefusedError(str(error)) from error
        version = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        if version.value < SINCE:
            is_for = f"{version.value // 1000}.{version.value % 1000 // 10}"
            raise RefusedError(f"the driver is for CUDA {is_for}: 12.8 (driver 570) can do it")
        self.call("cuInit", 0)

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

    def take(self, milliseconds: int) -> None:
        if self.state() == RUNNING:
            self.change("Lock", milliseconds)
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


def main(verb: str, pid: int, milliseconds: int) -> Outcome:
    """In the helper."""
    try:
        driver = _Driver(pid)
        driver.take(milliseconds) if verb == "take" else driver.bring()
    except RefusedError as error:
        return Outcome(str(error))
    return Outcome()


if __name__ == "__main__":
    print(json.dumps(asdict(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))))
