"""What is told of programs, tenants and GPUs beside the counters: a row each. Tables, the screen of
`pump top` and `pump metrics` are made of these rows.
"""

from dataclasses import dataclass

from pump.cli.summary import time_text
from pump.sizes import format_size

THOUSANDTHS = "thousandths"


@dataclass(frozen=True)
class Quantity:
    """One number that is told."""

    key: str
    """Where it is told. `_ns` and `_s` at its end are its unit."""
    help: str
    unit: str = ""
    """`B` for bytes, `s`, THOUSANDTHS, else empty."""
    grows: bool = False
    """It is a sum, else what is so now."""
    heading: str = ""
    """Of its column in a table; empty: it has none."""

    def text(self, value: float) -> str:
        """A value, for people."""
        if self.unit == THOUSANDTHS:
            return per_cent(value)
        if self.key.endswith("_ns"):
            return time_text(value)
        return format_size(value) if self.unit == "B" else f"{value:,.0f}"


PROCESS = (
    Quantity("opened", "time at which counting began, since 1970", "s"),
    Quantity("idle_s", "time since the program last issued work"),
)
"""Of a snapshot."""
MEMORY = (
    Quantity("used", "device memory that is charged to the program", "B", heading="used"),
    Quantity("peak", "the most that was charged at a time", "B", heading="peak"),
    Quantity("capacity", "device memory that the program may use", "B", heading="limit"),
)
"""Of a snapshot's device. No capacity: no limit."""
GPU = (
    Quantity("capacity", "memory that tenants share", "B"),
    Quantity("crowded", "1: the needs of those that work do not fit together"),
    Quantity("taking_turns", "1: tenants take turns, 0: all run at once"),
    Quantity("turns", "exclusive turns that began", grows=True),
    Quantity("thrashed", "times that turns began because pages came back too often", grows=True),
)
"""Of a GPU in the broker's status."""
TENANT = (
    Quantity("had", "share of GPU time in the last ten seconds", THOUSANDTHS, heading="had 10 s"),
    Quantity("resident", "memory on the GPU", "B", heading="resident"),
    Quantity("budget", "memory that may be on the GPU", "B", heading="budget"),
    Quantity("need", "memory that the next turn touches", "B", heading="needs"),
    Quantity("waited_ns", "time spent waiting for a turn", grows=True, heading="waited"),
    Quantity("turns", "turns that began", grows=True, heading="turns"),
    Quantity("switches", "times that a turn was given", grows=True, heading="switches"),
    Quantity("refilled", "pages that came back to the GPU", "B", grows=True, heading="in"),
    Quantity("evicted", "pages that went to the host", "B", grows=True, heading="out"),
    Quantity("filed", "memory that lies in a file", "B", heading="in a file"),
    Quantity("used", "memory of all allocations, wherever it is", "B"),
    Quantity("reserved", "memory on the GPU that is not given back yet, or may be used", "B"),
    Quantity("host", "memory that may move, on all GPUs of the process", "B"),
    Quantity("stays", "memory on the GPU that a suspended program keeps", "B"),
    Quantity("nvml_used", "memory that NVML counts, with the context", "B"),
    Quantity("memory_limit", "memory that the share may have; 0: no limit", "B"),
    Quantity("request", "least share of GPU time; 0: none was asked for", THOUSANDTHS),
    Quantity("limit", "most share of GPU time; 0: no limit", THOUSANDTHS),
    Quantity("priority", "a share runs only while none of a higher priority wants to"),
    Quantity("operations", "operations that ended", grows=True),
    Quantity("stalled_ns", "time in which operations waited for pages", grows=True),
    Quantity("hold_ns", "time with a turn", grows=True),
    Quantity("charged_ns", "time with a turn, divided by how many had one", grows=True),
    Quantity("late", "turns that were given back after more than 500 ms", grows=True),
)
"""Of a tenant in the broker's status; sums are since it joined."""


def per_cent(thousandths: float) -> str:
    """A share, for people."""
    return f"{thousandths / 10:g} %"
