"""A decoder replayed as a CUDA graph, static cache, bf16: 4 tokens a step for 8 sequences."""

from bench.gpu.workloads.cached import decoder, replayed
from bench.gpu.workloads.sizes import GRAPH_DECODE
from bench.gpu.workloads.work import Work


def make(device: str, tiny: bool) -> Work:
    """Greedy. Bytes limit a token: one alone would take less than 5 ms."""
    one, _ = decoder(device, GRAPH_DECODE[tiny])
    return replayed(one, lambda: one.run(one.last))
