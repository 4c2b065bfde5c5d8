"""Programs that share a GPU in virtual time: what can be worked out by hand, and bars."""

import json
from pathlib import Path

import pytest

from pump import cli
from pump.sim.peers import brokered, paged, swapped
from pump.sim.resident import PAGE_BYTES, Program, Resident, Work, decoder, recorded, training
from pump.sim.sequence import read_sequence
from pump.sim.tenants import Machine
from pump.sizes import GIB

pytestmark = [pytest.mark.unit, pytest.mark.slow]

S = 1_000_000_000
RATE = 45 * S
MACHINE = Machine(RATE, together=0.9)
SLOW = 4e11  # bytes a second, of a decoder: fewer tokens to play


def test_who_is_touched_last_leaves_first() -> None:
    sweep = Resident(Program("sweep", tuple(Work(1, (page,)) for page in range(4))))
    for page in range(4):
        sweep.fill(page)
        sweep.came(page)
    sweep.dirty.add(1)
    assert sweep.farthest(at=2) == 1
    assert sweep.farthest(at=2, pinned=(1,)) == 0
    assert sweep.evict(1)
    assert not sweep.evict(0)
    assert sweep.holds == 3 * PAGE_BYTES
    sweep.gone(1)
    assert list(sweep.absent(at=3)) == [0, 1]


def test_whole_processes_wait_for_all_their_bytes() -> None:
    """A turn of T brings W bytes before it begins."""
    program = decoder(8 * S, SLOW)
    run = swapped(MACHINE, [program] * 3, 16 * GIB, S // 2, 4 * S)
    wait_s = program.need / RATE
    assert run.total == pytest.approx(0.5 / (0.5 + wait_s), abs=0.03)
    assert run.moved_out == 0


def test_a_sweep_finds_nothing_of_its_own_among_pages_used_last() -> None:
    program = decoder(8 * S, SLOW)
    alone, brings = program.need / SLOW, program.need / RATE
    assert paged([program] * 3, 16 * GIB, RATE) == pytest.approx(alone / (alone + brings), rel=0.01)
    assert paged([program] * 2, 16 * GIB, RATE) == 1.0


@pytest.mark.parametrize(("count", "bar"), [(3, 0.80), (6, 0.74)])
def test_decoders_that_do_not_fit(count: int, bar: float) -> None:
    run = brokered(MACHINE, [decoder(8 * S, SLOW)] * count, 16 * GIB, S // 2, 6 * S)
    assert run.total > bar
    assert run.total > 0.95, "two fit, so the next one's pages come beside the turn"
    assert min(run.parts) > 0.7 / count


def test_two_trainings_of_which_one_fits() -> None:
    program = training(int(0.95 * 8 * GIB), S // 2)
    run = brokered(MACHINE, [program] * 2, 8 * GIB, 2 * S, 8 * S)
    switch = 2 * program.need - 8 * GIB
    assert 1 / run.total <= 1 + 1.15 * (switch / RATE) / 2
    assert run.moved_in <= run.span_ns / (2 * S) * 1.05 * switch


@pytest.mark.parametrize(("together", "turns"), [(0.9, True), (1.1, False)])
def test_without_thrash_turns_are_taken_if_they_are_faster(together: float, turns: bool) -> None:
    """Slow steps: what comes again takes little of the link's time."""
    programs = [training(int(0.95 * 8 * GIB), 2 * S)] * 2
    run = brokered(Machine(RATE, together), programs, 8 * GIB, 0, 12 * S)
    assert run.total > (0.95 if turns else 1.05)


def test_copies_of_a_recorded_step_are_played_by_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "two.seq"
    size = 40 * PAGE_BYTES
    path.write_text(
        "pump-sequence 1\n"
        f"block a {PAGE_BYTES:x} {size:x}\nblock b1 {100 * PAGE_BYTES:x} {size:x}\n"
        "live a b1\nstep\no 1 300000 ar\no 2 300000 ar b1u\no 3 60000000 b1r\n"
    )
    program = recorded("two", read_sequence(path))
    assert [work.duration_ns for work in program.work] == [600_000, 60_000_000]
    assert program.need == 2 * size
    assert len(program.work[0].writes) == 40
    command = ["sim", "--tenants", "2", "--over", "1.3", "--json", str(path)]
    assert cli.main(command) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["way"] for row in rows] == ["fault", "swap", "broker"]
    fault, swap, broker = (row["total"] for row in rows)
    assert broker > swap > fault > 0.1
