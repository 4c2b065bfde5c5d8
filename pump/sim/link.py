"""What moving a page costs: figures measured on one H200 (PCIe 5 x16), and models made of them."""

from dataclasses import dataclass
from typing import NamedTuple

from pump.sim.engine import CLEAN, DEAD, FILL, IN_PLACE_ALL, KEEP, Move
from pump.sizes import MIB

CALLS = "seen with `python -m bench.gpu.calls`, not kept yet"
FIRST = "first measurements, not kept"


class Figure(NamedTuple):
    """One measured cost; a page is 2 MiB."""

    value: float
    unit: str  # GB/s, or us: microseconds
    what: str
    source: str


FIGURES = {
    "um.in": Figure(47, "GB/s", "prefetch to the device: 44 us a page, the call included", CALLS),
    "um.out": Figure(23, "GB/s", "prefetch to the host: 90 us a page, the call included", CALLS),
    "um.both": Figure(40, "GB/s", "prefetches both ways, in sum", FIRST),
    "um.fault": Figure(14, "GB/s", "kernels fault pages in", FIRST),
    "um.call": Figure(2.8, "us", "the least that a call takes", FIRST),
    "um.place": Figure(4, "us", "prefetch of a discarded page", CALLS),
    "um.place-beside": Figure(12, "us", "the same, beside other moves", CALLS),
    "um.discard": Figure(7, "us", "discard of a page in place", CALLS),
    "um.discard-beside": Figure(27, "us", "the same, beside other moves: 21 to 34", CALLS),
    "um.advise": Figure(89, "us", "advice on a page that lies on the host: 84 to 94", CALLS),
    "um.unadvise": Figure(2, "us", "advice taken back, which frees the page", CALLS),
    "vmm.copy": Figure(55, "GB/s", "copy of pinned memory, either way", FIRST),
    "vmm.both": Figure(101, "GB/s", "copies both ways, in sum", FIRST),
    "vmm.map": Figure(29, "us", "a handle of 16 MiB mapped, and access given", FIRST),
    "vmm.unmap": Figure(17, "us", "a handle of 16 MiB unmapped", FIRST),
    "vmm-pages.in": Figure(45, "us", "a page: host's unmapped, device's mapped, access", FIRST),
    "vmm-pages.out": Figure(53, "us", "a page: device's unmapped, host's mapped, access", FIRST),
    "vmm-pages.both": Figure(29, "GB/s", "swap of pages both ways, in sum, all mapped", FIRST),
    "in-place": Figure(51, "GB/s", "kernels read or write host memory in place", FIRST),
    "in-place.each": Figure(42, "GB/s", "the same, each way of both at once", FIRST),
}


def figure(name: str) -> float:
    """A rate in bytes a nanosecond (GB/s), or a time in nanoseconds. Raises KeyError."""
    row = FIGURES[name]
    return row.value * 1e3 if row.unit == "us" else row.value


class Cost(NamedTuple):
    """Nanoseconds a page takes that moves without bytes: alone, and beside another move."""

    alone: float = 0.0
    beside: float = 0.0


FREE = Cost()


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
    fill_ns: float = 0.0  # a move costs this before anything else
    evict_ns: float = 0.0
    place: Cost = FREE  # a dead page comes
    discard: Cost = FREE  # a dead page leaves
    drop_ns: float = 0.0  # a page leaves that the host has, too
    keep_ns: float = 0.0  # a page comes in such a way that the host has it, too: before its bytes
    page_bytes: int = 2 * MIB
    run_bytes: int = 32 * MIB
    call_bytes: int = 32 * MIB  # that a call covers
    movers: int = 1  # moves under way in a lane: one is set up while another's bytes go
    ahead_bytes: int = 64 * MIB
    keeps: bool = True
    note: str = ""  # what to keep in mind about it

    def rates(self, both: bool) -> tuple[float, float]:
        """In and out. Both ways at once each gets half, or what the other leaves of it."""
        if not both:
            return self.rate_in, self.rate_out
        half = self.rate_both / 2
        rate_in = min(self.rate_in, max(half, self.rate_both - self.rate_out))
        return rate_in, min(self.rate_out, self.rate_both - rate_in)

    def cost(self, move: Move, beside: bool) -> tuple[float, int]:
        """Nanoseconds before the bytes, and how many bytes go over the link. `beside`: the other
        lane is busy when the move begins."""
        calls = -(-move.bytes // self.call_bytes)
        call_ns = calls * (self.fill_ns if move.kind == FILL else self.evict_ns)
        pages = move.bytes // self.page_bytes
        if move.flags & DEAD:
            cost = self.place if move.kind == FILL else self.discard
            return call_ns + pages * (cost.beside if beside else cost.alone), 0
        if move.flags & CLEAN:
            return call_ns + pages * self.drop_ns, 0
        return call_ns + (pages * self.keep_ns if move.flags & KEEP else 0), move.bytes


# Managed memory: cuMemPrefetchAsync, and the driver's faults.
UM = Link(
    "um",
    rate_in=figure("um.in"),
    rate_out=figure("um.out"),
    rate_both=figure("um.both"),
    rate_fault=figure("um.fault"),
    fill_ns=figure("um.call"),
    evict_ns=figure("um.call"),
    place=Cost(figure("um.place"), figure("um.place-beside")),
    discard=Cost(figure("um.discard"), figure("um.discard-beside")),
    drop_ns=figure("um.unadvise"),
    keep_ns=figure("um.advise"),
    note="the figures are of single calls; steps were measured with an earlier engine",
)
# Handles of 16 MiB mapped anew, while the bytes of others go: a lane has three threads.
VMM = Link(
    "vmm",
    rate_in=figure("vmm.copy"),
    rate_out=figure("vmm.copy"),
    rate_both=figure("vmm.both"),
    rate_fault=0,
    fill_ns=figure("vmm.map"),
    evict_ns=figure("vmm.unmap"),
    call_bytes=16 * MIB,
    movers=3,
    note="has not run on a GPU; assumes handles of 16 MiB, with one a page, as the backend has"
    " them now, see `pump sim --link vmm-pages`",
)
# The same with a handle a page, and absent pages mapped to the host's: mapping takes longer than
# the bytes, and hides them.
VMM_PAGES = Link(
    "vmm-pages",
    rate_in=VMM.page_bytes / figure("vmm-pages.in"),
    rate_out=VMM.page_bytes / figure("vmm-pages.out"),
    rate_both=figure("vmm-pages.both"),
    rate_fault=0,
    place=Cost(figure("vmm-pages.in"), figure("vmm-pages.in")),
    discard=Cost(figure("vmm-pages.out"), figure("vmm-pages.out")),
    drop_ns=figure("vmm-pages.out"),
)
LINKS = {link.name: link for link in (UM, VMM)}
"""Of the backends."""
MODELS = LINKS | {VMM_PAGES.name: VMM_PAGES}
