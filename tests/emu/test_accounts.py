"""Random allocation programs on several threads: ledger, quota and memory information.

Threads run freely between barriers, each on its device; at each barrier the program tells what
ulms.so holds of each, and what everybody answers who can be asked for memory. The
reference knows from the results what must be live, and whether each refusal could have been right
in some order of the threads' operations.
"""

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sortedcontainers import SortedDict

from tests.conftest import Compile, RunEmulated

pytestmark = pytest.mark.emu

MIB = 1 << 20
CAPACITY = 64 * MIB
DEVICES = 2
KINDS = ["plain", "pitch", "managed", "async", "pool", "ownpool"]
KINDS += ["array", "array3d", "mipmapped", "vmm", "retained"]
NO_ADDRESS = ("array", "array3d", "mipmapped")
OUT_OF_MEMORY = 2
GRAIN = 2 * MIB
"""What the driver takes of a device. Small pieces share one."""


def grains(size: int, levels: int = 1) -> int:
    """Bytes that the driver takes at most."""
    return -(-size // GRAIN) * GRAIN + (levels - 1) * GRAIN


@dataclass
class Program:
    """Lines for allocate.c, in phases that end with a barrier."""

    threads: int
    phases: list[list[str]] = field(default_factory=list)

    def text(self) -> str:
        return "".join("\n".join([*phase, "barrier"]) + "\n" for phase in self.phases)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    program = Program(draw(st.integers(1, 4)))
    count = program.threads
    held: dict[int, set[int]] = {thread: set() for thread in range(count)}
    for _ in range(draw(st.integers(1, 4))):
        lines = [f"{thread} f 63" for thread in range(program.threads)]  # frees nothing
        for _ in range(draw(st.integers(1, 25))):
            thread = draw(st.integers(0, program.threads - 1))
            slots = held[thread]
            frees: bool = draw(st.booleans())
            if slots and frees:
                slot = draw(st.sampled_from(sorted(slots)))
                slots.discard(slot)
                lines.append(f"{thread} f {slot}")
            else:
                slot = min(set(range(63)) - slots)
                slots.add(slot)
                size = draw(st.sampled_from([4096, 100_000, MIB, 3 * MIB, 9 * MIB, 20 * MIB]))
                lines.append(f"{thread} a {draw(st.sampled_from(KINDS))} {slot} {size}")
        program.phases.append(lines)
    return program


@dataclass
class State:
    """Of one device at a barrier."""

    used: int
    asked: list[tuple[int, int]] = field(default_factory=list)  # free, total
    live: SortedDict[int, int] = field(default_factory=SortedDict)


def parse(output: str) -> tuple[dict[int, tuple[int, int, int]], list[State]]:
    """Results by line number as (status, address, bytes), and the states at the barriers."""
    results: dict[int, tuple[int, int, int]] = {}
    states: list[State] = []
    for line in output.splitlines():
        word, *rest = line.split()
        numbers = [int(text) for text in rest]
        if word == "op":
            results[numbers[0]] = (numbers[1], numbers[2], numbers[3])
        elif word == "state":
            states.append(State(numbers[0]))
        elif word == "asked":
            states[-1].asked.append((numbers[0], numbers[1]))
        else:
            states[-1].live[numbers[0]] = numbers[1]
    return results, states


@dataclass
class Device:
    """What a device must hold, from the results of the operations on it."""

    live: dict[tuple[str, str], tuple[str, int, int]] = field(default_factory=dict)
    """(thread, slot) -> kind, address, bytes"""
    held: int = 0
    """At the last barrier."""
    took: int = 0
    refused: list[int] = field(default_factory=list)
    """Since then."""

    def managed(self) -> int:
        return sum(grains(size) for kind, _, size in self.live.values() if kind == "managed")

    def least_and_most(self) -> tuple[int, int]:
        sizes = [(3 if kind == "mipmapped" else 1, size) for kind, _, size in self.live.values()]
        return sum(size for _, size in sizes), sum(grains(size, n) for n, size in sizes)

    def enter(self, line: str, result: tuple[int, int, int]) -> None:
        thread, verb, *rest = line.split()
        status, address, size = result
        if verb == "a" and status == 0:
            self.live[thread, rest[1]] = (rest[0], address, size)
            self.took += grains(size, 3)
        elif verb == "a":
            assert status == OUT_OF_MEMORY
            self.refused.append(grains(size, 3))
        else:
            assert status == (0 if self.live.pop((thread, rest[0]), None) else -1)

    def check(self, state: State, capacity: int | None, *, replaced: bool) -> None:
        ranges = SortedDict({a: n for kind, a, n in self.live.values() if kind not in NO_ADDRESS})
        assert state.live == ranges
        for start, following in zip(ranges, list(ranges)[1:], strict=False):
            assert start + ranges[start] <= following
        (free, total), *answers = state.asked
        assert len(answers) == 6
        if replaced:
            least, most = self.least_and_most()
            assert least <= state.used <= most
        else:  # nobody has touched managed memory; the driver may put arrays into grains of others
            held = total - free + self.managed()
            arrays = sum("arra" in kind or "mip" in kind for kind, *_ in self.live.values())
            assert held <= state.used <= held + arrays * (2 << 20)
        if capacity is None:
            assert not self.refused
            assert replaced or set(answers) == {(free, total)}
        else:
            assert state.used <= capacity
            assert set(answers) == {(capacity - state.used, capacity)}
            # refused only where the quota could have been short in some order
            assert all(self.held + self.took + size > capacity for size in self.refused)
        self.held, self.took, self.refused = state.used, 0, []


def check(
    program: Program, output: str, capacity: int | None, devices: int, *, replaced: bool = False
) -> set[int]:
    """Returns the devices on which something was refused. replaced: memory is managed, and what of
    the device is free is another matter.
    """
    results, states = parse(output)
    assert len(states) == devices * len(program.phases)
    counts = [Device() for _ in range(devices)]
    index = 0
    refused: set[int] = set()
    for phase in program.phases:
        for line in phase:
            counts[int(line.split()[0]) % devices].enter(line, results[index])
            index += 1
        index += 1
        for number, device in enumerate(counts):
            refused |= {number} if device.refused else set()
            device.check(states.pop(0), capacity, replaced=replaced)
    return refused


def allocate(compiled: Compile, emulator_dir: Path) -> Path:
    """The program that runs such lines."""
    libraries = ("libcuda.so.1", "libnvidia-ml.so.1")
    return compiled("allocate", *(str(emulator_dir / name) for name in libraries))


WARNED = re.compile(
    rf"\[ulms\] WARN: \d+ bytes refused as out of memory, ULMS_GPU_MEMORY={CAPACITY}, of which"
    r" \d+ are held on device (\d); if the program cannot do with less: .+"
)


def check_told(stderr: str, devices: set[int]) -> None:
    """One line, of one refusal of all on these devices."""
    lines = stderr.splitlines()
    assert len(lines) == bool(devices)
    for line in lines:
        told = WARNED.fullmatch(line)
        assert told
        assert int(told[1]) in devices


@pytest.mark.parametrize("capacity", [CAPACITY, None])
def test_accounts(
    capacity: int | None, compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path
) -> None:
    binary = allocate(compiled, emulator_dir)

    @settings(max_examples=100, suppress_health_check=list(HealthCheck))
    @given(programs())
    def run(program: Program) -> None:
        env = {"EMU_DEVICES": f"{DEVICES}"}
        env |= {"ULMS_GPU_MEMORY": f"{capacity}"} if capacity else {}
        done: subprocess.CompletedProcess[str] = run_emulated([binary], env, stdin=program.text())
        assert done.returncode == 0
        check_told(done.stderr, check(program, done.stdout, capacity, DEVICES))

    run()


def test_the_limit_by_its_other_name(
    compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path
) -> None:
    """A hard limit, where memory stays where it is: to the last byte, and free again when freed."""
    half = CAPACITY // 2
    program = Program(
        1,
        [
            [f"0 a plain 0 {half}", f"0 a async 1 {half + 1}", f"0 a plain 2 {half}"],
            ["0 a array 3 4096", "0 f 0", f"0 a vmm 4 {half}"],
        ],
    )
    env = {"WRAPPER_MAX_MEMORY": f"{CAPACITY}", "ULMS_BACKEND": "observe"}
    command = [allocate(compiled, emulator_dir)]
    done = run_emulated(command, env, stdin=program.text())
    assert done.returncode == 0
    check_told(done.stderr, check(program, done.stdout, CAPACITY, 1))
    assert f" {half + 1} bytes refused" in done.stderr  # the first of two
    done = run_emulated(command, env | {"ULMS_LOG_LEVEL": "INFO"}, stdin=program.text())
    told = [line.split() for line in done.stderr.splitlines() if "bytes refused" in line]
    assert [line[1:3] for line in told] == [
        ["WARN:", f"{half + 1}"],
        ["INFO:", f"{2 << 20}"],
    ]
    results, _ = parse(done.stdout)
    statuses = [results[i][0] for i in sorted(results)]
    assert statuses == [0, OUT_OF_MEMORY, 0, OUT_OF_MEMORY, 0, 0]


def test_what_the_driver_refuses_is_not_told_as_held(
    compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path
) -> None:
    """Another thread may tell what is held while such an allocation is only reserved."""
    sizes = [10 << 30, 4096, 4096, 4096]
    turn = [f"{thread} a plain 0 {size}" for thread, size in enumerate(sizes)]
    turn += [f"{thread} f 0" for thread in range(len(sizes))]
    program = Program(len(sizes), [turn * 60 for _ in range(8)])
    for _ in range(20):
        done = run_emulated([allocate(compiled, emulator_dir)], stdin=program.text())
        assert (done.returncode, done.stderr) == (0, "")
        _, states = parse(done.stdout)
        assert [state.used for state in states] == [0] * 8


def test_pieces_beside_one_that_is_refused(
    compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path
) -> None:
    """The grain that another piece was put into, too, is counted, though the first did not stay."""
    fill = [f"0 a plain 0 {CAPACITY - GRAIN}"]
    turn = [f"{thread} {verb}" for verb in ("a plain 1 700000", "f 1") for thread in range(4)]
    last = [f"{thread} a plain 1 700000" for thread in range(4)]
    program = Program(4, [fill, *[turn * 50 + last, [f"{thread} f 1" for thread in range(4)]] * 4])
    for _ in range(20):
        done = run_emulated(
            [allocate(compiled, emulator_dir)],
            {"ULMS_GPU_MEMORY": f"{CAPACITY}", "EMU_DEVICES": "1"},
            stdin=program.text(),
        )
        assert done.returncode == 0
        assert check(program, done.stdout, CAPACITY, 1) == {0}
