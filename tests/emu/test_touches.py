"""What ulms.so extracts from each kind of operation, against what was truly touched.

The emulated device tells the truth.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pump.trace import OpKind, Trace, read
from tests.conftest import Compile, RunEmulated

pytestmark = pytest.mark.emu

DEVICE_WORK = {OpKind.LAUNCH, OpKind.COPY, OpKind.MEMSET, OpKind.GRAPH, OpKind.HOST}
"""And waits for a word, which touch it."""
HIDDEN = {"hidden-table", "hidden-variable"}  # what no argument shows
READ, WRITE, UPDATE = 1, 2, 3
DEVICES = {"EMU_DEVICES": "2"}
HOLED = {"2D": "b", "3D": "b", "3D-batch": "b", "3D-batch-first": "b", "array-taken": "b"}
HOLED |= {"3D-peer": "far", "3D-peer-async": "far", "set2D8": "pitched", "set2D32": "pitched"}
HOLED |= {"decompressed": "b"}
"""Operations that write into this block, and may leave some of what lies there."""


@dataclass
class Step:
    name: str
    kernels: int
    true: list[tuple[int, int, int]] = field(default_factory=list)  # mode, address, bytes


@dataclass
class Run:
    steps: list[Step]
    blocks: dict[str, tuple[int, int]]
    trace: Trace
    output: str

    def pairs(self) -> Iterator[tuple[Step, list[tuple[int, int, int]]]]:
        """Each step with the touches of the operation that the trace has in its place."""
        work = [
            op
            for op in self.trace.operations
            if (op["kind"] in DEVICE_WORK or op["touches"]) and not op["flags"] & 1
        ]
        assert len(work) == len(self.steps)
        for step, op in zip(self.steps, work, strict=True):
            assert op["kernels"] == step.kernels, step.name
            touches = self.trace.touches_of(op)
            yield step, [(int(t["mode"]), int(t["start"]), int(t["bytes"])) for t in touches]


def parse(output: str) -> tuple[list[Step], dict[str, tuple[int, int]]]:
    steps: list[Step] = []
    blocks: dict[str, tuple[int, int]] = {}
    for line in output.splitlines():
        word, *rest = line.split()
        if word == "block":
            blocks[rest[0]] = (int(rest[1]), int(rest[2]))
        elif word == "step":
            steps.append(Step(rest[0], int(rest[1])))
        else:
            mode, address, size = map(int, rest)
            steps[-1].true.append((mode, address, size))
    return steps, blocks


@pytest.fixture(scope="module")
def program(compiled: Compile, emulator_dir: Path) -> Path:
    return compiled("touches", str(emulator_dir / "libcuda.so.1"), parts=["graph"])


@pytest.fixture(scope="module")
def run(
    program: Path,
    run_emulated: RunEmulated,
    tmp_path_factory: pytest.TempPathFactory,
) -> Run:
    path = tmp_path_factory.mktemp("touches") / "trace"
    done = run_emulated([program], {**DEVICES, "ULMS_TRACE": str(path)})
    assert (done.returncode, done.stderr) == (0, "")
    steps, blocks = parse(done.stdout)
    return Run(steps, blocks, read(path), done.stdout)


def covered(start: int, size: int, touches: list[tuple[int, int, int]], mode: int) -> bool:
    """Every byte of the range is in some touch that admits the mode."""
    at = start
    ranges = sorted((s, s + n) for m, s, n in touches if m & mode == mode)
    for low, high in ranges:
        if low <= at < high:
            at = high
    return at >= start + size


def test_same_output_without(run: Run, program: Path, run_emulated: RunEmulated) -> None:
    plain = run_emulated([program], DEVICES, preloaded=False)
    assert plain.returncode == 0
    names = [line for line in plain.stdout.splitlines() if line.startswith("step")]
    assert names == [line for line in run.output.splitlines() if line.startswith("step")]


def test_nothing_is_missed(run: Run) -> None:
    for step, touches in run.pairs():
        if step.name not in HIDDEN:
            for mode, start, size in step.true:
                assert covered(start, size, touches, mode), (step.name, mode, start, size, touches)


def reach(run: Run, touches: list[tuple[int, int, int]]) -> dict[tuple[str, int], tuple[int, int]]:
    """From where to where each block is touched, by block and mode."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for mode, start, size in touches:
        inside = (name for name, (b, n) in run.blocks.items() if b <= start < b + n)
        block = next(inside, "a variable")
        low, high = found.get((block, mode), (start, start + size))
        found[block, mode] = min(low, start), max(high, start + size)
    return found


def test_copies_and_memsets_are_exact(run: Run) -> None:
    exact = 0
    for step, touches in run.pairs():
        if step.kernels == 0 and step.name != "host-function":
            if step.name.startswith(("batch", "words")):  # several in the same blocks
                assert sorted(touches) == sorted(step.true)
            else:
                holed = HOLED.get(step.name)
                assert reach(run, touches) == {
                    (block, UPDATE if mode == WRITE and block == holed else mode): where
                    for (block, mode), where in reach(run, step.true).items()
                }, step.name
            exact += 1
    assert exact >= 30


def test_host_functions_touch_nothing(run: Run) -> None:
    assert [touches for step, touches in run.pairs() if step.name == "host-function"] == [[]]


def test_launches_stay_in_the_blocks_of_their_arguments(run: Run) -> None:
    for step, touches in run.pairs():
        if step.name.startswith("launch"):
            for _, start, size in touches:
                assert any(b <= start and start + size <= b + n for b, n in run.blocks.values())


def test_hidden_pointers_are_known_from_the_copy_that_brought_them(run: Run) -> None:
    behind, size = run.blocks["behind"]
    table, _ = run.blocks["table"]
    tables = {int(row["start"]): row for row in run.trace.tables}
    assert table in tables
    assert len(run.trace.tables) == 2  # the array, and the module's variable
    for pointer in run.trace.table_pointers:
        assert behind <= int(pointer) < behind + size


def test_device_durations(run: Run) -> None:
    timed = {int(r["operation"]) for r in run.trace.retirements}
    work = [op for op in run.trace.operations if op["kind"] in DEVICE_WORK - {OpKind.HOST}]
    ran = [op for op in work if not op["flags"] & 1]
    assert sum(int(op["serial"]) in timed for op in ran) == len(ran)
