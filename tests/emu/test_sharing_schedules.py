"""Generated schedules of programs that share an emulated device: they start, are stopped, die and
lose their broker at any time. Who is left computes what it does alone, and somebody always gets on.

`SCHEDULES=300` plays so many, `SCHEDULE=SEED` one again.
"""

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bench.emulator.run import build
from pump.paths import installed
from pump.share.broker import ShareError, status, suspend
from pump.stats import StatsError, running_pid
from tests.conftest import PATIENCE_S
from tests.emu.shared_device import SHAPES, Device, said
from tests.tenants import GIB, RefusedError, Tenant, broker, message

pytestmark = pytest.mark.emu

COUNT = int(os.environ.get("SCHEDULES", "3"))
AGAIN = os.environ.get("SCHEDULE")
MOST_S = 1.0
"""That nobody may get on; beside that what this machine takes to run anything."""
SPAN_S = 2.0
BLIND = 5
EXPECTED = ("[ulms] WARN: the broker is gone", "[ulms] WARN: ULMS_SHARE=")


@dataclass
class Schedule:
    """What happens to whom. `events` are in order of time, in seconds."""

    device: Device
    chance: random.Random
    programs: list[tuple[str, subprocess.Popen[str]]] = field(default_factory=list)
    killed: set[int] = field(default_factory=set)
    stopped: set[int] = field(default_factory=set)
    events: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    liars: list[Tenant | socket.socket] = field(default_factory=list)
    served: bool = True
    brokers: ExitStack = field(default_factory=ExitStack)

    def start(self) -> None:
        """A program, under any backend, and of any share. Without a broker it would run as if the
        device were its own, and might find that full.
        """
        if not self.served:
            self.later(0.05, self.start)
            return
        shape, backend = self.chance.choice([*SHAPES]), self.chance.choice(["um", "vmm"])
        share = self.chance.choice(["a", "b", "c,priority=1", "d,limit=0.5", "a,request=0.3"])
        pace = self.chance.choice(["0", "0", "5", "20"])
        program = self.device.start(shape, backend, share, EMU_TIME=pace, ULMS_STATS="on")
        self.programs.append((shape, program))

    def lives(self) -> list[subprocess.Popen[str]]:
        """Those that could get on."""
        return [p for _, p in self.programs if p.poll() is None and p.pid not in self.stopped]

    def kill(self) -> None:
        """A program ends in the middle."""
        for program in self.lives()[:1]:
            self.killed.add(program.pid)
            program.kill()

    def stop(self) -> None:
        """A program is stopped for a while."""
        if lives := self.lives():
            program = lives[-1]
            self.stopped.add(program.pid)
            program.send_signal(signal.SIGSTOP)
            self.later(self.chance.uniform(0.1, 0.8), lambda: self.go_on(program))

    def go_on(self, program: subprocess.Popen[str]) -> None:
        self.stopped.discard(program.pid)
        program.send_signal(signal.SIGCONT)

    def put_away(self) -> None:
        """A program is suspended for a while. Without its broker it goes on."""
        if self.served and (lives := self.lives()):
            program = self.chance.choice(lives)
            with suppress(ShareError):  # it has not joined
                suspend(self.device.folder, str(program.pid), suspended=True)
                self.stopped.add(program.pid)
                self.later(self.chance.uniform(0, 0.4), lambda: self.bring_back(program))

    def bring_back(self, program: subprocess.Popen[str]) -> None:
        if not self.served:
            self.later(0.05, lambda: self.bring_back(program))
            return
        with suppress(ShareError):  # another broker, or it has ended
            suspend(self.device.folder, str(program.pid), suspended=False)
        self.stopped.discard(program.pid)

    def kill_broker(self) -> None:
        """Another one starts soon."""
        self.served = False
        self.device.broker.kill()
        self.device.broker.wait()
        self.later(self.chance.uniform(0, 0.3), self.start_broker)

    def start_broker(self) -> None:
        at = broker(installed("ulms-broker"), self.device.folder)
        self.device.broker = self.brokers.enter_context(at)
        self.served = True

    def stop_broker(self) -> None:
        """For longer than anybody waits."""
        self.served = False
        self.device.broker.send_signal(signal.SIGSTOP)
        self.later(self.chance.uniform(0.2, 1.5), self.continue_broker)

    def continue_broker(self) -> None:
        self.device.broker.send_signal(signal.SIGCONT)
        self.served = self.device.broker.poll() is None

    def lie(self) -> None:
        """One joins that says what is not so, and nothing any more."""
        number = self.chance.choice([0, 1, GIB, 2**63, 2**64 - 1])
        with suppress(OSError, ShareError, RefusedError):  # the broker may be gone
            for gpu in status(self.device.folder)["gpus"]:
                liar = Tenant(self.device.folder, "a", bytes.fromhex(gpu["uuid"]))
                liar.says("REPORT", need=number, resident=number, wants=1, in_flight=1, ready=1)
                liar.says("ACKNOWLEDGE", serial=number, held=number)
                self.liars.append(liar)

    def shout(self) -> None:
        """What is no message."""
        with suppress(OSError):
            other = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            other.connect(str(self.device.folder / "broker.sock"))
            other.send(self.chance.choice([b"", b"\xff" * 4096, message("STATUS")[:3]]))
            self.liars.append(other)

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        self.events.append((time.monotonic() + seconds, what))
        self.events.sort(key=lambda event: event[0])

    def plan(self) -> None:
        """Two to six programs, and as many faults."""
        faults = [self.kill, self.stop, self.kill_broker, self.stop_broker, self.lie, self.shout]
        faults += [self.put_away, self.put_away]
        self.start()
        for _ in range(self.chance.randint(1, 5)):
            self.later(self.chance.uniform(0, SPAN_S / 2), self.start)
        for _ in range(self.chance.randint(1, 5)):
            self.later(self.chance.uniform(0, SPAN_S), self.chance.choice(faults))

    def play(self) -> tuple[float, float]:
        """To the end of all. Seconds: the longest time in which nobody got on though somebody
        could, and the longest in which this process did not look.
        """
        done: list[int] = []
        looked = since = time.monotonic()
        longest = blind = 0.0
        while self.events or self.lives() or self.stopped:
            while self.events and self.events[0][0] <= time.monotonic():
                self.events.pop(0)[1]()
            time.sleep(0.01)
            now, lives = time.monotonic(), self.lives()
            blind, looked = max(blind, now - looked), now
            if (count := [issued(program.pid) for program in lives]) != done or not lives:
                done, since = count, now
            longest = max(longest, now - since)
            assert longest < PATIENCE_S, "nobody gets on"
        return longest, blind


def issued(process: int) -> int:
    """Operations of a program so far; -1: it does not say."""
    try:
        return running_pid(process).counters["operations"].value
    except (OSError, StatsError):
        return -1


@contextmanager
def schedule(device: Device, seed: int) -> Iterator[Schedule]:
    """One, whose processes are gone after it."""
    made = Schedule(device, random.Random(seed))
    with made.brokers:
        try:
            yield made
        finally:
            for _, program in made.programs:
                program.send_signal(signal.SIGCONT)
                program.kill()
            device.broker.send_signal(signal.SIGCONT)
            for liar in made.liars:
                liar.ends() if isinstance(liar, Tenant) else liar.close()


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("schedules"))


def test_whatever_happens(binary: Path, emulator_dir: Path, tmp_path: Path) -> None:
    truths: dict[str, str] = {}
    for seed in [int(AGAIN)] if AGAIN else random.sample(range(1 << 30), COUNT):
        folder = tmp_path / str(seed)
        with broker(installed("ulms-broker"), folder) as first:
            device = Device(binary, folder, emulator_dir, first)
            truths = truths or {shape: said(device.start(shape, "")) for shape in SHAPES}
            with schedule(device, seed) as playing:
                playing.plan()
                longest, blind = playing.play()
                wrong = [text for text in verdicts(playing, truths) if text]
                assert (seed, wrong) == (seed, [])
                assert longest < MOST_S + BLIND * blind, seed


def verdicts(playing: Schedule, truths: dict[str, str]) -> Iterator[str]:
    """What of each program that was not killed is not as alone; empty: nothing."""
    for shape, program in playing.programs:
        out, complaints = program.communicate(timeout=PATIENCE_S)
        if program.pid in playing.killed:
            continue
        others = [x for x in complaints.splitlines() if not x.startswith(EXPECTED)]
        same = program.returncode == 0 and truths[shape] in out.splitlines() and not others
        yield "" if same else f"{shape}: status {program.returncode}\n{out[-500:]}\n{complaints}"
