"""GPT-2 XL (1.6 billion parameters) training, 2 x 512 tokens, bf16 autocast, AdamW."""

from bench.gpu.workloads.gpt2_medium import TINY, gpt2
from bench.gpu.workloads.work import Work

XL = {"n_layer": 48, "n_head": 25, "n_embd": 1600}


def make(device: str, tiny: bool) -> Work:
    """As its size is known."""
    return gpt2(device, TINY if tiny else XL, (2, 16) if tiny else (2, 512))
