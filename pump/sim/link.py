"""What moving a page costs: figures measured on one H200 (PCIe 5 x16), and models made of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from pump.sim.engine import CLEAN, DEAD, FILL, IN_PLACE, IN_PLACE_ALL, KEEP, Move
from pump.sim.sequence import Sequence
from pump.sizes import MIB

PAGE_BYTES = 2 * MIB
"""What memory is counted in, and `um` moves: the driver's own page."""
CALLS = "bench/results/h200-calls.json, beside kernels"
MOVERS = "what fits steps of bench/results/h200-um-one-in-more.json and -um-bar.json"
STEPS = "what fits steps of eight runs: docs/bench.md, Predicted and measured"
FIRST = "first measurements, not kept"
REMAP = "bench/results/h200-remap.json"
BUSY = "bench/results/h200-remap-busy.json"
SYSTEMS = "bench/results/h200-systems.json"
SWEEP = "bench/results/h200-sweep-eight.json"
COPIES = "link_in, link_out of bench/results/h200-vmm-systems.json: 54.9, 54.8"
BOTH = f"{FIRST}; link_both of bench/results/h200-vmm-systems.json is 99.8"


class Figure(NamedTuple):
    """One measured cost; a page is 2 MiB, a handle one page of `vmm`."""

    value: float
    unit: str  # GB/s; us: microseconds; x: times
    what: str
    source: str


FIGURES = {
    "um.in": Figure(40, "GB/s", "prefetch to the device: 52 us a page, the call included", CALLS),
    "um.out": Figure(42, "GB/s", "prefetch to the host, by seven threads", MOVERS),
    "um.both": Figure(52, "GB/s", "beside it one to the device, in sum", MOVERS),
    "um.out-one": Figure(13, "GB/s", "prefetch to the host: 160 us a page, 17 in one call", STEPS),
    "um.both-one": Figure(24.5, "GB/s", "prefetches both ways in one context, in sum", CALLS),
    "um.fault": Figure(9, "GB/s", "kernels fault pages in, as others leave", STEPS),
    "um.call": Figure(2.8, "us", "the least that a call takes", FIRST),
    "um.place": Figure(11, "us", "prefetch of a discarded page", CALLS),
    "um.place-beside": Figure(12, "us", "the same, beside other moves", FIRST),
    "um.discard": Figure(20, "us", "discard of a page in place; one at a time", CALLS),
    "um.discard-beside": Figure(21, "us", "the same, beside other moves", CALLS),
    "um.advise": Figure(100, "us", "advice on a page that lies on the host", CALLS),
    "um.unadvise": Figure(2, "us", "advice taken back, which frees the page", CALLS),
    "vmm.copy": Figure(55, "GB/s", "copy of pinned memory, either way", COPIES),
    "vmm.both": Figure(101, "GB/s", "copies both ways, in sum", BOTH),
    "vmm.swap": Figure(45, "GB/s", "pages that swap, each way, mapped anew", SWEEP),
    "vmm.turn": Figure(5, "us", "between copies to the host of 4 MiB", SYSTEMS),
    "vmm.map": Figure(20, "us", "a handle of the device mapped, and access given", REMAP),
    "vmm.unmap": Figure(25, "us", "it is unmapped, beside copies; 14 alone", REMAP),
    "vmm.map-host": Figure(40, "us", "a handle of the host mapped, and for each MiB", REMAP),
    "vmm.map-host-mib": Figure(10.6, "us", "so much more", REMAP),
    "vmm.unmap-host": Figure(48, "us", "it is unmapped, beside copies, and for each MiB", REMAP),
    "vmm.unmap-host-mib": Figure(7, "us", "so much more", REMAP),
    "vmm.threads": Figure(1.2, "x", "so long where several threads map: 0.9 to 1.6", REMAP),
    "vmm.kernels": Figure(1.4, "x", "so long beside kernels on the device's memory", BUSY),
    "in-place": Figure(51, "GB/s", "kernels read or write host memory in place", FIRST),
    "in-place.each": Figure(42, "GB/s", "the same, each way of both at once", FIRST),
}


def figure(name: str) -> float:
    """A rate in bytes a nanosecond (GB/s), a time in nanoseconds, or a factor. Raises KeyError."""
    row = FIGURES[name]
    return row.value * 1e3 if row.unit == "us" else row.value


class Kind(Enum):
    """What a move does in a part of its time; its bytes apart, nanoseconds of its thread."""

    CALL = "a call of its lane's thread"
    TURN = "it is its lane's turn, and its bytes do not go yet"
    COPY = "its bytes go"
    UNMAP = "a call behind all others that map"
    ACCESS = "a handle is mapped: the same, and behind the copy to the host that is under way"
    TOLD = "the engine is told that it is done"


CALL, TURN, COPY, UNMAP, ACCESS, TOLD = Kind  # Kind.CALL takes Python 3.11 ten times as long


class Part(NamedTuple):
    """A part of a move: nanoseconds, or the bytes of a copy."""

    kind: Kind
    amount: float = 0.0


class Cost(NamedTuple):
    """Nanoseconds a page takes that moves without bytes: alone, and beside another move."""

    alone: float = 0.0
    beside: float = 0.0


FREE = Cost()


@dataclass(frozen=True)
class Handles:
    """A page is a handle: nanoseconds until it is mapped or unmapped, and more for each MiB."""

    map_ns: float = figure("vmm.map") * figure("vmm.threads")
    unmap_ns: float = figure("vmm.unmap")
    map_host_ns: float = figure("vmm.map-host") * figure("vmm.threads")
    map_host_mib_ns: float = figure("vmm.map-host-mib") * figure("vmm.threads")
    unmap_host_ns: float = figure("vmm.unmap-host")
    unmap_host_mib_ns: float = figure("vmm.unmap-host-mib")
    copy_bytes: int = 4 * MIB
    """To the host a run goes in copies of so much at most, one after the other."""
    turn_ns: float = figure("vmm.turn")
    """Between two of them."""
    busy: float = figure("vmm.kernels")
    """So much longer do all calls take, as kernels run beside them."""
    maps_away: bool = True
    """What is away is mapped on the host; else only what is to be used there (`link_for`)."""

    def parts(self, move: Move, page_bytes: int, mapped: int) -> list[Part]:
        """As `csrc/backend/vmm/move.c` does it: copied, unmapped where it was, mapped anew. A dead
        page that leaves stays mapped, as do all that are not mapped on the host. What leaves gives
        up its frame before the host's is mapped. `mapped`: so many that come are not mapped there.
        """
        pages, mib = move.bytes // page_bytes, page_bytes / MIB
        dead, clean = move.flags & DEAD, move.flags & CLEAN
        map_ns, unmap_ns = self.busy * self.map_ns, self.busy * self.unmap_ns
        map_host_ns = self.busy * (self.map_host_ns + mib * self.map_host_mib_ns)
        unmap_host_ns = self.busy * (self.unmap_host_ns + mib * self.unmap_host_mib_ns)
        if move.kind == FILL:
            away_ns = unmap_host_ns if self.maps_away and not dead else unmap_ns
            copy = [] if dead else [Part(COPY, move.bytes)]
            access = [Part(ACCESS, map_ns)] * mapped
            return [*copy, Part(UNMAP, mapped * away_ns), *access, Part(TOLD)]
        if dead:
            return [Part(TOLD)]
        starts = [] if clean else range(0, move.bytes, self.copy_bytes)
        sizes = [min(self.copy_bytes, move.bytes - start) for start in starts]
        turn = Part(TURN, self.turn_ns)
        copies = [part for size in sizes for part in (turn, Part(COPY, size))]
        if not self.maps_away and not move.flags & IN_PLACE:
            return [*copies, Part(TOLD)]
        unmap = Part(UNMAP, pages * unmap_ns)
        access = [Part(ACCESS, map_host_ns)] * pages
        return [*copies, unmap, Part(TOLD), *access]


@dataclass(frozen=True)
class Link:
    """Rates in bytes a nanosecond (GB/s), times in nanoseconds."""

    name: str
    rate_in: float
    rate_out: float
    rate_both: float  # in sum, while bytes go both ways
    rate_fault: float  # what kernels bring by touching it; 0: they cannot
    rate_read: float = figure("in-place")  # kernels read host memory in place
    rate_update: float = figure("in-place.each")  # and write it: each way
    in_place: int = IN_PLACE_ALL  # what kernels may use in place
    call_ns: float = 0.0  # a move costs this before anything else
    place: Cost = FREE  # a dead page comes
    discard: Cost = FREE  # a dead page leaves
    drop_ns: float = 0.0  # a page leaves that the host has, too
    keep_ns: float = 0.0  # a page comes in such a way that the host has it, too: before its bytes
    handles: Handles | None = None  # pages are mapped anew; else only what is above costs
    page_bytes: int = PAGE_BYTES
    run_bytes: int = 32 * MIB
    movers: tuple[int, int] = (1, 1)  # moves under way, in and out: calls, while others' bytes go
    ahead_bytes: int = 64 * MIB
    keeps: bool = True
    note: str = ""  # what to keep in mind about it
    ordered: "Link | None" = None  # where the program's thread issues moves; None: likewise

    def under(self, held: bool) -> "Link":
        """For a policy that holds operations until their pages are here, or one that does not."""
        return self if held or not self.ordered else self.ordered

    def rates(self, both: bool) -> tuple[float, float]:
        """In and out. Both ways at once each gets half, or what the other leaves of it."""
        if not both:
            return self.rate_in, self.rate_out
        half = self.rate_both / 2
        rate_in = min(self.rate_in, max(half, self.rate_both - self.rate_out))
        return rate_in, min(self.rate_out, self.rate_both - rate_in)

    @staticmethod
    def carried(move: Move) -> int:
        """Bytes that go over the link."""
        return 0 if move.flags & (DEAD | CLEAN) else move.bytes

    def parts(self, move: Move, beside: bool, mapped: int = 0) -> list[Part]:
        """What a move does, in order. `beside`: the other lane is busy when it begins; `mapped`: so
        many pages of a fill get other frames than those that they are mapped at.
        """
        if self.handles:
            return self.handles.parts(move, self.page_bytes, mapped)
        pages, call_ns = move.bytes // self.page_bytes, self.call_ns
        if move.flags & DEAD:
            cost = self.place if move.kind == FILL else self.discard
            call_ns += pages * (cost.beside if beside else cost.alone)
        elif move.flags & CLEAN:
            call_ns += pages * self.drop_ns
        elif move.flags & KEEP:
            call_ns += pages * self.keep_ns
        copy = Part(COPY, self.carried(move))
        return [Part(CALL, call_ns), copy, Part(TOLD)]


COMPARED = 'docs/bench.md, "Predicted and measured", says how near steps came'
"""Without figures of its own, which would not be those of that page for long."""
# Managed memory: cuMemPrefetchAsync in one context, and the driver's faults.
UM_ONE = Link(
    "um",
    rate_in=figure("um.in"),
    rate_out=figure("um.out-one"),
    rate_both=figure("um.both-one"),
    rate_fault=figure("um.fault"),
    call_ns=figure("um.call"),
    place=Cost(figure("um.place"), figure("um.place-beside")),
    discard=Cost(figure("um.discard"), figure("um.discard-beside")),
    drop_ns=figure("um.unadvise"),
    keep_ns=figure("um.advise"),
    note=f"as measured on an H200; {COMPARED}",
)


def with_contexts(one: Link) -> Link:
    """One thread brings pages, seven take them away, each with a context of its own. The driver
    discards for one of them at a time. That a fill is under way until its bytes are there, whose
    calls take as long, is what fits, not how it is done. `one`: all share a context.
    """
    return replace(
        one,
        rate_out=figure("um.out"),
        rate_both=figure("um.both"),
        movers=(1, 7),
        ordered=one,
        note=f"made from steps of four programs on an H200; {COMPARED}",
    )


UM = with_contexts(UM_ONE)
# Handles mapped anew, while the bytes of others go: a lane has three threads.
VMM = Link(
    "vmm",
    rate_in=figure("vmm.copy"),
    rate_out=figure("vmm.copy"),
    rate_both=figure("vmm.both"),
    rate_fault=0,
    handles=Handles(),
    page_bytes=8 * MIB,
    run_bytes=16 * MIB,
    movers=(3, 3),
    ahead_bytes=32 * MIB,
    note=f"maps what is away where kernels may use it; {COMPARED}",
)
VMM_KNOWN = replace(
    VMM,
    name="vmm-known",
    handles=Handles(maps_away=False),
    note=f"maps nothing that is away; {COMPARED}",
)
LINKS = {link.name: link for link in (UM, VMM, VMM_KNOWN)}
"""Of the backends, by the names of the systems that compare them: for programs with kernels that
are not trusted.
"""


def link_for(name: str, sequence: Sequence, links: Mapping[str, Link] = LINKS) -> Link:
    """A backend's model for a program: `vmm` maps what is away only for kernels that are not
    trusted. Raises KeyError.
    """
    link = links[name]
    if name == VMM.name and sequence.trusted:
        return replace(link, handles=links[VMM_KNOWN.name].handles)
    return link
