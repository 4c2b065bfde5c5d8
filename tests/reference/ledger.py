"""The ledger in plain Python."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sortedcontainers import SortedDict


class Range(NamedTuple):
    """[start, end) of an allocation, a block or a pointer table."""

    start: int
    end: int


PENDING_WAYS = 4
JOINED_MOST = 256
"""In an allocation."""


def pending_place(start: int) -> int:
    """As csrc/ledger/pending.c has it: among 2048 lines, the golden ratio's product decides."""
    return ((start >> 9) * 0x9E3779B97F4A7C15 & (1 << 64) - 1) >> (64 - 11)


@dataclass
class Block:
    """How far a block goes, and who told it; if nobody did, its start was observed."""

    end: int
    framework: bool = False
    library: bool = False


@dataclass
class Allocation:
    end: int
    id: int
    charged: int
    device: int
    divided: bool = False  # by the framework, into blocks
    captured: bool = False  # a capture was given some of it: used as a whole from then on
    joined: int = 0  # observed blocks that calls used as one with others


@dataclass
class Table:
    end: int
    pointers: frozenset[int]
    copy: int  # its number


@dataclass
class Reference:
    """The ledger in plain words. Values of the dictionaries go by the start of their range."""

    limit: int
    """Bytes a device may hold."""
    allocations: Any = field(default_factory=SortedDict)
    blocks: Any = field(default_factory=SortedDict)
    pending: dict[int, list[Range]] = field(default_factory=lambda: defaultdict(list))
    """Blocks told later, by their places."""
    tables: Any = field(default_factory=SortedDict)
    copies: int = 0
    sure: set[int] = field(default_factory=set)
    """Copies of which nothing may have been overwritten but what is forgotten."""
    used: dict[int, int] = field(default_factory=lambda: {0: 0, 1: 0})
    peak: dict[int, int] = field(default_factory=lambda: {0: 0, 1: 0})

    @staticmethod
    def around(ranges: Any, p: int) -> int | None:
        """The start of the range that holds p."""
        index = ranges.bisect_right(p) - 1
        if index < 0:
            return None
        start, found = ranges.peekitem(index)
        return int(start) if p < found.end else None

    @staticmethod
    def within(ranges: Any, r: Range) -> list[int]:
        """The starts of the ranges that overlap r, in order."""
        return [start for start, found in ranges.items() if start < r.end and r.start < found.end]

    def reserve(self, device: int, size: int) -> bool:
        if self.used[device] + size > self.limit:
            return False
        self.charge(device, size)
        return True

    def charge(self, device: int, size: int) -> None:
        self.used[device] += size
        self.peak[device] = max(self.peak[device], self.used[device])

    def remove(self, start: int) -> Allocation:
        self.enter_pending()
        gone: Allocation = self.allocations.pop(start)
        self.used[gone.device] -= gone.charged
        for block in self.within(self.blocks, Range(start, gone.end)):
            del self.blocks[block]
        self.forget_tables(Range(start, gone.end))
        return gone

    def make_room(self, r: Range) -> None:
        for start in self.within(self.blocks, r):
            if start < r.start and not self.blocks[start].framework:
                self.blocks[start].end = r.start
            else:
                del self.blocks[start]

    def block_add_later(self, r: Range) -> None:
        """A line holds four blocks: the oldest is told when one more comes."""
        line = self.pending[pending_place(r.start)]
        self.forget_tables(r)
        line.append(r)
        if len(line) > PENDING_WAYS:
            self.enter(line.pop(0))

    def waiting(self) -> list[Range]:
        """The blocks of all lines."""
        return [r for line in self.pending.values() for r in line]

    def enter_pending(self) -> None:
        """Before anybody looks."""
        for r in self.waiting():
            self.enter(r)
        self.pending.clear()

    def told(self) -> int:
        """Blocks that the framework told of and did not take back."""
        known: int = sum(block.framework for block in self.blocks.values())
        return known + len(self.waiting())

    def lives_within(self, r: Range) -> bool:
        """Whether one of them overlaps r."""
        known = any(self.blocks[start].framework for start in self.within(self.blocks, r))
        return known or any(p.start < r.end and r.start < p.end for p in self.waiting())

    def block_add(self, r: Range) -> None:
        self.forget_tables(r)
        self.enter(r)

    def enter(self, r: Range) -> None:
        self.make_room(r)
        self.blocks[r.start] = Block(r.end, framework=True)
        at = r.start
        while at < r.end and (start := self.around(self.allocations, at)) is not None:
            self.allocations[start].divided = True
            at = self.allocations[start].end

    def block_captured(self, r: Range) -> None:
        self.enter_pending()
        at = r.start
        while at < r.end and (start := self.around(self.allocations, at)) is not None:
            allocation = self.allocations[start]
            for block in self.within(self.blocks, Range(start, allocation.end)):
                if not self.blocks[block].framework:
                    del self.blocks[block]
            allocation.captured = True
            at = allocation.end
        self.block_add(r)

    def block_remove(self, start: int) -> bool:
        """Whether the framework told of one there."""
        line = self.pending[pending_place(start)]
        for r in line:
            if r.start == start:
                line.remove(r)
                self.forget_tables(r)
                return True
        if not self.blocks[start].framework:
            return False
        self.forget_tables(Range(start, self.blocks.pop(start).end))
        return True

    def block_tell(self, r: Range) -> int:
        """The id of the allocation that holds the start; 0 when none does."""
        self.enter_pending()
        allocation = self.around(self.allocations, r.start)
        if allocation is None:
            return 0
        held = self.allocations[allocation]
        block = self.around(self.blocks, r.start)
        larger = (
            block is not None and self.blocks[block].library and r.end <= self.blocks[block].end
        )
        told = any(self.blocks[start].framework for start in self.within(self.blocks, r))
        if not larger and not told and r.end <= held.end and not held.captured:
            self.make_room(r)
            self.blocks[r.start] = Block(r.end, library=True)
        return int(held.id)

    def extent(self, p: int, sources: Any, *, captured: bool) -> tuple[int, int, int, int] | None:
        """Start, bytes, allocation and source around p; notes p. captured: in a capture."""
        self.enter_pending()
        start = self.around(self.allocations, p)
        if start is None:
            return None
        allocation = self.allocations[start]
        block = self.around(self.blocks, p)
        is_told = block is not None and (self.blocks[block].framework or self.blocks[block].library)
        if allocation.captured and not (is_told and captured):
            return start, allocation.end - start, allocation.id, sources.SOURCE_ALLOCATION
        if block is not None and is_told:
            told = self.blocks[block]
            source = sources.SOURCE_FRAMEWORK if told.framework else sources.SOURCE_LIBRARY
            return block, told.end - block, allocation.id, source
        if allocation.divided:
            return None
        if block is None:
            ends = (self.blocks[b].end for b in self.blocks if self.blocks[b].end <= p)
            low = max(start, max(ends, default=0))
            high = min([allocation.end, *(b for b in self.blocks if b > p)])
        else:
            low, high = block, self.blocks[block].end
        whole = block is None and (low, high) == (start, allocation.end)
        if p % 16 == 0 and not (whole and p == start):
            if block is not None:
                self.blocks[block].end = p
            self.blocks[p] = Block(high)
            low, whole = p, False
        source = sources.SOURCE_ALLOCATION if whole else sources.SOURCE_OBSERVED
        return low, high - low, allocation.id, source

    def unsplit(self, r: Range) -> None:
        """Starts observed inside of r, in one allocation with its start, split it no more."""
        start = self.around(self.allocations, r.start)
        if start is None:
            return
        allocation = self.allocations[start]
        for p in [p for p in self.blocks if r.start < p < min(r.end, allocation.end)]:
            one = self.blocks[p]
            if one.framework or one.library or allocation.joined == JOINED_MOST:
                continue
            del self.blocks[p]
            allocation.joined += 1
            before = self.around(self.blocks, p - 1)
            if before is None or before < start or self.blocks[before].end != p:
                continue
            if not (self.blocks[before].framework or self.blocks[before].library):
                self.blocks[before].end = one.end

    def forget_tables(self, r: Range) -> None:
        for start in self.within(self.tables, r):
            table = self.tables.pop(start)
            if start < r.start:
                self.tables[start] = Table(r.start, table.pointers, table.copy)
            if table.end > r.end:
                self.tables[r.end] = Table(table.end, table.pointers, table.copy)

    def table_set(self, r: Range, pointers: frozenset[int]) -> None:
        self.forget_tables(r)
        if pointers:
            self.copies += 1
            self.sure.add(self.copies)
            self.tables[r.start] = Table(r.end, pointers, self.copies)

    def doubt_tables(self, r: Range) -> None:
        self.sure -= {self.tables[start].copy for start in self.within(self.tables, r)}

    def table_sure(self, r: Range) -> bool:
        """Each byte was copied there, and no copy of them is doubted."""
        at = r.start
        for start in self.within(self.tables, r):
            table = self.tables[start]
            if start > at or table.copy not in self.sure:
                return False
            at = table.end
        return at >= r.end

    def table_find(self, r: Range) -> set[int]:
        found = (self.tables[start].pointers for start in self.within(self.tables, r))
        return set().union(*found)
