"""Random allocation programs on several threads: ledger, quota and memory information.

Threads run freely between barriers; at each barrier the program tells what ulms.so holds. The
reference knows from the results what must be live, and whether each refusal could have been right
in some order of the threads' operations.
"""

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
KINDS = ["plain", "pitch", "managed", "async", "pool", "array", "vmm"]
OUT_OF_MEMORY = 2


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
    used: int
    free: int
    total: int
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
            states.append(State(numbers[0], numbers[1], numbers[2]))
        else:
            states[-1].live[numbers[0]] = numbers[1]
    return results, states


def check(program: Program, output: str, capacity: int | None) -> None:
    results, states = parse(output)
    assert len(states) == len(program.phases)
    live: dict[tuple[str, str], tuple[str, int, int]] = {}  # (thread, slot) -> kind, address, bytes
    index = 0
    for phase, state in zip(program.phases, states, strict=True):
        before = sum(held[2] for held in live.values())
        took = 0
        refused: list[int] = []
        for line in phase:
            thread, verb, *rest = line.split()
            status, address, size = results[index]
            index += 1
            if verb == "a" and status == 0:
                live[thread, rest[1]] = (rest[0], address, size)
                took += size
            elif verb == "a":
                assert status == OUT_OF_MEMORY
                refused.append(size)
            else:
                assert status == (0 if live.pop((thread, rest[0]), None) else -1)
        index += 1
        used = sum(held[2] for held in live.values())
        assert state.used == used
        with_address = SortedDict({a: n for kind, a, n in live.values() if kind != "array"})
        assert state.live == with_address
        for start, following in zip(state.live, list(state.live)[1:], strict=False):
            assert start + state.live[start] <= following
        if capacity is None:
            assert not refused
            continue
        assert used <= capacity
        assert (state.total, state.free) == (capacity, capacity - used)
        # refused only where the quota could have been short in some order
        assert all(before + took + size > capacity for size in refused)


@pytest.mark.parametrize("capacity", [CAPACITY, None])
def test_accounts(
    capacity: int | None, compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path
) -> None:
    binary = compiled("allocate", str(emulator_dir / "libcuda.so.1"))

    @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
    @given(programs())
    def run(program: Program) -> None:
        env = {"ULMS_GPU_MEMORY": f"{capacity}"} if capacity else {}
        done: subprocess.CompletedProcess[str] = run_emulated([binary], env, stdin=program.text())
        assert (done.returncode, done.stderr) == (0, "")
        check(program, done.stdout, capacity)

    run()
