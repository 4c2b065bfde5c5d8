"""GPT-2 small (124 million parameters) training, 4 x 512 tokens, bf16 autocast, AdamW."""

from bench.gpu.workloads.gpt2_medium import TINY, gpt2
from bench.gpu.workloads.work import Work


def make(device: str, tiny: bool) -> Work:
    """AdamW trains all weights."""
    return gpt2(device, TINY if tiny else {}, (2, 16) if tiny else (4, 512))
