"""What a run in virtual time was in its steady state."""

from dataclasses import dataclass
from statistics import median

from pump.sim.engine import Stats


@dataclass(frozen=True)
class Result:
    """The steady state."""

    steps_ns: tuple[float, ...]  # each
    busy_ns: float  # while an operation ran, what it faulted in included
    sums: Stats  # what the steps added
    came: int = 0  # pages that came, where a page is a handle
    back: int = 0  # of these, those that got the frame back that they had left

    @property
    def steps(self) -> int:
        return len(self.steps_ns)

    @property
    def total_ns(self) -> float:
        return sum(self.steps_ns)

    @property
    def step_ms(self) -> float:
        """The median step, as `pump-bench` counts."""
        return median(self.steps_ns) / 1e6

    @property
    def bytes_in(self) -> float:
        """A step, over the link."""
        sums = self.sums
        return (sums.filled_bytes + sums.faulted_bytes + sums.in_place_bytes) / self.steps

    @property
    def bytes_out(self) -> float:
        """A step, over the link."""
        return (self.sums.evicted_bytes + self.sums.in_place_written_bytes) / self.steps

    @property
    def gate_ms(self) -> float:
        """A step's time in which the device had nothing to run: what came next was held."""
        return max(0.0, self.total_ns - self.busy_ns) / self.steps / 1e6

    @property
    def useless(self) -> float:
        """The share of the bytes filled that left again, or were freed, untouched."""
        return self.sums.useless_bytes / max(1, self.sums.filled_bytes)
