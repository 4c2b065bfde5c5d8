"""Programs that run side by side, each in a process of its own, with a broker or without."""

import json
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.gpu.budget import environment
from pump.paths import installed, library
from pump.share import broker

HOST_BYTES = 20 << 30
"""That a program may have on the host under `vmm`, pinned, if nothing else is said."""
READY_S, LATE_S = 240.0, 60.0
LEAD_NS = 50_000_000
"""From an order to the span that it names."""


class TenantError(RuntimeError):
    """A program died or did not answer; the text has the end of what it said."""


@dataclass(frozen=True)
class Steps:
    """Of one program in a span. Seconds: when each step ended, from the span's start, and how long
    it took, from when it was due.
    """

    span: float
    ends: Sequence[float]
    took: Sequence[float]

    def rate(self, after: float = 0.0, before: float | None = None) -> float:
        """Steps a second in a part of the span."""
        before = self.span if before is None else before
        return sum(after <= end < before for end in self.ends) / (before - after)


class Tenant:
    """A program: a kind of `bench.gpu.tenants.program`, and its share; None: it runs natively."""

    def __init__(
        self, kind: str, share: str | None, folder: Path, log: Path, host: int = HOST_BYTES
    ) -> None:
        self.kind, self.log = kind, log
        env = environment("native", None)
        if share is not None:
            env |= {"LD_PRELOAD": str(library()), "ULMS_HIDDEN": "known"}
            env |= {"ULMS_SHARE": share, "ULMS_SHARE_DIR": str(folder)} if share else {}
            env.setdefault("ULMS_BACKEND", "vmm")
            if env["ULMS_BACKEND"] == "vmm":  # pinned, not managed: that guard would refuse memory
                env["ULMS_MANAGED_LIMIT"] = str(host)
        command = [sys.executable, "-m", "bench.gpu.tenants.program", kind]
        with log.open("w") as stderr:
            self.process = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        self.lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            if line.startswith("{"):
                self.lines.put(line)
        self.lines.put(None)

    def answer(self, seconds: float) -> dict[str, Any]:
        """Its next line. Raises TenantError."""
        try:
            line = self.lines.get(timeout=seconds)
        except queue.Empty:
            line = None
        if line is None:
            said = self.log.read_text(errors="replace")[-2000:]
            raise TenantError(f"{self.kind}: no answer in {seconds:.0f} s\n{said}")
        found: dict[str, Any] = json.loads(line)
        return found

    def order(self, begin_ns: int, until_ns: int) -> None:
        """Steps in that span, monotonic nanoseconds."""
        assert self.process.stdin
        print(begin_ns, until_ns, file=self.process.stdin, flush=True)

    def end(self) -> None:
        """At once."""
        self.process.kill()
        self.process.wait()


class Group:
    """Programs that are ready. A context manager: after it they are gone, and so is the broker."""

    def __init__(
        self,
        kinds: Sequence[str],
        shares: Sequence[str | None],
        logs: Path,
        host: int = HOST_BYTES,
    ) -> None:
        self.kinds, self.shares, self.turn_s = kinds, shares, 0.0
        self.logs, self.host = logs, host
        self.tenants: list[Tenant] = []
        self.broker: subprocess.Popen[bytes] | None = None
        self.folder = tempfile.TemporaryDirectory(prefix="ulms-share-")
        self.at = Path(self.folder.name)

    def __enter__(self) -> "Group":
        self.logs.mkdir(parents=True, exist_ok=True)
        if any(self.shares):
            self.serve()
        try:
            for i, (kind, share) in enumerate(zip(self.kinds, self.shares, strict=True)):
                log = self.logs / f"{i}-{kind}.log"
                self.tenants.append(Tenant(kind, share, self.at, log, self.host))
            for tenant in self.tenants:
                tenant.answer(READY_S)
        except TenantError:
            self.__exit__()
            raise
        return self

    def serve(self) -> None:
        """Starts a broker; one that ran before ends."""
        if self.broker:
            self.broker.terminate()
            self.broker.wait()
        words = [str(installed("ulms-broker")), "--dir", str(self.at)]
        words += ["--turn", f"{self.turn_s:g}"] if self.turn_s else []
        self.broker = subprocess.Popen(words)
        while not broker.serves(self.at):
            time.sleep(0.01)

    def with_turns(self, turn_s: float) -> None:
        """Another broker, whose turns last so long; 0: as it chooses."""
        self.turn_s = turn_s
        self.serve()
        time.sleep(2)  # they look for one each second

    def status(self) -> dict[str, Any]:
        """What the broker says."""
        return broker.status(self.at)

    def need(self) -> float:
        """Bytes that each needs, as the broker knows it."""
        gpus = self.status()["gpus"]
        return float(statistics.mean(tenant["need"] for gpu in gpus for tenant in gpu["tenants"]))

    def step(self, seconds: float, which: Sequence[int] | None = None) -> list[Steps]:
        """These programs (None: all) step for so long, at the same time."""
        chosen = [self.tenants[i] for i in (range(len(self.tenants)) if which is None else which)]
        begin = time.monotonic_ns() + LEAD_NS
        for tenant in chosen:
            tenant.order(begin, begin + int(seconds * 1e9))
        return [steps_of(tenant.answer(seconds + LATE_S), seconds) for tenant in chosen]

    def take_turns(self, seconds: float, turn_s: float) -> list[float]:
        """They step one after the other, each for so long at a time. Steps a second of each."""
        begin, rounds = time.monotonic_ns() + LEAD_NS, int(seconds / turn_s)
        for i in range(rounds):
            at = begin + int(i * turn_s * 1e9)
            self.tenants[i % len(self.tenants)].order(at, at + int(turn_s * 1e9))
        counts = [0] * len(self.tenants)
        for i in range(rounds):
            at = i % len(self.tenants)
            counts[at] += len(self.tenants[at].answer(seconds + LATE_S)["ends"])
        return [count / (rounds * turn_s) for count in counts]

    def __exit__(self, *_: object) -> None:
        for tenant in self.tenants:
            tenant.end()
        if self.broker:
            self.broker.terminate()
            self.broker.wait()
        self.folder.cleanup()


def steps_of(answer: dict[str, Any], span: float) -> Steps:
    """What a program answered."""
    ends, took = ([ns / 1e9 for ns in answer[name]] for name in ("ends", "took"))
    return Steps(span, ends, took)
