"""GPUs and the links to them: what a prediction assumes, and where each figure is from.

A link that was not measured gets the share of its raw rate that was reached on an H200: the work of
driver and protocol is taken to be alike. Faults are bound by their handling, not by the link, and
get no faster on a faster one. Memory and its rate are as the vendor's data sheet has them.
"""

from dataclasses import dataclass, replace

from pump.sim.link import Link
from pump.sizes import GIB

MEASURED = "measured"
DATA_SHEET = "data sheet"


@dataclass(frozen=True)
class Interconnect:
    """A kind of link between GPU and host: its raw rate each way, GB/s."""

    name: str
    raw: float
    source: str
    note: str


@dataclass(frozen=True)
class Gpu:
    """A GPU: its memory, bytes; the rate of it, GB/s; the name of its interconnect."""

    name: str
    memory: int
    bandwidth: float
    interconnect: str
    source: str = DATA_SHEET


INTERCONNECTS = {
    row.name: row
    for row in (
        Interconnect("pcie5-x16", 64, MEASURED, "what is reachable of it, on an H200"),
        Interconnect("pcie4-x16", 32, DATA_SHEET, "64 GB/s both ways in sum, NVIDIA A100 and L4"),
        Interconnect("nvlink-c2c", 450, DATA_SHEET, "900 GB/s both ways in sum, NVIDIA GH200"),
    )
}
GPUS = {
    row.name: row
    for row in (
        Gpu("H200", 141 * GIB, 4800, "pcie5-x16"),
        Gpu("GH200", 96 * GIB, 4000, "nvlink-c2c"),
        Gpu("H100", 80 * GIB, 3350, "pcie5-x16"),
        Gpu("A100", 80 * GIB, 2039, "pcie4-x16"),
        Gpu("RTX-5090", 32 * GIB, 1792, "pcie5-x16"),
        Gpu("RTX-4090", 24 * GIB, 1008, "pcie4-x16"),
        Gpu("L4", 24 * GIB, 300, "pcie4-x16"),
    )
}
REFERENCE = GPUS["H200"]
"""What pump.sim.link was measured on, and the recorded steps of bench/traces."""


def link_over(interconnect: Interconnect, link: Link) -> Link:
    """A link as it would be over an interconnect."""
    share = interconnect.raw / INTERCONNECTS[REFERENCE.interconnect].raw
    return replace(
        link,
        rate_in=link.rate_in * share,
        rate_out=link.rate_out * share,
        rate_both=link.rate_both * share,
        rate_fault=link.rate_fault * min(1.0, share),
        rate_read=link.rate_read * share,
        rate_update=link.rate_update * share,
        ordered=link_over(interconnect, link.ordered) if link.ordered else None,
    )


def gpu_named(told: str) -> Gpu | None:
    """The row of what nvidia-smi calls a GPU, such as `NVIDIA GeForce RTX 4090`; None: it has none.

    Memory and suffixes are not compared: links are alike.
    """
    words = set(told.replace("-", " ").split())
    return next((gpu for gpu in GPUS.values() if words.issuperset(gpu.name.split("-"))), None)


def slower(gpu: Gpu, recorded_on: Gpu = REFERENCE) -> float:
    """How many times longer an operation takes that is bound by memory. Others differ."""
    return recorded_on.bandwidth / gpu.bandwidth
