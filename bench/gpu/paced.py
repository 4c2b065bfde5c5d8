"""A program that runs its steps when it is told to: several can take turns on one device."""

import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from bench.gpu import programs


class PacedError(RuntimeError):
    """A process died or did not answer in time; `stderr` is the end of what it wrote there."""

    def __init__(self, reason: str, stderr: str) -> None:
        super().__init__(reason)
        self.stderr = stderr


class Paced:
    """One process of a program whose other end is `run_steps` of tests/gpu/programs/report.py.

    It starts at once. A context manager: after it, the process and what it started are gone. What
    waits for an answer waits so many seconds, and raises PacedError.
    """

    def __init__(self, title: str, command: list[str], env: dict[str, str]) -> None:
        self.title = title
        self._stderr = os.memfd_create("stderr")
        self._process = subprocess.Popen(
            command,
            # unbuffered, Python loses the rest of what a signal interrupts in a full pipe
            env=env | {"REPORT_PACED": "1", "PYTHONUNBUFFERED": ""},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            start_new_session=True,
        )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> "Paced":
        return self

    def __exit__(self, *_: object) -> None:
        self.ask_no_more()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._stderr)

    def block(self, steps: int, seconds: float) -> list[float]:
        """Runs so many steps now. Milliseconds of each."""
        assert self._process.stdin
        with suppress(BrokenPipeError):  # it died: the answer tells
            print(steps, file=self._process.stdin, flush=True)
        return [float(ms) for ms in json.loads(self._answer("BLOCK ", seconds))]

    def hold_to(self, processors: Iterable[int]) -> None:
        """From now on its threads run on these processors only, and so do those that they start."""
        for thread in Path(f"/proc/{self._process.pid}/task").iterdir():
            with suppress(ProcessLookupError):  # it has just ended
                os.sched_setaffinity(int(thread.name), processors)

    def send(self, number: signal.Signals) -> None:
        """Sends it to the process, if it lives."""
        self._process.send_signal(number)

    def ask_no_more(self) -> None:
        """Lets the process go to its end, without waiting for that."""
        assert self._process.stdin
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def end(self, seconds: float) -> programs.Result:
        """Waits for the end. What the process said there."""
        self.ask_no_more()
        told = self._answer("REPORT ", seconds)
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise self._failed(f"does not end within {seconds:g} s") from None
        if status:
            raise self._failed(f"ended with status {status}")
        return programs.result_of(status, f"REPORT {told}", self._said())

    def _listen(self) -> None:
        assert self._process.stdout
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put(None)

    def _answer(self, word: str, seconds: float) -> str:
        """The next line that begins with the word, without it; other lines are skipped."""
        until = time.monotonic() + seconds
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                raise self._failed(f"no answer within {seconds:g} s") from None
            if line is None:
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(60)
                raise self._failed(f"ended with status {self._process.returncode}")
            if line.startswith(word):
                return line.removeprefix(word)

    def _said(self) -> str:
        # Not by seek and read: the process writes at the same place of the same open file.
        size = os.fstat(self._stderr).st_size
        return os.pread(self._stderr, size, 0).decode(errors="replace")

    def _failed(self, reason: str) -> PacedError:
        return PacedError(f"{self.title}: {reason}", self._said()[-4000:])
