"""A decoder of 3 billion parameters, bf16: one token a step for 4 sequences."""

from bench.gpu.workloads.decode_8b import decode
from bench.gpu.workloads.llama import THREE, TINY
from bench.gpu.workloads.work import Work


def make(device: str, tiny: bool) -> Work:
    """Greedy; the cache grows by a token a step."""
    return decode(device, TINY if tiny else THREE, (4, 8 if tiny else 64))
