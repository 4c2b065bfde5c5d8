"""Counters of ulms.so that a measured process reports: how many bytes moved, what else took time.

A process is asked for them by REPORT_COUNTERS, and tells how they grew over its timed steps.
"""

from collections.abc import Mapping, Sequence

COUNTERS_IN = ("filled_bytes", "faulted_bytes", "in_place_bytes")
COUNTERS_OUT = ("evicted_bytes", "in_place_written_bytes")
"""What went over the link, each way: their sums are a row's bytes."""
COUNTERS_OWN = ("admit_ns", "settle_ns")
EXPLAIN = (
    "in_place_bytes",
    "in_place_written_bytes",
    "moves",
    "dead_bytes",
    "dropped_bytes",
    "useless_bytes",
    "in_ns",
    "out_ns",
    "sent_ns",
    "mapped_bytes",
    "map_ns",
    "late",
    "opaque",
    "untrusted",
    "launches_blind",
    "graphs_cut",
    "short_operations",
    "predicted",
    "surprises",
)
"""What tells where a step's time went, and which of its bytes did not move but were used in
place: kept by name.
"""
LARGEST = "largest_bytes"
"""The most that one operation touched, over the whole run."""
COUNTERS = tuple(
    dict.fromkeys((*COUNTERS_IN, *COUNTERS_OUT, *COUNTERS_OWN, "held_ns", LARGEST, *EXPLAIN))
)


def asked_for(names: Sequence[str] = COUNTERS) -> dict[str, str]:
    """The environment of a process that is to report them."""
    return {"REPORT_COUNTERS": ",".join(names)}


def sum_of(moved: Mapping[str, float], names: Sequence[str], unit: float = 1) -> float | None:
    """Of counters; None: one was not asked for."""
    return sum(moved[name] for name in names) / unit if {*names} <= moved.keys() else None
