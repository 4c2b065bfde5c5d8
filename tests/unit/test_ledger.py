"""The compiled ledger against a plain one, and its quota under threads.

The library is compiled here from `csrc/ledger`, which hides nothing then, and the built core.
"""

import random
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cffi import FFI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.conftest import BUILD  # noqa: E402
from tests.reference.ledger import Allocation, Range, Reference  # noqa: E402

CSRC = ROOT / "csrc"

LIMIT = 0x3000
"""Bytes a device may hold in the state machine."""

ffi = FFI()


def declarations() -> str:
    """What cffi needs of the headers: all but the preprocessor's lines."""
    text = "".join((CSRC / name).read_text() for name in ("types.h", "ledger/ledger.h"))
    return re.sub(r"^#.*$", "", text, flags=re.MULTILINE)


@pytest.fixture(scope="session")
def core(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The ledger as a cffi library."""
    path = str(tmp_path_factory.mktemp("core") / "libledger.so")
    command = ["cc", "-std=gnu11", "-O2", "-g", "-fPIC", "-shared", "-pthread", f"-I{CSRC}"]
    sources = [*sorted((CSRC / "ledger").glob("*.c")), BUILD / "libcore_static.a"]
    subprocess.run([*command, *map(str, sources), "-o", path], check=True)
    ffi.cdef(declarations())
    return ffi.dlopen(path)


WORLD = 0x10000
"""Addresses in play: few, so that ranges meet."""
addresses = st.integers(1, WORLD)
rough = st.integers(1, WORLD // 0x400).map(lambda n: n * 0x400)
aligned = st.one_of(st.integers(1, WORLD // 16).map(lambda n: n * 16), rough)
sizes = st.one_of(st.integers(1, 0x2000), st.integers(1, 13).map(lambda n: n * 0x400))
devices = st.sampled_from([0, 1])
indexes = st.integers(0, 1 << 16)


class LedgerMachine(RuleBasedStateMachine):
    """Does the same to both, and compares every answer."""

    lib: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.ledger = self.lib.ledger_new()
        for device in (0, 1):
            self.lib.ledger_limit(self.ledger, device, LIMIT)
        self.model = Reference(LIMIT)
        self.last_id = 0

    def teardown(self) -> None:
        self.extents_along(1, 61)
        self.lib.ledger_check(self.ledger)
        self.lib.ledger_delete(self.ledger)

    @rule(start=aligned, size=sizes, device=devices)
    def allocate(self, start: int, size: int, device: int) -> None:
        reserved = self.model.reserve(device, size)
        assert self.lib.ledger_reserve(self.ledger, device, size) == reserved
        if not reserved:
            return
        self.lib.ledger_commit(self.ledger, device, size)
        fields = {"start": start, "bytes": size, "charged": size, "device": device}
        told: Any = ffi.new("struct allocation *", fields)
        got = self.lib.ledger_add(self.ledger, told)
        if self.model.within(self.model.allocations, Range(start, start + size)):
            assert got == told.id == 0
            self.lib.ledger_credit(self.ledger, device, size)
            self.model.used[device] -= size
        else:
            self.last_id += 1
            assert got == told.id == self.last_id
            allocation = Allocation(start + size, self.last_id, size, device)
            self.model.allocations[start] = allocation

    @rule(index=indexes, refused=st.booleans())
    def free(self, index: int, refused: bool) -> None:
        """Frees a live allocation; when the driver refuses, it is put back, without its blocks."""
        if not self.model.allocations:
            return
        start = self.model.allocations.keys()[index % len(self.model.allocations)]
        expected = self.model.remove(start)
        gone: Any = ffi.new("struct allocation *")
        assert self.lib.ledger_remove(self.ledger, start, gone)
        assert (gone.start, gone.start + gone.bytes) == (start, expected.end)
        assert (gone.id, gone.charged) == (expected.id, expected.charged)
        if refused:
            self.lib.ledger_restore(self.ledger, gone)
            self.model.allocations[start] = replace(expected, divided=False, captured=False)
            self.model.charge(expected.device, expected.charged)
        else:
            self.lib.ledger_freed(self.ledger, gone)

    @rule(p=addresses)
    def free_what_does_not_start_there(self, p: int) -> None:
        if p not in self.model.allocations:
            assert not self.lib.ledger_remove(self.ledger, p, ffi.NULL)
            self.model.enter_pending()  # who asks looks, whatever is found

    @rule(start=aligned, size=sizes)
    def block_add(self, start: int, size: int) -> None:
        self.lib.ledger_block_add(self.ledger, start, size)
        self.model.block_add(Range(start, start + size))

    @rule(start=aligned, size=sizes)
    def block_captured(self, start: int, size: int) -> None:
        self.lib.ledger_block_captured(self.ledger, start, size)
        self.model.block_captured(Range(start, start + size))

    @rule(start=aligned, size=sizes)
    def block_add_later(self, start: int, size: int) -> None:
        r = Range(start, start + size)
        if not self.model.lives_within(r):
            assert self.lib.ledger_block_add_later(self.ledger, start, size)
            self.model.block_add_later(r)

    @rule(start=aligned, size=sizes)
    def block_tell(self, start: int, size: int) -> None:
        expected = self.model.block_tell(Range(start, start + size))
        assert self.lib.ledger_block_tell(self.ledger, start, size) == expected

    @rule(start=aligned, step=st.integers(1, 4), count=st.integers(1, 300))
    def block_row(self, start: int, step: int, count: int) -> None:
        """Enough blocks to fill and split the ledger's chunks."""
        for i in range(count):
            self.block_add(start + 16 * step * i, 16)

    @rule(index=indexes, count=st.integers(1, 200))
    def block_remove(self, index: int, count: int) -> None:
        starts = [*self.model.blocks, *(r.start for r in self.model.waiting())]
        for start in starts[index % len(starts) :][:count] if starts else []:
            if count % 2:
                assert self.lib.ledger_block_remove_later(self.ledger, start)
                self.model.block_remove(start)
            else:
                found = self.lib.ledger_block_remove(self.ledger, start)
                assert found == self.model.block_remove(start)

    @rule(p=st.one_of(addresses, aligned), captured=st.booleans())
    def extent(self, p: int, captured: bool = False) -> None:
        touch: Any = ffi.new("struct touch *")
        look = self.lib.ledger_extent_captured if captured else self.lib.ledger_extent
        found = look(self.ledger, p, touch)
        expected = self.model.extent(p, self.lib, captured=captured)
        assert found == (expected is not None)
        if found:
            assert (touch.start, touch.bytes, touch.allocation, touch.source) == expected

    @rule(start=st.one_of(addresses, aligned), size=sizes)
    def unsplit(self, start: int, size: int) -> None:
        self.lib.ledger_unsplit(self.ledger, start, size)
        self.model.unsplit(Range(start, start + size))

    @rule(start=addresses, step=st.integers(50, 500))
    def extents_along(self, start: int, step: int) -> None:
        for p in range(start, WORLD, step * 8):
            self.extent(p)

    @rule(start=aligned, size=sizes, first=addresses, count=st.integers(0, 40))
    def table_set(self, start: int, size: int, first: int, count: int) -> None:
        pointers = range(first, first + 8 * count, 8)
        held = ffi.new("addr_t[]", list(pointers))
        self.lib.ledger_table_set(self.ledger, start, size, held, count)
        self.model.table_set(Range(start, start + size), frozenset(pointers))

    @rule(start=st.one_of(addresses, aligned), size=sizes)
    def table_find(self, start: int, size: int) -> None:
        expected = self.model.table_find(Range(start, start + size))
        count = self.lib.ledger_table_find(self.ledger, start, size, ffi.NULL, 0)
        found: Any = ffi.new("addr_t[]", count)
        assert self.lib.ledger_table_find(self.ledger, start, size, found, count) == count
        assert set(found) == expected

    @rule(start=st.one_of(addresses, aligned), size=sizes)
    def table_sure(self, start: int, size: int) -> None:
        expected = self.model.table_sure(Range(start, start + size))
        assert self.lib.ledger_table_sure(self.ledger, start, size) == expected

    @rule(start=st.one_of(addresses, aligned), size=sizes, mode=st.integers(1, 4))
    def tables_touched(self, start: int, size: int, mode: int) -> None:
        touch: Any = ffi.new("struct touch *", {"start": start, "bytes": size, "mode": mode})
        self.lib.ledger_tables_touched(self.ledger, touch, 1)
        if mode == self.lib.TOUCH_UPDATE:
            self.model.doubt_tables(Range(start, start + size))
        elif mode != self.lib.TOUCH_READ:
            self.model.forget_tables(Range(start, start + size))

    @rule()
    def tables_doubt(self) -> None:
        self.lib.ledger_tables_doubt(self.ledger)
        self.model.sure.clear()

    @rule(p=addresses)
    def find(self, p: int) -> None:
        out: Any = ffi.new("struct allocation *")
        found = self.lib.ledger_find(self.ledger, p, out)
        start = self.model.around(self.model.allocations, p)
        assert found == (start is not None)
        if found:
            assert (out.start, out.id) == (start, self.model.allocations[start].id)
            assert self.lib.ledger_may_hold(self.ledger, p)

    @rule(start=addresses, room=st.integers(0, 5))
    def listed(self, start: int, room: int) -> None:
        out: Any = ffi.new("struct allocation[]", room)
        count = self.lib.ledger_list(self.ledger, start, out, room)
        expected = list(self.model.allocations.irange(start))[:room]
        assert [out[i].start for i in range(count)] == expected

    @invariant()
    def sums_agree(self) -> None:
        self.lib.ledger_check(self.ledger)
        assert self.lib.ledger_allocations(self.ledger) == len(self.model.allocations)
        assert self.lib.ledger_blocks(self.ledger) == self.model.told()
        assert self.lib.ledger_any_table(self.ledger) == bool(self.model.tables)
        self.table_find(1, 2 * WORLD)
        for start, table in self.model.tables.items():
            self.table_sure(start, table.end - start)
        for device in (0, 1):
            assert self.lib.ledger_used(self.ledger, device) == self.model.used[device]
            assert self.lib.ledger_peak(self.ledger, device) == self.model.peak[device]


@pytest.mark.unit
@pytest.mark.slow
def test_the_ledger_equals_the_reference(core: Any) -> None:
    LedgerMachine.lib = core
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    run = settings(max_examples=8, stateful_step_count=80, suppress_health_check=slow)
    run_state_machine_as_test(LedgerMachine, settings=run)


@pytest.mark.unit
@pytest.mark.slow
@settings(max_examples=4)
@given(seed=st.integers(0, 1 << 32), framework=st.booleans())
def test_a_long_life_equals_the_reference(core: Any, seed: int, framework: bool) -> None:
    """The same operations, thousands of them close together: what short runs miss. Where no
    framework tells of blocks, observed pointers last.
    """
    LedgerMachine.lib = core
    machine = LedgerMachine()
    dice = random.Random(seed)
    for _ in range(2000):
        rough = dice.random() < 0.7
        start = dice.randrange(1, 64) * 0x400 if rough else dice.randrange(1, WORLD // 16) * 16
        size = dice.randrange(1, 14) * 0x400 if rough else dice.randrange(1, 0x2000)
        number = dice.randrange(1 << 16)
        operations: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
            (machine.allocate, (start, size, number % 2)),
            (machine.free, (number, number % 5 == 0)),
            (machine.block_add, (start, size)),
            (machine.block_captured, (start, size)),
            (machine.block_add_later, (start, size)),
            (machine.block_tell, (start, size)),
            (machine.block_row, (start, 1, number % 80)),
            (machine.block_remove, (number, number % 90)),
            (machine.extent, (start, number % 4 == 0)),
            (machine.unsplit, (start, size)),
            (machine.table_set, (start, size, number, number % 40)),
            (machine.table_find, (start, size)),
            (machine.table_sure, (start, size)),
            (machine.tables_touched, (start, size, 1 + number % 4)),
            (machine.tables_doubt, ()),
            (machine.find, (start,)),
        ]
        told = [3, 0.2, 6, 4, 1, 1] if framework else [0] * 6
        weights = [4, 2, *told, 9, 3, 6, 3, 3, 2, 1, 1]
        act, arguments = dice.choices(operations, weights)[0]
        act(*arguments)
        machine.sums_agree()
    machine.teardown()


programs = st.lists(
    st.lists(st.integers(-20, 600), min_size=1, max_size=60), min_size=2, max_size=6
)


@pytest.mark.unit
@pytest.mark.slow
@settings(max_examples=60)
@given(limit=st.integers(0, 1500), programs=programs)
def test_threads_together_never_pass_the_limit(
    core: Any, limit: int, programs: list[list[int]]
) -> None:
    """Each thread reserves its numbers; a negative one gives back what it reserved last."""
    ledger = core.ledger_new()
    core.ledger_limit(ledger, 0, limit)
    held: list[list[int]] = [[] for _ in programs]
    seen: list[int] = []
    together = threading.Barrier(len(programs) + 1)
    finished = threading.Event()

    def play(numbers: list[int], mine: list[int]) -> None:
        together.wait()
        for number in numbers:
            if number >= 0 and core.ledger_reserve(ledger, 0, number):
                core.ledger_commit(ledger, 0, number)
                mine.append(number)
            elif number < 0 and mine:
                core.ledger_credit(ledger, 0, mine.pop())

    def watch() -> None:
        together.wait()
        while not finished.is_set():
            seen.append(core.ledger_used(ledger, 0))

    watcher = threading.Thread(target=watch)
    players = [
        threading.Thread(target=play, args=pair) for pair in zip(programs, held, strict=True)
    ]
    for thread in (watcher, *players):
        thread.start()
    for thread in players:
        thread.join()
    finished.set()
    watcher.join()
    total = sum(map(sum, held))
    assert core.ledger_used(ledger, 0) == total
    assert core.ledger_peak(ledger, 0) >= max([total, *seen])
    if limit > 0:
        assert core.ledger_peak(ledger, 0) <= limit
    core.ledger_delete(ledger)
