"""GPUs and the links to them: what a prediction assumes, and where each figure is from.

A link that was not measured gets the share of its raw rate that was reached on an H200: the work of
driver and protocol is taken to be alike. Faults are bound by their handling, not by the link, and
get no faster on a faster one. Raw rates, memory and its rate are as the vendor's documents have
them; their GB of memory are taken as GiB.
"""

from dataclasses import dataclass, replace

from pump.sim.link import Link
from pump.sizes import GIB

H200 = "NVIDIA H200 Tensor Core GPU data sheet"
GH200 = "NVIDIA GH200 Grace Hopper Superchip data sheet"
H100 = "NVIDIA H100 Tensor Core GPU data sheet"
A100 = "NVIDIA A100 Tensor Core GPU data sheet"
L4 = "NVIDIA L4 Tensor Core GPU data sheet"
BLACKWELL = "NVIDIA RTX Blackwell GPU Architecture, white paper"
ADA = "NVIDIA Ada GPU Architecture, white paper"


@dataclass(frozen=True)
class Interconnect:
    """A kind of link between GPU and host: its raw rate each way, GB/s, and the vendor's document
    that has it, in the words of the note.
    """

    name: str
    raw: float
    source: str
    note: str


@dataclass(frozen=True)
class Gpu:
    """A GPU: its memory, bytes; the rate of it, GB/s; the name of its interconnect; the vendor's
    document that has both.
    """

    name: str
    memory: int
    bandwidth: float
    interconnect: str
    source: str


INTERCONNECTS = {
    row.name: row
    for row in (
        Interconnect("pcie5-x16", 64, H200, "128 GB/s both ways in sum"),
        Interconnect("pcie4-x16", 32, A100, "64 GB/s both ways in sum"),
        Interconnect("nvlink-c2c", 450, GH200, "900 GB/s both ways in sum"),
    )
}
GPUS = {
    row.name: row
    for row in (
        Gpu("H200", 141 * GIB, 4800, "pcie5-x16", H200),
        Gpu("GH200", 96 * GIB, 4000, "nvlink-c2c", GH200),
        Gpu("H100", 80 * GIB, 3350, "pcie5-x16", H100),
        Gpu("A100", 80 * GIB, 2039, "pcie4-x16", A100),
        Gpu("RTX-5090", 32 * GIB, 1792, "pcie5-x16", BLACKWELL),
        Gpu("RTX-4090", 24 * GIB, 1008, "pcie4-x16", ADA),
        Gpu("L4", 24 * GIB, 300, "pcie4-x16", L4),
    )
}
REFERENCE = GPUS["H200"]
"""What pump.sim.link was measured on, and the recorded steps of bench/traces."""


def was_measured(gpu: Gpu, interconnect: Interconnect) -> bool:
    """What is reached of that GPU's link was measured, and is not a share taken from another's."""
    return gpu is REFERENCE and interconnect.name == REFERENCE.interconnect


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
