"""A decoder of 3 billion parameters, bf16: 2 prompts of 2048 tokens a step."""

from bench.gpu.workloads.llama import THREE, TINY
from bench.gpu.workloads.prefill_8b import prefill
from bench.gpu.workloads.work import Work


def make(device: str, tiny: bool) -> Work:
    """Only the last token's scores are wanted."""
    return prefill(device, TINY if tiny else THREE, (2, 16) if tiny else (2, 2048))
