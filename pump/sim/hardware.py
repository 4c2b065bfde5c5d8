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
    """A GPU: its memory, bytes; the rate of it, GB/s; its arithmetic, TFLOP/s: that of 16-bit
    products summed in 32 bits by tensor cores, dense, and that of 32-bit numbers without them; the
    name of its interconnect; the vendor's document that has all.
    """

    name: str
    memory: int
    bandwidth: float
    tensor: float
    fp32: float
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
        Gpu("H200", 141 * GIB, 4800, 989, 67, "pcie5-x16", H200),
        Gpu("GH200", 96 * GIB, 4000, 989, 67, "nvlink-c2c", GH200),
        Gpu("H100", 80 * GIB, 3350, 989, 67, "pcie5-x16", H100),
        Gpu("A100", 80 * GIB, 2039, 312, 19.5, "pcie4-x16", A100),
        Gpu("RTX-5090", 32 * GIB, 1792, 209.5, 104.8, "pcie5-x16", BLACKWELL),
        Gpu("RTX-4090", 24 * GIB, 1008, 165.2, 82.6, "pcie4-x16", ADA),
        Gpu("L4", 24 * GIB, 300, 121, 30.3, "pcie4-x16", L4),
    )
}
REFERENCE = GPUS["H200"]
"""What pump.sim.link was measured on, and the recorded steps of bench/traces."""
OTHERS = {"PCIe", "PCIE", "NVL", "Laptop", "D", "40GB", "144G", "MIG"}
"""Words in the names of GPUs with other rates than the row that has the rest of their name."""


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


def recorded_on(told: str) -> Gpu | None:
    """The same where the rates have to be those of the row, too."""
    return None if OTHERS & set(told.replace("-", " ").split()) else gpu_named(told)
