"""What moving a byte costs: models of the link, with figures measured on one H200 (PCIe 5 x16)."""

from dataclasses import dataclass

from pump.sim.engine import CLEAN, DEAD, FILL, Move
from pump.sizes import MIB


@dataclass(frozen=True)
class Link:
    """Rates in bytes a nanosecond (GB/s), times in nanoseconds."""

    name: str
    rate_in: float
    rate_out: float
    rate_both: float  # in sum, while bytes go both ways
    rate_fault: float  # what kernels bring by touching it; 0: they cannot
    fill_ns: float  # a move costs this before its bytes
    evict_ns: float
    page_bytes: int = 2 * MIB
    run_bytes: int = 32 * MIB
    ahead_bytes: int = 64 * MIB
    keeps: bool = True

    def rates(self, both: bool) -> tuple[float, float]:
        """In and out. Both ways at once each gets half, or what the other leaves of it."""
        if not both:
            return self.rate_in, self.rate_out
        half = self.rate_both / 2
        rate_in = min(self.rate_in, max(half, self.rate_both - self.rate_out))
        return rate_in, min(self.rate_out, self.rate_both - rate_in)

    def cost(self, move: Move) -> tuple[float, int]:
        """Nanoseconds before the bytes, and how many bytes go over the link."""
        setup = self.fill_ns if move.kind == FILL else self.evict_ns
        return setup, 0 if move.flags & (DEAD | CLEAN) else move.bytes


# Managed memory: cuMemPrefetchAsync, and the driver's faults.
UM = Link("um", 44, 23, 40, 14, 2_800, 2_800)
# Handles mapped anew, in runs of 16 MiB: 2 us map and 27 us access in, 17 us unmap out.
VMM = Link("vmm", 55, 55, 110, 0, 29_000, 17_000)
LINKS = {link.name: link for link in (UM, VMM)}
